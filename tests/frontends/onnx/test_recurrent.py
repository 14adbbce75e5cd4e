"""Recurrent layers of any length and batch against ONNX's evaluator, and against steps by numpy for what that leaves out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import helper

import anyshape
from anyshape.support.errors import FileFormatError, UnsupportedOps
from tests.frontends.onnx.models import (
    FLOAT,
    INT32,
    assert_close,
    check,
    check_compiled,
    floats,
    imported,
    interpreted,
    model_of,
)

GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
UNITS, DEPTH = 5, 3


def _model(
    op: str,
    *,
    bias: bool = True,
    lengths: bool = False,
    states: bool = False,
    peepholes: bool = False,
    steps: Any = "s",
    **attributes: Any,
) -> Any:
    d = 2 if attributes.get("direction") == "bidirectional" else 1
    gates = GATES[op]
    constants = {"w": floats(d, gates * UNITS, DEPTH), "r": floats(d, gates * UNITS, UNITS) / 2}
    inputs: dict[str, Any] = {"x": (FLOAT, ("b", steps, DEPTH) if attributes.get("layout") else (steps, "b", DEPTH))}
    state = ("b", d, UNITS) if attributes.get("layout") else (d, "b", UNITS)
    names = ["x", "w", "r", "", "", "", "", ""]
    if bias:
        names[3], constants["bias"] = "bias", floats(d, 2 * gates * UNITS)
    if lengths:
        names[4], inputs["l"] = "l", (INT32, ("b",))
    if states:
        names[5], inputs["h"] = "h", (FLOAT, state)
        if op == "LSTM":
            names[6], inputs["c"] = "c", (FLOAT, state)
    if peepholes:
        names[7], constants["p"] = "p", floats(d, 3 * UNITS)
    while not names[-1]:
        names.pop()
    outputs = ["y", "yh", "yc"][: 3 if op == "LSTM" else 2]
    return model_of([helper.make_node(op, names, outputs, hidden_size=UNITS, **attributes)], inputs, outputs, constants)


def _feeds(model: Any, steps: int, batch: int) -> dict[str, Any]:
    sizes = {"s": steps, "b": batch}
    feeds: dict[str, Any] = {}
    for value in model.graph.input:
        shape = [dim.dim_value or sizes[dim.dim_param] for dim in value.type.tensor_type.shape.dim]
        if value.name == "l":
            feeds["l"] = np.random.default_rng(steps).integers(0, steps + 1, batch).astype(np.int32)
        else:
            feeds[value.name] = floats(*shape)
    return feeds


CALLS = ((1, 1), (4, 2), (7, 3))


@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize(("op", "attributes"), [("LSTM", {}), ("GRU", {"linear_before_reset": 1}), ("RNN", {})])
def test_layers(op: str, attributes: dict[str, Any], direction: str) -> None:
    model = _model(op, states=True, direction=direction, **attributes)
    run = check_compiled if direction == "bidirectional" else check
    run(model, *(_feeds(model, *call) for call in CALLS), tolerance=1e-4)


def test_no_batch() -> None:
    model = _model("LSTM", states=True)
    program, feeds = anyshape.compile(model), _feeds(model, 3, 0)
    assert [each.shape for each in program(**feeds)] == [(3, 1, 0, UNITS), (1, 0, UNITS), (1, 0, UNITS)]


@pytest.mark.parametrize(("op", "attributes"), [("LSTM", {}), ("GRU", {"linear_before_reset": 1}), ("RNN", {})])
def test_batch_first_and_without_bias(op: str, attributes: dict[str, Any]) -> None:
    model = _model(op, bias=False, layout=1, direction="bidirectional", states=True, **attributes)
    check(model, *(_feeds(model, *call) for call in CALLS), tolerance=1e-4)


def _sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


def _by_numpy(model: Any, feeds: dict[str, Any], op: str, d: int, *, before_reset: bool = False, couples: bool = False, clip: Any = np.inf,
              activation: Any = np.tanh) -> Any:  # fmt: skip
    """Each sequence by itself, as long as it is."""
    arrays = {
        each.name: np.frombuffer(each.raw_data, np.float32).reshape(each.dims).astype(np.float64)
        for each in model.graph.initializer
    }
    steps, batch, _ = feeds["x"].shape
    lengths = feeds.get("l", np.full(batch, steps))
    y = np.zeros((steps, d, batch, UNITS))
    last = np.zeros((2 if op == "LSTM" else 1, d, batch, UNITS))
    for direction in range(d):
        backwards = model.graph.node[0].attribute and (
            direction == 1 or any(a.s == b"reverse" for a in model.graph.node[0].attribute)
        )
        w, r, bias = (arrays[name][direction] for name in ("w", "r", "bias"))
        p = arrays["p"][direction] if "p" in arrays else np.zeros(3 * UNITS)
        own, recurrent = np.split(bias, 2)
        for row in range(batch):
            h = feeds["h"][direction, row].astype(np.float64) if "h" in feeds else np.zeros(UNITS)
            c = feeds["c"][direction, row].astype(np.float64) if "c" in feeds else np.zeros(UNITS)
            times = range(lengths[row])
            for t in reversed(times) if backwards else times:
                x = w @ feeds["x"][t, row] + own
                if op == "LSTM":
                    i, o, f, g = np.split(x + r @ h + recurrent, 4)
                    pi, po, pf = np.split(p, 3)
                    i = _sigmoid(np.clip(i + pi * c, -clip, clip))
                    f = 1 - i if couples else _sigmoid(np.clip(f + pf * c, -clip, clip))
                    c = f * c + i * np.tanh(np.clip(g, -clip, clip))
                    h = _sigmoid(np.clip(o + po * c, -clip, clip)) * np.tanh(c)
                elif op == "GRU":
                    (rz, rr, rh), (bz, br, bh), (xz, xr, xh) = np.split(r, 3), np.split(recurrent, 3), np.split(x, 3)
                    z, reset = (_sigmoid(np.clip(each, -clip, clip)) for each in (xz + rz @ h + bz, xr + rr @ h + br))
                    own_n = reset * (rh @ h + bh) if before_reset else rh @ (reset * h) + bh
                    n = np.tanh(np.clip(xh + own_n, -clip, clip))
                    h = (1 - z) * n + z * h
                else:
                    h = activation(x + r @ h + recurrent)
                y[t, direction, row] = h
            last[:, direction, row] = [h, c][: len(last)]
    return [each.astype(np.float32) for each in (y, *last)]


@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize(("op", "attributes"), [("LSTM", {}), ("GRU", {"linear_before_reset": 1}), ("RNN", {})])
def test_sequences_of_their_own_length(op: str, attributes: dict[str, Any], direction: str) -> None:
    model = _model(op, lengths=True, states=True, direction=direction, **attributes)
    graph = imported(model)
    for call in CALLS:
        feeds = _feeds(model, *call)
        wanted = _by_numpy(model, feeds, op, 2 if direction == "bidirectional" else 1, before_reset=True)
        for got, each in zip(interpreted(graph, feeds), wanted, strict=True):
            assert_close(got, each, 1e-4)


@pytest.mark.parametrize("lengths", [False, True])
@pytest.mark.parametrize("direction", ["forward", "bidirectional"])
@pytest.mark.parametrize("couples", [False, True])
def test_peepholes_clips_and_coupled_gates(direction: str, lengths: bool, couples: bool) -> None:
    """Of any number of steps, by the reference and by the kernel."""
    model = _model(
        "LSTM", lengths=lengths, peepholes=True, states=True, clip=0.7, input_forget=int(couples), direction=direction
    )
    graph, program = imported(model), anyshape.compile(model)
    d = 2 if direction == "bidirectional" else 1
    for call in CALLS:
        feeds = _feeds(model, *call)
        wanted = _by_numpy(model, feeds, "LSTM", d, couples=couples, clip=np.float32(0.7))
        for results in (interpreted(graph, feeds), program(**feeds)):
            for got, each in zip(results, wanted, strict=True):
                assert_close(got, each, 1e-4)


@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
def test_a_reset_gate_before_the_product(direction: str) -> None:
    model = _model("GRU", states=True, direction=direction)
    check_compiled(model, *(_feeds(model, *call) for call in CALLS), tolerance=1e-4)


@pytest.mark.parametrize("clip", [0.3, None])
def test_a_reset_gate_before_the_product_in_sequences_of_their_own_length(clip: float | None) -> None:
    others = {} if clip is None else {"clip": clip}
    model = _model("GRU", states=True, lengths=True, direction="bidirectional", **others)
    program = anyshape.compile(model)
    for call in CALLS:
        feeds = _feeds(model, *call)
        wanted = _by_numpy(model, feeds, "GRU", 2, clip=np.inf if clip is None else np.float32(clip))
        for got, each in zip(program(**feeds), wanted, strict=True):
            assert_close(got, each, 1e-4)


ACTIVATIONS: dict[str, Any] = {
    "Relu": lambda x: np.maximum(x, 0), "Affine": lambda x: 0.5 * x + 0.1, "LeakyRelu": lambda x: np.where(x < 0, 0.5 * x, x),
    "ThresholdedRelu": lambda x: np.where(x > 0.5, x, 0), "ScaledTanh": lambda x: 0.5 * np.tanh(0.1 * x),
    "HardSigmoid": lambda x: np.clip(0.5 * x + 0.1, 0, 1), "Elu": lambda x: np.where(x < 0, 0.5 * np.expm1(x), x),
    "Softsign": lambda x: x / (1 + np.abs(x)), "Softplus": lambda x: np.log1p(np.exp(x)), "Sigmoid": _sigmoid,
}  # fmt: skip


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activations(name: str) -> None:
    model = _model("RNN", activations=[name], activation_alpha=[0.5], activation_beta=[0.1])
    graph, program = imported(model), anyshape.compile(model)
    for call in CALLS:
        feeds = _feeds(model, *call)
        wanted = _by_numpy(model, feeds, "RNN", 1, activation=ACTIVATIONS[name])
        for results in (interpreted(graph, feeds), program(**feeds)):
            for got, each in zip(results, wanted, strict=True):
                assert_close(got, each, 1e-4)


@pytest.mark.parametrize("lengths", [False, True])
def test_directions_with_functions_of_their_own(lengths: bool) -> None:
    """A layer for each: what one of them alone gives."""
    model = _model("RNN", lengths=lengths, states=True, direction="bidirectional", activations=["Softsign", "Tanh"])
    program = anyshape.compile(model)
    feeds = _feeds(model, 6, 3)
    each = [_by_numpy(model, feeds, "RNN", 2, activation=ACTIVATIONS["Softsign"]), _by_numpy(model, feeds, "RNN", 2)]
    for number, got in enumerate(program(**feeds)):
        axis = (1, 0)[number]
        wanted = [np.take(each[direction][number], direction, axis) for direction in range(2)]
        assert_close(got, np.stack(wanted, axis), 1e-4)


def test_both_directions_are_one_product_and_gates_in_another_order_cost_nothing() -> None:
    """Also where weights are larger than what is folded otherwise: first states, a product, the steps, directions in front."""
    d, units, depth = 2, 40, 130
    constants = {
        "w": floats(d, 4 * units, depth), "r": floats(d, 4 * units, units), "bias": floats(d, 8 * units),
    }  # fmt: skip
    node = helper.make_node("LSTM", ["x", "w", "r", "bias"], ["y"], hidden_size=units, direction="bidirectional")
    program = anyshape.compile(model_of([node], {"x": (FLOAT, ("s", "b", depth))}, ["y"], constants))
    assert program.report().launches == 4


def test_what_is_refused() -> None:
    with pytest.raises(UnsupportedOps, match="'Sine'"):
        imported(_model("RNN", activations=["Sine"]))
    with pytest.raises(FileFormatError, match="direction"):
        imported(_model("RNN", direction="sideways"))
    with pytest.raises(FileFormatError, match="activations"):
        imported(_model("LSTM", activations=["Tanh"]))
    with pytest.raises(FileFormatError, match="clip"):
        imported(_model("LSTM", clip=-1.0))
