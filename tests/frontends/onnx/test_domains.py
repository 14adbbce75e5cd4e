"""Ops of ONNX's other domains: steps of optimisers, and features."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from onnx import helper

from anyshape.driver import onnx_backend
from anyshape.frontends.onnx.features import CLASSICAL
from anyshape.frontends.onnx.training import TRAINING
from tests.frontends.onnx.models import FLOAT, INT64, check, floats, imported, interpreted, model_of

OPTIMISERS: dict[str, tuple[str, int, dict[str, Any]]] = {
    "momentum": ("Momentum", 1, {"alpha": 0.9, "beta": 0.7, "mode": "standard", "norm_coefficient": 0.01}),
    "nesterov": ("Momentum", 1, {"alpha": 0.9, "beta": 0.7, "mode": "nesterov", "norm_coefficient": 0.0}),
    "adagrad": ("Adagrad", 1, {"decay_factor": 0.1, "epsilon": 1e-5, "norm_coefficient": 0.01}),
    "adam": ("Adam", 2, {"alpha": 0.8, "beta": 0.95, "epsilon": 1e-5, "norm_coefficient": 0.01}),
}


@pytest.mark.parametrize("name", OPTIMISERS)
def test_step_of_an_optimiser(name: str) -> None:
    """Two tensors of their own sizes, in the first step and in a later one."""
    op, moments, attributes = OPTIMISERS[name]
    groups = [f"{kind}{i}" for kind in ("x", "g", *"vh"[:moments]) for i in range(2)]
    results = [f"new_{each}" for each in groups if not each.startswith("g")]
    inputs = {"r": (FLOAT, ()), "t": (INT64, ())} | {each: (FLOAT, (f"n{each[1]}",)) for each in groups}
    node = helper.make_node(op, ["r", "t", *groups], results, domain=TRAINING, **attributes)
    model = model_of([node], inputs, results, domains={TRAINING: 1})
    for t in (0, 3):
        feeds = {each: np.abs(floats(3 + int(each[1]), seed=i)) for i, each in enumerate(groups)}
        check(model, {"r": np.array(0.1, np.float32), "t": np.array(t), **feeds})


def test_columns_by_index() -> None:
    node = helper.make_node("ArrayFeatureExtractor", ["x", "i"], ["y"], domain=CLASSICAL)
    inputs = {"x": (FLOAT, ("a", "b")), "i": (INT64, ("k",))}
    model = model_of([node], inputs, ["y"], domains={CLASSICAL: 3})
    check(model, {"x": floats(3, 4), "i": np.array([3, 0, 3])}, {"x": floats(1, 2), "i": np.array([1])})


def test_binarizer() -> None:
    node = helper.make_node("Binarizer", ["x"], ["y"], domain=CLASSICAL, threshold=0.5)
    model = model_of([node], {"x": (FLOAT, ("a", "b"))}, ["y"], domains={CLASSICAL: 3})
    check(model, {"x": np.array([[0.4, 0.5, 0.6]], np.float32)})


@pytest.mark.parametrize("mode", ["TF", "IDF", "TFIDF"])
@pytest.mark.parametrize("skipped", [0, 2])
def test_counts_of_ngrams(mode: str, skipped: int) -> None:
    """Of sequences that are shorter than n-grams too, whose integers may be 0."""
    grams: list[tuple[int, ...]] = [(0,), (2,), (0, 0), (2, 3), (1, 0, 2)]
    weights = [0.5, 2.0, 3.0, 1.5, 4.0]
    places = [4, 0, 1, 5, 3]
    node = helper.make_node(
        "TfIdfVectorizer", ["x"], ["y"], mode=mode, min_gram_length=1, max_gram_length=3, max_skip_count=skipped,
        ngram_counts=[0, 2, 6], ngram_indexes=places, pool_int64s=[each for gram in grams for each in gram], weights=weights,
    )  # fmt: skip
    graph = imported(model_of([node], {"x": (INT64, ("n", "c"))}, ["y"]))
    for length in (0, 1, 2, 3, 12):
        x = np.random.default_rng(length).integers(0, 4, (3, length))
        wanted = np.zeros((3, 6), np.float32)
        for row, (number, gram) in product(range(3), enumerate(grams)):
            count = 0
            for step in range(1, (skipped if len(gram) > 1 else 0) + 2):
                spans = range(length - step * (len(gram) - 1))
                count += sum(tuple(x[row, at : at + step * len(gram) : step][: len(gram)]) == gram for at in spans)
            count = min(count, 1) if mode == "IDF" else count
            wanted[row, places[number]] = count * (1 if mode == "TF" else weights[number])
        np.testing.assert_array_equal(interpreted(graph, {"x": x})[0], wanted)


def test_slopes_of_channels_before_version_7() -> None:
    model = model_of(
        [helper.make_node("PRelu", ["x", "slope"], ["y"])],
        {"x": (FLOAT, (2, 3, 4))},
        ["y"],
        {"slope": np.arange(1, 4, dtype=np.float32)},
        opset=6,
    )
    x, slope = floats(2, 3, 4), np.arange(1, 4, dtype=np.float32)
    (y,) = onnx_backend.prepare(model).run([x])
    np.testing.assert_allclose(y, np.maximum(x, 0) + np.minimum(x, 0) * slope[:, None], rtol=1e-6)
