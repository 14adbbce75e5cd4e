"""Which part of a graph is compiled: all of it, or the fewest subgraphs that leave out what has no lowering."""

# PyTorch is typed in part only.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false

from __future__ import annotations

import operator
from collections.abc import Collection, Iterator
from typing import Any

import sympy
import torch
from torch import fx
from torch.fx.passes.infra.partitioner import CapabilityBasedPartitioner, Partition
from torch.fx.passes.operator_support import OperatorSupportBase
from torch.utils import _pytree as pytree

from anyshape.frontends.torch.dynamo.writes import writes_apart

PREFIX = "compiled_"
"""Names of the submodules that are compiled begin so."""


class _Supported(OperatorSupportBase):
    """All nodes but these; arithmetic on sizes stays outside, and its results come in as inputs."""

    def __init__(self, left_out: Collection[fx.Node]) -> None:
        self._left_out = frozenset(left_out)

    def is_node_supported(self, submodules: Any, node: fx.Node) -> bool:
        if node.op == "get_attr":
            return False
        if node.target is operator.getitem and node.args[0] in self._left_out:
            return False  # a part of what PyTorch computes
        return node.op == "call_function" and node not in self._left_out and not _is_size(node)


def split(graph_module: fx.GraphModule, left_out: Collection[fx.Node]) -> fx.GraphModule:
    """The graph with one submodule for each part that is compiled, called `compiled_0`, `compiled_1`, …

    Args:
        left_out: nodes that stay with PyTorch.
    """
    partitioner, partitions = _partitions(graph_module, left_out)
    apart = writes_apart([list(part.nodes) for part in partitions])
    if apart:
        partitioner, partitions = _partitions(graph_module, {*left_out, *apart})
    fused = partitioner.fuse_partitions([part for part in partitions if part.nodes], prefix=PREFIX)
    for node in list(fused.graph.nodes):
        if node.op == "call_module" and str(node.target).startswith(PREFIX):
            _pass_sizes(fused, node)
    fused.graph.lint()
    fused.recompile()
    return fused


def _partitions(
    graph_module: fx.GraphModule, left_out: Collection[fx.Node]
) -> tuple[CapabilityBasedPartitioner, list[Partition]]:
    partitioner = CapabilityBasedPartitioner(
        graph_module, _Supported(left_out), allows_single_node_partition=True, non_compute_ops=_NON_COMPUTE
    )
    partitions = partitioner.propose_partitions()
    partitioner.remove_bookend_non_compute_ops(partitions)
    return partitioner, partitions


_NON_COMPUTE = (
    "torch.ops.aten.view.default",
    "torch.ops.aten.alias.default",
)
"""Ops that are left out at the borders of a part. A `getitem` is none: without it the part would give several values as one."""


def _pass_sizes(outer: fx.GraphModule, call: fx.Node) -> None:
    """Adds an argument for every symbol that a part uses and that is no axis of its own inputs."""
    part: Any = getattr(outer, str(call.target))
    placeholders = [node for node in part.graph.nodes if node.op == "placeholder"]
    bound = {size for node in placeholders for size in _axes(node.meta.get("val")) if size.is_Symbol}
    used = {
        symbol for node in part.graph.nodes for size in _sizes(node.meta.get("val")) for symbol in size.free_symbols
    }
    for symbol in sorted(used - bound, key=str):
        source = _size_node(outer, symbol, call)
        with part.graph.inserting_after(placeholders[-1]):
            added = part.graph.placeholder(f"size_{symbol}")
        added.meta["val"] = source.meta["val"]
        placeholders.append(added)
        call.args = (*call.args, source)
    part.recompile()


def _size_node(outer: fx.GraphModule, symbol: sympy.Basic, before: fx.Node) -> fx.Node:
    """A node of the outer graph whose value is the symbol."""
    inputs = [node for node in outer.graph.nodes if node.op == "placeholder"]
    for node in inputs:
        value = node.meta.get("val")
        if isinstance(value, torch.SymInt) and value.node.expr == symbol:
            return node
    for node in inputs:
        for axis, size in enumerate(_axes(node.meta.get("val"))):
            if size == symbol:
                with outer.graph.inserting_before(before):
                    found = outer.graph.call_function(torch.ops.aten.sym_size.int, (node, axis))
                found.meta["val"] = node.meta["val"].shape[axis]
                return found
    raise AssertionError(f"no input of the graph has the size {symbol}")


def _is_size(node: fx.Node) -> bool:
    return isinstance(node.meta.get("val"), torch.SymInt | torch.SymBool | torch.SymFloat | int | bool | float)


def _axes(value: Any) -> list[sympy.Expr]:
    """The sizes of a tensor argument, or the size that an argument is."""
    if isinstance(value, torch.Tensor):
        return [sympy.sympify(size.node.expr if isinstance(size, torch.SymInt) else size) for size in value.shape]
    return [value.node.expr] if isinstance(value, torch.SymInt) else []


def _sizes(value: Any) -> Iterator[sympy.Expr]:
    """All sizes in what a node gives, strides of tensors included, since outputs have them."""
    for leaf in pytree.tree_leaves(value):
        yield from _axes(leaf)
        if isinstance(leaf, torch.Tensor):
            yield from (stride.node.expr for stride in leaf.stride() if isinstance(stride, torch.SymInt))


__all__ = ["PREFIX", "split"]
