"""A few programs of OpInfo's, drawn by the commit: none may be worse than `counts.json` says."""

from __future__ import annotations

import hashlib
import random
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

import anyshape
from tests.opinfo.programs import programs_of
from tests.opinfo.results import LETTERS, Key, each, letter_of, read_counts, sources_digest
from tests.opinfo.running import capturing_fast, run

PROGRAMS = 20
OF_ONE_OP = 3


def commit() -> str:
    """What the slice is drawn by: the commit's hash, or that of the sources where there is no checkout."""
    found = subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=Path(__file__).parent, capture_output=True, text=True, check=False
    )
    return found.stdout.strip() or sources_digest()


def drawn(seed: str) -> Iterator[tuple[Key, str]]:
    """Programs with their letters, a few of each op."""
    choose = random.Random(hashlib.sha256(seed.encode()).digest())
    by_op: dict[tuple[str, str], list[tuple[Key, str]]] = {}
    for key, letter in each(read_counts()):
        if letter in ".p":  # a refusal takes as long and says less
            by_op.setdefault(key[:2], []).append((key, letter))
    left = PROGRAMS
    for op in choose.sample(sorted(by_op), len(by_op)):
        if left <= 0:
            return
        some = choose.sample(by_op[op], min(OF_ONE_OP, left, len(by_op[op])))
        left -= len(some)
        yield from sorted(some)


@pytest.fixture(scope="module")
def options(tmp_path_factory: pytest.TempPathFactory) -> anyshape.Options:
    return anyshape.Options(threads=1, cache=tmp_path_factory.mktemp("kernels"))


def test_no_program_is_worse(options: anyshape.Options) -> None:
    worse: dict[Key, object] = {}
    with capturing_fast(), torch.no_grad():
        for key, known in drawn(commit()):
            op, dtype, number = key
            outcome = run(programs_of(op, dtype)[number], options)
            letter = letter_of(vars(outcome))
            if LETTERS.index(letter) > LETTERS.index(known):
                worse[key] = known, letter, dict(outcome.reasons)
    assert not worse


def test_slices_differ() -> None:
    some, others = (dict(drawn(seed)) for seed in ("one commit", "another"))
    assert len(some) == len(others) == PROGRAMS
    assert some.keys() != others.keys()
    assert some == dict(drawn("one commit"))
