"""Writing at positions that are themselves data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from xdsl.builder import Builder
from xdsl.utils.exceptions import VerifyException

from anyshape.dialects.dhlo.base import REQUIRED, Arg, Array, Environment, Oracle, Sample
from anyshape.dialects.dhlo.constant import constant_value
from anyshape.dialects.dhlo.elementwise import rounded, widened
from anyshape.dialects.dhlo.laws import Simplified, law
from anyshape.dialects.dhlo.whole import Whole
from anyshape.dialects.dtypes import BF16, BOOL, DTYPES, F16, F32, F64, I8, I16, I32, I64, U8, DType
from anyshape.dialects.sizes import Tensor, dtype_of, sizes_of, tensor
from anyshape.support.errors import IndexOutOfRange
from anyshape.symbolic import Facts, Size

KINDS: Mapping[str, np.ufunc | None] = {
    "set": None,
    "sum": np.add,
    "prod": np.multiply,
    "max": np.maximum,
    "min": np.minimum,
}
"""How an update meets the element that it falls on; `set` replaces it."""


def _sample(kind: str, dtypes: Sequence[DType], oracle: Oracle | None = None) -> Sample:
    return Sample(
        (("m", 4), ("m", "n"), ("m", "n")), {"kind": kind, "batch": 1}, tuple(dtypes), {1: I64},
        {0: "finite", 1: "index:4", 2: "unit" if kind == "prod" else "finite"}, oracle=oracle,
    )  # fmt: skip


def _reduction(how: str) -> Oracle:
    return Oracle("aten.scatter_reduce.two", (Arg(0), 1, Arg(1), Arg(2), how))


class Scatter(Whole, op="scatter"):
    """result = x, but result[b…, j…, w…] = x[b…, j…, w…] ∘ u[b…, i, w…] for all i with indices[b…, i, :] = j…, in the order of i.

    Operands x [b…, j…, w…], integer indices [b…, m, number of axes j], or [b…, m] for one axis j, u [b…, m, w…]; `batch` is the number
    of axes b. ∘ is addition (`kind="sum"`), multiplication, maximum or minimum, of bools disjunction for sum and max, conjunction for
    prod and min; `set` gives u, so that the last i wins. f16 and bf16 are rounded after each step. (StableHLO's scatter with whole
    windows and its batching axes in front.) Without the operand x, every element starts as `start`, and `sizes` are those of the result.

    An index outside of x is an error when the program runs, never clamped, and nothing outside x is written.
    """

    DEFAULTS: ClassVar = {"kind": REQUIRED, "batch": 0, "start": None, "sizes": ()}
    SIZE_ATTRIBUTES = ("sizes",)
    CHECKS_INDICES = True
    SAMPLES = (
        _sample("set", DTYPES),
        _sample("sum", (F32, F64, I8, U8, I16, I32, I64), Oracle("aten.scatter_add.default", (Arg(0), 1, Arg(1), Arg(2)))),
        _sample("sum", (F16, BF16, BOOL)),
        _sample("prod", (F32, F64, I32, BOOL), _reduction("prod")),
        _sample("max", DTYPES, _reduction("amax")),
        _sample("min", DTYPES, _reduction("amin")),
        Sample(  # rows
            ((5, "n"), ("m",), ("m", "n")), {"kind": "sum"}, (F32, I64), {1: I64}, {0: "finite", 1: "index:5", 2: "finite"},
            oracle=Oracle("aten.index_add.default", (Arg(0), 0, Arg(1), Arg(2))),
        ),
        Sample(  # rows at pairs of indices
            ((3, 3, "n"), ("m", 2), ("m", "n")), {"kind": "sum"}, (F32,), {1: I32}, {0: "finite", 1: "index:3", 2: "finite"},
        ),
        Sample(  # into nothing but a number
            (("m",), ("m", "n")), {"kind": "max", "start": 1.5, "sizes": (5, Size.symbol("n"))}, (F32, F16), {0: I64},
            {0: "index:5", 1: "finite"},
        ),
    )  # fmt: skip

    @classmethod
    def infer(cls, operands: Sequence[Tensor], attributes: Mapping[str, Any]) -> Sequence[Tensor]:
        if len(operands) == 2 and attributes["start"] is not None:
            operands = (tensor(dtype_of(operands[1]), attributes["sizes"]), *operands)
        if len(operands) != 3 or not dtype_of(operands[1]).is_integer:
            raise VerifyException(f"{cls.name} takes a tensor, integer indices and updates")
        if attributes["kind"] not in KINDS:
            raise VerifyException(f"{cls.name}: kind {attributes['kind']} is not one of {', '.join(KINDS)}")
        if dtype_of(operands[0]) != dtype_of(operands[2]):
            raise VerifyException(f"{cls.name}: updates are {dtype_of(operands[2])}, x is {dtype_of(operands[0])}")
        x, indices, updates = (sizes_of(operand) for operand in operands)
        batch: int = attributes["batch"]
        components = _components(indices, batch)
        if components is None or batch + components > len(x):
            raise VerifyException(
                f"{cls.name}: indices have {batch} batch axes, their number and a constant number of components"
            )
        window = x[batch + components :]
        for what, got, expected in (
            ("indices", indices[:batch], x[:batch]),
            ("updates", updates, (*x[:batch], indices[batch], *window)),
        ):
            if got != expected:
                raise VerifyException(
                    f"{cls.name}: {what} have sizes {list(map(str, got))}, expected {list(map(str, expected))}"
                )
        return [tensor(dtype_of(operands[0]), x)]

    @property
    def kind(self) -> str:
        return self.attribute("kind")

    @property
    def batch(self) -> int:
        return self.integer("batch")

    @property
    def scattered(self) -> tuple[Size, ...]:
        """Sizes of the axes of x that indices are of."""
        components = _components(self.operand_sizes(self.indices), self.batch)
        assert components is not None
        return self.result_sizes[self.batch : self.batch + components]

    @property
    def indices(self) -> int:
        """Which operand the indices are; updates follow them."""
        return len(self.operands) - 2

    def reference(self, *operands: Array, env: Environment) -> Sequence[Array]:
        *given, indices, updates = operands
        sizes = [size.evaluate(env) for size in self.result_sizes]
        x = given[0] if given else np.full(sizes, self.attribute("start"), self.result_dtype.numpy)
        indices = indices.reshape(*indices.shape[: self.batch + 1], len(self.scattered))
        axes = range(indices.shape[-1])
        for axis in axes:
            bound = x.shape[self.batch + axis]
            wrong = indices[..., axis][(indices[..., axis] < 0) | (indices[..., axis] >= bound)]
            if wrong.size:
                raise IndexOutOfRange(
                    f"{self.name}: index on axis {self.batch + axis}", got=int(wrong[0]), expected=f"[0, {bound})"
                )
        result = widened(x).copy()
        rest = indices.shape[:-1]
        lead: Sequence[Array] = np.ogrid[tuple(slice(extent) for extent in rest)][: self.batch]
        place: tuple[Array, ...] = (*lead, *(indices[..., axis].astype(np.int64) for axis in axes))
        fold = KINDS[self.kind]
        with np.errstate(all="ignore"):
            if fold is None:
                result[place] = updates  # of equal indices the last wins, in numpy too
            else:
                fold.at(result, place, widened(updates))
        return [rounded(result, self.result_dtype)]

    @law(
        "scatter into a constant -> scatter that starts with its value",
        example=lambda g: g(Scatter, g.full(0.0, 5, "n"), g.iota(0, 5), g.input(5, "n"), kind="sum"),
    )
    def into_constant(self, builder: Builder, facts: Facts) -> Simplified:
        value = constant_value(self.operands[0]) if self.indices else None
        if value is None:
            return None
        attributes = {**self.attribute_values, "start": value, "sizes": self.result_sizes}
        return Scatter.emit(builder, *self.operands[1:], **attributes)


def _components(indices: Sequence[Size], batch: int) -> int | None:
    """The number of axes that indices of these sizes are of, None where they are malformed."""
    if len(indices) == batch + 1:
        return 1
    return indices[-1].value if len(indices) == batch + 2 and indices[-1].is_constant else None


__all__ = ["Scatter"]
