"""What a compilation tells about itself: logs, seconds a stage, dump files, progress.

A `Trace` is passed explicitly to whoever has something to tell. It belongs to one compilation and to the thread that
coordinates it.
"""

import re
import sys
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TextIO

from anyshape.support.errors import OptionError
from anyshape.support.options import LOG_NAMES, Options

_FILE_NUMBER = re.compile(r"(\d+)-")
_NOT_IN_FILE_NAMES = re.compile(r"[^A-Za-z0-9_.]+")


@dataclass(frozen=True)
class Progress:
    """One report to a progress callback.

    Args:
        stage: path of the stage, outermost first, such as `compile/kernels`.
        event: `begin` and `end` enclose the stage, `step` tells how far it is.
        done: units of work done, of `total`.
        total: units of work in the stage; None where it is not counted.
    """

    stage: str
    event: Literal["begin", "step", "end"]
    done: int = 0
    total: int | None = None


@dataclass
class StageTime:
    """Wall time of one stage, summed over all times it was entered. Contains the time of the stages inside it.

    Args:
        seconds: wall time, including a time that ended in an error.
        entered: how often the stage was entered.
    """

    seconds: float = 0.0
    entered: int = 0


class Trace:
    """The log, the stage times, the dump files and the progress of one compilation.

    Args:
        log: names from `LOG_NAMES` to print.
        dump_directory: directory for `dump`; made when the first file is written.
        stream: where logs go, by default standard error as it is when the line is printed.
        progress: called at the begin, at the steps and at the end of each stage.
        clock: seconds from a fixed point, for tests.

    Attributes:
        stages: stage path -> time, in the order in which the stages were first entered.
    """

    def __init__(
        self,
        *,
        log: Sequence[str] = (),
        dump_directory: Path | None = None,
        stream: TextIO | None = None,
        progress: Callable[[Progress], None] | None = None,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        for name in log:
            _check_name(name)
        self._log_names = frozenset(log)
        self._dump_directory = dump_directory
        self._stream = stream
        self._progress = progress
        self._clock = clock
        self._open: list[str] = []
        self._next_file: int | None = None
        self.stages: dict[str, StageTime] = {}

    @classmethod
    def from_options(cls, options: Options, *, progress: Callable[[Progress], None] | None = None) -> "Trace":
        """The trace that `options.log` and `options.dump` ask for."""
        return cls(log=options.log, dump_directory=options.dump, progress=progress)

    def enabled(self, name: str) -> bool:
        """Whether `log(name, …)` prints.

        Raises:
            OptionError: `name` is not in `LOG_NAMES`.
        """
        _check_name(name)
        return name in self._log_names

    def log(self, name: str, text: Callable[[], str]) -> None:
        """Print `text()`, each line after `[name]`; `text` is not called when the name is not asked for.

        Raises:
            OptionError: `name` is not in `LOG_NAMES`.
        """
        if not self.enabled(name):
            return
        stream = sys.stderr if self._stream is None else self._stream
        stream.write("".join(f"[{name}] {line}\n" for line in text().splitlines()))

    def dump(self, name: str, extension: str, text: Callable[[], str]) -> Path | None:
        """Write `text()` to `NN-name.extension` in the dump directory, if there is one, and return the file.

        `NN` counts from 00, or on from the highest number already there, so that the graphs of one model, or two
        runs, do not overwrite each other's files.

        Raises:
            OptionError: the directory cannot be written.
        """
        directory = self._dump_directory
        if directory is None:
            return None
        content = text()
        try:
            directory.mkdir(parents=True, exist_ok=True)
            if self._next_file is None:
                self._next_file = _first_free_number(directory)
            path = directory / f"{self._next_file:02d}-{_NOT_IN_FILE_NAMES.sub('_', name)}.{extension}"
            path.write_text(content, encoding="utf-8")
        except OSError as error:
            raise OptionError(
                "cannot write to the dump directory",
                where="Options.dump",
                got=f"{directory}: {error.strerror}",
                expected="a directory that can be written",
            ) from error
        self._next_file += 1
        return path

    @contextmanager
    def stage(self, name: str, *, total: int | None = None) -> Generator[None]:
        """Time the body of a `with` statement as stage `name`, inside the stages that are open.

        Args:
            name: a few words without `/`, which separates nested stages.
            total: units of work that `step` will count.
        """
        self._open.append(name)
        path = "/".join(self._open)
        record = self.stages.setdefault(path, StageTime())
        self._report(Progress(path, "begin", 0, total))
        start = self._clock()
        try:
            yield
        finally:
            record.seconds += self._clock() - start
            record.entered += 1
            self._open.pop()
            self._report(Progress(path, "end", total or 0, total))

    def step(self, done: int, total: int | None = None) -> None:
        """Tell the progress callback that the innermost open stage has done `done` of `total` units."""
        self._report(Progress("/".join(self._open), "step", done, total))

    def times_text(self) -> str:
        """One line a stage, indented by nesting: milliseconds, then how often it was entered if more than once."""
        lines: list[str] = []
        for path, time_of in self.stages.items():
            depth = path.count("/")
            label = "  " * depth + path.rpartition("/")[2]
            times = f"  ×{time_of.entered}" if time_of.entered > 1 else ""
            lines.append(f"{label:<28}{time_of.seconds * 1e3:10.1f} ms{times}")
        return "\n".join(lines)

    def _report(self, progress: Progress) -> None:
        if self._progress is not None:
            self._progress(progress)


def _check_name(name: str) -> None:
    if name not in LOG_NAMES:
        raise OptionError("unknown log name", where="Trace", got=repr(name), expected=", ".join(LOG_NAMES))


def _first_free_number(directory: Path) -> int:
    """One more than the highest number of a `NN-…` file, 0 when there is none."""
    matches = (_FILE_NUMBER.match(entry.name) for entry in directory.iterdir())
    return max((int(match[1]) + 1 for match in matches if match), default=0)
