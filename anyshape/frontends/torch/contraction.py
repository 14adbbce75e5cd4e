"""ATen products: linear layers, matrix products, attention."""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt

from xdsl.ir import SSAValue

from anyshape.dialects.dhlo import Add, Attention, DotGeneral, Multiply, Reduce, Rsqrt, Transpose
from anyshape.dialects.dtypes import F64, I32
from anyshape.dialects.sizes import dtype_of, numel, rank_of, sizes_of
from anyshape.frontends.torch.builder import GraphBuilder, Value, lowers
from anyshape.frontends.torch.unsupported import Unsupported
from anyshape.symbolic import Size


def product(
    builder: GraphBuilder,
    lhs: SSAValue,
    rhs: SSAValue,
    contract: tuple[int, int],
    batch: Sequence[int] = (),
) -> SSAValue:
    """Σ over one axis of each, after common leading batch axes; sizes: batch, rest of lhs, rest of rhs.

    Raises:
        Unsupported: the factors have two dtypes, which PyTorch refuses when it runs.
    """
    if dtype_of(lhs.type) != dtype_of(rhs.type):
        raise Unsupported(f"a product of {dtype_of(lhs.type)} and {dtype_of(rhs.type)}, which PyTorch refuses too")
    return builder.emit(
        DotGeneral,
        lhs,
        rhs,
        lhs_batch=tuple(batch),
        rhs_batch=tuple(batch),
        lhs_contract=(contract[0],),
        rhs_contract=(contract[1],),
    )


def plus(builder: GraphBuilder, x: SSAValue, bias: Value) -> SSAValue:
    if bias is None:
        return x
    return builder.emit(Add, x, builder.broadcast(builder.convert(bias, dtype_of(x.type)), sizes_of(x.type)))


def times(builder: GraphBuilder, x: SSAValue, factor: Value) -> SSAValue:
    if isinstance(factor, int | float) and factor == 1:
        return x
    dtype, sizes = dtype_of(x.type), sizes_of(x.type)
    return builder.emit(Multiply, x, builder.broadcast(builder.operand(factor, dtype, sizes), sizes))


@lowers("aten.linear.default")
def lower_linear(builder: GraphBuilder, x: SSAValue, weight: SSAValue, bias: Value = None) -> SSAValue:
    """x · weightᵀ + bias"""
    result = product(builder, x, weight, (rank_of(x.type) - 1, rank_of(weight.type) - 1))
    return plus(builder, result, bias)


@lowers("aten.mm.default")
def lower_mm(builder: GraphBuilder, lhs: SSAValue, rhs: SSAValue) -> SSAValue:
    return product(builder, lhs, rhs, (1, 0))


@lowers("aten._int_mm.default")
def lower_int_mm(builder: GraphBuilder, lhs: SSAValue, rhs: SSAValue) -> SSAValue:
    """i8 · i8 summed in i32."""
    return builder.emit(DotGeneral, lhs, rhs, lhs_contract=(1,), rhs_contract=(0,), dtype=I32)


@lowers("aten.bmm.default")
def lower_bmm(builder: GraphBuilder, lhs: SSAValue, rhs: SSAValue) -> SSAValue:
    return product(builder, lhs, rhs, (2, 1), batch=(0,))


@lowers("aten.addmm.default")
def lower_addmm(
    builder: GraphBuilder, bias: SSAValue, lhs: SSAValue, rhs: SSAValue, *, beta: Value = 1, alpha: Value = 1
) -> SSAValue:
    """beta·bias + alpha·(lhs · rhs)"""
    return plus(builder, times(builder, lower_mm(builder, lhs, rhs), alpha), times(builder, bias, beta))


@lowers("aten.baddbmm.default")
def lower_baddbmm(
    builder: GraphBuilder, bias: SSAValue, lhs: SSAValue, rhs: SSAValue, *, beta: Value = 1, alpha: Value = 1
) -> SSAValue:
    """beta·bias + alpha·(lhs · rhs), a matrix product for each index of the first axis"""
    return plus(builder, times(builder, lower_bmm(builder, lhs, rhs), alpha), times(builder, bias, beta))


@lowers("aten.addbmm.default")
def lower_addbmm(
    builder: GraphBuilder, bias: SSAValue, lhs: SSAValue, rhs: SSAValue, *, beta: Value = 1, alpha: Value = 1
) -> SSAValue:
    """beta·bias + alpha·Σ_b (lhs[b] · rhs[b]): one product over b and k together"""
    batch, rows, depth = sizes_of(lhs.type)
    left = builder.reshape(builder.emit(Transpose, lhs, permutation=(1, 0, 2)), (rows, batch * depth))
    right = builder.reshape(rhs, (batch * depth, sizes_of(rhs.type)[2]))
    return plus(builder, times(builder, lower_mm(builder, left, right), alpha), times(builder, bias, beta))


@lowers("aten._trilinear.default")
def lower_trilinear(
    builder: GraphBuilder,
    first: SSAValue,
    second: SSAValue,
    third: SSAValue,
    expand1: Sequence[int],
    expand2: Sequence[int],
    expand3: Sequence[int],
    sumdim: Sequence[int],
    *_: Value,
) -> SSAValue:
    """Σ first·second·third over `sumdim`, each with added axes of 1 at its `expand`"""
    factors: list[SSAValue] = []
    for factor, added in ((first, expand1), (second, expand2), (third, expand3)):
        sizes = list(sizes_of(factor.type))
        for axis in sorted(added):
            sizes.insert(axis, Size.const(1))
        factors.append(builder.reshape(factor, sizes))
    common = builder.common_sizes(*(sizes_of(factor.type) for factor in factors))
    a, b, c = (builder.broadcast(factor, common) for factor in factors)
    terms = builder.emit(Multiply, builder.emit(Multiply, a, b), c)
    return builder.emit(Reduce, terms, axes=tuple(sorted(sumdim)), kind="sum")


@lowers("aten.mv.default", "aten.dot.default")
def lower_mv(builder: GraphBuilder, lhs: SSAValue, rhs: SSAValue) -> SSAValue:
    return product(builder, lhs, rhs, (rank_of(lhs.type) - 1, 0))


@lowers("aten.addmv.default")
def lower_addmv(
    builder: GraphBuilder, bias: SSAValue, lhs: SSAValue, rhs: SSAValue, *, beta: Value = 1, alpha: Value = 1
) -> SSAValue:
    """beta·bias + alpha·(lhs · rhs) of a matrix and a vector"""
    return plus(builder, times(builder, lower_mv(builder, lhs, rhs), alpha), times(builder, bias, beta))


@lowers("aten.matmul.default")
def lower_matmul(builder: GraphBuilder, lhs: SSAValue, rhs: SSAValue) -> SSAValue:
    """Σ_k lhs[…, i, k] · rhs[…, k, j]; a vector on a side has no axis there in the result"""
    left, right = rank_of(lhs.type), rank_of(rhs.type)
    if right <= 2:
        return product(builder, lhs, rhs, (left - 1, 0 if right == 1 else right - 2))
    if left == 1:
        lhs = builder.reshape(lhs, (1, *sizes_of(lhs.type)))
    lhs_sizes, rhs_sizes = sizes_of(lhs.type), sizes_of(rhs.type)
    batch = builder.common_sizes(lhs_sizes[:-2], rhs_sizes[:-2])
    rank = len(batch)
    lhs = builder.broadcast(lhs, (*batch, *lhs_sizes[-2:]))
    rhs = builder.broadcast(rhs, (*batch, *rhs_sizes[-2:]))
    result = product(builder, lhs, rhs, (rank + 1, rank), batch=range(rank))
    return builder.reshape(result, builder.result_sizes) if left == 1 else result


# -- attention -------------------------------------------------------------------------------------------------------


@lowers("aten.scaled_dot_product_attention.default")
def lower_attention(
    builder: GraphBuilder,
    query: SSAValue,
    key: SSAValue,
    value: SSAValue,
    attn_mask: Value = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: Value = None,
    enable_gqa: bool = False,
) -> SSAValue:
    """softmax(scale · q · kᵀ + mask) · v; with `enable_gqa`, each head of k and v serves several of q"""
    if dropout_p != 0:
        raise Unsupported("attention with dropout is random; call module.eval()")
    key = _resized(builder, key, -1, sizes_of(query.type)[-1])
    value = _resized(builder, value, -2, sizes_of(key.type)[-2])
    query, factor = _scaled_query(builder, query, scale)
    batch = builder.common_sizes(*(sizes_of(x.type)[:-3] for x in (query, key, value)))
    heads = [Size.const(1) if rank_of(x.type) < 3 else sizes_of(x.type)[-3] for x in (query, key, value)]
    if not enable_gqa:
        heads = list(builder.common_sizes(*((count,) for count in heads))) * 3
    operands = [
        _four_axes(builder, builder.broadcast(x, (*batch, count, *sizes_of(x.type)[-2:])))
        for x, count in zip((query, key, value), heads, strict=True)
    ]
    if attn_mask is not None:
        dtype = dtype_of(attn_mask.type)
        mask = attn_mask if dtype.is_bool else builder.convert(attn_mask, dtype_of(query.type))
        operands.append(_mask_of_four_axes(builder, mask, batch))
    result = builder.emit(Attention, *operands, scale=factor, causal=bool(is_causal))
    return builder.reshape(result, builder.result_sizes)


def _resized(builder: GraphBuilder, x: SSAValue, axis: int, size: Size) -> SSAValue:
    """x, one axis of which must have this size: export asks no such question of attention, so the program does."""
    sizes = list(sizes_of(x.type))
    builder.require(size.eq(sizes[axis]), "attention")
    sizes[axis] = size
    return builder.reshape(x, sizes)


def _scaled_query(builder: GraphBuilder, query: SSAValue, scale: Value) -> tuple[SSAValue, float]:
    """The query and the constant scale, 1/sqrt(d) by default; a scale that depends on sizes is multiplied into the query."""
    width = sizes_of(query.type)[-1]
    if isinstance(scale, int | float):
        return query, float(scale)
    if scale is None and width.is_constant and width.value > 0:
        return query, 1.0 / sqrt(width.value)
    if scale is None:
        scale = builder.emit(Rsqrt, builder.operand(width, F64))
    return times(builder, query, scale), 1.0


def _four_axes(builder: GraphBuilder, x: SSAValue) -> SSAValue:
    """[…, h, s, d] -> [b, h, s, d], b the product of the axes in front"""
    sizes = sizes_of(x.type)
    return builder.reshape(x, (numel(sizes[:-3]), *sizes[-3:]))


def _mask_of_four_axes(builder: GraphBuilder, mask: SSAValue, batch: Sequence[Size]) -> SSAValue:
    """A mask of the same elements with four axes; its axes of size 1 stay so, unless several batch axes become one."""
    sizes = sizes_of(mask.type)
    full = (*(Size.const(1),) * (4 - len(sizes)), *sizes)
    if len(batch) > 1:
        full = (*batch, *full[-3:])
        mask = builder.broadcast(mask, full)
    return _four_axes(builder, builder.reshape(mask, full))


__all__ = ["plus", "product", "times"]
