"""The attributes of ops from Python values, and back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias, cast

from xdsl.dialects.builtin import (
    BoolAttr,
    DenseArrayBase,
    FloatAttr,
    IntegerAttr,
    IntegerType,
    NoneAttr,
    StringAttr,
    f64,
    i64,
)
from xdsl.ir import Attribute

from anyshape.dialects.dtypes import DType, dtype_of_type
from anyshape.dialects.sizes import DimsAttr
from anyshape.symbolic import Size, SizeLike

AttributeValue: TypeAlias = (
    bool | int | float | str | DType | Size | Sequence[int] | Sequence[Size] | Sequence[SizeLike] | Attribute | None
)


def attribute_of(value: AttributeValue) -> Attribute:
    """A Python value as the attribute that ops carry it in."""
    match value:
        case Attribute():
            return value
        case bool():
            return BoolAttr.from_bool(value)
        case int():
            return IntegerAttr(value, i64)
        case float():
            return FloatAttr(value, f64)
        case str():
            return StringAttr(value)
        case DType():
            return value.type
        case Size():
            return DimsAttr((value,))
        case None:
            return NoneAttr()
        case _:
            if all(isinstance(item, int) for item in value):
                return DenseArrayBase.from_list(i64, [int(item) for item in value])  # pyright: ignore[reportArgumentType]
            return DimsAttr(tuple(Size.of(item) for item in value))


def value_of(attribute: Attribute) -> Any:
    """The Python value of an attribute: the inverse of `attribute_of`."""
    match attribute:
        case IntegerAttr():
            data = attribute.value.data
            return bool(data) if attribute.type == BoolAttr.from_bool(True).type else data
        case FloatAttr():
            return attribute.value.data
        case StringAttr():
            return attribute.data
        case DenseArrayBase():
            return tuple(cast("DenseArrayBase[IntegerType]", attribute).get_values())
        case DimsAttr():
            return attribute.data
        case NoneAttr():
            return None
        case _:
            return dtype_of_type(attribute)


def dims_attribute(value: Any) -> DimsAttr:
    """A size or a list of sizes as the attribute that holds sizes, also where all of them are constants."""
    if isinstance(value, DimsAttr):
        return value
    sizes: Sequence[SizeLike] = (value,) if isinstance(value, int | Size) else value
    return DimsAttr(tuple(Size.of(size) for size in sizes))


__all__ = ["AttributeValue", "attribute_of", "dims_attribute", "value_of"]
