"""The prologue of a product as a kernel of its own: it puts the rows of one row block into the scratch of the worker that multiplies them.

It is emitted like any memory-bound kernel, so the rows have the same bytes as if they had come from memory.
"""

from __future__ import annotations

from math import prod

from xdsl.ir import SSAValue

from anyshape.codegen.builder import Builder
from anyshape.codegen.mlir import Value
from anyshape.codegen.points import scratch_bytes_of
from anyshape.codegen.sizes import element_bytes
from anyshape.codegen.tiles.shape import LINE
from anyshape.dialects.sizes import row_major_strides
from anyshape.dialects.tile.contract import ContractOp
from anyshape.dialects.tile.ops import BufferType, KernelOp, ParallelOp, buffer, buffer_of
from anyshape.support.machine import Machine
from anyshape.symbolic import Size

ZERO, ONE = Size.const(0), Size.const(1)


def rows_kernel(kernel: KernelOp, op: ContractOp) -> KernelOp:
    """A kernel whose points are the rows (g…, i) of the left factor, row-major; it has one buffer more, the last: the rows.

    Element k of row (g…, i) goes to place i · K + k of that buffer, whatever g is: a row block is of one batch point.
    """
    assert op.prologue is not None
    types = [value.type for value in kernel.body.block.args]
    new = KernelOp(f"{kernel.sym_name.data}_rows", kernel.symbol_names, [*types, _block_type(op)])
    arguments = new.body.block.args
    inner: dict[SSAValue, SSAValue] = dict(zip(kernel.body.block.args, arguments, strict=False))
    inner[op.lhs] = arguments[-1]
    rows = ParallelOp(op.rows)
    inner.update(zip(op.prologue.block.args, rows.indices, strict=True))
    for each in op.prologue.block.ops:
        rows.body.block.add_op(each.clone(inner))
    new.body.block.add_op(rows)
    return new


def _block_type(op: ContractOp) -> BufferType:
    """The rows of one block; as sizes say, one row, which is never so long that it would be stored past the caches."""
    sizes = [*[ONE] * len(op.batch.data), ONE, op.extents.data[2]]
    *_, row, element = row_major_strides([*op.rows, op.extents.data[2]])
    return buffer(buffer_of(op.lhs).element_type, sizes, [*[ZERO] * len(op.batch.data), row, element])


def rows_bytes(op: ContractOp, rows: int) -> Size:
    """Bytes of that many rows."""
    element = buffer_of(op.lhs).element_type
    return _whole_lines(buffer(element, [rows, op.extents.data[2]]))


def row_bytes(op: ContractOp) -> Size:
    """Bytes of one row."""
    return op.extents.data[2] * element_bytes(buffer_of(op.lhs).element_type)


def _whole_lines(type_: BufferType) -> Size:
    bytes_ = prod(type_.sizes.data, start=Size.const(element_bytes(type_.element_type)))
    return (bytes_ + (LINE - 1)) // LINE * LINE


def kept_scratch(op: ContractOp, machine: Machine) -> Size:
    """What the kernel of a prologue's rows keeps of the rows that it computes side by side; nothing without a prologue."""
    kernel = op.parent_op()
    if op.prologue is None or not isinstance(kernel, KernelOp):
        return ZERO
    return scratch_bytes_of(rows_kernel(kernel, op), machine)


def copied_table(b: Builder, buffers: Value, count: int) -> Value:
    """A copy of the launch's table of buffers, with room for one more: that of the rows."""
    table = b.alloca(b.ptr, count + 1)
    for position in range(count):
        b.store(b.load(b.offset(buffers, b.i64, position), b.ptr), b.offset(table, b.i64, position))
    return table


__all__ = ["copied_table", "kept_scratch", "row_bytes", "rows_bytes", "rows_kernel"]
