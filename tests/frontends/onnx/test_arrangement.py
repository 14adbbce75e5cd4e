"""Einsum, elements by position, and arithmetic in floats on the way from shape to shape."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import helper

from anyshape.dialects.dhlo.graph import only_function
from anyshape.frontends.onnx.ratios import Ratio
from anyshape.support.errors import FileFormatError
from anyshape.symbolic import parse_size
from tests.frontends.onnx.models import (
    FLOAT,
    INT64,
    SIZES,
    check,
    check_compiled,
    floats,
    imported,
    interpreted,
    model_of,
)

EQUATIONS: dict[str, list[tuple[Any, ...]]] = {
    "ij,jk->ik": [("m", 3), (3, "n")],
    "bhqd,bhkd->bhqk": [("m", 2, "n", 3), ("m", 2, "n", 3)],
    "ij,ij->i": [("m", 3), ("m", 3)],
    "ij,ij->ij": [("m", 3), (1, 3)],
    "i,j": [("m",), ("n",)],
    "ij->ji": [("m", "n")],
    "ij": [("m", "n")],
    "ij->": [("m", "n")],
    "ii->i": [(3, 3)],
    "iij->j": [(3, 3, "m")],
    "...ij,...jk->...ik": [("m", 2, 3), (3, 4)],
    "...ii ->...i": [("m", 3, 3)],
    "b...,b->...": [("m", 3, "n"), ("m",)],
    "ij,jk,kl->il": [("m", 3), (3, 4), (4, "n")],
    "ba,cb->ca": [(3, "m"), (4, 3)],
}


@pytest.mark.parametrize("equation", EQUATIONS)
def test_einsum(equation: str) -> None:
    shapes = EQUATIONS[equation]
    inputs = {f"x{i}": (FLOAT, shape) for i, shape in enumerate(shapes)}
    model = model_of([helper.make_node("Einsum", list(inputs), ["y"], equation=equation)], inputs, ["y"])
    graph = imported(model)
    for m, n in ((1, 1), (2, 3), (0, 2), (5, 1)):
        feeds = {
            name: floats(*({"m": m, "n": n}.get(each, each) for each in shape), seed=i)
            for i, (name, (_, shape)) in enumerate(inputs.items())
        }
        wanted = np.einsum(equation.replace(" ", ""), *feeds.values())
        np.testing.assert_allclose(interpreted(graph, feeds)[0], wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("equation", ["ij->k", "i,j->ij", "ijk->i", "i1->i", "ij->ii", "...i...->i"])
def test_equations_that_are_wrong(equation: str) -> None:
    model = model_of([helper.make_node("Einsum", ["x"], ["y"], equation=equation)], {"x": (FLOAT, ("m", 3))}, ["y"])
    with pytest.raises(FileFormatError, match="Einsum"):
        imported(model)


@pytest.mark.parametrize("upper", [0, 1])
@pytest.mark.parametrize("k", [None, -1, 2])
def test_trilu(upper: int, k: int | None) -> None:
    constants = {} if k is None else {"k": np.array(k)}
    model = model_of(
        [helper.make_node("Trilu", ["x", *constants], ["y"], upper=upper)],
        {"x": (FLOAT, (2, "m", "n"))},
        ["y"],
        constants,
    )
    check(model, *({"x": floats(2, m, n)} for m, n in ((1, 1), (3, 5), (4, 2), (0, 3))))


def test_eye_like() -> None:
    model = model_of([helper.make_node("EyeLike", ["x"], ["y"], k=1, dtype=INT64)], {"x": (FLOAT, ("m", "n"))}, ["y"])
    check(model, *({"x": floats(m, n)} for m, n in ((1, 1), (3, 5), (4, 2), (0, 3))))


@pytest.mark.parametrize("axis", [-1, 0, 1])
def test_one_hot(axis: int) -> None:
    node = helper.make_node("OneHot", ["i", "depth", "values"], ["y"], axis=axis)
    model = model_of(
        [node], {"i": (INT64, ("m", 2))}, ["y"], {"depth": np.array([4]), "values": np.array([1.0, 5.0], np.float32)}
    )
    for m in (0, 1, 3):
        i = np.random.default_rng(m).integers(-4, 4, (m, 2))
        wanted = np.where(np.arange(4) == (i % 4)[..., None], 5.0, 1.0)
        np.testing.assert_array_equal(interpreted(model, {"i": i})[0], np.moveaxis(wanted, -1, axis))
    outside = np.array([[4, -5]])
    assert (interpreted(model, {"i": outside})[0] == 1.0).all()


@pytest.mark.parametrize("mode", ["DCR", "CRD"])
def test_blocks_of_pixels(mode: str) -> None:
    nodes = [
        helper.make_node("DepthToSpace", ["x"], ["p"], blocksize=2, mode=mode),
        helper.make_node("SpaceToDepth", ["p"], ["q"], blocksize=2),
    ]
    model = model_of(nodes, {"x": (FLOAT, ("n", 8, "h", "w"))}, ["p", "q"])
    graph = imported(model)
    for n, h, w in ((1, 1, 1), (2, 3, 4)):
        x = floats(n, 8, h, w)
        p, q = interpreted(graph, {"x": x})
        wanted = x.reshape((n, 2, 2, 2, h, w)).transpose((0, 3, 4, 1, 5, 2) if mode == "DCR" else (0, 1, 4, 2, 5, 3))
        np.testing.assert_array_equal(p, wanted.reshape(n, 2, 2 * h, 2 * w))
        assert q.shape == x.shape


def test_halves_of_sizes_in_floats() -> None:
    """floor(size · 0.5) as exporters compute it leaves a reshape and no arithmetic in the graph."""
    nodes = [
        helper.make_node("Shape", ["x"], ["shape"]),
        helper.make_node("Cast", ["shape"], ["f"], to=FLOAT),
        helper.make_node("Mul", ["f", "half"], ["halved"]),
        helper.make_node("Floor", ["halved"], ["floored"]),
        helper.make_node("Cast", ["floored"], ["sizes"], to=INT64),
        helper.make_node("Div", ["f", "two"], ["again"]),
        helper.make_node("Ceil", ["again"], ["ceiled"]),
        helper.make_node("Cast", ["ceiled"], ["up"], to=INT64),
        helper.make_node("ConstantOfShape", ["sizes"], ["y"]),
        helper.make_node("ConstantOfShape", ["up"], ["z"]),
        helper.make_node("Add", ["halved", "two"], ["number"]),
    ]
    constants = {"half": np.array([0.5, 1.0], np.float32), "two": np.float32(2)}
    model = model_of(nodes, {"x": (FLOAT, ("n", "m"))}, ["y", "z", "number"], constants)
    kinds = {op.name for op in only_function(imported(model).module).body.block.ops}
    assert "dhlo.floor" not in kinds
    check_compiled(model, *({"x": floats(n, m)} for n in SIZES[:5] for m in (1, 2)))


def test_ratios() -> None:
    size = parse_size("n")
    half = Ratio.of(0.5)
    assert half is not None
    assert (Ratio(size, 1) * half + half).floor() == (size + 1) // 2
    assert (Ratio(size, 1) - half).ceil() == -((1 - 2 * size) // 2)
    assert Ratio.of(0.1) is None
    assert Ratio.of(float("inf")) is None
    assert half.divided(Ratio(size, 1)) is None
