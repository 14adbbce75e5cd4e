"""Options: what each variable sets, and that every wrong value is refused with a text that helps."""

import os
import re
from pathlib import Path
from typing import Any

import pytest

import anyshape
from anyshape.support.errors import OptionError
from anyshape.support.options import LOG_NAMES, VARIABLES, Options


def test_defaults_depend_on_nothing_outside() -> None:
    assert Options() == Options(threads=None, log=(), dump=None, precision="strict", verify=False, cache=None)


def test_every_variable_sets_its_option() -> None:
    environ = {
        "ANYSHAPE_THREADS": "3",
        "ANYSHAPE_LOG": "fusion, guards",
        "ANYSHAPE_DUMP": "/tmp/dumps",
        "ANYSHAPE_CACHE": "/tmp/cache",
        "ANYSHAPE_VERIFY": "1",
        "ANYSHAPE_PACK_WEIGHTS": "0",
        "ANYSHAPE_PACK_BUDGET_BYTES": "1000",
        "ANYSHAPE_STRICT": "1",
        "ANYSHAPE_ACTIVATIONS": "int8",
    }
    assert set(environ) == set(VARIABLES)
    assert Options.from_environment(environ) == Options(
        threads=3,
        log=("fusion", "guards"),
        dump=Path("/tmp/dumps"),
        cache=Path("/tmp/cache"),
        verify=True,
        strict=True,
        activations="int8",
        pack_weights=False,
        pack_budget_bytes=1000,
    )


def test_empty_variables_count_as_unset() -> None:
    assert Options.from_environment(dict.fromkeys(VARIABLES, " ")) == Options()


def test_the_process_environment_is_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("ANYSHAPE_THREADS", "7")
    assert Options.from_environment().threads == 7
    assert "ANYSHAPE_THREADS" in os.environ


@pytest.mark.parametrize(
    ("environ", "cache"),
    [
        ({"XDG_CACHE_HOME": "/x", "HOME": "/h"}, Path("/x/anyshape")),
        ({"XDG_CACHE_HOME": "relative", "HOME": "/h"}, Path("/h/.cache/anyshape")),
        ({"HOME": "/h"}, Path("/h/.cache/anyshape")),
        ({"HOME": "/h", "ANYSHAPE_CACHE": "off"}, None),
        ({"HOME": "/h", "ANYSHAPE_CACHE": "/c"}, Path("/c")),
        ({}, None),
    ],
)
def test_cache_directory(environ: dict[str, str], cache: Path | None) -> None:
    assert Options.from_environment(environ).cache == cache


@pytest.mark.parametrize(
    ("variable", "value", "allowed"),
    [
        ("ANYSHAPE_THREADS", "0", "from 1 to"),
        ("ANYSHAPE_THREADS", "-2", "from 1 to"),
        ("ANYSHAPE_THREADS", "two", "from 1 to"),
        ("ANYSHAPE_THREADS", "²", "from 1 to"),
        ("ANYSHAPE_THREADS", "99999", "from 1 to"),
        ("ANYSHAPE_LOG", "fuson", LOG_NAMES["fusion"]),
        ("ANYSHAPE_LOG", "fusion,all", LOG_NAMES["asm"]),
        ("ANYSHAPE_VERIFY", "maybe", "true"),
        ("ANYSHAPE_PACK_WEIGHTS", "some", "true"),
        ("ANYSHAPE_PACK_BUDGET_BYTES", "1GB", "from 0 on"),
        ("ANYSHAPE_PACK_BUDGET_BYTES", "-1", "from 0 on"),
    ],
)
def test_a_wrong_variable_names_itself_what_it_got_and_what_is_allowed(variable: str, value: str, allowed: str) -> None:
    with pytest.raises(OptionError) as caught:
        Options.from_environment({variable: value})
    text = str(caught.value)
    assert variable in text
    assert value.rpartition(",")[2] in text
    assert allowed in text


def test_an_unknown_log_name_lists_them_all() -> None:
    with pytest.raises(OptionError) as caught:
        Options(log=("fuson",))
    for name, meaning in LOG_NAMES.items():
        assert re.search(rf"\b{name}\s+{re.escape(meaning)}", str(caught.value))


def test_a_misspelt_variable_is_an_error_and_test_settings_are_not() -> None:
    with pytest.raises(OptionError, match="ANYSHAPE_THREAD"):
        Options.from_environment({"ANYSHAPE_THREAD": "1"})
    assert Options.from_environment({"ANYSHAPE_TEST_UPDATE": "1"}) == Options()


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("threads", 0),
        ("threads", True),
        ("threads", 1.0),
        ("threads", "1"),
        ("log", "fusion"),
        ("log", ["fusion"]),
        ("dump", "dir"),
        ("cache", "dir"),
        ("precision", "fast"),
        ("verify", 1),
        ("pack_weights", 0),
        ("pack_budget_bytes", -1),
        ("pack_budget_bytes", 1.5),
    ],
)
def test_a_wrong_field_names_itself_and_what_it_got(field: str, value: Any) -> None:
    with pytest.raises(OptionError) as caught:
        Options(**{field: value})
    assert caught.value.where == f"Options.{field}"
    assert repr(value) in str(caught.value)
    assert caught.value.expected


def test_options_are_frozen_and_hashable() -> None:
    options = anyshape.Options(log=("mlir",))
    assert hash(options) == hash(Options(log=("mlir",)))
    with pytest.raises(AttributeError):
        options.threads = 2  # type: ignore[misc]
