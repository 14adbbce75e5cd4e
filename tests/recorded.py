"""Suites whose runs are recorded: what their command lines have in common, and the workers whose records a stopped run goes on from."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.opinfo.pool import Pool, Record, Task
from tests.opinfo.results import Results

ROOT = Path(__file__).parents[1]


@dataclass(frozen=True)
class Run:
    """What became of a call.

    Attributes:
        complete: whether all tasks were run in time.
    """

    complete: bool
    seconds: float

    @property
    def remark(self) -> str:
        """What is said behind the comparison with what is checked in."""
        return "" if self.complete else "; not all were run"


def shard(text: str) -> tuple[int, int]:
    """`2/5` as (1, 5): the part, counted from 0, and the number of parts."""
    index, count = map(int, text.split("/"))
    if not 1 <= index <= count:
        raise argparse.ArgumentTypeError(f"{text} is no shard: 1/{count} … {count}/{count} are")
    return index - 1, count


def parser_of(description: str | None, suite: str, *, one: str, updated: str) -> argparse.ArgumentParser:
    """The options of every suite.

    Args:
        suite: its folder under `build/`.
        one: what a line is printed for: "case".
        updated: what `--update` writes.
    """
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shard", type=shard, default=(0, 1), help="i/n: the i-th of n parts")
    parser.add_argument("--jobs", type=int, default=2, help="worker processes")
    parser.add_argument("--minutes", type=float, help="stop then; the next call goes on")
    parser.add_argument(
        "--results", type=Path, default=ROOT / "build" / suite / "results.jsonl", help="file of records"
    )
    parser.add_argument("--go-on", action="store_true", help="keep the records of other sources too")
    parser.add_argument("--update", action="store_true", help=f"write {updated}")
    parser.add_argument("--verbose", action="store_true", help=f"a line for every {one}")
    return parser


def run_tasks(
    options: argparse.Namespace,
    results: Results,
    tasks: Iterable[Task],
    line: Callable[[Record], tuple[str, bool]],
    **pool: Any,
) -> Run:
    """Run tasks by workers, each record being kept at once.

    Args:
        tasks: drawn while workers wait for them.
        line: what is printed of a record, and whether it is without `--verbose`.
        pool: what `Pool` takes beside.
    """
    start = time.monotonic()
    until = None if options.minutes is None else start + 60 * options.minutes

    def report(record: Record) -> None:
        results.add(record)
        text, is_shown = line(record)
        if options.verbose or is_shown:
            print(text, flush=True)

    complete = Pool(options.jobs, report, until, **pool).run(tasks)
    return Run(complete, time.monotonic() - start)


__all__ = ["ROOT", "Run", "parser_of", "run_tasks", "shard"]
