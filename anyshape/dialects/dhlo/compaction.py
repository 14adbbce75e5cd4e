"""Sizes that depend on data: a number of the program as the value of a size, and the places where a mask holds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from xdsl.irdl import traits_def
from xdsl.traits import MemoryWriteEffect
from xdsl.utils.exceptions import VerifyException

from anyshape.dialects.dhlo.base import REQUIRED, Array, DhloOp, Environment, Sample
from anyshape.dialects.dhlo.whole import Whole
from anyshape.dialects.dtypes import BOOL, I64
from anyshape.dialects.sizes import Tensor, dtype_of, sizes_of, tensor
from anyshape.support.errors import GuardError
from anyshape.symbolic import Size


class ReadSize(DhloOp, op="read_size"):
    """result = x, an i64 scalar, whose value is from here on that of the size symbol `size`; a negative one is an error.

    The program computes x, reads it, and only then lays out and computes what has this size. Nothing before may use the symbol.
    """

    DEFAULTS: ClassVar = {"size": REQUIRED}
    SIZE_ATTRIBUTES = ("size",)
    PLANNED = True
    traits = traits_def(MemoryWriteEffect())  # it stays without users: what has the size depends on it
    SAMPLES = (Sample(((),), {"size": (Size.symbol("u"),)}, (I64,), values={0: "small"}),)

    @classmethod
    def infer(cls, operands: Sequence[Tensor], attributes: Mapping[str, Any]) -> Sequence[Tensor]:
        if len(operands) != 1 or operands[0] != tensor(I64, ()):
            raise VerifyException(f"{cls.name} takes one i64 scalar")
        if len(attributes["size"]) != 1 or attributes["size"][0].as_symbol() is None:
            raise VerifyException(f"{cls.name}: the size is no symbol")
        return [operands[0]]

    @property
    def symbol(self) -> str:
        """The symbol that gets its value."""
        symbol = self.size_list("size")[0].as_symbol()
        assert symbol is not None
        return symbol

    @property
    def bound_symbols(self) -> frozenset[str]:
        return frozenset([self.symbol])

    def reference(self, *operands: Array, env: Environment) -> Sequence[Array]:
        value = int(operands[0])
        if value < 0:
            raise GuardError(f"{self.name}: a size that the data say", got=value, expected="0 at least")
        if isinstance(env, dict):
            env[self.symbol] = value
        return [operands[0]]


class Compress(Whole, op="compress"):
    """result = the places i, in order, where mask[i] holds; operands mask [n] and the i64 scalar of which `read_size` made `size`.

    i64 [size]; the mask holds at `size` places. (numpy `flatnonzero`.)
    """

    DEFAULTS: ClassVar = {"size": REQUIRED}
    SIZE_ATTRIBUTES = ("size",)
    SAMPLES = (Sample((("n",), ()), {"size": (Size.symbol("n"),)}, (BOOL,), {1: I64}, {0: "true"}),)

    @classmethod
    def infer(cls, operands: Sequence[Tensor], attributes: Mapping[str, Any]) -> Sequence[Tensor]:
        if len(operands) != 2 or not dtype_of(operands[0]).is_bool or len(sizes_of(operands[0])) != 1:
            raise VerifyException(f"{cls.name} takes a mask with one axis and a number")
        if operands[1] != tensor(I64, ()) or len(attributes["size"]) != 1:
            raise VerifyException(f"{cls.name} takes the number of places as an i64 scalar and as one size")
        return [tensor(I64, attributes["size"])]

    def reference(self, *operands: Array, env: Environment) -> Sequence[Array]:
        return [np.flatnonzero(operands[0]).astype(np.int64)]


__all__ = ["Compress", "ReadSize"]
