"""The driver of a block of a product with block-quantised weights: rows rounded once, then register tiles over panels.

`as_blocks_<format>_<activations>` takes a task record of 8-byte slots (`Slot`) and walks

    its rows of the left-hand side                       rounded into scratch, where a call before has not done so;
                                                         those that a prologue computes, as many at a time as a tile has
        for each 64 columns                              four panels, which stream once, then come from the second-level cache
            for each register tile of rows               split evenly, so that no tile is much smaller than another
                the epilogue, if any, over the rows × columns just stored
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum, auto

from anyshape.codegen.builder import Builder
from anyshape.codegen.mlir import ModuleBuilder, Type, Value
from anyshape.codegen.quantised.activations import emit_round, round_name
from anyshape.codegen.quantised.microkernel import emit_tile, tile_arguments, tile_name
from anyshape.codegen.quantised.shape import BlockShape
from anyshape.codegen.records import ResultSlots
from anyshape.dialects.packed_blocks import PANEL_ROWS

COLUMNS = 64
"""Columns of a task: four panels."""


class Slot(IntEnum):
    """Slots of a task record; pointers and 64-bit integers, strides in elements."""

    ROWS = 0
    COLUMNS = auto()
    UNITS = auto()
    """Units of a panel."""
    LHS = auto()
    """The first row, or room for the rows of a tile where there is a prologue."""
    LHS_ROW = auto()
    PROLOGUE = auto()
    """A function (context, first row, rows, where) that computes rows of the left-hand side, or null."""
    RHS = auto()
    """The first panel."""
    OUT = auto()
    OUT_ROW = auto()
    INIT = auto()
    """The bias of the first column, or null."""
    EPILOGUE = auto()
    """A function (context, first row, rows, first column, columns, tile, stride of a tile's row), or null."""
    CONTEXT = auto()
    FIRST_ROW = auto()
    FIRST_COLUMN = auto()
    SCRATCH = auto()
    """For the rounded rows: `BlockShape.row_bytes` for each 32 elements."""
    ROUNDED = auto()
    """1 when `SCRATCH` holds these rows from the call before."""


SLOTS = len(Slot)
RESULT = ResultSlots(Slot.FIRST_COLUMN, Slot.COLUMNS, Slot.OUT, Slot.INIT)
_POINTERS = (Slot.LHS, Slot.PROLOGUE, Slot.RHS, Slot.OUT, Slot.INIT, Slot.EPILOGUE, Slot.CONTEXT, Slot.SCRATCH)


def prologue_arguments(b: Builder) -> list[Type]:
    """(context, first row, rows, where they go)."""
    return [b.ptr, b.i64, b.i64, b.ptr]


def driver_name(shape: BlockShape) -> str:
    """The symbol of the driver."""
    return f"as_blocks_{shape.name}"


def driver_arguments(b: Builder) -> list[Type]:
    """(task record)."""
    return [b.ptr]


def emit_driver(module: ModuleBuilder, shape: BlockShape) -> None:
    """Define `driver_name(shape)` and everything that it calls."""
    emit_round(module, shape)
    for rows in range(1, shape.max_rows + 1):
        emit_tile(module, shape, rows)
    b = Builder()
    zeros = module.constant_bytes(bytes(4 * PANEL_ROWS), alignment=64)
    with module.function(driver_name(shape), driver_arguments(b)) as f:
        _Driver.read(b, shape, f.args[0], b.address_of(zeros)).emit()


@dataclass
class _Driver:
    """A driver under construction: the task's slots as values, and how its rows split into tiles."""

    b: Builder
    shape: BlockShape
    slot: dict[Slot, Value]
    zeros: Value
    has_bias: Value
    has_prologue: Value
    has_epilogue: Value
    tiles: Value
    rows_low: Value
    """Rows of the later tiles; the first `extra` have one more."""
    extra: Value
    functions: list[Value]

    @staticmethod
    def read(b: Builder, shape: BlockShape, task: Value, zeros: Value) -> _Driver:
        slot = {each: b.load(b.offset(task, b.i64, each.value), b.ptr if each in _POINTERS else b.i64) for each in Slot}
        rows = slot[Slot.ROWS]
        tiles = b.div(b.add(rows, shape.max_rows - 1), shape.max_rows)
        low = b.div(rows, b.maximum(tiles, 1))
        has_bias, has_prologue, has_epilogue = (
            b.cmp("ne", b.address_number(slot[each]), 0) for each in (Slot.INIT, Slot.PROLOGUE, Slot.EPILOGUE)
        )
        functions = [
            b.function_address(tile_name(shape, count), tile_arguments(b)) for count in range(1, shape.max_rows + 1)
        ]
        return _Driver(
            b, shape, slot, zeros, has_bias, has_prologue, has_epilogue, tiles, low, b.sub(rows, b.mul(low, tiles)),
            functions,
        )  # fmt: skip

    def emit(self) -> None:
        b, slot = self.b, self.slot
        with b.if_(b.cmp("eq", slot[Slot.ROUNDED], 0)).then(), b.for_(0, self.tiles) as tile:
            self._round(tile.index)
        with b.for_(0, slot[Slot.COLUMNS], COLUMNS) as columns, b.for_(0, self.tiles) as tile:
            self._multiply(tile.index, columns.index)

    def _rows(self, tile: Value) -> tuple[Value, Value]:
        """(first row, rows) of a tile."""
        b = self.b
        rows = b.add(self.rows_low, b.convert(b.cmp("slt", tile, self.extra), b.i64, signed=False))
        return b.add(b.mul(tile, self.rows_low), b.minimum(tile, self.extra)), rows

    @property
    def _pieces(self) -> Value:
        """Pieces of 32 elements of a row."""
        return self.b.mul(self.slot[Slot.UNITS], self.shape.layout.tiles_of_unit)

    def _rounded(self, row: Value) -> Value:
        """Where a tile's pieces begin."""
        b = self.b
        return b.offset(self.slot[Slot.SCRATCH], b.i8, b.mul(b.mul(row, self._pieces), self.shape.row_bytes))

    def _round(self, tile: Value) -> None:
        b, shape, slot = self.b, self.shape, self.slot
        first, rows = self._rows(tile)
        pieces = self._rounded(first)
        scales = b.offset(pieces, b.i8, b.mul(rows, shape.code_bytes))
        sums = b.offset(scales, b.i8, b.mul(rows, 4))
        with b.if_(self.has_prologue).then():
            b.call_pointer(
                slot[Slot.PROLOGUE], [slot[Slot.CONTEXT], b.add(slot[Slot.FIRST_ROW], first), rows, slot[Slot.LHS]]
            )
        behind = b.select(self.has_prologue, b.const(b.i64, 0), first)
        with b.for_(0, rows) as row:
            source = b.offset(slot[Slot.LHS], b.f32, b.mul(b.add(behind, row.index), slot[Slot.LHS_ROW]))
            places = [
                b.offset(pieces, b.i8, b.mul(row.index, shape.code_bytes)),
                b.offset(scales, b.i8, b.mul(row.index, 4)),
                b.offset(sums, b.i8, b.mul(row.index, 4 * shape.groups)),
            ]
            b.call(round_name(shape), [source, self._pieces, *places, b.mul(rows, shape.row_bytes)])

    def _multiply(self, tile: Value, column: Value) -> None:
        """One register tile over the four panels from `column` on."""
        b, slot = self.b, self.slot
        first, rows = self._rows(tile)
        columns = b.minimum(b.sub(slot[Slot.COLUMNS], column), COLUMNS)
        panel_bytes = b.mul(slot[Slot.UNITS], self.shape.layout.unit_bytes)
        panel = b.offset(slot[Slot.RHS], b.i8, b.mul(b.div(column, PANEL_ROWS), panel_bytes))
        out_row = slot[Slot.OUT_ROW]
        out = b.offset(slot[Slot.OUT], b.f32, b.add(b.mul(first, out_row), column))
        init = b.select(self.has_bias, b.offset(slot[Slot.INIT], b.f32, column), self.zeros)
        step = b.convert(self.has_bias, b.i64, signed=False)
        weights = [panel, panel_bytes, slot[Slot.UNITS]]
        b.call_pointer(self._function(rows), [self._rounded(first), *weights, out, out_row, init, step, columns])
        with b.if_(self.has_epilogue).then():
            place = [b.add(slot[Slot.FIRST_ROW], first), rows, b.add(slot[Slot.FIRST_COLUMN], column), columns]
            b.call_pointer(slot[Slot.EPILOGUE], [slot[Slot.CONTEXT], *place, out, out_row])

    def _function(self, rows: Value) -> Value:
        picked = self.functions[-1]
        for count, function in enumerate(self.functions[:-1], 1):
            picked = self.b.select(self.b.cmp("eq", rows, count), function, picked)
        return picked


def declare_driver(module: ModuleBuilder, b: Builder, shape: BlockShape) -> None:
    """Declare the driver in a module that calls it."""
    module.declare(driver_name(shape), driver_arguments(b))


__all__ = ["COLUMNS", "SLOTS", "Slot", "declare_driver", "driver_name", "emit_driver", "prologue_arguments"]
