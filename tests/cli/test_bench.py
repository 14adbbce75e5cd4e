"""`anyshape bench`: shows the rates in force, and measures them when asked."""

from pathlib import Path

import pytest

from anyshape.cli.dispatch import main
from anyshape.driver import calibrate
from anyshape.driver.machine import FILE, load_rates
from anyshape.support.machine import Rates, host_machine, processor_name

RATES = Rates(fma=101.5, l1=200.0, l2=100.0, l3=50.0, memory=10.0, simple=0.3, transcendental=4.5, region=1234.0)


def run(arguments: list[str]) -> int:
    with pytest.raises(SystemExit) as caught:
        main(["bench", *arguments])
    return int(caught.value.code or 0)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ANYSHAPE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(calibrate, "measure_rates", lambda: RATES)
    return tmp_path / "cache"


def test_without_measured_rates_the_usual_ones_are_shown(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([]) == 0
    text = capsys.readouterr().out
    assert "not measured" in text
    assert f"{host_machine().rates.fma:.1f} flop/ns" in text
    assert "--calibrate" in text
    assert not folder.exists()


def test_calibrate_measures_and_keeps_the_rates(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--calibrate"]) == 0
    text = capsys.readouterr().out
    assert str(folder / FILE) in text
    assert "101.5 flop/ns" in text
    assert load_rates(folder, processor_name()) == RATES
    assert run([]) == 0
    again = capsys.readouterr().out
    assert "101.5 flop/ns" in again and "not measured" not in again


@pytest.mark.usefixtures("folder")
def test_calibrate_needs_a_folder(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("ANYSHAPE_CACHE", "off")
    assert run(["--calibrate"]) == 1
    assert "ANYSHAPE_CACHE" in capsys.readouterr().err
