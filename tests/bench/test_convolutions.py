"""The report of convolutions: its table, and one small layer measured for real."""

from __future__ import annotations

from torch import nn

from bench import tables
from bench.convolutions import CASES, Case, measure_case


def test_a_case_is_measured_and_shown() -> None:
    case = Case("depthwise", "4, 3×3, 9×9", lambda: nn.Conv2d(4, 4, 3, padding=1, groups=4), (4, 9, 9), (0, 2, 3))
    rows = measure_case(case, 1, 0.001)
    assert [row["batch"] for row in rows] == [1, 8]
    assert all(row["seconds"]["median"] > 0 and row["difference"] < 1e-5 for row in rows)
    (grid,) = tables.grids({"convolutions": rows})
    assert [line[1] for line in grid.rows[:2]] == ["1", "8"]
    assert grid.rows[-1][0] == "geometric mean, all"


def test_cases_have_names_of_their_own() -> None:
    names = [(case.group, case.title) for case in CASES]
    assert len(set(names)) == len(names)
