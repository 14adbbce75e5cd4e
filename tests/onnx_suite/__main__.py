"""The ONNX backend suite through anyshape: `python -m tests.onnx_suite`.

Every case as it is, and again with every axis of its inputs symbolic. A stopped run goes on where it was. The exit status is 1 where a
case is worse than `not_right.txt` says; `--update` checks in what was found, which may only be less.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections import Counter
from collections.abc import Iterator

from tests.onnx_suite import ratchet
from tests.onnx_suite.cases import MODES, Case, all_cases
from tests.onnx_suite.ratchet import NotRight
from tests.opinfo.pool import Record, Task
from tests.opinfo.results import KINDS, Results
from tests.recorded import parser_of, run_tasks

OF_A_TASK = 20
WORKER = (sys.executable, "-m", "tests.onnx_suite.worker")


def main() -> int:
    """Run what the command line asks for."""
    options = _arguments()
    cases = list(all_cases().values())
    results = Results(options.results, go_on=options.go_on)

    def line(record: Record) -> tuple[str, bool]:
        state, name = state_of(record), cases[record["number"]].name
        return f"{state}: {record['dtype']} {name}: {_reason(record)}", state not in ("right", "refused")

    run = run_tasks(options, results, _tasks(options, cases, results), line, command=WORKER, seconds=60.0)
    chosen = {number for number, case in enumerate(cases) if _is_chosen(case, options)}
    records = [each for (_, _, number), each in results.records.items() if number in chosen]
    _print_counts(records, cases, run.seconds)
    if options.reasons:
        _print_reasons(records, cases)
    listed = (_listed(record, cases) for record in records)
    found = {key: each for key, each in listed if each is not None}
    ran = [(cases[record["number"]].name, record["dtype"]) for record in records]
    before = ratchet.read()
    worse = ratchet.worse(before, found) if ratchet.FILE.exists() else {}
    for (name, mode), (known, each) in worse.items():
        print(f"worse: {mode} {name} was {known}, is {each.state}: {each.reason}")
    better = [key for key in ran if key in before and key not in found]
    print(f"{len(better)} are better than checked in, {len(worse)} worse{run.remark}")
    if options.update and (not worse or options.force or not ratchet.FILE.exists()):
        ratchet.write(ratchet.merged(before, found, ran))
        return 0
    return 1 if worse else 0


def state_of(record: Record) -> str:
    """What became of a case, in a word or two."""
    return next((kind.replace("_", " ") for kind in reversed(KINDS) if record.get(kind)), "right")


def _listed(record: Record, cases: list[Case]) -> tuple[ratchet.Key, NotRight | None]:
    case, state = cases[record["number"]], state_of(record)
    key = case.name, record["dtype"]
    return key, None if state == "right" else NotRight(state, case.outside or _reason(record))


def _reason(record: Record) -> str:
    return "; ".join(" ".join(reason.split()) for reason in record.get("reasons", {}))[:400]


def _print_counts(records: list[Record], cases: list[Case], seconds: float) -> None:
    print(f"{len(records)} runs in {seconds:.0f} s")
    for mode in MODES:
        for inside in (True, False):
            some = [each for each in records if each["dtype"] == mode and (not cases[each["number"]].outside) == inside]
            counted = Counter(map(state_of, some))
            bound = sum(bool(each.get("bound")) for each in some if state_of(each) == "right")
            which = "numeric tensors, no control flow" if inside else "others"
            text = ", ".join(f"{count} {state}" for state, count in counted.most_common())
            share = f" ({counted['right'] / len(some):.1%} right)" if some else ""
            print(f"{mode}, {which}: {len(some)} cases: {text}{share}; {bound} with inputs of known value")


def _print_reasons(records: list[Record], cases: list[Case]) -> None:
    """How many cases there are for each reason, the most frequent first, with one of them."""
    reasons, example = Counter[str](), dict[str, str]()
    for record in records:
        case, state = cases[record["number"]], state_of(record)
        if state != "right" and not case.outside:
            reason = f"{state}: {_reason(record)[:160]}"
            reasons[reason] += 1
            example.setdefault(reason, f"{record['dtype']} {case.name}")
    for reason, count in reasons.most_common():
        print(f"{count:4} {reason}   [{example[reason]}]")


def _is_chosen(case: Case, options: argparse.Namespace) -> bool:
    if options.op and not case.ops & set(options.op):
        return False
    return not options.match or re.search(options.match, case.name) is not None


def _tasks(options: argparse.Namespace, cases: list[Case], results: Results) -> Iterator[Task]:
    """The chosen cases that are not in `results`, a few neighbours at a time, in both modes."""
    index, count = options.shard
    chosen = [number for number, case in enumerate(cases) if number % count == index and _is_chosen(case, options)]
    for first in range(0, len(chosen), OF_A_TASK):
        for mode in options.mode or MODES:
            waiting = tuple(
                number
                for number in chosen[first : first + OF_A_TASK]
                if options.again or _is_open(results.records.get(("onnx", mode, number)), options)
            )
            if waiting:
                yield Task("onnx", mode, waiting)


def _is_open(record: Record | None, options: argparse.Namespace) -> bool:
    """Whether a case has still to be run."""
    return record is None or (options.not_right and state_of(record) != "right")


def _arguments() -> argparse.Namespace:
    parser = parser_of(__doc__, "onnx_suite", one="case", updated="not_right.txt, unless a case is worse")
    parser.add_argument("--op", action="append", help="only cases with this op; may be given again")
    parser.add_argument("--match", help="only cases whose names match this expression")
    parser.add_argument("--mode", action="append", choices=MODES, help="only this mode")
    parser.add_argument("--again", action="store_true", help="run the chosen cases even where they have a record")
    parser.add_argument("--not-right", action="store_true", help="run again what has a record and is not right")
    parser.add_argument("--reasons", action="store_true", help="count the reasons of cases that are not right")
    parser.add_argument("--force", action="store_true", help="with --update, also where cases are worse")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
