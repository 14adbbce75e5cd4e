"""Register tiles: out[r, j] = init[j] + Σ_k x[r, k]·w[j, k] for up to `max_rows` rows r, a panel of 16 columns j after another.

For each 32 columns of the weights, which are multiplied as integers, exactly,

    sum[r, j] += (w's scale[j] · x's scale[r]) · Σ_k q[r, k]·(u[j, k] − z)  +  minimum[j] · (x's scale[r] · Σ_k q[r, k]),

in f32 and in the order of k, whatever the rows and threads. Pieces that share a scale of x are summed before they are multiplied by it.
Where q has two bytes, q = 256·upper + lower, the sum of the upper ones is shifted and added to that of the lower ones.
"""

from __future__ import annotations

from dataclasses import dataclass

from anyshape.codegen.builder import Builder
from anyshape.codegen.mlir import AttributeSpec, ModuleBuilder, Type, Value
from anyshape.codegen.partial import store_first
from anyshape.codegen.quantised.shape import BlockShape
from anyshape.codegen.quantised.weights import PanelReader, TileWeights, WeightReader, as_bytes
from anyshape.codegen.tiles.product import vector_bitcast
from anyshape.dialects.packed_blocks import PANEL_ROWS, TILE_COLUMNS, VECTORS

_BYTES_AHEAD = 8192
"""Bytes of weights between what a tile reads and what it prefetches."""
_LINE = 64


def tile_name(shape: BlockShape, rows: int) -> str:
    """The symbol of the register tile with that many rows."""
    return f"as_blocks_{shape.name}_r{rows}"


def tile_arguments(b: Builder) -> list[Type]:
    """(activations, first panel, bytes of a panel, units of a panel, out, elements from row to row, init, its step, columns).

    `init` is what sums start from, one number for each column where its step is 1, or the same 16 for every panel where it is 0.
    """
    return [b.ptr, b.ptr, b.i64, b.i64, b.ptr, b.i64, b.ptr, b.i64, b.i64]


def emit_tile(module: ModuleBuilder, shape: BlockShape, rows: int) -> None:
    """Define `tile_name(shape, rows)`. Columns beyond `columns` are neither read from `init` nor written."""
    b = Builder(shape.features)
    attributes: dict[int, list[AttributeSpec]] = {0: ["readonly"], 1: ["readonly"]}
    with module.function(tile_name(shape, rows), tile_arguments(b), internal=True, attributes=attributes) as f:
        activations, first, panel_bytes, units, out, out_row, init, init_step, columns = f.args
        with b.for_(0, columns, PANEL_ROWS) as loop:
            panel = b.offset(first, b.i8, b.mul(b.div(loop.index, PANEL_ROWS), panel_bytes))
            together = shape.parts_together(rows)
            for first_part in range(0, shape.parts, together):
                tile = _Tile(b, shape, rows, range(first_part, first_part + together))
                places = [tile.place(part, columns, loop.index) for part in tile.parts]
                starts: list[Value] = []
                for own, mask in places:
                    start = b.offset(init, b.f32, b.add(b.mul(loop.index, init_step), own))
                    starts.append(b.load(start, b.f32, width=shape.lanes, mask=mask))
                sums = tile.sums(activations, panel, units, starts)
                for number, part in enumerate(tile.parts):
                    column = b.add(loop.index, part * shape.lanes)
                    first = b.offset(out, b.f32, column)
                    to = [b.offset(first, b.f32, b.mul(out_row, row)) for row in range(rows)]
                    own = sums[number * rows : (number + 1) * rows]
                    store_first(b, list(zip(own, to, strict=True)), b.sub(columns, column))


@dataclass(frozen=True)
class _Tile:
    """The sums of `rows` rows with some vectors of a panel, those of one vector before those of the next."""

    b: Builder
    shape: BlockShape
    rows: int
    parts: range

    def place(self, part: int, columns: Value, first: Value) -> tuple[Value | int, Value]:
        """Where in a row's columns of the panel from column `first` on a vector lies, and which of its columns exist."""
        b, lanes = self.b, self.shape.lanes
        left = b.sub(columns, b.add(first, part * lanes))
        # A vector without columns is put at the row's start: some machines take long for a page that is not there even where
        # every lane is off.
        own = b.select(b.cmp("sgt", left, 0), b.const(b.i64, part * lanes), 0) if part else 0
        return own, b.tail_mask(left, lanes)

    def sums(self, activations: Value, panel: Value, units: Value, starts: list[Value]) -> list[Value]:
        b, layout = self.b, self.shape.layout
        reader = PanelReader([WeightReader(b, self.shape, part) for part in self.parts])
        start = [start for start in starts for _ in range(self.rows)]
        piece_bytes = self.rows * self.shape.row_bytes
        if self.shape.scale_pieces > 1:
            grouped = self._grouped_sums if layout.tiles_of_unit == 1 else self._grouped_sums_of_units
            return grouped(reader, (activations, panel, units), start)
        with b.for_(0, units, 1, start) as loop:
            unit = b.offset(panel, b.i8, b.mul(loop.index, layout.unit_bytes))
            pieces = b.offset(activations, b.i8, b.mul(loop.index, piece_bytes * layout.tiles_of_unit))
            numbers = reader.unit(unit)
            if layout.tiles_of_unit == 1:
                self._prefetch(unit, layout.unit_bytes)
                loop.yield_(*self._add_tile(reader, reader.tile(unit, numbers, 0), pieces, loop.args))
            else:
                self._prefetch(unit, layout.tiles)
                with b.for_(0, layout.tiles_of_unit, 1, loop.args) as tiles:
                    first = b.add(b.mul(tiles.index, layout.tile_bytes), layout.tiles)
                    self._prefetch(b.offset(unit, b.i8, first), layout.tile_bytes)
                    weights = reader.tile(unit, numbers, tiles.index)
                    piece = b.offset(pieces, b.i8, b.mul(tiles.index, piece_bytes))
                    tiles.yield_(*self._add_tile(reader, weights, piece, tiles.args))
                loop.yield_(*tiles.results)
        return loop.results

    def _grouped_sums(
        self, reader: PanelReader, operands: tuple[Value, Value, Value], start: list[Value]
    ) -> list[Value]:  # fmt: skip
        """The sums where `scale_pieces` pieces share a scale, each a unit of weights."""
        b, shape = self.b, self.shape
        activations, panel, units = operands
        piece_bytes = self.rows * shape.row_bytes
        zero = b.splat(0, b.f32, shape.lanes)
        with b.for_(0, units, shape.scale_pieces, start) as loop:
            count = b.minimum(b.sub(units, loop.index), shape.scale_pieces)
            first = b.offset(activations, b.i8, b.mul(loop.index, piece_bytes))
            with b.for_(0, count, 1, [zero] * len(start)) as each:
                unit = b.offset(panel, b.i8, b.mul(b.add(loop.index, each.index), shape.layout.unit_bytes))
                self._prefetch(unit, shape.layout.unit_bytes)
                pieces = b.offset(first, b.i8, b.mul(each.index, piece_bytes))
                each.yield_(*self._add_tile(reader, reader.tile(unit, reader.unit(unit), 0), pieces, each.args))
            loop.yield_(*self._scaled(each.results, first, loop.args))
        return loop.results

    def _grouped_sums_of_units(
        self, reader: PanelReader, operands: tuple[Value, Value, Value], start: list[Value]
    ) -> list[Value]:  # fmt: skip
        """The sums where a unit of weights has several times `scale_pieces` tiles."""
        b, shape, layout = self.b, self.shape, self.shape.layout
        activations, panel, units = operands
        piece_bytes = self.rows * shape.row_bytes
        zero = b.splat(0, b.f32, shape.lanes)
        with b.for_(0, units, 1, start) as loop:
            unit = b.offset(panel, b.i8, b.mul(loop.index, layout.unit_bytes))
            pieces = b.offset(activations, b.i8, b.mul(loop.index, piece_bytes * layout.tiles_of_unit))
            numbers = reader.unit(unit)
            self._prefetch(unit, layout.tiles)
            with b.for_(0, layout.tiles_of_unit, shape.scale_pieces, loop.args) as group:
                first = b.offset(pieces, b.i8, b.mul(group.index, piece_bytes))
                with b.for_(0, shape.scale_pieces, 1, [zero] * len(start)) as each:
                    number = b.add(group.index, each.index)
                    place = b.offset(unit, b.i8, b.add(b.mul(number, layout.tile_bytes), layout.tiles))
                    self._prefetch(place, layout.tile_bytes)
                    weights = reader.tile(unit, numbers, number)
                    piece = b.offset(first, b.i8, b.mul(each.index, piece_bytes))
                    each.yield_(*self._add_tile(reader, weights, piece, each.args))
                group.yield_(*self._scaled(each.results, first, group.args))
            loop.yield_(*group.results)
        return loop.results

    def _scaled(self, sums: list[Value], pieces: Value, before: list[Value]) -> list[Value]:
        """What was summed before, and sums of each row times the scale that its pieces share."""
        b, shape = self.b, self.shape
        scales = [self._number(pieces, shape.scale_offset(self.rows, row), b.f32) for row in range(self.rows)]
        scales *= len(self.parts)
        return [b.fma(sum_, scale, other) for sum_, scale, other in zip(sums, scales, before, strict=True)]

    def _prefetch(self, place: Value, size: int) -> None:
        if 0 in self.parts:
            for byte in range(0, size, _LINE):
                self.b.prefetch(place, self.b.i8, _BYTES_AHEAD + byte)

    def _add_tile(
        self, reader: PanelReader, weights: list[TileWeights], pieces: Value, sums: list[Value]
    ) -> list[Value]:
        """The sums after 32 more columns."""
        b, shape, rows, added = self.b, self.shape, self.rows, list(sums)
        for group in range(shape.groups):
            for number, total in enumerate(self._integer_sums(reader, weights, pieces, group)):
                part, row = divmod(number, rows)
                scale = weights[part].scales[group]
                if shape.scale_pieces == 1:
                    scale = b.mul(scale, self._number(pieces, shape.scale_offset(rows, row), b.f32))
                added[number] = b.fma(b.convert(total, b.f32), scale, added[number])
        for number in range(len(added)):
            part, row = divmod(number, rows)
            minimum = weights[part].minimum
            if minimum is not None:
                real = self._number(pieces, shape.sum_offset(rows, row), b.f32)
                added[number] = b.fma(minimum, real, added[number])
        return added

    def _number(self, pieces: Value, offset: int, type_: Type) -> Value:
        """One number of the pieces in every lane."""
        b = self.b
        return b.broadcast(b.load(b.offset(pieces, b.i8, offset), type_, alignment=1), self.shape.lanes)

    def _integer_sums(self, reader: PanelReader, weights: list[TileWeights], pieces: Value, group: int) -> list[Value]:
        """Σ q·(u − z) over the columns of a group, for each row."""
        b, shape, rows = self.b, self.shape, self.rows
        zero = b.splat(0, b.i32, shape.lanes)
        start = [zero] * rows
        if shape.sums == "integer":
            places = [shape.sum_offset(rows, row, group) for row in range(rows)]
            start = [self._number(pieces, place, b.i32) for place in places]
        before = [*[zero] * (rows * (shape.planes - 1)), *start]
        if shape.method == "shorts":
            totals = self._add_shorts(reader, weights, pieces, before)
        else:
            totals = [self._add_group(*each, pieces, group, before) for each in zip(reader.parts, weights, strict=True)]
        if shape.planes == 1:
            return [total for each in totals for total in each]
        pairs = [pair for each in totals for pair in zip(each[:rows], each[rows:], strict=True)]
        return [b.add(b.shl(upper, 8), lower) for upper, lower in pairs]

    def _add_group(
        self, reader: WeightReader, weights: TileWeights, pieces: Value, group: int, totals: list[Value]
    ) -> list[Value]:
        """The totals of one vector of rows, of each plane and row, after the columns of a group."""
        per_group = VECTORS // self.shape.groups
        first, last = group * per_group, (group + 1) * per_group
        if self.shape.method == "bytes":
            for vector in range(first, last):
                totals = self._add_vector(reader.codes(weights.codes, vector), pieces, vector, totals)
            return totals
        # Sums of additions would be reordered, and need more registers than there are, if the vectors were not in a loop.
        with self.b.for_(first, last, 1, totals) as loop:
            codes = reader.codes(weights.codes, loop.index)
            loop.yield_(*self._add_vector(codes, pieces, loop.index, loop.args))
        return loop.results

    def _add_shorts(
        self, reader: PanelReader, weights: list[TileWeights], pieces: Value, totals: list[Value]
    ) -> list[list[Value]]:
        """The totals of each vector of rows after 32 columns, which are summed in 16 bits first."""
        b, lanes, count = self.b, 2 * self.shape.lanes, len(totals)
        assert self.shape.groups == 1  # as in all formats of 4 bits
        with b.for_(0, VECTORS // 2, 1, [b.splat(0, b.i16, lanes)] * (count * len(self.parts))) as loop:
            sums: list[Value] = []
            for number, (part, own) in enumerate(zip(reader.parts, weights, strict=True)):
                added = loop.args[number * count : (number + 1) * count]
                for half, codes in enumerate(part.both_codes(own.codes, loop.index)):
                    added = self._add_vector(codes, pieces, b.add(loop.index, half * VECTORS // 2), added)
                sums += added
            loop.yield_(*sums)
        ones = b.splat(1, b.i16, lanes)
        found = [self._add_pairs(ones, sum_, totals[number % count]) for number, sum_ in enumerate(loop.results)]
        return [found[number * count : (number + 1) * count] for number in range(len(self.parts))]

    def _add_vector(self, words: Value, pieces: Value, vector: int | Value, totals: list[Value]) -> list[Value]:
        """The totals, of each plane and row, after the four columns of a vector."""
        operands = self._operands(words)
        found: list[Value] = []
        for number, total in enumerate(totals):
            plane, row = divmod(number, self.rows)
            factors = self._factors(pieces, row * self.shape.code_bytes + TILE_COLUMNS * plane, vector)
            for weight, factor in zip(operands, factors, strict=True):
                total = self._dot(weight, factor, total)
            found.append(total)
        return found

    def _operands(self, words: Value) -> list[Value]:
        """What the products of four columns take."""
        b = self.b
        match self.shape.method:
            case "bytes" | "shorts":
                return [as_bytes(b, words)]
            case "pairs":
                return [b.and_(self._halves(words), 0xFF), b.shr(self._halves(words), 8)]
            case "plain":
                return [b.and_(b.shr(words, 8 * each) if each else words, 0xFF) for each in range(4)]

    def _halves(self, words: Value) -> Value:
        return vector_bitcast(self.b, words, self.b.i16, 2 * self.shape.lanes)

    def _factors(self, pieces: Value, codes: int, vector: int | Value) -> list[Value]:
        """The four activations that belong to a vector, in the form of `_operands`, in every lane; a row's begin at byte `codes`."""
        b, method = self.b, self.shape.method
        size = 4 if self.shape.in_bytes else 8
        if isinstance(vector, int):
            codes += size * vector
        else:
            pieces = b.offset(pieces, b.i8, b.mul(vector, size))
        match method:
            case "bytes" | "shorts":
                return [as_bytes(b, self._number(pieces, codes, b.i32))]
            case "pairs":
                return [self._halves(self._number(pieces, codes + 4 * each, b.i32)) for each in range(2)]
            case "plain":
                return [b.convert(self._number(pieces, codes + 2 * each, b.i16), b.i32) for each in range(4)]

    def _dot(self, weight: Value, factor: Value, total: Value) -> Value:
        b, bits = self.b, 32 * self.shape.lanes
        match self.shape.method:
            case "bytes":
                return b.intrinsic(f"llvm.x86.avx512.vpdpbusd.{bits}", total.type, [total, weight, factor])
            case "shorts":
                name = {256: "llvm.x86.avx2.pmadd.ub.sw", 512: "llvm.x86.avx512.pmaddubs.w.512"}[bits]
                return b.add(total, b.intrinsic(name, total.type, [weight, factor]))
            case "pairs":
                return self._add_pairs(weight, factor, total)
            case "plain":
                return b.add(total, b.mul(weight, factor))

    def _add_pairs(self, weight: Value, factor: Value, total: Value) -> Value:
        """Products of 16-bit integers, two to a sum of 32 bits."""
        b = self.b
        name = {8: "llvm.x86.avx2.pmadd.wd", 16: "llvm.x86.avx512.pmaddw.d.512"}[self.shape.lanes]
        return b.add(total, b.intrinsic(name, total.type, [weight, factor]))


__all__ = ["emit_tile", "tile_arguments", "tile_name"]
