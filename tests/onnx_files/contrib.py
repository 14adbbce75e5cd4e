"""Ops of the domain `com.microsoft`, one node each at several sizes, beside ONNX Runtime, whose ops they are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import onnxruntime
from onnx import ModelProto, helper, numpy_helper

import anyshape

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]
Call: TypeAlias = Mapping[str, Array]

MICROSOFT = "com.microsoft"
OPSET = 17


_state: Any = onnxruntime.capi.onnxruntime_pybind11_state
_REFUSALS: Any = (_state.NotImplemented, _state.Fail, _state.RuntimeException)


class NotImplementedByPeer(Exception):
    """ONNX Runtime has no kernel for the case."""


@dataclass(frozen=True)
class ContribCase:
    """One node and its calls.

    Attributes:
        op: of the domain `com.microsoft`.
        variant: what is particular about the case.
        inputs: the node's, in order; an empty name is an input that is left out.
        calls: the inputs that the caller gives. Axes that differ between calls are symbolic, each with a symbol of its own.
        constants: the other inputs.
        outputs: how many the node has.
        relative, absolute: how far from ONNX Runtime results may be; the absolute one for a tensor whose largest element is 1.
        codes: how far integers may be: by one where both round a number that lies between two.
    """

    op: str
    variant: str
    inputs: Sequence[str]
    calls: Sequence[Call]
    constants: Mapping[str, Array] = field(default_factory=dict[str, Array])
    attributes: Mapping[str, Any] = field(default_factory=dict[str, Any])
    outputs: int = 1
    relative: float = 1e-4
    absolute: float = 1e-5
    codes: int = 0

    @property
    def name(self) -> str:
        return f"contrib/{self.op}/{self.variant}"

    def model(self) -> ModelProto:
        """The node as a model."""
        results = [f"y{number}" for number in range(self.outputs)]
        node = helper.make_node(self.op, list(self.inputs), results, domain=MICROSOFT, name="node", **self.attributes)
        first = self.calls[0]
        infos = [
            helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), self._sizes(name))
            for name, array in first.items()
        ]
        graph = helper.make_graph(
            [node],
            "contrib",
            infos,
            [helper.make_empty_tensor_value_info(name) for name in results],
            [numpy_helper.from_array(array, name) for name, array in self.constants.items()],
        )
        imports = [helper.make_opsetid("", OPSET), helper.make_opsetid(MICROSOFT, 1)]
        return helper.make_model(graph, opset_imports=imports, ir_version=10)

    def _sizes(self, name: str) -> list[int | str]:
        shapes = [call[name].shape for call in self.calls]
        return [
            sizes[0] if len(set(sizes)) == 1 else f"{name}.{axis}"
            for axis, sizes in enumerate(zip(*shapes, strict=True))
        ]


def compared(case: ContribCase) -> str:
    """Compile the case once and compare all of its calls; says how near they came. AssertionError where one is not near enough."""
    model = case.model()
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    try:
        session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        expected = [session.run(None, dict(call)) for call in case.calls]
    except _REFUSALS as error:
        raise NotImplementedByPeer(" ".join(str(error).split())[:200]) from error
    program = anyshape.compile(model)
    worst = 0.0
    for call, wanted in zip(case.calls, expected, strict=True):
        results = program(**call)
        listed = list(results) if isinstance(results, tuple) else [results]
        assert len(listed) == len(wanted), f"{len(listed)} results instead of {len(wanted)}"
        for got, want in zip(listed, wanted, strict=True):
            worst = max(worst, _distance(got, np.asarray(want), case))
    return f"{len(case.calls)} calls, {worst:.1e} off at most"


def _distance(got: Array, want: Array, case: ContribCase) -> float:
    """The largest difference: relative to the largest element, or in codes."""
    assert (got.shape, got.dtype) == (want.shape, want.dtype), (
        f"{got.dtype}{got.shape} instead of {want.dtype}{want.shape}"
    )
    if got.dtype.kind in "iu":
        off = np.abs(got.astype(np.int64) - want.astype(np.int64)).max(initial=0)
        assert off <= case.codes, f"{off} codes away: {got.ravel()[:8]} instead of {want.ravel()[:8]}"
        return float(off)
    largest = float(np.abs(want).max(initial=0))
    wide, wanted = got.astype(np.float64), want.astype(np.float64)
    np.testing.assert_allclose(wide, wanted, rtol=case.relative, atol=case.absolute * max(largest, 1e-30))
    return float(np.abs(wide - wanted).max(initial=0)) / max(largest, 1e-30)


# -- numbers -----------------------------------------------------------------------------------------------------------


def floats(*shape: int, dtype: Any = np.float32, seed: int = 0) -> Array:
    return np.random.default_rng(seed + 7 * sum(shape) + len(shape)).standard_normal(shape).astype(dtype)


def codes(*shape: int, dtype: Any = np.uint8, seed: int = 0) -> Array:
    limits = np.iinfo(dtype)
    return np.random.default_rng(seed + sum(shape)).integers(limits.min, limits.max + 1, shape).astype(dtype)


def weights_of(dtype: Any, *shape: int, seed: int = 0) -> Array:
    """Codes of the right factor of a product: of i8 seven bits, since ONNX Runtime's sums of two products saturate without VNNI."""
    drawn = codes(*shape, dtype=dtype, seed=seed)
    return drawn >> 1 if dtype == np.int8 else drawn


def tolerance(dtype: Any) -> dict[str, float]:
    """What f16 is held to beside f32."""
    return {} if dtype == np.float32 else {"relative": 5e-3, "absolute": 4e-3}


FLOATS = (np.float32, np.float16)
CODES = (np.uint8, np.int8)
SEQUENCES = ((1, 1), (2, 5), (3, 17))
"""Batch and length of calls."""


# -- activations and norms ---------------------------------------------------------------------------------------------


def _activations() -> Iterator[ContribCase]:
    for dtype in FLOATS:
        kind, near = np.dtype(dtype).name, tolerance(dtype)
        calls = [{"x": 3 * floats(*each, 8, dtype=dtype)} for each in SEQUENCES]
        bias = {"b": floats(8, dtype=dtype, seed=3)}
        for op in ("Gelu", "QuickGelu", "FastGelu"):
            yield ContribCase(op, kind, ["x"], calls, **near)
        yield ContribCase("QuickGelu", f"{kind} alpha", ["x"], calls, attributes={"alpha": 0.7}, **near)
        for op in ("BiasGelu", "FastGelu"):
            yield ContribCase(op, f"{kind} bias", ["x", "b"], calls, bias, **near)


def _norms() -> Iterator[ContribCase]:
    for dtype in FLOATS:
        kind, near = np.dtype(dtype).name, tolerance(dtype)
        rows = {
            "g": floats(16, dtype=dtype),
            "h": floats(16, dtype=dtype, seed=1),
            "b": floats(16, dtype=dtype, seed=2),
        }
        pairs = [
            {"x": floats(*each, 16, dtype=dtype), "s": floats(*each, 16, dtype=dtype, seed=9)} for each in SEQUENCES
        ]
        once = [{**call, "s": floats(1, call["x"].shape[1], 16, dtype=dtype)} for call in pairs]
        flat = [{name: array.reshape(-1, 16) for name, array in call.items()} for call in pairs]
        for variant, calls in (("", pairs), (" one skip", once), (" flat", flat)):
            for names, text in (
                (["g", "h", "b"], "all"),
                (["g", "h"], "no bias"),
                (["g"], "scale"),
                (["g", "", "b"], "no shift"),
            ):
                kept = {name: rows[name] for name in names if name}
                yield ContribCase(
                    "SkipLayerNormalization", f"{kind} {text}{variant}", ["x", "s", *names], calls, kept,
                    {"epsilon": 1e-5}, **near,
                )  # fmt: skip
            for names in (["g"], ["g", "b"]):
                kept = {name: rows[name] for name in names}
                yield ContribCase(
                    "SkipSimplifiedLayerNormalization", f"{kind} {'bias' if len(names) > 1 else 'plain'}{variant}",
                    ["x", "s", *names], calls, kept, {"epsilon": 1e-3}, **near,
                )  # fmt: skip
        with_sum = {"outputs": 4, **near}
        yield ContribCase(
            "SkipLayerNormalization",
            f"{kind} sum",
            ["x", "s", "g", "h", "b"],
            pairs,
            rows,
            {"epsilon": 1e-5},
            **with_sum,
        )


def _embeddings() -> Iterator[ContribCase]:
    tables = {
        "words": floats(40, 12), "places": floats(24, 12, seed=1), "kinds": floats(2, 12, seed=2), "g": floats(12), "h": floats(12, seed=4),
    }  # fmt: skip
    rng = np.random.default_rng(0)
    calls = [
        {
            "ids": rng.integers(0, 40, each).astype(np.int32),
            "segments": rng.integers(0, 2, each).astype(np.int32),
            "mask": (np.arange(each[1])[None] < rng.integers(1, each[1] + 1, (each[0], 1))).astype(np.int32),
            "at": rng.integers(0, 24, each).astype(np.int32),
        }
        for each in SEQUENCES
    ]

    def given(*names: str) -> list[Call]:
        return [{name: call[name] for name in names} for call in calls]

    rows = ["words", "places", "kinds", "g", "h"]
    everything = ["ids", "segments", *rows]
    yield ContribCase(
        "EmbedLayerNormalization", "mask", [*everything, "mask"], given("ids", "segments", "mask"), tables, outputs=2
    )
    yield ContribCase("EmbedLayerNormalization", "no mask", everything, given("ids", "segments"), tables, outputs=2)
    yield ContribCase(
        "EmbedLayerNormalization", "positions", [*everything, "mask", "at"], given("ids", "segments", "mask", "at"), tables,
        {"epsilon": 1e-5}, outputs=2,
    )  # fmt: skip
    yield ContribCase(
        "EmbedLayerNormalization", "sum", [*everything, "mask"], given("ids", "segments", "mask"), tables, outputs=3
    )
    plain = {name: array for name, array in tables.items() if name != "kinds"}
    yield ContribCase(
        "EmbedLayerNormalization",
        "no segments",
        ["ids", "", "words", "places", "", "g", "h"],
        given("ids"),
        plain,
        outputs=2,
    )


# -- products ----------------------------------------------------------------------------------------------------------


def _products() -> Iterator[ContribCase]:
    for trans_a in (0, 1):
        for trans_b in (0, 1):
            calls = [
                {
                    "a": floats(b, *((k, m) if trans_a else (m, k))),
                    "b": floats(b, *((n, k) if trans_b else (k, n)), seed=2),
                }
                for b, m, k, n in ((1, 1, 1, 1), (2, 3, 5, 4), (3, 17, 8, 2))
            ]
            yield ContribCase(
                "FusedMatMul", f"{trans_a}{trans_b}", ["a", "b"], calls,
                attributes={"transA": trans_a, "transB": trans_b, "alpha": 0.5},
            )  # fmt: skip
    for trans_a, trans_b in ((0, 0), (1, 0), (0, 1), (1, 1)):
        calls = [
            {
                "a": floats(*((k, b, m) if trans_a else (m, b, k))),
                "b": floats(*((n, b, k) if trans_b else (k, b, n)), seed=2),
            }
            for b, m, k, n in ((2, 3, 5, 4), (3, 6, 8, 2))
        ]
        yield ContribCase(
            "FusedMatMul", f"batch inside {trans_a}{trans_b}", ["a", "b"], calls,
            attributes={"transA": trans_a, "transB": trans_b, "transBatchA": 1, "transBatchB": 1},
        )  # fmt: skip
    activations: Sequence[tuple[str, dict[str, float]]] = (
        ("Relu", {}), ("Tanh", {}), ("Sigmoid", {}), ("LeakyRelu", {"activation_alpha": 0.3}),
    )  # fmt: skip
    for activation, numbers in activations:
        calls = [{"a": floats(m, 6)} for m in (1, 4, 19)]
        yield ContribCase(
            "FusedGemm", activation, ["a", "b", "c"], calls, {"b": floats(6, 5), "c": floats(5)},
            {"activation": activation, "alpha": 0.7, "beta": 0.3, **numbers},
        )  # fmt: skip
    images = [{"x": floats(n, 3, h, w)} for n, h, w in ((1, 5, 5), (2, 9, 7))]
    for activation, params in (
        ("Relu", []),
        ("Tanh", []),
        ("LeakyRelu", [0.2]),
        ("Clip", [-0.5, 0.5]),
        ("HardSigmoid", [0.2, 0.4]),
    ):
        yield ContribCase(
            "FusedConv", activation, ["x", "w", "b"], images, {"w": floats(4, 3, 3, 3), "b": floats(4)},
            {"activation": activation, "pads": [1, 1, 1, 1], **({"activation_params": params} if params else {})},
        )  # fmt: skip
    added = [{**call, "z": floats(call["x"].shape[0], 4, *call["x"].shape[2:])} for call in images]
    yield ContribCase(
        "FusedConv", "sum", ["x", "w", "b", "z"], added, {"w": floats(4, 3, 3, 3), "b": floats(4)},
        {"activation": "Relu", "pads": [1, 1, 1, 1]},
    )  # fmt: skip


def _packed_bits(values: Array, bits: int) -> Array:
    """[n, groups, block] of codes -> [n, groups, block·bits / 8], the first code in the lowest bits."""
    n, groups, block = values.shape
    spread = (values[..., None] >> np.arange(bits)) & 1
    return np.packbits(spread.reshape(n, groups, block * bits), axis=-1, bitorder="little")


def _few_bits() -> Iterator[ContribCase]:
    rng = np.random.default_rng(0)
    for bits in (2, 4, 8):
        for block in (16, 32, 64, 128):
            for k, n in ((block, 8), (3 * block, 5), (2 * block - 8, 16)):
                groups = -(-k // block)
                constants = {
                    "q": _packed_bits(rng.integers(0, 2**bits, (n, groups, block)), bits),
                    "s": (rng.random((n, groups)) * 0.1 + 0.01).astype(np.float32),
                }
                row = -(-groups * bits // 8)
                zeros = rng.integers(0, 256, (n, row)).astype(np.uint8)
                calls = [{"x": floats(m, k)} for m in (1, 3, 18)]
                attributes = {"K": k, "N": n, "block_size": block, "bits": bits}
                wide = [{"x": floats(2, m, k)} for m in (1, 5)]
                text, near = f"{bits} bits in {block}, {k}x{n}", {"relative": 1e-3, "absolute": 1e-4}
                yield ContribCase("MatMulNBits", text, ["x", "q", "s"], calls, constants, attributes, **near)
                with_zeros = {**constants, "z": zeros}
                yield ContribCase(
                    "MatMulNBits", f"{text} zeros", ["x", "q", "s", "z"], calls, with_zeros, attributes, **near
                )
                if block == 32:
                    biased = {**with_zeros, "b": floats(n)}
                    yield ContribCase(
                        "MatMulNBits", f"{text} bias", ["x", "q", "s", "z", "", "b"], wide, biased, attributes, **near
                    )
                    real = {**constants, "z": (rng.random((n, groups)) * 2**bits).astype(np.float32)}
                    yield ContribCase(
                        "MatMulNBits", f"{text} real zeros", ["x", "q", "s", "z"], calls, real, attributes, **near
                    )
                    flat = {**constants, "s": constants["s"].ravel()}
                    yield ContribCase(
                        "MatMulNBits", f"{text} flat scales", ["x", "q", "s"], calls, flat, attributes, **near
                    )
                    half = {"q": constants["q"], "s": constants["s"].astype(np.float16)}
                    halves = [{"x": call["x"].astype(np.float16)} for call in calls]
                    yield ContribCase(
                        "MatMulNBits",
                        f"{text} float16",
                        ["x", "q", "s"],
                        halves,
                        half,
                        attributes,
                        relative=2e-2,
                        absolute=1e-2,
                    )


# -- attention ---------------------------------------------------------------------------------------------------------

HEADS, DEPTH = 4, 8
WIDTH = HEADS * DEPTH


def _keys_seen(batch: int, keys: int) -> Array:
    """Numbers [batch, keys], 0 where a key is hidden; every sequence sees at least one."""
    lengths = np.random.default_rng(keys).integers(1, keys + 1, (batch, 1))
    return (np.arange(keys)[None] < lengths).astype(np.int32)


def _fused_attention() -> Iterator[ContribCase]:
    weights = {"w": floats(WIDTH, 3 * WIDTH) * np.float32(0.2), "b": floats(3 * WIDTH, seed=2)}
    names = ["x", "w", "b"]
    plain = [{"x": floats(*each, WIDTH)} for each in SEQUENCES]
    yield ContribCase("Attention", "plain", names, plain, weights, {"num_heads": HEADS})
    yield ContribCase("Attention", "no bias", ["x", "w"], plain, {"w": weights["w"]}, {"num_heads": HEADS})
    yield ContribCase("Attention", "causal", names, plain, weights, {"num_heads": HEADS, "unidirectional": 1})
    yield ContribCase("Attention", "scale", names, plain, weights, {"num_heads": HEADS, "scale": 0.3})
    masked = [{**call, "m": _keys_seen(*call["x"].shape[:2])} for call in plain]
    lengths = [{**call, "m": call["m"].sum(1).astype(np.int32)} for call in masked]
    square = [{**call, "m": np.repeat(call["m"][:, None], call["x"].shape[1], 1)} for call in masked]
    ends = [{**plain[1], "m": np.array([5, 4, first, 0], np.int32)} for first in (0, 2)]
    for text, calls in (
        ("mask of keys", masked),
        ("lengths", lengths),
        ("mask of pairs", square),
        ("ends and starts", ends),
    ):
        for causal in (0, 1):
            yield ContribCase(
                "Attention", f"{text}{' causal' * causal}", [*names, "m"], calls, weights,
                {"num_heads": HEADS, "unidirectional": causal},
            )  # fmt: skip
    yield ContribCase(
        "Attention",
        "mask of keys filter",
        [*names, "m"],
        masked,
        weights,
        {"num_heads": HEADS, "mask_filter_value": -3.0},
    )
    for rows, heads in (("batch", HEADS), (1, HEADS), (1, 1)):
        biased = [
            {
                **call,
                "a": floats(
                    call["x"].shape[0] if rows == "batch" else 1, heads, call["x"].shape[1], call["x"].shape[1]
                ),
            }
            for call in plain
        ]
        yield ContribCase(
            "Attention", f"bias {rows} {heads}", [*names, "", "", "a"], biased, weights, {"num_heads": HEADS}
        )
    for before in (0, 3):
        past = [
            {**call, "p": floats(2, call["x"].shape[0], HEADS, before + each, DEPTH)} for each, call in enumerate(plain)
        ]
        for causal in (0, 1):
            yield ContribCase(
                "Attention", f"past from {before}{' causal' * causal}", [*names, "", "p"], past, weights,
                {"num_heads": HEADS, "unidirectional": causal}, outputs=2,
            )  # fmt: skip
        seen = [{**call, "m": _keys_seen(call["x"].shape[0], call["x"].shape[1] + call["p"].shape[3])} for call in past]
        yield ContribCase(
            "Attention", f"past from {before} mask", [*names, "m", "p"], seen, weights, {"num_heads": HEADS, "unidirectional": 1},
            outputs=2,
        )  # fmt: skip
    yield ContribCase("Attention", "present", names, plain, weights, {"num_heads": HEADS}, outputs=2)
    uneven = {"w": floats(WIDTH, 2 * WIDTH + 16), "b": floats(2 * WIDTH + 16)}
    yield ContribCase(
        "Attention",
        "other width of values",
        names,
        plain,
        uneven,
        {"num_heads": HEADS, "qkv_hidden_sizes": [WIDTH, WIDTH, 16]},
    )


LENGTHS = ((1, 1, 1), (2, 5, 5), (2, 3, 9), (1, 7, 2))
"""Batch, queries and keys of calls."""


def _many_heads() -> Iterator[ContribCase]:
    attributes = {"num_heads": HEADS}
    apart = [
        {"q": floats(b, s, WIDTH), "k": floats(b, t, WIDTH, seed=1), "v": floats(b, t, WIDTH, seed=2)}
        for b, s, t in LENGTHS
    ]
    bias = {"b": floats(3 * WIDTH, seed=5)}
    op, names = "MultiHeadAttention", ["q", "k", "v"]
    yield ContribCase(op, "plain", names, apart, attributes=attributes)
    yield ContribCase(op, "bias", [*names, "b"], apart, bias, attributes)
    yield ContribCase(op, "scale", names, apart, attributes={**attributes, "scale": 0.25})
    halves = [{name: array.astype(np.float16) for name, array in call.items()} for call in apart]
    yield ContribCase(op, "float16", names, halves, attributes=attributes, **tolerance(np.float16))
    same = [call for call in apart if call["q"].shape == call["k"].shape]
    yield ContribCase(op, "causal", names, same, attributes={**attributes, "unidirectional": 1})
    masked = [{**call, "m": _keys_seen(*call["k"].shape[:2])} for call in apart]
    lengths = [{**call, "m": call["m"].sum(1).astype(np.int32)} for call in masked]
    square = [{**call, "m": np.repeat(call["m"][:, None], call["q"].shape[1], 1)} for call in masked]
    for text, calls in (("mask of keys", masked), ("lengths", lengths), ("mask of pairs", square)):
        yield ContribCase(op, text, [*names, "", "m"], calls, attributes=attributes)
    for rows, heads in (("batch", HEADS), (1, HEADS), (1, 1)):
        biased = [
            {
                **call,
                "a": floats(len(call["q"]) if rows == "batch" else 1, heads, call["q"].shape[1], call["k"].shape[1]),
            }
            for call in apart
        ]
        yield ContribCase(op, f"scores {rows} {heads}", [*names, "", "", "a"], biased, attributes=attributes)
        if rows == "batch":
            both = [{**call, "m": mask["m"]} for call, mask in zip(biased, masked, strict=True)]
            yield ContribCase(op, "scores and mask", [*names, "", "m", "a"], both, attributes=attributes)
    wide = [{**call, "v": floats(len(call["q"]), call["k"].shape[1], 16)} for call in apart]
    yield ContribCase(op, "other width of values", names, wide, attributes=attributes)
    packed = [{"q": floats(b, s, HEADS, 3, DEPTH)} for b, s, _ in LENGTHS]
    yield ContribCase(op, "packed", ["q"], packed, attributes=attributes)
    yield ContribCase(op, "packed bias", ["q", "", "", "b"], packed, bias, attributes)
    pairs = [{"q": floats(b, s, WIDTH), "k": floats(b, t, HEADS, 2, DEPTH)} for b, s, t in LENGTHS]
    yield ContribCase(op, "packed keys and values", ["q", "k"], pairs, attributes=attributes)
    ready = [
        {"q": floats(b, s, WIDTH), "k": floats(b, HEADS, t, DEPTH), "v": floats(b, HEADS, t, DEPTH, seed=1)}
        for b, s, t in LENGTHS
    ]
    yield ContribCase(op, "keys as heads", names, ready, attributes=attributes)
    yield ContribCase(op, "keys as heads bias", [*names, "b"], ready, bias, attributes)
    past = [
        {
            **call,
            "pk": floats(len(call["q"]), HEADS, each, DEPTH),
            "pv": floats(len(call["q"]), HEADS, each, DEPTH, seed=1),
        }
        for each, call in enumerate(apart)
    ]
    yield ContribCase(op, "past", [*names, "", "", "", "pk", "pv"], past, attributes=attributes, outputs=3)
    yield ContribCase(
        op, "past causal", [*names, "", "", "", "pk", "pv"],
        [call for call in past if call["q"].shape[1] == call["k"].shape[1]], attributes={**attributes, "unidirectional": 1}, outputs=3,
    )  # fmt: skip
    yield ContribCase(op, "scores", names, apart, attributes=attributes, outputs=4)


def _grouped() -> Iterator[ContribCase]:
    op, few, depth = "GroupQueryAttention", 2, 16  # of which ONNX Runtime wants whole blocks where it turns them
    wide = HEADS * depth
    narrow = few * depth
    angles = np.arange(64)[:, None] * (1.0 / 100 ** (np.arange(depth // 2) / (depth // 2)))
    tables = {"c": np.cos(angles).astype(np.float32), "n": np.sin(angles).astype(np.float32)}
    base = {"num_heads": HEADS, "kv_num_heads": few}

    def call(b: int, s: int, p: int, packed: bool) -> dict[str, Array]:
        heads = floats(b, s, wide + 2 * narrow)
        parts = {"q": heads} if packed else {
            "q": heads[..., :wide].copy(), "k": heads[..., wide : wide + narrow].copy(), "v": heads[..., wide + narrow :].copy(),
        }  # fmt: skip
        return {
            **parts, "pk": floats(b, few, p, depth, seed=3), "pv": floats(b, few, p, depth, seed=4),
            "l": np.full(b, s + p - 1, np.int32), "t": np.array(s + p, np.int32),
        }  # fmt: skip

    settings: Sequence[tuple[str, dict[str, Any]]] = (
        ("plain", {}), ("scale", {"scale": 0.2}), ("window", {"local_window_size": 3}), ("softcap", {"softcap": 1.5}),
        ("smooth", {"smooth_softmax": 1}), ("rotary", {"do_rotary": 1}), ("rotary pairs", {"do_rotary": 1, "rotary_interleaved": 1}),
        ("rotary window", {"do_rotary": 1, "local_window_size": 2}),
    )  # fmt: skip
    first, later = ((1, 1, 0), (1, 6, 0), (2, 6, 0)), ((1, 1, 1), (1, 1, 6), (2, 1, 9))
    for text, sizes in (
        ("prompt", first),
        ("step", later),
        ("prompt of one sequence behind a past", ((1, 3, 4), (1, 5, 2))),
    ):
        for packed in (False, True):
            calls = [call(*each, packed) for each in sizes]
            for setting, attributes in settings:
                heads = ["q", "", ""] if packed else ["q", "k", "v"]
                rotary = "do_rotary" in attributes
                names = [*heads, "pk", "pv", "l", "t", *(("c", "n") if rotary else ())]
                yield ContribCase(
                    op,
                    f"{text} {setting}{' packed' * packed}",
                    names,
                    calls,
                    tables if rotary else {},
                    {**base, **attributes},
                    outputs=3,
                )
    calls = [call(*each, False) for each in first]
    bare = [{name: each[name] for name in ("q", "k", "v", "l", "t")} for each in calls]
    yield ContribCase(op, "no past", ["q", "k", "v", "", "", "l", "t"], bare, attributes=base, outputs=3)
    biased = [{**each, "a": floats(1, HEADS, each["q"].shape[1], each["q"].shape[1])} for each in calls]
    yield ContribCase(
        op, "scores", ["q", "k", "v", "pk", "pv", "l", "t", "", "", "", "a"], biased, attributes=base, outputs=3
    )
    sink = {"h": floats(HEADS)}
    yield ContribCase(
        op, "sink", ["q", "k", "v", "pk", "pv", "l", "t", "", "", "", "", "h"], calls, sink, base, outputs=3
    )


def _rotary() -> Iterator[ContribCase]:
    for dtype in FLOATS:
        near, kind = tolerance(dtype), np.dtype(dtype).name
        angles = np.arange(40)[:, None] * (1.0 / 50 ** (np.arange(DEPTH // 2) / (DEPTH // 2)))
        tables = {"c": np.cos(angles).astype(dtype), "n": np.sin(angles).astype(dtype)}
        partial = {name: array[:, : DEPTH // 4].copy() for name, array in tables.items()}
        rng = np.random.default_rng(0)
        for interleaved in (0, 1):
            text = f"{kind}{' pairs' * interleaved}"
            rows = [{"x": floats(*each, WIDTH, dtype=dtype), "p": rng.integers(0, 40, each)} for each in SEQUENCES]
            start = [{"x": call["x"], "p": np.array([3])} for call in rows]
            heads = [
                {
                    "x": call["x"].reshape(*call["x"].shape[:2], HEADS, DEPTH).transpose(0, 2, 1, 3).copy(),
                    "p": call["p"],
                }
                for call in rows
            ]
            names, attributes = ["x", "p", "c", "n"], {"interleaved": interleaved}
            yield ContribCase("RotaryEmbedding", f"{text} rows", names, rows, tables, attributes, **near)
            yield ContribCase("RotaryEmbedding", f"{text} start", names, start, tables, attributes, **near)
            yield ContribCase("RotaryEmbedding", f"{text} heads", names, heads, tables, attributes, **near)
            yield ContribCase(
                "RotaryEmbedding", f"{text} part of a head", names, heads, partial,
                {**attributes, "rotary_embedding_dim": DEPTH // 2, "num_heads": HEADS}, **near,
            )  # fmt: skip
            yield ContribCase(
                "RotaryEmbedding", f"{text} part of a head of rows", names, rows, partial,
                {**attributes, "rotary_embedding_dim": DEPTH // 2, "num_heads": HEADS}, **near,
            )  # fmt: skip


# -- codes -------------------------------------------------------------------------------------------------------------


def _scale(number: float) -> Array:
    return np.array(number, np.float32)


def _quantised_products() -> Iterator[ContribCase]:
    for left in CODES:
        for right in CODES[left == np.int8 :]:  # ONNX Runtime has no i8 · u8
            text = f"{np.dtype(left).name} {np.dtype(right).name}"
            calls = [{"a": codes(m, 12, dtype=left)} for m in (1, 4, 17)]
            columns = {
                "b": weights_of(right, 12, 6),
                "bs": np.abs(floats(6)) + np.float32(0.1),
                "bz": codes(6, dtype=right, seed=3),
            }
            whole = {**columns, "bs": _scale(0.3), "bz": np.array(5, right)}
            tail = {"as": _scale(0.1), "az": np.array(7, left), "c": floats(6)}
            for kind, constants in (("columns", columns), ("whole", whole)):
                values = {**constants, **tail}
                op, names = "MatMulIntegerToFloat", ["a", "b", "as", "bs", "az", "bz", "c"]
                yield ContribCase(op, f"{text} {kind}", names, calls, values)
                fewer = {name: values[name] for name in ("b", "as", "bs", "bz")}
                yield ContribCase(op, f"{text} {kind} no zero", ["a", "b", "as", "bs", "", "bz"], calls, fewer)
            for kind, constants in (("columns", columns), ("whole", whole)):
                for scaled in (True, False):
                    values = {
                        **constants,
                        "as": _scale(0.1),
                        "az": np.array(7, left),
                        "c": codes(6, dtype=np.int32) % 1000,
                    }
                    if scaled:
                        values |= {"ys": _scale(9.0), "yz": np.array(3, left)}
                    names = ["a", "as", "az", "b", "bs", "bz", "c", *(["ys", "yz"] if scaled else [])]
                    yield ContribCase(
                        "QGemm", f"{text} {kind}{' codes' * scaled}", names, calls, values, {"alpha": 0.5}, codes=1
                    )
    for right in CODES:
        calls = [{"a": floats(m, 12)} for m in (1, 4, 17)]
        batches = [{"a": floats(b, m, 12)} for b, m in ((1, 1), (2, 5))]
        columns = {
            "b": weights_of(right, 12, 6),
            "bs": np.abs(floats(6)) + np.float32(0.1),
            "bz": codes(6, dtype=right, seed=3),
            "c": floats(6),
        }
        whole = {**columns, "bs": _scale(0.3), "bz": np.array(5, right)}
        near: dict[str, float] = {"relative": 1e-3, "absolute": 1e-4}
        for kind, constants in (("columns", columns), ("whole", whole)):
            text = f"{np.dtype(right).name} {kind}"
            yield ContribCase("DynamicQuantizeMatMul", text, ["a", "b", "bs", "bz", "c"], calls, constants, **near)
            yield ContribCase(
                "DynamicQuantizeMatMul", f"{text} batches", ["a", "b", "bs", "bz", "c"], batches, constants, **near
            )
            bare = {"b": constants["b"], "bs": constants["bs"]}
            yield ContribCase("DynamicQuantizeMatMul", f"{text} no zero", ["a", "b", "bs"], calls, bare, **near)


def _quantised_attention() -> Iterator[ContribCase]:
    for right in CODES:
        weights = {
            "w": weights_of(right, WIDTH, 3 * WIDTH), "b": floats(3 * WIDTH), "xs": _scale(0.01), "ws": _scale(0.01),
            "xz": np.array(128, np.uint8), "wz": np.array(128 if right == np.uint8 else 3, right),
        }  # fmt: skip
        names, text = ["x", "w", "b", "xs", "ws"], np.dtype(right).name
        plain = [{"x": codes(*each, WIDTH)} for each in SEQUENCES]
        masked = [{**call, "m": _keys_seen(*call["x"].shape[:2])} for call in plain]
        past = [{**call, "p": floats(2, call["x"].shape[0], HEADS, each, DEPTH)} for each, call in enumerate(plain)]
        near: dict[str, float] = {"relative": 1e-3, "absolute": 1e-4}
        for causal in (0, 1):
            attributes, tail = {"num_heads": HEADS, "unidirectional": causal}, " causal" * causal
            yield ContribCase(
                "QAttention", f"{text} plain{tail}", [*names, "", "xz", "wz"], plain, weights, attributes, **near
            )
            yield ContribCase(
                "QAttention", f"{text} mask{tail}", [*names, "m", "xz", "wz"], masked, weights, attributes, **near
            )
            yield ContribCase(
                "QAttention",
                f"{text} past{tail}",
                [*names, "", "xz", "wz", "p"],
                past,
                weights,
                attributes,
                outputs=2,
                **near,
            )
        if right == np.int8:
            columns = {
                **weights,
                "ws": np.abs(floats(3 * WIDTH)) * np.float32(0.01),
                "wz": codes(3 * WIDTH, dtype=right),
            }
            yield ContribCase(
                "QAttention", f"{text} columns", [*names, "", "xz", "wz"], plain, columns, {"num_heads": HEADS}, **near
            )


def _quantised_elements() -> Iterator[ContribCase]:
    for dtype in CODES:
        text = np.dtype(dtype).name
        middle = 128 if dtype == np.uint8 else 3
        numbers = {
            "xs": _scale(0.02), "xz": np.array(middle, dtype), "ys": _scale(0.05), "yz": np.array(middle - 5, dtype),
            "zs": _scale(0.03), "zz": np.array(middle + 2, dtype),
        }  # fmt: skip
        pairs = [{"x": codes(*each, 6, dtype=dtype), "y": codes(*each, 6, dtype=dtype, seed=5)} for each in SEQUENCES]
        row = [{**call, "y": codes(6, dtype=dtype)} for call in pairs]
        both = ["x", "xs", "xz", "y", "ys", "yz", "zs", "zz"]
        for op in ("QLinearAdd", "QLinearMul"):
            for kind, calls in (("", pairs), (" broadcast", row)):
                yield ContribCase(op, text + kind, both, calls, numbers, codes=1)
        one = {name: numbers[name] for name in ("xs", "xz", "zs", "zz")}
        single = [{"x": call["x"]} for call in pairs]
        names = ["x", "xs", "xz", "zs", "zz"]
        yield ContribCase("QLinearLeakyRelu", text, names, single, one, {"alpha": 0.2}, codes=1)
        small = {**one, "zs": _scale(1 / 256), "zz": np.array(0 if dtype == np.uint8 else -128, dtype)}
        yield ContribCase("QLinearSigmoid", text, names, single, small, codes=1)
        for axis, opset in ((-1, 13), (1, 13), (-1, 12), (1, 12)):
            yield ContribCase(
                "QLinearSoftmax",
                f"{text} {axis} {opset}",
                names,
                single,
                small,
                {"axis": axis, "opset": opset},
                codes=1,
            )
        images = [{"x": codes(n, 3, h, w, dtype=dtype)} for n, h, w in ((1, 4, 4), (2, 7, 5))]
        last = [{"x": call["x"].transpose(0, 2, 3, 1).copy()} for call in images]
        for channels_last, calls in ((0, images), (1, last)):
            side = " last" * channels_last
            yield ContribCase(
                "QLinearGlobalAveragePool", text + side, names, calls, one, {"channels_last": channels_last}, codes=1
            )
            for included in (0, 1):
                yield ContribCase(
                    "QLinearAveragePool", f"{text}{side} {included}", names, calls, one,
                    {"channels_last": channels_last, "kernel_shape": [3, 2], "pads": [1, 0, 1, 1], "strides": [2, 1],
                     "count_include_pad": included}, codes=1,
                )  # fmt: skip
        yield ContribCase(
            "QLinearConcat", text, ["zs", "zz", "x", "xs", "xz", "y", "ys", "yz"], pairs, numbers, {"axis": 1}, codes=1
        )
        chosen = [{**call, "c": codes(*call["x"].shape) > 100} for call in pairs]
        yield ContribCase(
            "QLinearWhere", text, ["c", "x", "xs", "xz", "y", "ys", "yz", "zs", "zz"], chosen, numbers, codes=1
        )
    for dtype in (*CODES, np.uint16, np.int16):
        text, limits = np.dtype(dtype).name, np.iinfo(dtype)
        values = [{"x": 3 * floats(*each, 6)} for each in SEQUENCES]
        whole = {"s": _scale(0.05), "z": np.array(limits.max // 3, dtype)}
        columns = {"s": np.abs(floats(6)) + np.float32(0.01), "z": codes(6, dtype=dtype)}
        for kind, numbers, attributes in (("", whole, {}), (" columns", columns, {"axis": 2})):
            yield ContribCase("QuantizeLinear", text + kind, ["x", "s", "z"], values, numbers, attributes, codes=1)
            stored = [{"x": codes(*each, 6, dtype=dtype)} for each in SEQUENCES]
            yield ContribCase("DequantizeLinear", text + kind, ["x", "s", "z"], stored, numbers, attributes)


def all_cases() -> Iterator[ContribCase]:
    """Every case, op by op."""
    for family in (
        _activations, _norms, _embeddings, _products, _few_bits, _fused_attention, _many_heads, _grouped, _rotary, _quantised_products,
        _quantised_attention, _quantised_elements,
    ):  # fmt: skip
        yield from family()
