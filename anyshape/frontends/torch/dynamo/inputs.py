"""Which tensors a compiled graph cannot take, and whether its results may be differentiated."""

# PyTorch is typed in part only.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import torch
from torch import fx
from torch._higher_order_ops.effects import with_effects
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import is_traceable_wrapper_subclass


def unusable(value: torch.Tensor) -> str | None:
    """Why no compiled graph can have this (fake) tensor; None where it can, as far as its memory goes."""
    if is_traceable_wrapper_subclass(value):
        return f"a tensor of the subclass {type(value).__name__}"
    if value.is_nested:
        return "a nested tensor"
    if value.is_quantized:
        return "a quantised tensor"
    if value.layout is not torch.strided:
        return f"a tensor of layout {value.layout}"
    if value.device.type != "cpu":
        return f"a tensor on device {value.device}"
    return None


def unusable_among(value: Any) -> str | None:
    """The reason for the first tensor in a nested value that no compiled graph can have."""
    for leaf in pytree.tree_leaves(value):
        if isinstance(leaf, torch.Tensor) and (reason := unusable(leaf)) is not None:
            return reason
    return None


def needs_gradients(graph: fx.Graph, inputs: Sequence[Any]) -> bool:
    """Whether a result of TorchDynamo's graph, called with such inputs, may be differentiated."""
    if not any(isinstance(value, torch.Tensor) and value.requires_grad for value in inputs):
        return False
    return any(_requires_grad(node) for node in graph.output_node().all_input_nodes)


def _requires_grad(node: fx.Node) -> bool:
    if "example_value" not in node.meta:
        return torch.is_grad_enabled()
    leaves = pytree.tree_leaves(node.meta["example_value"])
    # An input that is returned as it is keeps what it has; nothing has to be computed for it.
    return node.op != "placeholder" and any(isinstance(leaf, torch.Tensor) and leaf.requires_grad for leaf in leaves)


_WEIGHT = "anyshape_weight"
"""The mark in the metadata of a placeholder, which the placeholders of parts inherit."""


def mark_weights(graph: fx.Graph, positions: Collection[int]) -> None:
    """Note which inputs are parameters and buffers of the model that nothing writes meanwhile."""
    for position, node in enumerate(graph.find_nodes(op="placeholder")):
        value = node.meta.get("val")
        if (
            position in positions
            and isinstance(value, torch.Tensor)
            and not any(isinstance(n, torch.SymInt) for n in value.shape)
        ):
            node.meta[_WEIGHT] = True


def is_weight(node: fx.Node) -> bool:
    """Whether an input was so marked."""
    return _WEIGHT in node.meta


def is_token(node: fx.Node) -> bool:
    """Whether an input only keeps ops with effects in order: a call gives None for it, and takes None as what they return for it."""
    return bool(node.users) and all(user.target is with_effects and user.args[0] is node for user in node.users)


def is_write(node: fx.Node) -> bool:
    """Whether a node of a functional graph is the write to an input, which AOTAutograd leaves to whoever runs the graph."""
    return (
        node.target is torch.ops.aten.copy_.default
        and isinstance(node.args[0], fx.Node)
        and node.args[0].op == "placeholder"
    )


__all__ = ["is_token", "is_write", "needs_gradients", "unusable", "unusable_among"]
