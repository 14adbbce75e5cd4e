"""Writes `docs/coverage.md`: `python -m tests.coverage`, some minutes. A stopped run goes on where it was."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from tests.coverage.overloads import CALLS, DTYPES, core_overloads, find_calls, listed_overloads
from tests.coverage.page import read_page, write_page
from tests.opinfo.pool import Pool, Record, Task
from tests.opinfo.results import Results

RECORDS = Path(__file__).parents[2] / "build" / "coverage.jsonl"
OF_OTHERS = ("float32", "bfloat16", "int64", "bool")
"""Dtypes in which overloads are probed that are not core."""


def main() -> int:
    """Find calls, probe them in every dtype, and write the page when all are probed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=2, help="worker processes")
    parser.add_argument("--calls", action="store_true", help="look for calls anew, and write calls.json")
    parser.add_argument("--minutes", type=float, help="stop then; the next call goes on")
    parser.add_argument("--records", type=Path, default=RECORDS, help="file of what was found")
    parser.add_argument("--go-on", action="store_true", help="keep what was found of other sources too")
    parser.add_argument(
        "--rows", action="store_true", help="probe nothing: bring rows up to date, and keep the page's marks"
    )
    options = parser.parse_args()
    if options.rows:
        write_page(read_page(), listed_overloads())
        return 0
    until = None if options.minutes is None else time.monotonic() + 60 * options.minutes
    if options.calls or not CALLS.exists():
        CALLS.write_text(json.dumps(find_calls(), indent=0) + "\n")
    results = Results(options.records, go_on=options.go_on)

    def report(record: Record) -> None:
        died = "crashed" in record or "timed_out" in record
        results.add({"mark": "✗", "reason": next(iter(record["reasons"])), **record} if died else record)

    worker = (sys.executable, "-m", "tests.coverage.worker")
    if not Pool(options.jobs, report, until, worker).run(_tasks(results)):
        print("not all were probed: call again")
        return 1
    found = {(op, DTYPES[number]): record for (op, _, number), record in results.records.items()}
    write_page(found, listed_overloads())
    return 0


def _tasks(results: Results) -> Iterator[Task]:
    core = set(core_overloads())
    for overload in sorted(listed_overloads(), key=lambda name: name not in core):
        numbers = tuple(
            number
            for number, dtype in enumerate(DTYPES)
            if (overload in core or dtype in OF_OTHERS) and (overload, "", number) not in results.records
        )
        if numbers:
            yield Task(overload, "", numbers)


if __name__ == "__main__":
    sys.exit(main())
