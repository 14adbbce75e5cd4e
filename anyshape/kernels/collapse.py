"""Collapse the axes of a group: fewer, longer axes for the same dense memory.

Two adjacent axes become one when every value of the group that has the first has the second right behind it, and an axis
of constant size 1 disappears. Elementwise ops, broadcasts, reductions and transposes pass axes through; so do slices, pads,
concatenations and positions along the axes that they leave alone. Any other axis that an op touches is pinned: it stays.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.utils.disjoint_set import DisjointSet

from anyshape.dialects.dhlo import (
    BroadcastInDim,
    Chunk,
    Concatenate,
    Constant,
    DhloOp,
    Iota,
    Pad,
    Reduce,
    Reshape,
    Scan,
    Slice,
    Transpose,
)
from anyshape.dialects.dhlo.attributes import attribute_of
from anyshape.dialects.dhlo.fusion import YieldOp
from anyshape.dialects.sizes import DimsAttr, dtype_of, numel, sizes_of, tensor
from anyshape.fusion.roles import domain_of, is_elementwise, real_axes, reduced_axes
from anyshape.kernels.canonical import recreate
from anyshape.symbolic import Size

ONE = Size.const(1)
Axis = tuple[SSAValue, int]


@dataclass(frozen=True)
class Collapsed:
    """A group block with fewer axes."""

    block: Block

    @property
    def results(self) -> Sequence[SSAValue]:
        last = self.block.last_op
        assert isinstance(last, YieldOp)
        return last.values


@dataclass
class _Axes:
    """Which axes of which values are one axis of the iteration."""

    sets: DisjointSet[Axis]
    pinned: set[Axis] = field(default_factory=set[Axis])

    def same(self, a: Axis, b: Axis) -> None:
        self.sets.union(a, b)

    def pin(self, value: SSAValue) -> None:
        self.pinned.update((value, axis) for axis in range(len(sizes_of(value.type))))

    def name(self, value: SSAValue, axis: int) -> Axis:
        return self.sets.find((value, axis))


def collapse(block: Block, apart: Mapping[Axis, int] | None = None) -> Collapsed:
    """A copy of the group's block with collapsed axes. Types of arguments and results change, memory does not.

    Axes to which `apart` gives different numbers are not merged (0 where it gives none).
    """
    values = [*block.args, *(result for op in block.ops for result in op.results)]
    axes = _Axes(DisjointSet([(value, axis) for value in values for axis in range(len(sizes_of(value.type)))]))
    for op in block.ops:
        _relate(op, axes)
    _relate_equal(_walked(block), axes)
    runs = _runs(values, axes, apart or {})
    copy = Block(arg_types=[_collapsed_type(argument, runs) for argument in block.args])
    inner: dict[SSAValue, SSAValue] = dict(zip(block.args, copy.args, strict=True))
    for op in block.ops:
        new = _rebuilt(op, [inner[value] for value in op.operands], runs)
        copy.add_op(new)
        inner.update(zip(op.results, new.results, strict=True))
    return Collapsed(copy)


def _relate(op: Operation, axes: _Axes) -> None:
    match op:
        case YieldOp() | Constant():
            return
        case Iota():
            axes.pinned.add((op.result, op.attribute("axis")))
        case Concatenate() | Pad() | Slice():
            moved = moved_axes(op)
            for value in op.operands:
                for axis in range(len(sizes_of(value.type))):
                    if axis in moved:
                        axes.pinned.update([(value, axis), (op.result, axis)])
                    else:
                        axes.same((value, axis), (op.result, axis))
        case BroadcastInDim():
            result_sizes = op.result_sizes
            for axis, (target, size) in enumerate(zip(op.attribute("dimensions"), op.operand_sizes(), strict=True)):
                if size == result_sizes[target]:
                    axes.same((op.operands[0], axis), (op.result, target))
                elif size != ONE:  # open: 1 or n
                    axes.pinned.update([(op.operands[0], axis), (op.result, target)])
        case Transpose():
            for axis, source in enumerate(op.attribute("permutation")):
                axes.same((op.operands[0], source), (op.result, axis))
        case Reduce():
            gone = set(op.attribute("axes"))
            kept = [axis for axis in range(len(op.operand_sizes())) if axis not in gone]
            for axis, source in enumerate(kept):
                axes.same((op.operands[0], source), (op.result, axis))
        case Chunk():
            _relate_chunk(op, axes)
        case Scan():
            axes.pinned.add((op.result, op.axis))
            for axis in range(len(op.result_sizes)):
                axes.same((op.operands[0], axis), (op.result, axis))
        case Reshape() if op.only_ones_differ:
            real = [
                [a for a, size in enumerate(sizes) if size != ONE] for sizes in (op.operand_sizes(), op.result_sizes)
            ]
            for source, target in zip(*real, strict=True):
                axes.same((op.operands[0], source), (op.result, target))
        case _ if is_elementwise(op):
            for operand in op.operands:
                for axis in range(len(sizes_of(operand.type))):
                    axes.same((operand, axis), (op.results[0], axis))
        case _:
            for value in (*op.operands, *op.results):
                axes.pin(value)


def _relate_chunk(op: Chunk, axes: _Axes) -> None:
    """The axes that are cut may merge, since they are one axis of the result's positions; the two that they become may not."""
    first, cut, result = op.axes[0], len(op.axes), op.results[0]
    axes.pinned.update([(result, first), (result, first + 1)])
    if all(op.operand_sizes()[axis] == ONE for axis in op.axes):
        axes.pinned.add((op.operands[0], first))
    for axis in range(len(op.operand_sizes())):
        if axis not in op.axes:
            axes.same((op.operands[0], axis), (result, axis if axis < first else axis + 2 - cut))


def _walked(block: Block) -> list[SSAValue]:
    """The values over whose points the group's one nest runs: its results, and what its reductions go over."""
    last = block.last_op
    results = list(last.operands) if isinstance(last, YieldOp) else []
    return results + [op.operands[0] for op in block.ops if isinstance(op, Reduce) and reduced_axes(op)]


def _relate_equal(values: Sequence[SSAValue], axes: _Axes) -> None:
    """Relate the axes of values that have the same sizes, those of size 1 left out."""
    first: dict[tuple[Size, ...], SSAValue] = {}
    for value in values:
        other = first.setdefault(domain_of(value), value)
        for a, b in zip(real_axes(sizes_of(other.type)), real_axes(sizes_of(value.type)), strict=True):
            axes.same((other, a), (value, b))


def moved_axes(op: Concatenate | Pad | Slice) -> set[int]:
    """The axes along which the op's result is not just its operand."""
    zero = Size.const(0)
    match op:
        case Concatenate():
            return {op.attribute("axis")}
        case Pad():
            pairs = zip(op.attribute("low"), op.attribute("high"), strict=True)
            return {axis for axis, (low, high) in enumerate(pairs) if low != zero or high != zero}
        case _:
            parts = zip(
                op.attribute("starts"), op.attribute("strides"), op.result_sizes, op.operand_sizes(), strict=True
            )
            return {
                axis
                for axis, (start, stride, size, old) in enumerate(parts)
                if start != zero or stride != 1 or size != old
            }


Runs = dict[SSAValue, list[list[int]]]
"""For each value, its axes grouped into the axes that it keeps; dropped axes are in no run."""


def _runs(values: Sequence[SSAValue], axes: _Axes, apart: Mapping[Axis, int]) -> Runs:
    pinned = {axes.sets.find(axis) for axis in axes.pinned}
    members: dict[Axis, list[Axis]] = {}
    for value in values:
        for axis in range(len(sizes_of(value.type))):
            members.setdefault(axes.name(value, axis), []).append((value, axis))
    reduced = _reduced_axes(values, axes)
    label = {axes.sets.find(axis): number for axis, number in apart.items()}
    dropped = {
        name
        for name, group in members.items()
        if name not in pinned and all(sizes_of(value.type)[axis] == ONE for value, axis in group)
    }
    rows = {
        value: [axis for axis in range(len(sizes_of(value.type))) if axes.name(value, axis) not in dropped]
        for value in values
    }
    follower: dict[Axis, Axis | None] = {}
    leader: dict[Axis, Axis | None] = {}
    for value, row in rows.items():
        names = [axes.name(value, axis) for axis in row]
        for position, name in enumerate(names):
            after = names[position + 1] if position + 1 < len(names) else None
            before = names[position - 1] if position else None
            follower[name] = after if follower.get(name, after) == after else None
            leader[name] = before if leader.get(name, before) == before else None

    def joined(first: Axis, second: Axis) -> bool:
        return (
            follower[first] == second
            and leader[second] == first
            and not {first, second} & pinned
            and (first in reduced) == (second in reduced)
            and label.get(first, 0) == label.get(second, 0)
        )

    runs: Runs = {}
    for value, row in rows.items():
        grouped: list[list[int]] = []
        for axis in row:
            if grouped and joined(axes.name(value, grouped[-1][-1]), axes.name(value, axis)):
                grouped[-1].append(axis)
            else:
                grouped.append([axis])
        runs[value] = grouped
    return runs


def _reduced_axes(values: Sequence[SSAValue], axes: _Axes) -> set[Axis]:
    return {
        axes.name(owner.operands[0], axis)
        for value in values
        if isinstance(owner := value.owner, Reduce)
        for axis in owner.attribute("axes")
    }


def _collapsed_sizes(value: SSAValue, runs: Runs) -> list[Size]:
    sizes = sizes_of(value.type)
    return [numel([sizes[axis] for axis in run]) for run in runs[value]]


def _collapsed_type(value: SSAValue, runs: Runs) -> Attribute:
    return tensor(dtype_of(value.type), _collapsed_sizes(value, runs))


def _position(value: SSAValue, axis: int, runs: Runs) -> int | None:
    """The collapsed axis that an axis belongs to, None when it was dropped."""
    return next((position for position, run in enumerate(runs[value]) if axis in run), None)


def _kept_position(value: SSAValue, axis: int, runs: Runs) -> int:
    """The collapsed axis of a pinned axis, which none drops."""
    position = _position(value, axis, runs)
    assert position is not None
    return position


def _positions(value: SSAValue, axes: Sequence[int], runs: Runs) -> tuple[int, ...]:
    found = [_position(value, axis, runs) for axis in axes]
    return tuple(dict.fromkeys(position for position in found if position is not None))


def _rebuilt(op: Operation, operands: list[SSAValue], runs: Runs) -> Operation:
    if not isinstance(op, DhloOp):
        return recreate(op, operands, [])
    new = recreate(op, operands, [_collapsed_type(result, runs) for result in op.results])
    changed: dict[str, Any] = {}
    match op:
        case Constant() | Reshape():
            changed["sizes"] = _collapsed_sizes(op.result, runs)
        case BroadcastInDim():
            source, result = op.operands[0], op.result
            dimensions = op.attribute("dimensions")
            targets: list[int] = []
            for run in runs[source]:
                target = _position(result, dimensions[run[0]], runs)
                assert target is not None
                targets.append(target)
            changed["sizes"] = _collapsed_sizes(result, runs)
            changed["dimensions"] = tuple(targets)
        case Transpose():
            permutation = op.attribute("permutation")
            changed["permutation"] = _positions(op.operands[0], [permutation[run[0]] for run in runs[op.result]], runs)
        case Reduce():
            changed["axes"] = _positions(op.operands[0], op.attribute("axes"), runs)
        case Chunk():
            changed["axes"] = _positions(op.operands[0], op.axes, runs)
        case Iota():
            changed["sizes"] = _collapsed_sizes(op.result, runs)
            changed["axis"] = _kept_position(op.result, op.attribute("axis"), runs)
        case Concatenate() | Scan():
            changed["axis"] = _kept_position(op.result, op.attribute("axis"), runs)
        case Pad():
            for key in ("low", "high"):  # merged axes have no padding
                changed[key] = [op.attribute(key)[run[0]] for run in runs[op.result]]
        case Slice():
            changed["sizes"] = _collapsed_sizes(op.result, runs)
            changed["starts"] = [op.attribute("starts")[run[0]] for run in runs[op.result]]
            changed["strides"] = tuple(op.attribute("strides")[run[0]] for run in runs[op.result])
        case _:
            pass
    for key, value in changed.items():
        sizes = key in op.SIZE_ATTRIBUTES
        new.attributes[key] = DimsAttr(tuple(Size.of(size) for size in value)) if sizes else attribute_of(value)
    return new
