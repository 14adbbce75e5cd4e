"""Float ops of the domain `com.microsoft`, one program for calls of several sizes, against their formulas in numpy and f64."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import pytest
from onnx import helper

import anyshape
from anyshape.frontends.onnx import import_model, load_model
from anyshape.support.errors import AnyshapeError
from tests.frontends.onnx.models import FLOAT, INT32, INT64, assert_close, floats, imported, interpreted, model_of

MICROSOFT = "com.microsoft"
CALLS = ((1, 1), (2, 3), (3, 17))
WIDTH = 16


def node_model(
    op: str,
    inputs: Mapping[str, tuple[int, Sequence[int | str]]],
    constants: Mapping[str, Any],
    order: str,
    outputs: str = "y",
    domain: str = MICROSOFT,
    **attributes: Any,
) -> Any:
    """A model of one node; in `order` and `outputs`, names with blanks between them, "-" is one that is left out."""
    names, results = ([name.strip("-") for name in each.split()] for each in (order, outputs))
    node = helper.make_node(op, names, results, domain=domain, **attributes)
    asked = [name for name in results if name]
    return model_of([node], inputs, asked, constants, opset=17, domains={MICROSOFT: 1})


def check_calls(
    model: Any, calls: Sequence[Mapping[str, Any]], formula: Callable[..., Any], *, is_compiled: bool = False
) -> None:
    """One program gives what the formula gives in each call; the formula takes the inputs by name, floats as f64."""
    program = anyshape.compile(model) if is_compiled else partial(interpreted, imported(model))
    for feeds in calls:
        wide = {name: each.astype(np.float64) if each.dtype.kind == "f" else each for name, each in feeds.items()}
        wanted, got = formula(**wide), program(**feeds) if is_compiled else program(feeds)
        pairs = zip(*(each if isinstance(each, tuple | list) else (each,) for each in (got, wanted)), strict=True)
        for result, right in pairs:
            right = np.asarray(right)
            assert_close(result, right.astype(np.float32) if right.dtype.kind == "f" else right, 2e-5)


def tokens(width: int = WIDTH) -> list[dict[str, Any]]:
    return [{"x": floats(b, s, width, seed=b)} for b, s in CALLS]


# -- activations and norms -------------------------------------------------------------------------------------------


def gelu(x: Any) -> Any:
    return x * 0.5 * (1 + np.vectorize(math.erf)(x / math.sqrt(2)))


def fast_gelu(x: Any) -> Any:
    return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


C, G, H = (floats(WIDTH, seed=seed) for seed in (1, 2, 3))
X = {"x": (FLOAT, ("b", "s", WIDTH))}


@pytest.mark.parametrize(
    ("op", "order", "formula", "attributes"),
    [
        ("Gelu", "x", gelu, {}),
        ("BiasGelu", "x c", lambda x: gelu(x + C), {}),
        ("FastGelu", "x", fast_gelu, {}),
        ("FastGelu", "x c", lambda x: fast_gelu(x + C), {}),
        ("QuickGelu", "x", lambda x: x / (1 + np.exp(-0.7 * x)), {"alpha": 0.7}),
    ],
)
def test_an_activation(op: str, order: str, formula: Callable[..., Any], attributes: Any) -> None:
    constants = {"c": C} if "c" in order else {}
    check_calls(node_model(op, X, constants, order, **attributes), tokens(), formula)


def layer_norm(x: Any, scale: Any, bias: Any, epsilon: float) -> tuple[Any, Any, Any]:
    mean = x.mean(-1, keepdims=True)
    factor = 1 / np.sqrt(x.var(-1, keepdims=True) + epsilon)
    return (x - mean) * factor * scale + bias, mean, factor


def rms_norm(x: Any, scale: Any, epsilon: float) -> tuple[Any, Any]:
    factor = 1 / np.sqrt((x * x).mean(-1, keepdims=True) + epsilon)
    return x * factor * scale, factor


def test_skip_layer_normalization_with_all_its_outputs() -> None:
    def formula(x: Any, skip: Any) -> tuple[Any, ...]:
        return *layer_norm(x + skip + C, G, H, 1e-3), x + skip + C

    inputs = {**X, "skip": (FLOAT, (1, "s", WIDTH))}
    model = node_model(
        "SkipLayerNormalization", inputs, {"g": G, "h": H, "c": C}, "x skip g h c", "y mean factor sum", epsilon=1e-3
    )
    calls = [{**feeds, "skip": floats(1, feeds["x"].shape[1], WIDTH, seed=9)} for feeds in tokens()]
    check_calls(model, calls, formula, is_compiled=True)


def test_simplified_norms_with_their_deviation() -> None:
    model = node_model("SimplifiedLayerNormalization", X, {"g": G}, "x g", "y factor", domain="", epsilon=1e-3)
    check_calls(model, tokens(), lambda x: rms_norm(x, G, 1e-3))
    model = node_model(
        "SkipSimplifiedLayerNormalization", X, {"g": G, "c": C}, "x x g c", "y - factor sum", epsilon=1e-3
    )
    check_calls(model, tokens(), lambda x: (*rms_norm(2 * x + C, G, 1e-3), 2 * x + C))


@pytest.mark.parametrize("has_positions", [False, True])
def test_embed_layer_normalization(has_positions: bool) -> None:
    words, places, kinds = (floats(n, WIDTH, seed=n) for n in (10, 20, 2))
    constants = {"words": words, "places": places, "kinds": kinds, "g": G, "h": H}
    integers = (INT32, ("b", "s"))
    inputs = {"t": integers, "k": integers, "mask": integers, **({"p": integers} if has_positions else {})}
    order = "t k words places kinds g h mask" + " p" * has_positions

    def formula(t: Any, k: Any, mask: Any, p: Any = None) -> tuple[Any, ...]:
        where = np.arange(t.shape[1]) if p is None else p
        total = words.astype(float)[t] + places[where] + kinds[k]
        return layer_norm(total, G, H, 1e-12)[0], mask.sum(1).astype(np.int32), total

    calls: list[dict[str, Any]] = []
    for b, s in CALLS:
        draw = np.random.default_rng(s)
        bounds = {"t": 10, "k": 2, "mask": 2, **({"p": 20} if has_positions else {})}
        calls.append({name: draw.integers(0, bound, (b, s)).astype(np.int32) for name, bound in bounds.items()})
    check_calls(node_model("EmbedLayerNormalization", inputs, constants, order, "y count sum"), calls, formula)


# -- products ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("moved", [(0, 0, 0, 0), (1, 1, 0, 0), (0, 0, 1, 1), (1, 0, 1, 0)], ids=str)
def test_fused_matmul(moved: tuple[int, int, int, int]) -> None:
    """B batches of [s, k] · [k, 5]; the attributes say in which order the axes are stored."""
    turn_a, turn_b, batch_a, batch_b = moved

    def stored(first: Any, last: Any, turn: int, inner: int) -> tuple[Any, ...]:
        rows, columns = (last, first) if turn else (first, last)
        return (rows, "b", columns) if inner else ("b", rows, columns)

    def plain(x: Any, turn: int, inner: int) -> Any:
        x = np.moveaxis(x, 0, 1) if inner else x
        return x.swapaxes(1, 2) if turn else x

    shapes = stored("s", "k", turn_a, batch_a), stored("k", 5, turn_b, batch_b)
    inputs = {"x": (FLOAT, shapes[0]), "y": (FLOAT, shapes[1])}
    attributes = {"transA": turn_a, "transB": turn_b, "transBatchA": batch_a, "transBatchB": batch_b}
    model = node_model("FusedMatMul", inputs, {}, "x y", "z", alpha=0.25, **attributes)
    calls: list[dict[str, Any]] = []
    for b, s in CALLS:
        sizes = {"b": b, "s": s, "k": s + 2, 5: 5}
        calls.append({n: floats(*(sizes[each] for each in shape)) for n, shape in zip("xy", shapes, strict=True)})
    check_calls(model, calls, lambda x, y: 0.25 * plain(x, turn_a, batch_a) @ plain(y, turn_b, batch_b))


ACTIVATIONS: dict[str, tuple[dict[str, float], Callable[[Any], Any]]] = {
    "Relu": ({}, lambda x: np.maximum(x, 0)),
    "LeakyRelu": ({"alpha": 0.2}, lambda x: np.where(x > 0, x, 0.2 * x)),
    "HardSigmoid": ({"alpha": 0.3, "beta": 0.4}, lambda x: np.clip(0.3 * x + 0.4, 0, 1)),
    "Softplus": ({}, lambda x: np.log1p(np.exp(x))),
    "ThresholdedRelu": ({"alpha": 0.5}, lambda x: np.where(x > 0.5, x, 0)),
}


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_fused_gemm(activation: str) -> None:
    parameters, function = ACTIVATIONS[activation]
    y, c = floats(5, 8), floats(5)
    attributes = {f"activation_{name}": value for name, value in parameters.items()}
    model = node_model(
        "FusedGemm", {"x": (FLOAT, ("b", 8))}, {"y": y, "c": c}, "x y c", "z",
        transB=1, alpha=0.5, beta=2.0, activation=activation, **attributes,
    )  # fmt: skip
    check_calls(model, [{"x": floats(b, 8)} for b in (1, 4, 9)], lambda x: function(0.5 * x @ y.T + 2 * c))


@pytest.mark.parametrize(
    ("activation", "parameters", "function"),
    [("Relu", (), ACTIVATIONS["Relu"][1]), ("Clip", (-0.5, 0.7), lambda x: np.clip(x, -0.5, 0.7))],
)
def test_fused_conv(activation: str, parameters: tuple[float, ...], function: Callable[[Any], Any]) -> None:
    filters, bias = floats(6, 4, 1, 1), floats(6)
    inputs = {"x": (FLOAT, ("n", 4, "h", "w")), "z": (FLOAT, ("n", 6, "h", "w"))}
    more = {"activation_params": parameters} if parameters else {}
    model = node_model("FusedConv", inputs, {"f": filters, "c": bias}, "x f c z", activation=activation, **more)
    sizes = ((1, 5, 5), (2, 9, 16))
    calls = [{"x": floats(n, 4, h, w), "z": floats(n, 6, h, w)} for n, h, w in sizes]

    def formula(x: Any, z: Any) -> Any:
        return function(np.einsum("nchw,oc->nohw", x, filters[:, :, 0, 0]) + bias[:, None, None] + z)

    check_calls(model, calls, formula)


# -- attention ---------------------------------------------------------------------------------------------------------


def heads_of(x: Any, count: int) -> Any:
    return x.reshape(*x.shape[:2], count, -1).swapaxes(1, 2)


def attention(
    q: Any, k: Any, v: Any, bias: Any = 0.0, *, scale: float = 0.0, cap: float = 0.0, sink: Any = None
) -> Any:
    """q [b, h, s, d], k and v [b, g, t, …] -> [b, s, h·e]."""
    group = q.shape[1] // k.shape[1]
    k, v = (np.repeat(each, group, 1) for each in (k, v))
    scores = q @ k.swapaxes(2, 3) * (scale or 1 / math.sqrt(q.shape[3]))
    scores = cap * np.tanh(scores / cap) if cap else scores
    scores = scores + bias
    weights = np.exp(scores - (top := scores.max(-1, keepdims=True)))
    total = weights.sum(-1, keepdims=True) + (0 if sink is None else np.exp(sink[:, None, None] - top))
    result = weights / total @ v
    return result.swapaxes(1, 2).reshape(*q.shape[:1], q.shape[2], -1)


def positions_bias(queries: int, keys: int, window: int = 0) -> Any:
    """0 where the key is not behind the query, of which the last stands at the last key, and within the window; else −∞."""
    distance = np.arange(queries)[:, None] + keys - queries - np.arange(keys)
    return np.where((distance >= 0) & ((distance < window) if window else True), 0.0, -np.inf)


PASTS = ((1, 1, 0), (2, 5, 3), (1, 4, 6), (2, 1, 9))
"""(batch, queries, past)."""


def lengths_mask(b: int, keys: int) -> Any:
    return (np.arange(keys) < np.random.default_rng(keys).integers(1, keys + 1, (b, 1))).astype(np.int32)


def test_attention_with_past_and_mask() -> None:
    weights, bias = floats(WIDTH, 3 * WIDTH) * 0.3, floats(3 * WIDTH)
    inputs = {**X, "mask": (INT32, ("b", "t")), "past": (FLOAT, (2, "b", 4, "p", 4))}
    model = node_model(
        "Attention", inputs, {"w": weights, "c": bias}, "x w c mask past", "y present", num_heads=4, unidirectional=1
    )

    def formula(x: Any, mask: Any, past: Any) -> tuple[Any, Any]:
        q, k, v = (heads_of(each, 4) for each in np.split(x @ weights + bias, 3, axis=2))
        k, v = (np.concatenate(each, 2) for each in zip(past, (k, v), strict=True))
        added = np.where(mask[:, None, None] != 0, 0, -1e4) + positions_bias(q.shape[2], k.shape[2])
        return attention(q, k, v, added), np.stack([k, v])

    calls = [
        {"x": floats(b, s, WIDTH), "mask": 1 - lengths_mask(b, s + p)[:, ::-1] * (np.arange(s + p) < p).astype(np.int32),
         "past": floats(2, b, 4, p, 4)} for b, s, p in PASTS
    ]  # fmt: skip
    check_calls(model, calls, formula)


@pytest.mark.parametrize("mask_rank", [1, 2, 3])
def test_attention_of_heads_of_two_widths(mask_rank: int) -> None:
    weights = floats(WIDTH, 40) * 0.3
    shape = (("b",), ("b", "s"), ("b", "s", "s"))[mask_rank - 1]
    model = node_model(
        "Attention", {**X, "mask": (INT32, shape)}, {"w": weights}, "x w - mask",
        num_heads=4, qkv_hidden_sizes=[16, 16, 8], scale=0.3,
    )  # fmt: skip

    def formula(x: Any, mask: Any) -> Any:
        q, k, v = (heads_of(each, 4) for each in np.split(x @ weights, (16, 32), axis=2))
        seen = np.arange(x.shape[1]) < mask[:, None] if mask_rank == 1 else mask != 0
        seen = seen[:, None] if mask_rank == 3 else seen[:, None, None]
        return attention(q, k, v, np.where(seen, 0, -1e4), scale=0.3)

    calls: list[dict[str, Any]] = []
    for b, s in CALLS:
        lengths = lengths_mask(b, s)
        square = np.repeat(lengths[:, None], s, 1)
        calls.append(
            {"x": floats(b, s, WIDTH), "mask": (lengths.sum(1).astype(np.int32), lengths, square)[mask_rank - 1]}
        )
    check_calls(model, calls, formula)


def test_multi_head_attention_with_everything() -> None:
    bias = floats(3 * WIDTH)
    cache, row = (FLOAT, ("b", 4, "p", 4)), (FLOAT, ("b", "s", WIDTH))
    inputs = {
        "q": row, "k": row, "v": row, "mask": (INT32, ("b", "t")), "z": (FLOAT, (1, 4, "s", "t")), "pk": cache, "pv": cache,
    }  # fmt: skip
    model = node_model("MultiHeadAttention", inputs, {"c": bias}, "q k v c mask z pk pv", "y k2 v2", num_heads=4)

    def formula(q: Any, k: Any, v: Any, mask: Any, z: Any, pk: Any, pv: Any) -> tuple[Any, ...]:
        q, k, v = (heads_of(each + part, 4) for each, part in zip((q, k, v), np.split(bias, 3), strict=True))
        k, v = np.concatenate([pk, k], 2), np.concatenate([pv, v], 2)
        return attention(q, k, v, np.where(mask[:, None, None] != 0, 0, -1e4) + z), k, v

    calls = [
        {**{name: floats(b, s, WIDTH, seed=ord(name)) for name in "qkv"}, "mask": lengths_mask(b, s + p),
         "z": floats(1, 4, s, s + p), "pk": floats(b, 4, p, 4), "pv": floats(b, 4, p, 4, seed=1)} for b, s, p in PASTS
    ]  # fmt: skip
    check_calls(model, calls, formula, is_compiled=True)


def test_multi_head_attention_of_two_lengths() -> None:
    """Every query at its own position sees the keys up to it, also where there are more keys."""
    inputs = {"q": (FLOAT, ("b", "s", 16)), "k": (FLOAT, ("b", "t", 16)), "v": (FLOAT, ("b", "t", 24))}
    for causal in (0, 1):
        model = node_model("MultiHeadAttention", inputs, {}, "q k v", num_heads=4, unidirectional=causal)

        def formula(q: Any, k: Any, v: Any, causal: int = causal) -> Any:
            added = np.where(np.arange(k.shape[1]) > np.arange(q.shape[1])[:, None], -np.inf, 0) if causal else 0.0
            return attention(*(heads_of(each, 4) for each in (q, k, v)), added)

        sizes = ((1, 1, 1), (2, 5, 3), (3, 4, 17))
        calls = [{"q": floats(b, s, 16), "k": floats(b, t, 16), "v": floats(b, t, 24)} for b, s, t in sizes]
        check_calls(model, calls, formula)


def test_multi_head_attention_of_packed_heads() -> None:
    bias = floats(48)
    model = node_model("MultiHeadAttention", {"x": (FLOAT, ("b", "s", 4, 3, 4))}, {"c": bias}, "x - - c", num_heads=4)

    def formula(x: Any) -> Any:
        return attention(*((x[:, :, :, i] + bias.reshape(3, 4, 4)[i]).swapaxes(1, 2) for i in range(3)))

    check_calls(model, [{"x": floats(b, s, 4, 3, 4)} for b, s in CALLS], formula)


# -- grouped queries and rotary embeddings -------------------------------------------------------------------------------

ANGLES = np.outer(np.arange(32), 100.0 ** -(np.arange(4) / 4))
COS, SIN = np.cos(ANGLES).astype(np.float32), np.sin(ANGLES).astype(np.float32)


def rotated(x: Any, positions: Any, interleaved: bool, width: int = 8) -> Any:
    """x [b, h, s, d] as complex numbers, pairs of the first `width` elements, times e^(i·angle)."""
    part = x[..., :width]
    pairs = (
        part[..., ::2] + 1j * part[..., 1::2] if interleaved else part[..., : width // 2] + 1j * part[..., width // 2 :]
    )
    turned = pairs * np.exp(1j * ANGLES[:, : width // 2][positions])[:, None]
    both = [turned.real, turned.imag]
    joined = np.stack(both, -1).reshape(part.shape) if interleaved else np.concatenate(both, -1)
    return np.concatenate([joined, x[..., width:]], -1)


@pytest.mark.parametrize(
    "attributes",
    [
        {},
        {"scale": 0.3, "softcap": 2.0},
        {"local_window_size": 3},
        {"do_rotary": 1},
        {"do_rotary": 1, "rotary_interleaved": 1, "local_window_size": 4, "smooth_softmax": 1},
        {"sink": floats(4)},
    ],
    ids=lambda each: "-".join(each) or "plain",
)
def test_group_query_attention(attributes: dict[str, Any]) -> None:
    sink = attributes.get("sink")
    given = {name: value for name, value in attributes.items() if name != "sink"}
    cache = (FLOAT, ("b", 2, "p", 8))
    inputs = {
        "q": (FLOAT, ("b", "s", 32)), "k": (FLOAT, ("b", "s", 16)), "v": (FLOAT, ("b", "s", 16)), "pk": cache, "pv": cache,
        "lengths": (INT32, ("b",)), "total": (INT32, (1,)),
    }  # fmt: skip
    constants = {"cos": COS, "sin": SIN} if "do_rotary" in given else {"sink": sink} if sink is not None else {}
    order = "q k v pk pv lengths total " + (" ".join(constants) if sink is None else "- - - - sink")
    model = node_model("GroupQueryAttention", inputs, constants, order, "y k2 v2", num_heads=4, kv_num_heads=2, **given)
    sinks = np.zeros(4) if "smooth_softmax" in given else sink

    def formula(q: Any, k: Any, v: Any, pk: Any, pv: Any, lengths: Any, total: Any) -> tuple[Any, ...]:
        q, k, v = heads_of(q, 4), heads_of(k, 2), heads_of(v, 2)
        if "do_rotary" in given:
            where = np.arange(q.shape[2])[None] + pk.shape[2]
            q, k = (rotated(each, where, "rotary_interleaved" in given) for each in (q, k))
        k, v = np.concatenate([pk, k], 2), np.concatenate([pv, v], 2)
        bias = positions_bias(q.shape[2], k.shape[2], given.get("local_window_size", 0))
        scale, cap = given.get("scale", 0.0), given.get("softcap", 0.0)
        return attention(q, k, v, bias, scale=scale, cap=cap, sink=sinks), k, v

    calls: list[dict[str, Any]] = []
    for b, s, p in PASTS:
        rows = {"q": floats(b, s, 32), "k": floats(b, s, 16), "v": floats(b, s, 16, seed=1)}
        caches = {"pk": floats(b, 2, p, 8), "pv": floats(b, 2, p, 8, seed=1)}
        counts = {"lengths": np.full(b, s + p - 1, np.int32), "total": np.array([s + p], np.int32)}
        calls.append({**rows, **caches, **counts})
    check_calls(model, calls, formula, is_compiled=attributes in ({}, {"local_window_size": 3}))


def test_a_past_in_a_longer_buffer_is_turned_away() -> None:
    """The total length is that of the mask, which is shorter than the past and what is new."""
    cache = ("b", 2, "p", 8)
    inputs = {
        "q": (FLOAT, ("b", "s", 64)), "pk": (FLOAT, cache), "pv": (FLOAT, cache), "n": (INT32, ("b",)), "mask": (INT64, ("b", "t")),
    }  # fmt: skip
    nodes = [
        helper.make_node("Shape", ["mask"], ["length"], start=1),
        helper.make_node("Cast", ["length"], ["total"], to=INT32),
        helper.make_node(
            "GroupQueryAttention", ["q", "", "", "pk", "pv", "n", "total"], ["y"], domain=MICROSOFT, num_heads=4, kv_num_heads=2
        ),
    ]  # fmt: skip
    program = anyshape.compile(model_of(nodes, inputs, ["y"], opset=17, domains={MICROSOFT: 1}))
    feeds = {"q": floats(1, 1, 64), "pk": floats(1, 2, 6, 8), "pv": floats(1, 2, 6, 8), "n": np.array([6], np.int32)}
    program(**feeds, mask=np.ones((1, 7), np.int64))
    with pytest.raises(AnyshapeError, match=r"GroupQueryAttention"):
        program(**{**feeds, "n": np.array([3], np.int32)}, mask=np.ones((1, 7), np.int64))
    with pytest.raises(AnyshapeError, match=r"GroupQueryAttention"):
        program(**feeds, mask=np.ones((1, 4), np.int64))


@pytest.mark.parametrize("interleaved", [0, 1])
@pytest.mark.parametrize("is_whole", [False, True])
def test_rotary_embedding(interleaved: int, is_whole: bool) -> None:
    """Of rows with a position each, of which a part is turned; and of heads behind the position of the first."""
    more = {} if is_whole else {"num_heads": 4, "rotary_embedding_dim": 6}
    half = 4 if is_whole else 3
    x = (FLOAT, ("b", 4, "s", 8) if is_whole else ("b", "s", 32))
    inputs = {"x": x, "p": (INT64, (1,) if is_whole else ("b", "s"))}
    tables = {"cos": COS[:, :half], "sin": SIN[:, :half]}
    model = node_model("RotaryEmbedding", inputs, tables, "x p cos sin", interleaved=interleaved, **more)

    def formula(x: Any, p: Any) -> Any:
        if is_whole:
            return rotated(x, (p + np.arange(x.shape[2]))[None], bool(interleaved))
        turned = rotated(heads_of(x, 4), p, bool(interleaved), 6)
        return turned.swapaxes(1, 2).reshape(x.shape)

    calls: list[dict[str, Any]] = []
    for b, s in CALLS:
        shape = (b, 4, s, 8) if is_whole else (b, s, 32)
        where = np.array([7]) if is_whole else np.random.default_rng(s).integers(0, 32, (b, s))
        calls.append({"x": floats(*shape), "p": where})
    check_calls(model, calls, formula)


def test_what_has_no_lowering_is_said() -> None:
    model = node_model("FusedGemm", {"x": (FLOAT, ("b", 8))}, {"y": floats(8, 5)}, "x y", "z", activation="ScaledTanh")
    with pytest.raises(AnyshapeError, match="ScaledTanh"):
        import_model(load_model(model))
