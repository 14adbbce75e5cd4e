"""Writes to inputs that a program makes itself, in the input's own memory: those that replace part of what it holds."""

# PyTorch is typed in part only.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false

from __future__ import annotations

from collections.abc import Iterable, Sequence

from torch import fx
from xdsl.ir import BlockArgument, SSAValue

from anyshape.dialects.dhlo import DynamicUpdateSlice
from anyshape.frontends.torch.dynamo.inputs import is_write
from anyshape.frontends.torch.unsupported import Unsupported


def updates_between(argument: SSAValue, value: SSAValue) -> list[DynamicUpdateSlice]:
    """The updates that make `value`, which is written to `argument`, out of it, the last first.

    Raises:
        Unsupported: something else makes it, or something beside them reads what the argument held before.
    """
    if not isinstance(argument, BlockArgument):
        raise Unsupported("a write to what is no argument")
    updates: list[DynamicUpdateSlice] = []
    while isinstance(value.owner, DynamicUpdateSlice):
        updates.append(value.owner)
        value = value.owner.operands[0]
        if len(list(value.uses)) != 1:
            raise Unsupported("the elements as they were before a write are read")
    if value is not argument or not updates:
        raise Unsupported("a write of all elements")
    return updates


def writes_apart(parts: Iterable[Sequence[fx.Node]]) -> set[fx.Node]:
    """The writes in parts of a graph to inputs that are used outside of the part, too: they are made when all parts have run."""
    apart: set[fx.Node] = set()
    for part in parts:
        for node in part:
            if is_write(node) and not set(part).issuperset(node.all_input_nodes[0].users):
                apart.add(node)
    return apart


__all__ = ["updates_between", "writes_apart"]
