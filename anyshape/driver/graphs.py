"""Graphs of `anyshape.nn` as functions of numpy arrays."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING

import numpy as np

from anyshape import driver
from anyshape.codegen.llvm import LoadedCode, host_target
from anyshape.codegen.symbols import DESCRIPTOR
from anyshape.dialects.arrays import Array, ArrayType, ConstantStore
from anyshape.driver.ahead import Ahead
from anyshape.driver.constants import Job, fill_jobs, run_jobs
from anyshape.driver.machine import calibrated_machine
from anyshape.driver.mapped import drop_pages
from anyshape.driver.stored import BuiltObjects, StoredProgram, Summary
from anyshape.runtime import Program, numpy_adaptor, runtime
from anyshape.support.errors import ArgumentError
from anyshape.support.options import Options
from anyshape.support.trace import Trace

if TYPE_CHECKING:
    from anyshape.nn import FinishedGraph

_KIND = "anyshape.nn"
_LIVE = "live:"
BATCH_BYTES = 8 << 20
"""Bytes of weights that are repacked at a time: as much of them may be in memory twice."""
_BYTE = np.zeros(1, np.uint8)


class GraphFunction:
    """A compiled graph: called with one array, or one number for a size input, for each argument; returns a list of arrays.

    Raises on a call what `Program.run` raises.

    Attributes:
        program: the loaded program.
        summary: kernels, sizes and guards.
    """

    def __init__(self, program: Program, summary: Summary) -> None:
        self.program = program
        self.summary = summary

    def __call__(self, *args: Array | int) -> list[Array]:
        arrays = [of_length(each) if isinstance(each, int) else each for each in args]
        return numpy_adaptor.run(self.program, arrays)


def of_length(size: int) -> Array:
    """An array of `size` elements and one byte of memory: what a size input is given, of which only the length is read."""
    return np.lib.stride_tricks.as_strided(_BYTE, (size,), (0,), writeable=False)


def compile_graph(
    graph: FinishedGraph, weights: Mapping[str, Array] | None = None, options: Options | None = None
) -> GraphFunction:
    """Compile a graph for every size that it allows.

    Args:
        graph: what `Graph.finish` returned; it is consumed.
        weights: the arrays of its weights that are bound by name.
        options: see `anyshape.Options`; by default from the environment.

    Raises:
        ArgumentError: a weight was not given, or has another type.
    """
    options = options or Options.from_environment()
    live = {name.removeprefix(_LIVE): type for name, type in graph.store.live.items()}
    built = built_graph(str(graph.module), live, lambda: graph, options, Trace.from_options(options))
    return GraphFunction(load_graph(built, (weights or {}).__getitem__, options), built.summary)


def built_graph(
    text: str, weights: Mapping[str, ArrayType], build: Callable[[], FinishedGraph], options: Options, trace: Trace,
    parts: Collection[str] = (),
) -> BuiltObjects:  # fmt: skip
    """The program of a graph, from the cache or compiled.

    Args:
        text: says what the graph is, together with the sources of this package: where it is found in the cache, no graph is built.
        weights: the types of the weights that are bound by name.
        build: builds the graph.
        options, trace: as for every compilation.
        parts: micro-kernels that it will call, as far as they are known; see `driver.ahead`.
    """
    machine, target = calibrated_machine(options.cache), host_target()
    place = StoredProgram(machine, target, options, _KIND, text)
    store = ConstantStore()
    for name, type in weights.items():
        store.add_live(name, type)
    with trace.stage("cache"):
        found = place.get(store, trace)
    if found is not None:
        return found[0]
    with Ahead(parts, options.cache if options.threads != 1 and machine.cores > 1 else None) as ahead:
        with trace.stage("import"):
            graph = build()
        trace.log("graph", lambda: str(graph.module))
        trace.dump("graph", "mlir", lambda: str(graph.module))
        given = frozenset(graph.store.live)
        built = driver.compile_objects(
            graph.module, list(graph.names), graph.store, options, trace, machine, target, ahead
        )  # fmt: skip
    if not any(entry.weight not in given and graph.store.is_live(entry.weight) for entry in built.constants.entries):
        with trace.stage("cache"):  # what is derived from weights that are not known yet is a recipe of this process
            place.put(built, given)
    return built


def load_graph(built: BuiltObjects, read: Callable[[str], Array], options: Options) -> Program:
    """Load a program on these weights. Those that kernels read as they are stay where they lie; the others are repacked, a few at a time.

    Args:
        read: gives a weight by its name.

    Raises:
        ArgumentError: a weight is not given, or has another type than the graph says.
    """
    table = built.constants
    code = LoadedCode(list(built.objects.values()), runtime().symbols)

    def value(name: str) -> Array:
        array = _read(name.removeprefix(_LIVE), read)
        if ArrayType.of(array) != table.store.type_of(name):
            raise ArgumentError(
                "a weight has another type than its graph says",
                where=name.removeprefix(_LIVE), got=ArrayType.of(array), expected=table.store.type_of(name),
            )  # fmt: skip
        return array

    constants: list[Array | None] = [None] * len(table.entries)
    for index, entry in enumerate(table.entries):
        if entry.packed is None and entry.weight in table.store.live:
            array = value(entry.weight)
            constants[index] = array if array.flags.c_contiguous and array.flags.aligned else None
    rest = [index for index, array in enumerate(constants) if array is None]
    jobs: list[Job] = []
    sources: list[Array] = []
    size = 0
    for index, target in zip(rest, table.allocate([table.entries[index] for index in rest]), strict=True):
        constants[index] = target
        entry = table.entries[index]
        sources.append(table.store.value_of(entry.weight, value))
        jobs += fill_jobs(code, entry, sources[-1], target)
        size += target.nbytes
        if size >= BATCH_BYTES or index == rest[-1]:
            run_jobs(jobs, options.threads)
            for source in sources:  # as a whole: a piece's first read brings back pages of the piece before it
                drop_pages(source)
            jobs, sources, size = [], [], 0
    arrays = [array for array in constants if array is not None]
    return Program(code.address(DESCRIPTOR), arrays, options.threads or 0, owner=code)


def _read(name: str, read: Callable[[str], Array]) -> Array:
    try:
        return read(name)
    except KeyError as error:
        raise ArgumentError("a weight was not given", where=name) from error


__all__ = ["GraphFunction", "built_graph", "compile_graph", "load_graph", "of_length"]
