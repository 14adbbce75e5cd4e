"""Attention in its forms: of one packed product, of many heads, of groups, and the rotation of its heads."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from tests.onnx_files.contrib.cases import FLOATS, SEQUENCES, Array, Call, ContribCase, floats, tolerance

HEADS, DEPTH = 4, 8
WIDTH = HEADS * DEPTH


def keys_seen(batch: int, keys: int) -> Array:
    """Numbers [batch, keys], 0 where a key is hidden; every sequence sees at least one."""
    lengths = np.random.default_rng(keys).integers(1, keys + 1, (batch, 1))
    return (np.arange(keys)[None] < lengths).astype(np.int32)


def fused_attention() -> Iterator[ContribCase]:
    weights = {"w": floats(WIDTH, 3 * WIDTH) * np.float32(0.2), "b": floats(3 * WIDTH, seed=2)}
    names = ["x", "w", "b"]
    plain = [{"x": floats(*each, WIDTH)} for each in SEQUENCES]
    yield ContribCase("Attention", "plain", names, plain, weights, {"num_heads": HEADS})
    yield ContribCase("Attention", "no bias", ["x", "w"], plain, {"w": weights["w"]}, {"num_heads": HEADS})
    yield ContribCase("Attention", "causal", names, plain, weights, {"num_heads": HEADS, "unidirectional": 1})
    yield ContribCase("Attention", "scale", names, plain, weights, {"num_heads": HEADS, "scale": 0.3})
    masked = [{**call, "m": keys_seen(*call["x"].shape[:2])} for call in plain]
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
    yield from _attention_after_past(weights, plain)
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


def _attention_after_past(weights: Mapping[str, Array], plain: Sequence[Call]) -> Iterator[ContribCase]:
    names = ["x", "w", "b"]
    for before in (0, 3):
        past = [
            {**call, "p": floats(2, call["x"].shape[0], HEADS, before + each, DEPTH)} for each, call in enumerate(plain)
        ]
        for causal in (0, 1):
            yield ContribCase(
                "Attention", f"past from {before}{' causal' * causal}", [*names, "", "p"], past, weights,
                {"num_heads": HEADS, "unidirectional": causal}, outputs=2,
            )  # fmt: skip
        seen = [{**call, "m": keys_seen(call["x"].shape[0], call["x"].shape[1] + call["p"].shape[3])} for call in past]
        yield ContribCase(
            "Attention", f"past from {before} mask", [*names, "m", "p"], seen, weights, {"num_heads": HEADS, "unidirectional": 1},
            outputs=2,
        )  # fmt: skip


LENGTHS = ((1, 1, 1), (2, 5, 5), (2, 3, 9), (1, 7, 2))
"""Batch, queries and keys of calls."""


def many_heads() -> Iterator[ContribCase]:
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
    masked = [{**call, "m": keys_seen(*call["k"].shape[:2])} for call in apart]
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


def grouped() -> Iterator[ContribCase]:
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


def rotary() -> Iterator[ContribCase]:
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
