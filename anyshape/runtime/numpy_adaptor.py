"""Runs programs on numpy arrays, without copying."""

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anyshape.runtime.abi import DType
from anyshape.runtime.loader import Program, TensorView
from anyshape.support.errors import DtypeError, MemoryLimit

NUMPY_DTYPES: dict[int, np.dtype[Any]] = {
    DType.BOOL: np.dtype(np.bool_),
    DType.I8: np.dtype(np.int8),
    DType.U8: np.dtype(np.uint8),
    DType.I16: np.dtype(np.int16),
    DType.I32: np.dtype(np.int32),
    DType.I64: np.dtype(np.int64),
    DType.F16: np.dtype(np.float16),
    DType.BF16: np.dtype(np.uint16),  # numpy has no bfloat16: its bits
    DType.F32: np.dtype(np.float32),
    DType.F64: np.dtype(np.float64),
    DType.C64: np.dtype(np.complex64),
}

_CODES = {dtype: int(code) for code, dtype in NUMPY_DTYPES.items()}


def run(program: Program, arrays: Sequence[NDArray[Any]]) -> list[NDArray[Any]]:
    """The outputs of the program for these inputs.

    Inputs are read in place with whatever strides they have; an array whose elements are misaligned, or whose strides
    are no multiples of its item size, is copied. bfloat16 travels as `uint16` bits.

    Raises:
        DtypeError: an input has a dtype that programs do not take.
        AnyshapeError: as `Program.run`.
    """
    views: list[TensorView] = []
    held: list[NDArray[Any]] = []  # arrays made here live until the program has read them
    for index, given in enumerate(arrays):
        array = np.asarray(given)
        code = _CODES.get(array.dtype)
        if code is None:
            raise DtypeError(
                "programs do not take this dtype",
                where=f"input {index}" + (f" ('{program.inputs[index].name}')" if index < len(program.inputs) else ""),
                got=repr(array.dtype),
                expected=", ".join(dtype.name for dtype in NUMPY_DTYPES.values()) + "; in native byte order",
            )
        item, flags = array.itemsize, array.flags
        if not flags.aligned or (not flags.forc and any(stride % item for stride in array.strides)):
            array = array.copy(order="C")
        held.append(array)
        views.append(_view(array, code))
    return run_views(program, views)


def run_views(program: Program, views: Sequence[TensorView]) -> list[NDArray[Any]]:
    """The outputs of the program for inputs that are views, whose memory the caller keeps; otherwise as `run`.

    A caller with the same inputs each time, such as caches of keys and values, makes their views once.
    """
    outputs: dict[int, NDArray[Any]] = {}

    def allocate(index: int, dtype: int, sizes: list[int], strides: list[int]) -> int:
        try:
            output = _empty_strided(sizes, strides, NUMPY_DTYPES[dtype])
        except (MemoryError, ValueError) as error:  # numpy's words for more than memory, and for more than addresses
            got = f"{NUMPY_DTYPES[dtype].name}{list(sizes)}"
            raise MemoryLimit("a result does not fit in memory", where=f"result {index}", got=got) from error
        outputs[index] = output
        return _address(output)

    program.run(views, allocate)
    return [outputs[index] for index in range(len(program.outputs))]


def view_of(array: NDArray[Any]) -> TensorView:
    """An array of a dtype that programs take, with aligned elements, as an input of `run_views`."""
    return _view(array, _CODES[array.dtype])


def _view(array: NDArray[Any], code: int) -> TensorView:
    item = array.itemsize
    return _address(array), array.shape, [stride // item for stride in array.strides], code


def _address(array: NDArray[Any]) -> int:
    """Where element (0, …, 0) is. The buffer protocol, for arrays that it serves, takes a third of the time that numpy's interface does."""
    flags = array.flags
    if flags.writeable and flags.c_contiguous and array.size:
        buffer: Any = array
        return ctypes.addressof(ctypes.c_char.from_buffer(buffer))
    return array.__array_interface__["data"][0]


def _empty_strided(sizes: Sequence[int], strides: Sequence[int], dtype: np.dtype[Any]) -> NDArray[Any]:
    """An uninitialised array with the given strides, in elements and not negative."""
    row_major = np.empty(sizes, dtype)
    steps = tuple([stride * dtype.itemsize for stride in strides])
    if row_major.strides == steps or row_major.size == 0:
        return row_major
    extent = 1 + sum([(size - 1) * stride for size, stride in zip(sizes, strides, strict=True)])
    return np.ndarray(sizes, dtype, np.empty(extent, dtype), strides=steps)
