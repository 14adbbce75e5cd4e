"""RAL as built with the package, and `programs.c` compiled against it."""

import ctypes
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from anyshape.runtime.abi import Code
from anyshape.runtime.loader import Runtime, include_directory, runtime


@pytest.fixture(scope="session")
def gcc() -> str:
    compiler = shutil.which("gcc")
    if compiler is None:
        pytest.skip("gcc is not installed")
    return compiler


@pytest.fixture(scope="session")
def ral() -> Runtime:
    return runtime()


@pytest.fixture(scope="session")
def programs_path(gcc: str, ral: Runtime, tmp_path_factory: pytest.TempPathFactory) -> Path:
    library = tmp_path_factory.mktemp("programs") / "programs.so"
    source = Path(__file__).with_name("programs.c")
    flags = ["-std=c11", "-O1", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared", f"-I{include_directory()}"]
    subprocess.run([gcc, *flags, str(source), str(ral.library_path), "-o", str(library)], check=True)
    return library


@pytest.fixture(scope="session")
def programs(programs_path: Path) -> ctypes.CDLL:
    return ctypes.CDLL(str(programs_path))


class Launcher:
    """A context, and launches of the kernels in `programs.c` on numpy arrays."""

    def __init__(self, ral: Runtime, programs: ctypes.CDLL, threads: int) -> None:
        self.ral, self.programs = ral, programs
        self.context = ral.create_context(threads)

    def launch(
        self,
        kernel: str,
        buffers: list[np.ndarray | int],
        sizes: list[int],
        extent: int,
        grain: int,
        scratch_bytes: int = 0,
    ) -> int:
        addresses = [b.ctypes.data if isinstance(b, np.ndarray) else b for b in buffers]
        table = (ctypes.c_void_p * len(addresses))(*addresses)
        vector = (ctypes.c_int64 * len(sizes))(*sizes)
        entry = ctypes.cast(getattr(self.programs, kernel), ctypes.c_void_p).value
        code: int = self.ral.library.ral_launch(
            self.context, entry, ctypes.addressof(table), ctypes.addressof(vector), extent, grain, scratch_bytes
        )
        return code

    def mark_chunks(self, extent: int, grain: int) -> np.ndarray:
        """For each point the begin of its chunk; -1 where no chunk went."""
        marks = np.full(extent, -1, np.int64)
        assert self.launch("mark_chunks", [marks], [], extent, grain) == Code.OK
        return marks

    def error(self) -> str:
        return self.ral.library.ral_error(self.context).decode()


class Launchers:
    """Makes launchers and destroys their contexts at the end of the test."""

    def __init__(self, ral: Runtime, programs: ctypes.CDLL) -> None:
        self._ral, self._programs = ral, programs
        self.made: list[Launcher] = []

    def __call__(self, threads: int) -> Launcher:
        self.made.append(Launcher(self._ral, self._programs, threads))
        return self.made[-1]


@pytest.fixture
def launcher(ral: Runtime, programs: ctypes.CDLL) -> Iterator[Launchers]:
    launchers = Launchers(ral, programs)
    yield launchers
    for made in launchers.made:
        ral.library.ral_context_destroy(made.context)
