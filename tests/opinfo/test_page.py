"""A part of a run renews the rows of the ops that it finished, and the page's totals; all other rows stay."""

from pathlib import Path

from tests.opinfo.page import write_page

COUNTS = {"abs": {"float32": ".."}, "cat": {"float32": ".r", "int64": "p"}}
FULL = [
    {"op": "abs", "dtype": "float32", "number": 0, "samples": 3, "right": 3},
    {"op": "abs", "dtype": "float32", "number": 1, "samples": 1, "right": 1},
    {"op": "cat", "dtype": "float32", "number": 0, "samples": 2, "right": 2},
    {"op": "cat", "dtype": "float32", "number": 1, "samples": 2, "refused": 2, "reasons": {"no a | b": 2}},
    {"op": "cat", "dtype": "int64", "number": 0, "samples": 5, "right": 4, "refused": 1, "reasons": {"no c": 1}},
]
LISTED = {"float32": (9, 20), "int64": (1, 5)}


def test_rows_and_totals_are_kept(tmp_path: Path) -> None:
    page = tmp_path / "opinfo.md"
    write_page(page, FULL, LISTED, COUNTS)
    whole = page.read_text()
    assert "| float32 | 2 | 4 | 9 | 8 | 20 | 6 | 2 | 0 |" in whole
    assert "| cat | float32 | 2 | 4 | 2 |  | no a \\| b |" in whole
    assert "| 2 | no a \\| b |" in whole
    write_page(page, FULL[3:4], {"float32": (2, 4)}, COUNTS)  # cat in float32 has another program
    assert page.read_text() == whole


def test_rows_that_are_run_again_are_renewed(tmp_path: Path) -> None:
    page = tmp_path / "opinfo.md"
    write_page(page, FULL, LISTED, COUNTS)
    better = {"op": "cat", "dtype": "int64", "number": 0, "samples": 5, "right": 5}
    write_page(page, [better], {"int64": (1, 5)}, COUNTS)
    assert "| cat | int64 | 5 | 5 |  |  |  |" in page.read_text()
    assert "| int64 | 1 | 1 | 1 | 5 | 5 | 5 | 0 | 0 |" in page.read_text()
    assert "no c" not in page.read_text()
