"""Recurrent layers: cells applied along an axis, each to what the one before has left."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from xdsl.utils.exceptions import VerifyException

from anyshape.dialects.dhlo.base import REQUIRED, Array, Environment, Sample
from anyshape.dialects.dhlo.whole import Whole
from anyshape.dialects.dtypes import F32, F64
from anyshape.dialects.sizes import Tensor, dtype_of, sizes_of, tensor
from anyshape.symbolic import Size

Step = Callable[[list[Array], list[Array], list[Array]], list[Array]]


def _sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def _lstm(x: list[Array], h: list[Array], states: list[Array]) -> list[Array]:
    i, f, g, o = (a + b for a, b in zip(x, h, strict=True))
    cell = _sigmoid(f) * states[1] + _sigmoid(i) * np.tanh(g)
    return [_sigmoid(o) * np.tanh(cell), cell]


def _gru(x: list[Array], h: list[Array], states: list[Array]) -> list[Array]:
    r, z = _sigmoid(x[0] + h[0]), _sigmoid(x[1] + h[1])
    n = np.tanh(x[2] + r * h[2])
    return [(1 - z) * n + z * states[0]]


@dataclass(frozen=True)
class Cell:
    """A kind of cell: how many gates and states it has, and its step in numpy."""

    gates: int
    states: int
    step: Step


CELLS: Mapping[str, Cell] = {
    "lstm": Cell(4, 2, _lstm),
    "gru": Cell(3, 1, _gru),
    "tanh": Cell(1, 1, lambda x, h, _: [np.tanh(x[0] + h[0])]),
    "relu": Cell(1, 1, lambda x, h, _: [np.maximum(x[0] + h[0], 0)]),
}


def _sample(cell: str, directions: tuple[int, ...]) -> Sample:
    d, gates = len(directions), CELLS[cell].gates
    operands = (("n", "m", d * gates * 3), (d, gates * 3, 3), (d, gates * 3), *[(d, "m", 3)] * CELLS[cell].states)
    values = dict.fromkeys(range(len(operands)), "unit")
    return Sample(operands, {"cell": cell, "reversed": directions}, (F32, F64), {}, values)


class Recurrence(Whole, op="recurrence"):
    """h_t = cell(x_t, W·h_{t−1} + bias) for each direction; `reversed` says of each (0 or 1) whether its steps go backwards.

    Operands x [s, b, d·g·n] (the inputs' part of the gates), W [d, g·n, n], bias [d, g·n], h [d, b, n] and, for `lstm`, c [d, b, n],
    where d is the number of directions, n that of units, and g that of gates of the `cell`. Result [k, s, b, d·n]: h of all steps
    and, for `lstm`, whose k is 2, c of all steps. With a = x_t and y = W·h + bias cut into gates,

        lstm   i f g o:  c = σ(a_f + y_f)·c + σ(a_i + y_i)·tanh(a_g + y_g),  h = σ(a_o + y_o)·tanh(c)
        gru    r z n:    h = (1 − z)·tanh(a_n + r·y_n) + z·h with r = σ(a_r + y_r), z = σ(a_z + y_z)
        tanh, relu:      h = tanh(a + y), max(a + y, 0)

    (Gates in the order of PyTorch and cuDNN; Hochreiter and Schmidhuber, Long Short-Term Memory, 1997; Cho et al., 2014, with the reset
    gate behind the product.)
    """

    DEFAULTS: ClassVar = {"cell": REQUIRED, "reversed": REQUIRED}
    SAMPLES = (
        *(_sample(cell, (0,)) for cell in CELLS),
        _sample("lstm", (0, 1)),
        _sample("gru", (0, 1)),
        _sample("tanh", (1,)),
    )

    @classmethod
    def infer(cls, operands: Sequence[Tensor], attributes: Mapping[str, Any]) -> Sequence[Tensor]:
        if attributes["cell"] not in CELLS:
            raise VerifyException(f"{cls.name}: cell {attributes['cell']} is not one of {', '.join(CELLS)}")
        cell = CELLS[attributes["cell"]]
        dtypes = {dtype_of(operand) for operand in operands}
        if len(operands) != 3 + cell.states or len(dtypes) != 1 or not dtypes <= {F32, F64}:
            raise VerifyException(f"{cls.name} takes {3 + cell.states} tensors of f32, or of f64")
        x, weight, bias, *states = (sizes_of(operand) for operand in operands)
        if len(x) != 3 or len(weight) != 3:
            raise VerifyException(f"{cls.name}: x and W have three axes each")
        d, units = Size.const(len(attributes["reversed"])), weight[2]
        steps, batch = x[0], x[1]
        state = (d, batch, units)
        expected = ((steps, batch, d * cell.gates * units), (d, cell.gates * units, units), (d, cell.gates * units))
        for what, got, sizes in zip(
            ("x", "W", "bias", "h", "c"), (x, weight, bias, *states), (*expected, state, state), strict=False
        ):
            if tuple(got) != sizes:
                raise VerifyException(
                    f"{cls.name}: {what} has sizes {list(map(str, got))}, expected {list(map(str, sizes))}"
                )
        (dtype,) = dtypes
        return [tensor(dtype, (cell.states, steps, batch, d * units))]

    @property
    def cell(self) -> Cell:
        return CELLS[self.attribute("cell")]

    @property
    def cell_name(self) -> str:
        return self.attribute("cell")

    @property
    def reversed(self) -> tuple[bool, ...]:
        return tuple(bool(each) for each in self.integers("reversed"))

    def reference(self, *operands: Array, env: Environment) -> Sequence[Array]:
        dtype = operands[0].dtype
        x, weight, bias, *first = [np.asarray(operand, np.float64) for operand in operands]
        steps, batch, _ = x.shape
        directions, _, units = weight.shape
        x = x.reshape(steps, batch, directions, self.cell.gates, units)
        result = np.zeros((self.cell.states, steps, batch, directions, units))
        with np.errstate(all="ignore"):
            for d, backwards in enumerate(self.reversed):
                states: list[Array] = [state[d] for state in first]
                for t in reversed(range(steps)) if backwards else range(steps):
                    products: Array = (states[0] @ weight[d].T + bias[d]).reshape(batch, self.cell.gates, units)
                    inputs: Array = x[t, :, d]
                    of_inputs, of_products = (
                        [each[:, g] for g in range(self.cell.gates)] for each in (inputs, products)
                    )
                    states = self.cell.step(of_inputs, of_products, states)
                    result[:, t, :, d] = states
        return [result.reshape(*result.shape[:3], directions * units).astype(dtype)]


__all__ = ["CELLS", "Cell", "Recurrence"]
