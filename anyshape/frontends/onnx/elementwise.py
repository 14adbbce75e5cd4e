"""ONNX's elementwise ops."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import reduce

from anyshape.dialects.dhlo import (
    Abs,
    Add,
    And,
    Ceil,
    Clamp,
    Cosine,
    DhloOp,
    Divide,
    Erf,
    Exponential,
    ExponentialMinusOne,
    Floor,
    Gelu,
    IsInf,
    IsNan,
    Log,
    Logistic,
    LogPlusOne,
    Maximum,
    Minimum,
    Modulo,
    Multiply,
    Negate,
    Not,
    Or,
    Power,
    Relu,
    Remainder,
    RoundNearestEven,
    ShiftLeft,
    ShiftRightArithmetic,
    Sign,
    Silu,
    Sine,
    Sqrt,
    Subtract,
    Tanh,
    Xor,
)  # fmt: skip
from anyshape.dialects.dhlo.trigonometric import Acos, Acosh, Asin, Asinh, Atan, Atanh, Cosh, Sinh, Tan
from anyshape.dialects.dtypes import BOOL
from anyshape.frontends.onnx.builder import GraphBuilder
from anyshape.frontends.onnx.dtypes import numpy_of_code
from anyshape.frontends.onnx.refusals import Malformed
from anyshape.frontends.onnx.registry import lowers
from anyshape.frontends.onnx.storage import bits_as, cast, elements_of, shifted_right
from anyshape.frontends.onnx.values import Anything, Stored, Value
from anyshape.nn import Tensor

# -- one to one ------------------------------------------------------------------------------------------------------

_UNARY: Mapping[str, type[DhloOp]] = {
    "Abs": Abs, "Acos": Acos, "Acosh": Acosh, "Asin": Asin, "Asinh": Asinh, "Atan": Atan, "Atanh": Atanh, "BitwiseNot": Not,
    "Ceil": Ceil, "Cos": Cosine, "Cosh": Cosh, "Erf": Erf, "Exp": Exponential, "Floor": Floor, "IsNaN": IsNan, "Log": Log,
    "Neg": Negate, "Not": Not, "Relu": Relu, "Round": RoundNearestEven, "Sigmoid": Logistic, "Sign": Sign, "Sin": Sine,
    "Sinh": Sinh, "Sqrt": Sqrt, "Tan": Tan, "Tanh": Tanh,
}  # fmt: skip

_BINARY: Mapping[str, type[DhloOp]] = {
    "Add": Add, "And": And, "BitwiseAnd": And, "BitwiseOr": Or, "BitwiseXor": Xor, "Div": Divide, "Mul": Multiply, "Or": Or,
    "Sub": Subtract, "Xor": Xor,
}  # fmt: skip

_COMPARISONS: Mapping[str, str] = {
    "Equal": "eq", "Greater": "gt", "GreaterOrEqual": "ge", "Less": "lt", "LessOrEqual": "le",
}  # fmt: skip

_VARIADIC: Mapping[str, type[DhloOp]] = {"Max": Maximum, "Min": Minimum, "Sum": Add}


def _register(table: Mapping[str, type[DhloOp]], lowering: Callable[[type[DhloOp]], Callable[..., Value]]) -> None:
    for op, kind in table.items():
        lowers(op)(lowering(kind))


def _unary(kind: type[DhloOp]) -> Callable[..., Value]:
    def lower_unary(b: GraphBuilder, x: Value) -> Value:
        return b.emit(kind, x)

    return lower_unary


def _binary(kind: type[DhloOp]) -> Callable[..., Value]:
    def lower_binary(b: GraphBuilder, x: Value, y: Value) -> Value:
        return b.binary(kind, x, y)

    return lower_binary


def _variadic(kind: type[DhloOp]) -> Callable[..., Value]:
    def lower_variadic(b: GraphBuilder, first: Value, *others: Value) -> Value:
        return reduce(lambda x, y: b.binary(kind, x, y), others, b.tensor(first))

    return lower_variadic


_register(_UNARY, _unary)
_register(_BINARY, _binary)
_register(_VARIADIC, _variadic)


def _comparison(direction: str) -> Callable[..., Value]:
    def lower_comparison(b: GraphBuilder, x: Value, y: Value) -> Value:
        return b.compare(direction, x, y)

    return lower_comparison


for _op, _direction in _COMPARISONS.items():
    lowers(_op)(_comparison(_direction))


# -- arithmetic ------------------------------------------------------------------------------------------------------


@lowers("Mean")
def lower_mean(b: GraphBuilder, first: Value, *others: Value) -> Value:
    """The elementwise mean of all inputs"""
    total = reduce(lambda x, y: b.binary(Add, x, y), others, b.tensor(first))
    return b.binary(Divide, total, len(others) + 1)


@lowers("Mod")
def lower_mod(b: GraphBuilder, x: Value, y: Value, *, fmod: int = 0) -> Value:
    """The remainder with the sign of y, or, with `fmod`, that of x"""
    return b.binary(Remainder if fmod else Modulo, x, y)


@lowers("Pow")
def lower_pow(b: GraphBuilder, x: Value, y: Value) -> Value:
    """x^y in the dtype of x; an integer x with a float exponent is computed in the exponent's"""
    if not x.dtype.is_float and y.dtype.is_float:
        return b.convert(b.binary(Power, b.convert(x, y.dtype), y), x.dtype)
    return b.binary(Power, x, b.convert(y, x.dtype))


@lowers("Reciprocal")
def lower_reciprocal(b: GraphBuilder, x: Value) -> Value:
    return b.binary(Divide, 1.0, x)


@lowers("BitShift")
def lower_bit_shift(b: GraphBuilder, x: Value | Stored, y: Value | Stored, *, direction: str) -> Value | Stored:
    """x · 2^y or x / 2^y of unsigned integers"""
    if direction not in ("LEFT", "RIGHT"):
        raise Malformed(f"direction is {direction!r}; expected LEFT or RIGHT")
    if isinstance(x, Stored) or isinstance(y, Stored):
        left, right = (elements_of(b, each) for each in (x, y))
        moved = b.binary(ShiftLeft, left, right) if direction == "LEFT" else shifted_right(b, left, right)
        return Stored(moved, x.dtype.numpy if isinstance(x, Tensor) else x.numpy)
    return b.binary(ShiftLeft if direction == "LEFT" else ShiftRightArithmetic, x, y)


@lowers("Clip")
def lower_clip(b: GraphBuilder, x: Value, min: Value | float | None = None, max: Value | float | None = None) -> Value:
    """min(max(x, min), max), with each bound that there is"""
    bounds = [None if each is None else b.broadcast(b.operand(each, x.dtype), x.sizes) for each in (min, max)]
    low, high = bounds
    if low is not None and high is not None:
        return b.emit(Clamp, low, x, high)
    if low is not None:
        return b.emit(Maximum, x, low)
    return b.tensor(x) if high is None else b.emit(Minimum, x, high)


# -- activations -----------------------------------------------------------------------------------------------------


@lowers("LeakyRelu")
def lower_leaky_relu(b: GraphBuilder, x: Value, *, alpha: float = 0.01) -> Value:
    """x where x > 0, else alpha·x"""
    return b.select(b.compare("gt", x, 0), x, b.binary(Multiply, x, alpha))


@lowers("PRelu")
def lower_prelu(b: GraphBuilder, x: Value, slope: Value) -> Value:
    """x where x ≥ 0, else slope·x; the slope is broadcast to x"""
    return b.select(b.compare("ge", x, 0), x, b.binary(Multiply, x, b.broadcast(slope, x.sizes)))


@lowers("ThresholdedRelu")
def lower_thresholded_relu(b: GraphBuilder, x: Value, *, alpha: float = 1.0) -> Value:
    """x where x > alpha, else 0"""
    return b.select(b.compare("gt", x, alpha), x, 0)


@lowers("Elu")
def lower_elu(b: GraphBuilder, x: Value, *, alpha: float = 1.0) -> Value:
    """x where x > 0, else alpha·(eˣ − 1)"""
    return b.select(b.compare("gt", x, 0), x, b.binary(Multiply, b.emit(ExponentialMinusOne, x), alpha))


@lowers("Celu")
def lower_celu(b: GraphBuilder, x: Value, *, alpha: float = 1.0) -> Value:
    """x where x > 0, else alpha·(e^(x/alpha) − 1)"""
    below = b.binary(Multiply, b.emit(ExponentialMinusOne, b.binary(Divide, x, alpha)), alpha)
    return b.select(b.compare("gt", x, 0), x, below)


@lowers("Selu")
def lower_selu(
    b: GraphBuilder, x: Value, *, alpha: float = 1.6732632423543772, gamma: float = 1.0507009873554805
) -> Value:
    """gamma·(x where x > 0, else alpha·(eˣ − 1))"""
    return b.binary(Multiply, lower_elu(b, x, alpha=alpha), gamma)


@lowers("Gelu")
def lower_gelu(b: GraphBuilder, x: Value, *, approximate: str = "none") -> Value:
    return b.emit(Gelu, x, approximate=approximate)


@lowers("HardSigmoid")
def lower_hard_sigmoid(b: GraphBuilder, x: Value, *, alpha: float = 0.2, beta: float = 0.5) -> Value:
    """alpha·x + beta, clamped to [0, 1]"""
    return lower_clip(b, b.binary(Add, b.binary(Multiply, x, alpha), beta), 0.0, 1.0)


@lowers("HardSwish")
def lower_hard_swish(b: GraphBuilder, x: Value) -> Value:
    """x · (x/6 + 1/2 clamped to [0, 1])"""
    return b.binary(Multiply, x, lower_hard_sigmoid(b, x, alpha=1 / 6, beta=0.5))


@lowers("Swish")
def lower_swish(b: GraphBuilder, x: Value, *, alpha: float = 1.0) -> Value:
    """x · σ(alpha·x)"""
    if alpha == 1:
        return b.emit(Silu, x)
    return b.binary(Multiply, x, b.emit(Logistic, b.binary(Multiply, x, alpha)))


def softplus(b: GraphBuilder, x: Value) -> Value:
    """ln(1 + eˣ) = max(x, 0) + ln(1 + e^−|x|)"""
    return b.binary(
        Add, b.binary(Maximum, x, 0), b.emit(LogPlusOne, b.emit(Exponential, b.emit(Negate, b.emit(Abs, x))))
    )


@lowers("Softplus")
def lower_softplus(b: GraphBuilder, x: Value) -> Value:
    return softplus(b, x)


@lowers("Mish")
def lower_mish(b: GraphBuilder, x: Value) -> Value:
    """x · tanh(ln(1 + eˣ))"""
    return b.binary(Multiply, x, b.emit(Tanh, softplus(b, x)))


@lowers("Softsign")
def lower_softsign(b: GraphBuilder, x: Value) -> Value:
    """x / (1 + |x|)"""
    return b.binary(Divide, x, b.binary(Add, b.emit(Abs, x), 1))


@lowers("Shrink")
def lower_shrink(b: GraphBuilder, x: Value, *, bias: float = 0.0, lambd: float = 0.5) -> Value:
    """x + bias where x < −lambd, x − bias where x > lambd, else 0"""
    outside = b.select(b.compare("gt", x, lambd), b.binary(Subtract, x, bias), 0)
    return b.select(b.compare("lt", x, -lambd), b.binary(Add, x, bias), outside)


# -- tests, choices and conversions ----------------------------------------------------------------------------------


@lowers("IsInf")
def lower_isinf(b: GraphBuilder, x: Value, *, detect_negative: int = 1, detect_positive: int = 1) -> Value:
    infinite = b.emit(IsInf, x)
    if detect_negative and detect_positive:
        return infinite
    if not detect_negative and not detect_positive:
        return b.constant(False, BOOL, x.sizes)
    return b.binary(And, infinite, b.compare("gt" if detect_positive else "lt", x, 0))


@lowers("Where")
def lower_where(b: GraphBuilder, condition: Value, on_true: Value, on_false: Value) -> Value:
    return b.select(condition, on_true, on_false)


@lowers("Cast")
def lower_cast(
    b: GraphBuilder, x: Value | Stored, *, to: int, saturate: int = 1, round_mode: str = "up"
) -> Value | Stored:
    """x in another type: floats are truncated to integers, and anything but 0 is true"""
    return cast(b, x, numpy_of_code(to), saturate=bool(saturate), round_mode=round_mode)


@lowers("CastLike")
def lower_cast_like(
    b: GraphBuilder, x: Value | Stored, like: Value | Stored, *, saturate: int = 1, round_mode: str = "up"
) -> Value | Stored:
    """x in the type of `like`"""
    numpy = like.dtype.numpy if isinstance(like, Tensor) else like.numpy
    return cast(b, x, numpy, saturate=bool(saturate), round_mode=round_mode)


@lowers("BitCast")
def lower_bit_cast(b: GraphBuilder, x: Value | Stored, *, to: int) -> Value | Stored:
    """The same bits as another type of the same width"""
    return bits_as(b, x, numpy_of_code(to))


@lowers("Identity")
def lower_identity(_: GraphBuilder, x: Anything) -> list[Anything]:
    return [x]


__all__ = ["softplus"]
