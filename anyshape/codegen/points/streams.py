"""Streams: results that no cache could hold until they are read are stored past the caches.

An ordinary store first reads the line that it changes, and drives out another one. A non-temporal store of a whole line does
neither: a map of far more than the last-level cache moves two thirds of the bytes. What stays in that cache is stored as usual,
since the next kernel reads it from there; so the choice is made at each launch, by the result's size. As much as a result is usually
read for it, too, and takes its share of the cache.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from xdsl.ir import Block, SSAValue

from anyshape.codegen.builder import Builder
from anyshape.codegen.mlir import Operand, Value
from anyshape.codegen.points.memory import Memory
from anyshape.codegen.points.values import Frame, Points, Uniform, is_uniform
from anyshape.codegen.sizes import element_bytes, multiple_of
from anyshape.dialects.tile import KernelOp, LoadOp, StoreOp, buffer_of
from anyshape.dialects.tile.ops import AxisOp, DotOp
from anyshape.support.machine import Machine
from anyshape.symbolic import Size

CACHE_PART = 2
"""Of the last-level cache a result may take one in so many, and is then left there."""


@dataclass(frozen=True)
class Stream:
    """How the whole vectors of an axis may be stored.

    Args:
        is_on: whether they go past the caches.
        head: points before the first whole vector whose store is aligned; None where it is the first of the axis.
    """

    is_on: Value
    head: Value | None


def streamed_sizes(b: Builder, kernel: KernelOp, machine: Machine) -> dict[SSAValue, Size]:
    """Bytes of each result that is only written and may be too large for the last-level cache."""
    read = {op.buffer for op in kernel.walk() if isinstance(op, LoadOp)}
    sizes: dict[SSAValue, Size] = {}
    for op in kernel.walk():
        if isinstance(op, StoreOp) and isinstance(op.buffer.owner, Block) and op.buffer not in read:
            bytes_ = Size.const(element_bytes(buffer_of(op.buffer).element_type))
            for extent in buffer_of(op.buffer).sizes.data:
                bytes_ = bytes_ * extent
            if bytes_.constant_or(machine.last_level_cache) > machine.last_level_cache // CACHE_PART:
                sizes[op.buffer] = bytes_
    return sizes


def stream_of(
    b: Builder, memory: Memory, block: Block, lane: SSAValue, values: Mapping[SSAValue, Points], width: int, lower: Operand
) -> Stream | None:  # fmt: skip
    """How the stores of an axis without reductions may stream, None where none may: all have to be aligned at the same point.

    Args:
        block, lane: the body of the axis, and its index.
        values: the indices around the axis, the same at all its points.
    """
    stores = _stores(memory, block, lane, values)
    if not stores:
        return None
    is_on = memory.streams[stores[0].buffer]
    for store in stores[1:]:
        is_on = b.and_(is_on, memory.streams[store.buffer])
    addresses = [_address(b, memory, store, values, width, lower) for store in stores]
    sizes = [element_bytes(buffer_of(store.buffer).element_type) for store in stores]
    head: Value | None = None
    if not isinstance(lower, int) or not all(_rows_are_aligned(store.buffer, width) for store in stores):
        line = width * sizes[0]
        head = b.shr(b.and_(b.neg(addresses[0]), line - 1), sizes[0].bit_length() - 1)
        addresses = [b.add(address, b.mul(head, size)) for address, size in zip(addresses, sizes, strict=True)]
    for address, size in zip(addresses, sizes, strict=True):
        is_on = b.and_(is_on, b.cmp("eq", b.and_(address, width * size - 1), 0))
    return Stream(is_on, None if head is None else b.select(is_on, head, 0))


def _stores(memory: Memory, block: Block, lane: SSAValue, values: Mapping[SSAValue, Points]) -> list[StoreOp]:
    """The stores of an axis to results that may stream; none unless all of them write vectors side by side."""
    if any(isinstance(op, AxisOp | DotOp) for op in block.ops):
        return []
    stores = [op for op in block.ops if isinstance(op, StoreOp) and op.buffer in memory.streams]
    return stores if all(_is_adjacent(store, lane, values) for store in stores) else []


def _is_adjacent(store: StoreOp, lane: SSAValue, values: Mapping[SSAValue, Points]) -> bool:
    *outer, last = store.indices
    stays = all(index in values and is_uniform(values[index]) for index in outer)
    return last is lane and stays and buffer_of(store.buffer).strides.data[-1] == Size.const(1)


def _address(
    b: Builder, memory: Memory, store: StoreOp, values: Mapping[SSAValue, Points], width: int, lower: Operand
) -> Value:
    """Where the first point of an axis is stored, as a number."""
    start = b.const(b.i64, lower) if isinstance(lower, int) else lower
    indices = [*(values[index] for index in list(store.indices)[:-1]), Uniform((start,), step=1)]
    return memory.address(store.buffer, indices, Frame(width=width))


def _rows_are_aligned(buffer: SSAValue, width: int) -> bool:
    """Whether every row starts at a whole vector from the first."""
    return all(multiple_of(stride, width) for stride in buffer_of(buffer).strides.data[:-1])


def streams(b: Builder, bytes_: Value, machine: Machine) -> Value:
    """Whether a result of so many bytes is stored past the caches."""
    return b.cmp("sgt", bytes_, machine.last_level_cache // CACHE_PART)


__all__ = ["Stream", "stream_of", "streamed_sizes", "streams"]
