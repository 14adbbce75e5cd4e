"""Recurrent cells with other functions than the usual ones, with peepholes, clipping or coupled gates: step after step.

There is no loop in programs, so that the number of steps must be known while importing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from anyshape.dialects.dhlo import (
    Abs,
    Add,
    Concatenate,
    Divide,
    DotGeneral,
    Exponential,
    ExponentialMinusOne,
    Logistic,
    LogPlusOne,
    Maximum,
    Minimum,
    Multiply,
    Negate,
    Relu,
    Subtract,
    Tanh,
)
from anyshape.frontends.onnx.builder import GraphBuilder
from anyshape.frontends.onnx.places import along
from anyshape.frontends.onnx.refusals import Malformed, Unsupported
from anyshape.nn import Tensor

MAX_STEPS = 128
"""Steps that are unrolled at most."""

Function = Callable[[GraphBuilder, Tensor, float, float], Tensor]


def _softplus(b: GraphBuilder, x: Tensor, _: float, __: float) -> Tensor:
    """max(x, 0) + ln(1 + e^−|x|)"""
    small = b.emit(LogPlusOne, b.emit(Exponential, b.emit(Negate, b.emit(Abs, x))))
    return b.emit(Add, b.emit(Relu, x), small)


_FUNCTIONS: Mapping[str, tuple[Function, float | None, float | None]] = {
    "Sigmoid": (lambda b, x, _, __: b.emit(Logistic, x), None, None),
    "Tanh": (lambda b, x, _, __: b.emit(Tanh, x), None, None),
    "Relu": (lambda b, x, _, __: b.emit(Relu, x), None, None),
    "Softsign": (lambda b, x, _, __: b.binary(Divide, x, b.binary(Add, b.emit(Abs, x), 1)), None, None),
    "Softplus": (_softplus, None, None),
    "Affine": (lambda b, x, alpha, beta: b.binary(Add, b.binary(Multiply, x, alpha), beta), 1.0, 0.0),
    "ScaledTanh": (lambda b, x, alpha, beta: b.binary(Multiply, b.emit(Tanh, b.binary(Multiply, x, beta)), alpha), 1.0, 1.0),
    "HardSigmoid": (
        lambda b, x, alpha, beta: b.binary(
            Minimum, b.binary(Maximum, b.binary(Add, b.binary(Multiply, x, alpha), beta), 0), 1
        ), 0.2, 0.5,
    ),
    "LeakyRelu": (lambda b, x, alpha, _: b.select(b.compare("lt", x, 0), b.binary(Multiply, x, alpha), x), 0.01, None),
    "ThresholdedRelu": (lambda b, x, alpha, _: b.select(b.compare("gt", x, alpha), x, 0.0), 1.0, None),
    "Elu": (
        lambda b, x, alpha, _: b.select(
            b.compare("lt", x, 0), b.binary(Multiply, b.emit(ExponentialMinusOne, x), alpha), x
        ), 1.0, None,
    ),
}  # fmt: skip
"""Each function of a gate, and the numbers that it has where none are given."""
_BY_LOWER_CASE = {name.lower(): name for name in _FUNCTIONS}


@dataclass(frozen=True)
class _Activation:
    name: str
    alpha: float
    beta: float

    def __call__(self, b: GraphBuilder, x: Tensor) -> Tensor:
        return _FUNCTIONS[self.name][0](b, x, self.alpha, self.beta)


@dataclass(frozen=True)
class CellRules:
    """The attributes of a layer's cells.

    Attributes:
        cell: LSTM, GRU or RNN.
        names, alphas, betas: of the functions of gates, one direction after another; functions without numbers take none.
        clip: what goes into functions is kept in [−clip, clip].
        couples: f = 1 − i.
        resets_product: the reset gate is a factor of the product with the states, not of the states.
        functions: from the names.
    """

    cell: str
    names: tuple[str, ...]
    alphas: tuple[float, ...]
    betas: tuple[float, ...]
    clip: float | None
    couples: bool
    resets_product: bool
    functions: tuple[tuple[_Activation, ...], ...] = ()

    def of_directions(self, defaults: Sequence[str], directions: int) -> CellRules:
        """With functions for each direction, the defaults where no names are given. Malformed, or Unsupported for an unknown name."""
        names = self.names or tuple(defaults) * directions
        if len(names) != len(defaults) * directions:
            raise Malformed(f"{len(names)} activations, expected {len(defaults)} for each of {directions} directions")
        alphas, betas = list(self.alphas), list(self.betas)
        functions: list[_Activation] = []
        for name in names:
            known = _BY_LOWER_CASE.get(name.lower())
            if known is None:
                raise Unsupported(f"the activation {name!r}; there are {', '.join(_FUNCTIONS)}")
            _, alpha, beta = _FUNCTIONS[known]
            if alpha is not None and alphas:
                alpha = alphas.pop(0)
            if beta is not None and betas:
                beta = betas.pop(0)
            functions.append(_Activation(known, alpha or 0.0, beta or 0.0))
        each = len(defaults)
        return replace(self, functions=tuple(tuple(functions[at : at + each]) for at in range(0, len(functions), each)))

    @property
    def whole_cell(self) -> str | None:
        """The cell of a `recurrence` that does the same."""
        kinds = {tuple(function.name for function in each) for each in self.functions}
        if len(kinds) > 1 or self.clip is not None or self.couples:
            return None
        (kind,) = kinds
        match self.cell, kind:
            case "LSTM", ("Sigmoid", "Tanh", "Tanh"):
                return "lstm"
            case "GRU", ("Sigmoid", "Tanh") if self.resets_product:
                return "gru"
            case "RNN", ("Tanh",) | ("Relu",):
                return kind[0].lower()
            case _:
                return None


@dataclass(frozen=True)
class Direction:
    """What one direction computes with: x [s, b, i] in the order of steps, W [g·n, i], R [g·n, n], biases [g·n], peepholes [3·n]."""

    x: Tensor
    w: Tensor
    r: Tensor
    bias: Tensor
    state_bias: Tensor
    peepholes: Tensor | None
    lengths: Tensor | None


def unrolled(
    b: GraphBuilder, rules: CellRules, direction: int, given: Direction, first: Sequence[Tensor]
) -> tuple[Tensor, list[Tensor]]:
    """h [s, b, n] of all steps, 0 behind the end of a sequence, and the last states [b, n].

    Unsupported where the number of steps is not known, or large.
    """
    steps = given.x.sizes[0]
    if not steps.is_constant or steps.value > MAX_STEPS:
        raise Unsupported(
            f"{rules.cell} of {steps} steps with these attributes; cells other than the usual ones (sigmoid and tanh, no peepholes, clip "
            f"or input_forget, GRU with linear_before_reset = 1) take up to {MAX_STEPS} steps, whose number the model says"
        )
    cell = _Cell(b, rules, direction, given)
    states = list(first)
    outputs: list[Tensor] = []
    inputs = b.emit(DotGeneral, given.x, given.w, lhs_contract=(2,), rhs_contract=(1,))
    inputs = b.emit(Add, inputs, b.repeated(given.bias, inputs.sizes))
    for t in range(steps.value):
        new = cell.step(b.reshape(b.slice(inputs, 0, t, 1), inputs.sizes[1:]), states)
        if given.lengths is None:
            states, output = new, new[0]
        else:
            goes_on = along(b, b.compare("gt", given.lengths, t), 0, new[0].sizes)
            states = [b.select(goes_on, *pair) for pair in zip(new, states, strict=True)]
            output = b.select(goes_on, new[0], 0.0)
        outputs.append(b.reshape(output, (1, *output.sizes)))
    return outputs[0] if len(outputs) == 1 else b.emit(Concatenate, *outputs, axis=0), states


class _Cell:
    def __init__(self, b: GraphBuilder, rules: CellRules, direction: int, given: Direction) -> None:
        self.b, self.rules, self.given = b, rules, given
        self.functions = rules.functions[direction]
        self.units = given.r.sizes[1]

    def step(self, inputs: Tensor, states: Sequence[Tensor]) -> list[Tensor]:
        """The states behind a step, from the inputs' part of all gates [b, g·n]."""
        return {"LSTM": self._lstm, "GRU": self._gru, "RNN": self._rnn}[self.rules.cell](inputs, states)

    def _part(self, x: Tensor, gate: int) -> Tensor:
        """One gate's units of the last axis."""
        return self.b.slice(x, x.rank - 1, self.units * gate, self.units)

    def _product(self, h: Tensor, first: int, count: int) -> Tensor:
        """h·Rᵀ + the states' bias, of so many gates"""
        b = self.b
        rows = b.slice(self.given.r, 0, self.units * first, self.units * count)
        bias = b.slice(self.given.state_bias, 0, self.units * first, self.units * count)
        sums = b.emit(DotGeneral, h, rows, lhs_contract=(1,), rhs_contract=(1,))
        return b.emit(Add, sums, b.repeated(bias, sums.sizes))

    def _apply(self, function: int, x: Tensor) -> Tensor:
        clip = self.rules.clip
        if clip is not None:
            x = self.b.binary(Minimum, self.b.binary(Maximum, x, -clip), clip)
        return self.functions[function](self.b, x)

    def _peep(self, gate: Tensor, cell: Tensor, which: int) -> Tensor:
        if self.given.peepholes is None:
            return gate
        b = self.b
        return b.emit(
            Add, gate, b.emit(Multiply, b.repeated(self._part(self.given.peepholes, which), cell.sizes), cell)
        )

    def _lstm(self, inputs: Tensor, states: Sequence[Tensor]) -> list[Tensor]:
        b = self.b
        h, cell = states
        sums = b.emit(Add, inputs, self._product(h, 0, 4))
        i, o, f, c = (self._part(sums, gate) for gate in range(4))
        i = self._apply(0, self._peep(i, cell, 0))
        f = b.binary(Subtract, 1, i) if self.rules.couples else self._apply(0, self._peep(f, cell, 2))
        cell = b.emit(Add, b.emit(Multiply, f, cell), b.emit(Multiply, i, self._apply(1, c)))
        o = self._apply(0, self._peep(o, cell, 1))
        return [b.emit(Multiply, o, self.functions[2](b, cell)), cell]

    def _gru(self, inputs: Tensor, states: Sequence[Tensor]) -> list[Tensor]:
        b = self.b
        (h,) = states
        both = b.slice(inputs, 1, 0, self.units * 2)
        sums = b.emit(Add, both, self._product(h, 0, 2))
        z, r = (self._apply(0, self._part(sums, gate)) for gate in range(2))
        if self.rules.resets_product:
            own = b.emit(Multiply, r, self._product(h, 2, 1))
        else:
            own = self._product(b.emit(Multiply, r, h), 2, 1)
        n = self._apply(1, b.emit(Add, self._part(inputs, 2), own))
        kept = b.emit(Multiply, z, h)
        return [b.emit(Add, b.emit(Multiply, b.binary(Subtract, 1, z), n), kept)]

    def _rnn(self, inputs: Tensor, states: Sequence[Tensor]) -> list[Tensor]:
        return [self._apply(0, self.b.emit(Add, inputs, self._product(states[0], 0, 1)))]


__all__ = ["MAX_STEPS", "CellRules", "Direction", "unrolled"]
