"""The report of the cost model's error: its figures, its tables, its plot, and one kernel measured for real."""

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from bench import blocks, model, plots, tables, tiles

ROWS: list[dict[str, Any]] = [
    {"kind": "product", "kernel": "384×384", "shape": "1×384", "predicted_ns": 2000.0, "measured_ns": 1000.0},
    {"kind": "product", "kernel": "384×384", "shape": "8×384", "predicted_ns": 4000.0, "measured_ns": 8000.0},
    {"kind": "softmax", "kernel": "softmax", "shape": "1×384", "predicted_ns": 300.0, "measured_ns": 100.0},
]


def test_errors_are_ratios_by_kind() -> None:
    errors = model.errors_of(ROWS)
    assert errors["product"] == pytest.approx({"mean": 1, "least": 0.5, "greatest": 2, "factor": 2})
    assert errors["softmax"] == pytest.approx({"mean": 3, "least": 3, "greatest": 3, "factor": 3})


def test_tables_show_every_kernel_and_the_errors() -> None:
    results = {"model": {"calibrated": True, "rows": ROWS, "errors": model.errors_of(ROWS)}}
    kernels, errors = tables.grids(results)
    assert "measured rates" in kernels.title
    assert ("384×384", "1×384", "2.00", "1.00", "2.00") in kernels.rows
    assert ("softmax", "3.00", "3.00", "3.00", "3.00") in errors.rows


def test_the_plot_is_written(tmp_path: Path) -> None:
    results = {"model": {"calibrated": True, "rows": ROWS, "errors": model.errors_of(ROWS)}}
    written = plots.write_plots(results, tmp_path)
    # matplotlib comes with the extra `bench` only.
    assert written == ([tmp_path / "model.svg"] if find_spec("matplotlib") else [])
    assert all("<svg" in path.read_text() for path in written)


def test_symbols_are_found_where_the_report_places_them() -> None:
    shapes = [(2, 3), (2, 5)]
    assert model.symbols_of({"a": "args[0], axis 0", "b": "args[0], axis 1", "c": "args[1], axis 1"}, shapes) == {
        "a": 2,
        "b": 3,
        "c": 5,
    }


def test_a_case_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model, "SAMPLE_NANOSECONDS", 10_000)
    case = next(case for case in model.CASES if case.title == "softmax")
    monkeypatch.setattr(model, "CASES", (model.Case(case.kind, case.title, case.module, case.shapes[:2]),))
    monkeypatch.setattr(tiles, "ROWS", (6, 1000))
    monkeypatch.setattr(tiles, "STREAM_BYTES", 1 << 20)
    monkeypatch.setattr(blocks, "PANELS", 2)
    monkeypatch.setattr(blocks, "BLOCK_DEPTHS", (256, 1536))
    result = model.measure_model(lambda text: None)
    cases = [row for row in result["rows"] if row["kind"] == "softmax"]
    assert [row["shape"] for row in cases] == ["1×384", "16×384"]
    found = {(row["kernel"], row["shape"]) for row in result["rows"] if row["kind"] == "register tile"}
    assert {kernel.partition("×")[0] for kernel, _ in found} == {"6"}, "1000 rows fit no machine's registers"
    assert {shape for _, shape in found} == {"panels from second level", "panels from memory"}
    measured = {
        row["kernel"].partition(" ")[0]: row["measured_ns"] for row in result["rows"] if row["kind"] == "cache block"
    }
    assert set(measured) == {f"{rows}×{depth}" for rows in blocks.BLOCK_ROWS for depth in (256, 1536)}
    assert min(measured.values()) > 0
    for row in result["rows"]:
        assert row["predicted_ns"] > 0 and row["measured_ns"] > 0


def test_the_pools_table() -> None:
    row = {"title": "idle", "work_us": 3.0, "one_us": 3.0, "two_us": 2.0, "region_us": 0.5}
    (grid,) = tables.grids({"pool": {"rows": [row]}})
    assert grid.rows == [("idle", "3.00", "3.00", "2.00", "0.50", "1.50")]
