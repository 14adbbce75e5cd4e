"""Micro-kernels that a program will call, compiled by a process of its own while this one builds the graph and its kernels.

Which they are is known before there is a graph: a language model multiplies by the formats of its file. LLVM alone could run in a thread,
but building and lowering MLIR holds the interpreter's lock. The process leaves what it makes in the cache of compiled programs; what
is not there when it has ended is compiled here, so that nothing depends on it.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Collection
from pathlib import Path
from types import TracebackType
from typing import Self

# What the process runs: the same packages as here, and none that happen to lie in the working directory.
_PROGRAM = """\
import json, sys
sys.path[:] = json.loads(sys.argv[1])
from anyshape.driver.microkernels import make
make(sys.argv[2], sys.argv[3:])
"""


class Ahead:
    """A process that makes micro-kernels; as a context, it has ended behind it.

    Args:
        parts: their names, see `anyshape.codegen.microkernels.Part`.
        folder: of the cache; where it is None, nothing is started.

    Attributes:
        parts: those that are waited for; none where no process could be started.
    """

    def __init__(self, parts: Collection[str], folder: Path | None) -> None:
        self.parts: frozenset[str] = frozenset()
        self._process: subprocess.Popen[bytes] | None = None
        if not parts or folder is None or not sys.executable:
            return
        command = [sys.executable, "-P", "-c", _PROGRAM, json.dumps(sys.path), str(folder), *sorted(parts)]
        none = subprocess.DEVNULL
        try:
            self._process = subprocess.Popen(command, stdin=none, stdout=none, stderr=none)
        except OSError:
            return
        self.parts = frozenset(parts)

    def wait(self) -> None:
        """Return when the process has ended, whatever it made."""
        if self._process is not None:
            self._process.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process is not None:
            if self._process.poll() is None:
                self._process.terminate()
            self._process.wait()


def model_parts(formats: Collection[str], activations: str, cache: str) -> list[str]:
    """The micro-kernels of a language model.

    Args:
        formats: block formats of the matrices that it multiplies by.
        activations: what the other factor is rounded to.
        cache: the element type of cached keys and values.
    """
    attend = "f32" if cache == "f32" else f"f32_{cache}"
    return ["contract_f32", f"attend_{attend}", *(f"quantised_{format}_{activations}" for format in sorted(formats))]


__all__ = ["Ahead", "model_parts"]
