"""Reading GGUF, the file format of llama.cpp: a header of keys and tensor descriptions, then the tensors' bytes.

    magic "GGUF" | version u32 | tensors u64 | keys u64
    keys:    name, type u32, value              a text is its length u64 and its UTF-8 bytes
    tensors: name, axes u32, sizes u64 each (fastest first), element type u32, offset u64
    padding to the alignment, then the data, to which offsets are relative

The file is mapped, never read as a whole: tensors and arrays are views of the map, texts in arrays are decoded when asked
for. Nothing in the file is trusted: every count is compared with the bytes that are left before anything of its size is made,
sizes are multiplied in whole numbers that do not wrap, and every fault raises FileFormatError that says where.
Source: the format's specification, docs/gguf.md of the ggml project.
"""

import mmap
import os
import struct
from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from types import MappingProxyType
from typing import Any, NoReturn, overload

import numpy as np
from numpy.typing import NDArray

from anyshape.llm.mapped import map_file
from anyshape.llm.metadata import Metadata, Value
from anyshape.llm.tensor_types import TENSOR_TYPES, TYPE_OF_CODE, UNSUPPORTED
from anyshape.support.errors import FileFormatError

VERSIONS = (2, 3)
DEFAULT_ALIGNMENT = 32
LARGEST_ALIGNMENT = 1 << 16
MOST_KEYS = MOST_TENSORS = 1 << 16
LARGEST_NAME = 64
LARGEST_KEY = 1 << 16
LARGEST_TEXT = 1 << 24
MOST_AXES = 4
MOST_PARTS = 1024
_NUMBER, _COUNT, _TOTAL = "split.no", "split.count", "split.tensors.count"
"""Keys of a part of a model: which it is, of how many, and how many tensors they have together."""
MOST_BLOCKS = 512
"""Layers of a model; the largest published ones have 126."""

_AGAIN = "get the file again, or convert the model again"
_U32 = struct.Struct("<I")
_U64 = struct.Struct("<Q")
_SCALARS = {
    0: ("uint8", "<u1"),
    1: ("int8", "<i1"),
    2: ("uint16", "<u2"),
    3: ("int16", "<i2"),
    4: ("uint32", "<u4"),
    5: ("int32", "<i4"),
    6: ("float32", "<f4"),
    7: ("bool", "<u1"),
    10: ("uint64", "<u8"),
    11: ("int64", "<i8"),
    12: ("float64", "<f8"),
}
"""Code of a scalar type -> its name and how numpy reads it."""
_BOOL, _TEXT, _ARRAY = 7, 8, 9
_OTHER_MAGICS = {
    b"PK\x03\x04": "a zip archive, as PyTorch's pickled checkpoints and TorchScript are",
    b"\x80\x02": "a pickle",
    b"\x80\x04": "a pickle",
    b"ggml": "a GGML file, the format before GGUF",
    b"ggjt": "a GGJT file, the format before GGUF",
    b"ggla": "a GGLA file, the format before GGUF",
    b"FUGG": "a GGUF file of a big-endian machine",
}


@dataclass(frozen=True, eq=False)
class StoredTensor:
    """A tensor as it lies in the file.

    Args:
        name: as in the file, such as `blk.0.attn_q.weight`.
        shape: sizes, the slowest axis first as in numpy: a matrix is [rows, columns].
        type: the element type's name, such as `Q4_1`; a key of `TENSOR_TYPES`.
        data: u8 [rows, bytes of a row], read-only, a view of the mapped file; all axes but the last are rows.
    """

    name: str
    shape: tuple[int, ...]
    type: str
    data: NDArray[np.uint8]

    def dequantized(self) -> NDArray[np.float32]:
        """The values, f32 of `shape`."""
        return TENSOR_TYPES[self.type].decode(self.data).reshape(self.shape)


class TextArray(Sequence[str]):
    """An array of texts in the file, decoded one by one when asked for.

    FileFormatError is raised, naming key and element, where one is not UTF-8.
    """

    def __init__(self, where: str, file: mmap.mmap, starts: NDArray[np.uint64], end: int) -> None:
        self._where = where
        self._file = file
        self._starts = starts
        self._end = end

    def __len__(self) -> int:
        return len(self._starts)

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[str]: ...
    def __getitem__(self, index: int | slice) -> str | Sequence[str]:
        if isinstance(index, slice):
            return [self[position] for position in range(*index.indices(len(self)))]
        position = range(len(self))[index]
        start = int(self._starts[position])
        end = self._end if position + 1 == len(self) else int(self._starts[position + 1]) - 8
        return self._decoded(position, self._file[start:end])

    def __iter__(self) -> Iterator[str]:
        return iter(self.all())

    def all(self) -> list[str]:
        """All texts at once, several times faster than one by one."""
        if not len(self):
            return []
        first = int(self._starts[0])
        block = self._file[first : self._end]
        starts: list[int] = (self._starts - first).tolist()
        ends = [start - 8 for start in starts[1:]] + [self._end - first]
        try:
            return [block[start:end].decode() for start, end in zip(starts, ends, strict=True)]
        except UnicodeDecodeError:
            # The slow way says which.
            return [self[position] for position in range(len(self))]

    def _decoded(self, position: int, text: bytes) -> str:
        try:
            return text.decode()
        except UnicodeDecodeError as error:
            where, got = f"{self._where}, element {position}", repr(text[:40])
            raise FileFormatError("a text is not UTF-8", where=where, got=got, remedy=_AGAIN) from error


@dataclass(frozen=True, eq=False)
class GGUFFile:
    """An open file: what it says about itself, and its tensors by name, both in the order of the file.

    The file stays mapped as long as anything of it is in use. It must not be cut short meanwhile: the system ends a process that
    reads a mapped page that is gone.
    """

    path: Path
    metadata: Metadata
    tensors: Mapping[str, StoredTensor]

    @property
    def architecture(self) -> str:
        """The family that the file names, such as `llama`."""
        return self.metadata.text("general.architecture")

    @property
    def block_count(self) -> int:
        """Layers of the model, not more than `MOST_BLOCKS` nor than there are tensors."""
        most = min(MOST_BLOCKS, len(self.tensors))
        return self.metadata.integer(f"{self.architecture}.block_count", minimum=1, maximum=most)

    def tensor(self, name: str) -> StoredTensor:
        """The tensor of that name; FileFormatError where there is none."""
        found = self.tensors.get(name)
        if found is None:
            raise FileFormatError(
                "the file lacks a tensor", where=str(self.path), got=f"{len(self.tensors)} others", expected=repr(name),
                remedy="get the file again, or convert the model again; a file of a vocabulary alone has no tensors",
            )  # fmt: skip
        return found


def open(path: str | os.PathLike[str]) -> GGUFFile:
    """Map a file, and the other parts of a model that is split in several, and read their headers.

    Raises FileFormatError for anything that is not a sound, whole GGUF file of version 2 or 3 with the element types in
    `TENSOR_TYPES`, and OSError where the file cannot be opened.
    """
    path = Path(path)
    metadata, tensors = _read(path)
    count = metadata.integer(_COUNT, 1, minimum=0, maximum=MOST_PARTS)
    if count > 1:
        tensors = _all_parts(path, count, metadata, tensors)
    return GGUFFile(path, metadata, MappingProxyType(tensors))


def _read(path: Path) -> tuple[Metadata, dict[str, StoredTensor]]:
    """The keys and tensors of one file."""
    header = _Header(path, map_file(path, "a GGUF file"))
    tensors, keys = header.start()
    metadata = Metadata(str(path), MappingProxyType(header.keys(keys)))
    return metadata, header.tensors(tensors, _alignment(metadata))


def _all_parts(path: Path, count: int, first: Metadata, tensors: dict[str, StoredTensor]) -> dict[str, StoredTensor]:
    """The tensors of all parts of a model, of which `path` is the first: its keys are the model's, the others tell which they are."""
    ending = f"-00001-of-{count:05d}.gguf"
    if first.integer(_NUMBER) != 0 or not path.name.endswith(ending):
        raise FileFormatError(
            "a part of a model that is not its first", where=str(path), got=f"part {first.integer(_NUMBER) + 1} of {count}",
            expected=f"a name that ends in {ending}", remedy="give the first part, under the name that it was published by",
        )  # fmt: skip
    found = dict(tensors)
    for number in range(1, count):
        part = path.with_name(f"{path.name.removesuffix(ending)}-{number + 1:05d}-of-{count:05d}.gguf")
        if not part.exists():
            raise FileFormatError(
                "a part of the model is missing",
                where=str(path),
                expected=part.name,
                remedy="put all parts in one folder",
            )
        metadata, more = _read(part)
        if (metadata.integer(_NUMBER), metadata.integer(_COUNT)) != (number, count):
            raise metadata.wrong(_NUMBER, metadata[_NUMBER], f"{number}, of {count}")
        twice = next((name for name in more if name in found), None)
        if twice is not None:
            raise FileFormatError("a tensor is in two parts", where=str(part), got=repr(twice), remedy=_AGAIN)
        found |= more
    if first.integer(_TOTAL, len(found)) != len(found):
        raise first.wrong(_TOTAL, first[_TOTAL], f"{len(found)}, as many as the parts have")
    return found


def _alignment(metadata: Metadata) -> int:
    key = "general.alignment"
    alignment = metadata.integer(key, DEFAULT_ALIGNMENT, maximum=2**32)
    if alignment.bit_count() != 1 or alignment > LARGEST_ALIGNMENT:
        raise metadata.wrong(key, alignment, f"a power of two up to {LARGEST_ALIGNMENT}")
    return alignment


@dataclass(frozen=True)
class _Described:
    """What the header says about a tensor, checked by itself: `start` is relative to the data, `size` in bytes."""

    name: str
    shape: tuple[int, ...]
    type: str
    start: int
    size: int


class _Header:
    """A position in the mapped file, and what can be read there."""

    def __init__(self, path: Path, file: mmap.mmap) -> None:
        self.path = path
        self.file = file
        self.size = len(file)
        self.position = 0
        self.what = "the header"

    def fail(self, message: str, *, got: object = None, expected: object = None, remedy: str = _AGAIN) -> NoReturn:
        where = f"{self.path}, {self.what}, byte {self.position}"
        raise FileFormatError(message, where=where, got=got, expected=expected, remedy=remedy)

    def take(self, count: int) -> int:
        """The position of the next `count` bytes, which are passed over."""
        start = self.position
        if count > self.size - start:
            self.fail("the file ends early", got=f"{self.size - start} bytes left", expected=f"{count} bytes")
        self.position = start + count
        return start

    def u32(self) -> int:
        return int(_U32.unpack_from(self.file, self.take(4))[0])

    def u64(self) -> int:
        return int(_U64.unpack_from(self.file, self.take(8))[0])

    def text(self, longest: int) -> str:
        length = self.u64()
        if length > longest:
            self.fail("a text is too long", got=f"{length} bytes", expected=f"at most {longest}")
        start = self.take(length)
        try:
            return self.file[start : start + length].decode()
        except UnicodeDecodeError:
            self.fail("a text is not UTF-8", got=repr(self.file[start : start + min(length, 40)]))

    def count(self, least: int, what: str, most: int | None = None) -> int:
        """A number of things that take at least `least` bytes each, and are `most` at most."""
        count = self.u64()
        if count > (self.size - self.position) // least:
            self.fail(f"the file is too short for its number of {what}", got=count, expected="less, or a longer file")
        if most is not None and count > most:
            self.fail(f"too many {what}", got=count, expected=f"at most {most}")
        return count

    def start(self) -> tuple[int, int]:
        """Magic and version; returns the numbers of tensors and of keys."""
        magic = self.file[:4]
        if magic != b"GGUF":
            known = next((text for start, text in _OTHER_MAGICS.items() if magic.startswith(start)), None)
            self.fail("not a GGUF file", got=known or repr(magic), expected=repr(b"GGUF"), remedy="give a GGUF file")
        self.take(4)
        version = self.u32()
        if version not in VERSIONS:
            swapped = int.from_bytes(version.to_bytes(4, "little"), "big")
            got = f"version {swapped} of a big-endian machine" if swapped in VERSIONS else f"version {version}"
            self.fail("a version of GGUF that is not read", got=got, expected="version 2 or 3, little-endian")
        # A tensor's name is not empty and a key has a type and a value.
        tensors = self.count(8 + 1 + 4 + 8 + 4 + 8, "tensors", MOST_TENSORS)
        return tensors, self.count(8 + 4 + 1, "keys", MOST_KEYS)

    def keys(self, count: int) -> dict[str, Value]:
        values: dict[str, Value] = {}
        for index in range(count):
            self.what = f"key {index}"
            key = self.text(LARGEST_KEY)
            self.what = f"key {key[:80]!r}"
            if key in values:
                self.fail("a key is there twice")
            values[key] = self.value(self.u32())
        return values

    def value(self, kind: int) -> Value:
        if kind == _TEXT:
            return self.text(LARGEST_TEXT)
        if kind == _ARRAY:
            return self.elements(self.u32())
        if kind not in _SCALARS:
            self.fail("an unknown type of value", got=kind, expected="0 to 12")
        value: Value = self.numbers(kind, 1)[0].item()
        return value

    def elements(self, kind: int) -> Value:
        if kind == _TEXT:
            return self.texts(self.count(8, "array elements"))
        if kind not in _SCALARS:
            names = ", ".join(name for name, _ in _SCALARS.values())
            got = "arrays" if kind == _ARRAY else f"type {kind}"
            self.fail("an array of elements that are not read", got=got, expected=f"{names} or text")
        return self.numbers(kind, self.count(np.dtype(_SCALARS[kind][1]).itemsize, "array elements"))

    def numbers(self, kind: int, count: int) -> NDArray[Any]:
        dtype = np.dtype(_SCALARS[kind][1])
        start = self.take(count * dtype.itemsize)
        found: NDArray[Any] = np.frombuffer(self.file, dtype, count, start) if count else np.empty(0, dtype)
        if kind != _BOOL:
            return found
        if found.size and found.max() > 1:
            self.fail("a truth value is neither 0 nor 1", got=int(found.max()))
        return found.view(np.bool_)

    def texts(self, count: int) -> TextArray:
        """Walk over `count` texts: each tells only where the next one is."""
        starts = array("Q")
        position, last = self.position, self.size - 8
        length_at = _U64.unpack_from
        while len(starts) < count and position <= last:
            start = position + 8
            starts.append(start)
            position = start + length_at(self.file, position)[0]
        if len(starts) < count or position > self.size:
            element = max(0, len(starts) - 1)
            self.fail(
                "texts of an array run past the end of the file", got=f"element {element} of {count} ends at {position}"
            )
        self.position = position
        return TextArray(f"{self.path}, {self.what}", self.file, np.array(starts, np.uint64), position)

    def tensors(self, count: int, alignment: int) -> dict[str, StoredTensor]:
        described: dict[str, _Described] = {}
        for index in range(count):
            self.what = f"tensor {index}"
            tensor = self.description(alignment)
            if tensor.name in described:
                self.fail("a tensor is there twice", got=repr(tensor.name))
            described[tensor.name] = tensor
        data = -(-self.position // alignment) * alignment
        self.check_spans(list(described.values()), data)
        return {tensor.name: self.stored(tensor, data) for tensor in described.values()}

    def description(self, alignment: int) -> _Described:
        name = self.text(LARGEST_NAME)
        self.what = f"tensor {name!r}"
        axes = self.u32()
        if not 1 <= axes <= MOST_AXES:
            self.fail("a tensor's number of axes", got=axes, expected=f"1 to {MOST_AXES}")
        shape = tuple(self.u64() for _ in range(axes))[::-1]
        code = self.u32()
        kind = TYPE_OF_CODE.get(code)
        if kind is None:
            named = f"{UNSUPPORTED[code]} ({code})" if code in UNSUPPORTED else code
            remedy = f"convert the model to one of these types: {', '.join(TENSOR_TYPES)}"
            self.fail("an element type that is not read", got=named, expected=", ".join(TENSOR_TYPES), remedy=remedy)
        if not all(shape):
            self.fail("a tensor without elements", got=list(shape), expected="sizes of at least 1")
        if shape[-1] % kind.block:
            remedy = "convert the model again, with such tensors in F16 or F32"
            expected = f"a multiple of {kind.block}, the block of {kind.name}"
            self.fail(
                "a row is not a whole number of blocks", got=f"{shape[-1]} columns", expected=expected, remedy=remedy
            )
        start = self.u64()
        if start % alignment:
            self.fail("a tensor's data are not aligned", got=f"offset {start}", expected=f"a multiple of {alignment}")
        return _Described(name, shape, kind.name, start, prod(shape[:-1]) * kind.row_bytes(shape[-1]))

    def check_spans(self, described: list[_Described], data: int) -> None:
        """Every tensor lies within the file, and no two share a byte."""
        taken, before = 0, ""
        for tensor in sorted(described, key=lambda tensor: tensor.start):
            self.what = f"tensor {tensor.name!r}"
            if data + tensor.start + tensor.size > self.size:
                got = f"{tensor.size} bytes from {data + tensor.start} on for {list(tensor.shape)} {tensor.type}"
                self.fail("a tensor's data are past the end of the file", got=got, expected=f"up to byte {self.size}")
            if tensor.start < taken:
                self.fail(
                    "a tensor's data overlap another's",
                    got=f"offset {tensor.start}",
                    expected=f"{before} ends at {taken}",
                )
            taken, before = tensor.start + tensor.size, repr(tensor.name)

    def stored(self, tensor: _Described, data: int) -> StoredTensor:
        span = np.frombuffer(self.file, np.uint8, tensor.size, data + tensor.start)
        return StoredTensor(tensor.name, tensor.shape, tensor.type, span.reshape(prod(tensor.shape[:-1]), -1))
