"""Panels: the packed form of the right-hand side, made once for constants and block by block for everything else."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from anyshape.codegen.builder import Builder
from anyshape.codegen.mlir import ModuleBuilder, Type, Value
from anyshape.codegen.symbols import pack_rhs_name
from anyshape.codegen.tiles.shape import TileShape
from anyshape.dialects.packed_panels import DEPTH_GROUPS, PANEL


def pack_panels(rhs: NDArray[Any], panel: int = PANEL) -> NDArray[Any]:
    """panels[p, k, j] = rhs[k, p·panel + j], zero beyond the last column: `[k, n]` to `[ceil(n / panel), k, panel]`.

    The result is C-contiguous and has the dtype of `rhs`, which may be strided (a transposed weight).
    """
    depth, columns = rhs.shape
    count = -(-columns // panel)
    padded = np.zeros((depth, count * panel), rhs.dtype)
    padded[:, :columns] = rhs
    return np.ascontiguousarray(padded.reshape(depth, count, panel).transpose(1, 0, 2))


def pack_rhs_arguments(b: Builder) -> list[Type]:
    """(source, stride of k, stride of j, depth, columns, target)."""
    return [b.ptr, b.i64, b.i64, b.i64, b.i64, b.ptr]


def pack_lhs_name(element: str) -> str:
    """The symbol of `emit_pack_lhs`."""
    return f"as_pack_lhs_{element}"


def pack_lhs_arguments(b: Builder) -> list[Type]:
    """(source, stride of the row, stride of k, rows, depth, target)."""
    return [b.ptr, b.i64, b.i64, b.i64, b.i64, b.ptr]


def copied_row(b: Builder, shape: TileShape, depth: Value) -> Value:
    """Elements from one copied row of the left-hand side to the next: `TileShape.copied_depth` at run time."""
    group = DEPTH_GROUPS.get(shape.element, 1)
    if group == 1:
        return depth
    return b.add(b.and_(b.add(depth, group - 1), -group), shape.row_header)


def emit_pack_rhs(module: ModuleBuilder, shape: TileShape) -> None:
    """Define target[k·64 + j] = source[k·sk + j·sj] for j < columns <= 64, zero for the columns beyond.

    Adjacent columns are copied, adjacent k transposed in registers, anything else gathered.
    """
    b = Builder()
    with module.function(pack_rhs_name(shape.element), pack_rhs_arguments(b)) as f:
        source, stride_k, stride_j, depth, columns, target = f.args
        rows = b.if_(b.cmp("eq", stride_j, 1), has_else=True)
        with rows.then():
            _copy_rows(b, shape, source, stride_k, depth, columns, target)
        with rows.otherwise():
            columnar = b.if_(b.cmp("eq", stride_k, 1), has_else=True)
            with columnar.then():
                _transpose_columns(b, shape, source, stride_j, depth, columns, target)
            with columnar.otherwise():
                _gather_rows(b, shape, source, stride_k, stride_j, depth, columns, target)


def _copy_rows(
    b: Builder, shape: TileShape, source: Value, stride: Value, depth: Value, columns: Value, target: Value
) -> None:
    element, lanes = b.type(shape.element), shape.lanes
    for column in range(0, PANEL, lanes):
        mask = b.tail_mask(b.sub(columns, column), lanes)
        # A masked access to a page that is not there may take hundreds of cycles, even when every lane is off.
        first = b.select(b.cmp("sgt", columns, column), b.const(b.i64, column), 0)
        with b.for_(0, depth) as k:
            row = b.offset(source, element, b.mul(k.index, stride))
            values = b.load(row, element, first, width=lanes, mask=mask)
            b.store(values, b.offset(target, element, b.mul(k.index, PANEL)), column)


def _gather_rows(
    b: Builder,
    shape: TileShape,
    source: Value,
    stride_k: Value,
    stride_j: Value,
    depth: Value,
    columns: Value,
    target: Value,
) -> None:
    element, lanes = b.type(shape.element), shape.lanes
    with b.for_(0, PANEL, lanes) as column:
        mask = b.tail_mask(b.sub(columns, column.index), lanes)
        steps = b.mul(b.add(b.lane_numbers(lanes), column.index), stride_j)
        with b.for_(0, depth) as k:
            row = b.offset(source, element, b.mul(k.index, stride_k))
            values = b.gather(row, element, steps, mask=mask)
            b.store(values, target, b.add(b.mul(k.index, PANEL), column.index))


def _transpose_columns(
    b: Builder, shape: TileShape, source: Value, stride: Value, depth: Value, columns: Value, target: Value
) -> None:
    """Square blocks of `lanes` columns and `lanes` k, transposed in registers; the last k's are masked."""
    element, lanes = b.type(shape.element), shape.lanes
    with b.for_(0, PANEL, lanes) as column, b.for_(0, depth, lanes) as k:
        left = b.sub(depth, k.index)
        mask = b.tail_mask(left, lanes)
        none = b.splat(0, b.i1, lanes)
        block: list[Value] = []
        for lane in range(lanes):
            number = b.add(column.index, lane)
            exists = b.broadcast(b.cmp("slt", number, columns), lanes)
            # Beyond the last column all lanes are off, and the address is one that is there: see `_copy_rows`.
            there = b.minimum(number, b.sub(columns, 1))
            address = b.offset(source, element, b.add(b.mul(there, stride), k.index))
            block.append(b.load(address, element, width=lanes, mask=b.select(exists, mask, none)))
        corner = b.offset(target, element, b.add(b.mul(k.index, PANEL), column.index))
        for lane, values in enumerate(transpose_square(b, block)):
            branch = b.if_(b.cmp("sgt", left, lane))
            with branch.then():
                b.store(values, corner, lane * PANEL)


def transpose_square(b: Builder, rows: list[Value]) -> list[Value]:
    """The transpose of a square of vectors, by log2(lanes) stages that exchange halves of growing blocks.

    Stage s swaps the off-diagonal s×s blocks of every 2s×2s block: two shuffles for each pair of rows.
    """
    lanes, step = len(rows), 1
    while step < lanes:
        low = [lane if not lane & step else lanes + lane - step for lane in range(lanes)]
        high = [lane + step if not lane & step else lanes + lane for lane in range(lanes)]
        result = list(rows)
        for row in range(lanes):
            if not row & step:
                result[row] = b.shuffle(rows[row], rows[row + step], low)
                result[row + step] = b.shuffle(rows[row], rows[row + step], high)
        rows, step = result, 2 * step
    return rows


def emit_pack_lhs(module: ModuleBuilder, shape: TileShape) -> None:
    """Define target[i·depth + k] = source[i·si + k·sk] for all i < rows and k < depth, where tiles read elements as they are.

    Adjacent k are copied, others gathered.
    """
    b = Builder()
    with module.function(pack_lhs_name(shape.element), pack_lhs_arguments(b)) as f:
        source, stride_i, stride_k, rows, depth, target = f.args
        adjacent = b.if_(b.cmp("eq", stride_k, 1), has_else=True)
        with adjacent.then():
            _copy_lhs_rows(b, shape, source, stride_i, rows, depth, target)
        with adjacent.otherwise():
            _gather_lhs_rows(b, shape, source, stride_i, stride_k, rows, depth, target)


def _copy_lhs_rows(
    b: Builder, shape: TileShape, source: Value, stride: Value, rows: Value, depth: Value, target: Value
) -> None:
    """Row by row, each as it lies in memory, which is what prefetchers follow."""
    element, lanes = b.type(shape.lhs_memory), shape.lanes
    whole = b.mul(b.div(depth, lanes), lanes)
    mask = b.tail_mask(b.sub(depth, whole), lanes)
    with b.for_(0, rows) as i:
        row = b.offset(source, element, b.mul(i.index, stride))
        copy = b.offset(target, element, b.mul(i.index, depth))
        with b.for_(0, whole, lanes) as k:
            b.store(b.load(row, element, k.index, width=lanes), copy, k.index)
        rest = b.if_(b.cmp("sgt", depth, whole))
        with rest.then():
            b.store(b.load(row, element, whole, width=lanes, mask=mask), copy, whole, mask=mask)


def _gather_lhs_rows(
    b: Builder,
    shape: TileShape,
    source: Value,
    stride_i: Value,
    stride_k: Value,
    rows: Value,
    depth: Value,
    target: Value,
) -> None:
    element, lanes = b.type(shape.lhs_memory), shape.lanes
    with b.for_(0, depth, lanes) as k:
        mask = b.tail_mask(b.sub(depth, k.index), lanes)
        steps = b.mul(b.add(b.lane_numbers(lanes), k.index), stride_k)
        with b.for_(0, rows) as i:
            values = b.gather(b.offset(source, element, b.mul(i.index, stride_i)), element, steps, mask=mask)
            b.store(values, target, b.add(b.mul(i.index, depth), k.index), mask=mask)
