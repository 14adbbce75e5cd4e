"""Attention and rotary embeddings of ONNX's own domain, and the attention that those of other domains are built on."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from anyshape.dialects.dhlo import (
    Add,
    And,
    Attention,
    Divide,
    DotGeneral,
    Iota,
    Multiply,
    Pad,
    Reduce,
    Softmax,
    Sqrt,
    Subtract,
    Tanh,
)
from anyshape.dialects.dhlo.reduction import accumulation_dtype
from anyshape.dialects.dtypes import BOOL, F32, I64
from anyshape.frontends.onnx.builder import ONE, ZERO, GraphBuilder
from anyshape.frontends.onnx.refusals import Malformed
from anyshape.frontends.onnx.registry import lowers
from anyshape.frontends.onnx.values import Value, known_scalar, sizes_text
from anyshape.nn import Tensor, embedding
from anyshape.symbolic import Size

RAW, CAPPED, BIASED, PROBABILITIES = range(4)
"""Which scores are asked for beside the result: of the product, behind the cap, behind the mask, behind the softmax."""


@dataclass(frozen=True)
class Visible:
    """Which keys a query sees by its position: query i stands at i + offset, and key j at j.

    Attributes:
        offset: one size for all, or i64 [b, 1, 1, 1] for each of the batch.
        left, right: how many positions before and behind its own it sees; all where None.
    """

    offset: Size | Tensor = ZERO
    left: int | None = None
    right: int | None = None


@dataclass(frozen=True)
class Heads:
    """q [b, h, s, d], k [b, hk, t, d], v [b, hk, t, e], with h a multiple of hk."""

    q: Tensor
    k: Tensor
    v: Tensor

    @staticmethod
    def of(b: GraphBuilder, q: Value, k: Value, v: Value) -> Heads:
        """Brings together sizes that must agree."""
        if q.rank != 4 or k.rank != 4 or v.rank != 4:
            raise Malformed(f"heads have {q.rank}, {k.rank} and {v.rank} axes; expected four each")
        batch, _, _, depth = q.sizes
        _, heads, keys, _ = k.sizes
        k = b.with_sizes(k, (batch, heads, keys, depth), "the keys of an attention")
        v = b.with_sizes(v, (batch, heads, keys, v.sizes[3]), "the values of an attention")
        return Heads(b.tensor(q), k, v)

    @property
    def score_sizes(self) -> tuple[Size, Size, Size, Size]:
        """(b, h, s, t)."""
        batch, heads, queries, _ = self.q.sizes
        return batch, heads, queries, self.k.sizes[2]


@dataclass(frozen=True)
class Scores:
    """What is done to scores before the softmax.

    Attributes:
        scale: by default 1/√d.
        softcap: c of c·tanh(score / c); none where 0.
        mask: of rank 4, each axis full or 1: bool (False hides) or float (added).
    """

    scale: float | None = None
    softcap: float = 0.0
    mask: Tensor | None = None
    visible: Visible | None = None


def attend(b: GraphBuilder, heads: Heads, scores: Scores) -> Tensor:
    """softmax(scale · q·kᵀ + mask) · v → [b, h, s, e]; a query that sees no key gives zeros."""
    depth = heads.q.sizes[3]
    if scores.softcap or not depth.is_constant or not _fits_grouping(heads):
        return attend_with_scores(b, heads, scores, PROBABILITIES)[0]
    visible, causal = scores.visible, dict[str, bool | int]()
    if visible is not None:
        kind = _as_causal(b, heads, scores, visible)
        if kind is None:
            scores = _with_visible(b, heads, scores)
        else:
            causal = kind
    scale = 1 / math.sqrt(depth.value) if scores.scale is None else scores.scale
    mask = [] if scores.mask is None else [scores.mask]
    return b.emit(Attention, heads.q, heads.k, heads.v, *mask, scale=scale, **causal)


def _fits_grouping(heads: Heads) -> bool:
    """Whether the numbers of heads are known, or one."""
    many, few = heads.q.sizes[1], heads.k.sizes[1]
    return many == few or (many.is_constant and few.is_constant)


def _as_causal(b: GraphBuilder, heads: Heads, scores: Scores, visible: Visible) -> dict[str, bool | int] | None:
    """The attributes of `dhlo.attention` that say the same; None where none do."""
    if (
        visible.right != 0
        or not isinstance(visible.offset, Size)
        or (visible.left is not None and scores.mask is not None)
    ):
        return None
    _, _, queries, keys = heads.score_sizes
    window = 0 if visible.left is None else visible.left + 1
    if b.prove(visible.offset.eq(keys - queries)) is True:
        return {"causal": True, "after_past": True, "window": window}
    return {"causal": True, "window": window} if visible.offset == ZERO else None


def attend_with_scores(b: GraphBuilder, heads: Heads, scores: Scores, wanted: int) -> tuple[Tensor, Tensor]:
    """The result and the scores, step by step, f16 and bf16 in f32; for what `dhlo.attention` does not say."""
    sizes, dtype = heads.score_sizes, heads.q.dtype
    heads = Heads(*(b.convert(each, accumulation_dtype(dtype)) for each in (heads.q, heads.k, heads.v)))
    batch, many, queries, keys = sizes
    few = heads.k.sizes[1]
    group = b.graph.facts.simplify(many // few)
    scaled = b.emit(Multiply, heads.q, _factor(b, heads, scores))
    grouped = b.reshape(scaled, (batch, few, group, queries, heads.q.sizes[3]))
    axes = {"lhs_batch": (0, 1), "rhs_batch": (0, 1)}
    raw = b.reshape(b.emit(DotGeneral, grouped, heads.k, **axes, lhs_contract=(4,), rhs_contract=(3,)), sizes)
    capped = raw
    if scores.softcap:
        bent = b.emit(Tanh, b.binary(Divide, raw, scores.softcap))
        capped = b.binary(Multiply, bent, scores.softcap)
    scores = _with_visible(b, heads, scores)
    bias = None if scores.mask is None else _as_bias(b, scores.mask, capped)
    biased = capped if bias is None else b.emit(Add, capped, b.broadcast(bias, sizes))
    weights = b.emit(Softmax, biased, axis=3)
    if bias is not None:
        top = b.emit(Reduce, bias, axes=(3,), kind="max")
        hidden = b.reshape(b.compare("eq", top, -math.inf), (*bias.sizes[:3], ONE))
        weights = b.select(hidden, 0.0, weights)
    split = b.reshape(weights, (batch, few, group, queries, keys))
    result = b.emit(DotGeneral, split, heads.v, **axes, lhs_contract=(4,), rhs_contract=(2,))
    kept = (raw, capped, biased, weights)[wanted]
    return b.convert(b.reshape(result, (*sizes[:3], heads.v.sizes[3])), dtype), b.convert(kept, dtype)


def _factor(b: GraphBuilder, heads: Heads, scores: Scores) -> Tensor:
    """The scale at every element of q."""
    q, depth = heads.q, heads.q.sizes[3]
    if scores.scale is not None or depth.is_constant:
        scale = 1 / math.sqrt(depth.value) if scores.scale is None else scores.scale
        return b.constant(scale, q.dtype, q.sizes)
    root = b.emit(Sqrt, b.operand(known_scalar(depth), F32))
    return b.broadcast(b.convert(b.binary(Divide, 1.0, root), q.dtype), q.sizes)


# -- masks -----------------------------------------------------------------------------------------------------------


def fitted_mask(b: GraphBuilder, mask: Value, heads: Heads) -> Tensor:
    """A mask of up to four axes, aligned at the last, as one of four, each of which is full or 1.

    Fewer keys than there are: the others are hidden.
    """
    sizes, dtype = heads.score_sizes, heads.q.dtype
    if not 1 <= mask.rank <= 4:
        raise Malformed(f"a mask has {mask.rank} axes; expected one to four")
    tensor = b.tensor(mask)
    if not tensor.dtype.is_bool:
        tensor = b.convert(tensor, dtype)
    tensor = b.reshape(tensor, (*(ONE,) * (4 - mask.rank), *mask.sizes))
    missing = sizes[3] - tensor.sizes[3]
    if b.prove(missing.eq(0)) is not True and tensor.sizes[3] != ONE:
        b.require(missing.ge(0), f"a mask {sizes_text(mask.sizes)} of {sizes[3]} keys")
        hidden = b.constant(False, BOOL) if tensor.dtype.is_bool else b.constant(-math.inf, dtype)
        tensor = b.emit(Pad, tensor, hidden, low=(ZERO,) * 4, high=(ZERO, ZERO, ZERO, missing))
    written: list[Size] = []
    for got, full in zip(tensor.sizes, sizes, strict=True):
        if got not in (ONE, full):
            b.require(
                ((got - 1) * (got - full)).eq(0), f"a mask {sizes_text(mask.sizes)} of scores {sizes_text(sizes)}"
            )
        written.append(full if b.prove(got.eq(full)) is True else got)
    return tensor.reshape(*written)


def _with_visible(b: GraphBuilder, heads: Heads, scores: Scores) -> Scores:
    """The scores with a mask that says what positions see."""
    if scores.visible is None:
        return scores
    seen = visible_mask(b, heads, scores.visible)
    mask = seen if scores.mask is None or seen is None else joined_masks(b, scores.mask, seen)
    return replace(scores, mask=scores.mask if mask is None else mask, visible=None)


def joined_masks(b: GraphBuilder, mask: Tensor, seen: Tensor) -> Tensor:
    """A mask of bools or floats, with what is not in `seen` hidden as well."""
    if mask.dtype.is_bool:
        return b.binary(And, mask, seen)
    return b.select(seen, mask, -math.inf)


def visible_mask(b: GraphBuilder, heads: Heads, visible: Visible) -> Tensor | None:
    """Bools [1 or b, 1, s, t]; None where all is seen."""
    _, _, queries, keys = heads.score_sizes
    sizes = (ONE, ONE, queries, keys)
    row, column = (b.emit(Iota, axis=axis, sizes=sizes, dtype=I64) for axis in (2, 3))
    offset = known_scalar(visible.offset) if isinstance(visible.offset, Size) else visible.offset
    distance = b.binary(Subtract, b.binary(Add, row, offset), column)
    seen: Tensor | None = None
    for bound, direction in ((visible.left, "le"), (None if visible.right is None else -visible.right, "ge")):
        if bound is not None:
            test = b.compare(direction, distance, bound)
            seen = test if seen is None else b.binary(And, seen, test)
    return seen


def keys_below(b: GraphBuilder, heads: Heads, counts: Value) -> Tensor:
    """Bools [b, 1, 1, t]: the first counts[b] keys."""
    batch, _, _, keys = heads.score_sizes
    limit = b.reshape(b.with_sizes(b.convert(counts, I64), (batch,), "numbers of keys"), (batch, 1, 1, 1))
    return b.compare("lt", b.emit(Iota, axis=3, sizes=(ONE, ONE, ONE, keys), dtype=I64), limit)


def _as_bias(b: GraphBuilder, mask: Tensor, like: Tensor) -> Tensor:
    """What is added to scores."""
    if not mask.dtype.is_bool:
        return b.convert(mask, like.dtype)
    return b.select(mask, b.constant(0.0, like.dtype), -math.inf)


# -- heads -----------------------------------------------------------------------------------------------------------


def split_heads(b: GraphBuilder, x: Value, heads: int) -> Tensor:
    """[b, s, h·d] -> [b, h, s, d]."""
    if heads < 1:
        raise Malformed("the number of heads is not given")
    b.check_rank(x, 3, 3)
    batch, length, width = x.sizes
    depth = b.graph.facts.simplify(width // heads)
    return b.transpose(b.reshape(x, (batch, length, heads, depth)), (0, 2, 1, 3))


def join_heads(b: GraphBuilder, x: Tensor) -> Tensor:
    """[b, h, s, d] -> [b, s, h·d]."""
    batch, heads, length, depth = x.sizes
    return b.reshape(b.transpose(x, (0, 2, 1, 3)), (batch, length, heads * depth))


@lowers("Attention")
def lower_attention(
    b: GraphBuilder,
    q: Value,
    k: Value,
    v: Value,
    mask: Value | None = None,
    past_key: Value | None = None,
    past_value: Value | None = None,
    nonpad_kv_seqlen: Value | None = None,
    *,
    is_causal: int = 0,
    kv_num_heads: int = 0,
    q_num_heads: int = 0,
    qk_matmul_output_mode: int = 0,
    scale: float | None = None,
    softcap: float = 0.0,
    softmax_precision: int = 0,
    left_window_size: int = -1,
    right_window_size: int = -1,
) -> Sequence[Value]:
    """softmax(scale · q·kᵀ + mask) · v, the keys and values behind those of the past, which are results too"""
    rank = q.rank
    counts = (q_num_heads, kv_num_heads, kv_num_heads)
    split = [split_heads(b, x, count) if rank == 3 else b.tensor(x) for x, count in zip((q, k, v), counts, strict=True)]
    past = ZERO
    if past_key is not None and past_value is not None:
        past = past_key.sizes[2]
        split[1:] = [b.concatenate([old, new], 2) for old, new in zip((past_key, past_value), split[1:], strict=True)]
    heads = Heads.of(b, *split)
    given = None if mask is None else fitted_mask(b, mask, heads)
    offset: Size | Tensor = past
    if nonpad_kv_seqlen is not None:
        shown = keys_below(b, heads, nonpad_kv_seqlen)
        given = shown if given is None else joined_masks(b, given, shown)
        lengths = b.reshape(b.convert(nonpad_kv_seqlen, I64), (heads.q.sizes[0], 1, 1, 1))
        offset = b.binary(Subtract, lengths, known_scalar(heads.q.sizes[2])) if past_key is None else past
    left = None if left_window_size < 0 else left_window_size
    right = 0 if is_causal else None if right_window_size < 0 else right_window_size
    visible = None if left is None and right is None else Visible(offset, left, right)
    scores = Scores(scale, softcap, given, visible)
    if b.is_asked_for(3):
        result, kept = attend_with_scores(b, heads, scores, qk_matmul_output_mode)
    else:
        result, kept = attend(b, heads, scores), None
    joined = join_heads(b, result) if rank == 3 else result
    return [joined, heads.k, heads.v, kept]  # pyright: ignore[reportReturnType]


# -- rotary embeddings -------------------------------------------------------------------------------------------------


@lowers("RotaryEmbedding")
def lower_rotary_embedding(
    b: GraphBuilder,
    x: Value,
    cosines: Value,
    sines: Value,
    positions: Value | None = None,
    *,
    interleaved: int = 0,
    num_heads: int = 0,
    rotary_embedding_dim: int = 0,
) -> Value:
    """Pairs of the first elements of each head turned by the angles of their positions"""
    heads = split_heads(b, x, num_heads) if x.rank == 3 else b.tensor(x)
    tables = [b.tensor(each) for each in (cosines, sines)]
    if positions is not None:
        tables = [embedding(b.tensor(positions), each) for each in tables]
    rotated = rotate(b, heads, tables[0], tables[1], rotary_embedding_dim, bool(interleaved))
    return join_heads(b, rotated) if x.rank == 3 else rotated


def rotate(b: GraphBuilder, x: Tensor, cosines: Tensor, sines: Tensor, width: int, interleaved: bool) -> Tensor:
    """x [b, h, s, d] with the pairs of its first `width` elements (0: of all) turned: (p, q) -> (p·cos − q·sin, p·sin + q·cos).

    Args:
        cosines, sines: [b, s, width/2], or with a batch of 1.
        interleaved: pairs are neighbours, else halves of the width.
    """
    b.check_rank(x, 4, 4)
    b.check_rank(cosines, 3, 3)
    b.check_rank(sines, 3, 3)
    batch, heads, length, depth = x.sizes
    turned = Size.const(width) if width else depth
    half = b.graph.facts.simplify(turned // 2)
    part = b.slice(x, 3, 0, turned)
    apart = (batch, heads, length, *((half, Size.const(2)) if interleaved else (Size.const(2), half)))
    pairs, axis = b.reshape(part, apart), 4 if interleaved else 3
    p, q = (b.reshape(b.slice(pairs, axis, index, 1), (batch, heads, length, half)) for index in (0, 1))
    sizes = (batch, heads, length, half)
    cosine, sine = (_table(b, each, sizes, x) for each in (cosines, sines))
    real = b.emit(Subtract, b.emit(Multiply, p, cosine), b.emit(Multiply, q, sine))
    imaginary = b.emit(Add, b.emit(Multiply, p, sine), b.emit(Multiply, q, cosine))
    column = (*sizes[:3], half, ONE) if interleaved else (*sizes[:3], ONE, half)
    joined = b.concatenate([b.reshape(each, column) for each in (real, imaginary)], axis)
    result = b.reshape(joined, (batch, heads, length, turned))
    if turned == depth:
        return result
    return b.concatenate([result, b.slice(x, 3, turned, depth - turned)], 3)


def _table(b: GraphBuilder, table: Tensor, sizes: tuple[Size, ...], like: Tensor) -> Tensor:
    """[b, s, n] -> [b, h, s, n]."""
    if table.rank != 3:
        raise Malformed(f"the angles of positions have {table.rank} axes; expected batch, length and pairs")
    batch, length, half = table.sizes
    return b.broadcast(b.convert(b.reshape(table, (batch, 1, length, half)), like.dtype), sizes)


__all__ = [
    "BIASED", "CAPPED", "PROBABILITIES", "RAW", "Heads", "Scores", "Visible", "attend", "attend_with_scores", "fitted_mask",
    "join_heads", "joined_masks", "keys_below", "rotate", "split_heads", "visible_mask",
]  # fmt: skip
