"""TorchDynamo's graph as JSON values, and AOTAutograd's run over it again: for failures before there is a graph of ATen ops.

Reading it runs nothing. What runs afterwards, on tensors without elements, are functions and methods that PyTorch itself lists as
functions of tensors, found by their names in that list.
"""

# PyTorch is typed in part only.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, TypeAlias

import torch
from torch import fx
from torch._guards import TracingContext, tracing
from torch.overrides import get_overridable_functions, resolve_name

from anyshape.frontends.torch.dynamo.functional import FunctionalGraph, compile_functional
from anyshape.frontends.torch.dynamo.record import Reader, Recorder, lower_graph

Json: TypeAlias = Any

_MODES: tuple[Callable[..., Any], ...] = (
    torch._C._set_grad_enabled,  # pyright: ignore[reportPrivateUsage, reportAttributeAccessIssue]
    torch.amp.autocast_mode._enter_autocast,  # pyright: ignore[reportPrivateUsage]
    torch.amp.autocast_mode._exit_autocast,  # pyright: ignore[reportPrivateUsage]
)


_OPERATORS = (
    "abs", "add", "and_", "eq", "floordiv", "ge", "getitem", "gt", "iadd", "iand", "ifloordiv", "imatmul", "imod", "imul",
    "invert", "ior", "ipow", "isub", "itruediv", "ixor", "le", "lshift", "lt", "matmul", "mod", "mul", "ne", "neg", "not_",
    "or_", "pos", "pow", "rshift", "setitem", "sub", "truediv", "xor",
)  # fmt: skip


@cache
def _functions() -> Mapping[str, Callable[..., Any]]:
    listed = (function for functions in get_overridable_functions().values() for function in functions)
    named = {name: function for function in listed if (name := resolve_name(function)) is not None}
    others = (*_MODES, *(getattr(operator, name) for name in _OPERATORS))
    return {**named, **{f"{function.__module__}.{function.__name__}": function for function in others}}


@cache
def _names() -> Mapping[Callable[..., Any], str]:
    return {function: name for name, function in _functions().items()}


@cache
def _methods() -> frozenset[str]:
    return frozenset(function.__name__ for function in get_overridable_functions()[torch.Tensor])


def record_traced(graph_module: fx.GraphModule) -> Json:
    """TorchDynamo's graph as JSON values. ValueError where it has something that they cannot say, such as a graph in an argument."""
    return {"traced": True, **_Recorder(graph_module).run()}


def is_traced(record: Json) -> bool:
    """Whether a record is one of `record_traced`."""
    return isinstance(record, dict) and "traced" in record


def trace_again(record: Json) -> None:
    """Make a recorded graph functional and lower it; what fails is raised as it is.

    Raises:
        ValueError, KeyError, TypeError: the record is none.
    """
    reader = _Reader(record)
    graph_module = reader.run()
    inputs = [node.meta["val"] for node in graph_module.graph.find_nodes(op="placeholder")]
    with tracing(TracingContext(reader.mode)), torch.no_grad():
        compile_functional(graph_module, inputs, _lowered)


def _lowered(functional: FunctionalGraph) -> Callable[..., Any]:
    lower_graph(functional.graph)
    return functional.graph.forward


class _Recorder(Recorder):
    META = "example_value"

    def _target_of(self, node: fx.Node) -> str:
        if node.op == "call_method" and node.target in _methods():
            return str(node.target)
        if node.op == "call_function" and node.target in _names():
            return _names()[node.target]  # pyright: ignore[reportArgumentType] - it is callable
        return super()._target_of(node)

    def _value(self, value: Any) -> Json:
        try:
            return super()._value(value)
        except ValueError:
            return None  # of what is computed, no value is needed


class _Reader(Reader):
    def _target_of(self, kind: str, name: str) -> Any:
        if kind == "call_method" and name in _methods():
            return name
        if kind == "call_function" and name in _functions():
            return _functions()[name]
        return super()._target_of(kind, name)


__all__ = ["is_traced", "record_traced", "trace_again"]
