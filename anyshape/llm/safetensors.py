"""Reading safetensors: the length of a header, u64, the header, JSON, then the tensors' bytes without gaps.

    {"__metadata__": {name: text}, tensor: {"dtype": "F16", "shape": [rows, columns], "data_offsets": [begin, end]}, ...}

The file is mapped, tensors are views of the map. The header is compared with the format's rules before anything is made of it;
every fault raises FileFormatError that says where. Source: the README of the safetensors project, section Format.
"""

import mmap
from collections.abc import Mapping
from math import prod
from pathlib import Path
from types import MappingProxyType
from typing import NoReturn

import numpy as np

from anyshape.llm import strict_json
from anyshape.llm.gguf import StoredTensor
from anyshape.llm.mapped import map_file
from anyshape.llm.tensor_types import TENSOR_TYPES
from anyshape.support.errors import FileFormatError

LARGEST_HEADER = 1 << 23
MOST_AXES = 8
DTYPES = ("F32", "F16", "BF16")
_OTHER_DTYPES = (
    *("F64", "I64", "I32", "I16", "I8", "U64", "U32", "U16", "U8", "BOOL", "C64"),
    *("F8_E4M3", "F8_E5M2", "F8_E8M0", "F6_E2M3", "F6_E3M2", "F4"),
)
_AGAIN = "get the file again, or save the model again with safetensors"


def open(path: Path) -> Mapping[str, StoredTensor]:
    """The tensors of a file, by name; FileFormatError for a file that is not sound."""
    return read(path, map_file(path, "a safetensors file"))


def read(path: Path, file: mmap.mmap) -> Mapping[str, StoredTensor]:
    """The tensors of a mapped file; `path` is named in errors."""
    data = 8 + _header_length(path, file)
    header = strict_json.parse(path, file[8:data])
    if not strict_json.is_object(header):
        _fail(path, "the header is not an object", got=type(header).__name__)
    header.pop("__metadata__", None)
    spans = [_span(path, name, entry, len(file) - data) for name, entry in header.items()]
    _check_contiguous(path, spans, len(file) - data)
    tensors: dict[str, StoredTensor] = {}
    for begin, end, name, dtype, shape in spans:
        view = np.frombuffer(file, np.uint8, end - begin, data + begin)
        tensors[name] = StoredTensor(name, shape, dtype, view.reshape(prod(shape[:-1]), -1))
    return MappingProxyType(tensors)


def _fail(where: object, message: str, *, got: object = None, expected: object = None) -> NoReturn:
    raise FileFormatError(message, where=where, got=got, expected=expected, remedy=_AGAIN)


def _header_length(path: Path, file: mmap.mmap) -> int:
    if len(file) < 8:
        _fail(path, "not a safetensors file", got=f"{len(file)} bytes", expected="a header")
    length = int.from_bytes(file[:8], "little")
    if file[:2] in {b"\x80\x02", b"\x80\x04", b"PK"}:
        _fail(
            path,
            "a pickle, or an archive of pickles, is not read: loading one runs code",
            expected="a safetensors file",
        )
    if length > len(file) - 8:
        _fail(path, "the header is longer than the file", got=f"{length} bytes", expected=f"at most {len(file) - 8}")
    if length > LARGEST_HEADER:
        _fail(path, "the header is too long", got=f"{length} bytes", expected=f"at most {LARGEST_HEADER}")
    return length


def _span(path: Path, name: str, entry: object, available: int) -> tuple[int, int, str, str, tuple[int, ...]]:
    """Begin, end, name, dtype and shape of a tensor, each checked by itself."""
    where = f"{path}, tensor {name[:80]!r}"
    if not strict_json.is_object(entry) or set(entry) != {"dtype", "shape", "data_offsets"}:
        _fail(where, "a tensor's description", got=str(entry)[:120], expected="dtype, shape and data_offsets")
    dtype, shape, offsets = entry["dtype"], entry["shape"], entry["data_offsets"]
    if dtype not in DTYPES:
        known = "a dtype that is not read" if dtype in _OTHER_DTYPES else "an unknown dtype"
        _fail(where, known, got=str(dtype)[:80], expected=", ".join(DTYPES))
    if not strict_json.is_whole_numbers(shape) or len(shape) > MOST_AXES or not all(shape):
        _fail(
            where, "a tensor's shape", got=str(shape)[:120], expected=f"at most {MOST_AXES} whole numbers of at least 1"
        )
    if not strict_json.is_whole_numbers(offsets) or len(offsets) != 2 or offsets[0] > offsets[1]:
        _fail(where, "a tensor's offsets", got=str(offsets)[:120], expected="[begin, end], begin ≤ end")
    begin, end = offsets
    if end > available:
        _fail(
            where,
            "a tensor is past the end of the file",
            got=f"bytes {begin} to {end}",
            expected=f"at most {available}",
        )
    size = prod(shape) * TENSOR_TYPES[dtype].block_bytes
    if end - begin != size:
        _fail(where, "shape and offsets disagree", got=f"{end - begin} bytes", expected=f"{size} for {shape} {dtype}")
    return begin, end, name, dtype, tuple(shape)


def _check_contiguous(path: Path, spans: list[tuple[int, int, str, str, tuple[int, ...]]], size: int) -> None:
    """No two tensors share a byte, and no byte belongs to none."""
    taken = 0
    for begin, end, name, _, _ in sorted(spans):
        if begin != taken:
            what = "overlaps another" if begin < taken else "leaves a gap before it"
            _fail(f"{path}, tensor {name[:80]!r}", f"a tensor {what}", got=f"begins at {begin}", expected=f"at {taken}")
        taken = end
    if taken != size:
        _fail(path, "bytes that belong to no tensor", got=f"{size - taken} at the end", expected="none")
