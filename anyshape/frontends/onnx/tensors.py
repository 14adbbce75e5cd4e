"""The elements of a TensorProto, each claim of which is checked before anything is allocated."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
from onnx import TensorProto, numpy_helper

from anyshape.dialects.dhlo import Array
from anyshape.frontends.onnx.dtypes import numpy_of_code, type_name
from anyshape.frontends.onnx.external_data import ExternalData
from anyshape.frontends.onnx.refusals import Malformed
from anyshape.support.errors import FileFormatError

_T = TensorProto
_BITS: Mapping[int, int] = {
    _T.FLOAT: 32, _T.UINT8: 8, _T.INT8: 8, _T.UINT16: 16, _T.INT16: 16, _T.INT32: 32, _T.INT64: 64, _T.BOOL: 8,
    _T.FLOAT16: 16, _T.DOUBLE: 64, _T.UINT32: 32, _T.UINT64: 64, _T.COMPLEX64: 64, _T.COMPLEX128: 128, _T.BFLOAT16: 16,
    _T.FLOAT8E4M3FN: 8, _T.FLOAT8E4M3FNUZ: 8, _T.FLOAT8E5M2: 8, _T.FLOAT8E5M2FNUZ: 8, _T.UINT4: 4, _T.INT4: 4,
    _T.FLOAT4E2M1: 4, 24: 8, 25: 2, 26: 2,
}  # fmt: skip
"""Bits of an element in `raw_data`; strings have none. The last three, which older `onnx` has no names of, are FLOAT8E8M0, UINT2, INT2."""
_LISTS: Mapping[int, str] = {
    _T.FLOAT: "float_data", _T.COMPLEX64: "float_data", _T.DOUBLE: "double_data", _T.COMPLEX128: "double_data",
    _T.INT64: "int64_data", _T.UINT32: "uint64_data", _T.UINT64: "uint64_data", _T.STRING: "string_data",
}  # fmt: skip
"""The field with the elements where they are no raw bytes; `int32_data` for the others."""
_NATIVE = frozenset({1, 2, 3, 4, 5, 6, 7, 9, 10, 11, 12, 13, 16})
"""Types whose raw bytes are numpy's."""


def array_of(tensor: TensorProto, external: ExternalData | None, where: str) -> Array:
    """The elements, without a copy where they are raw bytes.

    Raises:
        FileFormatError: dims, type and data do not agree, or the data are where they must not be.
    """
    where = f"{where}: tensor '{tensor.name}'"
    shape = tuple(tensor.dims)
    if any(size < 0 for size in shape):
        raise FileFormatError("a tensor has a negative size", where=where, got=list(shape))
    if tensor.HasField("segment"):
        raise FileFormatError("tensors in segments are not supported", where=where)
    try:
        dtype = numpy_of_code(tensor.data_type)
    except Malformed as error:
        raise FileFormatError("a tensor has no element type", where=where, got=tensor.data_type) from error
    count = math.prod(shape)
    if tensor.data_location == TensorProto.EXTERNAL:
        return _external(tensor, external, dtype, shape, where)
    if tensor.HasField("raw_data"):
        _check_length(len(tensor.raw_data), tensor, count, where)
        if tensor.data_type in _NATIVE:
            return _view(tensor.raw_data, dtype, shape, tensor.data_type)
    else:
        _check_count(tensor, count, where)
    try:
        return numpy_helper.to_array(tensor)
    except (ValueError, TypeError, OverflowError, KeyError) as error:
        raise FileFormatError("a tensor cannot be read", where=where, got=error) from error


def _external(
    tensor: TensorProto, external: ExternalData | None, dtype: np.dtype[np.generic], shape: tuple[int, ...], where: str
) -> Array:
    if external is None:
        raise FileFormatError(
            "a tensor lies in a file beside the model, and where that is is not known", where=where,
            remedy="pass the path of the model, or a model that `onnx.load` read with its external data",
        )  # fmt: skip
    if tensor.data_type not in _BITS:
        raise FileFormatError("such tensors cannot lie outside", where=where, got=type_name(tensor.data_type))
    data = external.read(tensor, (math.prod(shape) * _BITS[tensor.data_type] + 7) // 8)
    if tensor.data_type in _NATIVE:
        return _view(data, dtype, shape, tensor.data_type)
    inline = TensorProto(name=tensor.name, data_type=tensor.data_type, dims=shape, raw_data=bytes(data))
    return numpy_helper.to_array(inline)


def _view(data: bytes | memoryview, dtype: np.dtype[np.generic], shape: tuple[int, ...], code: int) -> Array:
    """Little-endian bytes as elements. A bool that is neither 0 nor 1 is 1."""
    elements = np.frombuffer(data, np.uint8 if code == TensorProto.BOOL else dtype.newbyteorder("<"))
    if code == TensorProto.BOOL:
        elements = elements != 0
    return elements.astype(dtype, copy=False).reshape(shape)


def _check_length(length: int, tensor: TensorProto, count: int, where: str) -> None:
    bits = _BITS.get(tensor.data_type)
    expected = None if bits is None else (count * bits + 7) // 8
    if expected is not None and length != expected:
        raise FileFormatError(
            "a tensor's data have another length than its type and dims ask for", where=where,
            got=f"{length} bytes", expected=f"{expected} bytes for {type_name(tensor.data_type)} {list(tensor.dims)}",
        )  # fmt: skip
    if bits is None and count > 8 * length:
        raise FileFormatError(
            "a tensor has fewer data than elements", where=where, got=f"{length} bytes", expected=count
        )


def _check_count(tensor: TensorProto, count: int, where: str) -> None:
    field = _LISTS.get(tensor.data_type, "int32_data")
    entries = len(getattr(tensor, field))
    packed = max(8 // _BITS.get(tensor.data_type, 8), 1)
    parts = 2 if tensor.data_type in (_T.COMPLEX64, _T.COMPLEX128) else 1
    expected = (count * parts + packed - 1) // packed
    if entries != expected and not (
        tensor.data_type not in _BITS and tensor.data_type != _T.STRING and entries <= count
    ):
        raise FileFormatError(
            "a tensor has another number of elements than its dims ask for", where=where,
            got=f"{entries} in {field}", expected=f"{expected} for {type_name(tensor.data_type)} {list(tensor.dims)}",
        )  # fmt: skip


__all__ = ["array_of"]
