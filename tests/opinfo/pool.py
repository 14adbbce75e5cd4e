"""Worker processes that run programs; one that dies, or takes too long, costs the program it was at and nothing else."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

SECONDS_A_PROGRAM = 90.0
PROGRAMS_A_WORKER = 400
"""After so many programs a worker is replaced, since machine code and traces stay in a process."""

Record = dict[str, Any]
Report = Callable[[Record], None]


@dataclass(frozen=True)
class Task:
    """Programs of one op and dtype."""

    op: str
    dtype: str
    numbers: tuple[int, ...]


class _Worker:
    """One process.

    Attributes:
        is_alive: whether it may be given another task.
        is_late: whether it was stopped because a program took too long.
        served: how many programs it ran.
    """

    def __init__(self, command: Sequence[str]) -> None:
        self._errors = tempfile.TemporaryFile("w+", errors="replace")  # noqa: SIM115 - closed by `stop`
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors, text=True, bufsize=1
        )
        self.is_alive = True
        self.is_late = False
        self.served = 0

    def answers(self, task: Task, seconds: float) -> Iterator[Record]:
        """What the worker says of a task; it ends early where the process does."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self.is_alive = False
        try:
            print(json.dumps({"op": task.op, "dtype": task.dtype, "numbers": task.numbers}), file=self._process.stdin)
        except BrokenPipeError:
            return
        while True:
            alarm = threading.Timer(seconds, self._too_late)
            alarm.start()
            line = self._process.stdout.readline()
            alarm.cancel()
            if not line:
                return
            answer = json.loads(line)
            self.served += "number" in answer
            self.is_alive = "done" in answer
            yield answer

    def _too_late(self) -> None:
        self.is_late = True
        self._process.kill()

    def last_words(self) -> str:
        """How the process ended, and the last line that it printed."""
        code = self._process.wait()
        self._errors.seek(0)
        lines = self._errors.read().strip().splitlines()
        return f"exit status {code}: {lines[-1] if lines else ''}"

    def stop(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.wait()
        self._errors.close()


class Pool:
    """Runs tasks in `jobs` processes at a time.

    Args:
        report: gets a record for every program as it ends, from any thread, one at a time.
        until: when to stop, as `time.monotonic()` says it.
        command: how a worker is started, a folder for compiled kernels behind it.
    """

    def __init__(
        self,
        jobs: int,
        report: Report,
        until: float | None = None,
        command: Sequence[str] = (sys.executable, "-m", "tests.opinfo.worker"),
        seconds: float = SECONDS_A_PROGRAM,
    ) -> None:
        self._jobs = jobs
        self._report = report
        self._until = until
        self._command = command
        self._seconds = seconds
        self._noting, self._drawing = threading.Lock(), threading.Lock()

    def run(self, tasks: Iterable[Task]) -> bool:
        """Whether all were run in time."""
        waiting = iter(tasks)
        with tempfile.TemporaryDirectory(prefix="anyshape-opinfo-") as folder:
            threads = [threading.Thread(target=self._serve, args=(waiting, folder)) for _ in range(self._jobs)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        return not self._time_is_up()

    def _time_is_up(self) -> bool:
        return self._until is not None and time.monotonic() > self._until

    def _next(self, waiting: Iterator[Task]) -> Task | None:
        with self._drawing:  # listing an op's programs takes samples, from one stream of random numbers
            return next(waiting, None)

    def _serve(self, waiting: Iterator[Task], folder: str) -> None:
        """Run tasks until there is none left, or no time."""
        worker = self._started(folder)
        while not self._time_is_up():
            task = self._next(waiting)
            if task is None:
                break
            left = list(task.numbers)
            while left and not self._time_is_up():
                if not worker.is_alive or worker.served >= PROGRAMS_A_WORKER:
                    worker.stop()
                    worker = self._started(folder)
                self._run(worker, task, left)
        worker.stop()

    def _started(self, folder: str) -> _Worker:
        return _Worker((*self._command, folder))

    def _run(self, worker: _Worker, task: Task, left: list[int]) -> None:
        """Take from `left` what is run, up to the program at which the process ends."""
        current: Record | None = None
        for answer in worker.answers(Task(task.op, task.dtype, tuple(left)), self._seconds):
            if "done" in answer:
                return
            if "begins" in answer:
                current = answer
                continue
            left.remove(answer["number"])
            current = None
            self._note(task, answer)
            if self._time_is_up():
                return
        ended = "timed_out" if worker.is_late else "crashed"
        number, samples = (left[0], 1) if current is None else (current["begins"], current["samples"])
        reasons = {worker.last_words(): samples}
        self._note(task, {"number": number, "samples": samples, ended: samples, "reasons": reasons})
        left.remove(number)

    def _note(self, task: Task, record: Record) -> None:
        with self._noting:
            self._report({"op": task.op, "dtype": task.dtype, **record})


__all__ = ["Pool", "Record", "Task"]
