"""ATen's arithmetic, functions, comparisons and products of complex tensors, which are pairs of planes (`planes.py`)."""

# PyTorch is typed in part only.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import SSAValue

from anyshape.dialects.dhlo import (
    Abs,
    Add,
    And,
    Compare,
    Cosine,
    Divide,
    Exponential,
    Log,
    Multiply,
    Negate,
    Or,
    Select,
    Sine,
    Sqrt,
    Subtract,
)
from anyshape.dialects.dhlo.base import DhloOp
from anyshape.dialects.dhlo.magnitudes import CopySign, Hypot
from anyshape.dialects.dhlo.trigonometric import Atan2, Cosh, Sinh
from anyshape.dialects.sizes import dtype_of, rank_of, sizes_of
from anyshape.frontends.torch.builder import LOWERINGS, GraphBuilder, Value
from anyshape.frontends.torch.contraction import product
from anyshape.frontends.torch.planes import Planes, as_planes, complex_op, lower_conj, turned
from anyshape.frontends.torch.unsupported import Unsupported

# -- arithmetic ------------------------------------------------------------------------------------------------------


def _operands(builder: GraphBuilder, *values: Value) -> list[Planes]:
    return [as_planes(builder, value, builder.result_dtype, builder.result_sizes) for value in values]


def _each(builder: GraphBuilder, kind: type[DhloOp], a: Planes, b: Planes) -> Planes:
    return Planes(builder.emit(kind, a.real, b.real), builder.emit(kind, a.imaginary, b.imaginary))


def _multiplied(builder: GraphBuilder, a: Planes, b: Planes) -> Planes:
    """(a + ib)(c + id) = (ac − bd) + i(ad + bc)"""
    real = builder.emit(
        Subtract, builder.emit(Multiply, a.real, b.real), builder.emit(Multiply, a.imaginary, b.imaginary)
    )
    imaginary = builder.emit(
        Add, builder.emit(Multiply, a.real, b.imaginary), builder.emit(Multiply, a.imaginary, b.real)
    )
    return Planes(real, imaginary)


def _divided(builder: GraphBuilder, a: Planes, b: Planes) -> Planes:
    """a·conj(b)/|b|², both scaled by the larger part of b, so that no square overflows (R. Smith, CACM 5, 1962)"""
    first, second = (builder.emit(Abs, part) for part in (b.real, b.imaginary))
    larger = builder.emit(Select, builder.emit(Compare, first, second, direction="lt"), second, first)
    scaled = Planes(*(builder.emit(Divide, part, larger) for part in (b.real, b.imaginary)))
    squares = (builder.emit(Multiply, part, part) for part in (scaled.real, scaled.imaginary))
    divisor = builder.emit(Multiply, builder.emit(Add, *squares), larger)
    numerator = _multiplied(builder, a, Planes(scaled.real, builder.emit(Negate, scaled.imaginary)))
    return Planes(*(builder.emit(Divide, part, divisor) for part in (numerator.real, numerator.imaginary)))


@complex_op("aten.add.Tensor", "aten.add.Scalar")
def lower_add(builder: GraphBuilder, lhs: Value, rhs: Value, alpha: Value = 1) -> Planes:
    a, b = _operands(builder, lhs, rhs)
    return _each(builder, Add, a, b if alpha == 1 else _multiplied(builder, b, *_operands(builder, alpha)))


@complex_op("aten.sub.Tensor", "aten.sub.Scalar")
def lower_sub(builder: GraphBuilder, lhs: Value, rhs: Value, alpha: Value = 1) -> Planes:
    a, b = _operands(builder, lhs, rhs)
    return _each(builder, Subtract, a, b if alpha == 1 else _multiplied(builder, b, *_operands(builder, alpha)))


@complex_op("aten.mul.Tensor", "aten.mul.Scalar")
def lower_mul(builder: GraphBuilder, lhs: Value, rhs: Value) -> Planes:
    return _multiplied(builder, *_operands(builder, lhs, rhs))


@complex_op("aten.div.Tensor", "aten.div.Scalar")
def lower_div(builder: GraphBuilder, lhs: Value, rhs: Value) -> Planes:
    a, b = _operands(builder, lhs, rhs)
    if isinstance(rhs, Planes | complex):
        return _divided(builder, a, b)
    return Planes(*(builder.emit(Divide, part, b.real) for part in (a.real, a.imaginary)))


@complex_op("aten.reciprocal.default")
def lower_reciprocal(builder: GraphBuilder, x: Planes) -> Planes:
    return _divided(builder, *_operands(builder, 1.0, x))


@complex_op("aten.pow.Tensor_Scalar")
def lower_pow(builder: GraphBuilder, x: Planes, exponent: Value) -> Planes:
    """Small whole exponents are products"""
    if exponent not in (1, 2, 3):
        raise Unsupported(f"a complex number to the power {exponent}")
    result = x
    for _ in range(int(exponent) - 1):
        result = _multiplied(builder, result, x)
    return result


@complex_op("aten.abs.default")
def lower_abs(builder: GraphBuilder, x: Planes) -> SSAValue:
    return builder.emit(Hypot, x.real, x.imaginary)


@complex_op("aten.linalg_vector_norm.default")
def lower_vector_norm(
    builder: GraphBuilder, x: Planes, order: float = 2, dim: Value = None, keepdim: bool = False, **_: Value
) -> SSAValue:
    """The norm of the magnitudes"""
    return LOWERINGS["aten.linalg_vector_norm.default"](builder, lower_abs(builder, x), order, dim, keepdim)


@complex_op("aten.angle.default")
def lower_angle(builder: GraphBuilder, x: Planes) -> SSAValue:
    return builder.emit(Atan2, x.imaginary, x.real)


@complex_op("aten.sgn.default")
def lower_sgn(builder: GraphBuilder, x: Planes) -> Planes:
    """x/|x|, 0 of 0"""
    magnitude = lower_abs(builder, x)
    dtype, sizes = dtype_of(magnitude.type), sizes_of(magnitude.type)
    zero, one = builder.constant(0.0, dtype, sizes), builder.constant(1.0, dtype, sizes)
    divisor = builder.emit(Select, builder.emit(Compare, magnitude, zero, direction="eq"), one, magnitude)
    return Planes(*(builder.emit(Divide, part, divisor) for part in (x.real, x.imaginary)))


# -- functions -------------------------------------------------------------------------------------------------------


@complex_op("aten.exp.default")
def lower_exp(builder: GraphBuilder, x: Planes) -> Planes:
    """eᵃ·(cos b + i·sin b)"""
    return turned(builder, builder.emit(Exponential, x.real), x.imaginary)


@complex_op("aten.log.default")
def lower_log(builder: GraphBuilder, x: Planes) -> Planes:
    """ln |x| + i·angle x"""
    return Planes(builder.emit(Log, lower_abs(builder, x)), lower_angle(builder, x))


@complex_op("aten.sqrt.default")
def lower_sqrt(builder: GraphBuilder, x: Planes) -> Planes:
    """√((|x| + a)/2) + i·sign(b)·√((|x| − a)/2), the smaller part from the larger one: their product is b/2"""
    magnitude, dtype, sizes = lower_abs(builder, x), dtype_of(x.real.type), sizes_of(x.real.type)
    half, zero = builder.constant(0.5, dtype, sizes), builder.constant(0.0, dtype, sizes)
    total = builder.emit(Add, magnitude, builder.emit(Abs, x.real))
    large = builder.emit(Sqrt, builder.emit(Multiply, total, half))
    quotient = builder.emit(Divide, builder.emit(Multiply, builder.emit(Abs, x.imaginary), half), large)
    small = builder.emit(Select, builder.emit(Compare, large, zero, direction="eq"), zero, quotient)
    is_left = builder.emit(Compare, x.real, zero, direction="lt")
    real = builder.emit(Select, is_left, small, large)
    imaginary = builder.emit(CopySign, builder.emit(Select, is_left, large, small), x.imaginary)
    return Planes(real, imaginary)


def _register_waves(
    name: str, real: tuple[type[DhloOp], type[DhloOp]], imaginary: tuple[type[DhloOp], ...], sign: int
) -> None:
    """A function f(a + ib) = p(a)·q(b) ± i·r(a)·s(b)."""

    @complex_op(f"aten.{name}.default")
    def lower_wave(builder: GraphBuilder, x: Planes) -> Planes:  # pyright: ignore[reportUnusedFunction]
        first, second = (
            builder.emit(Multiply, builder.emit(of_a, x.real), builder.emit(of_b, x.imaginary))
            for of_a, of_b in (real, imaginary)
        )
        return Planes(first, second if sign > 0 else builder.emit(Negate, second))


_register_waves("sin", (Sine, Cosh), (Cosine, Sinh), 1)
_register_waves("cos", (Cosine, Cosh), (Sine, Sinh), -1)
_register_waves("sinh", (Sinh, Cosine), (Cosh, Sine), 1)
_register_waves("cosh", (Cosh, Cosine), (Sinh, Sine), 1)


# -- comparisons, selection, creation --------------------------------------------------------------------------------


def _compared(builder: GraphBuilder, lhs: Value, rhs: Value, direction: str, joined: type[DhloOp]) -> SSAValue:
    given = lhs if isinstance(lhs, Planes) else rhs
    dtype = dtype_of(given.real.type)
    a, b = (as_planes(builder, value, dtype, builder.result_sizes) for value in (lhs, rhs))
    return builder.emit(
        joined,
        builder.emit(Compare, a.real, b.real, direction=direction),
        builder.emit(Compare, a.imaginary, b.imaginary, direction=direction),
    )


@complex_op("aten.eq.Tensor", "aten.eq.Scalar")
def lower_eq(builder: GraphBuilder, lhs: Value, rhs: Value) -> SSAValue:
    return _compared(builder, lhs, rhs, "eq", And)


@complex_op("aten.ne.Tensor", "aten.ne.Scalar")
def lower_ne(builder: GraphBuilder, lhs: Value, rhs: Value) -> SSAValue:
    return _compared(builder, lhs, rhs, "ne", Or)


@complex_op("aten.where.self")
def lower_where(builder: GraphBuilder, condition: SSAValue, on_true: Value, on_false: Value) -> Planes:
    predicate = builder.broadcast(condition, builder.result_sizes)
    a, b = _operands(builder, on_true, on_false)
    return Planes(
        builder.emit(Select, predicate, a.real, b.real), builder.emit(Select, predicate, a.imaginary, b.imaginary)
    )


@complex_op("aten._to_copy.default", "aten.to.dtype", "prims.convert_element_type.default")
def lower_to_copy(builder: GraphBuilder, x: Value, *_: Value, **__: Value) -> Value:
    """Complex to real drops the imaginary part."""
    if builder.node.meta["val"].is_complex():
        return _operands(builder, x)[0]
    return builder.convert(x.real, builder.result_dtype)


@complex_op("aten.full.default", "aten.full_like.default", "aten.fill.Scalar")
def lower_full(builder: GraphBuilder, _like: Value, value: Value, **_: Value) -> Planes:
    return _operands(builder, value)[0]


@complex_op("aten.scalar_tensor.default")
def lower_scalar_tensor(builder: GraphBuilder, value: Value, **_: Value) -> Planes:
    return _operands(builder, value)[0]


# -- products --------------------------------------------------------------------------------------------------------


def _complex_product(
    builder: GraphBuilder, lhs: Value, rhs: Value, contract: tuple[int, int], batch: Sequence[int] = ()
) -> Planes:
    """Four real products, or two where a side is real."""

    def real(a: SSAValue, b: SSAValue) -> SSAValue:
        return product(builder, a, b, contract, batch)

    if not isinstance(lhs, Planes):
        return Planes(real(lhs, rhs.real), real(lhs, rhs.imaginary))
    if not isinstance(rhs, Planes):
        return Planes(real(lhs.real, rhs), real(lhs.imaginary, rhs))
    return Planes(
        builder.emit(Subtract, real(lhs.real, rhs.real), real(lhs.imaginary, rhs.imaginary)),
        builder.emit(Add, real(lhs.real, rhs.imaginary), real(lhs.imaginary, rhs.real)),
    )


@complex_op("aten.mm.default", "aten.mv.default", "aten.dot.default")
def lower_mm(builder: GraphBuilder, lhs: Planes, rhs: Planes) -> Planes:
    return _complex_product(builder, lhs, rhs, (rank_of(lhs.real.type) - 1, 0))


@complex_op("aten.bmm.default")
def lower_bmm(builder: GraphBuilder, lhs: Planes, rhs: Planes) -> Planes:
    return _complex_product(builder, lhs, rhs, (2, 1), batch=(0,))


@complex_op("aten.vdot.default")
def lower_vdot(builder: GraphBuilder, lhs: Planes, rhs: Planes) -> Planes:
    return _complex_product(builder, lower_conj(builder, lhs), rhs, (0, 0))


@complex_op("aten.addmm.default")
def lower_addmm(
    builder: GraphBuilder, bias: Planes, lhs: Planes, rhs: Planes, *, beta: Value = 1, alpha: Value = 1
) -> Planes:
    """beta·bias + alpha·(lhs · rhs)"""
    sides = [lower_mm(builder, lhs, rhs), *_operands(builder, bias)]
    scaled = [
        side if factor == 1 else _multiplied(builder, side, *_operands(builder, factor))
        for side, factor in zip(sides, (alpha, beta), strict=True)
    ]
    return _each(builder, Add, *scaled)


@complex_op("aten.matmul.default")
def lower_matmul(builder: GraphBuilder, lhs: Value, rhs: Value) -> Planes:
    matmul = LOWERINGS["aten.matmul.default"]

    def real(a: SSAValue, b: SSAValue) -> SSAValue:
        return matmul(builder, a, b)

    return Planes(
        builder.emit(Subtract, real(lhs.real, rhs.real), real(lhs.imaginary, rhs.imaginary)),
        builder.emit(Add, real(lhs.real, rhs.imaginary), real(lhs.imaginary, rhs.real)),
    )
