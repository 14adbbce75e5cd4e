"""ONNX ops that make or rearrange elements by their positions: triangles, identities, one-hot rows, blocks of pixels."""

from __future__ import annotations

from anyshape.dialects.dhlo import Add, Compare, Iota, Select
from anyshape.dialects.dtypes import I64
from anyshape.frontends.onnx.builder import ONE, GraphBuilder
from anyshape.frontends.onnx.dtypes import dtype_of_code
from anyshape.frontends.onnx.movement import from_start
from anyshape.frontends.onnx.refusals import Malformed
from anyshape.frontends.onnx.registry import lowers
from anyshape.frontends.onnx.values import Value
from anyshape.nn import Tensor

# -- by rows and columns ---------------------------------------------------------------------------------------------


def _places(b: GraphBuilder, x: Value, offset: Value | int) -> tuple[Tensor, Tensor]:
    """The column of each element of the last two axes, and its row plus an offset."""
    b.check_rank(x, 2)
    rows, columns = (b.emit(Iota, axis=axis, sizes=x.sizes[-2:], dtype=I64) for axis in (0, 1))
    shift = b.operand(offset, I64)
    return columns, b.emit(Add, rows, b.broadcast(b.reshape(shift, ()), rows.sizes))


@lowers("Trilu")
def lower_trilu(b: GraphBuilder, x: Value, k: Value | int = 0, *, upper: int = 1) -> Value:
    """x where column ≥ row + k, or with `upper` = 0 where column ≤ row + k, else 0"""
    columns, rows = _places(b, x, k)
    kept = b.emit(Compare, columns, rows, direction="ge" if upper else "le")
    return b.emit(Select, b.repeated(kept, x.sizes), x, b.constant(0, x.dtype, x.sizes))


@lowers("EyeLike")
def lower_eye_like(b: GraphBuilder, x: Value, *, dtype: int | None = None, k: int = 0) -> Value:
    """1 where column = row + k, else 0, with the sizes of x"""
    columns, rows = _places(b, x, k)
    return b.convert(b.emit(Compare, columns, rows, direction="eq"), x.dtype if dtype is None else dtype_of_code(dtype))


@lowers("OneHot")
def lower_one_hot(b: GraphBuilder, indices: Value, depth: Value, values: Value, *, axis: int = -1) -> Value:
    """values[1] where the position on a new axis of size `depth` is the index, else values[0]; an index below 0 counts from the end,
    and one that is outside is at no position"""
    (size,) = b.size_list(depth, "the depth")
    axis = b.axis(axis, indices.rank + 1)
    sizes = (*indices.sizes[:axis], size, *indices.sizes[axis:])
    places = from_start(b, b.convert(indices, I64), size)
    apart = b.reshape(places, (*indices.sizes[:axis], ONE, *indices.sizes[axis:]))
    hot = b.emit(Compare, b.emit(Iota, axis=axis, sizes=sizes, dtype=I64), b.repeated(apart, sizes), direction="eq")
    b.check_rank(values, 1, 1)
    off, on = (b.reshape(b.slice(values, 0, place, 1), ()) for place in (0, 1))
    return b.select(hot, on, off)


# -- blocks of pixels ------------------------------------------------------------------------------------------------


@lowers("DepthToSpace")
def lower_depth_to_space(b: GraphBuilder, x: Value, *, blocksize: int, mode: str = "DCR") -> Value:
    """[n, c·s·s, h, w] -> [n, c, h·s, w·s]: the channels are (row, column, c), or in mode CRD (c, row, column)"""
    b.check_rank(x, 4, 4)
    batch, channels, height, width = x.sizes
    _check_blocks(blocksize)
    b.require((channels % (blocksize * blocksize)).eq(0), "channels that become blocks of pixels")
    kept = b.graph.facts.simplify(channels // (blocksize * blocksize))
    if mode == "DCR":
        apart = b.reshape(x, (batch, blocksize, blocksize, kept, height, width))
        moved = b.transpose(apart, (0, 3, 4, 1, 5, 2))
    elif mode == "CRD":
        apart = b.reshape(x, (batch, kept, blocksize, blocksize, height, width))
        moved = b.transpose(apart, (0, 1, 4, 2, 5, 3))
    else:
        raise Malformed(f"mode is {mode!r}; expected DCR or CRD")
    return b.reshape(moved, (batch, kept, height * blocksize, width * blocksize))


@lowers("SpaceToDepth")
def lower_space_to_depth(b: GraphBuilder, x: Value, *, blocksize: int, mode: str = "DCR") -> Value:
    """[n, c, h·s, w·s] -> [n, s·s·c, h, w]: the channels are (row, column, c), or (c, row, column) in the mode CRD"""
    if mode not in ("DCR", "CRD"):
        raise Malformed(f"the mode is {mode!r}; expected DCR or CRD")
    b.check_rank(x, 4, 4)
    batch, channels, height, width = x.sizes
    _check_blocks(blocksize)
    parts = [b.graph.facts.simplify(size // blocksize) for size in (height, width)]
    for size in (height, width):
        b.require((size % blocksize).eq(0), "pixels in blocks that become channels")
    apart = b.reshape(x, (batch, channels, parts[0], blocksize, parts[1], blocksize))
    moved = b.transpose(apart, (0, 3, 5, 1, 2, 4) if mode == "DCR" else (0, 1, 3, 5, 2, 4))
    return b.reshape(moved, (batch, channels * (blocksize * blocksize), *parts))


def _check_blocks(blocksize: int) -> None:
    if not 1 <= blocksize < 2**16:
        raise Malformed(f"blocks of {blocksize} pixels")
