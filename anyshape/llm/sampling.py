"""Choosing the next token from a row of logits.

The steps, each on what the one before left, are

1. repetition penalty r: logits of tokens already seen are divided by r where positive, multiplied by r else (CTRL, arXiv 1909.05858);
2. temperature 0: the token of the largest logit, the lowest of equals, and nothing more; else
3. top-k: the k largest logits;
4. top-p: the smallest set of the most likely tokens whose probabilities sum to at least p (arXiv 1904.09751);
5. min-p: tokens at least min-p times as likely as the likeliest (arXiv 2407.01082);
6. temperature t: logits / t;
7. one token at random, with the probabilities softmax(logits).

It is the order of llama.cpp, whose top-p and min-p see the probabilities at temperature 1; the likeliest token always stays.
Equal logits are ranked by token, the lowest first.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from anyshape.support.errors import OptionError


@dataclass(frozen=True)
class Sampling:
    """How to choose. The defaults are greedy: the likeliest token.

    Args:
        temperature: 0 for the likeliest token; 1 for the model's probabilities, more for flatter ones.
        top_k: how many tokens may be chosen; 0 for all.
        top_p: how much probability they must have together; 1 for all.
        min_p: how likely, relative to the likeliest, each must be; 0 for all.
        repetition_penalty: above 1 makes tokens that are already there less likely, 1 leaves them.
        seed: of the random numbers, None for other ones every time.
    """

    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    seed: int | None = None

    def __post_init__(self) -> None:
        finite = float("inf")
        _require("temperature", self.temperature, 0 <= self.temperature < finite, "at least 0")
        _require("top_k", self.top_k, self.top_k >= 0, "at least 0")
        _require("top_p", self.top_p, 0 < self.top_p <= 1, "above 0, at most 1")
        _require("min_p", self.min_p, 0 <= self.min_p <= 1, "from 0 to 1")
        _require("repetition_penalty", self.repetition_penalty, 0 < self.repetition_penalty < finite, "above 0")
        _require("seed", self.seed, self.seed is None or self.seed >= 0, "at least 0, or None")


class Sampler:
    """Chooses token after token; its random numbers go on from one to the next, and are the same for the same seed."""

    def __init__(self, sampling: Sampling) -> None:
        self.sampling = sampling
        self._random = np.random.default_rng(sampling.seed)

    def choose(self, logits: NDArray[np.float32], seen: Iterable[int] = ()) -> int:
        """The next token.

        Args:
            logits: f32 [tokens], finite or −inf; left as they are. A NaN ranks below every number.
            seen: tokens of the prompt and of what was generated, which the repetition penalty concerns.
        """
        if self.sampling.repetition_penalty != 1:
            logits = penalized(logits, seen, self.sampling.repetition_penalty)
        if self.sampling.temperature == 0:
            return greedy(logits)
        tokens, probabilities = candidates(logits, self.sampling)
        # The first token at which the cumulated probability exceeds a number in [0, 1).
        cumulated = np.cumsum(probabilities)
        place = int(np.searchsorted(cumulated, self._random.random() * float(cumulated[-1]), side="right"))
        return int(tokens[min(place, len(tokens) - 1)])


def greedy(logits: NDArray[np.float32]) -> int:
    """The token of the largest logit, the lowest of equals."""
    best = int(logits.argmax())
    # np.argmax takes a NaN for the largest.
    return best if logits[best] == logits[best] else int(_without_nan(logits).argmax())


def penalized(logits: NDArray[np.float32], seen: Iterable[int], penalty: float) -> NDArray[np.float32]:
    """Step 1, on a copy: a token counts once however often it was seen, as each time it gets the same value."""
    tokens = np.asarray(list(seen), np.int64)
    values = logits.copy()
    found = values[tokens]
    values[tokens] = np.where(found > 0, found / np.float32(penalty), found * np.float32(penalty))
    return values


def candidates(logits: NDArray[np.float32], sampling: Sampling) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Steps 3 to 6: the tokens that may be chosen and their probabilities, which sum to 1.

    The likeliest token comes first and so on; only where all tokens may be chosen, they are in their own order.
    """
    logits = _without_nan(logits)
    tokens = _ranked(logits, sampling.top_k) if sampling.top_k else np.arange(len(logits))
    values = logits[tokens].astype(np.float64)
    if sampling.top_p < 1 or sampling.min_p > 0:
        kept = _likely(_softmax(values), sampling)
        tokens, values = tokens[kept], values[kept]
    return tokens, _softmax(values, sampling.temperature)


def _likely(probabilities: NDArray[np.float64], sampling: Sampling) -> NDArray[np.int64]:
    """Steps 4 and 5: which probabilities stay, falling. Both cut off a tail, so it does not matter which goes first."""
    # Few are sorted: all that are below (1 − p) / n have less than 1 − p together, so top-p has enough without them.
    top = 0.5 * (1 - sampling.top_p) / len(probabilities)
    kept = np.flatnonzero(probabilities >= max(top, sampling.min_p * float(probabilities.max())))
    kept = kept[np.argsort(-probabilities[kept], kind="stable")]
    if sampling.top_p == 1:
        return kept
    enough = np.searchsorted(np.cumsum(probabilities[kept]), sampling.top_p, side="left") + 1
    return kept[:enough]


def _ranked(logits: NDArray[np.float32], most: int) -> NDArray[np.int64]:
    """The `most` tokens of the largest logits, in falling order, equals by token."""
    if most < len(logits):
        least = np.partition(logits, -most)[-most]
        above, equal = np.flatnonzero(logits > least), np.flatnonzero(logits == least)
        kept = np.sort(np.concatenate([above, equal[: most - len(above)]]))
    else:
        kept = np.arange(len(logits))
    return kept[np.argsort(-logits[kept], kind="stable")]


def _softmax(values: NDArray[np.float64], temperature: float = 1.0) -> NDArray[np.float64]:
    """exp((v − max) / t) / Σ; where all are −inf, all are equally likely."""
    largest = values.max()
    if largest == -np.inf:
        return np.full(len(values), 1 / len(values))
    with np.errstate(over="ignore"):
        powers = np.exp((values - largest) / temperature)
    return powers / powers.sum()


def _without_nan(logits: NDArray[np.float32]) -> NDArray[np.float32]:
    return np.where(np.isnan(logits), np.float32(-np.inf), logits)


def _require(name: str, got: object, holds: bool, expected: str) -> None:
    if not holds:
        raise OptionError("a sampling option is out of range", where=name, got=got, expected=expected)
