"""The space of a reduction or scan: the points that it visits, and those that stay."""

from __future__ import annotations

from dataclasses import dataclass

from anyshape.dialects.dhlo import Reduce, Scan
from anyshape.dialects.sizes import without_ones
from anyshape.fusion.roles import real_axes
from anyshape.symbolic import Size

Domain = tuple[Size, ...]


@dataclass(frozen=True)
class Space:
    """What the reductions of a group share: the points reduced over, and the axes that go."""

    domain: Domain
    axes: tuple[int, ...]

    @property
    def kept_axes(self) -> tuple[int, ...]:
        return tuple(axis for axis in range(len(self.domain)) if axis not in self.axes)

    @property
    def kept(self) -> Domain:
        return tuple(self.domain[axis] for axis in self.kept_axes)

    @property
    def innermost(self) -> bool:
        """Whether exactly the last axes go, so that one row is one outer point."""
        return self.kept_axes == tuple(range(len(self.kept_axes)))


def space_of(op: Reduce) -> Space:
    """The space of one reduction, axes of size 1 left out."""
    gone = set(op.attribute("axes"))
    real = real_axes(op.operand_sizes())
    return Space(
        without_ones(op.operand_sizes()), tuple(position for position, axis in enumerate(real) if axis in gone)
    )


def scanned_space(op: Scan) -> Space:
    """The space of one scan, its axis the only one that goes, axes of size 1 left out."""
    return Space(without_ones(op.operand_sizes()), (real_axes(op.operand_sizes()).index(op.axis),))
