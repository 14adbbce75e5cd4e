"""Activations, norms and embeddings."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tests.onnx_files.contrib.cases import FLOATS, SEQUENCES, Call, ContribCase, floats, tolerance


def activations() -> Iterator[ContribCase]:
    for dtype in FLOATS:
        kind, near = np.dtype(dtype).name, tolerance(dtype)
        calls = [{"x": 3 * floats(*each, 8, dtype=dtype)} for each in SEQUENCES]
        bias = {"b": floats(8, dtype=dtype, seed=3)}
        for op in ("Gelu", "QuickGelu", "FastGelu"):
            yield ContribCase(op, kind, ["x"], calls, **near)
        yield ContribCase("QuickGelu", f"{kind} alpha", ["x"], calls, attributes={"alpha": 0.7}, **near)
        for op in ("BiasGelu", "FastGelu"):
            yield ContribCase(op, f"{kind} bias", ["x", "b"], calls, bias, **near)


def norms() -> Iterator[ContribCase]:
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


def embeddings() -> Iterator[ContribCase]:
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
