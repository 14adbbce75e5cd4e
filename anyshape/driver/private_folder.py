"""A folder that is its owner's alone, shared between processes: what is read from it may be run as code."""

from __future__ import annotations

import contextlib
import os
import stat
import tempfile
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class PrivateFolder:
    """Files are opened without following links and checked for owner and kind; writing goes to a new file that is renamed
    into place, so two processes may write at once.

    The methods raise OSError where the system refuses, and ValueError where a folder or file is not to be trusted.
    """

    path: Path

    def exists(self) -> bool:
        return self.path.exists()

    def check(self) -> None:
        """ValueError unless it is a folder, no link, of this user, and closed to others."""
        status = os.lstat(self.path)
        if not stat.S_ISDIR(status.st_mode):
            raise ValueError(f"{self.path} is not a folder (links are not followed)")
        if status.st_uid != os.geteuid():
            raise ValueError(f"{self.path} belongs to user {status.st_uid}, not to {os.geteuid()}")
        if status.st_mode & 0o077:
            raise ValueError(f"{self.path} must be private to its owner (mode 0700), got {status.st_mode & 0o777:o}")

    def read(self, name: str) -> bytes | None:
        """The contents of a file; None when there is none."""
        try:
            handle = os.open(self.path / name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
        except FileNotFoundError:
            return None
        with os.fdopen(handle, "rb") as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid():
                raise ValueError("it is not a regular file of this user")
            return file.read()

    def write(self, name: str, data: bytes) -> None:
        """Make the folder if need be, and the file with these contents, at once."""
        self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.check()
        handle, temporary = tempfile.mkstemp(dir=self.path, suffix=".part")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(data)
            os.replace(temporary, self.path / name)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            raise
