"""How a value that is only a layout of another lies in that other's memory."""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass

from xdsl.ir import Block, Operation, SSAValue

from anyshape.dialects.dhlo import BroadcastInDim, DotGeneral, Reshape, Transpose
from anyshape.dialects.sizes import row_major_strides, sizes_of
from anyshape.fusion.roles import only_ones_differ
from anyshape.symbolic import Size, size_min

ONE = Size.const(1)
ZERO = Size.const(0)


@dataclass(frozen=True)
class Layout:
    """`value[i…]` is `root` memory at Σ i·strides (in elements)."""

    root: SSAValue
    sizes: tuple[Size, ...]
    strides: tuple[Size, ...]

    def merged(self, first: int, last: int) -> tuple[Size, Size] | None:
        """Size and stride of axes [first, last) as one axis, None when memory does not allow it; (1, 0) for none."""
        size, stride = ONE, ZERO
        for axis in reversed(range(first, last)):
            if self.sizes[axis] == ONE:
                continue
            if size == ONE:
                size, stride = self.sizes[axis], self.strides[axis]
            elif self.strides[axis] == stride * size:
                size = size * self.sizes[axis]
            else:
                return None
        return size, stride


def layout_of(value: SSAValue, inside: Container[Operation] | None = None) -> Layout:
    """The layout of a value through transposes, broadcasts and unit reshapes down to a dense buffer.

    A block argument is a dense buffer, and so is the result of an op that is not `inside` (any op is when None).
    """
    owner = value.owner
    sizes = sizes_of(value.type)
    if isinstance(owner, Operation) and inside is not None and owner not in inside:
        return Layout(value, sizes, row_major_strides(sizes))
    match owner:
        case Transpose():
            source = layout_of(owner.operands[0], inside)
            order = owner.attribute("permutation")
            return Layout(source.root, sizes, tuple(source.strides[axis] for axis in order))
        case BroadcastInDim():
            source = layout_of(owner.operands[0], inside)
            strides = [ZERO] * len(sizes)
            for axis, target in enumerate(owner.attribute("dimensions")):
                size = source.sizes[axis]
                if size == sizes[target]:
                    strides[target] = source.strides[axis]
                elif size != ONE:  # open, 1 or n: the stride is 0 when the size is 1
                    strides[target] = source.strides[axis] * size_min(size - 1, 1)
            return Layout(source.root, sizes, tuple(strides))
        case Reshape() if only_ones_differ(owner):
            source = layout_of(owner.operands[0], inside)
            real = iter(stride for stride, size in zip(source.strides, source.sizes, strict=True) if size != ONE)
            return Layout(source.root, sizes, tuple(ZERO if size == ONE else next(real) for size in sizes))
        case Block():
            return Layout(value, sizes, row_major_strides(sizes))
        case _:
            raise ValueError(f"{owner.name} is not a layout of its operand")


@dataclass(frozen=True)
class Matrices:
    """Both factors as matrices: sizes and (batch…, row, column) strides."""

    batch: tuple[Size, ...]
    m: Size
    n: Size
    k: Size
    lhs: tuple[Size, ...]
    rhs: tuple[Size, ...]


def matrices_of(op: DotGeneral, inside: Container[Operation] | None = None) -> Matrices:
    """Both factors as matrices; ValueError when memory does not allow it."""
    lhs, rhs = (layout_of(operand, inside) for operand in op.operands)
    batch = [lhs.sizes[axis] for axis in op.attribute("lhs_batch")]
    m, k, lhs_strides = _matrix(lhs, op.attribute("lhs_batch"), op.attribute("lhs_contract"), "left")
    n, _, rhs_strides = _matrix(rhs, op.attribute("rhs_batch"), op.attribute("rhs_contract"), "right")
    sides = ((lhs, "lhs_batch"), (rhs, "rhs_batch"))
    batch_strides = [tuple(side.strides[axis] for axis in op.attribute(key)) for side, key in sides]
    return Matrices(
        tuple(batch), m, n, k, (*batch_strides[0], *lhs_strides), (*batch_strides[1], *reversed(rhs_strides))
    )


def _matrix(
    side: Layout, batch: Sequence[int], contract: Sequence[int], which: str
) -> tuple[Size, Size, tuple[Size, Size]]:
    """Free size, contracted size, and (free, contracted) strides of one factor."""
    free = [axis for axis in range(len(side.sizes)) if axis not in batch and axis not in contract]
    found: list[tuple[Size, Size]] = []
    for axes in (free, list(contract)):
        part = Layout(side.root, tuple(side.sizes[a] for a in axes), tuple(side.strides[a] for a in axes))
        merged = part.merged(0, len(axes))
        if merged is None:
            raise ValueError(f"axes {axes} of the {which} factor are not one axis in memory")
        found.append(merged)
    return found[0][0], found[1][0], (found[0][1], found[1][1])


def can_multiply(op: DotGeneral, inside: Container[Operation] | None = None) -> str | None:
    """None when both factors are strided matrices over their batch axes, else why not."""
    try:
        matrices_of(op, inside)
    except ValueError as error:
        return str(error)
    return None
