"""The sizes of the matrix that is derived from the ops: a slice, or with `ANYSHAPE_TEST_OPS=whole` all that `make test-ops` runs."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from random import Random

from anyshape.dialects.dhlo import Sample
from anyshape.dialects.dhlo.samples import sample_environments

WHOLE = os.environ.get("ANYSHAPE_TEST_OPS") == "whole"
SLICE_SIZES = (0, 1, 7, 33)
WHOLE_SIZES = (0, 1, 2, 3, 7, 8, 9, 16, 31, 33, 63, 64, 65)
MORE = 24
"""How many assignments are drawn beside those that go through the sizes in turn."""
MOST_POINTS = 60_000
"""Of the product of all symbols' values, where more than one is large: references are slow."""


def environments(symbols: Sequence[str], sample: Sample) -> list[dict[str, int]]:
    """Assignments of the size symbols of a sample."""
    if not WHOLE:
        return sample_environments(symbols, sample, SLICE_SIZES)
    choose = Random(len(symbols))
    found = sample_environments(symbols, sample, WHOLE_SIZES) if symbols else [{}]
    for _ in range(MORE if symbols else 0):
        drawn = {symbol: choose.choice(WHOLE_SIZES) for symbol in symbols}
        found.append({symbol: max(size, sample.minimum.get(symbol, 0)) for symbol, size in drawn.items()})
    least = sample_environments(symbols, sample, (0,))[0]
    return [env if math.prod(env.values()) <= MOST_POINTS else _smaller(env, least) for env in found]


def _smaller(env: dict[str, int], least: dict[str, int]) -> dict[str, int]:
    """The sizes shrunk alike until there are not too many points."""
    factor = (MOST_POINTS / math.prod(env.values())) ** (1 / len(env))
    return {symbol: max(int(size * factor), least[symbol]) for symbol, size in env.items()}
