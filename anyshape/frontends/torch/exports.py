"""Exports of a module: one with the example's own sizes, or a search for the one that holds at every size the model allows."""

# PyTorch and sympy are typed in part only.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false

from __future__ import annotations

import itertools
import re
import warnings
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import nn
from torch.export import Dim, ExportedProgram
from torch.export.dynamic_shapes import ShapesCollection
from torch.fx.experimental import _config as symbolic_config
from torch.utils import _pytree as pytree

from anyshape.frontends.torch.arithmetic import exact_arithmetic
from anyshape.frontends.torch.boundaries import NOTHING, Boundaries, Needless
from anyshape.frontends.torch.branches import Record, record_branches
from anyshape.frontends.torch.derived import DerivedSizes
from anyshape.frontends.torch.examples import (
    SMALL_SUBSTITUTES,
    Axis,
    Substitution,
    initial_substitution,
    substitute,
)
from anyshape.frontends.torch.mutations import left_as_it_was
from anyshape.frontends.torch.narrowing import Traced
from anyshape.frontends.torch.openings import Broadcasts, Meeting, Opening
from anyshape.frontends.torch.recurrent import RecurrentLayersWhole
from anyshape.frontends.torch.reshaping import reshapes_free
from anyshape.frontends.torch.sides import ExportAt
from anyshape.frontends.torch.slices import slices_clamp
from anyshape.frontends.torch.substitutes import Substituted

_SYMBOL = re.compile(r"\bs\d+\b")

_MESSAGE_LENGTH = 400
"""What of an error's text is read for sizes; further on there are line numbers and graphs."""

_FACTORS = (5, 3, 2)
"""By which a size of the example is multiplied: its divisors stay, and sizes derived from it grow."""

_ROUNDS = 3
"""How often the example grows: a size derived by halving it seven times (÷128) is above 1 after three times."""
_BEYOND = 1
"""Examples on the other side of the model's conditions that are tried."""

_FRUITLESS = 2
"""Examples that the model takes without being wider for them, a multiple and one more: what narrows it is then the model's own."""


@dataclass(frozen=True)
class Export:
    """One export.

    Attributes:
        program: the graph, before decomposition.
        examples: the flattened example at sizes that the model takes.
        record: what was asked meanwhile.
        derived: symbols for sizes that PyTorch cannot state.
        openings: input axes that are 1 or another size.
        meeting: what became of input axes that are 1 in the example and are broadcast to each other.
        needless: conditions of the model's that need not hold.
    """

    program: ExportedProgram
    examples: tuple[Any, ...]
    record: Record
    derived: DerivedSizes
    openings: tuple[Opening, ...] = ()
    meeting: Meeting = Meeting.EQUAL
    needless: Needless = NOTHING


def export_as_given(module: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any], dynamic_shapes: Any) -> Export:
    """One export with the dynamic axes that the caller names."""
    leaves, structure = pytree.tree_flatten((args, dict(kwargs)))

    def export(sizes: Mapping[Axis, int]) -> Export:
        record, derived = Record(), DerivedSizes()
        examples = substitute(leaves, sizes) if sizes else leaves
        args, kwargs = pytree.tree_unflatten(list(examples), structure)
        with record_branches(record), derived.kept(), slices_clamp(derived), exact_arithmetic(derived):
            program = _export(module, args, kwargs, dynamic_shapes)
        return Export(program, tuple(examples), record, derived)

    return _boundaries(module, structure, [export({})], export)[0]


def export_every_size(module: nn.Module, leaves: Sequence[Any], structure: pytree.TreeSpec) -> Export:
    """Export with every axis dynamic that the model allows, whatever the example's sizes are.

    Sizes 0 and 1, which export would fix, have substitutes. Then the example grows for as long as a size that the model derives from it
    is 0 or 1. The last resort treats sizes as if they might be 0 or 1. A few models trace only so; many do not, because it asks for
    facts that they do not state. The error of the first try is the one worth reporting.
    """
    substitution: Substitution | None = initial_substitution(leaves)
    first_error: Exception | None = None
    attempts = 2 * len(substitution.sizes()) + 3
    while substitution is not None and attempts > 0:
        attempts -= 1
        record = Record()
        try:
            found = _export_with(module, leaves, structure, substitution, {}, record)
        except Exception as error:
            first_error = first_error or error
            substitution = substitution.refine(_with_sizes(str(error)[:_MESSAGE_LENGTH], record))
        else:
            substitution, found = _squeezed(module, leaves, structure, substitution, found)
            substitution, found = _regained(module, leaves, structure, substitution, found)
            if not Traced(found.program, leaves, structure, derived=found.derived.known).admits_the_example():
                substitution, found = _with_small_substitutes(module, leaves, structure, substitution, found)
            widened = _widened(module, leaves, structure, substitution, found)
            return _on_both_sides(module, leaves, structure, substitution, widened)
    assert first_error is not None
    record, derived = Record(), DerivedSizes()
    oblivious = symbolic_config.patch(backed_size_oblivious=True)  # pyright: ignore[reportAttributeAccessIssue]
    try:
        with oblivious, derived.kept(), slices_clamp(derived), exact_arithmetic(derived):
            return Export(_export_dynamic(module, leaves, structure, record), tuple(leaves), record, derived)
    except Exception:
        raise first_error from None


def _boundaries(
    module: nn.Module, structure: pytree.TreeSpec, known: Sequence[Export], export: ExportAt
) -> tuple[Export, Boundaries]:
    """The first of the exports that there are, with a note of the model's conditions that need not hold; `export` makes one more."""
    found = known[0]
    strides = frozenset(found.record.about_strides)
    boundaries = Boundaries(found.program, found.examples, strides, found.derived.known)
    return replace(found, needless=boundaries.needless(module, structure, export, known)), boundaries


def _on_both_sides(
    module: nn.Module, leaves: Sequence[Any], structure: pytree.TreeSpec, substitution: Substitution, found: Export
) -> Export:
    """The export of an example that the model pads, where this one need not be padded and the other's graph holds for both."""

    def export_at(sizes: Mapping[Axis, int]) -> Export:
        return _export_with(module, leaves, structure, substitution, sizes, Record())

    found, boundaries = _boundaries(module, structure, [found], export_at)
    for sizes in itertools.islice(boundaries.examples_beyond(found.needless), _BEYOND):
        try:
            export = export_at(sizes)
        except Exception:  # the model takes no such sizes: most that ask for a multiple raise an error of their own
            continue
        export, _ = _boundaries(module, structure, [export, found], export_at)
        strides, needless = export.record.about_strides, export.needless.guards
        traced = Traced(export.program, leaves, structure, strides, export.derived.known, needless)
        if traced.admits_the_example():
            return export
    return found


def _squeezed(
    module: nn.Module, leaves: Sequence[Any], structure: pytree.TreeSpec, substitution: Substitution, found: Export
) -> tuple[Substitution, Export]:
    """With axes of size 1 as they are where the model squeezes them: with a substitute they would stay, and 1 would be refused."""
    kept = Traced(found.program, leaves, structure, derived=found.derived.known).kept_ones()
    if not kept & substitution.sizes().keys():
        return substitution, found
    # Others may have to be of the same size: those that had the same substitute.
    tied = [axis for group in substitution.groups if not kept.isdisjoint(group) for axis in group]
    for smaller in (substitution.keeping(kept), substitution.keeping(tied)):
        try:
            return smaller, _export_with(module, leaves, structure, smaller, {}, Record())
        except Exception:  # the model takes other sizes only
            continue
    return substitution, found


def _regained(
    module: nn.Module, leaves: Sequence[Any], structure: pytree.TreeSpec, substitution: Substitution, found: Export
) -> tuple[Substitution, Export]:
    """With substitutes again for axes that were given up only since a message named them beside one that the model fixes.

    Of a `Linear(1, 3)` and an example [1, 1], a message names both substitutes and a 1 that is a weight's.
    """
    given_up = substitution.without_substitute(leaves)
    if len(given_up) < 2:
        return substitution, found
    for axis in given_up:
        wider = replace(substitution, groups=(*substitution.groups, (axis,)), guessed=False)
        try:
            export = _export_with(module, leaves, structure, wider, {}, Record())
        except Exception:  # this is one that the model fixes
            continue
        if Traced(export.program, leaves, structure, derived=export.derived.known).admits_the_example():
            substitution, found = wider, export
    return substitution, found


def _with_small_substitutes(
    module: nn.Module, leaves: Sequence[Any], structure: pytree.TreeSpec, substitution: Substitution, found: Export
) -> tuple[Substitution, Export]:
    """An export on the side of the model's conditions on which the example is; the one that was found where none is."""
    small = replace(substitution, candidates=SMALL_SUBSTITUTES)
    try:
        export = _export_with(module, leaves, structure, small, {}, Record())
    except Exception:  # small sizes are taken for others, or for the model's own
        return substitution, found
    admitted = Traced(export.program, leaves, structure, derived=export.derived.known).admits_the_example()
    return (small, export) if admitted else (substitution, found)


def _widened(
    module: nn.Module, leaves: Sequence[Any], structure: pytree.TreeSpec, substitution: Substitution, found: Export
) -> Export:
    """The export of another example where this one's sizes have narrowed it, as `narrowing` says; itself where there is none."""
    best, grown = found, dict[Axis, int]()
    traced = Traced(found.program, leaves, structure, found.record.about_strides, found.derived.known)
    for _ in range(_ROUNDS):
        if not traced.narrowed():
            break
        admits = traced.admits_the_example()
        fruitless = 0
        for larger in _larger(leaves, substitution, grown, traced.narrowed()):
            if fruitless == _FRUITLESS:
                return best
            if admits and traced.crosses({**substitution.sizes(), **larger}):
                continue
            try:
                export = _export_with(module, leaves, structure, substitution, larger, Record())
            except Exception:  # it takes no such sizes: another example may do
                continue
            wider = Traced(export.program, leaves, structure, export.record.about_strides, export.derived.known)
            if not wider.admits_the_example():  # on the other side of one of the model's conditions
                continue
            if wider.narrowings() < traced.narrowings():
                best, traced, grown = export, wider, larger
                break
            fruitless += 1
        else:
            break
    return best


def _larger(
    leaves: Sequence[Any], substitution: Substitution, grown: Mapping[Axis, int], narrowed: frozenset[Axis]
) -> Iterator[dict[Axis, int]]:
    """Sizes for these axes, then also for those of the same size, which may have to agree with them."""
    given = {
        (index, axis): size
        for index, leaf in enumerate(leaves)
        if isinstance(leaf, torch.Tensor)
        for axis, size in enumerate(leaf.shape)
    }
    sizes = {**given, **substitution.sizes(), **grown}
    alike = frozenset(axis for axis in sizes if sizes[axis] in {sizes[other] for other in narrowed})
    for axes in dict.fromkeys((narrowed, alike)):
        for factor, more in itertools.product(_FACTORS, (0, 1)):  # one more is no multiple of what divides the size
            yield {**grown, **{axis: sizes[axis] * factor + more for axis in axes}}


def _export_with(
    module: nn.Module,
    leaves: Sequence[Any],
    structure: pytree.TreeSpec,
    substitution: Substitution,
    grown: Mapping[Axis, int],
    record: Record,
) -> Export:
    """One export with the substitution's sizes and those of `grown`; where axes of 1 meet, as freely as the model takes them."""
    sizes = {**substitution.sizes(), **grown}
    stand_ins = {sizes[axis] for axis in substitution.ones & sizes.keys()}
    examples = substitute(leaves, sizes)
    program, broadcasts = _exported(module, examples, structure, record, stand_ins)
    opened = {opening.stand_in for opening in broadcasts.found}
    if opened:  # as 1 they fit what they are broadcast to
        sizes = {axis: size for axis, size in sizes.items() if axis not in substitution.ones or size not in opened}
        examples = substitute(leaves, sizes)
    openings = tuple(broadcasts.found)
    return Export(program, tuple(examples), record, broadcasts.derived, openings, broadcasts.meeting)


def _exported(
    module: nn.Module,
    examples: Sequence[Any],
    structure: pytree.TreeSpec,
    record: Record,
    stand_ins: Collection[int],
) -> tuple[ExportedProgram, Broadcasts]:
    """One export of these examples, in which `stand_ins` stand for 1."""
    for meeting in Meeting:
        record.clear()
        broadcasts = Broadcasts(stand_ins, DerivedSizes(), meeting)
        try:
            derived = broadcasts.derived
            with derived.kept(), slices_clamp(derived), exact_arithmetic(derived), broadcasts.open():
                program = _export_dynamic(module, examples, structure, record)
        except Exception:
            if meeting is Meeting.EQUAL or not broadcasts.met:
                raise
        else:
            return program, broadcasts
    raise AssertionError("the last way for axes to meet returns or raises")


def _with_sizes(message: str, record: Record) -> str:
    """The message with the example's size in place of every symbol."""
    return _SYMBOL.sub(lambda match: str(record.examples.get(match[0], match[0])), message)


class _Call(nn.Module):
    """A call of a module with a tuple and a dict: export does not take sizes for the arguments in `**keywords`."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return self.module(*args, **kwargs)


def _export_dynamic(
    module: nn.Module, examples: Sequence[Any], structure: pytree.TreeSpec, record: Record
) -> ExportedProgram:
    """One export with `Dim.AUTO` on every axis: PyTorch finds the relations and the axes that are fixed."""
    call, (args, kwargs) = _Call(module), pytree.tree_unflatten(list(examples), structure)
    if not examples:  # export loses empty arguments
        with record_branches(record):
            return _export(module, args, kwargs, None)
    shapes = ShapesCollection()
    for leaf in examples:
        if isinstance(leaf, torch.Tensor) and leaf.dim() > 0:
            shapes[leaf] = dict.fromkeys(range(leaf.dim()), Dim.AUTO)
    dynamic_shapes = shapes.dynamic_shapes(call, (args, kwargs))
    with record_branches(record):
        return _export(call, (args, kwargs), {}, dynamic_shapes)


def _export(
    module: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any], dynamic_shapes: Any
) -> ExportedProgram:
    with torch.no_grad(), warnings.catch_warnings(), reshapes_free(), left_as_it_was(module):
        warnings.simplefilter("ignore")
        with RecurrentLayersWhole(), Substituted():
            return torch.export.export(module, args, dict(kwargs), dynamic_shapes=dynamic_shapes, strict=False)


__all__ = ["Export", "export_as_given", "export_every_size"]
