"""Conditions of the model's Python that do not matter: the graph is the model on both sides of the branch.

A model pads to a multiple, and asks first whether there is anything to pad: `if right > 0: x = F.pad(x, (0, right))`. Padding by 0 changes
nothing, so the graph of one side holds on the other too. Such conditions ask for a remainder, or how much is missing from a
size: both sides of each are run at sizes of the kind, by the graph and by the model, and where they agree the condition is none.
"""

# PyTorch and sympy are typed in part only.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false

from __future__ import annotations

import copy
import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sympy
import torch
from torch import fx, nn
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind
from torch.utils import _pytree as pytree
from torch.utils._sympy import functions as symbolic

from anyshape.frontends.torch.agreement import close
from anyshape.frontends.torch.derived import USUAL, Derived
from anyshape.frontends.torch.examples import Axis, resized
from anyshape.frontends.torch.guards import asked_by_model, relations_of_guards
from anyshape.frontends.torch.sizes import SizeNames, shape_environment
from anyshape.frontends.torch.unsupported import Unsupported
from anyshape.symbolic import Facts, Relation, Size, SizeError

_SAMPLES = 800
"""Sizes that are looked at in order to find some on the other side."""

_PROBES = 3
"""Calls for each remainder on the other side, and for each set of conditions that are broken at once."""

_MOST_PROBES = 24
"""Calls in all."""

_FEW = 3
"""Conditions that one more export is worth: with more, sizes become so long that it takes minutes, and may be refused after all."""

_FURTHER = 64
"""How far beyond twice the example sizes are looked for."""

_NONE = frozenset[sympy.Basic]()

_NOISE = 0.2
"""By how much of their root mean square weights and inputs are changed, so that neither zeros nor repetitions hide a difference."""


@dataclass(frozen=True)
class Needless:
    """What of an export's conditions is none.

    Attributes:
        guards: identities of guards that need not hold.
        rounded_up: remainders a mod k that are k where k divides a, as k minus them, what is missing to a multiple, is 0 there.
    """

    guards: frozenset[int] = frozenset()
    rounded_up: frozenset[sympy.Basic] = frozenset()


NOTHING = Needless()
"""All conditions matter."""


class Boundaries:
    """What a model's Python asked of sizes while it was exported.

    Args:
        program: the export, before decomposition.
        examples: the flattened example inputs that it was traced with.
        about_strides, derived: see `Capture`.

    Attributes:
        found: conditions that may be none, with their guards: those on the side on which there is something to pad.
        sizes: of each leaf of a call that is a tensor.
        axes: the input axes that a symbol is.
        example: the value of each symbol in the example.
    """

    def __init__(
        self,
        program: ExportedProgram,
        examples: Sequence[Any],
        about_strides: frozenset[int],
        derived: Mapping[sympy.Basic, Derived],
    ) -> None:
        self.program, self.examples = program, examples
        self._about_strides, self._derived = about_strides, derived
        self._environment = shape_environment(node.meta.get("val") for node in program.graph.nodes)
        axes: list[Any] = [size for _, value in _tensor_inputs(program) for size in value.shape]
        symbols = dict.fromkeys(size.node.expr for size in axes if _is_symbol(size))
        self._called = {symbol: f"d{number}" for number, symbol in enumerate(symbols)}
        names = SizeNames(self._environment, self._called, {}, {}, derived)
        self.found: dict[Relation, list[Any]] = {}
        self._unpadded: list[Relation] = []
        self._conditions: list[Relation] = []
        self._others: dict[Relation, None] = {}
        self.sizes: dict[int, tuple[Size, ...]] = {}
        self.axes: dict[str, list[Axis]] = {}
        self.example: dict[str, int] = {}
        if self._may_ask():
            try:
                self._sort(names)
                self._bind(names)
            except Unsupported:
                self.found.clear()
                self._unpadded.clear()

    def _bind(self, names: SizeNames) -> None:
        """Find out which axes the symbols are, and their values."""
        self.sizes = {leaf: names.sizes(value.shape) for leaf, value in _tensor_inputs(self.program)}
        for leaf, sizes in self.sizes.items():
            for axis, (size, value) in enumerate(zip(sizes, self.examples[leaf].shape, strict=True)):
                symbol = size.as_symbol()
                if symbol is not None:
                    self.axes.setdefault(symbol, []).append((leaf, axis))
                    self.example[symbol] = int(value)

    def _may_ask(self) -> bool:
        """Whether the model asked for anything that might be a boundary: most do not, and translating guards takes time."""
        guards: Any = () if self._environment is None else self._environment.guards
        kinds = (symbolic.Mod, symbolic.PythonMod, symbolic.Max, sympy.Max)
        return any(asked_by_model(guard) and guard.expr.has(*kinds) for guard in guards)

    def _sort(self, names: SizeNames) -> None:
        for guard, relation in relations_of_guards(self._environment, names, self._about_strides, self._derived):
            is_boundary = asked_by_model(guard) and _is_boundary(relation)
            if is_boundary and not _holds_at_zero(relation):
                self.found.setdefault(relation, []).append(guard)
                continue
            self._others[relation] = None
            if asked_by_model(guard):
                (self._unpadded if is_boundary else self._conditions).append(relation)

    def needless(self, module: nn.Module, structure: pytree.TreeSpec) -> Needless:
        """The conditions that need not hold for `module`; `structure` is how `(args, kwargs)` flatten to the examples."""
        remainders = {each: self._remainder(each) for each in self.found}

        def found_with(rounded_up: frozenset[sympy.Basic]) -> frozenset[Relation]:
            return _needless(_Probe(module, self, structure, rounded_up), self, self._not_boundaries(rounded_up))

        found, rounded_up = found_with(_NONE) if self.found else frozenset[Relation](), _NONE
        tried = frozenset(each for relation, each in remainders.items() if relation not in found and each is not None)
        while tried:
            rounding = found_with(tried)
            kept = tried & frozenset(remainders[relation] for relation in rounding)
            if kept == tried:
                found, rounded_up = rounding, tried
                break
            tried = kept
        return Needless(frozenset(id(guard) for relation in found for guard in self.found[relation]), rounded_up)

    def _not_boundaries(self, rounded_up: frozenset[sympy.Basic]) -> list[Relation]:
        """All conditions under which the graph is the model, but the boundaries, and those that always hold."""
        relations = list(self._others)
        if rounded_up:
            names = SizeNames(self._environment, self._called, {}, {}, self._derived, rounded_up=rounded_up)
            guards = {id(guard) for guards in self.found.values() for guard in guards}
            found = relations_of_guards(self._environment, names, self._about_strides, self._derived)
            relations = list(dict.fromkeys(relation for guard, relation in found if id(guard) not in guards))
        facts = Facts()
        for symbol in self.example:
            facts.declare(symbol, lo=USUAL)
        return [relation for relation in relations if facts.prove(relation) is not True]

    def _remainder(self, boundary: Relation) -> sympy.Basic | None:
        """a mod k of the condition a mod k != 0."""
        found = (_remainder_that_is_not_zero(guard.expr) for guard in self.found[boundary])
        return next((each for each in found if each is not None), None)

    def examples_beyond(self, needless: Needless) -> Iterator[dict[Axis, int]]:
        """Sizes on the other side of as many conditions as possible that are needed, the nearest ones first.

        An example that needs no padding is traced without: the graph of one that does holds for both.
        """
        needed, kept = list(dict.fromkeys(self._unpadded)), list(self._conditions)
        for relation, guards in self.found.items():
            (kept if {id(guard) for guard in guards} <= needless.guards else needed).append(relation)
        if not 0 < len(needed) <= _FEW:
            return
        symbols = sorted({symbol for each in needed for symbol in each.symbols})
        points = [point for point in _points(self.example, symbols) if _holds_all(kept, point)]
        broken = [(sum(not _holds(each, point) for each in needed), point) for point in points]
        far = {id(point): sum(abs(point[name] - size) for name, size in self.example.items()) for point in points}
        for number, point in sorted(broken, key=lambda pair: (-pair[0], far[id(pair[1])])):
            if number:
                yield {axis: point[name] for name, axes in self.axes.items() for axis in axes}


def _is_boundary(relation: Relation) -> bool:
    """Whether it asks for a mod k with a constant k, or for max(a, b): how much is missing from a size."""
    atoms = [atom for monomial, _ in (relation.lhs - relation.rhs).terms for atom in monomial]
    if len(atoms) != 1:
        return False
    return atoms[0].kind == "max" or (atoms[0].kind == "mod" and atoms[0].args[1].is_constant)


def _holds_at_zero(relation: Relation) -> bool:
    """Whether a condition on a remainder holds where that is 0: then the example needed no padding, and its graph has none."""
    difference = relation.lhs - relation.rhs
    atoms = [atom for monomial, _ in difference.terms for atom in monomial]
    return atoms[0].kind == "mod" and Relation(Size.const(difference.constant_term), relation.op, 0).evaluate({})


def _remainder_that_is_not_zero(condition: Any) -> sympy.Basic | None:
    """a mod k of the condition a mod k != 0."""
    if not isinstance(condition, sympy.Ne | sympy.Gt | sympy.Lt):
        return None
    sides: list[Any] = list(condition.args)
    remainder = next((side for side in sides if isinstance(side, symbolic.Mod | symbolic.PythonMod)), None)
    return remainder if remainder is not None and 0 in sides and remainder.args[1].is_Integer else None


def _needless(probe: _Probe, asked: Boundaries, others: Sequence[Relation]) -> frozenset[Relation]:
    """The boundaries that the graph does not need while `others` hold.

    Where graph and model differ, all that are broken there are needed; so is one that no two calls have been on the other side of.
    """
    symbols = sorted({symbol for each in asked.found for symbol in each.symbols})
    points = [point for point in _points(asked.example, symbols) if _holds_all(others, point)]
    free = list(asked.found)
    while free:
        needed = [each for each in asked.found if each not in free]
        allowed = [point for point in points if _holds_all(needed, point)]
        agreeing: Counter[Relation] = Counter()
        differing: list[Relation] = []
        for point, broken in _chosen(allowed, free):
            agrees = probe.agrees(point)
            if agrees is False:
                differing = broken
                break
            if agrees:
                agreeing.update(broken)
        unproved = differing or [each for each in free if agreeing[each] < min(2, _PROBES)]
        if not unproved:
            break
        free = [each for each in free if each not in unproved]
    return frozenset(free)


def _points(example: Mapping[str, int], symbols: Sequence[str]) -> Iterator[dict[str, int]]:
    """Sizes near the example's: one after the other changed, then all, the same ones in every process."""
    if any(symbol not in example for symbol in symbols):
        return
    for symbol in symbols:
        for size in range(2, 2 * example[symbol] + _FURTHER):
            yield {**example, symbol: size}
    draw = random.Random(0)
    for _ in range(_SAMPLES):
        yield {**example, **{symbol: draw.randrange(2, 2 * example[symbol] + _FURTHER) for symbol in symbols}}


def _chosen(
    points: Sequence[Mapping[str, int]], free: Sequence[Relation]
) -> list[tuple[Mapping[str, int], list[Relation]]]:
    """Points at which some conditions do not hold, with those: few at once first, and each remainder that breaks one."""
    taken: Counter[object] = Counter()
    chosen: list[tuple[Mapping[str, int], list[Relation]]] = []
    broken = [(point, [each for each in free if not _holds(each, point)]) for point in points]
    shuffled = random.Random(0).sample(broken, len(broken))
    for point, relations in sorted(shuffled, key=lambda pair: len(pair[1])):
        kinds: list[object] = [(each, (each.lhs - each.rhs).evaluate(point)) for each in relations]
        if len(relations) > 1:
            kinds.append(tuple(relations))
        if any(taken[kind] < _PROBES for kind in kinds):
            taken.update(kinds)
            chosen.append((point, relations))
    return chosen[:_MOST_PROBES]


def _holds(relation: Relation, point: Mapping[str, int]) -> bool:
    try:
        return relation.evaluate(point)
    except SizeError:
        return False


def _holds_all(relations: Sequence[Relation], point: Mapping[str, int]) -> bool:
    return all(_holds(relation, point) for relation in relations)


class _Probe:
    """Calls a model and its graph with the same inputs and weights, which differ a little from the given ones.

    The model is a copy, since another thread may call the given one meanwhile.
    """

    def __init__(
        self, module: nn.Module, asked: Boundaries, structure: pytree.TreeSpec, rounded_up: frozenset[sympy.Basic]
    ) -> None:
        self._module, self._program, self._structure = module, asked.program, structure
        self._noise = torch.Generator().manual_seed(0)
        self._examples = list(asked.examples)
        self._sizes = asked.sizes
        self._rounded_up = rounded_up
        self._prepared: tuple[nn.Module, list[Any]] | None = None
        self._answers: dict[tuple[tuple[str, int], ...], bool | None] = {}

    def agrees(self, point: Mapping[str, int]) -> bool | None:
        """Whether both give the same for these sizes; None where the model itself fails, or gives NaN."""
        key = tuple(sorted(point.items()))
        if key not in self._answers:
            self._answers[key] = self._asked(point)
        return self._answers[key]

    def _asked(self, point: Mapping[str, int]) -> bool | None:
        try:
            leaves = [self._leaf(index, point) for index in range(len(self._examples))]
            module, held = self._prepared = self._prepared or self._copies()
        except Exception:  # there is no such size, or a module that cannot be copied: its conditions stay
            return None
        args, kwargs = pytree.tree_unflatten(_copied(leaves), self._structure)
        with torch.no_grad():
            try:
                expected = pytree.tree_leaves(module(*args, **kwargs))
            except Exception:  # the model does not take these sizes
                return None
            if any(isinstance(each, torch.Tensor) and each.isnan().any() for each in expected):
                return None
            try:
                got = pytree.tree_leaves(_Graph(self._program, self._rounded_up).run(*held, *_copied(leaves)))
            except Exception:  # the graph does not
                return False
        return len(expected) == len(got) and all(close(a, b) for a, b in zip(got, expected, strict=True))

    def _leaf(self, index: int, point: Mapping[str, int]) -> Any:
        sizes = self._sizes.get(index)
        if sizes is None:
            return self._examples[index]
        return self._changed(resized(self._examples[index], [size.evaluate(point) for size in sizes]))

    def _copies(self) -> tuple[nn.Module, list[Any]]:
        """The model and the weights of the graph, with the same changes."""
        weights = {**dict(self._module.named_parameters()), **dict(self._module.named_buffers())}
        changed = {id(weight): self._changed(weight.detach()) for weight in weights.values()}
        named = {name: changed[id(weight)] for name, weight in weights.items()}
        memo = {id(weight): _like(weight, changed[id(weight)]) for weight in weights.values()}
        held: list[Any] = []
        for spec in self._program.graph_signature.input_specs:
            if spec.kind != InputKind.USER_INPUT:
                target = spec.target or ""
                constants: Mapping[str, Any] = self._program.constants
                own = named.get(target.removeprefix("module."), named.get(target))
                held.append(constants[target] if own is None else own)
        return copy.deepcopy(self._module, memo), held

    def _changed(self, tensor: torch.Tensor) -> torch.Tensor:
        """The tensor with noise: of one sign where all elements have one, as variances do."""
        if not tensor.is_floating_point() or tensor.numel() == 0:
            return tensor
        scale = float(tensor.float().square().mean().sqrt())
        noise = torch.rand(tensor.shape, generator=self._noise)
        if not (scale > 0 and bool((tensor >= 0).all())):
            noise = noise - 0.5
        return (tensor + noise * _NOISE * (scale if 0 < scale < float("inf") else 1)).to(tensor.dtype)


class _Graph(fx.Interpreter):
    """Runs the graph of an export without its guards; the remainders `rounded_up` of multiples are the divisor."""

    def __init__(self, program: ExportedProgram, rounded_up: frozenset[sympy.Basic]) -> None:
        super().__init__(program.graph_module)
        self._rounded_up = rounded_up

    def run_node(self, n: fx.Node) -> Any:
        result, value = super().run_node(n), n.meta.get("val")
        if isinstance(value, torch.SymInt) and value.node.expr in self._rounded_up and result == 0:
            return int(value.node.expr.args[1])
        return result


def _is_symbol(size: int | torch.SymInt) -> bool:
    return isinstance(size, torch.SymInt) and size.node.expr.is_Symbol


def _tensor_inputs(program: ExportedProgram) -> Iterator[tuple[int, torch.Tensor]]:
    """The number of each leaf of a call that is a tensor, and its fake tensor."""
    placeholders = (node for node in program.graph.nodes if node.op == "placeholder")
    pairs = zip(program.graph_signature.input_specs, placeholders, strict=True)
    values = [node.meta.get("val") for spec, node in pairs if spec.kind == InputKind.USER_INPUT]
    return ((leaf, value) for leaf, value in enumerate(values) if isinstance(value, torch.Tensor))


def _like(weight: torch.Tensor, changed: torch.Tensor) -> torch.Tensor:
    return nn.Parameter(changed, requires_grad=False) if isinstance(weight, nn.Parameter) else changed


def _copied(leaves: Sequence[Any]) -> list[Any]:
    """Tensors of their own: what a model writes to its arguments is seen by nobody else."""
    return [leaf.clone() if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]


__all__ = ["NOTHING", "Boundaries", "Needless"]
