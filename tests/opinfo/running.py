"""Runs one program of OpInfo's: compiled with every axis dynamic, and fed all its sizes."""

from __future__ import annotations

import time
import warnings
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any
from unittest import mock

import torch
from torch._export import utils as export_utils
from torch.export import decomp_utils, exported_program

import anyshape
from anyshape.driver.api import CompiledModule
from anyshape.support.errors import DtypeError, ExportError, GuardError, UnsupportedOps
from tests.opinfo.judging import Wrong, copies, judge
from tests.opinfo.programs import Call, SampledProgram

MOST_PROGRAMS = 6
"""How many programs a key may take: where axes agree in one sample and are broadcast in another, one does not serve both."""


@dataclass
class Outcome:
    """What became of the samples of one program.

    Attributes:
        right, refused, wrong, failed: how many samples; those that `failed` met an error that is none of the front end's refusals.
        reasons: why samples are not right, each with how many.
        programs: how often the program was compiled.
        seconds: all of it.
    """

    right: int = 0
    refused: int = 0
    wrong: int = 0
    failed: int = 0
    reasons: Counter[str] = field(default_factory=Counter[str])
    programs: int = 0
    seconds: float = 0.0

    @property
    def samples(self) -> int:
        return self.right + self.refused + self.wrong + self.failed


def run(sampled: SampledProgram, options: anyshape.Options) -> Outcome:
    """Compile from the first sample and run all; a size that a program refuses is the example of the next."""
    outcome, start = Outcome(), time.perf_counter()
    compiled: list[CompiledModule] = []
    for number, call in enumerate(sampled.calls):
        try:
            _run_call(sampled, call, compiled, options, outcome)
            outcome.right += 1
        except Wrong as error:
            outcome.wrong += 1
            outcome.reasons[f"{call.sizes}: {error}"] += 1
        except (UnsupportedOps, ExportError, DtypeError) as error:
            rest = len(sampled.calls) - number if number == 0 else 1  # the graph of another size has the same ops
            outcome.refused += rest
            for reason in reasons_of(error):
                outcome.reasons[reason] += rest
            if number == 0:
                break
        except GuardError as error:
            outcome.refused += 1
            outcome.reasons[f"{call.sizes}: " + " ".join(str(error).split())] += 1
        except Exception as error:
            outcome.failed += 1
            outcome.reasons[f"{call.sizes}: {type(error).__name__}: {str(error).strip()[:300]}"] += 1
            if not compiled:
                outcome.failed += len(sampled.calls) - number - 1
                break
    outcome.seconds = time.perf_counter() - start
    return outcome


def _run_call(
    sampled: SampledProgram, call: Call, compiled: list[CompiledModule], options: anyshape.Options, outcome: Outcome
) -> None:
    refusal: GuardError | None = None
    for program in compiled:
        try:
            judge(sampled, call, program(*copies(call).tensors))
        except GuardError as error:
            refusal = error
        else:
            return
    if len(compiled) == MOST_PROGRAMS and refusal is not None:
        raise refusal
    mine = copies(call)
    with torch.no_grad():
        program = anyshape.compile(sampled.module(mine), mine.tensors, options=options)
    compiled.append(program)
    outcome.programs += 1
    judge(sampled, call, program(*copies(call).tensors))


def reasons_of(error: UnsupportedOps | ExportError | DtypeError) -> Iterator[str]:
    """Each cause in one line, without what differs from call to call."""
    if isinstance(error, UnsupportedOps):
        yield from dict.fromkeys(f"{op.name}: {op.reason}" for op in error.ops)
    elif isinstance(error, DtypeError):
        yield f"{error.message}: {error.got}"
    else:
        lines = str(error.got or error.where or error.message).strip().splitlines()
        yield "capture: " + lines[0][:160]


@contextmanager
def capturing_fast() -> Iterator[None]:
    """PyTorch lists its composite ops anew in every export, which takes half of it; the list does not change here."""
    found = lru_cache(None)(export_utils._collect_all_valid_cia_ops)

    def listed() -> Any:
        return set(found())

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        patches = [
            mock.patch.object(module, "_collect_all_valid_cia_ops", listed)
            for module in (export_utils, decomp_utils, exported_program)
            if hasattr(module, "_collect_all_valid_cia_ops")
        ]
        for patch in patches:
            patch.start()
        try:
            yield
        finally:
            for patch in patches:
                patch.stop()


__all__ = ["Outcome", "capturing_fast", "run"]
