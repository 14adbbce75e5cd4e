"""Compiled programs, and how they are kept in the cache."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any

import numpy as np

from anyshape.codegen.llvm import Target
from anyshape.dialects.arrays import ConstantEntry, ConstantStore
from anyshape.dialects.element_types import element_name, numpy_type
from anyshape.dialects.packed_blocks import PackedBlocks
from anyshape.dialects.packed_panels import PackedOperand
from anyshape.driver.cache import Cache, Entry, key_of
from anyshape.driver.constants import ConstantTable
from anyshape.driver.recording import is_recording
from anyshape.support.machine import Machine
from anyshape.support.options import Options
from anyshape.support.trace import Trace

if TYPE_CHECKING:
    from anyshape.dialects.host import ProgramOp
    from anyshape.dialects.tile import KernelOp

STAGE_LOGS = ("passes", "fusion", "kernels", "host", "guards", "mlir", "asm")
"""Logs of what happens while a program is compiled, and so not when it comes from the cache."""
_NOT_OF_THE_PROGRAM = frozenset({"threads", "log", "dump", "verify", "cache"})


@dataclass(frozen=True)
class Summary:
    """What a program is made of, in plain values: kernels launched (by name, with counts), sizes bound, guards."""

    launches: Mapping[str, int]
    symbols: Mapping[str, str]
    guards: tuple[str, ...]


@dataclass(frozen=True)
class Stages:
    """The intermediate forms that a program was built from."""

    program: ProgramOp
    kernels: Mapping[str, KernelOp]


@dataclass(frozen=True)
class BuiltObjects:
    """A compiled program before it is loaded. `stages` is None when it came from the cache."""

    objects: Mapping[str, bytes]
    constants: ConstantTable
    summary: Summary
    stages: Stages | None = None


class StoredProgram:
    """The place in the cache of the program of one graph.

    Args:
        machine, target: what the program is compiled for.
        options: with the cache's folder; without one nothing is ever found or kept.
        graph: texts that say what the graph is, beginning with the kind of text.
    """

    def __init__(self, machine: Machine, target: Target, options: Options, *graph: str) -> None:
        self._cache = None if options.cache is None else Cache(options.cache)
        self._key = key_of("program", target, machine, _text_of(options), *graph) if self._cache else ""

    def get(self, store: ConstantStore, trace: Trace) -> tuple[BuiltObjects, Any] | None:
        """The program over the weights in `store`, to which the folded ones are added, and what was kept beside it."""
        # What is recorded is how a program was compiled.
        entry = self._cache.get(self._key) if self._cache and not is_recording() else None
        if entry is None:
            return None
        for name in STAGE_LOGS:
            trace.log(name, lambda: "the program came from the cache; with ANYSHAPE_CACHE=off it is compiled and shown")
        return _from_entry(entry, store), entry.head["beside"]

    def put(self, built: BuiltObjects, given: frozenset[str], beside: Any = None) -> None:
        """Keep a program without the weights that the model brings (`given`), and JSON values beside it."""
        if self._cache:
            self._cache.put(self._key, _to_entry(built, given, beside))


def _text_of(options: Options) -> str:
    """Every option, a new one too, but for those that say how a program is compiled, run or shown, and not what it is."""
    chosen = {field.name: getattr(options, field.name) for field in fields(options)}
    return json.dumps(
        {name: value for name, value in chosen.items() if name not in _NOT_OF_THE_PROGRAM}, sort_keys=True
    )


def _to_entry(built: BuiltObjects, given: frozenset[str], beside: Any) -> Entry:
    summary, constants = built.summary, built.constants
    made = {entry.weight: constants.store[entry.weight] for entry in constants.entries if entry.weight not in given}
    head = {
        "launches": dict(summary.launches),
        "symbols": dict(summary.symbols),
        "guards": list(summary.guards),
        "constants": [[entry.weight, entry.packed and asdict(entry.packed)] for entry in constants.entries],
        "objects": list(built.objects),
        "weights": {name: [element_name(array.dtype), list(array.shape)] for name, array in made.items()},
        "beside": beside,
    }
    return Entry(head, {**built.objects, **{name: array.tobytes() for name, array in made.items()}})


def _packed_from(fields: Mapping[str, Any]) -> PackedOperand | PackedBlocks:
    return PackedBlocks(**fields) if "format" in fields else PackedOperand(**fields)


def _from_entry(entry: Entry, store: ConstantStore) -> BuiltObjects:
    head = entry.head
    for name, (dtype, shape) in head["weights"].items():
        # Its name was made of its contents, and the contents of an entry are those that were written.
        store.put(name, np.frombuffer(entry.blobs[name], numpy_type(dtype)).reshape(shape))
    constants = tuple(
        ConstantEntry(weight, None if packed is None else _packed_from(packed)) for weight, packed in head["constants"]
    )
    summary = Summary(head["launches"], head["symbols"], tuple(head["guards"]))
    objects = {name: bytes(entry.blobs[name]) for name in head["objects"]}
    return BuiltObjects(objects, ConstantTable(constants, store), summary)
