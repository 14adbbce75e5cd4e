"""The section of ONNX files: what is measured, which results count, and its tables."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bench import onnx_files, tables
from bench.onnx_files import CASES, Call, EngineFailed, Process, Session, compared, largest_difference, missing
from tests.onnx_files import catalogue
from tests.onnx_files.catalogue import FILES, Array

CALLS: dict[str, Call] = {"1×2": {"x": np.ones((1, 2), np.float32)}, "3×2": {"x": np.ones((3, 2), np.float32)}}


def session(factor: float, folder: Path) -> Session:
    def run(call: Call) -> list[Array]:
        return [factor * call["x"], call["x"][:, 0]]

    made = Session(lambda: run, CALLS, folder / "expected")
    assert made.first() > 0
    return made


def a_file(**changes: Any) -> dict[str, Any]:
    samples = {"anyshape": [2.0, 4.0], "onnxruntime": [9.0, 9.0], "openvino": [3.0, 6.0]}
    cold = {"anyshape": 1.5, "onnxruntime": 0.5, "openvino": 1.0}
    rows = [{"size": size, **compared(samples)} for size in CALLS]
    figures = {"failed": {}, "cold": cold, "difference": dict.fromkeys(cold, 0.0), "rows": rows}
    return {"title": "A", "kind": "recurrent", "counted": "rows", **figures, **changes}


def test_every_file_of_the_catalogue_is_measured_once() -> None:
    assert sorted(case.file for case in CASES) == sorted(file.name for file in FILES)
    assert len({case.title for case in CASES}) == len(CASES)
    assert all(len(case.sizes) in (2, 3) for case in CASES)


@pytest.mark.parametrize("title", ["MiniLM-L6, int8 weights", "Silero VAD", "Magika v3.3", "AECMOS 1668423760"])
def test_calls_have_the_size_that_is_asked_for(title: str) -> None:
    case = next(case for case in CASES if case.title == title)
    for size in case.sizes:
        sizes = [axis for array in case.call(*size).values() for axis in array.shape]
        assert set(size) <= set(sizes)


def test_the_paired_ratio_is_to_the_better_peer() -> None:
    row = a_file()["rows"][0]
    assert row["peer"] == "openvino" and row["ratio"]["median"] == 1.5
    assert row["ms"]["anyshape"]["median"] == 3000


def test_a_session_compares_with_the_first_engine(tmp_path: Path) -> None:
    assert [session(factor, tmp_path).difference() for factor in (2.0, 2.0, 2.5)] == [0, 0, 0.25]
    assert np.isnan(session(float("nan"), tmp_path).difference())


def test_a_session_times_calls(tmp_path: Path) -> None:
    assert len(session(2.0, tmp_path).block("3×2", 1, 4)) == 4


def test_a_process_that_ends_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(onnx_files, "ROOT", tmp_path)
    monkeypatch.setenv("PYTHONPATH", "")
    monkeypatch.chdir(tmp_path)
    with Process(CASES[0], "onnxruntime", 1, tmp_path) as process, pytest.raises(EngineFailed, match="No module named"):
        process.ask("first")


def test_differences_are_relative_to_the_largest_element_of_an_output() -> None:
    assert largest_difference([np.array([1.0, 4.0]), np.zeros(0)], [np.array([1.5, 5.0]), np.zeros(0)]) == 0.2
    with pytest.raises(ValueError, match="shapes"):
        largest_difference([np.zeros(2)], [np.zeros(2), np.zeros(2)])


def test_what_is_not_installed_is_skipped_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    case = CASES[0]
    assert "ONNX Runtime" in str(missing(case, ["anyshape"]))
    nothing: dict[str, None] = {}
    monkeypatch.setattr(catalogue, "find_spec", nothing.get)
    assert missing(case, ["anyshape", "onnxruntime"]) == f"{case.entry.package} is not installed"


def test_tables_show_every_size_the_means_and_what_was_skipped() -> None:
    section = {"files": [a_file()], "skipped": {"B": "b is not installed"}}
    warm, cold = tables.grids({"onnx": section})
    assert [line[1] for line in warm.rows[:2]] == ["rows: 1×2", "rows: 3×2"]
    assert [line[0] for line in warm.rows[2:]] == ["geometric mean, recurrent", "geometric mean, all"]
    assert cold.rows[0][:5] == ["A", "recurrent", "1.50", "0.50", "1.00"]
    assert cold.rows[1][-1] == "skipped: b is not installed"
    assert all(len(line) == len(grid.header) for grid in (warm, cold) for line in grid.rows)


def test_an_engine_without_an_answer_has_its_reason_in_the_table() -> None:
    why = "a | b " * 50
    file = a_file(cold={"onnxruntime": 0.5}, failed={"anyshape": why}, rows=[])
    warm, cold = tables.grids({"onnx": {"files": [file], "skipped": {}}})
    assert not warm.rows
    (line,) = cold.rows
    assert line[cold.header.index("anyshape")] == "–"
    assert line[-1].startswith("anyshape: a / b") and "|" not in line[-1] and len(line[-1]) < 120
