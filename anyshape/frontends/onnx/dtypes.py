"""ONNX's element types."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from onnx import TensorProto, helper

from anyshape.dialects.dtypes import BF16, BOOL, F16, F32, F64, I8, I16, I32, I64, U8, DType, dtype_of_numpy
from anyshape.frontends.onnx.refusals import Malformed, Unsupported

PROGRAM_DTYPES: Mapping[int, DType] = {
    TensorProto.BOOL: BOOL, TensorProto.INT8: I8, TensorProto.UINT8: U8, TensorProto.INT16: I16, TensorProto.INT32: I32,
    TensorProto.INT64: I64, TensorProto.FLOAT16: F16, TensorProto.BFLOAT16: BF16, TensorProto.FLOAT: F32,
    TensorProto.DOUBLE: F64,
}  # fmt: skip
"""ONNX's codes of the element types that programs have."""

_CODES: Mapping[DType, int] = {dtype: code for code, dtype in PROGRAM_DTYPES.items()}


def type_name(code: int) -> str:
    """ONNX's word for an element type: `FLOAT16`."""
    try:
        return TensorProto.DataType.Name(code)  # pyright: ignore[reportArgumentType] - any number may stand in a file
    except ValueError:
        return f"element type {code}"


def dtype_of_code(code: int) -> DType:
    """The element type of programs. Unsupported where they have none."""
    if code not in PROGRAM_DTYPES:
        raise Unsupported(f"programs have no {type_name(code)}; they have {', '.join(map(str, _CODES))}")
    return PROGRAM_DTYPES[code]


def code_of_dtype(dtype: DType) -> int:
    return _CODES[dtype]


def numpy_of_code(code: int) -> np.dtype[np.generic]:
    """The numpy type of the elements of a TensorProto, one element an item. Malformed for a number that is no element type."""
    try:
        return np.dtype(helper.tensor_dtype_to_np_dtype(code))
    except (KeyError, TypeError, ValueError) as error:
        raise Malformed(f"there is no {type_name(code)}") from error


def code_of_numpy(dtype: np.dtype[np.generic]) -> int:
    """ONNX's code of a numpy type."""
    return helper.np_dtype_to_tensor_dtype(dtype)


def dtype_of_array(dtype: np.dtype[np.generic]) -> DType:
    """The element type of programs for numpy's. Unsupported where they have none."""
    try:
        return dtype_of_numpy(dtype)
    except (TypeError, ValueError) as error:
        raise Unsupported(f"programs have no {dtype} elements; they have {', '.join(map(str, _CODES))}") from error


__all__ = [
    "PROGRAM_DTYPES",
    "code_of_dtype",
    "code_of_numpy",
    "dtype_of_array",
    "dtype_of_code",
    "numpy_of_code",
    "type_name",
]
