"""The page `docs/coverage.md`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from tests.coverage.overloads import DTYPES, core_overloads, how
from tests.opinfo.pool import Record

PAGE = Path(__file__).parents[2] / "docs" / "coverage.md"
SHORT = {"float": "f", "bfloat": "bf", "uint": "u", "int": "i", "complex": "c"}
HEAD = """# Coverage of ATen

Which ops of PyTorch's are compiled, with every axis dynamic. Written by `make coverage`, which takes one call of each overload from OpInfo,
casts it to every dtype, compiles it and runs it; whether values are right is the subject of [opinfo.md](opinfo.md).

- **how**: *compiled* has a lowering or an op of its own; *decomposed* is written by PyTorch in others before we see it; *size* gives
  no tensor but a size; *falls back* is left to PyTorch by `torch.compile`, and is an error of `anyshape.compile`.
- **axes**: *all* when each axis of the call's tensors may have any size, else how many the op itself fixes.
- A dtype has **c** when the call compiles, **d** when it does after PyTorch has decomposed it, **✗** when it does not, **·** where
  PyTorch has no such kernel, and nothing where it was not tried: OpInfo makes no call of the overload, or an overload that is not core
  was not tried in this dtype.
"""


def short(dtype: str) -> str:
    """`f32` for `float32`."""
    name = dtype.rstrip("0123456789")
    return SHORT.get(name, name) + dtype[len(name) :]


def write_page(records: Mapping[tuple[str, str], Record], overloads: list[str]) -> None:
    """Write the page for what was found of each overload and dtype."""
    core = set(core_overloads())
    lines = [HEAD]
    for title, names in (
        ("Core overloads", [name for name in overloads if name in core]),
        ("Other overloads that models bring", [name for name in overloads if name not in core]),
    ):
        lines += [f"## {title}", "", _counted(names, records), ""]
        lines += ["| overload | how | axes | " + " | ".join(map(short, DTYPES)) + " |"]
        lines += ["|---|---|---|" + ":-:|" * len(DTYPES)]
        lines += [_row(name, records) for name in names] + [""]
    lines += ["## Why not", "", "| overload | dtypes | reason |", "|---|---|---|", *_reasons(records)]
    PAGE.write_text("\n".join(lines) + "\n")


def _reasons(records: Mapping[tuple[str, str], Record]) -> list[str]:
    """A row for each overload and reason, with the dtypes in which that is the reason."""
    found: dict[tuple[str, str], list[str]] = {}
    for (name, dtype), record in sorted(records.items()):
        if record.get("reason"):
            found.setdefault((name, record["reason"].replace("|", "/")), []).append(short(dtype))
    return [f"| `{name}` | {', '.join(dtypes)} | {reason} |" for (name, reason), dtypes in found.items()]


def _counted(names: list[str], records: Mapping[tuple[str, str], Record]) -> str:
    kinds = [how(name) for name in names]
    by_kind = ", ".join(f"{kinds.count(kind)} {kind}" for kind in ("compiled", "decomposed", "size", "falls back"))
    marks = [record.get("mark", "") for (name, _), record in records.items() if name in set(names)]
    yes, no = sum(mark in ("c", "d") for mark in marks), marks.count("✗")
    return f"{len(names)} overloads: {by_kind}. Of {yes + no} pairs of an overload and a dtype that PyTorch runs, {yes} compile."


def _row(name: str, records: Mapping[tuple[str, str], Record]) -> str:
    found = [records.get((name, dtype), {}) for dtype in DTYPES]
    compiled = [record for record in found if record.get("mark") in ("c", "d")]
    fixed = min(((record["fixed"], record["axes"]) for record in compiled), default=None)
    axes = "" if fixed is None else "all" if fixed[0] == 0 else f"{fixed[0]} of {fixed[1]} fixed"
    return f"| `{name}` | {how(name)} | {axes} | " + " | ".join(record.get("mark", "") for record in found) + " |"


def read_page() -> dict[tuple[str, str], Record]:
    """What the page says, as `write_page` takes it."""
    found: dict[tuple[str, str], Record] = {}
    table, reasons = PAGE.read_text().split("## Why not")
    for name, _, axes, *marks in _cells(table):
        fixed = [int(word) for word in axes.split() if word.isdigit()] or [0, 0]
        for dtype, mark in zip(DTYPES, marks, strict=True):
            if mark:
                found[name, dtype] = {"mark": mark, "fixed": fixed[0], "axes": fixed[1], "reason": ""}
    for name, dtypes, reason in _cells(reasons):
        for dtype in DTYPES:
            if short(dtype) in dtypes.split(", "):
                found[name, dtype]["reason"] = reason
    return found


def _cells(text: str) -> Iterator[list[str]]:
    for line in text.splitlines():
        if line.startswith("| `aten."):
            cells = [cell.strip() for cell in line.strip("|").split("|")]
            yield [cells[0].strip("`"), *cells[1:]]
