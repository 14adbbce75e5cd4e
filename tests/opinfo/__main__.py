"""OpInfo through anyshape with dynamic sizes: `python -m tests.opinfo`.

Every op that OpInfo has for the CPU: float32 whole, a part of bfloat16, int64 and bool. A stopped run goes on where it was. The
exit status is 1 where a program is worse than `counts.json` says; `--update` checks in what was found and writes `docs/opinfo.md`.
`--errors` runs calls that PyTorch rejects instead.
"""

from __future__ import annotations

import argparse
import sys
import zlib
from collections.abc import Iterator

from tests.opinfo.errors import ERRORS, error_cases
from tests.opinfo.page import Listed, write_page
from tests.opinfo.pool import Record, Task
from tests.opinfo.programs import DTYPES, OPS, drawn, programs_of
from tests.opinfo.results import KINDS, LETTERS, Results, compare, letter_of, merged, read_counts, totals, write_counts
from tests.recorded import ROOT, parser_of, run_tasks


def main() -> int:
    """Run what the command line asks for."""
    options = _arguments()
    results = Results(options.results, go_on=options.go_on)
    listed: Listed = {}
    run = run_tasks(options, results, _tasks(options, results, listed), _line)
    found = totals(results.records.values())
    print(f"{found['keys']} programs, {found['samples']} samples in {run.seconds:.0f} s: " + _counted(found))
    worse, better = compare(read_counts(), results.letters())
    for (op, dtype, number), (before, now) in worse.items():
        print(f"worse: {op} {dtype} #{number} was {before}, is {now}")
    print(f"{len(better)} programs are better than checked in, {len(worse)} worse{run.remark}")
    if options.update:
        counts = merged(read_counts(), results.letters())
        write_counts(counts)
        write_page(ROOT / "docs" / "opinfo.md", results.records.values(), listed, counts)
        return 0
    return 1 if worse else 0


def _line(record: Record) -> tuple[str, bool]:
    """A program with what became of it, and whether that is worse than a refusal."""
    letter, reason = letter_of(record), next(iter(record.get("reasons", {})), "")
    text = f"{letter} {record['op']} {record['dtype']} #{record['number']}: {reason}"
    return text, LETTERS.index(letter) > LETTERS.index("r")


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


def _arguments() -> argparse.Namespace:
    parser = parser_of(__doc__, "opinfo", one="program", updated="counts.json and docs/opinfo.md")
    parser.add_argument("--op", action="append", help="only this op, all its variants; may be given again")
    parser.add_argument("--dtype", action="append", choices=tuple(DTYPES), help="only this dtype; may be given again")
    parser.add_argument("--errors", action="store_true", help="calls that PyTorch rejects, instead of samples")
    parser.add_argument("--again", default="", help="letters of programs that are run again, such as xw")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
