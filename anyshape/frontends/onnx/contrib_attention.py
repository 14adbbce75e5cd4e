"""Attention of the domain `com.microsoft`, as ONNX Runtime's operator documents define it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from anyshape.dialects.dhlo import Add, And, Iota, Not, Reduce
from anyshape.dialects.dtypes import I64
from anyshape.dialects.sizes import numel
from anyshape.frontends.onnx.attention import (
    RAW,
    Heads,
    Scores,
    Visible,
    attend,
    attend_with_scores,
    fitted_mask,
    join_heads,
    joined_masks,
    keys_below,
    rotate,
    split_heads,
    visible_mask,
)
from anyshape.frontends.onnx.builder import ONE, ZERO, GraphBuilder
from anyshape.frontends.onnx.data_sizes import read_size
from anyshape.frontends.onnx.places import size_as
from anyshape.frontends.onnx.products import matmul
from anyshape.frontends.onnx.quantised import MICROSOFT
from anyshape.frontends.onnx.refusals import Malformed, Unsupported
from anyshape.frontends.onnx.registry import lowers
from anyshape.frontends.onnx.values import Known, Value, known_scalar
from anyshape.nn import Tensor, embedding
from anyshape.symbolic import Size, SizeLike

# -- masks -----------------------------------------------------------------------------------------------------------


def _key_mask(b: GraphBuilder, mask: Value, heads: Heads, filtered: float) -> Tensor:
    """A mask of keys as what is added to scores, `filtered` where a key is hidden.

    Args:
        mask: lengths [b]; all ends and then all starts [2·b]; or numbers [b, t] or [b, s, t] that are 0 where a key is hidden.
    """
    batch = heads.q.sizes[0]
    if mask.rank == 1 and b.prove(mask.sizes[0].eq(2 * batch)) is True and b.prove(batch.eq(0)) is not True:
        ends, starts = (keys_below(b, heads, b.slice(mask, 0, first, batch)) for first in (ZERO, batch))
        seen = b.emit(And, ends, b.emit(Not, starts))
    elif mask.rank == 1:
        seen = keys_below(b, heads, mask)
    elif mask.rank in (2, 3):
        batch, *rows, keys = mask.sizes
        seen = fitted_mask(b, b.reshape(b.compare("ne", mask, 0), (batch, ONE, *(rows or (ONE,)), keys)), heads)
    else:
        raise Unsupported(f"a mask of {mask.rank} axes has no lowering")
    return b.select(seen, b.constant(0.0, heads.q.dtype), filtered)


def _masks(b: GraphBuilder, heads: Heads, mask: Value | None, bias: Value | None, filtered: float) -> Tensor | None:
    """A mask of keys and a bias of scores as one."""
    parts: list[Tensor] = []
    if mask is not None:
        parts.append(_key_mask(b, mask, heads, filtered))
    if bias is not None:
        parts.append(fitted_mask(b, bias, heads))
    return parts[0] if len(parts) == 1 else b.binary(Add, *parts) if parts else None


def _unbiased(b: GraphBuilder, x: Value, bias: Value | None, start: SizeLike) -> Value:
    """x [b, s, n] plus the part of a bias that belongs to it."""
    if bias is None:
        return x
    return b.binary(Add, x, b.slice(bias, 0, start, x.sizes[2]))


# -- the ops ---------------------------------------------------------------------------------------------------------


@lowers("Attention", domain=MICROSOFT)
def lower_fused_attention(
    b: GraphBuilder,
    x: Value,
    weights: Value,
    bias: Value | None = None,
    mask: Value | None = None,
    past: Value | None = None,
    attention_bias: Value | None = None,
    past_length: Value | None = None,
    *,
    num_heads: int,
    do_rotary: int = 0,
    mask_filter_value: float = -10000.0,
    past_present_share_buffer: int = 0,
    qkv_hidden_sizes: Sequence[int] = (),
    rotary_embedding_dim: int = 0,
    scale: float = 0.0,
    unidirectional: int = 0,
) -> list[Value]:
    """Self-attention of x · weights + bias, which is q, k and v side by side"""
    if do_rotary or past_present_share_buffer or past_length is not None:
        raise Unsupported("rotary embeddings inside an attention, and caches in a shared buffer, have no lowering")
    projected = matmul(b, x, weights)
    if bias is not None:
        projected = b.emit(Add, projected, b.broadcast(bias, projected.sizes))
    masks = mask, attention_bias, mask_filter_value
    return attend_projected(b, projected, masks, past, num_heads, scale or None, bool(unidirectional), qkv_hidden_sizes)


def attend_projected(
    b: GraphBuilder,
    projected: Tensor,
    masks: tuple[Value | None, Value | None, float],
    past: Value | None,
    num_heads: int,
    scale: float | None,
    is_causal: bool,
    hidden_sizes: Sequence[int] = (),
) -> list[Value]:
    """Self-attention of q, k and v side by side, and all keys and values where the node asks for them.

    Args:
        projected: [b, s, widths of q, k and v], which are the same where no `hidden_sizes` are given.
        masks: a mask of keys, a bias of scores, and what is added to the score of a key that the mask hides.
        past: [2, b, h, p, d], keys and values in front of those of `projected`.
        scale: by default 1/√d.
    """
    b.check_rank(projected, 3, 3)
    third = b.graph.facts.simplify(projected.sizes[2] // 3)
    widths = [Size.const(each) for each in hidden_sizes] or [third] * 3
    starts = (ZERO, widths[0], widths[0] + widths[1])
    parts = [b.slice(projected, 2, start, width) for start, width in zip(starts, widths, strict=True)]
    q, k, v = (split_heads(b, part, num_heads) for part in parts)
    before = ZERO
    if past is not None:
        b.check_rank(past, 5, 5)
        before = past.sizes[3]
        old = [b.reshape(b.slice(past, 0, index, 1), past.sizes[1:]) for index in (0, 1)]
        k, v = (b.concatenate([cached, new], 2) for cached, new in zip(old, (k, v), strict=True))
    heads = Heads.of(b, q, k, v)
    visible = Visible(before, right=0) if is_causal else None
    result = join_heads(b, attend(b, heads, Scores(scale, mask=_masks(b, heads, *masks), visible=visible)))
    if not b.is_asked_for(1):
        return [result]
    return [result, b.concatenate([b.reshape(each, (ONE, *each.sizes)) for each in (heads.k, heads.v)], 0)]


@lowers("MultiHeadAttention", domain=MICROSOFT)
def lower_multi_head_attention(
    b: GraphBuilder,
    q: Value,
    k: Value | None = None,
    v: Value | None = None,
    bias: Value | None = None,
    mask: Value | None = None,
    attention_bias: Value | None = None,
    past_key: Value | None = None,
    past_value: Value | None = None,
    past_length: Value | None = None,
    cache_indirection: Value | None = None,
    *,
    num_heads: int,
    mask_filter_value: float = -10000.0,
    scale: float = 0.0,
    unidirectional: int = 0,
) -> list[Value]:
    """Attention of q, k and v, which may be packed together, behind a past of keys and values"""
    if past_length is not None or cache_indirection is not None:
        raise Unsupported("caches in a shared buffer have no lowering")
    query, key, value = _three(b, q, k, v, bias, num_heads)
    before = ZERO
    for each in (past_key, past_value):
        if each is not None:
            b.check_rank(each, 4, 4)
    if past_key is not None and past_value is not None:
        before = past_key.sizes[2]
        key, value = b.concatenate([past_key, key], 2), b.concatenate([past_value, value], 2)
    heads = Heads.of(b, query, key, value)
    masks = _masks(b, heads, mask, attention_bias, mask_filter_value)
    scores = Scores(scale or None, mask=masks, visible=Visible(before, right=0) if unidirectional else None)
    if b.is_asked_for(3):
        result, kept = attend_with_scores(b, heads, scores, RAW)
        return [join_heads(b, result), heads.k, heads.v, kept]
    return [join_heads(b, attend(b, heads, scores)), heads.k, heads.v]


def _three(
    b: GraphBuilder, q: Value, k: Value | None, v: Value | None, bias: Value | None, heads: int
) -> tuple[Tensor, Tensor, Tensor]:
    """q, k and v as [b, h, s, d]."""
    b.check_rank(q, 3, 5)
    if q.rank == 5:
        packed = [_unpacked(b, q, index, bias, heads) for index in range(3)]
        return packed[0], packed[1], packed[2]
    width = q.sizes[2]
    query = split_heads(b, _unbiased(b, q, bias, 0), heads)
    if k is None:
        raise Malformed("keys are neither given nor packed with the queries")
    if k.rank == 5:
        return query, _unpacked(b, k, 0, None, heads), _unpacked(b, k, 1, None, heads)
    if v is None:
        raise Malformed("values are neither given nor packed with the keys")
    if k.rank == 4:
        return query, b.tensor(k), b.tensor(v)
    key = split_heads(b, _unbiased(b, k, bias, width), heads)
    return query, key, split_heads(b, _unbiased(b, v, bias, width + k.sizes[2]), heads)


def _unpacked(b: GraphBuilder, x: Value, index: int, bias: Value | None, heads: int) -> Tensor:
    """Part `index` of [b, s, h, parts, d] as [b, h, s, d]."""
    batch, length, many, _, depth = x.sizes
    b.same(many, heads, "the heads of an attention")
    part = b.reshape(b.slice(x, 3, index, 1), (batch, length, many * depth))
    return split_heads(b, _unbiased(b, part, bias, many * depth * index), heads)


@lowers("GroupQueryAttention", domain=MICROSOFT)
def lower_group_query_attention(
    b: GraphBuilder,
    q: Value,
    k: Value | None,
    v: Value | None,
    past_key: Value | None,
    past_value: Value | None,
    key_lengths: Value | None = None,
    total_length: Value | None = None,
    cosines: Value | None = None,
    sines: Value | None = None,
    positions: Value | None = None,
    attention_bias: Value | None = None,
    head_sink: Value | None = None,
    *,
    num_heads: int,
    kv_num_heads: int,
    do_rotary: int = 0,
    local_window_size: int = -1,
    rotary_interleaved: int = 0,
    scale: float = 0.0,
    smooth_softmax: int = 0,
    softcap: float = 0.0,
) -> list[Value]:
    """Causal attention behind a past of keys and values, several heads of queries to one of keys

    The sequences of a batch are as long as the tensors are; where prompts are shorter, results at the positions behind them mean nothing.
    Behind a past all of them have the length of its tensor: calls whose `key_lengths` say otherwise are turned away, and so is a past in
    a longer buffer. A query sees `local_window_size` keys, its own among them. `head_sink` [h], or 0
    where the softmax is smooth, is the score of one more key for each head, whose value is 0.
    """
    for each in (past_key, past_value):
        if each is not None:
            b.check_rank(each, 4, 4)
    query, key, value = _grouped(b, q, k, v, num_heads, kv_num_heads)
    before = ZERO if past_key is None else past_key.sizes[2]
    if do_rotary:
        if cosines is None or sines is None:
            raise Malformed("a rotary embedding has no angles")
        tables = _angles(b, positions, before, query, (cosines, sines))
        width = 2 * tables[0].sizes[2]
        whole = b.graph.facts.simplify(width).constant_or(0)
        query, key = (rotate(b, each, tables[0], tables[1], whole, bool(rotary_interleaved)) for each in (query, key))
    if past_key is not None and past_value is not None:
        key, value = b.concatenate([past_key, key], 2), b.concatenate([past_value, value], 2)
        if key_lengths is not None:
            _require_lengths(b, key_lengths, key.sizes[2])
    if isinstance(total_length, Known):
        (total,) = b.size_list(total_length, "the total length")
        b.require(total.eq(key.sizes[2]), "the total length of an attention, of a past without unused places")
    heads = Heads.of(b, query, key, value)
    mask = None if attention_bias is None else fitted_mask(b, attention_bias, heads)
    left = None if local_window_size < 0 else local_window_size - 1
    scores = Scores(scale or None, softcap, mask, Visible(before, left, 0))
    results: list[Value] = [heads.k, heads.v]
    if smooth_softmax or head_sink is not None:
        heads, scores = _with_sink(b, heads, scores, head_sink)
    return [join_heads(b, attend(b, heads, scores)), *results]


def _require_lengths(b: GraphBuilder, key_lengths: Value, total: Size) -> None:
    """Each sequence has `total` keys: `key_lengths` [b] are one less, as the op counts them."""
    longest = b.binary(Add, b.convert(b.reshape(key_lengths, (numel(key_lengths.sizes),)), I64), 1)
    others = b.convert(b.compare("ne", longest, size_as(b, total, I64)), I64)
    count = read_size(b, b.emit(Reduce, others, axes=(0,), kind="sum"), "other_lengths")
    b.require(count.eq(0), "sequences that are all as long as the past and what is behind it")


def _with_sink(b: GraphBuilder, heads: Heads, scores: Scores, sink: Value | None) -> tuple[Heads, Scores]:
    """A key and a value of zeros behind the others, with a mask that makes the key's score the sink [h] of each head, or 0."""
    batch, many, queries, keys = heads.score_sizes
    dtype = heads.q.dtype
    given = scores.mask if scores.mask is not None else b.constant(0.0, dtype, (ONE,) * 4)
    seen = None if scores.visible is None else visible_mask(b, heads, scores.visible)
    mask = given if seen is None else joined_masks(b, given, seen)
    rows = mask.sizes[0]
    column = (
        known_scalar(0.0, dtype.numpy) if sink is None else b.reshape(b.convert(sink, dtype), (ONE, many, ONE, ONE))
    )
    parts = [b.repeated(mask, (rows, many, queries, keys)), b.repeated(column, (rows, many, queries, ONE))]
    zeros = [b.constant(0.0, dtype, (batch, each.sizes[1], ONE, each.sizes[3])) for each in (heads.k, heads.v)]
    k, v = (b.concatenate([each, zero], 2) for each, zero in zip((heads.k, heads.v), zeros, strict=True))
    return Heads(heads.q, k, v), replace(scores, mask=b.concatenate(parts, 3), visible=None)


def _grouped(
    b: GraphBuilder, q: Value, k: Value | None, v: Value | None, many: int, few: int
) -> tuple[Tensor, Tensor, Tensor]:
    """q, k and v as heads, cut out of one tensor where only q is given."""
    b.check_rank(q, 3, 3)
    if min(many, few) < 1:
        raise Malformed(f"there are {many} heads of queries and {few} of keys")
    if k is None or v is None:
        depth = b.graph.facts.simplify(q.sizes[2] // (many + 2 * few))
        widths = [depth * many, depth * few, depth * few]
        starts = (ZERO, widths[0], widths[0] + widths[1])
        q, k, v = (b.slice(q, 2, start, width) for start, width in zip(starts, widths, strict=True))
    return split_heads(b, q, many), split_heads(b, k, few), split_heads(b, v, few)


def _angles(
    b: GraphBuilder, positions: Value | None, before: Size, query: Tensor, tables: tuple[Value, Value]
) -> list[Tensor]:
    """The rows of tables [positions, n] for each query: [1 or b, s, n]."""
    if positions is None:
        numbers = b.emit(Iota, axis=1, sizes=(ONE, query.sizes[2]), dtype=I64)
        positions = b.binary(Add, numbers, known_scalar(before))
    return [embedding(b.tensor(positions), b.tensor(table)) for table in tables]


@lowers("RotaryEmbedding", domain=MICROSOFT)
def lower_rotary_embedding(
    b: GraphBuilder,
    x: Value,
    positions: Value,
    cosines: Value,
    sines: Value,
    *,
    interleaved: int = 0,
    is_packed_batching: int = 0,
    num_heads: int = 0,
    rotary_embedding_dim: int = 0,
    scale: float = 1.0,
) -> Value:
    """Pairs of the first elements of each head turned; one position is that of the first of a sequence"""
    if scale != 1 or is_packed_batching:
        raise Unsupported("scaled angles and packed batches have no lowering")
    count = num_heads
    if x.rank == 3 and not count:
        width = b.graph.facts.simplify(x.sizes[2] // (2 * cosines.sizes[1]))
        count = width.constant_or(0)
    heads = split_heads(b, x, count) if x.rank == 3 else b.tensor(x)
    if positions.rank == 1:
        numbers = b.emit(Iota, axis=1, sizes=(ONE, heads.sizes[2]), dtype=I64)
        first = b.reshape(b.convert(positions, I64), (1, 1))
        positions = b.emit(Add, numbers, b.broadcast(first, numbers.sizes))
    tables = [embedding(b.tensor(positions), b.tensor(each)) for each in (cosines, sines)]
    rotated = rotate(b, heads, tables[0], tables[1], rotary_embedding_dim, bool(interleaved))
    return join_heads(b, rotated) if x.rank == 3 else rotated


__all__ = ["attend_projected"]
