"""The host with the rates that were measured on it: kept in the cache's folder, by the processor's name.

The file is JSON: `{"format": 1, "processors": {name: {rate: number, …}}}`. A file that is damaged, of another user or of another
format is not used, with a warning: rates only steer schedules, so that nothing but speed is lost.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Any, cast

from anyshape.driver.private_folder import PrivateFolder
from anyshape.support.errors import AnyshapeError
from anyshape.support.machine import Machine, Rates, host_machine, processor_name

FILE = "rates.json"
_FORMAT = 1
_LEAST, _GREATEST = 1e-3, 1e6
"""Between which every rate of a real machine lies, in its unit."""


class RatesWarning(UserWarning):
    """Measured rates could not be used; schedules are made for the usual ones."""


def calibrated_machine(folder: Path | None) -> Machine:
    """`host_machine()`, with the rates that `store_rates` left in that folder for this processor, if any."""
    machine = host_machine()
    rates = None if folder is None else load_rates(folder, processor_name())
    return machine if rates is None else replace(machine, measured=rates)


def load_rates(folder: Path, processor: str) -> Rates | None:
    """The rates kept for a processor; None when there are none, and with a `RatesWarning` when they are not to be trusted."""
    try:
        rates = _read(PrivateFolder(folder)).get(processor)
        return None if rates is None else _decode(rates)
    except (OSError, ValueError) as error:
        warnings.warn(
            f"measured rates in {folder / FILE} are not used: {error}; `anyshape bench --calibrate` measures them again",
            RatesWarning,
            stacklevel=3,
        )
        return None


def store_rates(folder: Path, processor: str, rates: Rates) -> Path:
    """Keep the rates of a processor beside those of others; returns the file.

    Raises:
        AnyshapeError: the folder cannot be written, or is not its owner's alone.
    """
    files = PrivateFolder(folder)
    try:
        known = _read(files)
    except (OSError, ValueError):
        # What cannot be read is of no use to anyone.
        known = {}
    data = {"format": _FORMAT, "processors": {**known, processor: asdict(rates)}}
    try:
        files.write(FILE, (json.dumps(data, indent=1, sort_keys=True) + "\n").encode())
    except (OSError, ValueError) as error:
        raise AnyshapeError(
            "the measured rates cannot be kept",
            where=folder / FILE,
            got=error,
            expected="a folder that this user alone can read and write",
            remedy="set ANYSHAPE_CACHE to another folder",
        ) from error
    return folder / FILE


def _read(files: PrivateFolder) -> Mapping[str, Any]:
    if not files.exists():
        return {}
    files.check()
    data = files.read(FILE)
    if data is None:
        return {}
    content: Any = json.loads(data)
    if not isinstance(content, dict):
        raise ValueError("it holds no object")
    content = cast("dict[str, Any]", content)
    if content.get("format") != _FORMAT or not isinstance(content.get("processors"), dict):
        raise ValueError(f"expected format {_FORMAT}, got {content.get('format')!r}")
    return content["processors"]


def _decode(numbers: object) -> Rates:
    names = [field.name for field in fields(Rates)]
    if not isinstance(numbers, dict) or set(cast("dict[str, Any]", numbers)) != set(names):
        raise ValueError(f"expected the numbers {', '.join(names)}")
    values = cast("dict[str, Any]", numbers)
    for name, value in values.items():
        if isinstance(value, bool) or not isinstance(value, int | float) or not _LEAST <= value <= _GREATEST:
            raise ValueError(f"{name} is a number from {_LEAST} to {_GREATEST}, got {value!r:.40}")
    return Rates(**{name: float(values[name]) for name in names})
