"""ATen's fractional maximum pools: windows begin at places that random samples say."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import SSAValue

from anyshape.dialects.dhlo import (
    Add,
    ArgMax,
    BroadcastInDim,
    Compare,
    Divide,
    Iota,
    Multiply,
    Reduce,
    Select,
    Subtract,
)
from anyshape.dialects.dtypes import F32, F64, I64
from anyshape.dialects.sizes import dtype_of, numel, rank_of, sizes_of
from anyshape.frontends.torch.builder import GraphBuilder, Value, lowers
from anyshape.frontends.torch.movement import sliced
from anyshape.frontends.torch.sorting import taken
from anyshape.frontends.torch.unsupported import Unsupported
from anyshape.symbolic import Size, size_max


@lowers("aten.fractional_max_pool2d.default", "aten.fractional_max_pool3d.default")
def lower_fractional_max_pool(
    builder: GraphBuilder, x: SSAValue, kernel: Sequence[int], output: Sequence[Value], samples: SSAValue
) -> tuple[SSAValue, SSAValue]:
    """(the largest element of each window, its place in the plane)

    x [n, c, …] or [c, …], samples [n, c, axes] in [0, 1), of the last axis first in a plane of two. (Graham, Fractional Max-Pooling, 2014)
    """
    dtype = dtype_of(x.type)
    if dtype not in (F32, F64):
        raise Unsupported(f"windows of {dtype}, whose places PyTorch rounds at each step")
    axes = len(kernel)
    outer, plane = sizes_of(x.type)[:-axes], sizes_of(x.type)[-axes:]
    samples = builder.reshape(samples, (*outer, axes))
    windows = (*outer, *map(Size.of, output), *map(Size.of, kernel))
    places = builder.constant(0, I64, windows)
    for axis in range(axes):
        place = axes - 1 - axis if axes == 2 else axis
        room = plane[axis] - kernel[axis] + (1 if axes == 2 else 0)  # ATen wants one place more of three axes
        builder.require(room.ge(output[axis]), "fractional_max_pool")
        begins = _begins(builder, samples, place, plane[axis], kernel[axis], Size.of(output[axis]))
        spread = (*range(len(outer)), len(outer) + axis)
        begins = builder.emit(BroadcastInDim, begins, dimensions=spread, sizes=windows)
        within = builder.emit(Iota, axis=len(outer) + axes + axis, dtype=I64, sizes=windows)
        position = builder.emit(Add, begins, within)
        extent = builder.broadcast(builder.operand(plane[axis], I64), windows)
        places = builder.emit(Add, builder.emit(Multiply, places, extent), position)
    rows = builder.reshape(x, (*outer, numel(plane)))
    elements = taken(builder, rows, builder.reshape(places, (*outer, numel(windows[len(outer) :]))))
    return _largest(builder, elements, places, windows[: len(outer) + axes], numel(windows[len(outer) + axes :]))


def _begins(builder: GraphBuilder, samples: SSAValue, place: int, extent: Size, window: int, count: Size) -> SSAValue:
    """⌊(i + u)·α⌋ − ⌊u·α⌋, α = (extent − window) / (count − 1), and extent − window for the last: i64 [.., count]."""
    dtype, sizes = dtype_of(samples.type), (*sizes_of(samples.type)[:-1], count)
    last = rank_of(samples.type) - 1

    def everywhere(value: Size) -> SSAValue:
        return builder.broadcast(builder.operand(value, dtype), sizes)

    sample = builder.broadcast(sliced(builder, samples, last, place, Size.const(1)), sizes)
    number = builder.emit(Iota, axis=last, dtype=I64, sizes=sizes)
    step = builder.emit(Divide, everywhere(extent - window), everywhere(size_max(count - 1, 1)))
    ends = builder.emit(Multiply, builder.emit(Add, builder.convert(number, dtype), sample), step)
    starts = builder.emit(Multiply, sample, step)
    begins = builder.emit(Subtract, *(builder.convert(each, I64) for each in (ends, starts)))
    at_end, end = (builder.broadcast(builder.operand(each, I64), sizes) for each in (count - 1, extent - window))
    return builder.emit(Select, builder.emit(Compare, number, at_end, direction="eq"), end, begins)


def _largest(
    builder: GraphBuilder, elements: SSAValue, places: SSAValue, sizes: Sequence[Size], window: Size
) -> tuple[SSAValue, SSAValue]:
    """The largest element of each window, the first of equal ones, and its place."""
    elements, places = (builder.reshape(each, (*sizes, window)) for each in (elements, places))
    axis = len(sizes)
    first = builder.reshape(builder.emit(ArgMax, elements, axis=axis), (*sizes, 1))
    largest = builder.emit(Reduce, elements, axes=(axis,), kind="max")
    return largest, builder.reshape(taken(builder, places, first), sizes)


__all__ = ["lower_fractional_max_pool"]
