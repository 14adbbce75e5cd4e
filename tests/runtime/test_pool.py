"""ral_launch: cuts, sharing of the pool, scratch, errors, fork, floating-point mode."""

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from anyshape.runtime.abi import Code

Launchers = Callable[[int], Any]  # the fixture `launcher`: threads -> conftest.Launcher

CHUNKS_PER_THREAD = 4
CASES = [
    (1, 1),
    (7, 1),
    (8, 8),
    (9, 8),
    (64, 8),
    (65, 8),
    (1000, 3),
    (4096, 6),
    (4097, 64),
    (100, 1000),
    (5, 0),
    (5, -3),
]


def expected_marks(extent: int, grain: int, threads: int) -> np.ndarray:
    """The cuts that ral.h promises: chunk i of n begins at grain floor(i·grains / n)."""
    grain = max(grain, 1)
    if extent <= grain or threads == 1:
        return np.zeros(extent, np.int64)
    grains = -(-extent // grain)
    chunks = min(grains, CHUNKS_PER_THREAD * threads)
    begins = [i * grains // chunks * grain for i in range(chunks)]
    return np.repeat(begins, np.diff([*begins, extent]))


@pytest.mark.parametrize("threads", [1, 2, 4])
@pytest.mark.parametrize(("extent", "grain"), CASES)
def test_cuts_depend_on_extent_grain_and_threads_only(
    launcher: Launchers, threads: int, extent: int, grain: int
) -> None:
    context = launcher(threads)
    for _ in range(5):
        np.testing.assert_array_equal(context.mark_chunks(extent, grain), expected_marks(extent, grain, threads))


@pytest.mark.parametrize("extent", [0, -1])
def test_an_empty_launch_does_not_call_the_kernel(launcher: Launchers, extent: int) -> None:
    assert launcher(2).launch("mark_chunks", [0], [], extent, 1) == Code.OK


def test_a_busy_pool_gives_the_same_cuts(launcher: Launchers) -> None:
    outer, inner = launcher(4), launcher(4)
    marks = np.full(1000, -1, np.int64)
    assert outer.launch("launch_within", [inner.context, marks], [1000, 3], 1000, 1) == Code.OK
    np.testing.assert_array_equal(marks, expected_marks(1000, 3, 4))


@pytest.mark.parametrize("threads", [2, 3, 4])
def test_a_thread_takes_its_own_chunks_in_order_and_others_from_their_end(launcher: Launchers, threads: int) -> None:
    context = launcher(threads)
    chunks = CHUNKS_PER_THREAD * threads
    who, turn = np.zeros(chunks, np.int64), np.zeros(chunks + 1, np.int64)
    assert context.launch("note_order", [who, turn], [chunks], 1, 1) == Code.OK
    caller = who[0]
    for _ in range(50):
        turn[:] = 0
        assert context.launch("note_order", [who, turn], [chunks], chunks, 1) == Code.OK
        assert sorted(turn[:chunks]) == list(range(1, chunks + 1))
        mine = np.flatnonzero(who == caller)
        own, others = mine[mine < CHUNKS_PER_THREAD], mine[mine >= CHUNKS_PER_THREAD]
        assert own.tolist() == list(range(len(own))), "the others take what is left at the end of a share"
        assert np.all(np.diff(turn[own]) > 0)
        assert not len(own) or not len(others) or turn[others].min() > turn[own].max()
        if threads == 2:
            assert others.tolist() == list(range(chunks))[chunks - len(others) :]


def test_every_point_runs_once_with_aligned_private_scratch(launcher: Launchers) -> None:
    context = launcher(4)
    for rounds, scratch_bytes in enumerate([1, 100, 4096, 3 << 20], start=1):
        counts, remainders = np.zeros(64, np.int64), np.full(64, -1, np.int64)
        for _ in range(rounds):
            buffers = [counts, remainders]
            code = context.launch("count_through_scratch", buffers, [scratch_bytes], 64, 1, scratch_bytes)
            assert code == Code.OK
        np.testing.assert_array_equal(counts, rounds)
        np.testing.assert_array_equal(remainders, 0)


@pytest.mark.parametrize("threads", [1, 2, 4])
@pytest.mark.parametrize("extent", [1, 5], ids=["alone", "among others"])
def test_parts_within_a_kernel_run_once_and_leave_its_scratch_alone(
    launcher: Launchers, threads: int, extent: int
) -> None:
    context = launcher(threads)
    for points, grain in ((1, 1), (100, 3), (0, 1)):
        counts = np.zeros(points, np.int64)
        assert context.launch("run_parts", [counts], [points, grain, -1], extent, 1, 64) == Code.OK
        np.testing.assert_array_equal(counts, extent)


def test_an_error_in_a_part_is_that_of_the_launch(launcher: Launchers) -> None:
    context = launcher(2)
    assert context.launch("run_parts", [np.zeros(9, np.int64)], [9, 1, 7], 1, 1, 64) == Code.INDEX
    assert "index 7" in context.error()


def test_launches_end_beside_busy_processes_on_more_threads_than_cores(launcher: Launchers) -> None:
    """The caller never waits for a worker that the system does not run: it takes the chunks that are left itself."""
    threads = 4 * (os.cpu_count() or 1)
    context = launcher(threads)
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(2 * (os.cpu_count() or 1))]
    try:
        expected = expected_marks(4096, 3, threads)
        for _ in range(100):
            np.testing.assert_array_equal(context.mark_chunks(4096, 3), expected)
    finally:
        for process in busy:
            process.kill()
            process.wait()


def test_scratch_that_cannot_be_had_is_an_error(launcher: Launchers) -> None:
    for threads in (1, 2):
        context = launcher(threads)
        counts = np.zeros(64, np.int64)
        assert context.launch("count_through_scratch", [counts, counts], [1], 64, 1, 1 << 61) == Code.MEMORY
        assert f"{1 << 61} bytes of scratch" in context.error()
        assert not counts.any()


@pytest.mark.parametrize("threads", [1, 2, 4])
@pytest.mark.parametrize("wrong", [-1, 7, 1 << 40])
def test_an_index_out_of_range_is_reported(launcher: Launchers, threads: int, wrong: int) -> None:
    context = launcher(threads)
    table, index, out = np.arange(7, dtype=np.float32), np.arange(600) % 7, np.zeros(600, np.float32)
    assert context.launch("gather", [table, index, out], [7], 600, 2) == Code.OK
    np.testing.assert_array_equal(out, table[index])
    index[411] = wrong
    assert context.launch("gather", [table, index, out], [7], 600, 2) == Code.INDEX
    assert context.error() == f"site 1: index {wrong} out of range [0, 7)"
    index[411] = 0
    assert context.launch("gather", [table, index, out], [7], 600, 2) == Code.OK


def test_contexts_of_several_threads_share_the_pool(launcher: Launchers) -> None:
    failures: list[BaseException] = []

    def work(threads: int, extent: int) -> None:
        try:
            context = launcher(threads)
            expected = expected_marks(extent, 2, threads)
            for _ in range(300):
                np.testing.assert_array_equal(context.mark_chunks(extent, 2), expected)
        except BaseException as error:
            failures.append(error)

    workers = [threading.Thread(target=work, args=(2 + 2 * (i % 2), 100 + i)) for i in range(6)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not failures


def test_denormals_survive_loading_and_every_worker(launcher: Launchers) -> None:
    context = launcher(4)
    assert 1e-310 * float("1") == float("1e-310") > 0
    values, out = np.full(256, 1e-310), np.zeros(256)
    assert context.launch("multiply_by_one", [values, out], [], 256, 1) == Code.OK
    np.testing.assert_array_equal(out, values)


FORK_SCRIPT = """
import ctypes, os, sys, threading
import numpy as np
from anyshape.runtime.loader import runtime

ral, programs = runtime(), ctypes.CDLL(sys.argv[1])
kernel = ctypes.cast(programs.mark_chunks, ctypes.c_void_p).value
shared = ral.create_context(4)

def covers(context):
    marks = np.full(500, -1)
    table = (ctypes.c_void_p * 1)(marks.ctypes.data)
    assert ral.library.ral_launch(context, kernel, ctypes.addressof(table), None, 500, 1, 0) == 0
    return len(np.unique(marks)) == 16 and marks.min() == 0

stop = False
def launch_on():
    context = ral.create_context(4)
    while not stop:
        assert covers(context)

assert covers(shared)
thread = threading.Thread(target=launch_on)
thread.start()
for _ in range(20):
    child = os.fork()
    if child == 0:
        workers_before = len(os.listdir("/proc/self/task"))
        good = all(covers(shared) for _ in range(50))
        os._exit(0 if good and workers_before == 1 and len(os.listdir("/proc/self/task")) == 4 else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert covers(shared)
stop = True
thread.join()
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="counts threads in /proc")
def test_the_pool_restarts_in_a_forked_child(programs_path: Path) -> None:
    subprocess.run([sys.executable, "-W", "ignore", "-c", FORK_SCRIPT, str(programs_path)], check=True, timeout=60)


def threads_of_process() -> set[int]:
    return {int(path.name) for path in Path("/proc/self/task").iterdir()}


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="the system does not say where threads may run")
def test_workers_that_are_woken_keep_off_the_processor_of_the_caller(launcher: Launchers) -> None:
    """Else a scheduler that packs threads could leave them waiting for the time of the caller, who spins until they are done."""
    allowed = os.sched_getaffinity(0)
    before = threads_of_process()
    context = launcher(7)  # no other test has a pool of so many
    context.mark_chunks(100, 1)
    workers = threads_of_process() - before
    assert len(workers) == 6
    for processor in sorted(allowed)[:4]:

        def call(here: int = processor) -> None:
            os.sched_setaffinity(0, {here})
            time.sleep(0.1)  # for workers to fall asleep
            context.mark_chunks(100, 1)

        caller = threading.Thread(target=call)
        caller.start()
        caller.join()
        for worker in workers:
            assert os.sched_getaffinity(worker) == (allowed - {processor} or allowed)
