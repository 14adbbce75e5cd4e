"""Examples that a model does not take: errors of the class that PyTorch's own have."""

# PyTorch is typed in part only.
# pyright: reportUnknownMemberType=false

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import torch
from torch import nn
from torch.utils import _pytree as pytree

from anyshape.frontends.torch.mutations import left_as_it_was
from anyshape.support.errors import ModelError, RankError, model_error

MOST_AXES = 64
"""How many axes most of PyTorch's own kernels take."""


def check_ranks(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
    """RankError for an example of more axes than most of PyTorch's kernels take: its capture would take minutes."""
    for leaf in pytree.tree_leaves((args, dict(kwargs))):
        if isinstance(leaf, torch.Tensor) and leaf.dim() > MOST_AXES:
            raise RankError("a tensor has too many axes", got=leaf.dim(), expected=f"up to {MOST_AXES}")


def model_misfit(module: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> ModelError | None:
    """What the model raises when it is run with copies of the example, its own state and PyTorch's generator left as they were."""

    def copied(leaf: Any) -> Any:
        return leaf.clone() if isinstance(leaf, torch.Tensor) else leaf

    mine, keywords = pytree.tree_map(copied, (args, dict(kwargs)))
    state = {name: buffer.clone() for name, buffer in module.named_buffers()}
    try:
        with torch.no_grad(), left_as_it_was(module), torch.random.fork_rng(devices=[]), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            module(*mine, **keywords)
    except Exception as error:
        found = model_error(error, "call the model with these arguments: it raises the same")
        found.__cause__ = error
        return found
    finally:
        with torch.no_grad():
            for name, buffer in module.named_buffers():
                if name in state and buffer.shape == state[name].shape:
                    buffer.copy_(state[name])
    return None


__all__ = ["check_ranks", "model_misfit"]
