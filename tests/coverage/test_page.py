"""The coverage page names every overload and says of each how it reaches the compiler; a few rows are probed again."""

from __future__ import annotations

import random

import pytest

from tests.coverage.overloads import DTYPES, call_of, core_overloads, how, in_dtypes, listed_overloads, read_calls
from tests.coverage.page import PAGE
from tests.coverage.probing import probe
from tests.drawn import commit
from tests.opinfo.running import capturing_fast

REMEDY = "write docs/coverage.md anew: make coverage, or python -m tests.coverage --rows, which probes nothing"


def rows() -> dict[str, list[str]]:
    """Overload -> the other cells of its row."""
    found: dict[str, list[str]] = {}
    for line in PAGE.read_text().split("## Why not")[0].splitlines():
        if line.startswith("| `aten."):
            name, *cells = (cell.strip() for cell in line.strip("|").split("|"))
            found[name.strip("`")] = cells
    return found


def test_every_overload_has_its_row() -> None:
    found = rows()
    assert len(core_overloads()) >= 180
    assert set(found) == set(listed_overloads()), REMEDY
    assert {name: cells[0] for name, cells in found.items()} == {name: how(name) for name in found}, REMEDY


def test_most_of_core_is_compiled() -> None:
    found = rows()
    left = [name for name in core_overloads() if found[name][0] == "falls back"]
    assert len(left) <= 12, left


@pytest.mark.parametrize("number", range(2))
def test_some_rows_are_as_the_page_says(number: int) -> None:
    """A mark may only improve on the page."""
    where, found = read_calls(), rows()
    choose = random.Random(f"{commit()} {number}")
    name = choose.choice([each for each in found if each in where and "c" in found[each][2:]])
    call = call_of(name, where)
    assert call is not None
    marks: dict[str, str] = dict(zip(DTYPES, found[name][2:], strict=True))
    with capturing_fast():
        casts = list(in_dtypes(call))
        for dtype, cast in choose.sample(casts, min(3, len(casts))):
            if marks[dtype] in ("c", "d"):
                got = probe(name, cast)
                assert got.mark in ("c", "d"), f"{name} {dtype}: {got.reason}; {REMEDY}"
