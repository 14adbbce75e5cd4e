"""Medians, paired ratios and their spread."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Spread:
    """The median of samples, and the 10th and 90th percentile."""

    median: float
    low: float
    high: float


def spread(samples: Sequence[float]) -> Spread:
    """The spread of one sample or more, percentiles by linear interpolation between the sorted samples."""
    ordered = sorted(samples)
    return Spread(statistics.median(ordered), _percentile(ordered, 0.1), _percentile(ordered, 0.9))


def paired_ratio(baseline: Sequence[float], samples: Sequence[float]) -> Spread:
    """The spread of baseline[i] / samples[i]: both taken in turn i, so that a drift of the machine cancels; above 1, the
    second is faster."""
    return spread([theirs / ours for theirs, ours in zip(baseline, samples, strict=True)])


def geometric_mean(ratios: Sequence[float]) -> float:
    """(Π rᵢ)^(1/n) of n ≥ 1 positive ratios."""
    return math.exp(statistics.fmean(map(math.log, ratios)))


def _percentile(ordered: Sequence[float], fraction: float) -> float:
    position = fraction * (len(ordered) - 1)
    below = int(position)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (position - below)
