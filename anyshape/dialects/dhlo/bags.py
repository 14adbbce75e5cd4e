"""Rows of a table combined bag by bag."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from xdsl.utils.exceptions import VerifyException

from anyshape.dialects.dhlo.base import Arg, Array, Environment, Oracle, Sample
from anyshape.dialects.dhlo.elementwise import rounded, widened
from anyshape.dialects.dhlo.whole import Whole
from anyshape.dialects.dtypes import F32, FLOATS, I32, I64, DType
from anyshape.dialects.sizes import Tensor, dtype_of, sizes_of, tensor
from anyshape.support.errors import IndexOutOfRange

MODES = ("sum", "mean", "max")


def _sample(
    offsets: tuple[int], dtypes: tuple[DType, ...], integers: DType, *, mode: str = "sum", ends_given: bool = False,
    padding: int = -1, weighted: bool = False,
) -> Sample:  # fmt: skip
    """Bags that begin at 0, so that all but the last are empty; where that ends at 0 too, PyTorch does not say what it is."""
    factors = ((("m",),), (Arg(3),)) if weighted else ((), (None,))
    arguments = (Arg(0), Arg(1), Arg(2), False, MODES.index(mode), False, *factors[1], ends_given, padding)
    return Sample(
        ((5, "n"), ("m",), offsets, *factors[0]), {"mode": mode, "ends_given": ends_given, "padding": padding}, dtypes,
        {1: integers, 2: integers}, {0: "finite", 1: "index:5", 2: "zero", 3: "unit"},
        oracle=None if ends_given else Oracle("aten._embedding_bag.default", arguments),
    )  # fmt: skip


class EmbeddingBag(Whole, op="embedding_bag"):
    """result[b, :] = Σ of w[i]·table[indices[i], :] over offsets[b] ≤ i < offsets[b + 1].

    Operands table [r, d], integers indices [m] and offsets [k], and w [m], which may be left out. The last bag ends at m, unless
    `ends_given`: then the last offset ends it, and there are k − 1 bags. `mode` mean divides by the number of elements, max takes the
    largest element; a bag without elements is 0. Elements with index `padding` are not counted, none where it is −1. f16 and bf16 add
    up in f32. (PyTorch's embedding_bag.)

    An index that is not in [0, r), and an offset below the one before it or above m, is an error when the program runs.
    """

    DEFAULTS: ClassVar = {"mode": "sum", "ends_given": False, "padding": -1}
    CHECKS_INDICES = True
    SAMPLES = (
        _sample((1,), FLOATS, I64),
        _sample((1,), FLOATS, I32, padding=2, weighted=True),
        _sample((3,), (F32,), I64, mode="mean"),
        _sample((1,), (F32,), I64, mode="max"),
        _sample((3,), (F32,), I64, mode="max", ends_given=True),
    )  # fmt: skip

    @classmethod
    def infer(cls, operands: Sequence[Tensor], attributes: Mapping[str, Any]) -> Sequence[Tensor]:
        if len(operands) not in (3, 4):
            raise VerifyException(f"{cls.name} takes a table, indices, offsets and maybe factors")
        if attributes["mode"] not in MODES:
            raise VerifyException(f"{cls.name}: mode {attributes['mode']} is not one of {', '.join(MODES)}")
        table, indices, offsets = operands[:3]
        if not dtype_of(table).is_float or not all(dtype_of(each).is_integer for each in (indices, offsets)):
            raise VerifyException(f"{cls.name} takes a table of floats, integer indices and offsets")
        if [len(sizes_of(each)) for each in operands[:3]] != [2, 1, 1]:
            raise VerifyException(f"{cls.name} takes a matrix and two vectors")
        if len(operands) == 4 and (dtype_of(operands[3]), sizes_of(operands[3])) != (
            dtype_of(table),
            sizes_of(indices),
        ):
            raise VerifyException(f"{cls.name}: factors have the dtype of the table and the sizes of the indices")
        (bags,) = sizes_of(offsets)
        return [tensor(dtype_of(table), (bags - 1 if attributes["ends_given"] else bags, sizes_of(table)[1]))]

    def reference(self, *operands: Array, env: Environment) -> Sequence[Array]:
        table, indices, offsets = operands[:3]
        count, rows = len(indices), len(table)
        ends = offsets[1:] if self.attribute("ends_given") else np.append(offsets[1:], count)
        bags = [size.evaluate(env) for size in self.result_sizes]
        result = np.zeros(bags)
        for bag in range(bags[0]):
            first, last = int(offsets[bag]), int(ends[bag])
            if not 0 <= first <= last <= count:
                raise IndexOutOfRange(f"{self.name}: offset", got=first, expected=f"[0, {count}]")
            at = indices[first:last]
            wrong = at[(at < 0) | (at >= rows)]
            if wrong.size:
                raise IndexOutOfRange(f"{self.name}: index", got=int(wrong[0]), expected=f"[0, {rows})")
            kept = at != self.integer("padding")
            values = widened(table)[at[kept]]
            if len(operands) == 4:
                values = values * widened(operands[3])[first:last][kept][:, None]
            if kept.any():
                fold = {"sum": np.sum, "mean": np.mean, "max": np.max}[self.attribute("mode")]
                result[bag] = fold(values, axis=0)
        return [rounded(result, self.result_dtype)]


__all__ = ["MODES", "EmbeddingBag"]
