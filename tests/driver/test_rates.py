"""Measured rates: kept, found again, refused when damaged or not one's own; measured once, quickly."""

import json
import os
import warnings
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from anyshape.codegen.llvm import host_target
from anyshape.driver.cache import key_of
from anyshape.driver.calibrate import measure_rates
from anyshape.driver.machine import FILE, RatesWarning, calibrated_machine, load_rates, store_rates
from anyshape.support.errors import AnyshapeError
from anyshape.support.machine import Rates, host_machine, processor_name

RATES = Rates(fma=100.5, l1=200.0, l2=100.0, l3=50.0, memory=10.0, simple=0.3, transcendental=4.5, region=1234.0)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "cache"


def rewrite(path: Path, change: Callable[[dict[str, Any]], object]) -> None:
    data = json.loads(path.read_text())
    change(data)
    path.write_text(json.dumps(data))


def test_rates_are_found_again_for_their_processor_only(folder: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert load_rates(folder, "one") is None
        store_rates(folder, "one", RATES)
        store_rates(folder, "other", replace(RATES, fma=1.0))
        assert load_rates(folder, "one") == RATES
        assert load_rates(folder, "other") == replace(RATES, fma=1.0)
        assert load_rates(folder, "third") is None
    assert folder.stat().st_mode & 0o777 == 0o700
    assert (folder / FILE).stat().st_mode & 0o077 == 0
    assert [path.name for path in folder.iterdir()] == [FILE]


def test_the_machine_has_the_rates_that_were_measured_on_it(folder: Path) -> None:
    assert calibrated_machine(None) == host_machine() == calibrated_machine(folder)
    store_rates(folder, processor_name(), RATES)
    machine = calibrated_machine(folder)
    assert machine.rates == RATES
    assert replace(machine, measured=None) == host_machine()
    assert key_of("program", host_target(), machine, "g") != key_of("program", host_target(), host_machine(), "g")


@pytest.mark.parametrize(
    "damage",
    [
        lambda path: path.write_bytes(b""),
        lambda path: path.write_bytes(b"\xff\xfe{"),
        lambda path: path.write_text("[1, 2]"),
        lambda path: rewrite(path, lambda data: data.update(format=2)),
        lambda path: rewrite(path, lambda data: data.update(processors=[])),
        lambda path: rewrite(path, lambda data: data["processors"].update(one=7)),
        lambda path: rewrite(path, lambda data: data["processors"]["one"].pop("fma")),
        lambda path: rewrite(path, lambda data: data["processors"]["one"].update(more=1.0)),
        lambda path: rewrite(path, lambda data: data["processors"]["one"].update(fma="fast")),
        lambda path: rewrite(path, lambda data: data["processors"]["one"].update(fma=True)),
        lambda path: rewrite(path, lambda data: data["processors"]["one"].update(fma=0)),
        lambda path: rewrite(path, lambda data: data["processors"]["one"].update(fma=-1.0)),
        lambda path: rewrite(path, lambda data: data["processors"]["one"].update(fma=float("nan"))),
        lambda path: rewrite(path, lambda data: data["processors"]["one"].update(fma=float("inf"))),
        lambda path: rewrite(path, lambda data: data["processors"]["one"].update(fma=10**400)),
    ],
)
def test_a_damaged_file_is_not_used_and_is_replaced(folder: Path, damage: Callable[[Path], object]) -> None:
    damage(store_rates(folder, "one", RATES))
    with pytest.warns(RatesWarning, match="not used"):
        assert load_rates(folder, "one") is None
    store_rates(folder, "one", RATES)
    assert load_rates(folder, "one") == RATES


def test_links_and_open_folders_are_refused(folder: Path, tmp_path: Path) -> None:
    path = store_rates(folder, "one", RATES)
    elsewhere = tmp_path / "elsewhere"
    path.rename(elsewhere)
    path.symlink_to(elsewhere)
    with pytest.warns(RatesWarning):
        assert load_rates(folder, "one") is None
    path.unlink()
    elsewhere.rename(path)
    folder.chmod(0o755)
    with pytest.warns(RatesWarning, match="0700"):
        assert load_rates(folder, "one") is None
    with pytest.raises(AnyshapeError, match="0700"):
        store_rates(folder, "one", RATES)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_a_file_of_another_user_is_refused(folder: Path) -> None:
    os.chown(store_rates(folder, "one", RATES), 12345, 12345)
    with pytest.warns(RatesWarning, match="not a regular file of this user"):
        assert load_rates(folder, "one") is None


def test_rates_are_measured() -> None:
    rates = measure_rates(memory_bytes=16 << 20, rounds=1)
    assert all(0 < value < 1e6 for value in asdict(rates).values())
    # An exponential is some fifteen additions and multiplications.
    assert rates.transcendental > rates.simple
