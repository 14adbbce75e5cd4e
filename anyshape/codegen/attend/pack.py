"""Keys and values of a chunk as panels of the right-hand side of products, queries as rows; all widened where they are narrow.

Unlike the packing of products, columns are filled up to what a tile reads only, 32 or 64: a sentence may have few keys.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from anyshape.codegen.attend.elements import Elements
from anyshape.codegen.builder import Builder
from anyshape.codegen.mlir import ModuleBuilder, Type, Value
from anyshape.codegen.tiles.microkernel import NARROW
from anyshape.codegen.tiles.pack import transpose_square
from anyshape.dialects.packed_panels import PANEL


def pack_panel_name(element: str) -> str:
    """The symbol of `emit_pack_panel`."""
    return f"as_attend_panel_{element}"


def pack_panel_arguments(b: Builder) -> list[Type]:
    """(source, stride of k, stride of j, depth, columns, target)."""
    return [b.ptr, b.i64, b.i64, b.i64, b.i64, b.ptr]


def pack_query_name(element: str) -> str:
    """The symbol of `emit_pack_query`."""
    return f"as_attend_query_{element}"


def pack_query_arguments(b: Builder, elements: Elements) -> list[Type]:
    """(source, stride of the row, stride of k, rows, depth, factor, target)."""
    return [b.ptr, b.i64, b.i64, b.i64, b.i64, b.type(elements.shape.element), b.ptr]


def emit_pack_panel(module: ModuleBuilder, elements: Elements) -> None:
    """Define target[k·64 + j] = source[k·sk + j·sj] for j < columns <= 64, zero for the columns beyond up to 32 or 64."""
    b = Builder()
    with module.function(pack_panel_name(elements.name), pack_panel_arguments(b)) as f:
        panel = _Panel(b, elements, *f.args)
        rows = b.if_(b.cmp("eq", panel.stride_j, 1), has_else=True)
        with rows.then():
            panel.emit_rows()
        with rows.otherwise():
            columnar = b.if_(b.cmp("eq", panel.stride_k, 1), has_else=True)
            with columnar.then():
                panel.emit_squares()
            with columnar.otherwise():
                panel.emit_elements()


@dataclass(frozen=True)
class _Panel:
    b: Builder
    elements: Elements
    source: Value
    stride_k: Value
    stride_j: Value
    depth: Value
    columns: Value
    target: Value

    @property
    def lanes(self) -> int:
        return self.elements.shape.lanes

    @property
    def read_columns(self) -> Value:
        """Columns that a tile reads."""
        return self.b.select(self.b.cmp("sle", self.columns, NARROW), self.b.const(self.b.i64, NARROW), PANEL)

    def _at(self, k: Value, column: Value) -> Value:
        index = self.b.add(self.b.mul(k, self.stride_k), self.b.mul(column, self.stride_j))
        return self.b.offset(self.source, self.elements.cached.in_memory(self.b), index)

    def _target(self, k: Value, column: Value) -> Value:
        element = self.b.type(self.elements.shape.element)
        return self.b.offset(self.target, element, self.b.add(self.b.mul(k, PANEL), column))

    def emit_rows(self) -> None:
        """Adjacent columns: row by row."""
        b, lanes = self.b, self.lanes
        with b.for_(0, self.read_columns, lanes) as column:
            left = b.sub(self.columns, column.index)
            mask = b.tail_mask(left, lanes)
            # A masked access to a page that is not there may take hundreds of cycles, even when every lane is off.
            first = b.select(b.cmp("sgt", left, 0), column.index, 0)
            with b.for_(0, self.depth) as k:
                values = self.elements.cached.load(b, self._at(k.index, first), 0, width=lanes, mask=mask)
                b.store(values, self._target(k.index, column.index))

    def emit_squares(self) -> None:
        """Adjacent k: squares of `lanes` columns and `lanes` k, transposed in registers."""
        b, lanes = self.b, self.lanes
        with b.for_(0, self.read_columns, lanes) as column, b.for_(0, self.depth, lanes) as k:
            columns, depth = b.sub(self.columns, column.index), b.sub(self.depth, k.index)
            is_whole = b.and_(b.cmp("sge", columns, lanes), b.cmp("sge", depth, lanes))
            whole = b.if_(is_whole, has_else=True)
            with whole.then():
                rows = [
                    self.elements.cached.load(b, self._at(k.index, b.add(column.index, lane)), 0, width=lanes)
                    for lane in range(lanes)
                ]
                for lane, values in enumerate(transpose_square(b, rows)):
                    b.store(values, self._target(b.add(k.index, lane), column.index))
            with whole.otherwise():
                self._emit_part(k.index, column.index, columns, depth)

    def _emit_part(self, k: Value, column: Value, columns: Value, depth: Value) -> None:
        """A square of which only some columns or k exist."""
        b, lanes = self.b, self.lanes
        mask = b.tail_mask(depth, lanes)
        zero = b.splat(0, b.type(self.elements.shape.element), lanes)
        rows: list[Value] = []
        for lane in range(lanes):
            exists = b.cmp("sgt", columns, lane)
            # Beyond the last column the address is one that is there: see `emit_rows`.
            there = b.minimum(b.add(column, lane), b.sub(self.columns, 1))
            values = self.elements.cached.load(b, self._at(k, there), 0, width=lanes, mask=mask)
            rows.append(b.select(exists, values, zero))
        for lane, values in enumerate(transpose_square(b, rows)):
            branch = b.if_(b.cmp("sgt", depth, lane))
            with branch.then():
                b.store(values, self._target(b.add(k, lane), column))

    def emit_elements(self) -> None:
        """Any strides: gathered."""
        b, lanes = self.b, self.lanes
        zero = b.const(b.i64, 0)
        with b.for_(0, self.read_columns, lanes) as column:
            mask = b.tail_mask(b.sub(self.columns, column.index), lanes)
            steps = b.mul(b.add(b.lane_numbers(lanes), column.index), self.stride_j)
            with b.for_(0, self.depth) as k:
                values = self.elements.cached.gather(b, self._at(k.index, zero), steps, mask=mask)
                b.store(values, self._target(k.index, column.index))


def emit_pack_query(module: ModuleBuilder, elements: Elements) -> None:
    """Define target[i·depth + k] = factor·source[i·si + k·sk] for all i < rows and k < depth."""
    b = Builder()
    lanes, memory, element = elements.shape.lanes, elements.own.in_memory(b), b.type(elements.shape.element)
    with module.function(pack_query_name(elements.name), pack_query_arguments(b, elements)) as f:
        source, stride_i, stride_k, rows, depth, factor, target = f.args

        def copy(load: Callable[[Value, Value, Value], Value]) -> None:
            """`load(address of a row, k, which lanes exist)`."""
            with b.for_(0, rows) as i, b.for_(0, depth, lanes) as k:
                mask = b.tail_mask(b.sub(depth, k.index), lanes)
                values = load(b.offset(source, memory, b.mul(i.index, stride_i)), k.index, mask)
                row = b.offset(target, element, b.mul(i.index, depth))
                b.store(b.mul(values, b.broadcast(factor, lanes)), row, k.index, mask=mask)

        adjacent = b.if_(b.cmp("eq", stride_k, 1), has_else=True)
        with adjacent.then():
            copy(lambda row, k, mask: elements.own.load(b, row, k, width=lanes, mask=mask))
        with adjacent.otherwise():
            copy(
                lambda row, k, mask: elements.own.gather(
                    b, row, b.mul(b.add(b.lane_numbers(lanes), k), stride_k), mask=mask
                )
            )
