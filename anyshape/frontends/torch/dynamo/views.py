"""Results that share memory with an input."""

# PyTorch is typed in part only.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false

from __future__ import annotations

import operator

from torch import fx
from torch._ops import OpOverload

from anyshape.frontends.torch.dynamo.inputs import is_write


def views_of_inputs(graph: fx.Graph) -> set[fx.Node]:
    """The view ops between an input, or what is written to one, and a result of a functional graph.

    PyTorch runs them, at no cost. AOTAutograd makes such a result again, as a view of the caller's tensor, with the sizes, strides
    and *offset* of what the graph returned: a copy of the elements would tell it a wrong offset.
    """
    shared = set(graph.find_nodes(op="placeholder"))
    shared |= {node.args[1] for node in graph.nodes if is_write(node)}
    found: set[fx.Node] = set()
    for node in graph.output_node().all_input_nodes:
        chain = [node]
        while _is_view(chain[-1]):
            base = chain[-1].args[0]
            assert isinstance(base, fx.Node)
            chain.append(base)
        if not shared.isdisjoint(chain):
            found.update(chain[:-1])
    return found


def _is_view(node: fx.Node) -> bool:
    if node.target is operator.getitem:
        return isinstance(node.args[0], fx.Node) and _is_view(node.args[0])
    return isinstance(node.target, OpOverload) and node.target.is_view


__all__ = ["views_of_inputs"]
