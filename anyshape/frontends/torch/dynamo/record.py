"""A graph of ATen ops as JSON values, and back: what is needed to lower it again, without weights.

    {"hints": {"d0": 3}, "nodes": [{"name": "x", "op": "placeholder", "value": {"tensor": "float32", "sizes": ["d0", "4"], …}}, …]}

Reading it runs nothing: targets are looked up among the ops of ATen, those of our own, and a few functions on sizes.
"""

# PyTorch and sympy are typed in part only.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias, cast

import torch
from torch import fx
from torch._dynamo.source import ConstantSource
from torch._ops import OpOverload
from torch._subclasses import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv

from anyshape.frontends.torch.dynamo.graph import GraphLowering
from anyshape.frontends.torch.dynamo.inputs import is_weight, mark_weights
from anyshape.frontends.torch.dynamo.partitions import PREFIX, split
from anyshape.frontends.torch.sizes import SizeNames, shape_environment
from anyshape.symbolic import parse_size

Json: TypeAlias = Any

_FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    f"{function.__module__}.{function.__name__}": function
    for function in (
        *(operator.getitem, operator.add, operator.sub, operator.mul, operator.neg, operator.floordiv, operator.mod),
        *(operator.truediv, operator.pow, operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge),
        *(
            torch.sym_max,
            torch.sym_min,
            torch.sym_not,
            torch.sym_float,
            torch.sym_int,
            math.ceil,
            math.floor,
            math.trunc,
        ),
    )
}
"""Functions beside ATen ops that nodes may call."""

_NAMESPACES = ("aten", "prims", "anyshape")
_ENUMERATIONS: Mapping[str, type[Any]] = {
    "dtype": torch.dtype,
    "layout": torch.layout,
    "memory_format": torch.memory_format,
}


def record_graph(graph_module: fx.GraphModule) -> Json:
    """The graph as JSON values. ValueError where it has something that they cannot say."""
    return Recorder(graph_module).run()


def read_graph(record: Json) -> fx.GraphModule:
    """A graph like the one that was recorded, over fake tensors. ValueError, KeyError or TypeError for a wrong record."""
    return Reader(record).run()


def lower_again(record: Json) -> None:
    """Lower a recorded graph, and its parts where some of it stays with PyTorch; what fails is raised as it is."""
    lower_graph(read_graph(record))


def lower_graph(graph_module: fx.GraphModule) -> None:
    """Lower a graph of ATen ops, and its parts where some of it stays with PyTorch; what fails is raised as it is."""
    lowering = GraphLowering(graph_module, stand_ins=True)
    program = lowering.run()
    for error in lowering.crashes.values():
        raise error
    if program is None:
        for name, part in split(graph_module, lowering.left_out).named_children():
            if name.startswith(PREFIX):
                GraphLowering(cast("fx.GraphModule", part)).run()


class Recorder:
    """Writes a graph whose nodes have their fake values under `META`, and call what `_target_of` has a name for."""

    META = "val"

    def __init__(self, graph_module: fx.GraphModule) -> None:
        self._graph_module = graph_module
        environment = shape_environment(node.meta.get(self.META) for node in graph_module.graph.nodes)
        self._names = SizeNames(environment, {}, {}, {})
        self._hints: dict[str, int] = {}

    def run(self) -> Json:
        nodes = [self._node(node) for node in self._graph_module.graph.nodes]
        return {"hints": self._hints, "nodes": nodes}

    def _node(self, node: fx.Node) -> Json:
        entry: dict[str, Json] = {"name": node.name, "op": node.op}
        value = node.meta.get(self.META)
        if node.op.startswith("call_"):
            entry |= {
                "target": self._target_of(node),
                "args": self._argument(node.args),
                "kwargs": self._keywords(node.kwargs),
            }
        elif node.op == "output":
            entry["args"] = self._argument(node.args)
        elif node.op not in ("placeholder", "get_attr"):
            raise ValueError(f"a node of kind {node.op}")
        if node.op == "get_attr":
            value = operator.attrgetter(str(node.target))(self._graph_module)
        if node.op != "output":
            entry["value"] = self._value(value)
        if is_weight(node):
            entry["weight"] = True
        trace = node.meta.get("stack_trace")
        return entry if trace is None else {**entry, "trace": str(trace)}

    def _target_of(self, node: fx.Node) -> str:
        if node.op != "call_function":
            raise ValueError(f"a node of kind {node.op}")
        return str(node.target) if isinstance(node.target, OpOverload) else _name_of(node.target)

    def _keywords(self, kwargs: Mapping[str, Any]) -> Json:
        return {name: self._argument(value) for name, value in kwargs.items()}

    def _argument(self, value: Any) -> Json:
        if isinstance(value, fx.Node):
            return {"node": value.name}
        if isinstance(value, tuple):
            return {"tuple": [self._argument(each) for each in value]}
        if isinstance(value, list):
            return [self._argument(each) for each in value]
        if value is None or isinstance(value, bool | int | float | str):
            return value
        if isinstance(value, slice):
            return {"slice": [self._argument(each) for each in (value.start, value.stop, value.step)]}
        if value is ...:
            return {"ellipsis": True}
        if isinstance(value, torch.device):
            return {"device": str(value)}
        for kind, type_ in _ENUMERATIONS.items():
            if isinstance(value, type_):
                return {kind: str(value).removeprefix("torch.")}
        raise ValueError(f"an argument of type {type(value).__name__}")

    def _value(self, value: Any) -> Json:
        if isinstance(value, torch.Tensor):
            return {
                "tensor": str(value.dtype).removeprefix("torch."),
                "sizes": [self._size(size) for size in value.shape],
                "strides": [self._size(stride) for stride in value.stride()],
            }
        if isinstance(value, torch.SymInt):
            return {"size": self._size(value)}
        if isinstance(value, list | tuple):
            return [self._value(each) for each in value]
        if value is None or isinstance(value, bool | int | float):
            return value
        raise ValueError(f"a value of type {type(value).__name__}")

    def _size(self, size: int | torch.SymInt) -> str:
        if isinstance(size, torch.SymInt):
            for symbol in size.node.expr.free_symbols:
                self._note_hint(symbol, size.node.shape_env)
        return str(self._names.size(size))

    def _note_hint(self, symbol: Any, environment: ShapeEnv) -> None:
        name = self._names.expression(symbol).as_atom()
        if name is not None and name.kind == "symbol":
            self._hints[name.name] = int(environment.backed_var_to_val[symbol])


class Reader:
    """Builds fake tensors whose sizes are symbols again, with the recorded hints.

    Attributes:
        mode: the mode of the fake tensors.
    """

    def __init__(self, record: Json) -> None:
        self._nodes: list[Json] = list(record["nodes"])
        self._environment = ShapeEnv()
        self.mode = FakeTensorMode(shape_env=self._environment)
        self._symbols = {str(name): self._symbol(str(name), int(hint)) for name, hint in record["hints"].items()}
        self._graph = fx.Graph()
        self._root = torch.nn.Module()
        self._made: dict[str, fx.Node] = {}

    def run(self) -> fx.GraphModule:
        for entry in self._nodes:
            node = self._node(entry)
            self._made[str(entry["name"])] = node
            node.meta["val"] = self._value(entry.get("value"))
            if "trace" in entry:
                node.meta["stack_trace"] = str(entry["trace"])
        self._graph.lint()
        inputs = (entry for entry in self._nodes if entry["op"] == "placeholder")
        mark_weights(self._graph, {position for position, entry in enumerate(inputs) if entry.get("weight")})
        return fx.GraphModule(self._root, self._graph)

    def _symbol(self, name: str, hint: int) -> Any:
        source = ConstantSource(name)
        symbol = self._environment.create_symbol(
            hint, source, DimDynamic.DYNAMIC, None, do_not_specialize_zero_one=True
        )
        return self._environment.create_symintnode(symbol, hint=hint, source=source)

    def _node(self, entry: Json) -> fx.Node:
        name = str(entry["name"])
        if entry["op"] == "placeholder":
            return self._graph.placeholder(name)
        if entry["op"] == "get_attr":
            value = entry["value"]
            zeros = torch.zeros([int(size) for size in value["sizes"]], dtype=_enumerated("dtype", value["tensor"]))
            self._root.register_buffer(name, zeros)
            return self._graph.get_attr(name)
        if entry["op"] == "output":
            return self._graph.output(self._argument(entry["args"])[0])
        kwargs = {str(key): self._argument(value) for key, value in entry["kwargs"].items()}
        kind = str(entry["op"])
        target = self._target_of(kind, str(entry["target"]))
        return self._graph.create_node(kind, target, self._argument(entry["args"]), kwargs, name)

    def _target_of(self, kind: str, name: str) -> Any:
        if kind != "call_function":
            raise ValueError(f"unknown kind of node {kind!r}")
        return _function_of(name)

    def _argument(self, value: Json) -> Any:
        if isinstance(value, list):
            return [self._argument(each) for each in cast("list[Json]", value)]
        if not isinstance(value, dict):
            return value
        ((kind, content),) = cast("dict[str, Json]", value).items()
        if kind == "node":
            return self._made[content]
        if kind == "tuple":
            return tuple(self._argument(each) for each in content)
        if kind == "slice":
            return slice(*(self._argument(each) for each in content))
        if kind == "ellipsis":
            return ...
        return torch.device(content) if kind == "device" else _enumerated(kind, content)

    def _value(self, value: Json) -> Any:
        if isinstance(value, list):
            return tuple(self._value(each) for each in cast("list[Json]", value))
        if not isinstance(value, dict):
            return value
        entry = cast("dict[str, Json]", value)
        if "size" in entry:
            return self._size(entry["size"])
        sizes, strides = ([self._size(text) for text in entry[key]] for key in ("sizes", "strides"))
        with self.mode:
            return torch.empty_strided(sizes, strides, dtype=_enumerated("dtype", entry["tensor"]))

    def _size(self, text: str) -> Any:
        return parse_size(text).fold(_SymbolicIntegers(self._symbols))


class _SymbolicIntegers:
    """Sizes as PyTorch computes with them."""

    def __init__(self, symbols: Mapping[str, Any]) -> None:
        self._symbols = symbols

    def constant(self, value: int, /) -> Any:
        return value

    def symbol(self, name: str, /) -> Any:
        return self._symbols[name]

    def add(self, lhs: Any, rhs: Any, /) -> Any:
        return lhs + rhs

    def mul(self, lhs: Any, rhs: Any, /) -> Any:
        return lhs * rhs

    def floordiv(self, lhs: Any, rhs: Any, /) -> Any:
        return lhs // rhs

    def mod(self, lhs: Any, rhs: Any, /) -> Any:
        return lhs % rhs

    def min(self, lhs: Any, rhs: Any, /) -> Any:
        return torch.sym_min(lhs, rhs)

    def max(self, lhs: Any, rhs: Any, /) -> Any:
        return torch.sym_max(lhs, rhs)


def _name_of(target: Any) -> str:
    name = f"{target.__module__}.{target.__name__}" if callable(target) else str(target)
    if name not in _FUNCTIONS:
        raise ValueError(f"a call of {name}")
    return name


def _function_of(name: str) -> Callable[..., Any]:
    if name in _FUNCTIONS:
        return _FUNCTIONS[name]
    namespace, _, rest = name.partition(".")
    packet, _, overload = rest.partition(".")
    if namespace not in _NAMESPACES:
        raise ValueError(f"unknown function {name!r}")
    try:
        found = getattr(getattr(getattr(torch.ops, namespace), packet), overload)
    except AttributeError as error:
        raise ValueError(f"unknown op {name!r}") from error
    if not isinstance(found, OpOverload):
        raise ValueError(f"{name!r} is no op")
    return found


def _enumerated(kind: str, name: str) -> Any:
    found = getattr(torch, name, None) if kind in _ENUMERATIONS else None
    if found is None or not isinstance(found, _ENUMERATIONS[kind]):
        raise ValueError(f"unknown {kind} {name!r}")
    return found


__all__ = ["Reader", "Recorder", "lower_again", "lower_graph", "read_graph", "record_graph"]
