"""Stores of the first lanes of vectors, where a row ends within one.

AVX-512 and SVE have masked stores of every element. AVX2 has them for 32 and 64 bits only, and on Zen 3 one takes ten times as long as a
plain store; NEON has none, and LLVM makes a branch for each lane. There a vector's head
is stored in plain pieces, one for each power of two in their number, the largest first.
"""

from __future__ import annotations

from collections.abc import Sequence

from anyshape.codegen.builder import Builder
from anyshape.codegen.mlir import Value

Stores = Sequence[tuple[Value, Value]]
"""(vector, address), all of one vector type."""

_MASKED = frozenset({"avx512vl", "sve"})
"""Extensions, under LLVM's names, with masked stores of all elements."""


def store_first(b: Builder, stores: Stores, count: Value) -> None:
    """Store the first `count` lanes of each vector at its address: none where that is not positive, all from their number on."""
    width = b.width(stores[0][0])
    assert width is not None
    if b.features & _MASKED or width & (width - 1):
        mask = b.tail_mask(count, width)
        for vector, address in stores:
            b.store(vector, address, mask=mask)
        return
    is_whole = b.if_(b.cmp("sge", count, width), has_else=True)
    with is_whole.then():
        for vector, address in stores:
            b.store(vector, address)
    with is_whole.otherwise():
        _store_pieces(b, stores, b.maximum(count, 0), width // 2)


def _store_pieces(b: Builder, stores: Stores, count: Value, piece: int) -> None:
    """Store the first `count` lanes, fewer than 2 · `piece`."""
    if piece == 0:
        return
    vectors = [vector for vector, _ in stores]
    last = piece == 1
    types = [] if last else [each.type for vector in vectors for each in (_lanes(b, vector, 0, piece), stores[0][1])]
    has_piece = b.if_(b.cmp("ne", b.and_(count, piece), 0), types, has_else=True)
    with has_piece.then():
        rest: list[Value] = []
        for vector, address in stores:
            b.store(_lanes(b, vector, 0, piece), address)
            if not last:
                rest += [_lanes(b, vector, piece, piece), b.offset(address, b.element_type(vector), piece)]
        if rest:
            has_piece.yield_(*rest)
    with has_piece.otherwise():
        if not last:
            has_piece.yield_(*(each for vector, address in stores for each in (_lanes(b, vector, 0, piece), address)))
    if not last:
        results = has_piece.results
        _store_pieces(b, list(zip(results[::2], results[1::2], strict=True)), count, piece // 2)


def _lanes(b: Builder, vector: Value, first: int, count: int) -> Value:
    """The lanes [first, first + count) of a vector."""
    if count == 1:
        return b.extract(vector, first)
    return b.shuffle(vector, vector, list(range(first, first + count)))


__all__ = ["store_first"]
