"""Sizes that the data say: a number that the program computes is a symbol from there on, which `read_size` gives its value."""

from __future__ import annotations

from anyshape.dialects.dhlo import Reduce
from anyshape.dialects.dhlo.compaction import Compress, ReadSize
from anyshape.dialects.dtypes import I64
from anyshape.frontends.onnx.builder import GraphBuilder
from anyshape.frontends.onnx.refusals import Malformed
from anyshape.frontends.onnx.values import Known, Value
from anyshape.nn import Tensor
from anyshape.symbolic import Size


def read_size(b: GraphBuilder, value: Tensor, what: str) -> Size:
    """A size whose value is that of a tensor of rank 0, named `what` and a number. A negative one is an error of the call."""
    return _read(b, value, what)[0]


def _read(b: GraphBuilder, value: Tensor, what: str) -> tuple[Size, Tensor]:
    declared = set(b.graph.facts.symbols)
    number = 0
    while f"{what}_{number}" in declared:
        number += 1
    size = Size.symbol(f"{what}_{number}")
    b.graph.facts.declare(f"{what}_{number}", lo=0)
    return size, b.emit(ReadSize, b.convert(b.reshape(value, ()), I64), size=(size,))


def read_sizes(b: GraphBuilder, value: Value, count: int, what: str) -> list[Size]:
    """The elements of an integer vector as sizes: as they are known, or each read where the program computes them."""
    if isinstance(value, Known):
        sizes = b.size_list(value, what)
        if len(sizes) != count:
            raise Malformed(f"{what} must have {count} elements; here there are {len(sizes)}")
        return sizes
    vector = b.with_sizes(value, (count,), what)
    return [read_size(b, b.slice(vector, 0, place, 1), "size") for place in range(count)]


def places(b: GraphBuilder, mask: Tensor, what: str) -> Tensor:
    """Where a mask [n] holds, in order: i64 [a size of its own]."""
    count = b.emit(Reduce, b.convert(mask, I64), axes=(0,), kind="sum")
    size, read = _read(b, count, what)
    return b.emit(Compress, mask, read, size=(size,))


__all__ = ["places", "read_size", "read_sizes"]
