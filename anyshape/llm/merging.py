"""Joining neighbouring pieces of text, the best pair first: what both byte-pair encoding and SentencePiece's BPE models do.

The two differ in which pair is better. Byte-pair encoding goes by the rank of the pair in a list of merges; SentencePiece by the
score of the joined piece, and joins whatever gives a piece of the vocabulary. Pairs that are equally good go from left to right.
"""

from collections.abc import Callable, Sequence
from heapq import heapify, heappop, heappush
from typing import TypeAlias

Order: TypeAlias = Callable[[str, str], float | None]
"""(left, right) -> a number, the smaller the sooner they are joined; None where they never are."""


def merge(pieces: Sequence[str], order: Order) -> list[str]:
    """Join neighbours until no pair can be joined. O(n log n) in the number of pieces, none of which is empty."""
    count = len(pieces)
    joined = list(pieces)
    before = list(range(-1, count - 1))
    behind = list(range(1, count + 1))
    # A pair is known by its left piece; it is stale once its text is not what is there any more.
    heap: list[tuple[float, int, str]] = []
    for left in range(count - 1):
        rank = order(joined[left], joined[left + 1])
        if rank is not None:
            heap.append((rank, left, joined[left] + joined[left + 1]))
    heapify(heap)
    while heap:
        _, left, text = heappop(heap)
        right = behind[left]
        if not joined[left] or right == count or joined[left] + joined[right] != text:
            continue
        joined[left], joined[right] = text, ""
        after = behind[right]
        behind[left] = after
        if after < count:
            before[after] = left
            rank = order(text, joined[after])
            if rank is not None:
                heappush(heap, (rank, left, text + joined[after]))
        first = before[left]
        if first >= 0:
            rank = order(joined[first], text)
            if rank is not None:
                heappush(heap, (rank, first, joined[first] + text))
    return [piece for piece in joined if piece]
