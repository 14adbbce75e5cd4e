"""PyTorch's OpInfo samples as programs: one for each op, dtype and attributes, with all the sizes that it is to be run at.

A program's key is everything of a call that is no size: the structure of its arguments, those that are no tensors, and of tensors
the rank and the dtype. Programs of an op are numbered in the order in which its samples first mention them.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.opinfo.core import OpInfo
from torch.utils import _pytree as pytree

DTYPES: Mapping[str, int] = {"float32": 1, "bfloat16": 8, "int64": 8, "bool": 8}
"""Dtypes that are run, each with n where every n-th program is."""

OPS: Mapping[str, OpInfo] = {
    f"{op.name}.{op.variant_test_name}" if op.variant_test_name else op.name: op for op in op_db
}
"""Every entry, by its name and the name of its variant."""

Leaf = torch.Tensor | Any


@dataclass(frozen=True)
class Call:
    """One sample: its arguments flattened, and how they are put together again."""

    leaves: tuple[Leaf, ...]
    structure: pytree.TreeSpec

    @property
    def key(self) -> object:
        return str(self.structure), tuple(map(_what_a_program_knows, self.leaves))

    @property
    def tensors(self) -> tuple[torch.Tensor, ...]:
        return tuple(leaf for leaf in self.leaves if isinstance(leaf, torch.Tensor))

    @property
    def sizes(self) -> str:
        """The sizes of the tensors, for messages."""
        return " ".join(str(list(tensor.shape)) for tensor in self.tensors)

    def with_leaves(self, change: Callable[[Leaf], Leaf]) -> Call:
        return Call(tuple(map(change, self.leaves)), self.structure)


def _what_a_program_knows(leaf: Leaf) -> object:
    if isinstance(leaf, torch.Tensor):
        return leaf.dim(), leaf.dtype, leaf.layout
    return type(leaf).__name__, repr(leaf)


class Applied(nn.Module):
    """An op as a module whose arguments are the tensors of a call; the other arguments are those of `call`."""

    def __init__(self, op: Callable[..., Any], call: Call) -> None:
        super().__init__()
        self._op = op
        self._call = call

    def forward(self, *tensors: torch.Tensor) -> Any:
        given = iter(tensors)
        leaves = [next(given) if isinstance(leaf, torch.Tensor) else leaf for leaf in self._call.leaves]
        args, kwargs = pytree.tree_unflatten(leaves, self._call.structure)
        return self._op(*args, **kwargs)


@dataclass
class SampledProgram:
    """The calls of an op that one program is to serve."""

    op: OpInfo
    dtype: str
    number: int
    calls: list[Call] = field(default_factory=list[Call])

    def module(self, call: Call) -> Applied:
        return Applied(self.op.op, call)


def programs_of(name: str, dtype: str) -> list[SampledProgram]:
    """All programs of an op, from the same samples in every process."""
    op, kind = OPS[name], getattr(torch, dtype)
    if kind not in op.supported_dtypes("cpu"):
        return []
    random.seed(0)
    np.random.seed(0)
    torch.manual_seed(0)
    found: dict[object, SampledProgram] = {}
    for sample in op.sample_inputs("cpu", kind):
        leaves, structure = pytree.tree_flatten(((sample.input, *sample.args), sample.kwargs))
        call = Call(tuple(leaves), structure)
        program = found.setdefault(call.key, SampledProgram(op, dtype, len(found)))
        program.calls.append(call)
    return list(found.values())


def drawn(programs: Sequence[SampledProgram], name: str, dtype: str) -> list[SampledProgram]:
    """Those that are run: all, or one in so many where the dtype is sampled, the first of an op always among them."""
    every = DTYPES[dtype]
    return [program for program in programs if (program.number + len(name)) % every == 0 or program.number == 0]
