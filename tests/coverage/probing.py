"""Whether a call compiles, and how many of its axes stay dynamic."""

from __future__ import annotations

import re
import warnings
from dataclasses import dataclass

import torch

import anyshape
from anyshape.support.errors import AnyshapeError, UnsupportedOps
from tests.coverage.overloads import how, overload_of
from tests.opinfo.judging import copies
from tests.opinfo.programs import Applied, Call

OPTIONS = anyshape.Options(threads=1)
MARKS = {"compiled": "c", "decomposed": "d", "size": "c", "falls back": "d", "no": "✗", "none": "·"}
"""`falls back` by name alone may still be met inside another op's decomposition, which then compiles."""

_FIXED = re.compile(r"axis \d+ is \d+$")


@dataclass(frozen=True)
class Probe:
    """What became of one call: a mark of `MARKS`, the axes that are fixed of how many, and why it does not compile."""

    mark: str
    fixed: int = 0
    axes: int = 0
    reason: str = ""


def probe(overload: str, call: Call) -> Probe:
    """Compile a call and run it at its own sizes."""
    function = overload_of(overload)
    mine = copies(call)
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        try:
            Applied(function, mine)(*mine.tensors)
        except (RuntimeError, NotImplementedError, TypeError, ValueError, IndexError):
            return Probe(MARKS["none"])
        mine = copies(call)
        try:
            program = anyshape.compile(Applied(function, mine), mine.tensors, options=OPTIONS)
            program(*copies(call).tensors)
        except AnyshapeError as error:
            return Probe(MARKS["no"], reason=_first_line(error))
        except Exception as error:
            return Probe(MARKS["no"], reason=f"{type(error).__name__}: {error}"[:120])
    fixed = sum(bool(_FIXED.search(guard)) for guard in program.report().guards)
    return Probe(MARKS[how(overload)], fixed, sum(tensor.dim() for tensor in call.tensors))


def _first_line(error: AnyshapeError) -> str:
    if isinstance(error, UnsupportedOps):
        return "; ".join(dict.fromkeys(f"{op.name}: {op.reason}" for op in error.ops))[:160]
    return " ".join(f"{error.message}: {error.got or error.where}".split())[:160]
