"""`tile.contract` as tiles: one program a tile of the output, `tl.dot` over blocks of k, then the epilogue on the tile."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from xdsl.dialects.builtin import Float32Type, IndexType

from anyshape.dialects.tile import ContractOp, YieldOp, buffer_of
from anyshape.support.errors import CodegenError
from anyshape.symbolic import Size
from anyshape.targets.triton.arithmetic import cast
from anyshape.targets.triton.body import UNIFORM, BlockAxis, Body, Value
from anyshape.targets.triton.points import Points
from anyshape.targets.triton.syntax import along, assign, binary, call, compare, for_range, name, number

BLOCK_M, BLOCK_N, BLOCK_K, PRECISION = "BLOCK_M", "BLOCK_N", "BLOCK_K", "PRECISION"
ROWS, COLUMNS = 0, 1


def emit_product(op: ContractOp, points: Points) -> tuple[tuple[Size, str | None], ...]:
    """The statements of a whole product, and its grid: batch points, tiles of rows, tiles of columns, the last fastest.

    The factors' precision is the constexpr PRECISION: "ieee" is f32 throughout, "tf32" what was asked for.
    """
    if any(not isinstance(buffer_of(each).element_type, Float32Type) for each in (op.lhs, op.rhs)):
        raise CodegenError("products are tiled in f32 only", where=op.name, got=buffer_of(op.lhs).element_type)
    if op.prologue is not None:
        raise CodegenError("a product computes its rows itself", where=op.name, expected="rows in memory")
    body = points.body
    m, n, _ = op.extents.data
    tile = body.program()
    rest, column = _split(body, tile, call("tl.cdiv", body.size(n), name(BLOCK_N)))
    batch, row = _split(body, rest, call("tl.cdiv", body.size(m), name(BLOCK_M)))
    batch_indices = body.indices_of(batch, op.batch.data)
    i = _open_axis(body, row, BLOCK_M, ROWS, m)
    j = _open_axis(body, column, BLOCK_N, COLUMNS, n)
    accumulator = _multiply(op, body, batch_indices, i, j)
    arguments = op.epilogue.block.args
    for argument, index in zip(arguments, batch_indices, strict=False):
        body.values[argument] = Value(index, UNIFORM)
    body.values.update(zip(arguments[-3:], (i, j, accumulator), strict=True))
    points.block(op.epilogue.block)
    last = op.epilogue.block.last_op
    assert isinstance(last, YieldOp)
    body.store(last.values[0], op.out, arguments[:-1])
    return (*((extent, None) for extent in op.batch.data), (m, BLOCK_M), (n, BLOCK_N))


def _split(body: Body, linear: ast.expr, count: ast.expr) -> tuple[ast.expr, ast.expr]:
    """(linear // count, linear % count)."""
    tiles = name(body.define("tiles", count))
    return name(body.define("rest", binary("//", linear, tiles))), name(body.define("tile", binary("%", linear, tiles)))


def _block_of(start: ast.expr, block: str, axis: int) -> ast.expr:
    lanes = cast(call("tl.arange", number(0), name(block)), IndexType())
    return along(binary("+", start, lanes), axis, 2)


def _open_axis(body: Body, tile: ast.expr, block: str, axis: int, extent: Size) -> Value:
    """The tile's indices along an axis; the axis is open from here on."""
    index = body.define("ij"[axis], _block_of(binary("*", tile, name(block)), block, axis))
    mask = body.define("mask", compare("<", name(index), body.size(extent)))
    body.axes = (*body.axes, BlockAxis(block, mask))
    return Value(index, frozenset({axis}))


def _multiply(op: ContractOp, body: Body, batch: Sequence[str], i: Value, j: Value) -> Value:
    """The tile's sums over k; zero where K = 0."""
    k_size = op.extents.data[2]
    result_type = op.epilogue.block.args[-1].type
    rows, columns = (axis.mask for axis in body.axes)
    accumulator = body.define("sum", body.filled(number(0.0), result_type, body.all_axes))
    start, points = body.fresh("start"), [name(each) for each in batch]
    with body.nested() as statements:
        k = name(body.define("k", _block_of(name(start), BLOCK_K, COLUMNS)))
        inside = binary("&", name(rows), compare("<", k, body.size(k_size)))
        lhs_offset = body.offset(buffer_of(op.lhs).strides.data, [*points, name(i.name), k])
        lhs = body.define("lhs", _masked(body.pointers[op.lhs], lhs_offset, inside))
        k = name(body.define("k", _block_of(name(start), BLOCK_K, ROWS)))
        inside = binary("&", compare("<", k, body.size(k_size)), name(columns))
        rhs_offset = body.offset(buffer_of(op.rhs).strides.data, _rhs_indices(op, points, k, name(j.name)))
        rhs = body.define("rhs", _masked(body.pointers[op.rhs], rhs_offset, inside))
        product = call("tl.dot", name(lhs), name(rhs), name(accumulator), input_precision=name(PRECISION))
        body.statements.append(assign(accumulator, product))
    body.statements.append(for_range(start, [number(0), body.size(k_size), name(BLOCK_K)], statements))
    return Value(accumulator, body.all_axes)


def _masked(pointer: str, offset: ast.expr, inside: ast.expr) -> ast.expr:
    return call("tl.load", binary("+", name(pointer), offset), mask=inside, other=number(0))


def _rhs_indices(op: ContractOp, batch: Sequence[ast.expr], k: ast.expr, j: ast.expr) -> list[ast.expr]:
    """Index values of the right-hand side's axes: of the matrix, or of its panels where it is packed."""
    if op.packed is None:
        return [*batch, k, j]
    return [binary("//", j, number(op.PANEL)), k, binary("%", j, number(op.PANEL))]


__all__ = ["BLOCK_K", "BLOCK_M", "BLOCK_N", "PRECISION", "emit_product"]
