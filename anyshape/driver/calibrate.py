"""Measures a machine's `Rates` with kernels of our own making, in a second or two."""

from __future__ import annotations

import ctypes
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anyshape.codegen.calibration import CHAINS, READS, SPIN_POINTS, calibration_object
from anyshape.codegen.llvm import LoadedCode, host_target
from anyshape.runtime import runtime
from anyshape.support.machine import Machine, Rates, host_machine

Floats = NDArray[np.float32]

_ROUNDS = 12
"""Every rate is measured once in each round, so that a busy moment of the machine spoils no rate's every sample."""
_SAMPLE_NANOSECONDS = 2e6
"""Length of one sample: far above the clock's resolution, and short enough that some of them run undisturbed."""
_REGION_SAMPLES = 6
"""Samples of a region in each round: two threads are undisturbed less often than one."""
_MEMORY_BYTES = 256 << 20
_ALIGNMENT = 64
_SPIN_STEPS = 400
"""Of a point of `spin`: some 500 ns."""
_TEAM_SAMPLE_BYTES = 512 << 20
"""Bytes that several threads read for one sample: some 10 ms, beside which their start is little."""
_LEAST_REGION = 100.0
"""No two threads meet in less, whatever the noise of two measurements says."""

_NUMBER, _ADDRESS = ctypes.c_int64, ctypes.c_void_p


class _Sampler:
    """Nanoseconds of one repetition of something: the least of all samples."""

    def __init__(self, run: Callable[[int], object], clock: Callable[[], int], samples: int = 1) -> None:
        self._run, self._clock, self._samples = run, clock, samples
        self.nanoseconds = float("inf")
        self._count = 1
        while (elapsed := self._timed()) < _SAMPLE_NANOSECONDS:
            self._count = max(2 * self._count, int(self._count * _SAMPLE_NANOSECONDS / max(elapsed, 1)))

    def sample(self) -> None:
        """Take the samples of one round."""
        for _ in range(self._samples):
            self._timed()

    def _timed(self) -> int:
        start = self._clock()
        self._run(self._count)
        elapsed = self._clock() - start
        self.nanoseconds = min(self.nanoseconds, elapsed / self._count)
        return elapsed


class _Kernels:
    """The loaded kernels as functions of a number of repetitions."""

    def __init__(self, machine: Machine) -> None:
        self._code = LoadedCode([calibration_object(machine, host_target())], runtime().symbols)
        self._block = READS * machine.f32_lanes
        self._out = _aligned(CHAINS * machine.f32_lanes)
        self._points = _aligned(16 * SPIN_POINTS)
        self._table = np.array([_address(self._points)], np.uint64)
        self._steps = np.array([_SPIN_STEPS], np.int64)

    def _function(self, name: str, *arguments: Any) -> Any:
        return ctypes.CFUNCTYPE(None, *arguments)(self._code.address(name))

    def chains(self, name: str) -> _Sampler:
        """Steps of `multiply_add` or `add`, CHAINS vector operations each."""
        run = self._function(name, _NUMBER, _ADDRESS)
        return _Sampler(lambda steps: run(steps, _address(self._out)), time.thread_time_ns)

    def read(self, array: Floats, floats: int) -> _Sampler:
        """Passes over the first elements of an array, a multiple of READS vectors."""
        run = self._function("read", _NUMBER, _NUMBER, _ADDRESS, _ADDRESS)
        return _Sampler(lambda passes: run(floats, passes, _address(array), _address(self._out)), time.thread_time_ns)

    def team_read(self, array: Floats, threads: int, passes: int) -> float:
        """Bytes a nanosecond that several threads read together, each a part of the array of its own, several times over."""
        run = self._function("read", _NUMBER, _NUMBER, _ADDRESS, _ADDRESS)
        size = array.size // threads // self._block * self._block
        outs = [_aligned(CHAINS * self._block) for _ in range(threads)]
        barrier = threading.Barrier(threads)

        def work(number: int) -> tuple[int, int]:
            source, out = _address(array[number * size :]), _address(outs[number])
            barrier.wait()
            start = time.perf_counter_ns()
            run(size, passes, source, out)
            return start, time.perf_counter_ns()

        with ThreadPoolExecutor(threads) as pool:
            starts, ends = zip(*pool.map(work, range(threads)), strict=True)
        return 4 * size * threads * passes / (max(ends) - min(starts))

    def exponentials(self, source: Floats, target: Floats) -> _Sampler:
        """Passes over an array."""
        run = self._function("exponentials", _NUMBER, _NUMBER, _ADDRESS, _ADDRESS)
        return _Sampler(lambda n: run(source.size, n, _address(source), _address(target)), time.thread_time_ns)

    def launches(self, context: int) -> _Sampler:
        """Launches of `spin`, following at once upon one another; of several threads, so that real time counts."""
        run = self._function("launch_often", _NUMBER, _ADDRESS, _ADDRESS, _ADDRESS)
        table, steps = _address(self._table), _address(self._steps)
        return _Sampler(lambda n: run(n, context, table, steps), time.perf_counter_ns, _REGION_SAMPLES)

    def whole_blocks(self, bytes_: int) -> int:
        """Floats of about so many bytes that `read` takes."""
        return max(1, bytes_ // 4 // self._block) * self._block


def measure_rates(machine: Machine | None = None, *, memory_bytes: int = _MEMORY_BYTES, rounds: int = _ROUNDS) -> Rates:
    """The rates of one core, and the price of a region on two threads, of the machine that this process runs on.

    Args:
        machine: the host as a schedule sees it; by default `host_machine()`.
        memory_bytes: size of the array that stands for memory, several times the last-level cache.
        rounds: how often each rate is measured; the best counts.
    """
    machine = machine or host_machine()
    kernels = _Kernels(machine)
    array = _aligned(kernels.whole_blocks(memory_bytes))
    # Halves of the first two levels, whose other half stays for what else runs; the third is shared with other cores.
    bytes_of = {"l1": machine.l1 // 2, "l2": machine.l2 // 2, "l3": machine.l3 // 3, "memory": memory_bytes}
    floats = {level: min(array.size, kernels.whole_blocks(bytes_)) for level, bytes_ in bytes_of.items() if bytes_}
    source, target = _aligned(64 * machine.f32_lanes), _aligned(64 * machine.f32_lanes)
    contexts = [runtime().create_context(threads) for threads in (1, 2)] if machine.cores > 1 else []
    try:
        samplers = {
            "multiply_add": kernels.chains("multiply_add"),
            "add": kernels.chains("add"),
            "exponentials": kernels.exponentials(source, target),
            **{level: kernels.read(array, count) for level, count in floats.items()},
            **{f"launch {number}": kernels.launches(context) for number, context in enumerate(contexts, 1)},
        }
        for _ in range(rounds):
            for sampler in samplers.values():
                sampler.sample()
    finally:
        for context in contexts:
            runtime().library.ral_context_destroy(context)
    least = {name: sampler.nanoseconds for name, sampler in samplers.items()}
    bandwidth = {level: 4 * count / least[level] for level, count in floats.items()}
    region = least["launch 2"] - least["launch 1"] / 2 if contexts else machine.rates.region
    return Rates(
        fma=2 * machine.f32_lanes * CHAINS / least["multiply_add"],
        l1=bandwidth["l1"],
        l2=bandwidth["l2"],
        l3=bandwidth.get("l3", bandwidth["memory"]),
        memory=bandwidth["memory"],
        simple=least["add"] / CHAINS,
        transcendental=least["exponentials"] / 64,
        region=max(_LEAST_REGION, region),
    )


@dataclass(frozen=True)
class ReadRates:
    """What some threads together read, in bytes a nanosecond: of an array far larger than the caches, and of one in the last
    level of them."""

    memory: float
    cache: float


def measure_read_rates(
    threads: int, machine: Machine | None = None, *, memory_bytes: int = _MEMORY_BYTES, rounds: int = _ROUNDS
) -> ReadRates:
    """The most that so many threads read at once; arguments as in `measure_rates`."""
    machine = machine or host_machine()
    kernels = _Kernels(machine)
    array = _aligned(kernels.whole_blocks(memory_bytes))
    cached = array[: kernels.whole_blocks(min(memory_bytes, machine.last_level_cache // 3))]
    best = [0.0, 0.0]
    for _ in range(rounds):
        for index, part in enumerate((array, cached)):
            passes = max(1, min(_TEAM_SAMPLE_BYTES, 2 * memory_bytes) // part.nbytes)
            best[index] = max(best[index], kernels.team_read(part, threads, passes))
    return ReadRates(*best)


def _aligned(floats: int) -> Floats:
    raw = np.zeros(4 * floats + _ALIGNMENT, np.uint8)
    start = -raw.ctypes.data % _ALIGNMENT
    array = raw[start : start + 4 * floats].view(np.float32)
    # Written to, so that each page is memory of its own and not the system's one page of zeros.
    array.fill(0.5)
    return array


def _address(array: np.ndarray[Any, Any]) -> int:
    return int(array.ctypes.data)
