"""Tensors that an ONNX file keeps in files beside it.

The names of these files are a stranger's. Each is opened relative to the folder of the model, component by component and never through
a symbolic link, so that it lies in the folder at the moment of opening; what is checked and mapped is the opened file, and not its name.
"""

from __future__ import annotations

import mmap
import os
import stat
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from onnx import TensorProto

from anyshape.support.errors import FileFormatError

_KEYS = frozenset({"location", "offset", "length", "checksum"})
_MOST_DIGITS = 19


@dataclass(frozen=True)
class Extent:
    """Where in which file the bytes of a tensor are; `length` is None up to the end of the file."""

    location: str
    offset: int
    length: int | None


class ExternalData:
    """The data files of one model.

    Args:
        folder: the folder of the model.
        model: what errors call the model.
    """

    def __init__(self, folder: Path, model: str) -> None:
        self._folder = folder
        self._model = model
        self._maps: dict[str, mmap.mmap | bytes] = {}

    def read(self, tensor: TensorProto, expected: int) -> memoryview:
        """The bytes of a tensor, mapped; `expected` is how many its type and dims ask for. FileFormatError where they are not there."""
        where = f"{self._model}: tensor '{tensor.name}'"
        extent = extent_of(tensor, where)
        if extent.location not in self._maps:
            self._maps[extent.location] = self._map(extent.location, where)
        data = memoryview(self._maps[extent.location])
        length = len(data) - extent.offset if extent.length is None else extent.length
        if extent.offset > len(data) or length > len(data) - extent.offset:
            raise FileFormatError(
                "a tensor lies past the end of its data file", where=f"{where} in {extent.location}",
                got=f"offset {extent.offset}, length {extent.length}", expected=f"inside {len(data)} bytes",
                remedy="fetch the data file again: it may be cut short",
            )  # fmt: skip
        if length < expected or (extent.length is not None and length != expected):
            raise FileFormatError(
                "a tensor's data have another length than its type and dims ask for", where=f"{where} in {extent.location}",
                got=f"{length} bytes", expected=f"{expected} bytes",
            )  # fmt: skip
        return data[extent.offset : extent.offset + expected]

    def _map(self, location: str, where: str) -> mmap.mmap | bytes:
        try:
            with _opened_below(self._folder, _components(location, where)) as file:
                status = os.fstat(file)
                if not stat.S_ISREG(status.st_mode):
                    raise FileFormatError("a data file is no regular file", where=f"{where} in {location!r}")
                return mmap.mmap(file, 0, access=mmap.ACCESS_READ) if status.st_size else b""
        except OSError as error:
            raise FileFormatError(
                "a data file cannot be opened", where=f"{where} in {location!r}", got=error.strerror,
                expected=f"a file in {self._folder}, reached without symbolic links",
                remedy="keep the data files beside the model under the names that it gives them; copy what is a link",
            ) from error  # fmt: skip


def extent_of(tensor: TensorProto, where: str) -> Extent:
    """What the entries of a tensor's `external_data` say. FileFormatError for those that the format does not have."""
    entries: dict[str, str] = {}
    for entry in tensor.external_data:
        if entry.key not in _KEYS:
            expected = ", ".join(sorted(_KEYS))
            raise FileFormatError(
                "there is no such key of external data", where=where, got=repr(entry.key), expected=expected
            )
        if entry.key in entries:
            raise FileFormatError("a key of external data is given twice", where=where, got=repr(entry.key))
        entries[entry.key] = entry.value
    if not entries.get("location"):
        raise FileFormatError("external data have no location", where=where)
    length = _bytes(entries["length"], "length", where) if "length" in entries else None
    return Extent(entries["location"], _bytes(entries.get("offset", "0"), "offset", where), length)


def _bytes(text: str, key: str, where: str) -> int:
    if not (text.isascii() and text.isdigit()) or len(text) > _MOST_DIGITS:
        raise FileFormatError(f"the {key} of external data is no number of bytes", where=where, got=repr(text[:40]))
    return int(text)


def _components(location: str, where: str) -> list[str]:
    """The parts of a relative path that stays below its folder."""
    parts = location.split("/")
    if "\0" in location or "\\" in location or any(part in ("", ".", "..") for part in parts):
        raise FileFormatError(
            "a data file's name leaves the folder of the model", where=where, got=repr(location),
            expected="a relative path with '/' between names, without '..'",
        )  # fmt: skip
    return parts


@contextmanager
def _opened_below(folder: Path, parts: list[str]) -> Generator[int]:
    """A descriptor of a file below a folder; no part of the way is a symbolic link. OSError."""
    directory = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for part in parts[:-1]:
            inner = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=directory)
            os.close(directory)
            directory = inner
        # A pipe would otherwise wait for its other end.
        file = os.open(parts[-1], os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=directory)
    finally:
        os.close(directory)
    try:
        yield file
    finally:
        os.close(file)


__all__ = ["Extent", "ExternalData", "extent_of"]
