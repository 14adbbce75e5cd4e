"""A few cases of the ONNX backend suite, drawn by the commit: none may be worse than `not_right.txt` says."""

from __future__ import annotations

import pytest

pytest.importorskip("onnx", reason="onnx is not installed: pip install 'anyshape[onnx]'")

import anyshape
from tests.drawn import drawn
from tests.onnx_suite import ratchet
from tests.onnx_suite.cases import MODES, all_cases
from tests.onnx_suite.ratchet import NotRight
from tests.onnx_suite.running import run

CASES = 40
"""Cases that are run in each mode."""


def sliced(seed: str | None = None) -> list[ratchet.Key]:
    """Cases that are right, of both modes."""
    listed = ratchet.read()
    right = [(name, mode) for name in all_cases() for mode in MODES if (name, mode) not in listed]
    return drawn(len(MODES) * CASES, right, seed)


def test_no_case_is_worse(tmp_path_factory: pytest.TempPathFactory) -> None:
    options = anyshape.Options(threads=1, cache=tmp_path_factory.mktemp("kernels"))
    cases, worse = all_cases(), dict[ratchet.Key, object]()
    for name, mode in sliced():
        outcome = run(cases[name], mode, options)
        if not outcome.right:
            worse[name, mode] = outcome.reasons
    assert not worse


def test_slices_differ() -> None:
    assert sliced("one commit") != sliced("another")
    assert sliced("one commit") == sliced("one commit")


def test_the_list_may_only_shrink() -> None:
    before = {("a", "fixed"): NotRight("refused", "x"), ("b", "fixed"): NotRight("wrong", "y")}
    now = {
        ("a", "fixed"): NotRight("wrong", "z"),
        ("b", "fixed"): NotRight("refused", "y"),
        ("c", "fixed"): NotRight("refused", ""),
    }
    assert ratchet.worse(before, now).keys() == {("a", "fixed"), ("c", "fixed")}
    assert ratchet.merged(before, {}, [("a", "fixed")]) == {("b", "fixed"): before["b", "fixed"]}
    assert not ratchet.worse(before, before)
