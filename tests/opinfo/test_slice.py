"""A few programs and error cases of OpInfo's, drawn by the commit: none may be worse than `counts.json` says."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

import anyshape
from tests.drawn import drawn
from tests.opinfo.errors import ERRORS, error_cases, run_case
from tests.opinfo.programs import programs_of
from tests.opinfo.results import LETTERS, Key, each, letter_of, read_counts
from tests.opinfo.running import Outcome, capturing_fast, run

SAMPLED_OPS = 8
"""Ops of whose samples some are run."""
REJECTING_OPS = 5
"""Ops of whose error cases some are run."""
OF_ONE_OP = 3


def sliced(seed: str | None = None) -> Iterator[tuple[Key, str]]:
    """Programs and error cases with their letters, a few of each op."""
    by_op: dict[tuple[str, str], list[tuple[Key, str]]] = {}
    for key, letter in each(read_counts()):
        if letter in ".p":  # a refusal takes as long and says less
            by_op.setdefault(key[:2], []).append((key, letter))
    rejecting = [op for op in sorted(by_op) if op[1] == ERRORS]
    sampled = [op for op in sorted(by_op) if op[1] != ERRORS]
    for op in (*drawn(SAMPLED_OPS, sampled, seed), *drawn(REJECTING_OPS, rejecting, seed)):
        yield from drawn(OF_ONE_OP, by_op[op], seed)


@pytest.fixture(scope="module")
def options(tmp_path_factory: pytest.TempPathFactory) -> anyshape.Options:
    return anyshape.Options(threads=1, cache=tmp_path_factory.mktemp("kernels"))


def outcome_of(key: Key, options: anyshape.Options) -> Outcome:
    op, dtype, number = key
    if dtype != ERRORS:
        return run(programs_of(op, dtype)[number], options)
    (case,) = (case for case in error_cases(op) if case.program.number == number)
    return run_case(case, options)


def test_no_program_is_worse(options: anyshape.Options) -> None:
    worse: dict[Key, object] = {}
    with capturing_fast(), torch.no_grad():
        for key, known in sliced():
            outcome = outcome_of(key, options)
            letter = letter_of(vars(outcome))
            if LETTERS.index(letter) > LETTERS.index(known):
                worse[key] = known, letter, dict(outcome.reasons)
    assert not worse


def test_slices_differ() -> None:
    some, others = (dict(sliced(seed)) for seed in ("one commit", "another"))
    assert len({op for op, dtype, _ in some if dtype != ERRORS}) == SAMPLED_OPS
    assert some.keys() != others.keys()
    assert some == dict(sliced("one commit"))
