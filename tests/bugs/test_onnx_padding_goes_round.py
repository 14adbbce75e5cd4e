"""ONNX's Pad cuts before it adds, and in the mode `wrap` goes round an axis as often as needed, as numpy and ONNX Runtime do."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import helper

from anyshape.support.errors import GuardError
from tests.frontends.onnx.models import FLOAT, assert_close, floats, imported, interpreted, model_of

MODES = ("wrap", "edge", "reflect")


def padded(x: Any, pads: list[int], mode: str) -> Any:
    """x without what negative amounts cut, then padded by numpy."""
    half = len(pads) // 2
    pairs = list(zip(pads[:half], pads[half:], strict=True))
    kept = x[tuple(slice(max(-low, 0), size - max(-high, 0)) for (low, high), size in zip(pairs, x.shape, strict=True))]
    return np.pad(kept, [(max(low, 0), max(high, 0)) for low, high in pairs], mode=mode)  # pyright: ignore


def graph_of(pads: list[int], mode: str) -> Any:
    node = helper.make_node("Pad", ["x", "pads"], ["y"], mode=mode)
    return imported(model_of([node], {"x": (FLOAT, ("n", "m"))}, ["y"], {"pads": np.array(pads)}))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    "pads", [[-2, 1, 1, -1], [1, -1, -2, 1], [-1, -1, 2, 2], [2, 2, -2, -1], [-1, 0, -1, 0]], ids=str
)
def test_what_is_cut_is_not_repeated(pads: list[int], mode: str) -> None:
    graph = graph_of(pads, mode)
    for sizes in ((5, 5), (6, 4), (9, 33)):
        x = floats(*sizes)
        (y,) = interpreted(graph, {"x": x})
        assert_close(y, padded(x, pads, mode))


@pytest.mark.parametrize("pads", [[7, 0, 5, 0], [2, 9, 0, 1], [-1, 3, 4, 3]], ids=str)
def test_going_round_more_than_once(pads: list[int]) -> None:
    graph = graph_of(pads, "wrap")
    for sizes in ((2, 1), (3, 2), (4, 33)):
        x = floats(*sizes)
        (y,) = interpreted(graph, {"x": x})
        assert_close(y, padded(x, pads, "wrap"))


@pytest.mark.parametrize("mode", MODES)
def test_nothing_is_left_to_repeat(mode: str) -> None:
    graph = graph_of([-2, 0, 1, 0], mode)
    with pytest.raises(GuardError):
        interpreted(graph, {"x": floats(2, 3)})
