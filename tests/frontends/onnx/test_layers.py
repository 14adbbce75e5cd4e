"""Products, normalisation, functions, and whole small models, compiled."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import helper

from anyshape.frontends.onnx import importer
from anyshape.frontends.onnx.lowering import find_lowering
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

SHAPES = [
    (("b", "s", 4), (4, 3)), (("b", 4), (4,)), ((4,), (4, 3)), (("b", "s", 4), ("b", 4, 3)), (("b", 1, "s", 4), (5, 4, 2)),
    ((4,), ("b", 4, 3)), (("b", "s", 4), (1, 4, 3)), ((4,), (4,)), (("b", "s", "k"), ("b", "k", "s")),
]  # fmt: skip


@pytest.mark.parametrize("shapes", SHAPES, ids=str)
def test_matmul(shapes: tuple[tuple[Any, ...], tuple[Any, ...]]) -> None:
    model = model_of(
        [helper.make_node("MatMul", ["x", "y"], ["z"])], {"x": (FLOAT, shapes[0]), "y": (FLOAT, shapes[1])}, ["z"]
    )
    for b, s, k in ((1, 1, 1), (2, 3, 4), (0, 2, 3), (3, 7, 0)):
        sizes = {"b": b, "s": s, "k": k}
        x, y = (floats(*(sizes.get(each, each) for each in shape), seed=seed) for seed, shape in enumerate(shapes))
        check(model, {"x": x, "y": y})


@pytest.mark.parametrize("transposed", [(0, 0), (1, 0), (0, 1), (1, 1)], ids=str)
@pytest.mark.parametrize("added", [None, (3,), (1, 3), ("m", 1), ()], ids=str)
def test_gemm(transposed: tuple[int, int], added: tuple[Any, ...] | None) -> None:
    left = (4, "m") if transposed[0] else ("m", 4)
    right = (3, 4) if transposed[1] else (4, 3)
    inputs = {"a": (FLOAT, left), "b": (FLOAT, right)}
    if added is not None:
        inputs["c"] = (FLOAT, added)
    node = helper.make_node(
        "Gemm", list(inputs), ["y"], transA=transposed[0], transB=transposed[1], alpha=0.5, beta=2.0
    )
    model = model_of([node], inputs, ["y"])
    for m in SIZES:
        feeds = {
            name: floats(*(m if each == "m" else each for each in shape), seed=i)
            for i, (name, (_, shape)) in enumerate(inputs.items())
        }
        check(model, feeds)


@pytest.mark.parametrize("op", ["Softmax", "LogSoftmax", "Hardmax"])
def test_softmax_by_version(op: str) -> None:
    """Before version 13 all axes from `axis` on are one."""
    x = floats(2, 3, 4)
    for opset in (7, 11, 13):
        model = model_of([helper.make_node(op, ["x"], ["y"], axis=1)], {"x": (FLOAT, ("b", 3, 4))}, ["y"], opset=opset)
        (got,) = interpreted(model, {"x": x})
        rows = x.reshape(2, 12) if opset < 13 else x
        weights = np.exp(rows) / np.exp(rows).sum(1, keepdims=True)
        largest = rows == rows.max(1, keepdims=True)
        wanted = {"Softmax": weights, "LogSoftmax": np.log(weights), "Hardmax": largest}[op]
        np.testing.assert_allclose(got, wanted.reshape(x.shape), rtol=1e-5, atol=1e-6)


def normal(x: Any, axes: tuple[int, ...], epsilon: float = 1e-5) -> Any:
    mean, variance = x.mean(axes, keepdims=True), x.var(axes, keepdims=True)
    return (x - mean) / np.sqrt(variance + epsilon)


def test_layer_normalization() -> None:
    node = helper.make_node("LayerNormalization", ["x", "w", "b"], ["y", "mean", "factor"], axis=-1, epsilon=1e-3)
    model = model_of(
        [node], {"x": (FLOAT, ("n", "m", 8))}, ["y", "mean", "factor"], {"w": floats(8), "b": floats(8, seed=1)}
    )
    check(model, *({"x": floats(n, m, 8)} for n, m in ((1, 1), (3, 2), (0, 4))))


def test_instance_and_group_normalization() -> None:
    x = floats(2, 4, 5, 3)
    w, c = floats(4), floats(4, seed=1)
    column = (slice(None), None, None)
    instance = model_of(
        [helper.make_node("InstanceNormalization", ["x", "w", "c"], ["y"])],
        {"x": (FLOAT, ("n", 4, "h", "w0"))},
        ["y"],
        {"w": w, "c": c},
    )
    wanted = normal(x, (2, 3)) * w[column] + c[column]
    np.testing.assert_allclose(interpreted(instance, {"x": x})[0], wanted, rtol=1e-4, atol=1e-5)
    group = model_of(
        [helper.make_node("GroupNormalization", ["x", "w", "c"], ["y"], num_groups=2)],
        {"x": (FLOAT, ("n", 4, "h", "w0"))}, ["y"], {"w": w, "c": c}, opset=21,
    )  # fmt: skip
    wanted = normal(x.reshape(2, 2, -1), (2,)).reshape(x.shape) * w[column] + c[column]
    np.testing.assert_allclose(interpreted(group, {"x": x})[0], wanted, rtol=1e-4, atol=1e-5)


def test_batch_normalization() -> None:
    names = ["w", "c", "mean", "var"]
    constants = {name: np.abs(floats(4, seed=i)) + np.float32(0.1) for i, name in enumerate(names)}
    node = helper.make_node("BatchNormalization", ["x", *names], ["y"], epsilon=1e-3)
    for opset in (7, 9, 14, 15):
        model = model_of([node], {"x": (FLOAT, ("n", 4, "l"))}, ["y"], constants, opset=opset)
        graph = imported(model)
        for n, length in ((1, 1), (2, 7), (0, 3)):
            x = floats(n, 4, length)
            w, c, mean, var = (constants[name][:, None] for name in names)
            np.testing.assert_allclose(
                interpreted(graph, {"x": x})[0], (x - mean) / np.sqrt(var + 1e-3) * w + c, rtol=1e-4, atol=1e-5
            )


@pytest.mark.parametrize(("p", "axis"), [(1, -1), (2, 1), (2, -1)], ids=str)
def test_lp_normalization(p: int, axis: int) -> None:
    """ONNX's evaluator forgets the absolute value for p = 1."""
    model = model_of(
        [helper.make_node("LpNormalization", ["x"], ["y"], p=p, axis=axis)], {"x": (FLOAT, ("n", 5))}, ["y"]
    )
    for n in (0, 1, 3):
        x = floats(n, 5)
        wanted = x / (np.abs(x) ** p).sum(axis, keepdims=True) ** (1 / p)
        np.testing.assert_allclose(interpreted(model, {"x": x})[0], wanted, rtol=1e-5)
    zeros = np.zeros((2, 5), np.float32)
    np.testing.assert_array_equal(interpreted(model, {"x": zeros})[0], zeros)


@pytest.mark.parametrize(("size", "bias"), [(3, 1.0), (4, 2.0), (1, 1.0)], ids=str)
def test_lrn(size: int, bias: float) -> None:
    """ONNX's evaluator goes over as many channels as there are images."""
    node = helper.make_node("LRN", ["x"], ["y"], size=size, bias=bias, alpha=0.5)
    model = model_of([node], {"x": (FLOAT, ("n", 5, 2, "w"))}, ["y"])
    for n, w in ((1, 1), (2, 3), (0, 2)):
        x = floats(n, 5, 2, w)
        ranges = [(max(0, c - (size - 1) // 2), c + size // 2 + 1) for c in range(5)]
        total = np.stack([(x[:, low:high] ** 2).sum(1) for low, high in ranges], 1)
        np.testing.assert_allclose(interpreted(model, {"x": x})[0], x / (bias + 0.5 / size * total) ** 0.75, rtol=1e-5)


FUNCTIONS: dict[str, dict[str, Any]] = {
    "HardSwish": {}, "LayerNormalization": {"axis": -1}, "Softmax": {"axis": 1}, "LogSoftmax": {}, "Celu": {"alpha": 0.5}, "Softplus": {},
    "ReduceLogSumExp": {"keepdims": 0}, "MeanVarianceNormalization": {"axes": [1]}, "Gelu": {"approximate": "tanh"}, "ThresholdedRelu": {},
}  # fmt: skip


@pytest.mark.parametrize("op", FUNCTIONS)
def test_a_function_of_the_standard(op: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """An op without a lowering of its own is what the standard says of it, with its attributes' defaults."""

    def without_this_one(domain: str, name: str, version: int) -> Any:
        return None if name == op else find_lowering(domain, name, version)

    monkeypatch.setattr(importer, "find_lowering", without_this_one)
    inputs = ["x", "w"] if op == "LayerNormalization" else ["x"]
    outputs = ["y", "mean", "factor"] if op == "LayerNormalization" else ["y"]
    node = helper.make_node(op, inputs, outputs, **FUNCTIONS[op])
    model = model_of([node], {"x": (FLOAT, ("n", "m", 4))}, outputs, {"w": floats(4)} if "w" in inputs else {})
    check(model, *({"x": floats(n, m, 4)} for n, m in ((1, 1), (3, 2))))


def test_a_function_of_the_model() -> None:
    """Attributes are passed on, or have their defaults."""
    body = [
        helper.make_node("LeakyRelu", ["a"], ["h"]),
        helper.make_node("Add", ["h", "a"], ["b"]),
    ]
    reference = body[0].attribute.add()
    reference.name, reference.ref_attr_name, reference.type = "alpha", "slope", 1
    function = helper.make_function("own", "Leaky", ["a"], ["b"], body, [helper.make_opsetid("", 18)], ["slope"])
    nodes = [
        helper.make_node("Leaky", ["x"], ["h"], domain="own", slope=0.5),
        helper.make_node("Leaky", ["h"], ["y"], domain="own", slope=0.25),
    ]
    model = model_of(nodes, {"x": (FLOAT, ("n",))}, ["y"], functions=[function], domains={"own": 1}, opset=18)
    for n in SIZES:
        x = floats(n)
        h = np.where(x > 0, 2 * x, 1.5 * x)
        np.testing.assert_allclose(interpreted(model, {"x": x})[0], np.where(h > 0, 2 * h, 1.25 * h), rtol=1e-6)


def encoder() -> Any:
    """One block of a transformer over token numbers, with its shapes computed as exporters compute them."""

    def row(name: str) -> list[Any]:
        return [
            helper.make_node("Gather", ["shape", name], [f"{name}_size"], axis=0),
            helper.make_node("Unsqueeze", [f"{name}_size", "axis0"], [f"{name}_row"]),
        ]

    def heads(name: str, perm: list[int]) -> list[Any]:
        return [
            helper.make_node("MatMul", ["x", f"w_{name}"], [f"{name}_flat"]),
            helper.make_node("Reshape", [f"{name}_flat", "apart"], [f"{name}_split"]),
            helper.make_node("Transpose", [f"{name}_split"], [f"{name}_heads"], perm=perm),
        ]

    nodes = [
        helper.make_node("Gather", ["table", "tokens"], ["x"]),
        helper.make_node("Shape", ["tokens"], ["shape"]),
        *row("first"), *row("second"),
        helper.make_node("Concat", ["first_row", "second_row", "heads_by_width"], ["apart"], axis=0),
        helper.make_node("Concat", ["first_row", "second_row", "minus"], ["flat"], axis=0),
        *heads("q", [0, 2, 1, 3]), *heads("k", [0, 2, 3, 1]), *heads("v", [0, 2, 1, 3]),
        helper.make_node("MatMul", ["q_heads", "k_heads"], ["scores"]),
        helper.make_node("Div", ["scores", "root"], ["scaled"]),
        helper.make_node("Softmax", ["scaled"], ["weights"], axis=-1),
        helper.make_node("MatMul", ["weights", "v_heads"], ["mixed"]),
        helper.make_node("Transpose", ["mixed"], ["together"], perm=[0, 2, 1, 3]),
        helper.make_node("Reshape", ["together", "flat"], ["merged"]),
        helper.make_node("Add", ["merged", "x"], ["sum"]),
        helper.make_node("LayerNormalization", ["sum", "norm", "bias"], ["y"]),
    ]  # fmt: skip
    constants = {
        "table": floats(10, 8), "first": np.array(0), "second": np.array(1), "axis0": np.array([0]), "minus": np.array([-1]),
        "heads_by_width": np.array([2, 4]), "root": np.float32(2), "norm": floats(8), "bias": floats(8, seed=2),
        **{f"w_{name}": floats(8, 8, seed=i) for i, name in enumerate("qkv")},
    }  # fmt: skip
    return model_of(nodes, {"tokens": (INT64, ("batch", "length"))}, ["y"], constants)


def test_an_encoder_compiled() -> None:
    model = encoder()
    assert [str(size) for size in imported(model).inputs[0].sizes] == ["batch", "length"]
    random = np.random.default_rng(0)
    calls = [(1, 1), (2, 3), (3, 1), (1, 7), (2, 33)]
    check_compiled(model, *({"tokens": random.integers(0, 10, size)} for size in calls), tolerance=1e-4)
