"""A text that says all that the `dhlo` graph of a captured module depends on: equal texts, equal graphs.

With it a compiled program is found without building the graph that it was compiled from. A lowering is a function of the node
(target, arguments, what PyTorch says of its value), of the translation of sizes, of the facts, and of the names of constants, which
are digests of their contents: all of these are written, with the kind of every value beside it. Where a graph holds anything else
there is no text, and the graph is built to be looked up itself.
"""

# PyTorch and sympy are typed in part only.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import BuiltinFunctionType, FunctionType

import sympy
import torch
from torch import fx
from torch._ops import OpOverload
from torch.export import ExportedProgram
from torch.export.graph_signature import OutputKind, OutputSpec

from anyshape.frontends.torch.locations import source_line
from anyshape.frontends.torch.lowering import find_lowering, mapped_op
from anyshape.frontends.torch.program import InputSpec
from anyshape.frontends.torch.sizes import SizeNames
from anyshape.frontends.torch.unsupported import Unsupported
from anyshape.symbolic import Facts, Size

_OWN = "anyshape."
"""Lowerings and ops of this package are part of the key of every program by their sources; others are not."""

_TYPE_VALUES = (torch.dtype, torch.layout, torch.memory_format, torch.device)


class _NoText(Exception):
    """A graph holds something for which there is no text."""


def graph_text(
    program: ExportedProgram,
    inputs: Sequence[InputSpec],
    names: SizeNames,
    facts: Facts,
    openings: Iterable[tuple[Size, Size]],
    weights: Mapping[fx.Node, str],
) -> str | None:
    """The text of a graph; None where it has none.

    Args:
        program: the graph after decomposition.
        inputs: the tensor arguments of `@main`.
        names: the translation of sizes, in which the sizes of the inputs have their names.
        facts: what is known of sizes before the first node is lowered.
        openings: (a, n) where a size a of an input is 1 or n.
        weights: the constants that are used, by their names in the store.
    """
    writer = _Writer(names, weights)
    try:
        lines = [
            f"torch {torch.__version__}",
            *(f"input {_text(spec.name)} {spec.dtype.name} {_sizes(spec.sizes)} {spec.leaf}" for spec in inputs),
            f"symbols {' '.join(facts.symbols)}",
            *(f"fact {relation}" for relation in facts.relations()),
            *sorted(f"opening {_sizes(opening)}" for opening in openings),
            *(
                f"placeholder {spec.kind.name} {type(spec.arg).__name__}"
                for spec in program.graph_signature.input_specs
            ),
            *(_output(spec) for spec in program.graph_signature.output_specs),
            *map(writer.node, program.graph.nodes),
        ]
    except _NoText:
        return None
    return "\n".join(lines)


def _output(spec: OutputSpec) -> str:
    """The kind of an output, and of an argument that is written which one it is."""
    written = spec.kind == OutputKind.USER_INPUT_MUTATION
    return f"output {spec.kind.name} {spec.target}" if written else f"output {spec.kind.name}"


class _Writer:
    """Writes nodes in order. Every value is written with its kind, so that 1, 1.0, True and "1" differ."""

    def __init__(self, names: SizeNames, weights: Mapping[fx.Node, str]) -> None:
        self._names = names
        self._weights = weights
        self._numbers: dict[fx.Node, int] = {}
        self._expressions: dict[sympy.Basic, str] = {}

    def node(self, node: fx.Node) -> str:
        """Number, name, target, arguments, value and source line of a node."""
        if node.op == "placeholder":
            target = f"placeholder {self._weights.get(node, '')}"
            arguments = ""
        elif node.op == "output":
            target, arguments = "output", self.value(node.args)
        elif node.op == "call_function":
            target, arguments = _target(node), f"{self.value(node.args)} {self.value(node.kwargs)}"
        else:
            raise _NoText
        number = self._numbers[node] = len(self._numbers)
        # An op's source line is part of the error of an index that is out of range.
        return f"%{number} {node.name} {target} {arguments} {self._meta(node)} {_text(source_line(node))}"

    def value(self, value: object) -> str:
        """An argument."""
        match value:
            case fx.Node():
                return f"%{self._numbers[value]}"
            case None | bool() | str():
                return _text(value)
            case int():
                return f"{int(value)}"
            case float():
                return f"float {value.hex()}"
            case torch.SymInt() | torch.SymFloat() | torch.SymBool():
                return self._symbolic(value)
            case list() | tuple():
                inner = ", ".join(map(self.value, value))
                return f"[{inner}]" if isinstance(value, list) else f"({inner})"
            case dict():
                return "{" + ", ".join(f"{self.value(key)}: {self.value(item)}" for key, item in value.items()) + "}"
            case _ if isinstance(value, _TYPE_VALUES):
                return f"{type(value).__name__} {value}"
            case _:
                raise _NoText

    def _meta(self, node: fx.Node) -> str:
        """What PyTorch says of the node's value."""
        return self._described(node.meta.get("val"))

    def _described(self, value: object) -> str:
        if isinstance(value, list | tuple):
            return f"[{', '.join(map(self._described, value))}]"
        if not isinstance(value, torch.Tensor):
            return self.value(value)
        strides = self.value(tuple(value.stride())) if value.layout is torch.strided else ""
        return f"{value.dtype} {self.value(tuple(value.shape))} {strides} {value.layout} {value.device}"

    def _symbolic(self, value: torch.SymInt | torch.SymFloat | torch.SymBool) -> str:
        """The expression, what a size becomes in our names, and its sign in the example, by which positions are counted."""
        size = _attempt(lambda: str(self._names.size(value))) if isinstance(value, torch.SymInt) else ""
        hint = value.node.hint
        sign = "negative" if isinstance(hint, int | float) and hint < 0 else ""
        return f"{type(value).__name__} {self._expression(value.node.expr)} {size} {sign}"

    def _expression(self, expression: sympy.Basic) -> str:
        known = self._expressions.get(expression)
        if known is None:
            known = self._expressions[expression] = self._new_expression(expression)
        return known

    def _new_expression(self, expression: sympy.Basic) -> str:
        """Symbols with what they are called here, numbers exactly, everything else by its class."""
        match expression:
            case sympy.Symbol():
                return f"{expression.name}={_attempt(lambda: str(self._names.expression(expression)))}"
            case sympy.Integer():
                return str(int(expression))
            case sympy.Rational() | sympy.Float():
                return sympy.srepr(expression)
            case _:
                kind = type(expression)
                return f"{kind.__module__}.{kind.__qualname__}({', '.join(map(self._expression, expression.args))})"


def _attempt(convert: Callable[[], str]) -> str:
    """What is converted, or why it cannot be: the lowering that needs it would say the same."""
    try:
        return convert()
    except Unsupported as error:
        return f"unsupported {_text(str(error))}"


def _target(node: fx.Node) -> str:
    """The name of what a node calls. `_NoText` where it is lowered by code outside this package, or not at all."""
    lowering, op = find_lowering(node), mapped_op(node)
    if lowering is None or not lowering.__module__.startswith(_OWN):
        raise _NoText
    if op is not None and not op.__module__.startswith(_OWN):
        raise _NoText
    target = node.target
    if isinstance(target, OpOverload):
        return str(target)
    if isinstance(target, FunctionType | BuiltinFunctionType):
        return f"{target.__module__}.{target.__qualname__}"
    raise _NoText


def _text(value: str | bool | None) -> str:
    return json.dumps(value)


def _sizes(sizes: Iterable[Size]) -> str:
    return f"[{', '.join(map(str, sizes))}]"


__all__ = ["graph_text"]
