"""Graphs that are instances of compiled ones: TorchDynamo hands over a model again for sizes 0 and 1, and one program serves all."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from threading import Lock
from weakref import ReferenceType, ref

from xdsl.dialects.builtin import ModuleOp

from anyshape.dialects.context import new_context
from anyshape.dialects.dhlo.graph import facts_of, only_function
from anyshape.frontends.torch.dynamo.calls import Run
from anyshape.frontends.torch.dynamo.graph import GraphInput, GraphProgram
from anyshape.frontends.torch.program import FromConstant, FromSize, OutputSource
from anyshape.passes.context import GraphContext
from anyshape.passes.cse import CsePass
from anyshape.passes.dce import DcePass
from anyshape.passes.simplify import SimplifyPass
from anyshape.passes.specialise import specialised
from anyshape.support.options import Options
from anyshape.symbolic import Size

_KEPT = 64
"""Compiled graphs that are compared with new ones; a model that breaks into more is compiled as without this."""


@dataclass(frozen=True)
class _Compiled:
    """`general` is the graph as it was before it was compiled with `options`, `run` the program while anyone uses it."""

    general: GraphProgram
    options: Options
    run: ReferenceType[Run]


class Instances:
    """The graphs compiled last in this process."""

    def __init__(self) -> None:
        self._compiled: tuple[_Compiled, ...] = ()
        self._lock = Lock()

    def program_of(
        self, graph: GraphProgram, options: Options, compile: Callable[[GraphProgram], Run]
    ) -> tuple[GraphProgram, Run]:
        """A program for `graph`, found or compiled, and the graph that it is of, with the arguments and results of `graph`."""
        found = self._find(graph, options)
        if found is None:
            run = compile(replace(graph, module=graph.module.clone()))  # compiling consumes a module
            with self._lock:
                alive = [compiled for compiled in self._compiled if compiled.run() is not None]
                self._compiled = (_Compiled(graph, options, ref(run)), *alive[: _KEPT - 1])
            found = graph, run
        return found

    def _find(self, special: GraphProgram, options: Options) -> tuple[GraphProgram, Run] | None:
        text: str | None = None
        for compiled in self._compiled:
            run = compiled.run()
            if compiled.options != options or run is None:
                continue
            sizes = _matching_sizes(compiled.general, special)
            if sizes is None or not _same_outputs(compiled.general, special, sizes):
                continue
            instance = specialised(compiled.general.module, sizes, facts_of(only_function(special.module)))
            if instance is None:
                continue
            text = text or _normal_text(special.module.clone(), special)
            if _normal_text(instance, special) == text:
                inputs = tuple(_renumbered(compiled.general, special, sizes))
                return replace(compiled.general, inputs=inputs, weights=special.weights), run
        return None


def _tensors(program: GraphProgram) -> list[GraphInput]:
    return [spec for spec in program.inputs if not spec.is_size]


def _matching_sizes(general: GraphProgram, special: GraphProgram) -> dict[str, Size] | None:
    """What the symbols of `general` are in `special`; None where no choice makes the inputs agree."""
    pairs = list(zip(_tensors(general), _tensors(special), strict=False))
    if len(_tensors(general)) != len(_tensors(special)) or len(general.outputs) != len(special.outputs):
        return None
    if any(ours.dtype != theirs.dtype or len(ours.sizes) != len(theirs.sizes) for ours, theirs in pairs):
        return None
    sizes: dict[str, Size] = {}
    axes = [axis for ours, theirs in pairs for axis in zip(ours.sizes, theirs.sizes, strict=True)]
    for size, target in axes:
        symbol = size.as_symbol()
        if symbol is not None:
            sizes.setdefault(symbol, target)
    bound = {symbol for spec in general.inputs for size in spec.sizes for symbol in size.symbols}
    if bound - sizes.keys() or any(size.substitute(sizes) != target for size, target in axes):
        return None
    return sizes


def _same_outputs(general: GraphProgram, special: GraphProgram, sizes: dict[str, Size]) -> bool:
    def at(source: OutputSource) -> OutputSource:
        if not isinstance(source, FromSize):
            return source
        size = source.size.substitute(sizes)
        return FromConstant(size.value) if size.is_constant else FromSize(size)

    ours = [type(at(source)) for source, _ in general.outputs]
    return general.is_single == special.is_single and ours == [type(source) for source, _ in special.outputs]


def _renumbered(general: GraphProgram, special: GraphProgram, sizes: dict[str, Size]) -> Iterator[GraphInput]:
    """The inputs of `general` at the positions that the arguments have in `special`."""
    tensors = iter(_tensors(special))
    for spec in general.inputs:
        if not spec.is_size:
            yield replace(spec, position=next(tensors).position)
            continue
        (size,) = spec.sizes
        target = size.substitute(sizes)
        given = next((other for other in special.inputs if other.is_size and other.sizes == (target,)), None)
        yield replace(spec, position=-1 if given is None else given.position, length=target.constant_or(None))


def _normal_text(module: ModuleOp, program: GraphProgram) -> str:
    """The graph in the form in which equal computations are most likely to be equal text."""
    context = GraphContext.of(new_context(), program.store)
    for each in (SimplifyPass(), CsePass(), DcePass()):
        each.apply(context, module)
    block = only_function(module).body.block
    for value in (*block.args, *(result for op in block.ops for result in op.results)):
        value.name_hint = None
    return str(module)
