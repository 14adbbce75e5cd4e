"""Files as read-only memory: regular ones, and where asked for, ones that lie in a folder whichever links lead to them."""

import mmap
import os
import stat
from pathlib import Path

from anyshape.support.errors import FileFormatError


def map_file(path: Path, kind: str) -> mmap.mmap:
    """The bytes of a regular file that is not empty, mapped read-only; `kind` says in errors what was expected.

    Raises FileFormatError for other files, OSError where the file cannot be opened.
    """
    return _mapped(path, path, kind)


def map_inside(folder: Path, name: str, kind: str) -> mmap.mmap:
    """The bytes of the file of that name in a folder, as `map_file`.

    The name is one component, and what it leads to lies in the folder; or, where the folder is a snapshot of the Hugging Face
    hub's cache, in the `blobs` beside it, where the hub keeps what its snapshots link to.
    """
    where = folder / name
    if name != Path(name).name or name in {"", ".", ".."}:
        raise FileFormatError(
            "a name leads out of the folder", where=folder, got=repr(name), expected="the name of a file in it"
        )
    root = folder.resolve(strict=True)
    roots = [root, root.parent.parent / "blobs"] if root.parent.name == "snapshots" else [root]
    real = where.resolve(strict=True)
    if not any(real.is_relative_to(allowed) for allowed in roots):
        raise FileFormatError("a link leads out of the folder", where=where, got=real, expected=f"a file in {root}")
    return _mapped(real, where, kind)


def _mapped(path: Path, where: Path, kind: str) -> mmap.mmap:
    # A pipe would block and a device may be endless. `path` is free of links, unless the caller allows any.
    follow = 0 if path is where else os.O_NOFOLLOW
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | follow)
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise FileFormatError("not a regular file", where=where, expected=kind)
        if follow and os.readlink(f"/proc/self/fd/{descriptor}") != str(path):
            raise FileFormatError(
                "the file was replaced while it was opened", where=where, expected=kind, remedy="try again"
            )
        if status.st_size == 0:
            raise FileFormatError("the file is empty", where=where, expected=kind, remedy="get the file again")
        return mmap.mmap(descriptor, 0, access=mmap.ACCESS_READ)
    finally:
        os.close(descriptor)
