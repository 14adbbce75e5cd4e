"""`python -m bench.llm_accuracy`: its arithmetic, and all of it on a tiny model with random weights."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from anyshape.support.options import Options
from bench import llm_accuracy
from bench.llm_accuracy import Choice, Difference, Logits, first_difference, greedy, measure_accuracy, nmse
from bench.random_llama import Sizes, write


class Counting:
    """Likes the number of tokens that it has read best, of ten."""

    def __init__(self) -> None:
        self.length = 0

    def restart(self) -> None:
        self.length = 0

    def read(self, tokens: Sequence[int]) -> Logits:
        rows = self.length + 1 + np.arange(len(tokens))
        self.length += len(tokens)
        return np.eye(10)[rows % 10]


def test_nmse_is_relative_to_the_reference() -> None:
    assert nmse(np.array([[1.0, 2.0]]), np.array([[1.0, 3.0]])) == pytest.approx(0.1)


def test_greedy_choice_reads_what_it_chose() -> None:
    assert greedy(Counting(), [7, 7, 7], 4).tokens == (3, 4, 5, 6)


def test_the_first_difference_has_its_gap() -> None:
    rows = tuple(np.array([0.0, 1.0, 0.75]) for _ in range(3))
    expected = Choice((1, 1, 1), rows)
    assert first_difference(expected, expected) is None
    assert first_difference(Choice((1, 2, 0), rows), expected) == Difference(1, 1, 2, 0.25)


def test_a_tiny_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(llm_accuracy, "is_installed", lambda: False)
    path = tmp_path / "tiny.gguf"
    write(path, Sizes(width=64, layers=2, heads=4, kv_heads=2, hidden=96, vocabulary=400, context=1024))
    lengths, results = measure_accuracy(path, 1, 3, Options())
    assert len(lengths) == 10 == len(set(lengths))
    exact, fast = results
    assert (exact.engine, fast.engine) == ("anyshape int16", "anyshape int8")
    assert max(exact.nmse_prompt, exact.nmse_steps) <= 1e-6 < fast.nmse_prompt < 1e-2
    assert all(each is None or each.gap < 1e-2 for each in exact.differences)
