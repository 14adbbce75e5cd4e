"""What the machine can do at most, measured: f32 multiply-add rate, memory and cache bandwidth.

Written in C and built with the system's compiler, so that no ceiling depends on the compiler that is measured against it.
"""

from __future__ import annotations

import ctypes
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from anyshape.support.machine import Machine, host_machine

SOURCE = Path(__file__).with_name("ceilings.c")
MEMORY_BYTES = 384 << 20
ALIGNMENT = 64


@dataclass(frozen=True)
class Ceilings:
    """`fma_gflops`: f32 operations; `memory_read`, `memory_scale`, `cache_read`: GB/s, of arrays far larger than the caches
    (scale counts bytes read and written), and of one that is a third of the last-level cache, which holds `cache_bytes`."""

    threads: int
    fma_gflops: float
    memory_read: float
    memory_scale: float
    cache_read: float
    cache_bytes: int

    def product_ms(self, operations: float, weight_bytes: float) -> float:
        """The least time for that many f32 operations on weights that are read once: what the last-level cache can hold from
        there, the rest from memory."""
        cached = min(weight_bytes, self.cache_bytes)
        reading = cached / (1e9 * self.cache_read) + (weight_bytes - cached) / (1e9 * self.memory_read)
        return 1e3 * max(operations / (1e9 * self.fma_gflops), reading)


def measure_ceilings(threads: int, *, repeats: int = 40) -> Ceilings:
    """Best of many short runs of each loop: a ceiling is what the machine can do, not what it usually does, and one moment
    in which a neighbour has the core must not lower it."""
    with tempfile.TemporaryDirectory() as folder:
        library = _build(Path(folder))
    operations = int(library.ceiling_fma_operations())
    rounds = 2_000_000
    fma = _best(lambda: library.ceiling_fma(threads, rounds), repeats)
    source, target = _aligned(MEMORY_BYTES), _aligned(MEMORY_BYTES)
    count = source.size
    read = _best(lambda: library.ceiling_read(threads, 1, _address(source), count), repeats)
    scale = _best(lambda: library.ceiling_scale(threads, 1, _address(source), _address(target), count), repeats)
    cached = _cached_floats(host_machine(), threads)
    passes = max(4, (512 << 20) // (4 * cached))
    library.ceiling_read(threads, 2, _address(source), cached)
    cache = _best(lambda: library.ceiling_read(threads, passes, _address(source), cached), repeats)
    return Ceilings(
        threads=threads,
        fma_gflops=1e-9 * operations * rounds * threads / fma,
        memory_read=1e-9 * source.nbytes / read,
        memory_scale=2e-9 * source.nbytes / scale,
        cache_read=4e-9 * cached * passes / cache,
        cache_bytes=host_machine().last_level_cache,
    )


def _build(folder: Path) -> Any:
    path = folder / "ceilings.so"
    # A product and a sum fuse as in the kernels that are measured; nothing else is relaxed.
    flags = ["-O3", "-march=native", "-ffp-contract=fast", "-fPIC", "-shared", "-pthread"]
    subprocess.run(["cc", *flags, str(SOURCE), "-o", str(path)], check=True)
    library: Any = ctypes.CDLL(str(path))
    pointer, number = ctypes.c_void_p, ctypes.c_int64
    signatures = {
        "ceiling_fma": [ctypes.c_int, number],
        "ceiling_read": [ctypes.c_int, number, pointer, number],
        "ceiling_scale": [ctypes.c_int, number, pointer, pointer, number],
    }
    for name, arguments in signatures.items():
        function = getattr(library, name)
        function.argtypes, function.restype = arguments, ctypes.c_double
    library.ceiling_fma_operations.restype = number
    return library


def _cached_floats(machine: Machine, threads: int) -> int:
    """Floats that fit in the last-level cache, but whose parts do not fit in the level before it."""
    wanted = max(machine.last_level_cache // 3, 2 * threads * machine.l2 if machine.l3 else 0)
    return min(wanted, machine.last_level_cache) // 4


def _aligned(size: int) -> np.ndarray[Any, Any]:
    raw = np.empty(size + ALIGNMENT, np.uint8)
    start = -raw.ctypes.data % ALIGNMENT
    array = raw[start : start + size].view(np.float32)
    array.fill(1.0)
    return array


def _address(array: np.ndarray[Any, Any]) -> int:
    return int(array.ctypes.data)


def _best(measure: Callable[[], float], repeats: int) -> float:
    return min(measure() for _ in range(repeats))
