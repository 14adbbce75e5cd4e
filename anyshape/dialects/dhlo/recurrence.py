"""Recurrent layers: cells applied along an axis, each to what the one before has left."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from xdsl.utils.exceptions import VerifyException

from anyshape.dialects.dhlo.base import REQUIRED, Array, Environment, Sample
from anyshape.dialects.dhlo.cells import CELLS, Activation, Cell, CellRules, Product
from anyshape.dialects.dhlo.whole import Whole
from anyshape.dialects.dtypes import F32, F64
from anyshape.dialects.sizes import Tensor, dtype_of, sizes_of, tensor
from anyshape.symbolic import Size


def _sample(cell: str, directions: tuple[int, ...], **others: Any) -> Sample:
    d, gates = len(directions), CELLS[cell].gates
    operands = [("n", "m", d * gates * 3), (d, gates * 3, 3), (d, gates * 3), *[(d, "m", 3)] * CELLS[cell].states]
    if others.get("peepholes"):
        operands.append((d, 9))
    values = dict.fromkeys(range(len(operands)), "unit")
    return Sample(tuple(operands), {"cell": cell, "reversed": directions, **others}, (F32, F64), {}, values)


class Recurrence(Whole, op="recurrence"):
    """h_t = cell(x_t, W·h_{t−1} + bias) for each direction; `reversed` says of each (0 or 1) whether its steps go backwards.

    Operands x [s, b, d·g·n] (the inputs' part of the gates), W [d, g·n, n], bias [d, g·n], h [d, b, n], for `lstm` c [d, b, n] and, with
    `peepholes`, p [d, 3·n] of i, o and f, where d is the number of directions, n that of units, and g that of gates of the `cell`. Result
    [k, s, b, d·n]: h of all steps and, for `lstm`, whose k is 2, c of all steps. With a = x_t and y = W·h + bias cut into gates,

        lstm   i f g o:  c' = f(a_f + y_f + p_f·c)·c + f(a_i + y_i + p_i·c)·g(a_g + y_g),  h = f(a_o + y_o + p_o·c')·k(c')
        gru    r z n:    h = (1 − z)·g(a_n + r·y_n) + z·h with r = f(a_r + y_r), z = f(a_z + y_z)
        gru_reset_before: the same with g(a_n + W_n·(r·h) + bias_n)
        rnn:             h = f(a + y)

    `functions` are f, g and k, separated by spaces, each with its numbers behind colons (`dhlo.cells`); by default σ, tanh and
    tanh, and tanh for `rnn`. What goes into those of gates is kept in [−clip, clip], unless `clip` is 0. With `couples`, the
    forget gate is 1 − i.

    (Gates in the order of PyTorch and cuDNN; Hochreiter and Schmidhuber, Long Short-Term Memory, 1997; Gers and Schmidhuber, Recurrent Nets
    that Time and Count, 2000; Cho et al., 2014, with the reset gate behind the product or before.)
    """

    DEFAULTS: ClassVar = {
        "cell": REQUIRED, "reversed": REQUIRED, "functions": "", "clip": 0.0, "couples": False, "peepholes": False,
    }  # fmt: skip
    SAMPLES = (
        *(_sample(cell, (0,)) for cell in CELLS),
        *(_sample(cell, (0, 1)) for cell in ("lstm", "gru", "gru_reset_before")),
        _sample("rnn", (1,), functions="relu"),
        _sample("rnn", (0,), functions="elu:0.5", clip=0.4),
        _sample("lstm", (0, 1), peepholes=True, couples=True, clip=0.6),
        _sample("lstm", (1,), peepholes=True, functions="hard_sigmoid:0.3:0.4 softsign scaled_tanh:0.9:1.2"),
    )

    @classmethod
    def infer(cls, operands: Sequence[Tensor], attributes: Mapping[str, Any]) -> Sequence[Tensor]:
        if attributes["cell"] not in CELLS:
            raise VerifyException(f"{cls.name}: cell {attributes['cell']} is not one of {', '.join(CELLS)}")
        cell = CELLS[attributes["cell"]]
        has_peepholes = attributes["peepholes"]
        dtypes = {dtype_of(operand) for operand in operands}
        count = 3 + cell.states + has_peepholes
        if len(operands) != count or len(dtypes) != 1 or not dtypes <= {F32, F64}:
            raise VerifyException(f"{cls.name} takes {count} tensors of f32, or of f64")
        _verify_rules(cls.name, attributes)
        x, weight, bias, *states = (sizes_of(operand) for operand in operands)
        if len(x) != 3 or len(weight) != 3:
            raise VerifyException(f"{cls.name}: x and W have three axes each")
        d, units = Size.const(len(attributes["reversed"])), weight[2]
        steps, batch = x[0], x[1]
        expected = [(steps, batch, d * cell.gates * units), (d, cell.gates * units, units), (d, cell.gates * units)]
        expected += [(d, batch, units)] * cell.states + [(d, units * 3)] * has_peepholes
        names = ("x", "W", "bias", *("h", "c")[: cell.states], "p")
        for what, got, sizes in zip(names, (x, weight, bias, *states), expected, strict=False):
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
    def rules(self) -> CellRules:
        return rules_of(self.attribute_values)

    @property
    def has_peepholes(self) -> bool:
        return self.attribute("peepholes")

    @property
    def reversed(self) -> tuple[bool, ...]:
        return tuple(bool(each) for each in self.integers("reversed"))

    def reference(self, *operands: Array, env: Environment) -> Sequence[Array]:
        dtype = operands[0].dtype
        x, weight, bias, *first = [np.asarray(operand, np.float64) for operand in operands]
        steps, batch, _ = x.shape
        directions, _, units = weight.shape
        gates, rules = self.cell.gates, self.rules
        x = x.reshape(steps, batch, directions, gates, units)
        peepholes = first.pop().reshape(directions, 3, units) if self.has_peepholes else None
        result = np.zeros((self.cell.states, steps, batch, directions, units))
        with np.errstate(all="ignore"):
            for d, backwards in enumerate(self.reversed):
                states: list[Array] = [state[d] for state in first]
                own = [] if peepholes is None else list(peepholes[d])
                product = _product(weight[d].reshape(gates, units, units), bias[d].reshape(gates, units))
                for t in reversed(range(steps)) if backwards else range(steps):
                    inputs: list[Array] = [x[t, :, d, gate] for gate in range(gates)]
                    states = self.cell.step(rules, inputs, product, own, states)
                    result[:, t, :, d] = states
        return [result.reshape(*result.shape[:3], directions * units).astype(dtype)]


def _product(weight: Array, bias: Array) -> Product:
    """W·h + bias of some gates; W is [g, n, n], bias [g, n]."""
    return lambda h, first, gates: [h @ weight[gate].T + bias[gate] for gate in range(first, first + gates)]


def rules_of(attributes: Mapping[str, Any]) -> CellRules:
    """The rules that the attributes say; ValueError for functions that are none."""
    usual = CELLS[attributes["cell"]].functions
    names = attributes["functions"].split() or usual
    return CellRules(tuple(map(Activation.of, names)), attributes["clip"], attributes["couples"])


def _verify_rules(name: str, attributes: Mapping[str, Any]) -> None:
    cell = attributes["cell"]
    try:
        rules = rules_of(attributes)
    except ValueError as error:
        raise VerifyException(f"{name}: {error}") from error
    if len(rules.functions) != len(CELLS[cell].functions):
        raise VerifyException(f"{name}: {len(rules.functions)} functions, expected {len(CELLS[cell].functions)}")
    if not rules.clip >= 0:
        raise VerifyException(f"{name}: clip is {rules.clip}, expected a bound above 0, or 0 for none")
    if cell != "lstm" and (attributes["peepholes"] or attributes["couples"]):
        raise VerifyException(f"{name}: a cell {cell} has neither peepholes nor coupled gates")


__all__ = ["Recurrence", "rules_of"]
