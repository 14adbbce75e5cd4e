"""Which tensors of an exported graph may share memory that an op of it writes to."""

# PyTorch is typed in part only.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false

from __future__ import annotations

from collections.abc import Iterator

from torch import fx
from torch._ops import OpOverload
from torch.export import ExportedProgram


def written_memory(program: ExportedProgram) -> dict[fx.Node, fx.Node]:
    """Each tensor that may lie in memory which some op writes to, with the first tensor of that memory.

    Op schemas say what a result may share memory with: `Tensor(a) self -> Tensor(a)`. An op without a schema may pass on any operand.
    """
    first: dict[fx.Node, fx.Node] = {}

    def memory(node: fx.Node) -> fx.Node:
        while node in first:
            node = first[node]
        return node

    nodes: list[fx.Node] = list(program.graph.nodes)
    for node in nodes:
        for operand in _operands_shared_by(node):
            one, other = memory(node), memory(operand)
            if one is not other:
                first[one] = other
    written = {memory(operand) for node in nodes for operand in operands_written_by(node)}
    return {node: memory(node) for node in nodes if memory(node) in written}


def operands_written_by(node: fx.Node) -> Iterator[fx.Node]:
    """The operands that an op writes to."""
    yield from _operands(node, is_write=True)


def _operands_shared_by(node: fx.Node) -> Iterator[fx.Node]:
    """The operands whose memory results of an op may lie in."""
    if isinstance(node.target, OpOverload):
        yield from _operands(node, is_write=False)
    elif node.op != "output":
        yield from node.all_input_nodes


def _operands(node: fx.Node, *, is_write: bool) -> Iterator[fx.Node]:
    """The operands that the schema says are shared with results, or those that are written."""
    if not isinstance(node.target, OpOverload):
        return
    schema = node.target._schema  # pyright: ignore[reportPrivateUsage] - it has no public name
    for index, argument in enumerate(schema.arguments):
        info = argument.alias_info
        if info is None or (is_write and not info.is_write):
            continue
        value = node.args[index] if index < len(node.args) else node.kwargs.get(argument.name)
        for each in value if isinstance(value, list | tuple) else (value,):
            if isinstance(each, fx.Node):
                yield each


__all__ = ["operands_written_by", "written_memory"]
