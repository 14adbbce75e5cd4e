"""Element types as values: one row for each, with what every layer needs to know of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from xdsl.dialects.builtin import (
    AnyFloat,
    BFloat16Type,
    Float16Type,
    Float32Type,
    Float64Type,
    IntegerType,
    Signedness,
)
from xdsl.ir import Attribute, TypeAttribute

from anyshape.dialects.element_types import numpy_type


@dataclass(frozen=True, slots=True)
class DType:
    """A logical element type.

    `name` is its spelling in text, `type` its type in tensors, `scalar` its type inside `tile` kernels (MLIR arithmetic
    is signless), `numpy` its numpy dtype, `runtime_code` its number in `ral.h` (`enum ral_dtype`).
    """

    name: str
    type: TypeAttribute
    scalar: AnyFloat | IntegerType
    numpy: np.dtype[Any]
    runtime_code: int

    @property
    def bytes(self) -> int:
        """Size of one element in memory; a bool takes a whole byte."""
        return self.numpy.itemsize

    @property
    def is_float(self) -> bool:
        return self.name in ("f16", "bf16", "f32", "f64")

    @property
    def is_bool(self) -> bool:
        return self.name == "bool"

    @property
    def is_integer(self) -> bool:
        return not self.is_float and not self.is_bool

    @property
    def is_unsigned(self) -> bool:
        return self.name in ("u8", "bool")

    def __str__(self) -> str:
        return self.name


_UNSIGNED_8 = IntegerType(8, Signedness.UNSIGNED)


def _integer(bits: int) -> IntegerType:
    return IntegerType(bits)


BOOL = DType("bool", _integer(1), _integer(1), numpy_type("bool"), 0)
I8 = DType("i8", _integer(8), _integer(8), numpy_type("i8"), 1)
U8 = DType("u8", _UNSIGNED_8, _integer(8), numpy_type("u8"), 2)
I16 = DType("i16", _integer(16), _integer(16), numpy_type("i16"), 3)
I32 = DType("i32", _integer(32), _integer(32), numpy_type("i32"), 4)
I64 = DType("i64", _integer(64), _integer(64), numpy_type("i64"), 5)
F16 = DType("f16", Float16Type(), Float16Type(), numpy_type("f16"), 6)
BF16 = DType("bf16", BFloat16Type(), BFloat16Type(), numpy_type("bf16"), 7)
F32 = DType("f32", Float32Type(), Float32Type(), numpy_type("f32"), 8)
F64 = DType("f64", Float64Type(), Float64Type(), numpy_type("f64"), 9)

DTYPES: tuple[DType, ...] = (BOOL, I8, U8, I16, I32, I64, F16, BF16, F32, F64)
FLOATS: tuple[DType, ...] = (F16, BF16, F32, F64)
INTEGERS: tuple[DType, ...] = (I8, U8, I16, I32, I64)

BY_NAME: Mapping[str, DType] = {dtype.name: dtype for dtype in DTYPES}
_BY_TYPE: Mapping[Attribute, DType] = {dtype.type: dtype for dtype in DTYPES}
_BY_NUMPY: Mapping[np.dtype[Any], DType] = {dtype.numpy: dtype for dtype in DTYPES}


def dtype_of_type(element: Attribute) -> DType:
    """The dtype whose tensor element type is `element`; raises ValueError naming the known ones."""
    found = _BY_TYPE.get(element)
    if found is None:
        raise ValueError(f"element type {element} is not known; known are {', '.join(BY_NAME)}")
    return found


def dtype_of_numpy(dtype: np.dtype[Any]) -> DType:
    """The dtype of a numpy array's elements; raises ValueError naming the known ones."""
    found = _BY_NUMPY.get(np.dtype(dtype))
    if found is None:
        raise ValueError(f"numpy dtype {dtype} is not known; known are {', '.join(BY_NAME)}")
    return found
