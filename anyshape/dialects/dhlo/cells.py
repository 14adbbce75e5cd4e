"""Recurrent cells: their gates and states, the functions of their gates, and a step of each in numpy."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

import numpy as np

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True)
class Function:
    """A function of gates: what it computes of x, α and β, and how many of these two it has."""

    compute: Callable[[Array, float, float], Array]
    numbers: int = 0


def _sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


FUNCTIONS: Mapping[str, Function] = {
    "sigmoid": Function(lambda x, _, __: _sigmoid(x)),
    "tanh": Function(lambda x, _, __: np.tanh(x)),
    "relu": Function(lambda x, _, __: np.maximum(x, 0)),
    "softsign": Function(lambda x, _, __: x / (1 + np.abs(x))),
    "softplus": Function(lambda x, _, __: np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))),
    "affine": Function(lambda x, alpha, beta: alpha * x + beta, 2),
    "scaled_tanh": Function(lambda x, alpha, beta: alpha * np.tanh(beta * x), 2),
    "hard_sigmoid": Function(lambda x, alpha, beta: np.minimum(np.maximum(alpha * x + beta, 0), 1), 2),
    "leaky_relu": Function(lambda x, alpha, _: np.where(x < 0, alpha * x, x), 1),
    "thresholded_relu": Function(lambda x, alpha, _: np.where(x > alpha, x, 0), 1),
    "elu": Function(lambda x, alpha, _: np.where(x < 0, alpha * np.expm1(x), x), 1),
}


@dataclass(frozen=True)
class Activation:
    """A function of gates with its numbers: α and β, as far as it has them."""

    name: str
    numbers: tuple[float, ...] = ()

    def __str__(self) -> str:
        return ":".join([self.name, *(repr(float(number)) for number in self.numbers)])

    @staticmethod
    def of(text: str) -> Activation:
        """The inverse of `str`; ValueError for an unknown name, or another number of numbers than it has."""
        name, *numbers = text.split(":")
        if name not in FUNCTIONS or len(numbers) != FUNCTIONS[name].numbers:
            known = ", ".join(f"{name} ({function.numbers})" for name, function in FUNCTIONS.items())
            raise ValueError(
                f"the function {text!r} is none of {known}, with as many numbers behind it as are in brackets"
            )
        return Activation(name, tuple(map(float, numbers)))

    @property
    def alpha(self) -> float:
        """α, 0 where it has none."""
        return self.numbers[0] if self.numbers else 0.0

    @property
    def beta(self) -> float:
        """β, 0 where it has none."""
        return self.numbers[1] if len(self.numbers) > 1 else 0.0

    def __call__(self, x: Array) -> Array:
        return FUNCTIONS[self.name].compute(x, self.alpha, self.beta)


@dataclass(frozen=True)
class CellRules:
    """What cells of one kind may differ in.

    Attributes:
        functions: of the gates.
        clip: what goes into the functions of gates is kept in [−clip, clip]; 0 for no bounds.
        couples: f = 1 − i.
    """

    functions: tuple[Activation, ...]
    clip: float = 0.0
    couples: bool = False

    def gate(self, function: int, x: Array) -> Array:
        """A function of what a gate has summed."""
        return self.functions[function](np.clip(x, -self.clip, self.clip) if self.clip else x)


Product = Callable[[Array, int, int], Sequence[Array]]
"""(a factor like h, first gate, gates) -> W·factor + bias of each of these gates."""
Step = Callable[[CellRules, Sequence[Array], Product, Sequence[Array], Sequence[Array]], list[Array]]
"""(rules, the inputs' part of each gate, the product, peepholes of i, o and f or none, the states) -> the states behind the step."""


def _lstm(
    rules: CellRules, x: Sequence[Array], product: Product, peepholes: Sequence[Array], states: Sequence[Array]
) -> list[Array]:
    h, cell = states
    i, f, g, o = (a + b for a, b in zip(x, product(h, 0, 4), strict=True))
    of_i, of_o, of_f = peepholes or (0, 0, 0)
    i = rules.gate(0, i + of_i * cell)
    f = 1 - i if rules.couples else rules.gate(0, f + of_f * cell)
    following: Array = f * cell + i * rules.gate(1, g)
    o = rules.gate(0, o + of_o * following)
    return [o * rules.functions[2](following), following]


def _gru(
    rules: CellRules,
    x: Sequence[Array],
    product: Product,
    _: Sequence[Array],
    states: Sequence[Array],
    *,
    reset_before: bool = False,
) -> list[Array]:
    """The reset gate multiplies n's product with h or, with `reset_before`, the h of that product."""
    (h,) = states
    r, z = (rules.gate(0, a + b) for a, b in zip(x[:2], product(h, 0, 2), strict=True))
    (own_n,) = product(r * h if reset_before else h, 2, 1)
    n = rules.gate(1, x[2] + (own_n if reset_before else r * own_n))
    return [(1 - z) * n + z * h]


def _rnn(
    rules: CellRules, x: Sequence[Array], product: Product, _: Sequence[Array], states: Sequence[Array]
) -> list[Array]:
    return [rules.gate(0, x[0] + product(states[0], 0, 1)[0])]


@dataclass(frozen=True)
class Cell:
    """A kind of cell: how many gates and states it has, the functions that it usually has, and its step."""

    gates: int
    states: int
    functions: tuple[str, ...]
    step: Step


CELLS: Mapping[str, Cell] = {
    "lstm": Cell(4, 2, ("sigmoid", "tanh", "tanh"), _lstm),
    "gru": Cell(3, 1, ("sigmoid", "tanh"), _gru),
    "gru_reset_before": Cell(3, 1, ("sigmoid", "tanh"), partial(_gru, reset_before=True)),
    "rnn": Cell(1, 1, ("tanh",), _rnn),
}


__all__ = ["CELLS", "FUNCTIONS", "Activation", "Cell", "CellRules", "Product"]
