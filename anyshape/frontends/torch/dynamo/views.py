"""Results that share memory with an input or with each other."""

# PyTorch is typed in part only.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false

from __future__ import annotations

import operator
from collections import defaultdict

from torch import fx
from torch._ops import OpOverload

from anyshape.frontends.torch.dynamo.inputs import is_write


def shared_views(graph: fx.Graph) -> set[fx.Node]:
    """The view ops between an input, what is written to one, or a value that other results are views of, and a result.

    PyTorch runs them, at no cost. Of an input, AOTAutograd makes such a result again, as a view of the caller's tensor, with the
    sizes, strides and *offset* of what the graph returned: a copy of the elements would tell it a wrong offset. And who writes to a
    result finds that in the others of its memory.
    """
    inputs = set(graph.find_nodes(op="placeholder"))
    inputs |= {node.args[1] for node in graph.nodes if is_write(node)}
    found: set[fx.Node] = set()
    results: defaultdict[fx.Node, list[list[fx.Node]]] = defaultdict(list)
    for node in graph.output_node().all_input_nodes:
        chain = _chain(node)
        if inputs.isdisjoint(chain):
            results[chain[-1]].append(chain)
        else:
            found.update(chain[:-1])
    for chains in results.values():
        if len(chains) > 1:
            found.update(node for chain in chains for node in chain[:-1])
    return found


def separate_views(graph: fx.Graph) -> None:
    """Give results that are views of one value view ops of their own, so that what computes on with those need not wait for PyTorch."""
    output = graph.output_node()
    inputs = graph.find_nodes(op="placeholder")
    views = {node for node in shared_views(graph) if _chain(node)[-1] not in inputs}
    if not any(user not in views and user is not output for node in views for user in node.users):
        return
    copies: dict[fx.Node, fx.Node] = {}
    with graph.inserting_before(output):
        for node in graph.nodes:
            if node in views:
                copies[node] = graph.node_copy(node, lambda each: copies.get(each, each))
    output.args = fx.map_arg(output.args, lambda each: copies.get(each, each))
    for node in reversed(copies):
        if not node.users:
            graph.erase_node(node)


def _chain(node: fx.Node) -> list[fx.Node]:
    """A node, what it is a view of, and so on, up to what is no view."""
    chain = [node]
    while _is_view(chain[-1]):
        base = chain[-1].args[0]
        assert isinstance(base, fx.Node)
        chain.append(base)
    return chain


def _is_view(node: fx.Node) -> bool:
    if node.target is operator.getitem:
        return isinstance(node.args[0], fx.Node) and _is_view(node.args[0])
    return isinstance(node.target, OpOverload) and node.target.is_view


__all__ = ["separate_views", "shared_views"]
