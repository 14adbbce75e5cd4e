"""Writes to inputs that a program makes itself, in the input's own memory: those that replace part of what it holds."""

# PyTorch is typed in part only.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from torch import fx
from xdsl.ir import Block, BlockArgument, Operation, SSAValue

from anyshape.dialects.dhlo import DynamicUpdateSlice
from anyshape.frontends.torch.dynamo.inputs import is_write
from anyshape.frontends.torch.unsupported import Unsupported


def updates_between(argument: SSAValue, value: SSAValue, needed: Collection[SSAValue]) -> list[DynamicUpdateSlice]:
    """The updates that make `value`, which is written to `argument`, out of it, the last first.

    Args:
        needed: what leaves the block, which has no end yet, or is written; ops that lead to none of it do not count.

    Raises:
        Unsupported: something else makes it, or something beside them needs what the argument held before.
    """
    if not isinstance(argument, BlockArgument):
        raise Unsupported("a write to what is no argument")
    live = _live(argument.owner, needed)
    updates: list[DynamicUpdateSlice] = []
    while isinstance(value.owner, DynamicUpdateSlice):
        updates.append(value.owner)
        value = value.owner.operands[0]
        if value in needed or sum(use.operation in live for use in value.uses) > 1:
            raise Unsupported("the elements as they were before a write are read")
    if value is not argument or not updates:
        raise Unsupported("a write of all elements")
    return updates


def _live(block: Block, needed: Collection[SSAValue]) -> set[Operation]:
    live: set[Operation] = set()
    for op in reversed(list(block.ops)):
        if any(value in needed or any(use.operation in live for use in value.uses) for value in op.results):
            live.add(op)
    return live


def needed_by(users: Iterable[fx.Node]) -> set[fx.Node]:
    """The nodes whose values these take; what is written to matters to none."""
    return {node for user in users for node in user.all_input_nodes[is_write(user) :]}


def writes_apart(parts: Iterable[Sequence[fx.Node]]) -> set[fx.Node]:
    """The writes in parts of a graph to inputs that are used outside of the part, too: they are made when all parts have run."""
    apart: set[fx.Node] = set()
    for part in parts:
        for node in part:
            if is_write(node) and not set(part).issuperset(node.all_input_nodes[0].users):
                apart.add(node)
    return apart


__all__ = ["needed_by", "updates_between", "writes_apart"]
