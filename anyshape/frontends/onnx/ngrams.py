"""TfIdfVectorizer: how often n-grams of a list occur in a sequence of integers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from anyshape.dialects.dhlo import Add, And, Concatenate, Multiply, Pad, Reduce
from anyshape.dialects.dtypes import F32, I64
from anyshape.frontends.onnx.builder import GraphBuilder
from anyshape.frontends.onnx.refusals import Malformed, Unsupported
from anyshape.frontends.onnx.registry import lowers
from anyshape.frontends.onnx.values import Value
from anyshape.nn import Tensor
from anyshape.symbolic import size_max

MOST_COMPARISONS = 4096
"""Comparisons of a sequence with one integer, at most: each is an op."""


@lowers("TfIdfVectorizer")
def lower_tf_idf_vectorizer(
    b: GraphBuilder,
    x: Value,
    *,
    max_gram_length: int,
    max_skip_count: int,
    min_gram_length: int,
    mode: str,
    ngram_counts: Sequence[int],
    ngram_indexes: Sequence[int],
    pool_int64s: Sequence[int] = (),
    weights: Sequence[float] = (),
) -> Value:
    """[c] or [n, c] -> […, max(ngram_indexes) + 1]: how often the i-th n-gram occurs, at place ngram_indexes[i]

    Its integers may stand 1 to max_skip_count + 1 apart. In the mode IDF more than once counts as once; there, and in the mode TFIDF, the
    i-th n-gram's count is multiplied by weights[i].
    """
    b.check_rank(x, 1, 2)
    if not pool_int64s:
        raise Unsupported("n-grams of strings")
    grams = list(_grams(pool_int64s, ngram_counts))
    if mode not in ("TF", "IDF", "TFIDF") or len(grams) != len(ngram_indexes) or min(ngram_indexes) < 0:
        raise Malformed(f"the mode is {mode!r}; {len(grams)} n-grams have {len(ngram_indexes)} places in the result")
    if not 1 <= min_gram_length <= max_gram_length or max_skip_count < 0 or len(weights) not in (0, len(grams)):
        raise Malformed(
            f"n-grams of {min_gram_length} to {max_gram_length}, {max_skip_count} skipped, {len(weights)} weights"
        )
    used = [each for each in range(len(grams)) if min_gram_length <= len(grams[each]) <= max_gram_length]
    if sum(len(grams[each]) for each in used) * (max_skip_count + 1) > MOST_COMPARISONS:
        raise Unsupported(f"{len(used)} n-grams with up to {max_skip_count} skipped integers")
    tokens = b.convert(x, I64)
    columns: dict[int, Tensor] = {}
    for each in used:
        count = _count(b, tokens, grams[each], max_skip_count)
        if mode == "IDF":
            count = b.convert(b.compare("gt", count, 0), I64)
        column = b.convert(count, F32)
        if mode != "TF" and weights:
            column = b.binary(Multiply, column, weights[each])
        columns[ngram_indexes[each]] = column
    none = b.constant(0, F32, x.sizes[:-1])
    ordered = (columns.get(place, none) for place in range(max(ngram_indexes) + 1))
    return b.emit(Concatenate, *(b.reshape(each, (*x.sizes[:-1], 1)) for each in ordered), axis=x.rank - 1)


def _grams(pool: Sequence[int], starts: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """The n-grams of a pool that has those of each length one after another, from these starts on."""
    if list(starts) != sorted(starts) or not starts or starts[0] != 0 or starts[-1] > len(pool):
        raise Malformed(f"n-grams of each length start at {list(starts)} among {len(pool)} integers")
    for length, (start, end) in enumerate(zip(starts, (*starts[1:], len(pool)), strict=True), 1):
        if (end - start) % length:
            raise Malformed(f"{end - start} integers are no n-grams of {length}")
        yield from (tuple(pool[at : at + length]) for at in range(start, end, length))


def _count(b: GraphBuilder, tokens: Tensor, gram: tuple[int, ...], most_skipped: int) -> Tensor:
    """How often it occurs along the last axis, i64; a single integer once for each place, whatever is skipped."""
    axis, total = tokens.rank - 1, None
    for step in range(1, (most_skipped if len(gram) > 1 else 0) + 2):
        extent = step * (len(gram) - 1)
        places = b.graph.facts.simplify(size_max(tokens.sizes[axis] - extent, 0))
        whole = tokens if extent == 0 else _filled(b, tokens, extent)
        found: Tensor | None = None
        for at, integer in enumerate(gram):
            same = b.compare("eq", b.slice(whole, axis, at * step, places), integer)
            found = same if found is None else b.binary(And, found, same)
        assert found is not None
        count = b.emit(Reduce, b.convert(found, I64), axes=(axis,), kind="sum")
        total = count if total is None else b.binary(Add, total, count)
    assert total is not None
    return total


def _filled(b: GraphBuilder, tokens: Tensor, extent: int) -> Tensor:
    """Zeros behind the last axis, so that slices of sequences shorter than an n-gram, of which no place is looked at, lie inside."""
    none = (0,) * (tokens.rank - 1)
    return b.emit(Pad, tokens, b.constant(0, I64), low=(0,) * tokens.rank, high=(*none, extent))


__all__: list[str] = []
