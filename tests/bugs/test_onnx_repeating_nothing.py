"""Long repetitions beside one of none have no elements, and take no memory while a file is read."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import helper

from tests.frontends.onnx.models import expected, imported, interpreted, model_of


def tiled(counts: list[int]) -> Any:
    node = helper.make_node("Tile", ["x", "counts"], ["y"])
    return model_of([node], {}, ["y"], {"x": np.arange(6.0).reshape(2, 3), "counts": np.array(counts)})


@pytest.mark.parametrize("counts", [[2**31 + 1, 0], [0, 2**31 + 1], [2**40, 0]], ids=str)
def test_many_times_and_never(counts: list[int]) -> None:
    assert interpreted(imported(tiled(counts)), {})[0].size == 0


@pytest.mark.parametrize("counts", [[2, 3], [1, 1], [0, 2], [2, 0]], ids=str)
def test_few_times(counts: list[int]) -> None:
    model = tiled(counts)
    np.testing.assert_array_equal(interpreted(imported(model), {})[0], expected(model, {})[0])
