"""Cells of recurrent layers in lanes over units, and where a step finds what it reads and writes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from anyshape.codegen.builder import Builder
from anyshape.codegen.mlir import Type, Value
from anyshape.codegen.vector_math import exp, expm1, log1p, sigmoid, tanh
from anyshape.codegen.whole.body import emit_vectors
from anyshape.dialects.dhlo.cells import Activation, CellRules
from anyshape.dialects.dhlo.recurrence import Recurrence
from anyshape.support.machine import Machine

Function = Callable[[Builder, Value, Activation], Value]
"""(builder, x, the function with its numbers) -> the function of x."""


def _softplus(b: Builder, x: Value, _: Activation) -> Value:
    return b.add(b.maximum(x, 0.0), log1p(b, exp(b, b.neg(b.absolute(x)))))


def _hard_sigmoid(b: Builder, x: Value, a: Activation) -> Value:
    return b.minimum(b.maximum(b.add(b.mul(x, a.alpha), a.beta), 0.0), 1.0)


_FUNCTIONS: Mapping[str, Function] = {
    "sigmoid": lambda b, x, _: sigmoid(b, x),
    "tanh": lambda b, x, _: tanh(b, x),
    "relu": lambda b, x, _: b.maximum(x, 0.0),
    "softsign": lambda b, x, _: b.div(x, b.add(b.absolute(x), 1.0)),
    "softplus": _softplus,
    "affine": lambda b, x, a: b.add(b.mul(x, a.alpha), a.beta),
    "scaled_tanh": lambda b, x, a: b.mul(tanh(b, b.mul(x, a.beta)), a.alpha),
    "hard_sigmoid": _hard_sigmoid,
    "leaky_relu": lambda b, x, a: b.select(b.cmp("olt", x, 0.0), b.mul(x, a.alpha), x),
    "thresholded_relu": lambda b, x, a: b.select(b.cmp("ogt", x, a.alpha), x, 0.0),
    "elu": lambda b, x, a: b.select(b.cmp("olt", x, 0.0), b.mul(expm1(b, x), a.alpha), x),
}


@dataclass(frozen=True)
class _Lanes:
    """Vectors of some units of one row: the inputs' part of each gate, the product's part, the peepholes, the states."""

    b: Builder
    rules: CellRules
    x: Sequence[Value]
    y: Sequence[Value]
    peepholes: Sequence[Value]
    states: Sequence[Value]

    def function(self, number: int, x: Value) -> Value:
        """A function of x."""
        function = self.rules.functions[number]
        return _FUNCTIONS[function.name](self.b, x, function)

    def gate(self, gate: int, function: int, peephole: int = -1, cell: Value | None = None) -> Value:
        """The function of a gate's sum, to which a peephole at the cell may be added."""
        b = self.b
        total = b.add(self.x[gate], self.y[gate])
        if self.peepholes and cell is not None:
            total = b.fma(self.peepholes[peephole], cell, total)
        return self.function(function, self.clipped(total))

    def clipped(self, x: Value) -> Value:
        """What goes into the function of a gate."""
        clip = self.rules.clip
        return self.b.minimum(self.b.maximum(x, -clip), clip) if clip else x


Cell = Callable[[_Lanes], list[Value]]
"""The states behind a step."""


def _lstm(lanes: _Lanes) -> list[Value]:
    b, before = lanes.b, lanes.states[1]
    i = lanes.gate(0, 0, 0, before)
    f = b.sub(1.0, i) if lanes.rules.couples else lanes.gate(1, 0, 2, before)
    cell = b.fma(f, before, b.mul(i, lanes.gate(2, 1)))
    return [b.mul(lanes.gate(3, 0, 1, cell), lanes.function(2, cell)), cell]


def _gru(lanes: _Lanes) -> list[Value]:
    b = lanes.b
    r, z = lanes.gate(0, 0), lanes.gate(1, 0)
    n = lanes.function(1, lanes.clipped(b.fma(r, lanes.y[2], lanes.x[2])))
    return [b.fma(z, b.sub(lanes.states[0], n), n)]


def _gru_reset_before(lanes: _Lanes) -> list[Value]:
    b, z, n = lanes.b, lanes.gate(1, 0), lanes.gate(2, 1)
    return [b.fma(z, b.sub(lanes.states[0], n), n)]


_CELLS: Mapping[str, Cell] = {
    "lstm": _lstm,
    "gru": _gru,
    "gru_reset_before": _gru_reset_before,
    "rnn": lambda lanes: [lanes.gate(0, 0)],
}
_PEEPHOLES = 3


@dataclass(frozen=True)
class Place:
    """A step of a direction: its time, the time of the step before, and whether there was none."""

    direction: Value
    t: Value
    before: Value
    is_first: Value


@dataclass(frozen=True)
class Units:
    """Some units of a row: the first one, how many, and where their products with the states are, gate by gate."""

    first: Value
    count: Value
    products: Sequence[Value]


@dataclass(frozen=True)
class RecurrentLayer:
    """The tensors of a `recurrence` in memory; sizes and addresses as values."""

    b: Builder
    op: Recurrence
    machine: Machine
    inputs: Sequence[Value]
    output: Value
    steps: Value
    batch: Value
    gates: Value
    """Gates of a row: those of the cell times its units."""
    units: Value

    @property
    def element(self) -> Type:
        return self.b.type(str(self.op.operand_dtype().scalar))

    def place(self, direction: Value, step: Value) -> Place:
        """Where a direction's step of that number is."""
        b = self.b
        backwards = sum(1 << number for number, each in enumerate(self.op.reversed) if each)
        is_backwards = b.cmp("ne", b.and_(b.shr(b.const(b.i64, backwards), direction), 1), 0)
        t = b.select(is_backwards, b.sub(b.sub(self.steps, 1), step), step)
        before = b.add(t, b.select(is_backwards, b.const(b.i64, 1), b.const(b.i64, -1)))
        return Place(direction, t, before, b.cmp("eq", step, 0))

    def before(self, place: Place, row: Value) -> tuple[list[Value], Value]:
        """Where the states that a row meets are, and elements from one row's to the next: the given ones, or the step before's."""
        b = self.b
        given = b.mul(b.add(b.mul(self.batch, place.direction), row), self.units)
        pointers: list[Value] = []
        for state in range(self.op.cell.states):
            first = b.offset(self.inputs[3 + state], self.element, given)
            pointers.append(b.select(place.is_first, first, self._state(state, place.before, row, place.direction)))
        return pointers, b.select(place.is_first, self.units, b.mul(self.units, len(self.op.reversed)))

    def _state(self, state: int, t: Value, row: Value, direction: Value) -> Value:
        """The address of result[state, t, row, direction·units]."""
        b = self.b
        line = b.add(b.mul(b.add(b.mul(self.steps, state), t), self.batch), row)
        at = b.mul(b.add(b.mul(line, len(self.op.reversed)), direction), self.units)
        return b.offset(self.output, self.element, at)

    def emit_cell(self, place: Place, row: Value, units: Units) -> None:
        """One step of some units of one row: from gates and states to their states in the result."""
        b, op, element = self.b, self.op, self.element
        sources = self._gates_of(place, row, units)
        before = [b.offset(each, element, units.first) for each in self.before(place, row)[0]]
        after = [
            b.offset(self._state(state, place.t, row, place.direction), element, units.first)
            for state in range(op.cell.states)
        ]
        peepholes = self._peepholes_of(place, units)

        def step(first: Value, width: int, mask: Value | None) -> None:
            loaded = (
                [b.load(each, element, first, width=width, mask=mask) for each in pointers]
                for pointers in (sources, units.products, peepholes, before)
            )
            for target, value in zip(after, _CELLS[op.cell_name](_Lanes(b, op.rules, *loaded)), strict=True):
                b.store(value, target, first, mask=mask)

        emit_vectors(b, self.machine, units.count, element, step)

    def emit_reset(self, place: Place, row: Value, units: Units, target: Value) -> None:
        """The factor of the last gate's product where the reset gate comes before it: r·h of some units of one row, to `target`."""
        b, element = self.b, self.element
        sources = self._gates_of(place, row, units)
        before = b.offset(self.before(place, row)[0][0], element, units.first)

        def step(first: Value, width: int, mask: Value | None) -> None:
            x, y, h = (
                b.load(each, element, first, width=width, mask=mask) for each in (sources[0], units.products[0], before)
            )
            b.store(b.mul(_Lanes(b, self.op.rules, [x], [y], [], [h]).gate(0, 0), h), target, first, mask=mask)

        emit_vectors(b, self.machine, units.count, element, step)

    def _gates_of(self, place: Place, row: Value, units: Units) -> list[Value]:
        """Where the inputs' parts of the gates are."""
        b, element = self.b, self.element
        line = b.add(b.mul(b.add(b.mul(place.t, self.batch), row), len(self.op.reversed)), place.direction)
        inputs = b.offset(self.inputs[0], element, b.add(b.mul(line, self.gates), units.first))
        return [b.offset(inputs, element, b.mul(self.units, gate)) for gate in range(self.op.cell.gates)]

    def _peepholes_of(self, place: Place, units: Units) -> list[Value]:
        """Where the peepholes are, if there are any."""
        if not self.op.has_peepholes:
            return []
        b, element = self.b, self.element
        own = b.mul(b.mul(place.direction, self.units), _PEEPHOLES)
        first = b.offset(self.inputs[-1], element, b.add(own, units.first))
        return [b.offset(first, element, b.mul(self.units, number)) for number in range(_PEEPHOLES)]


__all__ = ["Place", "RecurrentLayer", "Units"]
