"""Random numbers: distributions, seeds, and streams; and losses of classes against ONNX's evaluator."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import helper

import anyshape
from anyshape.support.errors import FileFormatError
from tests.frontends.onnx.models import DOUBLE, FLOAT, INT64, check, check_compiled, floats, imported, model_of

MATRIX = {"x": (FLOAT, ("m", "n"))}


def _program(op: str, **attributes: Any) -> Any:
    return anyshape.compile(model_of([helper.make_node(op, ["x"], ["y"], **attributes)], MATRIX, ["y"]))


def test_moments_of_normal_and_uniform_numbers() -> None:
    x = np.zeros((200, 300), np.float32)
    normal = _program("RandomNormalLike", mean=2.0, scale=3.0)(x)
    assert normal.shape == x.shape
    assert abs(normal.mean() - 2) < 0.05
    assert abs(normal.std() - 3) < 0.05
    uniform = _program("RandomUniformLike", low=-1.0, high=3.0)(x)
    assert uniform.min() >= -1
    assert uniform.max() < 3
    assert abs(uniform.mean() - 1) < 0.03
    assert _program("Bernoulli")(np.full_like(x, 0.3)).mean() == pytest.approx(0.3, abs=0.01)


def test_each_call_draws_others_unless_numpy_is_seeded() -> None:
    program, x = _program("RandomNormalLike"), np.zeros((4, 5), np.float32)
    first, second = program(x), program(x)
    assert (first != second).all()
    np.random.seed(3)
    third = program(x)
    np.random.seed(3)
    np.testing.assert_array_equal(program(x), third)


def test_a_seed_in_the_model_makes_calls_repeat() -> None:
    program, x = _program("RandomUniformLike", seed=5.0), np.zeros((4, 5), np.float32)
    np.testing.assert_array_equal(program(x), program(x))
    assert (_program("RandomUniformLike", seed=6.0)(x) != program(x)).any()


def test_ops_of_a_program_draw_from_streams_of_their_own() -> None:
    nodes = [helper.make_node("RandomNormal", [], [name], shape=[3, 4], dtype=DOUBLE, seed=1.0) for name in ("y", "z")]
    y, z = anyshape.compile(model_of(nodes, {}, ["y", "z"]))()
    assert y.dtype == np.float64
    assert (y != z).all()


@pytest.mark.parametrize("ratio", [0.0, 0.3, 1.0])
def test_dropout_in_training(ratio: float) -> None:
    """An element is 0 with that probability, else divided by that of being kept, as the mask says."""
    node = helper.make_node("Dropout", ["x", "ratio", "training"], ["y", "mask"], seed=7)
    inputs = {**MATRIX, "ratio": (FLOAT, ())}
    program = anyshape.compile(model_of([node], inputs, ["y", "mask"], {"training": np.bool_(True)}))
    x = floats(200, 300)
    y, mask = program(x, np.float32(ratio))
    assert mask.dtype == np.bool_
    assert mask.mean() == pytest.approx(1 - ratio, abs=0.01)
    np.testing.assert_allclose(y[mask], x[mask] / np.float32(1 - ratio), rtol=1e-6)
    assert not y[~mask].any()
    np.testing.assert_array_equal(program(x, np.float32(ratio))[0], y)


def test_classes_in_proportion() -> None:
    node = helper.make_node("Multinomial", ["x"], ["y"], sample_size=20000)
    weights = np.array([[1, 2, 0, 5]], np.float32)
    with np.errstate(divide="ignore"):
        drawn = anyshape.compile(model_of([node], MATRIX, ["y"]))(np.log(weights))
    assert drawn.dtype == np.int32
    np.testing.assert_allclose(np.bincount(drawn[0], minlength=4) / 20000, weights[0] / 8, atol=0.02)


def test_numbers_that_are_no_floats() -> None:
    with pytest.raises(FileFormatError, match="random"):
        imported(model_of([helper.make_node("RandomNormal", [], ["y"], shape=[2], dtype=INT64)], {}, ["y"]))


@pytest.mark.parametrize("reduction", ["none", "sum", "mean"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("ignored", [None, 2, -3])
@pytest.mark.parametrize("op", ["NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss"])
def test_losses(op: str, ignored: int | None, weighted: bool, reduction: str) -> None:
    attributes: dict[str, Any] = (
        {"reduction": reduction} if ignored is None else {"reduction": reduction, "ignore_index": ignored}
    )
    outputs = ["y", "p"] if op.startswith("S") else ["y"]
    node = helper.make_node(op, ["x", "t", *(["w"] if weighted else [])], outputs, **attributes)
    constants = {"w": np.float32([0.5, 1, 2, 0.25, 3])} if weighted else {}
    model = model_of([node], {"x": (FLOAT, ("n", 5, "d")), "t": (INT64, ("n", "d"))}, outputs, constants)
    calls = []
    for n, d in ((3, 4), (1, 1), (2, 7)):
        target = np.random.default_rng(n).integers(0, 5, (n, d))
        target[0, 0] = 1
        if ignored is not None and d > 1:
            target[0, 1] = ignored
        calls.append({"x": floats(n, 5, d), "t": target})
    (check_compiled if weighted and ignored == -3 else check)(model, *calls, tolerance=1e-4)
