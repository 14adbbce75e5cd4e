"""Programs that are compiled in this process while somebody records them: `with recorded() as compilations: …`.

PyTorch calls the back end, and a user's function calls `anyshape.compile`, so there is nobody to hand a recorder over: as the journal of
remarks, it belongs to the process. Nothing is kept while nobody records.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from xdsl.dialects.func import FuncOp

    from anyshape.dialects.dhlo.fusion import FusionOp
    from anyshape.dialects.host import ProgramOp
    from anyshape.dialects.tile import KernelOp
    from anyshape.driver.constants import ConstantTable
    from anyshape.fusion import Decision
    from anyshape.kernels import Launch
    from anyshape.support.machine import Machine
    from anyshape.support.trace import Trace


@dataclass(frozen=True)
class Compilation:
    """What a compilation made on the way to machine code.

    Attributes:
        names: the arguments, as errors call them.
        graph: the function whose ops are weights, views and fusions; its location says who asked for its facts.
        decision: why values between fusions go through memory.
        launches: the kernel of each fusion.
        program: the host program.
        kernels: kernel plans by name.
        constants: the constant table.
        machine: what it was compiled for.
        trace: its times; they are complete when the compilation has returned.
    """

    names: tuple[str, ...]
    graph: FuncOp
    decision: Decision
    launches: Mapping[FusionOp, Launch]
    program: ProgramOp
    kernels: Mapping[str, KernelOp]
    constants: ConstantTable
    machine: Machine
    trace: Trace


_RECORDINGS: list[list[Compilation]] = []
_LOCK = Lock()


def is_recording() -> bool:
    """Whether anybody records: programs are compiled then, and not taken from the cache."""
    return bool(_RECORDINGS)


def record(compilation: Compilation) -> None:
    """Add a compilation to every recording that is open."""
    with _LOCK:
        for each in _RECORDINGS:
            each.append(compilation)


@contextmanager
def recorded() -> Generator[list[Compilation]]:
    """Every program that is compiled inside, in the order in which their compilations end, from any thread."""
    compilations: list[Compilation] = []
    with _LOCK:
        _RECORDINGS.append(compilations)
    try:
        yield compilations
    finally:
        with _LOCK:
            _RECORDINGS[:] = [each for each in _RECORDINGS if each is not compilations]


__all__ = ["Compilation", "is_recording", "record", "recorded"]
