"""What is kept of runs: a file of records that a stopped run goes on from, and the checked-in counts, which may only improve.

Of every program the counts hold one letter, in the programs' order: `.` all samples right, `p` some refused, `r` refused, `t` took too
long, `x` the process died, `e` an error that is no refusal, `w` a wrong value, `-` not run.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.opinfo.pool import Record

COUNTS = Path(__file__).with_name("counts.json")
KINDS = ("right", "refused", "wrong", "failed", "crashed", "timed_out")
LETTERS = ".prtexw"
"""From best to worst."""

Key = tuple[str, str, int]
"""Op, dtype, number of the program."""
Counts = Mapping[str, Mapping[str, str]]
"""Op -> dtype -> a letter for each program."""


def letter_of(record: Record) -> str:
    """What became of one program."""
    for kind, letter in (("wrong", "w"), ("crashed", "x"), ("failed", "e"), ("timed_out", "t")):
        if record.get(kind):
            return letter
    if not record.get("refused"):
        return "."
    return "p" if record.get("right") else "r"


def sources_digest() -> str:
    """Names the compiler and these tests: results of others are not gone on from."""
    root, digest = Path(__file__).parents[2], hashlib.sha256()
    for folder in ("anyshape", "tests/opinfo"):
        for path in sorted((root / folder).rglob("*.py")):
            digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


@dataclass
class Results:
    """The records in a file, a later one of a program in the place of an earlier one.

    Args:
        path: the file; it is made where it is missing.
        go_on: whether records of other sources count too.
    """

    path: Path
    go_on: bool = False
    records: dict[Key, Record] = field(default_factory=dict[Key, Record])

    def __post_init__(self) -> None:
        sources = sources_digest()
        self.path.parent.mkdir(parents=True, exist_ok=True)
        for line in self.path.read_text().splitlines() if self.path.exists() else ():
            record = json.loads(line)
            if record.get("sources", sources) == sources or self.go_on:
                self._take(record)
            else:
                self.records.clear()
                break
        mode = "a" if self.records else "w"
        self._file = self.path.open(mode, buffering=1)
        if mode == "w":
            print(json.dumps({"sources": sources}), file=self._file)

    def add(self, record: Record) -> None:
        """Keep a record, in the file at once."""
        self._take(record)
        print(json.dumps(record), file=self._file)

    def _take(self, record: Record) -> None:
        if "number" in record:
            self.records[record["op"], record["dtype"], record["number"]] = record

    def letters(self) -> dict[str, dict[str, str]]:
        """The counts of these records alone."""
        return _letters((key, letter_of(record)) for key, record in self.records.items())


def _letters(found: Iterable[tuple[Key, str]]) -> dict[str, dict[str, str]]:
    grouped: dict[str, dict[str, dict[int, str]]] = {}
    for (op, dtype, number), letter in found:
        grouped.setdefault(op, {}).setdefault(dtype, {})[number] = letter
    return {
        op: {
            dtype: "".join(numbers.get(number, "-") for number in range(max(numbers) + 1))
            for dtype, numbers in sorted(dtypes.items())
        }
        for op, dtypes in sorted(grouped.items())
    }


def read_counts() -> dict[str, dict[str, str]]:
    """The checked-in counts."""
    return json.loads(COUNTS.read_text()) if COUNTS.exists() else {}


def write_counts(counts: Counts) -> None:
    """Check in these."""
    COUNTS.write_text(json.dumps(counts, indent=0, sort_keys=True) + "\n")


def each(counts: Counts) -> Iterator[tuple[Key, str]]:
    """Every program that was run, with its letter."""
    for op, dtypes in counts.items():
        for dtype, letters in dtypes.items():
            for number, letter in enumerate(letters):
                if letter != "-":
                    yield (op, dtype, number), letter


def compare(old: Counts, new: Counts) -> tuple[dict[Key, tuple[str, str]], dict[Key, tuple[str, str]]]:
    """Programs that are worse than before, and better ones, each with its letters. A program that is new may be anything but bad."""
    before, worse, better = dict(each(old)), dict[Key, tuple[str, str]](), dict[Key, tuple[str, str]]()
    for key, letter in each(new):
        known = before.get(key, "r")
        if LETTERS.index(letter) > LETTERS.index(known):
            worse[key] = known, letter
        elif LETTERS.index(letter) < LETTERS.index(known) or key not in before:
            better[key] = known, letter
    return worse, better


def merged(old: Counts, new: Counts) -> dict[str, dict[str, str]]:
    """`new` where it has a program, else `old`."""
    return _letters({**dict(each(old)), **dict(each(new))}.items())


def totals(records: Iterable[Record]) -> Counter[str]:
    """Samples and programs of each kind."""
    found: Counter[str] = Counter()
    for record in records:
        found["samples"] += record["samples"]
        found["keys"] += 1
        found["programs"] += record.get("programs", 0)
        for kind in KINDS:
            found[kind] += record.get(kind, 0)
    return found
