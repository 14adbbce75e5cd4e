"""OpInfo through anyshape with dynamic sizes: `python -m tests.opinfo`.

Every op that OpInfo has for the CPU: float32 whole, a part of bfloat16, int64 and bool. A stopped run goes on where it was. The
exit status is 1 where a program is worse than `counts.json` says; `--update` checks in what was found and writes `docs/opinfo.md`.
`--errors` runs calls that PyTorch rejects instead.
"""

from __future__ import annotations

import argparse
import sys
import time
import zlib
from collections.abc import Iterator
from pathlib import Path

from tests.opinfo.errors import ERRORS, error_cases
from tests.opinfo.page import Listed, write_page
from tests.opinfo.pool import Pool, Record, Task
from tests.opinfo.programs import DTYPES, OPS, drawn, programs_of
from tests.opinfo.results import KINDS, LETTERS, Results, compare, letter_of, merged, read_counts, totals, write_counts

ROOT = Path(__file__).parents[2]


def main() -> int:
    """Run what the command line asks for."""
    options = _arguments()
    results = Results(options.results, go_on=options.go_on)
    start = time.monotonic()
    until = None if options.minutes is None else start + 60 * options.minutes

    def report(record: Record) -> None:
        results.add(record)
        letter = letter_of(record)
        if options.verbose or LETTERS.index(letter) > LETTERS.index("r"):
            reason = next(iter(record.get("reasons", {})), "")
            print(f"{letter} {record['op']} {record['dtype']} #{record['number']}: {reason}", flush=True)

    listed: Listed = {}
    complete = Pool(options.jobs, report, until).run(_tasks(options, results, listed))
    found = totals(results.records.values())
    print(
        f"{found['keys']} programs, {found['samples']} samples in {time.monotonic() - start:.0f} s: " + _counted(found)
    )
    worse, better = compare(read_counts(), results.letters())
    for (op, dtype, number), (before, now) in worse.items():
        print(f"worse: {op} {dtype} #{number} was {before}, is {now}")
    print(
        f"{len(better)} programs are better than checked in, {len(worse)} worse"
        + ("" if complete else "; not all were run")
    )
    if options.update:
        write_counts(merged(read_counts(), results.letters()))
        write_page(ROOT / "docs" / "opinfo.md", results.records.values(), listed)
        return 0
    return 1 if worse else 0


def _counted(found: dict[str, int]) -> str:
    return ", ".join(f"{found[kind]} {kind.replace('_', ' ')}" for kind in KINDS)


def _tasks(options: argparse.Namespace, results: Results, listed: Listed) -> Iterator[Task]:
    """Programs that are asked for and not in `results`, op by op; `listed` gets how many programs and samples there are at all."""
    again = set(options.again)
    for dtype in [ERRORS] if options.errors else options.dtype or DTYPES:
        for op in OPS:
            if options.op and op not in options.op and OPS[op].name not in options.op:
                continue
            if options.errors:
                programs = [case.program for case in error_cases(op)]
            else:
                programs = drawn(programs_of(op, dtype), op, dtype)
            known = listed.get(dtype, (0, 0))
            listed[dtype] = known[0] + len(programs), known[1] + sum(len(program.calls) for program in programs)
            numbers = tuple(
                program.number
                for program in programs
                if _is_in_shard(op, dtype, program.number, options.shard)
                and ((op, dtype, program.number) not in results.records
                     or letter_of(results.records[op, dtype, program.number]) in again)
            )  # fmt: skip
            if numbers:
                yield Task(op, dtype, numbers)


def _is_in_shard(op: str, dtype: str, number: int, shard: tuple[int, int]) -> bool:
    """Programs are dealt by their names, so that every shard has some of every op with many."""
    index, count = shard
    return (zlib.crc32(f"{op} {dtype}".encode()) + number) % count == index


def _shard(text: str) -> tuple[int, int]:
    index, count = map(int, text.split("/"))
    if not 1 <= index <= count:
        raise argparse.ArgumentTypeError(f"{text} is no shard: 1/{count} … {count}/{count} are")
    return index - 1, count


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shard", type=_shard, default=(0, 1), help="i/n: the i-th of n parts")
    parser.add_argument("--jobs", type=int, default=2, help="worker processes")
    parser.add_argument("--op", action="append", help="only this op, all its variants; may be given again")
    parser.add_argument("--dtype", action="append", choices=tuple(DTYPES), help="only this dtype; may be given again")
    parser.add_argument("--errors", action="store_true", help="calls that PyTorch rejects, instead of samples")
    parser.add_argument("--minutes", type=float, help="stop then; the next call goes on")
    parser.add_argument(
        "--results", type=Path, default=ROOT / "build" / "opinfo" / "results.jsonl", help="file of records"
    )
    parser.add_argument("--go-on", action="store_true", help="keep the records of other sources too")
    parser.add_argument("--again", default="", help="letters of programs that are run again, such as xw")
    parser.add_argument("--update", action="store_true", help="write counts.json and docs/opinfo.md")
    parser.add_argument("--verbose", action="store_true", help="a line for every program")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
