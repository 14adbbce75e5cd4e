"""A graph of TorchDynamo's made functional by AOTAutograd, in the ops that have lowerings."""

# PyTorch is typed in part only.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx
from torch._functorch._aot_autograd.utils import make_boxed_func
from torch._functorch.aot_autograd import aot_module_simplified
from torch._guards import TracingContext
from torch._prims_common import is_channels_last_contiguous, is_contiguous
from torch.export.exported_program import (
    _override_composite_implicit_decomp,  # pyright: ignore[reportPrivateUsage]
    _split_decomp_table_to_cia_and_python_decomp,  # pyright: ignore[reportPrivateUsage]
)

from anyshape.frontends.torch.capture import decompositions
from anyshape.frontends.torch.dynamo.inputs import mark_weights
from anyshape.frontends.torch.effects import keep_checks


@dataclass(frozen=True)
class FunctionalGraph:
    """What AOTAutograd hands to a compiler.

    Attributes:
        graph: ATen ops; writes to inputs are `copy_` nodes at its end, weights are marked. Where ops have effects, tokens that keep
            them in order come before the inputs: None at run time.
        written: positions of the inputs that are written.
    """

    graph: fx.GraphModule
    written: tuple[int, ...]


class NeedsGradients(Exception):
    """The results of the graph may be differentiated, and only inference is compiled."""


class InputsOverlap(Exception):
    """Inputs share memory and one of them is written: AOTAutograd has put what they share in their place."""


def compile_functional(
    graph_module: fx.GraphModule,
    inputs: Sequence[Any],
    compiler: Callable[[FunctionalGraph], Callable[..., Any]],
) -> Callable[..., Any]:
    """The graph as a function of the same inputs, where `compiler` compiled its functional form for inference.

    Composite ops that have lowerings (attention, layer norm, linear, softmax) arrive whole.

    Raises:
        NeedsGradients: AOTAutograd found that a result or a written input may be differentiated.
        InputsOverlap: the example inputs do, and AOTAutograd has merged them.
    """

    def inference(gm: fx.GraphModule, example_inputs: Sequence[Any]) -> Callable[..., Any]:
        metadata = TracingContext.get().fw_metadata
        assert metadata is not None
        written = tuple(index for index, info in enumerate(metadata.input_info) if info.mutates_data)
        tokens = len(metadata.tokens)  # inputs of the graph before all others; static inputs are counted with them
        if written and len(example_inputs) != tokens + len(inputs):
            raise InputsOverlap
        mark_weights(gm.graph, set(metadata.static_input_indices).difference(tokens + index for index in written))
        functional = FunctionalGraph(gm, written)
        return make_boxed_func(compiler(functional))

    def differentiated(gm: fx.GraphModule, example_inputs: Sequence[Any]) -> Callable[..., Any]:
        raise NeedsGradients

    keep_checks()
    table = {op: how for op, how in decompositions().items() if op is not _SELECT_SCATTER}
    composites, decomposed = _split_decomp_table_to_cia_and_python_decomp(table)
    with _override_composite_implicit_decomp(composites), _compiling():
        return aot_module_simplified(
            graph_module,
            inputs,
            fw_compiler=differentiated,
            inference_compiler=inference,
            decompositions={**decomposed, _ROLL: _roll_like_eager(decomposed[_ROLL])},  # pyright: ignore[reportArgumentType]
            keep_inference_input_mutations=True,
        )


@contextmanager
def _compiling() -> Generator[None]:
    """What PyTorch does itself from 2.13 on: before, a thread that calls a compiled function while another one compiles is refused.

    That this process traces is one variable for all threads, and a call is taken for part of what is traced unless this one is set.
    TorchDynamo compiles in one thread at a time.
    """
    compiler: Any = torch.compiler
    before = compiler._is_compiling_flag
    compiler._is_compiling_flag = True
    try:
        yield
    finally:
        compiler._is_compiling_flag = before


_ROLL = torch.ops.aten.roll.default
_SELECT_SCATTER = torch.ops.aten.select_scatter.default
"""Decomposed, it computes every element anew; as it is, a program can write the part alone."""


def _roll_like_eager(decomposition: Callable[..., Any]) -> Callable[..., Any]:
    """A roll whose result lies in memory as that of PyTorch's kernel, which joins two slices: channels-last where they are.

    PyTorch's own `decomposition` reads by index, and its result is always row-major.
    """

    def roll(x: torch.Tensor, shifts: Sequence[int], dims: Sequence[int] = ()) -> Any:
        if not dims or is_contiguous(x) or not is_channels_last_contiguous(x):
            return decomposition(x, shifts, dims)
        for shift, axis in zip(shifts, dims, strict=True):
            size = x.shape[axis]
            start = (size - shift) % size
            x = torch.cat((x.narrow(axis, start, size - start), x.narrow(axis, 0, start)), axis)
        return x

    return roll


__all__ = ["FunctionalGraph", "InputsOverlap", "NeedsGradients", "compile_functional"]
