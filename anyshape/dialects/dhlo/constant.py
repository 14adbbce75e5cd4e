"""Constants: one scalar everywhere in the text, arrays by name out of a `ConstantStore` beside it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self

import numpy as np
from xdsl.builder import Builder
from xdsl.ir import SSAValue
from xdsl.utils.exceptions import VerifyException

from anyshape.dialects.arrays import Array, ConstantStore
from anyshape.dialects.dhlo.attributes import AttributeValue
from anyshape.dialects.dhlo.base import REQUIRED, DhloOp, Environment, Points, Sample
from anyshape.dialects.dhlo.laws import Simplified, law
from anyshape.dialects.dtypes import BY_NAME, I64, DType, dtype_of_numpy, dtype_of_type
from anyshape.dialects.sizes import Tensor, tensor
from anyshape.symbolic import Facts, Size


class Constant(DhloOp, op="constant"):
    """result[i…] = value: one scalar `value` at every point of a tensor with these `sizes`."""

    DEFAULTS: ClassVar = {"value": REQUIRED, "dtype": REQUIRED, "sizes": ()}
    SIZE_ATTRIBUTES = ("sizes",)
    SAMPLES = (Sample((), {"value": 2.5, "dtype": BY_NAME["f32"], "sizes": (Size.symbol("m"), 3)}),)

    @classmethod
    def infer(cls, operands: Sequence[Tensor], attributes: Mapping[str, Any]) -> Sequence[Tensor]:
        if operands:
            raise VerifyException("dhlo.constant takes no operands")
        return [tensor(attributes["dtype"], attributes["sizes"])]

    @classmethod
    def canonical(cls, attributes: Mapping[str, AttributeValue]) -> Mapping[str, AttributeValue]:
        """`value` is stored as a float for float dtypes and as an integer for the others."""
        value, dtype = attributes["value"], attributes["dtype"]
        if isinstance(value, int | float):
            element = dtype if isinstance(dtype, DType) else dtype_of_type(dtype)  # pyright: ignore[reportArgumentType]
            value = float(value) if element.is_float else int(value)
        return super().canonical({**attributes, "value": value})

    def reference(self, *operands: Array, env: Environment) -> Sequence[Array]:
        sizes = [size.evaluate(env) for size in self.result_sizes]
        return [np.full(sizes, self.attribute("value"), self.result_dtype.numpy)]

    def element(self, points: Points, at: Sequence[SSAValue]) -> SSAValue:
        return points.scalars.constant(self.attribute("value"), self.result_dtype.scalar)


class Weight(DhloOp, op="weight"):
    """result = the array called `name` in the program's `ConstantStore`, of this dtype and these static `sizes`."""

    DEFAULTS: ClassVar = {"name": REQUIRED, "dtype": REQUIRED, "sizes": REQUIRED}
    SIZE_ATTRIBUTES = ("sizes",)
    PLANNED = True
    SAMPLES = (Sample((), {"name": "example", "dtype": BY_NAME["f32"], "sizes": (2, 3)}),)

    @classmethod
    def infer(cls, operands: Sequence[Tensor], attributes: Mapping[str, Any]) -> Sequence[Tensor]:
        if operands:
            raise VerifyException("dhlo.weight takes no operands")
        if not all(size.is_constant for size in attributes["sizes"]):
            raise VerifyException("dhlo.weight must have static sizes")
        return [tensor(attributes["dtype"], attributes["sizes"])]

    @classmethod
    def of_array(cls, array: Array, store: ConstantStore) -> Self:
        """Put `array` in the store and refer to it."""
        return cls.of(name=store.add(array), dtype=dtype_of_numpy(array.dtype), sizes=tuple(array.shape))

    def reference(self, *operands: Array, env: Environment) -> Sequence[Array]:
        raise VerifyException("a weight's value is read from the store by the interpreter")


class SizeOf(DhloOp, op="size"):
    """result = the value of the size expression `size`, an i64 of rank 0."""

    DEFAULTS: ClassVar = {"size": REQUIRED}
    SIZE_ATTRIBUTES = ("size",)
    SAMPLES = (Sample((), {"size": 2 * Size.symbol("m") + 1}),)

    @classmethod
    def infer(cls, operands: Sequence[Tensor], attributes: Mapping[str, Any]) -> Sequence[Tensor]:
        if operands or len(attributes["size"]) != 1:
            raise VerifyException("dhlo.size takes one size expression and no operands")
        return [tensor(I64, ())]

    @property
    def size(self) -> Size:
        (only,) = self.size_list("size")
        return only

    def reference(self, *operands: Array, env: Environment) -> Sequence[Array]:
        return [np.array(self.size.evaluate(env), np.int64)]

    def element(self, points: Points, at: Sequence[SSAValue]) -> SSAValue:
        return points.scalars.from_index(points.size(self.size), I64.scalar)

    @law("size of a constant -> constant", example=lambda g: g(SizeOf, size=7))
    def fold(self, builder: Builder, facts: Facts) -> Simplified:
        size = facts.simplify(self.size)
        return Constant.emit(builder, value=size.value, dtype=I64) if size.is_constant else None


def constant_value(value: SSAValue) -> float | int | None:
    """The scalar that every element of `value` is, where a `Constant` (also behind a broadcast) says so."""
    op = value.owner
    while isinstance(op, DhloOp) and op.name == "dhlo.broadcast_in_dim":
        op = op.operands[0].owner
    return op.attribute("value") if isinstance(op, Constant) else None
