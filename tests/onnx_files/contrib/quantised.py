"""Products, attention and elementwise ops of codes."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tests.onnx_files.contrib.attention import DEPTH, HEADS, WIDTH, keys_seen
from tests.onnx_files.contrib.cases import CODES, SEQUENCES, Array, ContribCase, codes, floats, weights_of


def _scale(number: float) -> Array:
    return np.array(number, np.float32)


def quantised_products() -> Iterator[ContribCase]:
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


def quantised_attention() -> Iterator[ContribCase]:
    for right in CODES:
        weights = {
            "w": weights_of(right, WIDTH, 3 * WIDTH), "b": floats(3 * WIDTH), "xs": _scale(0.01), "ws": _scale(0.01),
            "xz": np.array(128, np.uint8), "wz": np.array(128 if right == np.uint8 else 3, right),
        }  # fmt: skip
        names, text = ["x", "w", "b", "xs", "ws"], np.dtype(right).name
        plain = [{"x": codes(*each, WIDTH)} for each in SEQUENCES]
        masked = [{**call, "m": keys_seen(*call["x"].shape[:2])} for call in plain]
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


def quantised_elements() -> Iterator[ContribCase]:
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
