"""Whether two exports of one model are the same function where certain facts about sizes hold: a proof, not a comparison of values.

The nodes of both graphs are numbered by what they compute, so that equal nodes have one number: the op, the numbers of its operands, and
its sizes, simplified by the facts. What the facts say changes nothing has the number of its operand: padding by 0, a concatenation
with nothing, a slice of a whole axis, a reshape to the sizes that a tensor has. A tensor that is written to has another number behind
each write, and so have all that may share its memory (`written`). A graph that writes to its inputs, draws random numbers or calls other
graphs is equal to none.
"""

# PyTorch and sympy are typed in part only.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx
from torch._ops import OpOverload
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind

from anyshape.frontends.torch.dtypes import array_of_memory
from anyshape.frontends.torch.random import is_random
from anyshape.frontends.torch.sizes import SizeNames
from anyshape.frontends.torch.unsupported import Unsupported
from anyshape.frontends.torch.written import operands_written_by, written_memory
from anyshape.symbolic import Facts, Size, SizeError

_PADS = ("aten.pad.default", "aten.constant_pad_nd.default")
_SLICE = "aten.slice.Tensor"
_CAT = "aten.cat.default"
_RESHAPES = (
    "aten.view.default",
    "aten.reshape.default",
    "aten._unsafe_view.default",
    "aten.view_copy.default",
    "aten._reshape_copy.default",
)
_SAME_VALUES = ("aten.contiguous.default", "aten.clone.default", "aten.alias.default", "aten.detach.default")
"""Ops whose result is their operand, in other memory or none."""

_TYPE_VALUES = (torch.dtype, torch.layout, torch.memory_format, torch.device)

_SMALL_CONSTANT = 1 << 16
"""Elements of a constant that is known by its contents; a larger one is the same in two exports only if it is one tensor."""


@dataclass(frozen=True)
class Reading:
    """A graph before decomposition, and what its sizes are in names that it shares with the other."""

    program: ExportedProgram
    names: SizeNames


class _Incomparable(Exception):
    """A graph holds what says nothing about equality."""


def same_under(facts: Facts, first: Reading, second: Reading) -> bool:
    """Whether both graphs compute the same results, and check the same, at all sizes for which the facts hold."""
    numbering = _Numbering(facts)
    try:
        return numbering.of(first) == numbering.of(second)
    except (_Incomparable, Unsupported):
        return False


def differ_at(points: Sequence[Mapping[str, int]], first: Reading, second: Reading, *, if_unknown: bool) -> bool:
    """Whether both graphs are not found to compute the same at some of these sizes; `if_unknown` where they cannot be compared."""
    for point in points:
        numbering = _Numbering(Facts(), point)
        try:
            if numbering.of(first) != numbering.of(second):
                return True
        except (_Incomparable, Unsupported, SizeError):
            if if_unknown:
                return True
    return False


class _Numbering:
    """Numbers for the values of graphs, equal ones for equal values: where the facts hold, or at the sizes of a point."""

    def __init__(self, facts: Facts, point: Mapping[str, int] | None = None) -> None:
        self._facts, self._point = facts, point
        self._numbers: dict[Hashable, int] = {}
        self._sizes: dict[Hashable, tuple[Size, ...]] = {}
        self._unshaped: dict[Hashable, Hashable] = {}

    def of(self, reading: Reading) -> Hashable:
        """The results of a graph, and its ops that have none, in order."""
        return _Graph(self, reading).results()

    def number(self, key: Hashable) -> int:
        return self._numbers.setdefault(key, len(self._numbers))

    def tensor(self, number: Hashable, sizes: tuple[Size, ...]) -> None:
        """Note the sizes of a tensor with this number."""
        self._sizes.setdefault(number, sizes)

    def reshaped(self, number: Hashable, sizes: tuple[Size, ...]) -> Hashable:
        """The number of the elements of a tensor in other sizes: of a reshape of a reshape, that of one; in its own, the tensor's."""
        operand = self._unshaped.get(number, number)
        if self._sizes.get(operand) == sizes:
            return operand
        found = self.number(("reshape", operand, sizes))
        self._unshaped[found] = operand
        return found

    def size(self, size: Size) -> Size:
        return self._facts.simplify(size) if self._point is None else Size.const(size.evaluate(self._point))

    def is_zero(self, size: Size) -> bool:
        return self._facts.prove(self.size(size).eq(0)) is True

    def at_most(self, size: Size, bound: Size) -> bool:
        return self._facts.prove(self.size(size).le(self.size(bound))) is True


class _Graph:
    """One graph while its values are numbered."""

    def __init__(self, numbering: _Numbering, reading: Reading) -> None:
        self._numbering, self._program, self._names = numbering, reading.program, reading.names
        self._values: dict[fx.Node, Hashable] = {}
        self._written = written_memory(reading.program)
        self._writes: dict[fx.Node, Hashable] = {}

    def results(self) -> Hashable:
        self._number_inputs()
        effects: list[Hashable] = []
        for node in self._program.graph.nodes:
            if node.op == "placeholder":
                continue
            if node.op == "output":
                kinds = tuple((spec.kind.name, spec.target) for spec in self._program.graph_signature.output_specs)
                return kinds, self._argument(node.args), tuple(effects)
            if node.op != "call_function":
                raise _Incomparable
            self._values[node] = self._called(node)
            self._note_sizes(node)
            if not node.users:
                effects.append(self._values[node])
        raise _Incomparable

    def _number_inputs(self) -> None:
        specs = self._program.graph_signature.input_specs
        nodes = (node for node in self._program.graph.nodes if node.op == "placeholder")
        given = 0
        for spec, node in zip(specs, nodes, strict=True):
            if node in self._written:
                raise _Incomparable
            if spec.kind == InputKind.USER_INPUT:
                key: Hashable = ("input", given)
                given += 1
            elif spec.kind == InputKind.CONSTANT_TENSOR:
                key = _contents(self._program.constants[spec.target or ""])
            elif spec.kind in (InputKind.PARAMETER, InputKind.BUFFER):
                key = ("held", spec.target)
            else:
                raise _Incomparable
            self._values[node] = self._numbering.number(key)
            self._note_sizes(node)

    def _note_sizes(self, node: fx.Node) -> None:
        if isinstance(node.meta.get("val"), torch.Tensor) and node not in self._written:
            self._numbering.tensor(self._values[node], self._sizes(node))

    def _called(self, node: fx.Node) -> Hashable:
        value = node.meta.get("val")
        if isinstance(value, torch.SymInt):
            return self._numbering.size(self._names.size(value))
        target = node.target
        if isinstance(target, OpOverload):
            if is_random(node):
                raise _Incomparable
            if node not in self._written:
                same = self._operand_that_it_is(node, str(target))
                if same is not None:
                    return same
                if str(target) in _RESHAPES:
                    return self._numbering.reshaped(self._now(node.all_input_nodes[0]), self._sizes(node))
        elif getattr(target, "__module__", None) != "_operator":
            raise _Incomparable
        name = str(target) if isinstance(target, OpOverload) else getattr(target, "__name__", "")
        called = self._numbering.number((name, self._argument(node.args), self._argument(node.kwargs)))
        for operand in operands_written_by(node):
            self._writes[self._written[operand]] = called
        return called

    def _now(self, node: fx.Node) -> Hashable:
        """The number of a tensor's values as they are at the node that is looked at: what it was made by, and the writes up to here."""
        memory = self._written.get(node)
        if memory is None:
            return self._values[node]
        return self._numbering.number(("written", self._values[node], self._writes.get(memory)))

    def _operand_that_it_is(self, node: fx.Node, target: str) -> Hashable | None:
        """The number of the operand that an op leaves as it is; None where it changes it."""
        if target in _SAME_VALUES:
            return self._now(node.all_input_nodes[0])
        if target in _PADS and all(self._numbering.is_zero(self._size(amount)) for amount in _as_list(node.args[1])):
            return self._now(node.all_input_nodes[0])
        if target == _CAT:
            return self._only_part(node)
        if target == _SLICE and self._is_whole(node):
            return self._now(node.all_input_nodes[0])
        return None

    def _only_part(self, node: fx.Node) -> Hashable | None:
        """The number of the one operand of a concatenation that is not empty there."""
        parts, dim = _as_list(node.args[0]), node.args[1] if len(node.args) > 1 else node.kwargs.get("dim", 0)
        values = [part.meta["val"] for part in parts]
        if not isinstance(dim, int) or any(value.dtype != values[0].dtype or not value.dim() for value in values):
            return None
        sizes = [self._names.size(value.shape[dim]) for value in values]
        left = [part for part, size in zip(parts, sizes, strict=True) if not self._numbering.is_zero(size)]
        return self._now(left[0]) if len(left) == 1 else None

    def _is_whole(self, node: fx.Node) -> bool:
        """Whether a slice is the whole axis."""
        x, dim, start, end, step = (*node.args, *(0, None, None, 1)[len(node.args) - 1 :])
        if step != 1 or start not in (0, None) or not isinstance(x, fx.Node) or not isinstance(dim, int):
            return False
        return end is None or self._numbering.at_most(self._names.size(x.meta["val"].shape[dim]), self._size(end))

    def _sizes(self, node: fx.Node) -> tuple[Size, ...]:
        return tuple(self._numbering.size(size) for size in self._names.sizes(node.meta["val"].shape))

    def _size(self, value: Any) -> Size:
        """A size among the arguments of an op."""
        value = value.meta["val"] if isinstance(value, fx.Node) else value
        if isinstance(value, int | torch.SymInt) and not isinstance(value, bool):
            return self._names.size(value)
        raise _Incomparable

    def _argument(self, value: object) -> Hashable:
        """An argument with its kind, so that 1, 1.0, True and "1" differ."""
        match value:
            case fx.Node():
                number = self._now(value)
                return number if isinstance(number, Size) else ("value", number)
            case bool() | None | str():
                return type(value).__name__, value
            case int() | torch.SymInt():
                return self._numbering.size(self._names.size(value))
            case float():
                return "float", value.hex()
            case list() | tuple():
                return tuple(map(self._argument, value))
            case Mapping():
                return tuple((key, self._argument(each)) for key, each in value.items())
            case _ if isinstance(value, _TYPE_VALUES):
                return type(value).__name__, str(value)
            case _:
                raise _Incomparable


def _as_list(value: object) -> list[Any]:
    if not isinstance(value, list | tuple):
        raise _Incomparable
    return list(value)


def _contents(tensor: Any) -> Hashable:
    """What a constant is known by."""
    if not isinstance(tensor, torch.Tensor) or tensor.numel() > _SMALL_CONSTANT:
        return "object", id(tensor)
    flat = tensor.detach().contiguous().reshape(-1)
    return (
        str(tensor.dtype),
        tuple(tensor.shape),
        array_of_memory(flat.view(torch.uint8)).tobytes() if flat.numel() else b"",
    )


__all__ = ["Reading", "differ_at", "same_under"]
