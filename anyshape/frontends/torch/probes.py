"""Whether a graph is the model at sizes for which export did not ask: decided by running both once."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any

import torch
from torch import nn
from torch.export import ExportedProgram
from torch.utils import _pytree as pytree

from anyshape.frontends.torch.agreement import CALL_ERRORS, close
from anyshape.frontends.torch.capture import Capture
from anyshape.frontends.torch.examples import resized
from anyshape.frontends.torch.guards import Condition
from anyshape.frontends.torch.mutations import left_as_it_was
from anyshape.frontends.torch.origins import CONDITION, origin_at
from anyshape.frontends.torch.program import InputSpec
from anyshape.frontends.torch.sizes import SizeNames
from anyshape.frontends.torch.unguarded import UnguardedGraph
from anyshape.symbolic import Facts, Relation, Size, SizeError, bind_symbols


def branch_relations(
    module: nn.Module,
    captured: Capture,
    inputs: Sequence[InputSpec],
    names: SizeNames,
    facts: Facts,
) -> Iterator[Condition]:
    """The conditions that the model's code asked for, that export answered without a guard, and that matter.

    A condition that is broken at size 0 or 1 matters unless module and graph agree there: many models ask such questions only
    to pick a faster way to the same values.
    """
    examples = captured.examples
    usual = example_sizes(examples, inputs)
    seen: set[Relation] = set()

    @cache
    def agree_at(value: frozenset[tuple[str, int]]) -> bool:
        return _agree(module, captured, resized_examples(examples, inputs, {**usual, **dict(value)}))

    for branch in captured.branches:
        relation = names.relation(branch.condition)
        if relation is None or relation in seen or facts.prove(relation) is not None:
            continue
        seen.add(relation)
        for value in _breaking_values(relation, examples, inputs):
            if not agree_at(frozenset(value.items())):
                yield _exclude(relation, value), origin_at(CONDITION, branch.location)


def _breaking_values(relation: Relation, examples: Sequence[Any], inputs: Sequence[InputSpec]) -> list[dict[str, int]]:
    """The sizes 0 and 1 of the relation's symbols, of all and of each, at which it does not hold while the others are as in the example."""
    usual = example_sizes(examples, inputs)
    found: list[dict[str, int]] = []
    symbols = sorted(relation.symbols & usual.keys())
    for value, chosen in itertools.product((1, 0), dict.fromkeys(((*symbols,), *((symbol,) for symbol in symbols)))):
        values = dict.fromkeys(chosen, value)
        try:
            if not relation.evaluate({**usual, **values}):
                found.append(values)
        except SizeError:
            continue
    return found


def _exclude(relation: Relation, values: Mapping[str, int]) -> Relation:
    """No more than the size that failed where the condition is about one symbol, else all where it does not hold."""
    if len(relation.symbols) != 1:
        return relation
    ((symbol, value),) = values.items()
    return Size.symbol(symbol).ne(value)


def example_sizes(examples: Sequence[Any], inputs: Sequence[InputSpec]) -> dict[str, int]:
    """The size of every symbol in the example inputs; of a complex one, all but the last axis are PyTorch's."""
    return bind_symbols(axis for spec in inputs for axis in zip(spec.sizes, examples[spec.leaf].shape, strict=False))


def resized_examples(examples: Sequence[Any], inputs: Sequence[InputSpec], values: Mapping[str, int]) -> list[Any]:
    """The example leaves with the sizes that the symbols give."""
    leaves = list(examples)
    for spec in inputs:
        sizes = spec.sizes[: leaves[spec.leaf].dim()]
        leaves[spec.leaf] = resized(leaves[spec.leaf], [size.evaluate(values) for size in sizes])
    return leaves


def _agree(module: nn.Module, captured: Capture, leaves: Sequence[Any]) -> bool:
    """Whether the graph gives what the module gives; where the module itself fails, there is nothing to differ from."""
    args, kwargs = pytree.tree_unflatten(list(leaves), captured.structure)
    with torch.no_grad():
        try:
            with left_as_it_was(module):
                expected = pytree.tree_leaves(module(*args, **kwargs))
        except CALL_ERRORS:
            return True
        try:
            got = _run(captured.program, leaves)
        except CALL_ERRORS:
            return False
    return len(expected) == len(got) and all(close(a, b) for a, b in zip(got, expected, strict=True))


def _run(program: ExportedProgram, leaves: Sequence[Any]) -> list[Any]:
    """The graph without its guards: those are what is in question."""
    held = [
        {**program.state_dict, **program.constants}[spec.target]
        for spec in program.graph_signature.input_specs
        if spec.target is not None
    ]
    return list(UnguardedGraph(program, by_zero_is_zero=True).run(*held, *leaves))


__all__ = ["branch_relations", "example_sizes", "resized_examples"]
