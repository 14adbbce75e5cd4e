"""OpInfo's error cases: calls that PyTorch rejects must be rejected by an error of ours that is an instance of the class of PyTorch's.

Each case is compiled from itself; where a sample of the op differs from it in sizes and values only, the program of that sample is
called with it too, since a size or an index that is wrong may come long after compiling.
"""

from __future__ import annotations

import random
import warnings
from dataclasses import dataclass

import numpy as np
import torch
from torch.utils import _pytree as pytree

import anyshape
from anyshape.support.errors import AnyshapeError, DtypeError, ExportError, UnsupportedOps
from tests.opinfo.judging import copies
from tests.opinfo.programs import OPS, Call, SampledProgram, programs_of
from tests.opinfo.running import Outcome, reasons_of

ERRORS = "errors"
"""What stands in the place of a dtype in records of error cases."""


@dataclass(frozen=True)
class ErrorCase:
    """One call that PyTorch rejects with `error`."""

    program: SampledProgram
    error: Exception

    @property
    def call(self) -> Call:
        return self.program.calls[0]


def error_cases(name: str) -> list[ErrorCase]:
    """The error cases of an op that eager rejects here, numbered in OpInfo's order, the same in every process."""
    op = OPS[name]
    if op.error_inputs_func is None:
        return []
    random.seed(0)
    np.random.seed(0)
    torch.manual_seed(0)
    found: list[ErrorCase] = []
    for number, case in enumerate(op.error_inputs("cpu")):
        sample = case.sample_input
        leaves, structure = pytree.tree_flatten(((sample.input, *sample.args), sample.kwargs))
        program = SampledProgram(op, ERRORS, number, [Call(tuple(leaves), structure)])
        error = _eager_error(program)
        if error is not None:
            found.append(ErrorCase(program, error))
    return found


def _eager_error(program: SampledProgram) -> Exception | None:
    mine = copies(program.calls[0])
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            program.module(mine)(*mine.tensors)
    except Exception as error:
        return error
    return None


def run_case(case: ErrorCase, options: anyshape.Options) -> Outcome:
    """`right` where the error is one of ours and of PyTorch's class, `wrong` where there is none, `failed` where it is another."""
    outcome = Outcome()
    _judge(case, case.call, options, outcome)
    for example in _valid_twins(case):
        _judge(case, example, options, outcome)
    return outcome


def _valid_twins(case: ErrorCase) -> list[Call]:
    """A sample that differs from the case in sizes and values only, where there is one."""
    return next((program.calls[:1] for program in _samples(case.program) if program.calls[0].key == case.call.key), [])


def _samples(program: SampledProgram) -> list[SampledProgram]:
    name = next(name for name, op in OPS.items() if op is program.op)
    return programs_of(name, "float32")


def _judge(case: ErrorCase, example: Call, options: anyshape.Options, outcome: Outcome) -> None:
    expected, mine = type(case.error), copies(example)
    said = " ".join(str(case.error).split())[:120]
    try:
        with torch.no_grad():
            compiled = anyshape.compile(case.program.module(mine), mine.tensors, options=options)
            outcome.programs += 1
            compiled(*copies(case.call).tensors)
    except Exception as error:
        if isinstance(error, expected) and isinstance(error, AnyshapeError):
            outcome.right += 1
        elif isinstance(error, UnsupportedOps) or (
            isinstance(error, ExportError | DtypeError) and example is not case.call
        ):
            outcome.refused += 1
            outcome.reasons.update(reasons_of(error))
        else:
            outcome.failed += 1
            got = " ".join(str(error).split())[:200]
            outcome.reasons[f"{type(error).__name__} instead of {expected.__name__} ({said}): {got}"] += 1
    else:
        outcome.wrong += 1
        outcome.reasons[f"no error instead of {expected.__name__}: {said}"] += 1


__all__ = ["ERRORS", "ErrorCase", "error_cases", "run_case"]
