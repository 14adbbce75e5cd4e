"""Compiled programs on disk, shared between processes.

One file an entry, named by its key: a digest of everything the code depends on (the compiler's own sources, the target, the
machine's numbers, the graph with its facts, the options). The folder is its owner's alone; files are opened without
following links, checked for owner and kind, and verified against their digest when read. An entry that fails a check is
dropped with a warning and compiled again. Writing goes to a new file that is renamed into place, so two processes may
write at once. Nothing is unpickled: an entry is a JSON head and raw bytes.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import warnings
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

from anyshape.codegen.llvm import Target
from anyshape.driver.private_folder import PrivateFolder
from anyshape.support.machine import Machine

MAGIC = b"anyshape-cache-2\n"
LIMIT_BYTES = 2 << 30
"""Total size from which the entries that were not used for longest are evicted."""
_SUFFIX = ".entry"
_DIGEST_BYTES = 32
_ALIGNMENT = 16
"""Every blob begins at a multiple of this many bytes of the file, so that arrays can be read where they lie."""
_BODY = len(MAGIC) + _DIGEST_BYTES


class CacheWarning(UserWarning):
    """The cache could not be used, or an entry was damaged; compilation goes on without it."""


@dataclass(frozen=True)
class Entry:
    """A head of plain JSON values, and named blobs."""

    head: Mapping[str, Any]
    blobs: Mapping[str, bytes | memoryview]

    def encode(self) -> bytes:
        """MAGIC, digest of the rest, length of the head, head, blobs in the head's order; zeros before what is aligned."""
        layout = {name: len(data) for name, data in self.blobs.items()}
        head = json.dumps({"head": self.head, "blobs": layout}).encode()
        parts: list[bytes | memoryview] = [len(head).to_bytes(8, "little"), head]
        end = _BODY + 8 + len(head)
        for data in self.blobs.values():
            parts += [bytes(-end % _ALIGNMENT), data]
            end += -end % _ALIGNMENT + len(data)
        body = b"".join(parts)
        return MAGIC + hashlib.sha256(body).digest() + body

    @classmethod
    def decode(cls, data: bytes) -> Entry:
        """Raises ValueError when the bytes are not an entry, or not the bytes that were written."""
        if data[: len(MAGIC)] != MAGIC or len(data) < _BODY + 8:
            raise ValueError("not a cache entry")
        content = memoryview(data)
        if hashlib.sha256(content[_BODY:]).digest() != data[len(MAGIC) : _BODY]:
            raise ValueError("contents do not match their digest")
        end = _BODY + 8 + int.from_bytes(content[_BODY : _BODY + 8], "little")
        head: Any = json.loads(bytes(content[_BODY + 8 : end]))
        blobs: dict[str, memoryview] = {}
        for name, size in head["blobs"].items():
            begin = end + -end % _ALIGNMENT
            end = begin + size
            blobs[name] = content[begin:end]
        return cls(head["head"], blobs)


class Cache:
    """A folder of entries. Every failure is a `CacheWarning`; none is an error of the compilation."""

    def __init__(self, folder: Path, limit_bytes: int = LIMIT_BYTES) -> None:
        self._folder = folder
        self._files = PrivateFolder(folder)
        self._limit = limit_bytes

    def get(self, key: str) -> Entry | None:
        """The entry of this key, None when there is none that can be trusted."""
        if not self._folder.exists():
            return None
        try:
            self._files.check()
        except (OSError, ValueError) as error:
            warnings.warn(f"cache {self._folder} is not used: {error}", CacheWarning, stacklevel=2)
            return None
        path = self._folder / (key + _SUFFIX)
        try:
            data = self._files.read(path.name)
            if data is None:
                return None
            entry = Entry.decode(data)
        except (OSError, ValueError, KeyError, TypeError) as error:
            warnings.warn(f"cache entry {path} is not used: {error}; compiling again", CacheWarning, stacklevel=2)
            with contextlib.suppress(OSError):
                path.unlink()
            return None
        with contextlib.suppress(OSError):
            os.utime(path)
        return entry

    def put(self, key: str, entry: Entry) -> None:
        """Store an entry, and evict old ones beyond the size limit."""
        try:
            self._files.write(key + _SUFFIX, entry.encode())
            self._evict()
        except (OSError, ValueError) as error:
            warnings.warn(f"cache {self._folder} cannot be written: {error}", CacheWarning, stacklevel=2)

    def _evict(self) -> None:
        files: list[tuple[float, int, Path]] = []
        for path in self._folder.glob(f"*{_SUFFIX}"):
            with contextlib.suppress(FileNotFoundError):
                status = path.lstat()
                files.append((status.st_mtime, status.st_size, path))
        total = sum(size for _, size, _ in files)
        for _, size, path in sorted(files):
            if total <= self._limit:
                return
            with contextlib.suppress(FileNotFoundError):
                path.unlink()
            total -= size


@cache
def compiler_fingerprint() -> str:
    """A digest of the compiler's own sources and of the packages that make code: another compiler, another key."""
    digest = hashlib.sha256()
    package = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
    # Each process that starts does this, over hundreds of files: plain names, which cost a third of what `Path` does.
    folders = [package]
    for folder in folders:
        with os.scandir(folder) as found:
            entries = sorted(found, key=lambda entry: entry.name)
        folders += [e.path for e in entries if e.name != "__pycache__" and e.is_dir(follow_symlinks=False)]
        for name in [entry.path for entry in entries if entry.name.endswith(".py")]:
            with open(name, "rb", buffering=0) as file:
                content = file.read()
            digest.update(f"{name[len(package) :]}:{len(content)}:".encode())
            digest.update(content)
    for name in ("xdsl", "llvmlite", "xtc-mlir-python-bindings"):
        digest.update(f"{name}=={metadata.version(name)}".encode())
    return digest.hexdigest()


def key_of(kind: str, target: Target, machine: Machine, *parts: str) -> str:
    """The key of an entry that depends on the compiler, the target, the machine and these texts."""
    numbers = asdict(machine)
    numbers["features"] = sorted(machine.features)
    digest = hashlib.sha256()
    for part in (kind, compiler_fingerprint(), repr(target), json.dumps(numbers, sort_keys=True), *parts):
        digest.update(f"{len(part)}:".encode())
        digest.update(part.encode())
    return digest.hexdigest()
