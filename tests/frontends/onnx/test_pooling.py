"""Pools at any size: one program for each set of attributes, against ONNX's evaluator, or windows by numpy where that is wrong."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from onnx import helper

import anyshape
from anyshape.support.errors import FileFormatError
from tests.frontends.onnx.models import (
    FLOAT,
    UINT8,
    assert_close,
    check,
    check_compiled,
    floats,
    imported,
    interpreted,
    model_of,
)

PLACES = ((1, 5, 6), (2, 7, 8), (1, 9, 5))
IMAGE = (FLOAT, ("n", 2, "h", "k"))


def _model(op: str, outputs: int = 1, code: int = FLOAT, **attributes: Any) -> Any:
    names = ["y", "i"][:outputs]
    return model_of([helper.make_node(op, ["x"], names, **attributes)], {"x": (code, ("n", 2, "h", "k"))}, names)


def _windows(x: Any, window: Any, strides: Any, pads: Any, dilations: Any, ceil_mode: bool, fill: float) -> Any:
    """[n, c, y, x, places], and whether a place lies in x, and in what is padded."""
    sizes, starts = [], []
    for axis in range(2):
        room = x.shape[2 + axis] + pads[axis] + pads[2 + axis] - (window[axis] - 1) * dilations[axis] - 1
        count = (-(-room // strides[axis]) if ceil_mode else room // strides[axis]) + 1
        if ceil_mode and (count - 1) * strides[axis] >= x.shape[2 + axis] + pads[axis]:
            count -= 1
        sizes.append(count)
        starts.append([y * strides[axis] - pads[axis] for y in range(count)])
    places = list(product(*map(range, window)))
    values = np.full((*x.shape[:2], *sizes, len(places)), fill, x.dtype)
    inside = np.zeros((*sizes, len(places)), bool)
    padded = np.zeros_like(inside)
    for (i, y), (j, z) in product(enumerate(starts[0]), enumerate(starts[1])):
        for number, (k, m) in enumerate(places):
            at = y + k * dilations[0], z + m * dilations[1]
            inside[i, j, number] = all(0 <= at[a] < x.shape[2 + a] for a in range(2))
            padded[i, j, number] = all(-pads[a] <= at[a] < x.shape[2 + a] + pads[2 + a] for a in range(2))
            if inside[i, j, number]:
                values[:, :, i, j, number] = x[:, :, at[0], at[1]]
    return values, inside, padded


POOLS: dict[str, dict[str, Any]] = {
    "plain": {"kernel_shape": [2, 2], "strides": [2, 2]},
    "resnet": {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]},
    "ceil": {"kernel_shape": [3, 3], "strides": [2, 2], "ceil_mode": 1},
    "ceil_padded": {"kernel_shape": [3, 2], "strides": [2, 3], "pads": [1, 0, 1, 1], "ceil_mode": 1},
    "dilated": {"kernel_shape": [2, 2], "dilations": [2, 2], "pads": [1, 1, 1, 1]},
    "asymmetric": {"kernel_shape": [3, 3], "pads": [2, 0, 1, 1], "strides": [1, 2]},
    "wide": {"kernel_shape": [5, 7], "pads": [2, 3, 2, 3]},
    "beyond": {"kernel_shape": [1, 2], "pads": [0, 2, 0, 1]},
}


def _complete(attributes: dict[str, Any]) -> tuple[Any, ...]:
    return (
        attributes["kernel_shape"], attributes.get("strides", [1, 1]), attributes.get("pads", [0] * 4), attributes.get("dilations", [1, 1]),
        bool(attributes.get("ceil_mode", 0)),
    )  # fmt: skip


@pytest.mark.parametrize("name", POOLS)
def test_max_pool(name: str) -> None:
    attributes = POOLS[name]
    graph = imported(_model("MaxPool", 2, **attributes))
    for n, h, k in PLACES:
        x = floats(n, 2, h, k)
        values, inside, _ = _windows(x, *_complete(attributes), -np.inf)
        got, index = interpreted(graph, {"x": x})
        wanted = values.max(-1)
        assert_close(np.where(np.isinf(wanted), 0, got), np.where(np.isinf(wanted), 0, wanted))
        some = np.broadcast_to(inside.any(-1), wanted.shape)
        np.testing.assert_array_equal(x.ravel()[index[some]], wanted[some])


@pytest.mark.parametrize("include", [0, 1])
@pytest.mark.parametrize("name", POOLS)
def test_average_pool(name: str, include: int) -> None:
    attributes = POOLS[name]
    graph = imported(_model("AveragePool", count_include_pad=include, **attributes))
    for n, h, k in PLACES:
        x = floats(n, 2, h, k)
        values, inside, padded = _windows(x, *_complete(attributes), 0.0)
        with np.errstate(all="ignore"):
            wanted = (values.sum(-1, dtype=np.float64) / (padded if include else inside).sum(-1)).astype(np.float32)
        assert_close(interpreted(graph, {"x": x})[0], wanted)


@pytest.mark.parametrize("name", POOLS)
@pytest.mark.parametrize("p", [1, 2, 3])
def test_lp_pool(name: str, p: int) -> None:
    attributes = POOLS[name]
    x = floats(2, 2, 7, 8)
    values, _, _ = _windows(x, *_complete(attributes), 0.0)
    wanted = ((np.abs(values.astype(np.float64)) ** p).sum(-1) ** (1 / p)).astype(np.float32)
    assert_close(interpreted(_model("LpPool", p=p, **attributes), {"x": x})[0], wanted)


@pytest.mark.parametrize("auto_pad", ["SAME_UPPER", "SAME_LOWER", "VALID"])
@pytest.mark.parametrize("op", ["MaxPool", "AveragePool"])
def test_automatic_padding(op: str, auto_pad: str) -> None:
    model = _model(op, kernel_shape=[3, 2], auto_pad=auto_pad)
    check(model, *({"x": floats(n, 2, h, k)} for n, h, k in PLACES))


def test_automatic_padding_with_strides() -> None:
    """⌈n / 2⌉ windows of three, an odd place more behind."""
    graph = imported(_model("MaxPool", 2, kernel_shape=[3, 3], strides=[2, 2], auto_pad="SAME_UPPER"))
    for n, h, k in PLACES:
        x = floats(n, 2, h, k)
        totals = [max((-(-size // 2) - 1) * 2 + 3 - size, 0) for size in (h, k)]
        pads = [total // 2 for total in totals] + [total - total // 2 for total in totals]
        wanted = _windows(x, [3, 3], [2, 2], pads, [1, 1], False, -np.inf)[0].max(-1)
        got, index = interpreted(graph, {"x": x})
        assert_close(got, wanted)
        np.testing.assert_array_equal(x.ravel()[index], wanted)


def test_compiled_pools() -> None:
    for op, attributes in (("MaxPool", POOLS["resnet"]), ("AveragePool", {"kernel_shape": [2, 2], "strides": [2, 2]})):
        check_compiled(_model(op, **attributes), *({"x": floats(n, 2, h, k)} for n, h, k in PLACES))


def test_nothing_is_pooled() -> None:
    """Without a batch, or without places where nothing is added to them, there are no windows."""
    for op in ("MaxPool", "AveragePool"):
        program = anyshape.compile(_model(op, **POOLS["plain"]))
        for n, h, k in ((0, 4, 4), (2, 0, 3), (2, 1, 5)):
            assert program(floats(n, 2, h, k)).shape == (n, 2, h // 2, k // 2)


def test_integers_and_column_major_places() -> None:
    x = np.random.default_rng(0).integers(0, 255, (1, 2, 5, 4), np.uint8)
    model = _model("MaxPool", 2, UINT8, kernel_shape=[2, 2], strides=[2, 2], storage_order=1)
    check(model, {"x": x})


@pytest.mark.parametrize("op", ["GlobalAveragePool", "GlobalMaxPool"])
def test_global_pools(op: str) -> None:
    check_compiled(_model(op), *({"x": floats(n, 2, h, k)} for n, h, k in ((1, 1, 1), (3, 4, 5))))
    assert interpreted(_model(op), {"x": floats(0, 2, 3, 3)})[0].shape == (0, 2, 1, 1)


def test_global_norm() -> None:
    x = floats(2, 2, 3, 4)
    wanted = (np.abs(x.astype(np.float64)) ** 3).sum((2, 3), keepdims=True) ** (1 / 3)
    assert_close(interpreted(_model("GlobalLpPool", p=3), {"x": x})[0], wanted.astype(np.float32))


@pytest.mark.parametrize("given", [False, True])
def test_max_unpool(given: bool) -> None:
    pool = helper.make_node("MaxPool", ["x"], ["p", "i"], kernel_shape=[2, 2], strides=[2, 2])
    names = ["p", "i", *(["s"] if given else [])]
    node = helper.make_node("MaxUnpool", names, ["y"], kernel_shape=[2, 2], strides=[2, 2])
    constants = {"s": np.array([1, 1, 7, 8])} if given else {}
    channels = 1 if given else 2
    model = model_of([pool, node], {"x": (FLOAT, ("n", channels, "h", "k"))}, ["y"], constants)
    check_compiled(model, {"x": floats(1, channels, 6, 6)})


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ({}, "windows"),
        ({"kernel_shape": [2]}, "kernel_shape"),
        ({"kernel_shape": [2, 2], "strides": [0, 1]}, "strides"),
    ],
)
def test_what_breaks_the_rules(attributes: dict[str, Any], message: str) -> None:
    with pytest.raises(FileFormatError, match=message):
        imported(_model("MaxPool", **attributes))
