"""The driver of a block: row tiles × panels × depth blocks of one task, with sizes and strides known at run time only.

`as_mm_block_<element>` takes a task record of 8-byte slots (`Slot`) and walks

    for each depth block (3 KB of a row, often)       its rows of the left-hand side stay in the second-level cache
        for each panel of 64 columns                  its rows stream once, then come from the second-level cache
            for each register tile of 1 to 6 rows     rows split evenly, so that no tile is much smaller than another

The first depth block starts from the bias or from zero, the others from what the one before has stored. A right-hand side that is
not packed is packed panel by panel into scratch, unless it is row-major and the rows are too few to pay for it. Few columns, and a
single row that meets adjacent k, are dot products: the only cases in which a sum has another order than k's. A right-hand side that
is nowhere in memory, the windows of a convolution, is gathered into scratch by a function of the kernel. A left-hand side whose k
are not adjacent is copied likewise. bf16, f16 and i8 are always packed as right-hand sides, and copied in the form that tiles take
as left-hand sides. After the last depth block the epilogue, if any, runs over each tile just stored.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import IntEnum, auto

from anyshape.codegen.builder import Builder
from anyshape.codegen.mlir import ModuleBuilder, Type, Value
from anyshape.codegen.records import ResultSlots
from anyshape.codegen.symbols import pack_rhs_name
from anyshape.codegen.tiles.dot_tiles import (
    FEW_COLUMNS,
    dot_tile_arguments,
    dot_tile_name,
    emit_dot_tiles,
    pick_dot_tile,
)
from anyshape.codegen.tiles.dots import dots_arguments, dots_name, emit_dots
from anyshape.codegen.tiles.microkernel import TileTable, emit_tiles, tile_arguments, tile_name
from anyshape.codegen.tiles.pack import (
    copied_row,
    emit_pack_lhs,
    emit_pack_rhs,
    pack_lhs_arguments,
    pack_lhs_name,
    pack_rhs_arguments,
)
from anyshape.codegen.tiles.pack_narrow import emit_pack_lhs_narrow, emit_pack_rhs_narrow
from anyshape.codegen.tiles.shape import LINE, MAX_ROWS, TileShape
from anyshape.dialects.packed_panels import PANEL, packed_depth
from anyshape.symbolic import Size

DIRECT_ROWS = 2 * MAX_ROWS
"""Up to that many rows an unpacked row-major panel is read where it lies: packing would cost more than it saves."""
CROWDED_ROWS, CROWDED_COLUMNS = 4 * MAX_ROWS, 3 * PANEL
"""From that many rows, and beyond that many columns, rows of the left-hand side are copied that crowd in few cache sets."""


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
    """Room for a depth block of copied rows, or null: then tiles read them where they lie, which the caller knows to be possible."""
    LHS_KEPT = auto()
    """1 when `LHS_SCRATCH` holds these rows from the call before, provided that they fit one depth block."""
    RHS_SCRATCH = auto()
    GATHER = auto()
    """A function (context, panel of the task, first k, steps, target) that puts a panel's depth block, row-major as it would lie in
    memory, to `target`, or null: then rhs is in memory."""


SLOTS = len(Slot)
RESULT = ResultSlots(Slot.FIRST_COLUMN, Slot.COLUMNS, Slot.OUT, Slot.INIT)


def may_crowd(shape: TileShape, rows: Size, columns: Size, stride: Size) -> bool:
    """Whether the driver may copy rows of the left-hand side that tiles could read where they lie, `stride` elements apart: for
    tasks of so many rows and columns it wants scratch for the copy."""
    few = rows.constant_or(CROWDED_ROWS) < CROWDED_ROWS or columns.constant_or(CROWDED_COLUMNS + 1) <= CROWDED_COLUMNS
    return not few and stride.constant_or(0) % shape.crowding == 0


def block_name(element: str) -> str:
    """The symbol of the block driver."""
    return f"as_mm_block_{element}"


def block_arguments(b: Builder) -> list[Type]:
    """(task record)."""
    return [b.ptr]


def emit_block_driver(module: ModuleBuilder, shape: TileShape) -> None:
    """Define `block_name(element)` and everything that it calls."""
    emit_tiles(module, shape)
    if shape.is_wide:
        emit_pack_rhs(module, shape)
        emit_dots(module, shape)
        emit_dot_tiles(module, shape)
    else:
        emit_pack_rhs_narrow(module, shape)
    if shape.lhs_memory == shape.sum_element:
        emit_pack_lhs(module, shape)
    else:
        emit_pack_lhs_narrow(module, shape)
    b = Builder()
    zeros = module.constant_bytes(bytes(PANEL * shape.sum_bytes), alignment=64)
    one = module.constant_bytes(struct.pack("<d" if shape.element == "f64" else "<f", 1.0))
    with module.function(block_name(shape.element), block_arguments(b)) as f:
        block = _Block.read(b, shape, f.args[0], zeros, one)
        # A sum over nothing still has one (empty) depth block: it stores the bias and runs the epilogue.
        with b.for_(0, b.maximum(block.slot[Slot.DEPTH], 1), shape.depth) as loop:
            _emit_depth_block(block, loop.index)


@dataclass
class _Block:
    """A block driver under construction: the task's slots as values, and how its rows split into tiles."""

    b: Builder
    shape: TileShape
    slot: dict[Slot, Value]
    lhs_element: Type
    rhs_element: Type
    """Of the factors in memory."""
    sum_element: Type
    has_bias: Value
    has_epilogue: Value
    gathers: Value
    has_room: Value
    """Rows of the left-hand side may be copied."""
    zeros: Value
    one: Value
    tiles: Value
    rows_low: Value
    """Rows of the later tiles; the first `extra` have one more."""
    extra: Value
    table: TileTable
    tile_high: tuple[Value, Value]
    tile_low: tuple[Value, Value]

    @staticmethod
    def read(b: Builder, shape: TileShape, task: Value, zeros: str, one: str) -> _Block:
        pointers = {
            Slot.LHS, Slot.RHS, Slot.OUT, Slot.INIT, Slot.EPILOGUE, Slot.CONTEXT, Slot.LHS_SCRATCH, Slot.RHS_SCRATCH,
            Slot.GATHER,
        }  # fmt: skip
        slot = {slot: b.load(b.offset(task, b.i64, slot.value), b.ptr if slot in pointers else b.i64) for slot in Slot}
        rows = slot[Slot.ROWS]
        tiles = b.div(b.add(rows, MAX_ROWS - 1), MAX_ROWS)
        low = b.div(rows, tiles)
        extra = b.sub(rows, b.mul(low, tiles))
        table = TileTable.at_entry(b, shape.element)
        has_bias, has_epilogue, gathers, has_room = (
            b.cmp("ne", b.load(b.offset(task, b.i64, slot.value), b.i64), 0)
            for slot in (Slot.INIT, Slot.EPILOGUE, Slot.GATHER, Slot.LHS_SCRATCH)
        )
        elements = b.type(shape.lhs_memory), b.type(shape.rhs_memory), b.type(shape.sum_element)
        constants = b.address_of(zeros), b.address_of(one)
        return _Block(
            b, shape, slot, *elements, has_bias, has_epilogue, gathers, has_room, *constants, tiles, low, extra, table,
            table.pick(b.add(low, 1)), table.pick(low),
        )  # fmt: skip


def _emit_depth_block(block: _Block, first_k: Value) -> None:
    b, slot = block.b, block.slot
    depth = b.minimum(b.sub(slot[Slot.DEPTH], first_k), block.shape.depth)
    is_last = b.cmp("sge", b.add(first_k, depth), slot[Slot.DEPTH])
    lhs, lhs_row = _emit_lhs(block, first_k, depth)
    panels = b.div(b.add(slot[Slot.COLUMNS], PANEL - 1), PANEL)
    sides = _Factors(lhs, lhs_row, lhs, lhs_row, depth)
    goes_on = b.cmp("sgt", first_k, 0)
    with b.for_(0, panels) as panel:
        columns = b.minimum(b.sub(slot[Slot.COLUMNS], b.mul(panel.index, PANEL)), PANEL)
        if block.shape.is_wide:
            # Whatever the number of rows, on which no sum may depend.
            few = b.and_(b.cmp("sle", columns, FEW_COLUMNS), b.cmp("eq", slot[Slot.PACKED], 0))
            branch = b.if_(few, has_else=True)
            with branch.then():
                factors = _emit_few_columns(block, panel.index, first_k, columns, sides)
                _emit_dot_tiles(block, panel.index, goes_on, is_last, columns, factors)
            with branch.otherwise():
                factors = _emit_rhs(block, panel.index, first_k, columns, sides)
                _emit_row_tiles(block, panel.index, goes_on, is_last, columns, factors)
        else:
            factors = _emit_narrow_rhs(block, panel.index, first_k, columns, sides)
            _emit_row_tiles(block, panel.index, goes_on, is_last, columns, factors)


@dataclass(frozen=True)
class _Factors:
    """What a panel's tiles multiply: pointers, strides of a row and a step, and how many steps a sum has."""

    lhs: Value
    lhs_row: Value
    rhs: Value
    rhs_row: Value
    steps: Value


def _emit_lhs(block: _Block, first_k: Value, depth: Value) -> tuple[Value, Value]:
    """(pointer, row stride) of the depth block of the left-hand side, copied if tiles cannot read it where it lies."""
    b, slot, shape = block.b, block.slot, block.shape
    source = b.offset(slot[Slot.LHS], block.lhs_element, b.mul(first_k, slot[Slot.LHS_DEPTH]))
    copies = b.or_(b.cmp("ne", slot[Slot.LHS_DEPTH], 1), _crowds(block)) if shape.reads_lhs else b.const(b.i1, 1)
    if shape.group > 1:
        copies = b.or_(copies, b.cmp("ne", b.rem(depth, shape.group), 0))
    is_kept = b.and_(b.cmp("ne", slot[Slot.LHS_KEPT], 0), b.cmp("sle", slot[Slot.DEPTH], shape.depth))
    branch = b.if_(b.and_(copies, b.not_(is_kept)))
    with branch.then():
        b.call(
            pack_lhs_name(shape.element),
            [source, slot[Slot.LHS_ROW], slot[Slot.LHS_DEPTH], slot[Slot.ROWS], depth, slot[Slot.LHS_SCRATCH]],
        )
    first = b.offset(slot[Slot.LHS_SCRATCH], b.type(shape.lhs_element), shape.row_header)
    return b.select(copies, first, source), b.select(copies, copied_row(b, shape, depth), slot[Slot.LHS_ROW])


def _crowds(block: _Block) -> Value:
    """Whether rows lie so far apart that a depth block of them falls on a part of the cache sets, often enough read to be worth a copy."""
    b, slot, shape = block.b, block.slot, block.shape
    stride = b.and_(slot[Slot.LHS_ROW], shape.crowding - 1)
    crowded = b.and_(b.cmp("eq", stride, 0), b.cmp("sge", slot[Slot.ROWS], CROWDED_ROWS))
    return b.and_(b.and_(crowded, block.has_room), b.cmp("sgt", slot[Slot.COLUMNS], CROWDED_COLUMNS))


def _emit_source(
    block: _Block, panel: Value, first_k: Value, steps: Value, target: Value
) -> tuple[Value, Value, Value]:
    """(pointer, stride of k, stride of the column) of a panel's depth block: in memory, or gathered to `target`."""
    b, slot = block.b, block.slot
    start = b.add(b.mul(panel, slot[Slot.RHS_PANEL]), b.mul(first_k, slot[Slot.RHS_DEPTH]))
    source = b.offset(slot[Slot.RHS], block.rhs_element, start)
    branch = b.if_(block.gathers)
    with branch.then():
        b.call_pointer(slot[Slot.GATHER], [slot[Slot.CONTEXT], panel, first_k, steps, target])
    gathered = target, b.const(b.i64, PANEL), b.const(b.i64, 1)
    in_memory = source, slot[Slot.RHS_DEPTH], slot[Slot.RHS_COLUMN]
    pointer, depth, column = (b.select(block.gathers, *pair) for pair in zip(gathered, in_memory, strict=True))
    return pointer, depth, column


def _emit_narrow_rhs(block: _Block, panel: Value, first_k: Value, columns: Value, lhs: _Factors) -> _Factors:
    """The factors of a panel's depth block of elements that tiles read in packed form only."""
    b, slot, element = block.b, block.slot, block.shape.element
    is_packed = b.cmp("ne", slot[Slot.PACKED], 0)
    gathered = b.offset(slot[Slot.RHS_SCRATCH], block.rhs_element, gathered_at(block.shape))
    source, *strides = _emit_source(block, panel, first_k, lhs.steps, gathered)
    branch = b.if_(b.not_(is_packed))
    with branch.then():
        b.call(pack_rhs_name(element), [source, *strides, lhs.steps, columns, slot[Slot.RHS_SCRATCH]])
    rhs = b.select(is_packed, source, slot[Slot.RHS_SCRATCH])
    group = block.shape.group
    return _Factors(lhs.lhs, lhs.lhs_row, rhs, b.const(b.i64, PANEL * group), b.ceildiv(lhs.steps, group))


def gathered_at(shape: TileShape) -> int:
    """Elements of the scratch for a packed panel, behind which a gathered one lies that is packed afterwards, or the copy of the few
    columns of one that is not."""
    return packed_depth(shape.element, shape.depth) * PANEL


def _emit_rhs(block: _Block, panel: Value, first_k: Value, columns: Value, lhs: _Factors) -> _Factors:
    """The factors of a panel's depth block, packed if rhs cannot be read where it lies.

    A single row times adjacent k is worth neither packing nor tiles: its dot products become the rhs of a sum of one product, 1·dot,
    which adds them to bias or earlier sums, and stores them, as for every other panel.
    """
    b, slot, element = block.b, block.slot, block.shape.element
    start = b.add(b.mul(panel, slot[Slot.RHS_PANEL]), b.mul(first_k, slot[Slot.RHS_DEPTH]))
    source = b.offset(slot[Slot.RHS], block.rhs_element, start)
    scratch = slot[Slot.RHS_SCRATCH]
    adjacent = b.and_(b.cmp("eq", slot[Slot.RHS_COLUMN], 1), b.cmp("eq", columns, PANEL))
    direct = b.and_(adjacent, b.cmp("sle", slot[Slot.ROWS], DIRECT_ROWS))
    direct = b.or_(direct, b.cmp("ne", slot[Slot.PACKED], 0))
    single = b.and_(b.cmp("eq", slot[Slot.ROWS], 1), b.cmp("eq", slot[Slot.RHS_DEPTH], 1))
    direct, single = (b.and_(each, b.not_(block.gathers)) for each in (direct, single))
    dots = b.and_(b.not_(direct), single)
    packs = b.and_(b.not_(b.or_(direct, block.gathers)), b.not_(single))
    branch = b.if_(block.gathers)
    with branch.then():
        b.call_pointer(slot[Slot.GATHER], [slot[Slot.CONTEXT], panel, first_k, lhs.steps, scratch])
    branch = b.if_(packs)
    with branch.then():
        steps = [slot[Slot.RHS_DEPTH], slot[Slot.RHS_COLUMN]]
        b.call(pack_rhs_name(element), [source, *steps, lhs.steps, columns, scratch])
    branch = b.if_(dots)
    with branch.then():
        b.call(dots_name(element), [lhs.lhs, source, slot[Slot.RHS_COLUMN], lhs.steps, columns, scratch])
    return _Factors(
        b.select(dots, block.one, lhs.lhs),
        lhs.lhs_row,
        b.select(direct, source, scratch),
        b.select(direct, slot[Slot.RHS_DEPTH], b.const(b.i64, PANEL)),
        b.select(dots, b.const(b.i64, 1), lhs.steps),
    )


def _emit_few_columns(block: _Block, panel: Value, first_k: Value, columns: Value, lhs: _Factors) -> _Factors:
    """The factors of a panel of few columns, copied if their k are not adjacent."""
    b, slot, scratch = block.b, block.slot, block.slot[Slot.RHS_SCRATCH]
    source, step, apart = _emit_source(block, panel, first_k, lhs.steps, scratch)
    adjacent = b.cmp("eq", step, 1)
    copy = b.select(block.gathers, b.offset(scratch, block.rhs_element, gathered_at(block.shape)), scratch)
    branch = b.if_(b.not_(adjacent))
    with branch.then():
        b.call(pack_lhs_name(block.shape.element), [source, apart, step, columns, lhs.steps, copy])
    rhs, rhs_column = b.select(adjacent, source, copy), b.select(adjacent, slot[Slot.RHS_COLUMN], lhs.steps)
    return _Factors(lhs.lhs, lhs.lhs_row, rhs, rhs_column, lhs.steps)


def _emit_dot_tiles(
    block: _Block, panel: Value, goes_on: Value, is_last: Value, columns: Value, factors: _Factors
) -> None:
    """All rows of a panel of few columns, from one of which to the next `factors.rhs_row` says the way."""
    b, slot = block.b, block.slot
    column, out_row = b.mul(panel, PANEL), slot[Slot.OUT_ROW]
    out = b.offset(slot[Slot.OUT], block.sum_element, column)
    bias = b.select(block.has_bias, b.offset(slot[Slot.INIT], block.sum_element, column), block.zeros)
    sums = [out, out_row, slot[Slot.ROWS], factors.steps, b.select(goes_on, out, bias), b.select(goes_on, out_row, 0)]
    sides = [factors.lhs, factors.lhs_row, factors.rhs, factors.rhs_row]
    b.call_pointer(pick_dot_tile(b, block.shape.element, columns), [*sides, *sums])
    branch = b.if_(b.and_(is_last, block.has_epilogue))
    with branch.then():
        place = [slot[Slot.FIRST_ROW], slot[Slot.ROWS], b.add(slot[Slot.FIRST_COLUMN], column), columns]
        b.call_pointer(slot[Slot.EPILOGUE], [slot[Slot.CONTEXT], *place, out, out_row])


def _emit_row_tiles(
    block: _Block, panel: Value, goes_on: Value, is_last: Value, columns: Value, factors: _Factors
) -> None:
    """All row tiles of a panel; `goes_on` when out holds the sums of earlier depth blocks."""
    b, slot = block.b, block.slot
    column = b.mul(panel, PANEL)
    out_row = slot[Slot.OUT_ROW]
    bias = b.select(block.has_bias, b.offset(slot[Slot.INIT], block.sum_element, column), block.zeros)
    init_stride = b.select(goes_on, out_row, b.const(b.i64, 0))
    runs_epilogue = b.and_(is_last, block.has_epilogue)
    next_panel = b.offset(factors.rhs, block.rhs_element, _next_step(block, factors))
    tile_high, tile_low = (block.table.function(picked, columns) for picked in (block.tile_high, block.tile_low))
    with b.for_(0, block.tiles) as tile:
        is_high = b.cmp("slt", tile.index, block.extra)
        rows = b.select(is_high, b.add(block.rows_low, 1), block.rows_low)
        row = b.add(b.mul(tile.index, block.rows_low), b.minimum(tile.index, block.extra))
        a = b.offset(factors.lhs, b.type(block.shape.lhs_element), b.mul(row, factors.lhs_row))
        c = b.offset(slot[Slot.OUT], block.sum_element, b.add(b.mul(row, out_row), column))
        sums = [c, out_row, factors.steps, b.select(goes_on, c, bias), init_stride, columns]
        prefetch = _emit_prefetch(block, tile.index, next_panel, factors.steps)
        function = b.select(is_high, tile_high, tile_low)
        _prefetch_result(block, c, rows)
        b.call_pointer(function, [a, factors.lhs_row, factors.rhs, factors.rhs_row, *sums, *prefetch])
        branch = b.if_(runs_epilogue)
        with branch.then():
            first_row, first_column = b.add(slot[Slot.FIRST_ROW], row), b.add(slot[Slot.FIRST_COLUMN], column)
            arguments = [slot[Slot.CONTEXT], first_row, rows, first_column, columns, c, out_row]
            b.call_pointer(slot[Slot.EPILOGUE], arguments)


def _next_step(block: _Block, factors: _Factors) -> Value:
    """Elements from what the tiles of a panel read to what those after them read.

    A task of one packed panel goes on with that panel's next depth block, and the task after it with the panel behind: in both cases with
    what follows in memory. Several panels are walked before the next depth block.
    """
    b, slot = block.b, block.slot
    goes_on = b.and_(b.cmp("ne", slot[Slot.PACKED], 0), b.cmp("sle", slot[Slot.COLUMNS], PANEL))
    return b.select(goes_on, b.mul(factors.steps, factors.rhs_row), slot[Slot.RHS_PANEL])


def _prefetch_result(block: _Block, c: Value, rows: Value) -> None:
    """Ask for the lines that a tile will store, to write them: they come while it multiplies, and its stores need not wait."""
    b, shape = block.b, block.shape
    with b.for_(0, rows) as row:
        start = b.offset(c, block.sum_element, b.mul(row.index, block.slot[Slot.OUT_ROW]))
        for byte in range(0, PANEL * shape.sum_bytes, LINE):
            b.prefetch(start, b.i8, byte, write=True)


def _emit_prefetch(block: _Block, tile: Value, next_panel: Value, steps: Value) -> tuple[Value, Value]:
    """What a tile prefetches beside its own panel (address, bytes for each step): its part of the next panel.

    Without it the first tile of a panel would wait for the slower caches and the others would leave them idle. The first tiles take
    half of the panel each (all of it where a tile goes through the panel in several passes), or a quarter each when there are four;
    the lines of the others are there already.
    """
    b = block.b
    few = 2 if block.shape.columns(MAX_ROWS) == PANEL else 1
    parts = b.select(b.cmp("slt", block.tiles, 4), b.const(b.i64, few), b.const(b.i64, 4))
    step = b.div(b.const(b.i64, block.shape.step_bytes), parts)
    return b.offset(next_panel, b.i8, b.mul(b.mul(b.rem(tile, parts), step), steps)), step


def declare_block_parts(module: ModuleBuilder, b: Builder, shape: TileShape) -> None:
    """Declare what `emit_block_driver` defines beside the driver, for f32 and f64, in a module that calls it."""
    for rows in range(1, MAX_ROWS + 1):
        for narrow in (False, True):
            module.declare(tile_name(shape.element, rows, narrow=narrow), tile_arguments(b))
    module.declare(pack_lhs_name(shape.element), pack_lhs_arguments(b))
    module.declare(pack_rhs_name(shape.element), pack_rhs_arguments(b))
    module.declare(dots_name(shape.element), dots_arguments(b))
    for columns in range(1, FEW_COLUMNS + 1):
        module.declare(dot_tile_name(shape.element, columns), dot_tile_arguments(b))


def declare_block_driver(module: ModuleBuilder, b: Builder, element: str) -> None:
    """Declare the block driver in a module that calls it."""
    module.declare(block_name(element), block_arguments(b))
