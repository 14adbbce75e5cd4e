"""What follows a product: its epilogue as a function that block drivers call for each tile that they have stored."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xdsl.dialects.arith import AddfOp
from xdsl.ir import BlockArgument, SSAValue

from anyshape.codegen.builder import Builder
from anyshape.codegen.mlir import ModuleBuilder, Type, Value, byte_size
from anyshape.codegen.points import emit_rectangle
from anyshape.codegen.points.scalar import memory_type
from anyshape.codegen.sizes import emit_size
from anyshape.codegen.tiles.shape import LINE
from anyshape.dialects.packed_panels import PANEL
from anyshape.dialects.tile.contract import ContractOp
from anyshape.dialects.tile.ops import KernelOp, LoadOp, YieldOp, buffer_of
from anyshape.support.machine import Machine


def bias_of(op: ContractOp) -> tuple[BlockArgument | None, bool]:
    """(bias, is plain): the epilogue is the sum itself, or the sum plus `bias[j]` with adjacent elements."""
    block = op.epilogue.block
    sum_, column = block.args[-1], block.args[-2]
    last = block.last_op
    assert isinstance(last, YieldOp)
    value = last.values[0]
    if value is sum_:
        return None, True
    if not isinstance(value.owner, AddfOp) or sum_ not in value.owner.operands:
        return None, False
    other = next((operand for operand in value.owner.operands if operand is not sum_), None)
    load = None if other is None else other.owner
    if isinstance(load, LoadOp) and load.guard is None and isinstance(load.buffer, BlockArgument):
        type_ = buffer_of(load.buffer)
        if list(load.indices) == [column] and type_.strides.data[0].constant_or(None) == 1:
            return load.buffer, True
    return None, False


def emit_tile_epilogue(module: ModuleBuilder, b: Builder, kernel: KernelOp, op: ContractOp, machine: Machine) -> str:
    """The epilogue in the block driver's form (`Slot.EPILOGUE`). The context is (buffers, sizes, error, batch indices…)."""
    name = kernel.sym_name.data
    rectangle = f"{name}_epilogue"
    emit_rectangle(module, kernel, op.epilogue, op.out, machine, rectangle)
    with module.function(f"{name}_tile", tile_epilogue_arguments(b), internal=True) as f:
        context, row, rows, column, columns, tile, stride = f.args
        buffers, sizes, error = (b.load(b.offset(context, b.i64, slot), b.ptr) for slot in range(3))
        batch = [b.load(b.offset(context, b.i64, 3 + axis), b.i64) for axis in range(len(op.batch.data))]
        box = [row, b.add(row, rows), column, b.add(column, columns)]
        b.call(rectangle, [buffers, sizes, error, *batch, *box, tile, stride])
        symbols = {symbol: b.load(sizes, b.i64, number) for number, symbol in enumerate(kernel.symbol_names)}
        for load in _elementwise_loads(op):
            at = _element_address(b, load, buffers, symbols, [*batch, b.add(row, rows), column])
            _prefetch_rows(b, load, at, symbols, rows)
    return f"{name}_tile"


def _elementwise_loads(op: ContractOp) -> list[LoadOp]:
    """What the epilogue reads at the sum's own place with adjacent columns, such as a residual: one load of each buffer."""
    block = op.epilogue.block
    found: dict[SSAValue, LoadOp] = {}
    for load in block.ops:
        if not isinstance(load, LoadOp) or list(load.indices) != list(block.args[:-1]):
            continue
        if buffer_of(load.buffer).strides.data[-1].constant_or(None) == 1:
            found.setdefault(load.buffer, load)
    return list(found.values())


def _element_address(
    b: Builder, load: LoadOp, buffers: Value, symbols: Mapping[str, Value], indices: Sequence[Value]
) -> Value:
    buffer = load.buffer
    assert isinstance(buffer, BlockArgument)
    address = b.load(b.offset(buffers, b.i64, buffer.index), b.ptr)
    element = memory_type(b, buffer_of(buffer).element_type)
    for index, stride in zip(indices, buffer_of(buffer).strides.data, strict=True):
        address = b.offset(address, element, b.mul(index, emit_size(b, stride, symbols)))
    return address


def _prefetch_rows(b: Builder, load: LoadOp, first: Value, symbols: Mapping[str, Value], rows: Value) -> None:
    """Ask for a panel's columns of `rows` rows from that address on, which the next tile's epilogue reads."""
    type_ = buffer_of(load.buffer)
    element, step = memory_type(b, type_.element_type), emit_size(b, type_.strides.data[-2], symbols)
    with b.for_(0, rows) as row:
        start = b.offset(first, element, b.mul(row.index, step))
        for byte in range(0, PANEL * byte_size(element), LINE):
            b.prefetch(start, b.i8, byte, locality=2)


def tile_epilogue_arguments(b: Builder) -> list[Type]:
    """(context, first row, rows, first column, columns, tile, elements from one of its rows to the next)."""
    return [b.ptr, b.i64, b.i64, b.i64, b.i64, b.ptr, b.i64]


__all__ = ["bias_of", "emit_tile_epilogue", "tile_epilogue_arguments"]
