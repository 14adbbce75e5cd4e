"""Quantised ops: one program for calls of several sizes, against their formulas in numpy, f64 and integers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from onnx import helper

import anyshape
from anyshape.dialects.dhlo import Dequantize, DotGeneral
from anyshape.dialects.dtypes import I32
from anyshape.frontends.onnx import ImportedModel
from tests.frontends.onnx.models import BOOL, FLOAT, INT32, UINT8, floats, imported, interpreted, model_of
from tests.frontends.onnx.test_contrib import PASTS, attention, check_calls, heads_of, lengths_mask, node_model

INT8 = 3
CALLS = ((1, 1), (2, 3), (3, 17))
TYPES: dict[int, Any] = {UINT8: np.uint8, INT8: np.int8}
F32 = np.float32
X_SCALE = F32(0.02)


def codes_of(code: int, *shape: int, seed: int = 0) -> Any:
    bounds = np.iinfo(TYPES[code])
    draw = np.random.default_rng(seed + sum(shape))
    return draw.integers(bounds.min, bounds.max + 1, shape).astype(TYPES[code])


def real(codes: Any, scale: Any, zero: Any = 0) -> Any:
    return (codes.astype(np.int64) - np.asarray(zero).astype(np.int64)) * np.asarray(scale).astype(np.float64)


def assert_codes(got: Any, value: Any, scale: float, zero: int) -> None:
    """The codes of a value; where it lies between two, as far as f32 can tell, either."""
    exact = value / np.float64(F32(scale)) + zero
    bounds = np.iinfo(got.dtype)
    low, high = (np.clip(np.round(exact + off), bounds.min, bounds.max) for off in (-1e-4, 1e-4))
    assert got.shape == value.shape
    assert ((got == low) | (got == high)).all()


def check_codes(
    model: Any, calls: Sequence[Mapping[str, Any]], formula: Callable[..., Any], scale: float, zero: int, dtype: Any
) -> None:
    graph = imported(model)
    for feeds in calls:
        (got,) = interpreted(graph, feeds)
        assert got.dtype == dtype
        assert_codes(got, formula(**feeds), scale, zero)


# -- elementwise ops, pooling and joining --------------------------------------------------------------------------------


@pytest.mark.parametrize("code", [UINT8, INT8])
@pytest.mark.parametrize("op", ["QLinearAdd", "QLinearMul"])
def test_a_sum_and_a_product_of_codes(op: str, code: int) -> None:
    inputs = {"x": (code, ("b", "s", 6)), "y": (code, ("s", 6))}
    zeros = {"xz": TYPES[code](7), "yz": TYPES[code](90), "oz": TYPES[code](40)}
    model = node_model(
        op, inputs, {"xs": F32(0.03), "ys": F32(0.05), "os": F32(0.06), **zeros}, "x xs xz y ys yz os oz", "r"
    )
    join = np.add if op == "QLinearAdd" else np.multiply
    calls = [{"x": codes_of(code, b, s, 6), "y": codes_of(code, s, 6)} for b, s in CALLS]
    check_codes(model, calls, lambda x, y: join(real(x, F32(0.03), 7), real(y, F32(0.05), 90)), 0.06, 40, TYPES[code])


def softmax(x: Any) -> Any:
    weights = np.exp(x - x.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True)


UNARY: dict[str, tuple[dict[str, Any], Callable[[Any], Any]]] = {
    "QLinearSigmoid": ({}, lambda x: 1 / (1 + np.exp(-x))),
    "QLinearLeakyRelu": ({"alpha": 0.1}, lambda x: np.where(x > 0, x, F32(0.1) * x)),
    "QLinearSoftmax": ({"axis": -1, "opset": 13}, softmax),
    "QLinearReduceMean": ({"axes": [1], "keepdims": 0}, lambda x: x.mean(1)),
}


@pytest.mark.parametrize("code", [UINT8, INT8])
@pytest.mark.parametrize("op", UNARY)
def test_a_function_of_codes(op: str, code: int) -> None:
    attributes, function = UNARY[op]
    constants = {"xs": F32(0.04), "xz": TYPES[code](9), "os": F32(0.01), "oz": TYPES[code](3)}
    model = node_model(op, {"x": (code, ("b", "s", 6))}, constants, "x xs xz os oz", **attributes)
    calls = [{"x": codes_of(code, b, s, 6)} for b, s in CALLS]
    check_codes(model, calls, lambda x: function(real(x, F32(0.04), 9)), 0.01, 3, TYPES[code])


@pytest.mark.parametrize("channels_last", [0, 1])
@pytest.mark.parametrize("op", ["QLinearGlobalAveragePool", "QLinearAveragePool"])
def test_means_of_codes_in_images(op: str, channels_last: int) -> None:
    shape = ("n", "h", "w", 6) if channels_last else ("n", 6, "h", "w")
    more = {"kernel_shape": [2, 2], "strides": [2, 2]} if op == "QLinearAveragePool" else {}
    constants = {"xs": F32(0.04), "xz": np.uint8(120), "os": F32(0.03), "oz": np.uint8(30)}
    model = node_model(
        op, {"x": (UINT8, shape)}, constants, "x xs xz os oz", channels_last=channels_last, **more
    )  # fmt: skip

    def formula(x: Any) -> Any:
        x = real(x, F32(0.04), 120)
        x = np.moveaxis(x, 3, 1) if channels_last else x
        if op == "QLinearAveragePool":
            n, c, h, w = x.shape
            mean = x[:, :, : h // 2 * 2, : w // 2 * 2].reshape(n, c, h // 2, 2, w // 2, 2).mean((3, 5))
        else:
            mean = x.mean((2, 3), keepdims=True)
        return np.moveaxis(mean, 1, 3) if channels_last else mean

    sizes = ((1, 5, 5), (2, 8, 15))
    calls = [{"x": codes_of(UINT8, *((n, h, w, 6) if channels_last else (n, 6, h, w)))} for n, h, w in sizes]
    check_codes(model, calls, formula, 0.03, 30, np.uint8)


def test_joining_and_choosing_codes() -> None:
    constants = {
        "os": F32(0.05), "oz": np.uint8(99), "xs": F32(0.03), "xz": np.uint8(120), "ys": F32(0.07), "yz": np.uint8(130),
    }  # fmt: skip
    x, y = (UINT8, ("b", "s", 6)), (UINT8, ("b", "t", 6))
    model = node_model("QLinearConcat", {"x": x, "y": y}, constants, "os oz x xs xz y ys yz", "r", axis=1)
    calls = [{"x": codes_of(UINT8, b, s, 6), "y": codes_of(UINT8, b, s + 2, 6)} for b, s in CALLS]
    check_codes(
        model,
        calls,
        lambda x, y: np.concatenate([real(x, F32(0.03), 120), real(y, F32(0.07), 130)], 1),
        0.05,
        99,
        np.uint8,
    )
    inputs = {"c": (BOOL, ("b", "s", 6)), "x": x, "y": (UINT8, ("s", 6))}
    model = node_model("QLinearWhere", inputs, constants, "c x xs xz y ys yz os oz", "r")
    calls = [
        {"c": codes_of(UINT8, b, s, 6, seed=5) > 99, "x": codes_of(UINT8, b, s, 6), "y": codes_of(UINT8, s, 6)} for b, s in CALLS
    ]  # fmt: skip
    check_codes(
        model, calls, lambda c, x, y: np.where(c, real(x, F32(0.03), 120), real(y, F32(0.07), 130)), 0.05, 99, np.uint8
    )


# -- products of codes ---------------------------------------------------------------------------------------------------

PAIRS = ((UINT8, UINT8), (UINT8, INT8), (INT8, INT8))


def weight_of(code: int, per_column: bool, k: int = 20, n: int = 10) -> dict[str, Any]:
    """Codes, scales and zero points of a weight."""
    zero = codes_of(code, n, seed=4) if per_column else TYPES[code](11)
    return {"w": codes_of(code, k, n), "ws": np.abs(floats(n)) if per_column else F32(0.03), "wz": zero}


@pytest.mark.parametrize("per_column", [False, True])
@pytest.mark.parametrize("pair", PAIRS, ids=str)
def test_matmul_integer_to_float(pair: tuple[int, int], per_column: bool) -> None:
    weight, bias = weight_of(pair[1], per_column), floats(10)
    constants = {**weight, "xs": F32(0.02), "xz": TYPES[pair[0]](7), "c": bias}
    model = node_model("MatMulIntegerToFloat", {"x": (pair[0], ("b", "s", 20))}, constants, "x w xs ws xz wz c")
    decoded = real(weight["w"], weight["ws"], weight["wz"])
    calls = [{"x": codes_of(pair[0], b, s, 20)} for b, s in CALLS]
    check_calls(model, calls, lambda x: real(x, F32(0.02), 7) @ decoded + bias)


@pytest.mark.parametrize("per_column", [False, True])
def test_dynamic_quantize_matmul(per_column: bool) -> None:
    weight = weight_of(INT8, per_column)
    model = node_model("DynamicQuantizeMatMul", {"x": (FLOAT, ("b", "s", 20))}, weight, "x w ws wz")

    def formula(x: Any) -> Any:
        low, high = min(F32(x.min()), F32(0)), max(F32(x.max()), F32(0))
        scale = (high - low) / F32(255)
        zero = np.round(-low / scale)
        codes = np.clip(np.round(x.astype(F32) / scale) + zero, 0, 255)
        return real(codes, scale, zero) @ real(weight["w"], weight["ws"], weight["wz"])

    check_calls(model, [{"x": floats(b, s, 20)} for b, s in CALLS], formula)


@pytest.mark.parametrize("has_scale", [False, True])
def test_qgemm(has_scale: bool) -> None:
    weight, added = weight_of(UINT8, True), np.arange(-500, 500, 100, dtype=np.int32)
    constants = {**weight, "w": weight["w"].T.copy(), "xs": F32(0.02), "xz": np.uint8(9), "c": added}
    constants |= {"os": F32(2.5), "oz": np.uint8(10)} if has_scale else {}
    order = "x xs xz w ws wz c" + " os oz" * has_scale
    model = node_model("QGemm", {"x": (UINT8, ("b", 20))}, constants, order, transB=1, alpha=0.5)
    decoded = real(weight["w"], weight["ws"], weight["wz"])

    def formula(x: Any) -> Any:
        return 0.5 * (real(x, F32(0.02), 9) @ decoded + added * np.float64(F32(0.02)) * weight["ws"])

    calls = [{"x": codes_of(UINT8, b, 20)} for b in (1, 4, 9)]
    if has_scale:
        check_codes(model, calls, formula, 2.5, 10, np.uint8)
    else:
        check_calls(model, calls, formula)


# -- weights of a few bits -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("zeros", ["middle", "packed", "floats"])
@pytest.mark.parametrize("sizes", [(64, 32, 32), (100, 17, 32), (48, 5, 16), (130, 9, 64)], ids=str)
@pytest.mark.parametrize("bits", [2, 4, 8])
def test_matmul_nbits(bits: int, sizes: tuple[int, int, int], zeros: str) -> None:
    depth, count, block = sizes
    blocks = -(-depth // block)
    draw = np.random.default_rng(bits)
    codes = draw.integers(0, 1 << bits, (count, blocks, block))
    scales = draw.uniform(0.01, 0.2, (count, blocks)).astype(F32)
    offsets = draw.integers(0, 1 << bits, (count, blocks))

    def packed(numbers: Any) -> Any:
        """The first code in the lowest bits of a byte; rows are filled up to whole bytes."""
        each = 8 // bits
        filled = np.pad(numbers, [(0, 0)] * (numbers.ndim - 1) + [(0, -numbers.shape[-1] % each)])
        apart = filled.reshape(*filled.shape[:-1], -1, each)
        return (apart << np.arange(0, 8, bits)).sum(-1).astype(np.uint8)

    constants = {"w": packed(codes), "s": scales}
    if zeros == "packed":
        constants["z"] = packed(offsets)
    elif zeros == "floats":
        offsets = draw.uniform(0, (1 << bits) - 1, (count, blocks)).astype(F32)
        constants["z"] = offsets
    else:
        offsets = np.full((count, blocks), 1 << (bits - 1))
    model = node_model(
        "MatMulNBits", {"x": (FLOAT, ("b", "s", depth))}, constants, "x w s" + " z" * ("z" in constants),
        K=depth, N=count, bits=bits, block_size=block,
    )  # fmt: skip
    decoded = ((codes - offsets[..., None].astype(np.float64)) * scales[..., None]).reshape(count, -1)[:, :depth]
    check_calls(model, [{"x": floats(b, s, depth) * 0.1} for b, s in CALLS], lambda x: x @ decoded.T)


@pytest.mark.parametrize("has_zeros", [False, True])
def test_weights_of_halves_stay_blocks(has_zeros: bool) -> None:
    """Scales, and products of them with zero points, that halves hold: nothing is decoded."""
    draw = np.random.default_rng(0)
    packed = draw.integers(0, 256, (7, 2, 32)).astype(np.uint8)
    scales = (2.0 ** -draw.integers(3, 7, (7, 2))).astype(F32)
    constants = {
        "w": packed,
        "s": scales,
        **({"z": draw.integers(0, 256, (7, 1)).astype(np.uint8)} if has_zeros else {}),
    }
    model = node_model(
        "MatMulNBits", {"x": (FLOAT, ("b", "s", 128))}, constants, "x w s" + " z" * has_zeros, K=128, N=7, bits=4, block_size=64
    )  # fmt: skip
    formats = [op.attribute("format") for op in imported(model).module.walk() if isinstance(op, Dequantize)]
    assert formats == ["q4_1" if has_zeros else "q4_0"]
    halves = constants["z"] if has_zeros else np.full((7, 1), 0x88)
    zeros = np.concatenate([halves & 15, halves >> 4], 1)
    codes = np.stack([packed & 15, packed >> 4], 3).reshape(7, 2, 64)
    decoded = ((codes - zeros[..., None].astype(np.float64)) * scales[..., None]).reshape(7, 128)
    check_calls(model, [{"x": floats(b, s, 128) * 0.1} for b, s in CALLS], lambda x: x @ decoded.T)


def test_weights_whose_blocks_are_in_another_order() -> None:
    draw = np.random.default_rng(0)
    packed, scales = draw.integers(0, 256, (8, 2, 16)).astype(np.uint8), draw.uniform(0.01, 0.2, (8, 2)).astype(F32)
    group = draw.integers(0, 2, 64).astype(np.int32)
    model = node_model(
        "MatMulNBits", {"x": (FLOAT, ("b", "s", 64))}, {"w": packed, "s": scales, "g": group}, "x w s - g",
        K=64, N=8, bits=4, block_size=32,
    )  # fmt: skip
    codes = np.stack([packed & 15, packed >> 4], 3).reshape(8, 64).astype(np.float64)
    decoded = (codes - 8) * scales[:, group]
    check_calls(model, [{"x": floats(b, s, 64) * 0.1} for b, s in CALLS], lambda x: x @ decoded.T)


@pytest.mark.parametrize("per_column", [False, True])
def test_qattention(per_column: bool) -> None:
    weight, bias = weight_of(INT8, per_column, 16, 48), floats(48)
    weight["ws"] = weight["ws"] * F32(0.01)
    inputs = {"x": (UINT8, ("b", "s", 16)), "m": (INT32, ("b", "t")), "past": (FLOAT, (2, "b", 4, "p", 4))}
    constants = {**weight, "c": bias, "xs": F32(0.02), "xz": np.uint8(120)}
    model = node_model("QAttention", inputs, constants, "x w c xs ws m xz wz past", "y present", num_heads=4)
    decoded = real(weight["w"], weight["ws"], weight["wz"])

    def formula(x: Any, m: Any, past: Any) -> tuple[Any, Any]:
        q, k, v = (heads_of(each, 4) for each in np.split(real(x, F32(0.02), 120) @ decoded + bias, 3, axis=2))
        k, v = (np.concatenate(each, 2) for each in zip(past, (k, v), strict=True))
        return attention(q, k, v, np.where(m[:, None, None] != 0, 0, -1e4)), np.stack([k, v])

    calls = [
        {"x": codes_of(UINT8, b, s, 16), "m": lengths_mask(b, s + p), "past": floats(2, b, 4, p, 4)} for b, s, p in PASTS
    ]  # fmt: skip
    check_calls(model, calls, formula)


# -- floats between codes --------------------------------------------------------------------------------------------------


def linear(
    form: str,
    weight: Mapping[str, Any],
    *,
    axis: int = 1,
    activation: int = UINT8,
    x_scale: Any = X_SCALE,
    depth: int = 20,
) -> Any:
    """A quantised linear layer as exports write it: x is quantised, and codes of both are made floats in front of the product."""
    x_zero = np.full(np.shape(x_scale), 7, TYPES[activation])
    turned = form in ("Gemm-turned", "Transpose")
    constants = {**weight, "xs": np.asarray(x_scale), "xz": x_zero, "c": floats(10)}
    if turned:
        constants["w"] = weight["w"].T.copy()
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "xs", "xz"], ["xq"]),
        helper.make_node("DequantizeLinear", ["xq", "xs", "xz"], ["xd"]),
        helper.make_node("DequantizeLinear", ["w", "ws", "wz"], ["wd"], axis=1 - axis if turned else axis),
    ]
    if form == "Transpose":
        nodes.append(helper.make_node("Transpose", ["wd"], ["wt"], perm=[1, 0]))
    if form.startswith("Gemm"):
        nodes.append(helper.make_node("Gemm", ["xd", "wd", "c"], ["y"], transB=int(turned), alpha=0.5))
    else:
        nodes.append(helper.make_node("MatMul", ["xd", "wt" if turned else "wd"], ["m"]))
        nodes.append(helper.make_node("Add", ["m", "c"], ["y"]))
    shape = ("s", depth) if form.startswith("Gemm") else ("b", "s", depth)
    return model_of(nodes, {"x": (FLOAT, shape)}, ["y"], constants, opset=17)


def linear_formula(form: str, weight: Mapping[str, Any], activation: int = UINT8, x_scale: Any = X_SCALE) -> Any:
    bounds, axis_scale = np.iinfo(TYPES[activation]), np.asarray(x_scale)[..., None] if np.ndim(x_scale) else x_scale
    columns = real(weight["w"], weight["ws"], weight["wz"])

    def formula(x: Any) -> Any:
        codes = np.clip(np.round(x.astype(F32) / axis_scale) + 7, bounds.min, bounds.max)
        product = real(codes, axis_scale, 7) @ columns
        return (0.5 if form.startswith("Gemm") else 1) * product + floats(10)

    return formula


def products_of(model: ImportedModel) -> list[bool]:
    """Of each product of the program, whether it sums integers."""
    products = [op for op in model.module.walk() if isinstance(op, DotGeneral)]
    return [op.result_dtype == I32 for op in products]


@pytest.mark.parametrize("form", ["MatMul", "Gemm", "Gemm-turned", "Transpose"])
@pytest.mark.parametrize("per_column", [False, True])
@pytest.mark.parametrize("pair", [*PAIRS, (INT8, UINT8)], ids=str)
def test_a_linear_layer_between_codes_is_an_integer_product(form: str, per_column: bool, pair: tuple[int, int]) -> None:
    weight = weight_of(pair[1], per_column)
    model = linear(form, weight, activation=pair[0])
    assert products_of(imported(model)) == [True]
    calls = [{"x": floats(*((s, 20) if form.startswith("Gemm") else (b, s, 20)))} for b, s in CALLS]
    check_calls(model, calls, linear_formula(form, weight, pair[0]))


def test_an_integer_product_compiled() -> None:
    weight = {**weight_of(INT8, True, 96, 10), "wz": np.zeros(10, np.int8)}
    model = linear("MatMul", weight, depth=96)
    program = anyshape.compile(model)
    assert program.report().launches == 1
    calls = [{"x": floats(b, s, 96)} for b, s in CALLS]
    check_calls(model, calls, linear_formula("MatMul", weight), is_compiled=True)


def test_products_that_integers_do_not_give_stay_floats() -> None:
    """Scales of the weight's rows, and those of the activation's, vary along what is summed, or by row."""
    weight = {"w": codes_of(INT8, 20, 10), "ws": np.abs(floats(20)), "wz": np.zeros(20, np.int8)}
    model = linear("MatMul", weight, axis=0)
    assert products_of(imported(model)) == [False]
    by_row = {name: each[:, None] if name != "w" else each for name, each in weight.items()}
    check_calls(model, [{"x": floats(b, s, 20)} for b, s in CALLS], linear_formula("MatMul", by_row))
    weight, scales = weight_of(INT8, True), np.array([0.01, 0.02, 0.03], F32)
    model = linear("MatMul", weight, x_scale=scales)
    assert products_of(imported(model)) == [False]
    check_calls(model, [{"x": floats(b, 3, 20)} for b in (1, 2)], linear_formula("MatMul", weight, x_scale=scales))


def test_more_products_than_an_i32_holds_the_sum_of_stay_floats() -> None:
    depth = 33000
    weight = {"w": np.full((depth, 10), -128, np.int8), "ws": F32(0.01), "wz": np.int8(127)}
    model = linear("MatMul", weight, depth=depth)
    assert products_of(imported(model)) == [False]
