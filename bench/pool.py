"""What a parallel region costs: hot, with the cores to itself, and beside processes that keep every core busy.

    python -m bench --only pool

A region is eight points of a chain of multiply-adds, launched through RAL again and again without a pause. `work` is what one thread needs
for it; a region on two threads that took half of that would cost nothing. Beside busy processes the system decides who runs, so
that no region can reach half: the question there is whether two threads are slower than one.
"""

from __future__ import annotations

import ctypes
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

import numpy as np

from anyshape.codegen.calibration import SPIN_POINTS, calibration_object
from anyshape.codegen.llvm import LoadedCode, host_target
from anyshape.runtime import runtime
from anyshape.support.machine import host_machine

Say = Callable[[str], None]
STEPS = (60, 400, 4000)
"""Multiply-adds of a point: from a region of half a microsecond on one thread to one of some forty."""
SAMPLES = 60
SAMPLE_SECONDS = 0.004
CROWDED_SAMPLES = 12
CROWDED_SECONDS = 0.1
"""Long against the system's time slices."""


def measure_pool(say: Say) -> dict[str, Any]:
    """Microseconds a region, alone (least of many samples) and beside one busy process a core (median of longer ones)."""
    launch = _Launch()
    rows: list[dict[str, Any]] = []
    for steps in STEPS:
        say(f"pool: {steps} steps")
        rows.append(_row(launch, steps, "idle", SAMPLES, SAMPLE_SECONDS, min))
    with busy_processes(host_machine().threads):
        for steps in STEPS:
            say(f"pool: {steps} steps, crowded")
            rows.append(_row(launch, steps, "crowded", CROWDED_SAMPLES, CROWDED_SECONDS, statistics.median))
    launch.close()
    return {"rows": rows}


@contextmanager
def busy_processes(count: int) -> Generator[None]:
    """Processes that compute without end."""
    processes = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        time.sleep(0.3)
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


class _Launch:
    """Launches of `spin` on one and on two threads."""

    def __init__(self) -> None:
        self._code = LoadedCode([calibration_object(host_machine(), host_target())], runtime().symbols)
        pointer = ctypes.c_void_p
        signature = ctypes.CFUNCTYPE(None, ctypes.c_int64, pointer, pointer, pointer)
        self._run: Callable[..., None] = signature(self._code.address("launch_often"))
        self._points = np.zeros(16 * SPIN_POINTS, np.float32)
        self._table = np.array([self._points.ctypes.data], np.uint64)
        self._contexts = {threads: runtime().create_context(threads) for threads in (1, 2)}

    def microseconds(self, threads: int, steps: int, seconds: float) -> float:
        """Of one region: the mean over about that time."""
        sizes = np.array([steps], np.int64)
        count, elapsed = 64, 0.0
        while elapsed < seconds:
            start = time.perf_counter()
            self._run(count, self._contexts[threads], self._table.ctypes.data, sizes.ctypes.data)
            elapsed = time.perf_counter() - start
            if elapsed >= seconds / 2:
                break
            count = max(2 * count, int(0.8 * count * seconds / max(elapsed, 1e-6)))
        return 1e6 * elapsed / count

    def close(self) -> None:
        """Give the contexts back."""
        for context in self._contexts.values():
            runtime().library.ral_context_destroy(context)


def _row(
    launch: _Launch, steps: int, title: str, samples: int, seconds: float, middle: Callable[[list[float]], float]
) -> dict[str, Any]:
    """One and two threads in turn, so that a busy moment meets both."""
    times: dict[int, list[float]] = {1: [], 2: []}
    for _ in range(samples):
        for threads, found in times.items():
            found.append(launch.microseconds(threads, steps, seconds))
    one, two = middle(times[1]), middle(times[2])
    work = min(times[1])
    return {"title": title, "work_us": work, "one_us": one, "two_us": two, "region_us": two - work / 2}
