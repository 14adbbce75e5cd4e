"""Graphs that are instances of compiled ones: TorchDynamo hands over a model again for sizes 0 and 1, and one program serves all."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from threading import Lock
from typing import TypeAlias
from weakref import ReferenceType, ref

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.pattern_rewriter import PatternRewriter

from anyshape.dialects.dhlo import DhloOp
from anyshape.dialects.dhlo.graph import facts_of, only_function
from anyshape.driver.collector import collector_paused
from anyshape.frontends.torch.dynamo.calls import Place, Run
from anyshape.frontends.torch.dynamo.graph import GraphInput, GraphProgram
from anyshape.frontends.torch.dynamo.strides import Layout, Strided
from anyshape.frontends.torch.program import FromConstant, FromInput, FromSize, OutputSource
from anyshape.passes.simplify import apply_law, canonicalise_sizes
from anyshape.passes.specialise import as_reshape, specialised
from anyshape.passes.worklist import Rewritten, rewrite_until_stable
from anyshape.support.options import Options
from anyshape.symbolic import Facts, Size
from anyshape.symbolic.errors import ContradictionError

_KEPT = 64
"""Compiled graphs that are compared with new ones; a model that breaks into more is compiled as without this."""

_NUMBERS = 3
"""Sizes given as numbers up to which all choices are tried."""

Equal: TypeAlias = tuple[str, Size]


@dataclass(frozen=True)
class _Compiled:
    """`general` is the graph as it was before it was compiled with `options`, `run` the program while anyone uses it."""

    general: GraphProgram
    options: Options
    run: ReferenceType[Run]


@dataclass(frozen=True)
class Served:
    """A program that serves a graph.

    Attributes:
        program: the graph that it is of, with the arguments and results of the graph that it serves.
        only_if: sizes of the served graph that must be equal in a call for this program to compute the same.
    """

    program: GraphProgram
    run: Run
    only_if: tuple[tuple[Place, Place], ...] = ()


class Instances:
    """The graphs compiled last in this process."""

    def __init__(self) -> None:
        self._compiled: tuple[_Compiled, ...] = ()
        self._lock = Lock()

    def program_of(self, graph: GraphProgram, options: Options, compile: Callable[[GraphProgram], Run]) -> Served:
        """A program for `graph`, found or compiled."""
        with collector_paused():
            found = self._find(graph, options)
        return found or self.compiled(graph, options, compile)

    def compiled(self, graph: GraphProgram, options: Options, compile: Callable[[GraphProgram], Run]) -> Served:
        """A program of `graph` itself, which is kept for graphs that are instances of it."""
        run = compile(replace(graph, module=graph.module.clone()))  # compiling consumes a module
        with self._lock:
            alive = [compiled for compiled in self._compiled if compiled.run() is not None]
            self._compiled = (_Compiled(graph, options, ref(run)), *alive[: _KEPT - 1])
        return Served(graph, run)

    def _find(self, special: GraphProgram, options: Options) -> Served | None:
        forms: dict[tuple[Equal, ...], object] = {}
        for compiled in self._compiled:
            run = compiled.run()
            if compiled.options != options or run is None:
                continue
            match = _match(compiled.general, special)
            if match is None or not _same_outputs(compiled.general, special, match):
                continue
            instance = specialised(compiled.general.module, match.sizes, match.facts)
            if instance is None:
                continue
            if match.equal not in forms:
                forms[match.equal] = _normal_form(_with_equal(special, match), special.inputs)
            if _normal_form(instance, compiled.general.inputs) == forms[match.equal]:
                served = _with_arguments(compiled.general, special, match)
                if served is not None:
                    return Served(served, run, tuple(_places(special, match.equal)))
        return None


@dataclass(frozen=True)
class _Match:
    """How the inputs of a general graph become those of a special one.

    Attributes:
        sizes: what the general graph's symbols are in the special one.
        equal: symbols of the special graph that are one size in the general graph, each with the size that stands for it.
        facts: those of the special graph, and that.
    """

    sizes: Mapping[str, Size]
    equal: tuple[Equal, ...]
    facts: Facts


def _tensors(program: GraphProgram) -> list[GraphInput]:
    return [spec for spec in program.inputs if not spec.is_size]


def _match(general: GraphProgram, special: GraphProgram) -> _Match | None:
    """None where no choice of sizes makes the inputs agree."""
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
    elements = [[spec for spec in program.inputs if spec.is_element] for program in (general, special)]
    for ours, theirs in zip(*elements, strict=False):  # sizes that elements say are compared with those alone
        sizes[ours.name] = theirs.sizes[0]
    for chosen in _choices(general, special, sizes):
        equal = _made_equal((size.substitute(chosen), target) for size, target in axes)
        facts = None if equal is None else _facts_with(special, equal)
        if equal is not None and facts is not None:
            final = {symbol: size.substitute(equal) for symbol, size in chosen.items()}
            return _Match(final, tuple(equal.items()), facts)
    return None


def _made_equal(pairs: Iterable[tuple[Size, Size]]) -> dict[str, Size] | None:
    """Symbols to write as others, so that the sizes of each pair are equal; None where a pair differs in more than one symbol."""
    equal: dict[str, Size] = {}
    for one, other in pairs:
        one, other = one.substitute(equal), other.substitute(equal)
        if one == other:
            continue
        if len(one.symbols) != 1 or len(other.symbols) != 1:
            return None
        (kept,), (gone,) = one.symbols, other.symbols
        renamed = {gone: Size.symbol(kept)}
        if other.substitute(renamed) != one:
            return None
        equal = {symbol: size.substitute(renamed) for symbol, size in equal.items()} | renamed
    return equal


def _choices(general: GraphProgram, special: GraphProgram, sizes: Mapping[str, Size]) -> Iterator[Mapping[str, Size]]:
    """The sizes of symbols that are no axis, but given as numbers: each may be any such number of the special graph, or 0 or 1."""
    free = [spec.sizes[0] for spec in general.inputs if spec.is_size]
    names = [name for name in (size.as_symbol() for size in free) if name is not None and name not in sizes]
    bound = {symbol for spec in general.inputs for size in spec.sizes for symbol in size.symbols}
    if bound - sizes.keys() - set(names) or len(names) > _NUMBERS:
        return
    given = [*(spec.sizes[0] for spec in special.inputs if spec.is_size), Size.const(1), Size.const(0)]
    for values in product(given, repeat=len(names)):
        yield {**sizes, **dict(zip(names, values, strict=True))}


def _facts_with(special: GraphProgram, equal: Mapping[str, Size]) -> Facts | None:
    """What holds of the special graph's sizes, and that these are equal; None where they cannot be."""
    facts = facts_of(only_function(special.module)).copy()
    try:
        for symbol, size in equal.items():
            facts.assume(Size.symbol(symbol).eq(size))
    except ContradictionError:
        return None
    return facts


def _same_outputs(general: GraphProgram, special: GraphProgram, match: _Match) -> bool:
    """Whether the outputs come from the same places and lie the same way, as far as the graphs themselves do not say."""
    equal = dict(match.equal)

    def at(program: GraphProgram, sizes: Mapping[str, Size], source: OutputSource) -> object:
        match source:
            case FromSize(size):
                size = size.substitute(sizes)
                return repr(size.value) if size.is_constant else size
            case FromConstant(value):
                return repr(value)
            case FromInput(index):
                return "input", _tensors(program).index(program.inputs[index])
            case _:
                return source

    def lies(layout: Layout, sizes: Mapping[str, Size]) -> object:
        if isinstance(layout, Strided):
            return [tuple(size.substitute(sizes) for size in each) for each in (layout.sizes, layout.strides)]
        return None  # a permutation is part of the graph

    ours = [(at(general, match.sizes, source), lies(layout, match.sizes)) for source, layout in general.outputs]
    theirs = [(at(special, equal, source), lies(layout, equal)) for source, layout in special.outputs]
    return general.is_single == special.is_single and ours == theirs


def _with_arguments(general: GraphProgram, special: GraphProgram, match: _Match) -> GraphProgram | None:
    """The general graph with its inputs at the positions that the arguments have in the special one."""
    tensors = iter(_tensors(special))
    equal = dict(match.equal)
    numbers = {spec.sizes[0].substitute(equal): spec.position for spec in special.inputs if spec.is_size}
    inputs: list[GraphInput] = []
    for spec in general.inputs:
        if not spec.is_size:
            inputs.append(replace(spec, position=next(tensors).position))
            continue
        target = spec.sizes[0].substitute(match.sizes)
        length = target.constant_or(None)
        if length is None and target not in numbers:
            return None
        inputs.append(replace(spec, position=numbers.get(target, -1), length=length))
    return replace(general, inputs=tuple(inputs), weights=special.weights)


def _places(special: GraphProgram, equal: Iterable[Equal]) -> Iterator[tuple[Place, Place]]:
    """Where a call says what the sizes are that must be equal."""
    places: dict[Size, Place] = {}
    for spec in special.inputs:
        for axis, size in enumerate(spec.sizes):
            places.setdefault(size, Place(spec.position, None if spec.is_size else axis))
    return ((places[Size.symbol(symbol)], places[size]) for symbol, size in equal)


def _with_equal(special: GraphProgram, match: _Match) -> ModuleOp:
    if not match.equal:
        return special.module.clone()
    module = specialised(special.module, dict(match.equal), match.facts)
    assert module is not None  # what holds of the graph holds of it at equal sizes
    return module


def _normal_form(module: ModuleOp, inputs: Sequence[GraphInput]) -> object:
    """The graph in the form in which equal computations are most likely to be equal: a value that can be compared."""
    func = only_function(module)
    facts = facts_of(func)
    canonicalise_sizes(func, facts)

    def by_laws(op: DhloOp, rewriter: PatternRewriter) -> Rewritten | None:
        return apply_law(op, rewriter, facts)

    def simplest(op: DhloOp, rewriter: PatternRewriter) -> Rewritten | None:
        return as_reshape(op, rewriter) or by_laws(op, rewriter)

    for rewrite in (by_laws, simplest):  # laws know more of a broadcast than of the reshape that it is at these sizes
        rewrite_until_stable(func, "instances", rewrite)
    block = func.body.block
    returned = block.last_op
    assert returned is not None
    pairs = list(zip(block.args, inputs, strict=True))
    arguments = [value for value, spec in pairs if not spec.is_size]
    return [value.type for value in arguments], _numbered(
        [*arguments, *(value for value, spec in pairs if spec.is_size)], returned
    )


def _numbered(arguments: Sequence[SSAValue], returned: Operation) -> list[object]:
    """The ops that lead to the results, in the order in which the results ask for them, equal ones once; values are numbers."""
    numbers = {value: number for number, value in enumerate(arguments)}
    count = len(arguments)
    ops: list[object] = []
    known: defaultdict[tuple[str, tuple[int, ...]], list[tuple[Mapping[str, Attribute], int]]] = defaultdict(list)
    waiting = [returned]
    while waiting:
        op = waiting[-1]
        missing = [value.owner for value in reversed(op.operands) if value not in numbers]
        if missing:
            waiting.extend(each for each in missing if isinstance(each, Operation))
            continue
        waiting.pop()
        if op.results and op.results[0] in numbers:
            continue
        assert not op.regions
        operands = tuple(numbers[value] for value in op.operands)
        attributes = {**op.attributes, **op.properties}  # which give the types of the results
        alike = known[op.name, operands]
        first = next((number for others, number in alike if others == attributes), None)
        if first is None:
            first, count = count, count + len(op.results)
            alike.append((attributes, first))
            ops.append((op.name, operands, attributes))
        numbers.update(zip(op.results, range(first, count), strict=False))
    return ops
