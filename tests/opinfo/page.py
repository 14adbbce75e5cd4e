"""The page `docs/opinfo.md`: what became of OpInfo's samples, op by op."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path

import torch

from tests.opinfo.pool import Record
from tests.opinfo.programs import DTYPES
from tests.opinfo.results import KINDS, totals

HEAD = """# OpInfo

PyTorch's own samples of its ops ({version}), each op compiled with every axis dynamic: one program for all samples that share their
attributes, dtypes and ranks, compared with eager. Written by `make test-opinfo UPDATE=1`; the reasons are the compiler's own words.

"right" is what equals eager, or is as near to the op in f64 as eager is; "refused" is an error before anything runs, after which
`torch.compile` leaves the op to PyTorch; "bad" is a wrong value, another error, a dead process or more than 90 seconds.
Of bfloat16, int64 and bool one program in eight is run.
"""

REASON_LENGTH = 110

Listed = dict[str, tuple[int, int]]
"""Dtype -> how many programs and samples are to be run."""


def write_page(path: Path, records: Iterable[Record], listed: Listed) -> None:
    """Write the page for these records, of those that are listed."""
    records = sorted(records, key=lambda record: (record["op"], record["dtype"], record["number"]))
    lines = [
        HEAD.format(version=f"torch {torch.__version__.split('+')[0]}"),
        *_summary(records, listed),
        *_reasons(records),
    ]
    lines += [
        "",
        "## Op by op",
        "",
        "| op | dtype | right | of | refused | bad | why not |",
        "|---|---|--:|--:|--:|--:|---|",
    ]
    grouped: dict[tuple[str, str], list[Record]] = defaultdict(list)
    for record in records:
        grouped[record["op"], record["dtype"]].append(record)
    for (op, dtype), group in grouped.items():
        found = totals(group)
        why = _escaped("; ".join(reason for reason, _ in _counted_reasons(group).most_common(2)))
        bad = sum(found[kind] for kind in KINDS[2:])
        lines.append(
            f"| {op} | {dtype} | {found['right']} | {found['samples']} | {found['refused'] or ''} | {bad or ''} | {why} |"
        )
    path.write_text("\n".join(lines) + "\n")


def _summary(records: Sequence[Record], listed: Listed) -> list[str]:
    lines = ["| dtype | ops | programs | of | samples | of | right | refused | wrong | failed | crashed | timed out |"]
    lines.append("|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|")
    for dtype in DTYPES:
        mine = [record for record in records if record["dtype"] == dtype]
        found, (programs, samples) = totals(mine), listed.get(dtype, (len(mine), 0))
        numbers = [len({record["op"] for record in mine}), len(mine), programs, found["samples"], samples]
        lines.append(f"| {dtype} | " + " | ".join(map(str, [*numbers, *(found[kind] for kind in KINDS)])) + " |")
    return lines


def _reasons(records: Sequence[Record]) -> list[str]:
    lines = ["", "## Why samples are refused", "", "| samples | reason |", "|--:|---|"]
    common = _counted_reasons([record for record in records if record.get("refused")]).most_common(40)
    return lines + [f"| {count} | {_escaped(reason)} |" for reason, count in common]


def _counted_reasons(records: Iterable[Record]) -> Counter[str]:
    found: Counter[str] = Counter()
    for record in records:
        for reason, count in record.get("reasons", {}).items():
            found[reason] += count
    return found


def _escaped(text: str) -> str:
    text = " ".join(text.split()).replace("|", "\\|")
    return text if len(text) <= REASON_LENGTH else text[: REASON_LENGTH - 1] + "…"
