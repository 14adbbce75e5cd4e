"""The page `docs/opinfo.md`: what became of OpInfo's samples, op by op.

A run of a part of the programs renews the rows of the ops of which it has every program on record; the others stay.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from tests.opinfo.pool import Record
from tests.opinfo.programs import DTYPES
from tests.opinfo.results import KINDS, Counts, each, totals

HEAD = """# OpInfo

PyTorch's own samples of its ops ({version}), each op compiled with every axis dynamic: one program for all samples that share their
attributes, dtypes and ranks, compared with eager. Written by `make test-opinfo UPDATE=1`; the reasons are the compiler's own words.

"right" is what equals eager, or is as near to the op in f64 as eager is; "refused" is an error before anything runs, after which
`torch.compile` leaves the op to PyTorch; "bad" is a wrong value, another error, a dead process or more than 90 seconds.
Of bfloat16, int64 and bool one program in eight is run.
"""

REASON_LENGTH = 110
REASONS = 40

Listed = dict[str, tuple[int, int]]
"""Dtype -> how many programs and samples are to be run."""


@dataclass(frozen=True)
class Row:
    """What became of the samples of an op in a dtype, and why not all are right."""

    right: int
    samples: int
    refused: int
    bad: int
    why: str


Rows = dict[tuple[str, str], Row]
_ROW = re.compile(r"\| (\S+) \| ([a-z]\w+) \| (\d+) \| (\d+) \| (\d*) \| (\d*) \| (.*) \|")
_SUMMARY = re.compile(r"\| (\w+) \| \d+ \| \d+ \| (\d+) \| \d+ \| (\d+) \|.*")


def write_page(path: Path, records: Iterable[Record], listed: Listed, counts: Counts) -> None:
    """Write the page anew: for these records, of those that are listed, beside the rows that it has. `counts` are those checked in now."""
    before = path.read_text() if path.exists() else ""
    rows = _known_rows(before) | _rows(records, counts)
    lines = [
        HEAD.format(version=f"torch {torch.__version__.split('+')[0]}"),
        *_summary(rows, _known_totals(before, listed), counts),
        *_reasons(rows),
    ]
    lines += [
        "",
        "## Op by op",
        "",
        "| op | dtype | right | of | refused | bad | why not |",
        "|---|---|--:|--:|--:|--:|---|",
    ]
    lines += [
        f"| {op} | {dtype} | {row.right} | {row.samples} | {row.refused or ''} | {row.bad or ''} | {row.why} |"
        for (op, dtype), row in sorted(rows.items())
    ]
    path.write_text("\n".join(lines) + "\n")


def _known_rows(page: str) -> Rows:
    found: Rows = {}
    for line in page.splitlines():
        match = _ROW.fullmatch(line)
        if match:
            right, samples, refused, bad = (int(number or 0) for number in match.groups()[2:6])
            found[match[1], match[2]] = Row(right, samples, refused, bad, match[7])
    return found


def _known_totals(page: str, listed: Listed) -> Listed:
    """How many programs and samples there are, as was said before or, where that is more, as is listed now."""
    found = dict(listed)
    for line in page.splitlines():
        match = _SUMMARY.fullmatch(line)
        if match and match[1] in DTYPES:
            programs, samples = found.get(match[1], (0, 0))
            found[match[1]] = max(programs, int(match[2])), max(samples, int(match[3]))
    return found


def _rows(records: Iterable[Record], counts: Counts) -> Rows:
    """Those of ops of which every program that was ever run is on record."""
    grouped: dict[tuple[str, str], list[Record]] = defaultdict(list)
    for record in records:
        grouped[record["op"], record["dtype"]].append(record)
    missing = Counter((op, dtype) for (op, dtype, _), _letter in each(counts))
    missing.subtract({key: len(group) for key, group in grouped.items()})
    return {key: _row(group) for key, group in grouped.items() if missing[key] <= 0}


def _row(group: Sequence[Record]) -> Row:
    found, reasons = totals(group), Counter[str]()
    for record in sorted(group, key=lambda record: record["number"]):
        reasons.update(record.get("reasons", {}))
    why = _escaped("; ".join(reason for reason, _ in reasons.most_common(2)))
    return Row(found["right"], found["samples"], found["refused"], sum(found[kind] for kind in KINDS[2:]), why)


def _summary(rows: Rows, listed: Mapping[str, tuple[int, int]], counts: Counts) -> list[str]:
    lines = ["| dtype | ops | programs | of | samples | of | right | refused | bad |"]
    lines.append("|---|--:|--:|--:|--:|--:|--:|--:|--:|")
    run = Counter(dtype for (_, dtype, _), _letter in each(counts))
    for dtype in DTYPES:
        mine = [row for (_, its), row in rows.items() if its == dtype]
        programs, samples = listed.get(dtype, (0, 0))
        done = sum(row.samples for row in mine)
        kinds = [sum(getattr(row, kind) for row in mine) for kind in ("right", "refused", "bad")]
        numbers = [len(mine), run[dtype], max(programs, run[dtype]), done, max(samples, done), *kinds]
        lines.append(f"| {dtype} | " + " | ".join(map(str, numbers)) + " |")
    return lines


def _reasons(rows: Rows) -> list[str]:
    """The most frequent of what stands behind rows with refused samples."""
    lines = ["", "## Why samples are refused", "", "| samples | of ops with the reasons |", "|--:|---|"]
    found: Counter[str] = Counter()
    for row in rows.values():
        if row.refused:
            found[row.why] += row.refused
    return lines + [f"| {count} | {why} |" for why, count in found.most_common(REASONS)]


def _escaped(text: str) -> str:
    text = " ".join(text.split()).replace("|", "\\|")
    return text if len(text) <= REASON_LENGTH else text[: REASON_LENGTH - 1] + "…"
