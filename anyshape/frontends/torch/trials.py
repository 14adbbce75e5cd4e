"""Calls of a model and of its graph with the same arguments, at sizes that the graph's conditions exclude."""

# PyTorch and sympy are typed in part only.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false

from __future__ import annotations

import copy
import random
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias, TypeGuard

import sympy
import torch
from torch import nn
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind
from torch.utils import _pytree as pytree

from anyshape.frontends.torch.agreement import close
from anyshape.frontends.torch.examples import resized
from anyshape.frontends.torch.unguarded import UnguardedGraph
from anyshape.symbolic import Relation, Size, SizeError

Point: TypeAlias = Mapping[str, int]
"""A value for each symbol."""

_SAMPLES = 800
"""Sizes that are looked at in order to find some on the other side."""

_ALIGNED = 200
"""Sizes that are looked at of which several are multiples of something."""

_FURTHER = 64
"""How far beyond twice the example sizes are looked for."""

_NOISE = 0.2
"""By how much of their root mean square weights and inputs are changed, so that neither zeros nor repetitions hide a difference."""


def points(example: Mapping[str, int], symbols: Sequence[str]) -> Iterator[dict[str, int]]:
    """Sizes near the example's: one after the other changed, then all, the same ones in every process."""
    if any(symbol not in example for symbol in symbols):
        return
    for symbol in symbols:
        for size in range(2, 2 * example[symbol] + _FURTHER):
            yield {**example, symbol: size}
    draw = random.Random(0)
    for _ in range(_SAMPLES):
        yield {**example, **{symbol: draw.randrange(2, 2 * example[symbol] + _FURTHER) for symbol in symbols}}


def aligned_points(
    example: Mapping[str, int], symbols: Sequence[str], periods: Mapping[str, Sequence[int]]
) -> Iterator[dict[str, int]]:
    """Sizes that are multiples of some of the symbols' periods, several at once: there are too few of them among all sizes."""
    draw = random.Random(0)
    for _ in range(_ALIGNED if periods else 0):
        point = dict(example)
        for symbol in symbols:
            period = draw.choice([1, *periods.get(symbol, ())])
            point[symbol] = period * draw.randrange(-(-2 // period), (2 * example[symbol] + _FURTHER) // period + 2)
        yield point


def holds(relation: Relation, point: Mapping[str, int]) -> bool:
    try:
        return relation.evaluate(point)
    except SizeError:
        return False


def holds_all(relations: Sequence[Relation], point: Mapping[str, int]) -> bool:
    return all(holds(relation, point) for relation in relations)


class Trial:
    """Calls a model and its graph with the same inputs and weights, which differ a little from the given ones.

    The model is a copy, since another thread may call the given one meanwhile.
    """

    def __init__(
        self,
        module: nn.Module,
        program: ExportedProgram,
        structure: pytree.TreeSpec,
        examples: Sequence[Any],
        sizes: Mapping[int, Sequence[Size]],
        rounded_up: frozenset[sympy.Basic],
    ) -> None:
        self._module, self._program, self._structure = module, program, structure
        self._noise = torch.Generator().manual_seed(0)
        self._examples = list(examples)
        self._sizes = sizes
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
                graph = UnguardedGraph(self._program, rounded_up=self._rounded_up)
                got = pytree.tree_leaves(graph.run(*held, *_copied(leaves)))
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


def _like(weight: torch.Tensor, changed: torch.Tensor) -> torch.Tensor:
    return nn.Parameter(changed, requires_grad=False) if isinstance(weight, nn.Parameter) else changed


def _copied(leaves: Sequence[Any]) -> list[Any]:
    """Tensors of their own: what a model writes to its arguments is seen by nobody else."""
    return [leaf.clone() if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]


def is_symbol(size: object) -> TypeGuard[torch.SymInt]:
    return isinstance(size, torch.SymInt) and size.node.expr.is_Symbol


def tensor_inputs(program: ExportedProgram) -> Iterator[tuple[int, torch.Tensor]]:
    """The number of each leaf of a call that is a tensor, and its fake tensor."""
    placeholders = (node for node in program.graph.nodes if node.op == "placeholder")
    pairs = zip(program.graph_signature.input_specs, placeholders, strict=True)
    values = [node.meta.get("val") for spec, node in pairs if spec.kind == InputKind.USER_INPUT]
    return ((leaf, value) for leaf, value in enumerate(values) if isinstance(value, torch.Tensor))


__all__ = ["Point", "Trial", "aligned_points", "holds", "holds_all", "is_symbol", "points", "tensor_inputs"]
