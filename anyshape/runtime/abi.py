"""The layouts and constants of `ral.h`, field by field, for ctypes. `ral.h` documents them."""

import ctypes
from dataclasses import dataclass
from enum import IntEnum

ABI = 1
"""`RAL_ABI`: the version of every layout here."""

CONSTANT_ALIGNMENT = 64
"""Offsets in a constants file are multiples of this."""


class Code(IntEnum):
    """`enum ral_code`: how a call ended."""

    OK = 0
    INDEX = 1
    GUARD = 2
    DTYPE = 3
    RANK = 4
    ARGUMENT = 5
    MEMORY = 6
    ABI_MISMATCH = 7
    SINGULAR = 8


class DType(IntEnum):
    """`enum ral_dtype`: the element types of inputs and outputs."""

    BOOL = 0
    I8 = 1
    U8 = 2
    I16 = 3
    I32 = 4
    I64 = 5
    F16 = 6
    BF16 = 7
    F32 = 8
    F64 = 9
    C64 = 10


@dataclass(frozen=True)
class Argument:
    """What a program says of one input or output."""

    name: str
    dtype: DType
    rank: int


AllocateOutput = ctypes.CFUNCTYPE(
    ctypes.c_void_p,  # data
    ctypes.c_void_p,  # user
    ctypes.c_int32,  # index
    ctypes.c_int32,  # dtype
    ctypes.c_int32,  # rank
    ctypes.c_void_p,  # sizes
    ctypes.c_void_p,  # strides
)
"""`ral_allocate_output`."""

PlaceOutput = ctypes.CFUNCTYPE(
    None,
    ctypes.c_void_p,  # where data goes
    ctypes.c_int32,  # index
    ctypes.c_int32,  # dtype
    ctypes.c_int32,  # rank
    ctypes.c_void_p,  # sizes
    ctypes.c_void_p,  # strides
)
"""`otherwise` of a `ral_prepared`."""

TENSOR_FORMAT = "QQQii"
"""`ral_tensor` for `struct`: data, sizes, strides, rank, dtype, without padding."""


class CallLayout(ctypes.Structure):
    """`ral_call`."""

    _fields_ = [
        ("inputs", ctypes.c_void_p),
        ("input_count", ctypes.c_int32),
        ("allocate", AllocateOutput),
        ("user", ctypes.c_void_p),
    ]


class PreparedLayout(ctypes.Structure):
    """`ral_prepared`."""

    _fields_ = [
        ("outputs", ctypes.c_void_p),
        ("output_count", ctypes.c_int32),
        ("otherwise", PlaceOutput),
        ("is_alive", ctypes.c_void_p),
    ]


class ArgumentLayout(ctypes.Structure):
    """`ral_argument`."""

    _fields_ = [("name", ctypes.c_char_p), ("dtype", ctypes.c_int32), ("rank", ctypes.c_int32)]


class ConstantLayout(ctypes.Structure):
    """`ral_constant`."""

    _fields_ = [("bytes", ctypes.c_int64), ("offset", ctypes.c_int64)]


WATCH_ROUNDS = 64
"""`RAL_WATCH_ROUNDS`: how many sets of samples a watched tensor has."""


class TensorReaderLayout(ctypes.Structure):
    """`ral_tensor_reader`."""

    _fields_ = [
        ("handle_offset", ctypes.c_int64),
        ("version_offset", ctypes.c_int64),
        ("first", ctypes.c_int64),
        ("last", ctypes.c_int64),
        ("memory_offset", ctypes.c_int64),
        ("counter_offset", ctypes.c_int64),
        ("inline_rank", ctypes.c_int64),
        ("data", ctypes.c_void_p),
        ("rank", ctypes.c_void_p),
        ("sizes", ctypes.c_void_p),
        ("strides", ctypes.c_void_p),
        ("dtype", ctypes.c_void_p),
        ("version", ctypes.c_void_p),
    ]


class WatchedLayout(ctypes.Structure):
    """`ral_watched`."""

    _fields_ = [
        ("type", ctypes.c_void_p),
        ("data", ctypes.c_void_p),
        ("layout", ctypes.c_uint64),
        ("version", ctypes.c_int64),
        ("bytes", ctypes.c_int64),
        ("words", ctypes.c_uint64),
        ("memory", ctypes.c_void_p),
        ("tensor", ctypes.c_void_p),
        ("storage", ctypes.c_void_p),
        ("counter", ctypes.c_void_p),
    ]


class ProgramLayout(ctypes.Structure):
    """`ral_program`."""

    _fields_ = [
        ("abi", ctypes.c_int32),
        ("input_count", ctypes.c_int32),
        ("output_count", ctypes.c_int32),
        ("constant_count", ctypes.c_int32),
        ("inputs", ctypes.c_void_p),
        ("outputs", ctypes.c_void_p),
        ("constants", ctypes.c_void_p),
        ("main", ctypes.c_void_p),
        ("site_count", ctypes.c_int32),
        ("sites", ctypes.c_void_p),
    ]
