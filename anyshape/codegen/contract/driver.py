"""The driver of a block: row tiles × panels × depth blocks of one task, with sizes and strides known at run time only.

`as_mm_block_<element>` takes a task record of 8-byte slots (`Slot`) and walks

    for each depth block (at most 3 KB of a row)      its rows of the left-hand side stay in the second-level cache
        for each panel of 64 columns                  its rows stream once, then come from the second-level cache
            for each register tile of 1 to 6 rows     rows split evenly, so that no tile is much smaller than another

The first depth block starts from the bias or from zero, the others from what the one before has stored. A right-hand side that is not
packed is packed panel by panel into scratch, unless it is row-major and the rows are too few to pay for it; a left-hand side whose k
are not adjacent is copied likewise. After the last depth block the epilogue, if any, runs over each tile just stored.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum, auto

from anyshape.codegen.builder import Builder
from anyshape.codegen.contract.microkernel import TileTable, emit_tiles
from anyshape.codegen.contract.pack import (
    emit_pack_lhs,
    emit_pack_rhs,
    pack_lhs_arguments,
    pack_lhs_name,
    pack_rhs_arguments,
    pack_rhs_name,
)
from anyshape.codegen.contract.tile_shape import MAX_ROWS, PANEL, TileShape
from anyshape.codegen.mlir import ModuleBuilder, Type, Value

_DIRECT_ROWS = 2 * MAX_ROWS
"""Up to that many rows an unpacked row-major panel is read where it lies: packing would cost more than it saves."""


class Slot(IntEnum):
    """Slots of a task record; pointers and 64-bit integers, strides in elements."""

    ROWS = 0
    COLUMNS = auto()
    DEPTH = auto()
    LHS = auto()
    LHS_ROW = auto()
    LHS_DEPTH = auto()
    RHS = auto()
    """Element (0, 0) of the first panel."""
    RHS_DEPTH = auto()
    RHS_COLUMN = auto()
    RHS_PANEL = auto()
    """From one panel to the next."""
    PACKED = auto()
    """1 when rhs is in panels whose columns are all readable."""
    OUT = auto()
    OUT_ROW = auto()
    INIT = auto()
    """The bias of the first column, or null."""
    EPILOGUE = auto()
    """A function (context, first row, rows, first column, columns, tile, stride of a tile's row), or null."""
    CONTEXT = auto()
    FIRST_ROW = auto()
    FIRST_COLUMN = auto()
    LHS_SCRATCH = auto()
    RHS_SCRATCH = auto()


SLOTS = len(Slot)


def block_name(element: str) -> str:
    """The symbol of the block driver."""
    return f"as_mm_block_{element}"


def block_arguments(b: Builder) -> list[Type]:
    """(task record)."""
    return [b.ptr]


def emit_block_driver(module: ModuleBuilder, shape: TileShape) -> None:
    """Define `block_name(element)` and everything that it calls."""
    emit_tiles(module, shape)
    emit_pack_lhs(module, shape)
    emit_pack_rhs(module, shape)
    b = Builder()
    zeros = module.constant_bytes(bytes(PANEL * shape.element_bytes), alignment=64)
    with module.function(block_name(shape.element), block_arguments(b)) as f:
        block = _Block.read(b, shape, f.args[0], zeros)
        # A sum over nothing still has one (empty) depth block: it stores the bias and runs the epilogue.
        with b.for_(0, b.maximum(block.slot[Slot.DEPTH], 1), shape.depth) as loop:
            _emit_depth_block(block, loop.index)


@dataclass
class _Block:
    """A block driver under construction: the task's slots as values, and how its rows split into tiles."""

    b: Builder
    shape: TileShape
    slot: dict[Slot, Value]
    element: Type
    has_bias: Value
    has_epilogue: Value
    zeros: Value
    tiles: Value
    rows_low: Value
    """Rows of the later tiles; the first `extra` have one more."""
    extra: Value
    table: TileTable
    tile_high: tuple[Value, Value]
    tile_low: tuple[Value, Value]

    @staticmethod
    def read(b: Builder, shape: TileShape, task: Value, zeros: str) -> _Block:
        pointers = {
            Slot.LHS, Slot.RHS, Slot.OUT, Slot.INIT, Slot.EPILOGUE, Slot.CONTEXT, Slot.LHS_SCRATCH, Slot.RHS_SCRATCH,
        }  # fmt: skip
        slot = {
            slot: b.load(b.offset(task, b.i64, slot.value), b.ptr if slot in pointers else b.i64) for slot in Slot
        }
        rows = slot[Slot.ROWS]
        tiles = b.div(b.add(rows, MAX_ROWS - 1), MAX_ROWS)
        low = b.div(rows, tiles)
        extra = b.sub(rows, b.mul(low, tiles))
        table = TileTable.at_entry(b, shape.element)
        has_bias, has_epilogue = (
            b.cmp("ne", b.load(b.offset(task, b.i64, slot.value), b.i64), 0) for slot in (Slot.INIT, Slot.EPILOGUE)
        )
        element = b.type(shape.element)
        zero = b.address_of(zeros)
        return _Block(
            b, shape, slot, element, has_bias, has_epilogue, zero, tiles, low, extra, table, table.pick(b.add(low, 1)),
            table.pick(low),
        )  # fmt: skip


def _emit_depth_block(block: _Block, first_k: Value) -> None:
    b, slot = block.b, block.slot
    depth = b.minimum(b.sub(slot[Slot.DEPTH], first_k), block.shape.depth)
    lhs, lhs_row = _emit_lhs(block, first_k, depth)
    panels = b.div(b.add(slot[Slot.COLUMNS], PANEL - 1), PANEL)
    with b.for_(0, panels) as panel:
        columns = b.minimum(b.sub(slot[Slot.COLUMNS], b.mul(panel.index, PANEL)), PANEL)
        rhs, rhs_depth = _emit_rhs(block, panel.index, first_k, depth, columns)
        _emit_row_tiles(block, panel.index, first_k, depth, columns, (lhs, lhs_row), (rhs, rhs_depth))


def _emit_lhs(block: _Block, first_k: Value, depth: Value) -> tuple[Value, Value]:
    """(pointer, row stride) of the depth block of the left-hand side, copied if its k are not adjacent."""
    b, slot = block.b, block.slot
    source = b.offset(slot[Slot.LHS], block.element, b.mul(first_k, slot[Slot.LHS_DEPTH]))
    strided = b.cmp("ne", slot[Slot.LHS_DEPTH], 1)
    branch = b.if_(strided)
    with branch.then():
        b.call(
            pack_lhs_name(block.shape.element),
            [source, slot[Slot.LHS_ROW], slot[Slot.LHS_DEPTH], slot[Slot.ROWS], depth, slot[Slot.LHS_SCRATCH]],
        )
    return b.select(strided, slot[Slot.LHS_SCRATCH], source), b.select(strided, depth, slot[Slot.LHS_ROW])


def _emit_rhs(block: _Block, panel: Value, first_k: Value, depth: Value, columns: Value) -> tuple[Value, Value]:
    """(pointer, stride of k) of a panel's depth block, packed if it cannot be read where it lies."""
    b, slot = block.b, block.slot
    start = b.add(b.mul(panel, slot[Slot.RHS_PANEL]), b.mul(first_k, slot[Slot.RHS_DEPTH]))
    source = b.offset(slot[Slot.RHS], block.element, start)
    adjacent = b.and_(b.cmp("eq", slot[Slot.RHS_COLUMN], 1), b.cmp("eq", columns, PANEL))
    direct = b.and_(adjacent, b.cmp("sle", slot[Slot.ROWS], _DIRECT_ROWS))
    direct = b.or_(direct, b.cmp("ne", slot[Slot.PACKED], 0))
    branch = b.if_(b.not_(direct))
    with branch.then():
        b.call(
            pack_rhs_name(block.shape.element),
            [source, slot[Slot.RHS_DEPTH], slot[Slot.RHS_COLUMN], depth, columns, slot[Slot.RHS_SCRATCH]],
        )
    return (
        b.select(direct, source, slot[Slot.RHS_SCRATCH]),
        b.select(direct, slot[Slot.RHS_DEPTH], b.const(b.i64, PANEL)),
    )


def _emit_row_tiles(
    block: _Block,
    panel: Value,
    first_k: Value,
    depth: Value,
    columns: Value,
    lhs: tuple[Value, Value],
    rhs: tuple[Value, Value],
) -> None:
    b, slot = block.b, block.slot
    column = b.mul(panel, PANEL)
    out_row = slot[Slot.OUT_ROW]
    goes_on = b.cmp("sgt", first_k, 0)
    bias = b.select(block.has_bias, b.offset(slot[Slot.INIT], block.element, column), block.zeros)
    init_stride = b.select(goes_on, out_row, b.const(b.i64, 0))
    is_last = b.cmp("sge", b.add(first_k, depth), slot[Slot.DEPTH])
    runs_epilogue = b.and_(is_last, block.has_epilogue)
    tile_high, tile_low = (block.table.function(picked, columns) for picked in (block.tile_high, block.tile_low))
    with b.for_(0, block.tiles) as tile:
        is_high = b.cmp("slt", tile.index, block.extra)
        rows = b.select(is_high, b.add(block.rows_low, 1), block.rows_low)
        row = b.add(b.mul(tile.index, block.rows_low), b.minimum(tile.index, block.extra))
        a = b.offset(lhs[0], block.element, b.mul(row, lhs[1]))
        c = b.offset(slot[Slot.OUT], block.element, b.add(b.mul(row, out_row), column))
        function = b.select(is_high, tile_high, tile_low)
        init = b.select(goes_on, c, bias)
        b.call_pointer(function, [a, lhs[1], rhs[0], rhs[1], c, out_row, depth, init, init_stride, columns])
        branch = b.if_(runs_epilogue)
        with branch.then():
            first_row, first_column = b.add(slot[Slot.FIRST_ROW], row), b.add(slot[Slot.FIRST_COLUMN], column)
            arguments = [slot[Slot.CONTEXT], first_row, rows, first_column, columns, c, out_row]
            b.call_pointer(slot[Slot.EPILOGUE], arguments)


def declare_block_driver(module: ModuleBuilder, b: Builder, element: str) -> None:
    """Declare the block driver in a module that calls it."""
    module.declare(block_name(element), block_arguments(b))
