"""The processors of a process changed while it ran: workers went back to one that they had been taken off, and those started on a
single one stayed there with their caller. A worker that the user had placed was moved."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
import torch

from tests.end_to_end.eager import compiled

pytestmark = pytest.mark.skipif(
    not Path("/proc/self/task").is_dir(), reason="the system does not say where threads may run"
)

X = torch.randn(1 << 18)
EXPECTED = X * 2 + 1
Call = Callable[[], None]


def threads_of_process() -> set[int]:
    return {int(path.name) for path in Path("/proc/self/task").iterdir()}


def hold_all_threads(processors: set[int]) -> None:
    for thread in threads_of_process():
        with suppress(ProcessLookupError):  # it has ended
            os.sched_setaffinity(thread, processors)


def new_pool(threads: int) -> tuple[Call, list[int]]:
    """A call that wakes workers, of a pool that no other test has, after the first such call; and the workers that this has started."""
    program = compiled(lambda x: x * 2 + 1, torch.randn(4), threads=threads)

    def call() -> None:
        time.sleep(0.05)  # for workers to fall asleep
        assert torch.equal(program(X), EXPECTED)

    before = threads_of_process()
    call()
    workers = sorted(threads_of_process() - before)
    assert len(workers) == threads - 1
    return call, workers


def processors(workers: list[int]) -> list[set[int]]:
    return [os.sched_getaffinity(worker) for worker in workers]


def without(processor: int, allowed: set[int]) -> set[int]:
    """Where workers are whose caller is there."""
    return allowed - {processor} or allowed


def called_on(processor: int, call: Call) -> None:
    """A call by another thread than the main one."""

    def work() -> None:
        os.sched_setaffinity(0, {processor})
        call()

    caller = threading.Thread(target=work)
    caller.start()
    caller.join()


@pytest.fixture
def allowed() -> Iterator[set[int]]:
    before = os.sched_getaffinity(0)
    yield before
    hold_all_threads(before)


def test_no_worker_leaves_the_processors_that_all_threads_are_held_to(allowed: set[int]) -> None:
    call, workers = new_pool(9)
    for processor in [*sorted(allowed)[:3], *sorted(allowed, reverse=True)[:3]]:
        hold_all_threads({processor})
        for _ in range(3):
            call()
            assert processors(workers) == [{processor}] * 8
    hold_all_threads(allowed)
    for processor in sorted(allowed):
        called_on(processor, call)
        assert processors(workers) == [without(processor, allowed)] * 8


def test_workers_started_on_one_processor_leave_it_once_they_may(allowed: set[int]) -> None:
    os.sched_setaffinity(0, {min(allowed)})
    call, workers = new_pool(10)
    os.sched_setaffinity(0, allowed)
    for processor in sorted(allowed):
        called_on(processor, call)
        assert processors(workers) == [without(processor, allowed)] * 9


def test_a_worker_stays_where_the_user_has_put_it(allowed: set[int]) -> None:
    first, second = min(allowed), max(allowed)
    call, workers = new_pool(12)
    called_on(first, call)  # keeps workers off this one
    placed, *others = workers
    os.sched_setaffinity(placed, {first})
    for caller in (second, first):
        called_on(caller, call)
        assert processors([placed]) == [{first}]
        assert processors(others) == [without(caller, allowed)] * 10


def test_callers_and_what_they_start_keep_their_processors(allowed: set[int]) -> None:
    call, _ = new_pool(11)
    seen: list[tuple[set[int], set[int], str]] = []
    child = "import os; print(sorted(os.sched_getaffinity(0)))"

    def work(mask: set[int]) -> None:
        os.sched_setaffinity(0, mask)
        for _ in range(3):
            call()
        printed = subprocess.run([sys.executable, "-c", child], capture_output=True, text=True, check=True).stdout
        seen.append((mask, os.sched_getaffinity(0), printed.strip()))

    callers = [threading.Thread(target=work, args=(mask,)) for mask in [allowed, *({one} for one in allowed)] * 2]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert len(seen) == len(callers)
    for mask, after, inherited in seen:
        assert (after, inherited) == (mask, str(sorted(mask)))
    assert os.sched_getaffinity(0) == allowed
