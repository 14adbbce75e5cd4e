"""Sampling: each step against a plain reference, frequencies against probabilities, and ties."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anyshape.llm.sampling import Sampler, Sampling, candidates, greedy, penalized
from anyshape.support.errors import OptionError


def f32(*values: float) -> np.ndarray[Any, np.dtype[np.float32]]:
    return np.array(values, np.float32)


def plain(logits: np.ndarray[Any, Any], s: Sampling) -> dict[int, float]:
    """The steps in plain Python: token -> probability."""
    ranked = sorted(range(len(logits)), key=lambda token: (-logits[token], token))
    kept = ranked[: s.top_k or None]

    def probabilities(tokens: list[int], t: float) -> list[float]:
        powers = [float(np.exp((float(logits[token]) - float(logits[tokens[0]])) / t)) for token in tokens]
        return [power / sum(powers) for power in powers]

    if s.top_p < 1:
        total, count = 0.0, 0
        for p in probabilities(kept, 1):
            total, count = total + p, count + 1
            if total >= s.top_p:
                break
        kept = kept[:count]
    if s.min_p > 0:
        ps = probabilities(kept, 1)
        kept = [token for token, p in zip(kept, ps, strict=True) if p >= s.min_p * ps[0]]
    return dict(zip(kept, probabilities(kept, s.temperature), strict=True))


@given(
    st.lists(st.floats(-8, 8, width=16), min_size=1, max_size=40),
    st.integers(0, 45),
    st.sampled_from([0.0513, 0.31, 0.77, 0.953, 1.0]),
    st.sampled_from([0.0, 0.013, 0.37, 1.0]),
    st.sampled_from([0.2, 1.0, 1.7]),
)
def test_the_candidates_are_those_of_the_plain_reference(
    values: list[float], top_k: int, top_p: float, min_p: float, temperature: float
) -> None:
    sampling = Sampling(temperature=temperature, top_k=top_k, top_p=top_p, min_p=min_p)
    tokens, probabilities = candidates(f32(*values), sampling)
    expected = plain(f32(*values), sampling)
    if top_k == 0 and top_p == 1 and min_p == 0:
        expected = dict(sorted(expected.items()))
    assert tokens.tolist() == list(expected)
    np.testing.assert_allclose(probabilities, list(expected.values()), rtol=1e-9)


@pytest.mark.parametrize(
    ("sampling", "kept"),
    [
        (Sampling(temperature=1), [0, 1, 2, 3]),
        (Sampling(temperature=1, top_k=9), [2, 0, 1, 3]),
        (Sampling(temperature=1, top_k=2), [2, 0]),
        (Sampling(temperature=1, top_p=0.4), [2]),
        (Sampling(temperature=1, top_p=0.41), [2, 0]),
        (Sampling(temperature=1, top_p=0.9), [2, 0, 1]),
        (Sampling(temperature=1, min_p=0.5), [2, 0]),
        (Sampling(temperature=1, min_p=0.76), [2]),
        (Sampling(temperature=9, top_p=0.41), [2, 0]),
        (Sampling(temperature=1, top_k=3, top_p=0.5), [2, 0]),
    ],
)
def test_steps_on_known_probabilities(sampling: Sampling, kept: list[int]) -> None:
    tokens, _ = candidates(np.log(f32(0.3, 0.2, 0.4001, 0.0999)), sampling)
    assert tokens.tolist() == kept


def test_temperature_changes_probabilities_after_the_cuts() -> None:
    _, probabilities = candidates(np.log(f32(0.8, 0.2)), Sampling(temperature=0.5))
    np.testing.assert_allclose(probabilities, [0.64 / 0.68, 0.04 / 0.68], rtol=1e-6)


def test_frequencies_are_the_probabilities() -> None:
    logits, n = f32(0.3, -1.0, 1.2, 0.0, -np.inf, 1.2), 20_000
    sampling = Sampling(temperature=0.8, seed=1)
    tokens, probabilities = candidates(logits, sampling)
    expected = np.zeros(len(logits))
    expected[tokens] = probabilities
    sampler = Sampler(sampling)
    counts = np.bincount([sampler.choose(logits) for _ in range(n)], minlength=len(logits))
    assert counts[4] == 0
    # Five standard deviations of each count.
    assert (np.abs(counts - n * expected) <= 5 * np.sqrt(n * expected * (1 - expected))).all()


def test_the_same_seed_gives_the_same_tokens() -> None:
    logits = np.zeros(1000, np.float32)
    runs = [
        [sampler.choose(logits) for _ in range(20)]
        for sampler in (Sampler(Sampling(temperature=1, seed=s)) for s in (7, 7, 8))
    ]
    assert runs[0] == runs[1] != runs[2]
    assert len(set(runs[0])) > 10


def test_greedy_takes_the_lowest_of_equals() -> None:
    assert greedy(f32(1, 3, 3, 2)) == 1
    assert greedy(f32(-np.inf, -np.inf)) == 0
    assert greedy(f32(np.nan, 1, 5, np.nan, 5)) == 2
    assert Sampler(Sampling()).choose(f32(1, 3, 3)) == 1


def test_equals_at_the_edge_of_top_k_go_by_token() -> None:
    tokens, probabilities = candidates(f32(1, 2, 1, 1, 2, 1), Sampling(temperature=1, top_k=4))
    assert tokens.tolist() == [1, 4, 0, 2]
    assert probabilities[0] == probabilities[1]


def test_one_candidate_is_the_greedy_one_at_any_temperature() -> None:
    random = np.random.default_rng(0)
    for seed in range(50):
        logits = random.standard_normal(300).astype(np.float32)
        for sampling in (
            Sampling(temperature=5, top_k=1, seed=seed),
            Sampling(temperature=5, top_p=1e-6, seed=seed),
            Sampling(temperature=5, min_p=1, seed=seed),
            Sampling(temperature=1e-5, seed=seed),
            Sampling(temperature=5e-324, seed=seed),
        ):
            assert Sampler(sampling).choose(logits) == greedy(logits)


def test_a_nan_is_never_chosen_before_a_number() -> None:
    sampler = Sampler(Sampling(temperature=1, seed=0))
    assert {sampler.choose(f32(np.nan, 0, np.nan, 0)) for _ in range(50)} == {1, 3}


def test_the_penalty_counts_a_token_once() -> None:
    logits = f32(2, -2, 0, 4)
    result = penalized(logits, [0, 1, 1, 2, 0], 2.0)
    assert result.tolist() == [1, -4, 0, 4]
    assert logits.tolist() == [2, -2, 0, 4]
    assert penalized(logits, [], 2.0).tolist() == logits.tolist()
    assert Sampler(Sampling(repetition_penalty=3)).choose(logits, [3]) == 0


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("temperature", -1),
        ("temperature", float("nan")),
        ("temperature", float("inf")),
        ("top_k", -1),
        ("top_p", 0),
        ("top_p", 1.5),
        ("min_p", -0.1),
        ("min_p", 1.1),
        ("repetition_penalty", 0),
        ("seed", -1),
    ],
)
def test_an_option_out_of_range_is_named(option: str, value: float) -> None:
    with pytest.raises(OptionError, match=option):
        Sampling(**{option: value})  # type: ignore[arg-type]
