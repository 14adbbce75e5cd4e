"""Scaled dot-product attention."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from xdsl.builder import Builder
from xdsl.ir import SSAValue
from xdsl.pattern_rewriter import PatternRewriter
from xdsl.utils.exceptions import VerifyException

from anyshape.dialects.dhlo.assembly import Iota
from anyshape.dialects.dhlo.base import REQUIRED, Arg, Array, DhloOp, Environment, Oracle, Sample
from anyshape.dialects.dhlo.binary import Add, Divide, Multiply, Subtract
from anyshape.dialects.dhlo.constant import Constant, SizeOf, constant_value
from anyshape.dialects.dhlo.contraction import DotGeneral
from anyshape.dialects.dhlo.elementwise import rounded, widened
from anyshape.dialects.dhlo.laws import Simplified, law
from anyshape.dialects.dhlo.movement import BroadcastInDim, Reshape
from anyshape.dialects.dhlo.reduction import Reduce, emit_in_f32, spread
from anyshape.dialects.dhlo.selection import Compare, Select, converted
from anyshape.dialects.dhlo.unary import Exponential
from anyshape.dialects.dtypes import BF16, BOOL, F16, F32, F64, FLOATS, I8, I64, DType
from anyshape.dialects.sizes import Tensor, dtype_of, sizes_of, tensor
from anyshape.symbolic import Facts, Size, SizeLike

B, S, T = (Size.symbol(name) for name in "bst")
_SDPA = "aten.scaled_dot_product_attention.default"
_OPERANDS = (Arg(0), Arg(1), Arg(2))
_QKV = ((B, 4, S, 8), (B, 4, T, 8), (B, 4, T, 6))
_GROUPED = ((B, 4, S, 8), (B, 2, T, 8), (B, 2, T, 6), (B, 1, S, T))


def _sample(
    operands: tuple[tuple[SizeLike, ...], ...],
    oracle: Oracle,
    dtypes: tuple[DType, ...] = (F32, F64),
    *,
    causal: bool = False,
    fixed: Mapping[int, DType] | None = None,
) -> Sample:
    """A sample with at least one key: without keys PyTorch's answer depends on the kernel that it picks."""
    attributes = {"scale": 0.5, "causal": causal}
    values = dict.fromkeys(range(4), "finite")
    return Sample(operands, attributes, dtypes, fixed or {}, values, {"t": 1}, oracle)


def _sample_after_past(window: int = 0) -> Sample:
    """Queries that are the last of the keys' positions, as when a cache holds the past; PyTorch has no single call for it."""
    operands = ((B, 4, S, 8), (B, 2, S + T, 8), (B, 2, S + T, 6))
    attributes = {"scale": 0.5, "causal": True, "after_past": True, "window": window}
    return Sample(operands, attributes, (F32, F64), {}, dict.fromkeys(range(3), "finite"))


def _sample_of_cache(dtype: DType) -> Sample:
    """Keys and values as a cache holds them."""
    operands = ((B, 4, S, 8), (B, 2, S + T, 8), (B, 2, S + T, 6), *(((B, 2, S + T),) * 2 if dtype == I8 else ()))
    attributes = {"scale": 0.5, "causal": True, "after_past": True}
    return Sample(operands, attributes, (F32,), {1: dtype, 2: dtype}, dict.fromkeys(range(5), "unit"))


class Attention(DhloOp, op="attention"):
    """result[b,i,s,:] = Σ_t softmax_t(scale · q[b,i,s,:]·k[b,i',t,:] + mask[b,i,s,t]) · v[b,i',t,:] → [b, h, s, e].

    Operands q[b,h,s,d], k[b,hk,t,d], v[b,hk,t,e] with h a multiple of hk and i' = i // (h/hk) (grouped queries), and optionally
    a mask of rank 4, each axis 1, the full size, or open between them: a bool (False hides t) or a float of q's dtype (added).
    `causal` hides keys after the query's own position: query s stands at position s, or at s + (t − s) with `after_past`, where the
    queries are the last of the positions that the keys have (a cache holds the ones before). With `causal`, a `window` of w > 0 hides all
    but the query's own position and the w − 1 before it. A row whose every score is −inf, or that has no score, gives zeros, as
    PyTorch does. Scores of f16 and bf16 are computed in f32 (Vaswani et al., arXiv:1706.03762).

    k and v have the dtype of q, or beside f32 halves, as a cache may hold them. As signed bytes they come with two operands f32
    [b,hk,t] in place of a mask, by which their rows are multiplied.
    """

    DEFAULTS: ClassVar = {"scale": REQUIRED, "causal": False, "after_past": False, "window": 0}
    PLANNED = True
    SAMPLES = (
        _sample(_QKV, Oracle(_SDPA, _OPERANDS, {"scale": 0.5}), FLOATS),
        _sample(_QKV, Oracle(_SDPA, _OPERANDS, {"scale": 0.5, "is_causal": True}), causal=True),
        _sample(_GROUPED, Oracle(_SDPA, (*_OPERANDS, Arg(3)), {"scale": 0.5, "enable_gqa": True}), fixed={3: BOOL}),
        _sample_after_past(),
        _sample_after_past(window=5),
        _sample((*_QKV, (1, 4, 1, T)), Oracle(_SDPA, (*_OPERANDS, Arg(3)), {"scale": 0.5})),
        _sample_of_cache(F16),
        _sample_of_cache(BF16),
        _sample_of_cache(I8),
    )

    @classmethod
    def infer(cls, operands: Sequence[Tensor], attributes: Mapping[str, Any]) -> Sequence[Tensor]:
        if len(operands) not in (3, 4, 5):
            raise VerifyException(f"{cls.name} takes q, k, v, and a mask or two scales, got {len(operands)} operands")
        sizes = [sizes_of(operand) for operand in operands]
        if any(len(each) != 4 for each in sizes[:4]) and len(sizes) < 5:
            raise VerifyException(f"{cls.name}: every operand must have rank 4, got {[len(each) for each in sizes]}")
        (b, h, s, d), (kb, hk, t, kd), (vb, vh, vt, e), *mask = sizes
        cls._check_dtypes(operands)
        dtype = dtype_of(operands[0])
        if len(operands) == 5:
            if any(each != (b, hk, t) for each in mask):
                raise VerifyException(f"{cls.name}: scales are {mask}, expected {(b, hk, t)}")
            mask = []
        pairs = {
            "batch of k": (kb, b),
            "batch of v": (vb, b),
            "depth of k": (kd, d),
            "heads of v": (vh, hk),
            "length of v": (vt, t),
        }
        for what, (got, expected) in pairs.items():
            if got != expected:
                raise VerifyException(f"{cls.name}: {what} is {got}, expected {expected}")
        if h.is_constant and hk.is_constant and (hk.value == 0 or h.value % hk.value):
            raise VerifyException(f"{cls.name}: {h} query heads are not a multiple of {hk} key heads")
        for axis, (got, full) in enumerate(zip(mask[0], (b, h, s, t), strict=True) if mask else ()):
            if got.is_constant and full.is_constant and got.value not in (1, full.value):
                raise VerifyException(f"{cls.name}: axis {axis} of the mask has size {got}, expected 1 or {full}")
        if mask and dtype_of(operands[3]) not in (BOOL, dtype):
            raise VerifyException(f"{cls.name}: the mask is {dtype_of(operands[3])}, expected bool or {dtype}")
        if attributes["window"] < 0 or (attributes["window"] and (mask or not attributes["causal"])):
            raise VerifyException(f"{cls.name}: a window is positive, and goes with causal and without a mask")
        return [tensor(dtype, (b, h, s, e))]

    @classmethod
    def _check_dtypes(cls, operands: Sequence[Tensor]) -> None:
        query, key, value, *scales = map(dtype_of, operands)
        cached = (F16, BF16) if query == F32 and len(operands) < 5 else ()
        bytes_ = len(operands) == 5 and (query, key) == (F32, I8) and all(each == F32 for each in scales)
        if key != value or not (bytes_ or (len(operands) < 5 and query.is_float and key in (query, *cached))):
            raise VerifyException(
                f"{cls.name}: k and v have the float dtype of q, or beside f32 are f16, bf16, or i8 with scales; "
                f"got {[str(dtype_of(each)) for each in operands]}"
            )

    @property
    def mask(self) -> SSAValue | None:
        return self.operands[3] if len(self.operands) == 4 else None

    @property
    def is_scaled(self) -> bool:
        """Whether k and v come with scales."""
        return len(self.operands) == 5

    @law(
        "attention with a mask that hides nothing -> attention without a mask",
        example=lambda g: g(
            Attention, *(g.input(2, 2, "m", 3) for _ in range(3)), g.full(1, 2, 1, "m", "m", dtype=BOOL), scale=0.5
        ),
    )
    def hides_nothing(self, builder: Builder, facts: Facts) -> Simplified:
        if self.mask is None or constant_value(self.mask) != (self.operand_dtype(3) == BOOL):
            return None
        return Attention.emit(builder, *self.operands[:3], **self.attribute_values)

    @property
    def score_sizes(self) -> tuple[Size, Size, Size, Size]:
        """(b, h, s, t)."""
        b, h, s, _ = self.operand_sizes(0)
        return b, h, s, self.operand_sizes(1)[2]

    def reference(self, *operands: Array, env: Environment) -> Sequence[Array]:
        q, k, v = (widened(operand) for operand in operands[:3])
        if self.is_scaled:
            k, v = (x * scale[..., None] for x, scale in zip((k, v), operands[3:], strict=True))
        group = q.shape[1] // max(1, k.shape[1])
        k, v = (np.repeat(x, group, axis=1) for x in (k, v))
        with np.errstate(all="ignore"):
            scores = np.einsum("bhsd,bhtd->bhst", q, k) * self.attribute("scale")
            if self.mask is not None:
                mask = operands[3]
                scores = np.where(mask, scores, -np.inf) if mask.dtype == np.bool_ else scores + widened(mask)
            if self.attribute("causal"):
                queries, keys = scores.shape[2:]
                past = keys - queries if self.attribute("after_past") else 0
                kept = np.tri(queries, keys, past, dtype=np.bool_)
                if self.attribute("window"):
                    kept &= ~np.tri(queries, keys, past - self.attribute("window"), dtype=np.bool_)
                scores = np.where(kept, scores, -np.inf)
            top = np.max(scores, axis=-1, keepdims=True, initial=-np.inf)
            weights = np.exp(scores - np.where(top == -np.inf, 0.0, top))
            total = np.sum(weights, axis=-1, keepdims=True)
            weights = weights / np.where(total == 0, 1.0, total)
            return [rounded(np.einsum("bhst,bhte->bhse", weights, v), self.result_dtype)]

    def expand(self, rewriter: PatternRewriter) -> Sequence[SSAValue]:
        q, k, v = self._in_f32(rewriter)
        sizes, dtype = self.score_sizes, dtype_of(q.type)
        b, h, s, t = sizes
        kv_heads = self.operand_sizes(1)[1]
        grouped = (b, kv_heads, h // kv_heads, s) if h != kv_heads else None
        if grouped:
            q = Reshape.emit(rewriter, q, sizes=(*grouped, sizes_of(q.type)[3]))
        axes = {"lhs_batch": (0, 1), "rhs_batch": (0, 1)}
        last = 4 if grouped else 3
        scores = DotGeneral.emit(rewriter, q, k, **axes, lhs_contract=(last,), rhs_contract=(3,))
        if grouped:
            scores = Reshape.emit(rewriter, scores, sizes=sizes)
        scores = Multiply.emit(
            rewriter, scores, Constant.emit(rewriter, value=self.attribute("scale"), dtype=dtype, sizes=sizes)
        )
        weights = _softmax_or_zeros(rewriter, self._masked(rewriter, scores, dtype), dtype, sizes)
        if grouped:
            weights = Reshape.emit(rewriter, weights, sizes=(*grouped, t))
        result = DotGeneral.emit(rewriter, weights, v, **axes, lhs_contract=(last,), rhs_contract=(2,))
        if grouped:
            result = Reshape.emit(rewriter, result, sizes=self.result_sizes)
        return [converted(rewriter, result, self.result_dtype)]

    def _in_f32(self, rewriter: PatternRewriter) -> list[SSAValue]:
        """q, k and v; f64 stays."""
        if not self.is_scaled:
            return [emit_in_f32(rewriter, operand) for operand in self.operands[:3]]
        query, *cached = self.operands[:3]
        scaled: list[SSAValue] = [query]
        for x, scale in zip(cached, self.operands[3:], strict=True):
            spread_scale = BroadcastInDim.emit(rewriter, scale, dimensions=(0, 1, 2), sizes=sizes_of(x.type))
            scaled.append(Multiply.emit(rewriter, converted(rewriter, x, F32), spread_scale))
        return scaled

    def _masked(self, builder: Builder, scores: SSAValue, dtype: DType) -> SSAValue:
        sizes = self.score_sizes
        hidden = Constant.emit(builder, value=-math.inf, dtype=dtype, sizes=sizes)
        if self.mask is not None:
            mask = self.mask if self.operand_dtype(3).is_bool else emit_in_f32(builder, self.mask)
            full = BroadcastInDim.emit(builder, mask, dimensions=(0, 1, 2, 3), sizes=sizes)
            scores = (
                Select.emit(builder, full, scores, hidden)
                if dtype_of(full.type).is_bool
                else Add.emit(builder, scores, full)
            )
        if self.attribute("causal"):
            row, column = (Iota.emit(builder, axis=axis, sizes=sizes) for axis in (2, 3))
            if self.attribute("after_past"):
                past = SizeOf.emit(builder, size=sizes[3] - sizes[2])
                row = Add.emit(builder, row, BroadcastInDim.emit(builder, past, dimensions=(), sizes=sizes))
            scores = Select.emit(builder, Compare.emit(builder, column, row, direction="le"), scores, hidden)
            if self.attribute("window"):
                window = Constant.emit(builder, value=self.attribute("window"), dtype=I64, sizes=sizes)
                last = Compare.emit(builder, Add.emit(builder, column, window), row, direction="gt")
                scores = Select.emit(builder, last, scores, hidden)
        return scores


def _softmax_or_zeros(builder: Builder, scores: SSAValue, dtype: DType, sizes: Sequence[Size]) -> SSAValue:
    """softmax over the last axis; zeros where every score is −inf."""
    kept, axis = sizes[:-1], len(sizes) - 1

    def row_constant(value: float) -> SSAValue:
        return Constant.emit(builder, value=value, dtype=dtype, sizes=kept)

    top = Reduce.emit(builder, scores, axes=(axis,), kind="max")
    is_hidden = Compare.emit(builder, top, row_constant(-math.inf), direction="eq")
    top = Select.emit(builder, is_hidden, row_constant(0.0), top)
    weights = Exponential.emit(builder, Subtract.emit(builder, scores, spread(builder, top, (axis,), sizes)))
    total = Reduce.emit(builder, weights, axes=(axis,), kind="sum")
    total = Select.emit(builder, is_hidden, row_constant(1.0), total)
    return Divide.emit(builder, weights, spread(builder, total, (axis,), sizes))


__all__ = ["Attention"]
