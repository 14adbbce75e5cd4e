"""Plans of one scalar op or one reduction, which cover what the three plans do not use."""

from collections.abc import Callable, Sequence

from xdsl.builder import Builder
from xdsl.dialects.builtin import Float16Type, Float32Type, Float64Type, IntegerType
from xdsl.ir import Attribute, SSAValue
from xdsl.rewriter import InsertPoint

from anyshape.dialects.dtypes import BY_NAME
from anyshape.dialects.scalars import Scalars
from anyshape.dialects.tile import (
    KINDS,
    AxisOp,
    DotOp,
    KernelOp,
    LanesOp,
    LoadOp,
    LoopOp,
    ParallelOp,
    ScratchOp,
    SizeOp,
    StoreOp,
    YieldOp,
    buffer,
)
from anyshape.dialects.tile.verify import verify_kernel
from anyshape.symbolic import Size

M, N, K = (Size.symbol(name) for name in "mnk")
UNSIGNED_KINDS = ["umax", "umin"]
SIGNED_KINDS = [kind for kind in KINDS if kind not in UNSIGNED_KINDS]
F16, F32, F64, I1, I32, I64 = Float16Type(), Float32Type(), Float64Type(), *(IntegerType(bits) for bits in (1, 32, 64))

Element = Callable[[Scalars, Sequence[SSAValue]], SSAValue]

SCALARS: dict[str, tuple[Attribute, Element]] = {
    **{
        name: (F32, lambda s, x, name=name: s.function(name, x[0]))
        for name in ("abs", "ceil", "cos", "erf", "exp", "exp2", "floor", "sin")
    },
    **{
        name: (F32, lambda s, x, name=name: s.function(name, s.function("abs", x[0])))
        for name in ("log", "rsqrt", "sqrt")
    },
    "sqrt_f64": (F64, lambda s, x: s.function("sqrt", s.function("abs", x[0]))),
    "div": (F32, lambda s, x: s.div(x[0], x[1])),
    "div_f64": (F64, lambda s, x: s.div(x[0], x[1])),
    "neg": (F32, lambda s, x: s.neg(x[0])),
    "fma": (F32, lambda s, x: s.fma(x[0], x[1], x[0])),
    "maximum": (F32, lambda s, x: s.maximum(x[0], x[1])),
    "minimum": (F32, lambda s, x: s.minimum(x[0], x[1])),
    "select": (F32, lambda s, x: s.select(s.compare("lt", x[0], x[1]), x[0], s.constant(float("inf"), F32))),
    "ne": (F32, lambda s, x: s.select(s.compare("ne", x[0], x[1]), x[0], x[1])),
    "is_nan": (F32, lambda s, x: s.select(s.is_nan(x[0]), s.constant(1.0, F32), x[1])),
    "to_f16": (F32, lambda s, x: s.convert(s.convert(x[0], BY_NAME["f32"], BY_NAME["f16"]), BY_NAME["f16"], BY_NAME["f32"])),
    "to_i32": (F32, lambda s, x: s.convert(s.convert(x[0], BY_NAME["f32"], BY_NAME["i32"]), BY_NAME["i32"], BY_NAME["f32"])),
    "to_bool": (F32, lambda s, x: s.convert(s.convert(x[0], BY_NAME["f32"], BY_NAME["bool"]), BY_NAME["bool"], BY_NAME["f32"])),
    "trunc_div": (I32, lambda s, x: s.trunc_div(x[0], s.constant(3, I32))),
    "trunc_rem": (I32, lambda s, x: s.trunc_rem(x[0], s.constant(3, I32))),
    "unsigned_div": (I32, lambda s, x: s.trunc_div(x[0], s.constant(3, I32), unsigned=True)),
    "unsigned_rem": (I32, lambda s, x: s.trunc_rem(x[0], s.constant(3, I32), unsigned=True)),
    "shifts": (I32, lambda s, x: s.shift_left(s.shift_right(x[0], s.constant(1, I32)), s.constant(2, I32))),
    "unsigned_shift": (I32, lambda s, x: s.shift_right(x[0], s.constant(1, I32), unsigned=True)),
    "unsigned_max": (I32, lambda s, x: s.maximum(x[0], x[1], unsigned=True)),
    "signed_min": (I32, lambda s, x: s.minimum(x[0], x[1])),
    "unsigned_lt": (I32, lambda s, x: s.select(s.compare("lt", x[0], x[1], unsigned=True), x[0], x[1])),
    "bits": (I32, lambda s, x: s.logical_xor(s.logical_and(x[0], x[1]), s.logical_not(x[1]))),
    "widen": (I32, lambda s, x: s.convert(s.convert(x[0], BY_NAME["i32"], BY_NAME["i64"]), BY_NAME["i64"], BY_NAME["i32"])),
    "narrow": (I32, lambda s, x: s.convert(s.convert(x[0], BY_NAME["i32"], BY_NAME["u8"]), BY_NAME["u8"], BY_NAME["i32"])),
    "bools": (I1, lambda s, x: s.logical_or(s.logical_not(x[0]), s.logical_and(x[0], x[1]))),
}  # fmt: skip
"""Element type, and an element of the result from those of the two operands."""


def _at_end(op: KernelOp | ParallelOp | AxisOp | DotOp) -> Builder:
    return Builder(InsertPoint.at_end(op.body.block))


def scalar_plan(element: Attribute, of: Element) -> KernelOp:
    """out[j] = of(x[j], y[j])."""
    kernel = KernelOp("scalar", ["n"], [buffer(element, [N])] * 3)
    *operands, out = kernel.body.block.args
    lanes = _at_end(kernel).insert(LanesOp(N))
    inner = _at_end(lanes)
    result = of(Scalars(inner), [inner.insert(LoadOp(each, [lanes.index])).result for each in operands])
    inner.insert(StoreOp(result, out, [lanes.index]))
    inner.insert(YieldOp())
    verify_kernel(kernel)
    return kernel


def row_reduction(kind: str, element: Attribute) -> KernelOp:
    """out[i] = the elements x[i, :] reduced, in lanes."""
    kernel = KernelOp("rows", ["m", "n"], [buffer(element, [M, N]), buffer(element, [M])])
    x, out = kernel.body.block.args
    nest = _at_end(kernel).insert(ParallelOp([M]))
    lanes = _at_end(nest).insert(LanesOp(N, [kind], [element]))
    inner = _at_end(lanes)
    inner.insert(YieldOp(inner.insert(LoadOp(x, [*nest.indices, lanes.index])).result))
    _at_end(nest).insert(StoreOp(lanes.results[0], out, nest.indices))
    verify_kernel(kernel)
    return kernel


def column_reduction(kind: str, element: Attribute) -> KernelOp:
    """out[j] = the elements x[:, j] reduced, in a loop inside lanes."""
    kernel = KernelOp("columns", ["m", "n"], [buffer(element, [M, N]), buffer(element, [N])])
    x, out = kernel.body.block.args
    lanes = _at_end(kernel).insert(LanesOp(N))
    loop = _at_end(lanes).insert(LoopOp(M, [kind], [element]))
    inner = _at_end(loop)
    inner.insert(YieldOp(inner.insert(LoadOp(x, [loop.index, lanes.index])).result))
    _at_end(lanes).insert(StoreOp(loop.results[0], out, [lanes.index]))
    _at_end(lanes).insert(YieldOp())
    verify_kernel(kernel)
    return kernel


def dot_plan(element: Attribute) -> KernelOp:
    """out[i, j] = Σ_k x[i, k] · y[k, j], a `dot` inside lanes."""
    kernel = KernelOp(
        "dots", ["m", "n", "k"], [buffer(element, [M, K]), buffer(element, [K, N]), buffer(element, [M, N])]
    )
    x, y, out = kernel.body.block.args
    nest = _at_end(kernel).insert(ParallelOp([M]))
    lanes = _at_end(nest).insert(LanesOp(N))
    dot = _at_end(lanes).insert(DotOp(K, element))
    inner = _at_end(dot)
    (i,) = nest.indices
    inner.insert(
        YieldOp(*(inner.insert(LoadOp(*each)).result for each in ((x, [i, dot.index]), (y, [dot.index, lanes.index]))))
    )
    _at_end(lanes).insert(StoreOp(dot.result, out, [i, lanes.index]))
    _at_end(lanes).insert(YieldOp())
    verify_kernel(kernel)
    return kernel


def reversed_row() -> KernelOp:
    """out[i, j] = x[i, n - 1 - j], by way of a kept row."""
    kernel = KernelOp("reversed", ["m", "n"], [buffer(F32, [M, N]), buffer(F32, [M, N])])
    x, out = kernel.body.block.args
    nest = _at_end(kernel).insert(ParallelOp([M]))
    outer = _at_end(nest)
    row = outer.insert(ScratchOp(F32, [N])).result
    write, read = outer.insert(LanesOp(N)), outer.insert(LanesOp(N))
    inner = _at_end(write)
    inner.insert(StoreOp(inner.insert(LoadOp(x, [*nest.indices, write.index])).result, row, [write.index]))
    inner.insert(YieldOp())
    inner = _at_end(read)
    math = Scalars(inner)
    place = math.sub(inner.insert(SizeOp(N - 1)).result, read.index)
    inner.insert(StoreOp(inner.insert(LoadOp(row, [place])).result, out, [*nest.indices, read.index]))
    inner.insert(YieldOp())
    verify_kernel(kernel)
    return kernel
