"""Products, fused with what follows them, and of weights of a few bits."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from tests.onnx_files.contrib.cases import Array, ContribCase, floats


def products() -> Iterator[ContribCase]:
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


def few_bits() -> Iterator[ContribCase]:
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
