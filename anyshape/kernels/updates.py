"""Plans of updates: a loop nest over the part of a tensor that is replaced, whose results lie inside the memory of that tensor."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from xdsl.ir import Block, Operation, SSAValue

from anyshape.dialects.dhlo import DynamicUpdateSlice
from anyshape.dialects.dhlo.fusion import YieldOp
from anyshape.dialects.sizes import dtype_of, row_major_strides, sizes_of
from anyshape.dialects.tile import BufferType, KernelOp, buffer
from anyshape.kernels.canonical import CanonicalGroup
from anyshape.kernels.collapse import Axis, collapse
from anyshape.kernels.loops import carried_sites, plan_collapsed
from anyshape.symbolic import Size

ONE = Size.const(1)


@dataclass(frozen=True)
class Update:
    """A result that is part of an input's memory: the group's input, and the element of it at which the kernel's buffer begins."""

    input: int
    offset: Size


def plan_updates(
    group: CanonicalGroup, name: str, sites: Mapping[Operation, int]
) -> tuple[KernelOp, tuple[int, ...], Size, tuple[Update, ...]]:
    """The kernel, which group input each of its input buffers is, the points that a launch divides, and where each result lies."""
    last = group.block.last_op
    assert isinstance(last, YieldOp)
    found = [value.owner for value in last.values]
    updates = [op for op in found if isinstance(op, DynamicUpdateSlice)]
    assert len(updates) == len(found), "every result of an update group is an update"
    parts, inputs = _parts_of(group.block, updates)
    yielded = parts.last_op
    assert isinstance(yielded, YieldOp)
    apart: dict[Axis, int] = {}
    for value, update in zip(yielded.values, updates, strict=True):
        apart |= {(value, axis): number for axis, number in enumerate(_runs_in_memory(update))}
    collapsed = collapse(parts, apart)
    outputs = [
        _buffer_of(update, sizes_of(result.type)) for update, result in zip(updates, collapsed.results, strict=True)
    ]
    kernel, extent = plan_collapsed(collapsed, name, group.names, carried_sites(sites, parts, collapsed.block), outputs)
    where = tuple(Update(_input_of(update), _offset_of(update)) for update in updates)
    return kernel, inputs, extent, where


def _parts_of(block: Block, updates: list[DynamicUpdateSlice]) -> tuple[Block, tuple[int, ...]]:
    """The group's block that yields the parts instead of the whole tensors, and which of its arguments are left."""
    inputs = tuple(
        argument.index
        for argument in block.args
        if any(not (use.operation in updates and use.index == 0) for use in argument.uses)
    )
    parts = Block(arg_types=[block.args[index].type for index in inputs])
    inner: dict[SSAValue, SSAValue] = {block.args[index]: new for index, new in zip(inputs, parts.args, strict=True)}
    for op in block.ops:
        if not isinstance(op, DynamicUpdateSlice | YieldOp):
            parts.add_op(op.clone(inner))
    parts.add_op(YieldOp(*(inner[update.operands[1]] for update in updates)))
    return parts, inputs


def _runs_in_memory(update: DynamicUpdateSlice) -> list[int]:
    """For each axis of the part, the number of its run: neighbours are one run where they are one axis in the whole's memory."""
    runs = [0]
    for part, whole in zip(update.operand_sizes(1)[1:], update.operand_sizes(0)[1:], strict=True):
        runs.append(runs[-1] + (part != whole))
    return runs


def _buffer_of(update: DynamicUpdateSlice, collapsed: tuple[Size, ...]) -> BufferType:
    """The part in the memory of the whole, under the part's collapsed axes."""
    strides: list[Size] = []
    axes = list(zip(update.operand_sizes(1), row_major_strides(update.operand_sizes(0)), strict=True))
    for extent in reversed(collapsed):
        while axes[-1][0] == ONE and extent != ONE:
            axes.pop()
        size, stride = axes.pop()
        while size != extent:
            size = size * axes.pop()[0]
        strides.insert(0, stride)
    return buffer(dtype_of(update.result.type).scalar, collapsed, strides)


def _input_of(update: DynamicUpdateSlice) -> int:
    whole = update.operands[0]
    block = update.parent
    assert block is not None
    return list(block.args).index(whole)  # pyright: ignore[reportArgumentType]


def _offset_of(update: DynamicUpdateSlice) -> Size:
    strides = row_major_strides(update.operand_sizes(0))
    pairs = zip(update.size_list("starts"), strides, strict=True)
    return sum((start * stride for start, stride in pairs), Size.const(0))


__all__ = ["Update", "plan_updates"]
