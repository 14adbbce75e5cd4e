"""What a lowering of an ONNX op builds with.

A lowering is a function of the builder, of the node's inputs by position, and of its attributes by name:

    @lowers("LeakyRelu")
    def lower_leaky_relu(b: GraphBuilder, x: Value, *, alpha: float = 0.01) -> Value:
        positive = b.compare("gt", x, 0)
        return b.select(positive, x, b.binary(Multiply, x, alpha))

It stands in one of the modules that `lowering.FAMILIES` lists. An input that the node leaves out is None, or the parameter's default
where it is the last. An attribute has the type that ONNX gives it: int, float, str, a list of these, a `Known` for a tensor, a
`GraphProto` for a graph. What was an attribute in one version and is an input in the next is one parameter,
`axes: Value | Sequence[int] | None = None`, which `integers`, `number` and the like read in either form. The defaults are those of
ONNX, and an attribute that has no parameter makes the node an unsupported one. The result is a value, or a list with one value for each
output: more than the node names do no harm, a value of ONNX's sequence type is a tuple of values, and None is an output that is not there.
Where versions differ in meaning, `b.version` says which one this is, or several functions are registered: `@lowers("Softmax", since=13)`.

A value (`values.Value`) is a `nn.Tensor`, which the program computes, or a `Known`, whose elements are numbers of the file or
expressions over sizes. Both have `sizes`, `dtype` and `rank`. Every method below takes both and makes a tensor of a `Known` when one
is needed. Whatever needs elements while importing (axes, pads, a shape) asks for them by `integers` (numbers alone), `size_list` (sizes
too) or `number`, which raise Unsupported where the program computes them. A second kind of function, `@folds("Gather")`, is tried before
the lowering where all inputs are known, and computes a `Known` from them (`folding.py`).

Sizes of results come from the `dhlo` types. Sizes that have to agree are compared with `same` or `with_sizes`, and conditions are stated
with `require`: proved now, or checked by each call of the program. Nothing compares sizes with `==` to find out whether they may differ.

Raise `Unsupported` for what anyshape lacks, `Malformed` for what breaks ONNX's rules; the importer adds the file, the node and the op.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from onnx import GraphProto
from xdsl.ir import SSAValue

from anyshape.dialects.dhlo import (
    Array,
    BroadcastInDim,
    Compare,
    Concatenate,
    Convert,
    DhloOp,
    Gather,
    Select,
    Slice,
    Transpose,
)
from anyshape.dialects.dhlo.attributes import AttributeValue
from anyshape.dialects.dtypes import BOOL, I64, DType
from anyshape.dialects.locations import Origin
from anyshape.dialects.sizes import numel
from anyshape.frontends.onnx.branches import guarded_gather
from anyshape.frontends.onnx.evaluation import constant_elements
from anyshape.frontends.onnx.known_tensors import tensor_of
from anyshape.frontends.onnx.refusals import Malformed, Unsupported
from anyshape.frontends.onnx.registry import STANDARD, find_lowering
from anyshape.frontends.onnx.signatures import applied
from anyshape.frontends.onnx.values import Anything, Known, Value, as_objects, sizes_text
from anyshape.nn import Graph, Tensor
from anyshape.symbolic import Relation, Size, SizeLike, broadcast_size

ZERO, ONE = Size.const(0), Size.const(1)


@dataclass(frozen=True)
class NodeState:
    """The node that is being lowered.

    Attributes:
        asker: what errors call it, with its file.
        outputs: the names of its outputs; an empty one is not asked for.
        version: of the operator set that its op is of.
        opset: version of ONNX's own operator set.
        lower_graph: gives the values of the outputs of a subgraph, whose nodes become part of the program there.
    """

    asker: str
    outputs: tuple[str, ...]
    version: int
    opset: int
    lower_graph: Callable[[GraphProto], list[Value]]


@dataclass(frozen=True)
class Dequantised:
    """What a tensor of floats is made of: scale · (codes − zero).

    Attributes:
        codes: signed or unsigned bytes.
        scale, zero: one number, or one for each index of `axis`; the zero point is 0 where it is None.
        axis: None where there is one scale.
    """

    codes: Value
    scale: Value
    zero: Value | None
    axis: int | None


SEED_NAME = "the seed of the call"
"""What the argument with the seed of random numbers is called."""


class GraphBuilder:
    """Builds the ops of one model, node after node.

    Attributes:
        graph: the graph under construction, with `facts` and `store`.
        state: the node that is being lowered.
        taken: inside a branch that is computed in any case, whether it is taken: a bool of rank 0.
        may_fail: how many ops there are that may fail when they run, on an index, say.
        origins: who asked for conditions on sizes, by their texts; `require` adds to it.
        seed_argument: what `seed` gave, if anything asked for it.
        dequantised: the codes of tensors that a DequantizeLinear gave.
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.origins: dict[str, Origin] = {}
        self.may_fail = 0
        self.taken: Tensor | None = None
        self._made: dict[int, tuple[Known, Tensor]] = {}
        self.state = NodeState("the model", (), 0, 0, _no_graph)
        self.seed_argument: Tensor | None = None
        self.dequantised: dict[SSAValue, Dequantised] = {}
        self._streams = 0

    @property
    def version(self) -> int:
        """Of the operator set that the node's op is of."""
        return self.state.version

    @property
    def opset(self) -> int:
        """The version of ONNX's own operator set."""
        return self.state.opset

    @property
    def outputs(self) -> tuple[str, ...]:
        """The names of the node's outputs; an empty one is not asked for."""
        return self.state.outputs

    def lower_graph(self, graph: GraphProto) -> list[Value]:
        """The values of the outputs of a subgraph without inputs, whose nodes become part of the program here."""
        return self.state.lower_graph(graph)

    def lower_op(self, op: str, /, *inputs: Anything, **attributes: Any) -> Any:
        """What a node of an op of ONNX's own would stand for: `b.lower_op("Softmax", x, axis=1)`, of this model's version of it."""
        lowering = find_lowering(STANDARD, op, self.opset)
        if lowering is None:
            raise Unsupported(f"there is no lowering for {op}")
        return applied(lowering, inputs, attributes)(self)

    def seed(self) -> Tensor:
        """The seed of a call's random numbers, an i64 of rank 0: an argument behind all others, from the first use on."""
        if self.seed_argument is None:
            self.seed_argument = self.graph.input(SEED_NAME, (), I64)
        return self.seed_argument

    def next_stream(self) -> int:
        """The number of a stream of random numbers that no other op of the program has."""
        self._streams += 1
        return self._streams - 1

    def is_asked_for(self, output: int) -> bool:
        """Whether the node names this output."""
        return output < len(self.outputs) and bool(self.outputs[output])

    # -- values -----------------------------------------------------------------------------------------------------

    def tensor(self, value: Value) -> Tensor:
        """The value as a tensor of the program, made once. Unsupported where programs have no such elements."""
        if isinstance(value, Tensor):
            return value
        if id(value) not in self._made:
            self._made[id(value)] = value, tensor_of(self, value)
        return self._made[id(value)][1]

    def operand(self, value: Value | float | bool, dtype: DType, sizes: Sequence[SizeLike] = ()) -> Tensor:
        """A value converted to `dtype`; or a number as a constant of that dtype and these sizes."""
        if isinstance(value, int | float):
            return self.constant(value, dtype, sizes)
        return self.convert(value, dtype)

    def constant(self, number: float | bool, dtype: DType, sizes: Sequence[SizeLike] = ()) -> Tensor:
        """`number` at every point of a tensor of these sizes."""
        typed = float(number) if dtype.is_float else bool(number) if dtype.is_bool else int(number)
        tensor = self.graph.constant(typed, sizes, dtype)
        _check_extent(tensor)
        return tensor

    # -- elements that must be known while importing ------------------------------------------------------------------

    def known(self, value: Value, what: str) -> Known:
        """A value whose elements are known. Unsupported where the program computes it; `what` says what it is: "the axes"."""
        if isinstance(value, Tensor):
            elements = constant_elements(value, self.graph.store)
            if elements is not None:
                return Known(elements)
            raise Unsupported(f"{what} must be constant or computed from sizes; here the program computes them")
        return value

    def literal(self, value: Value, what: str) -> Array:
        """The numbers of a constant. Unsupported where sizes or the program say them."""
        known = self.known(value, what)
        if not known.is_literal:
            raise Unsupported(f"{what} must be constant; here they depend on sizes: {list(known.elements.flat)}")
        return known.elements

    def integers(self, value: Value | Sequence[int] | int, what: str) -> list[int]:
        """The integers of a constant of any rank, or of an attribute."""
        if isinstance(value, int):
            return [value]
        if isinstance(value, Tensor | Known):
            return [int(each) for each in self.literal(value, what).ravel().tolist()]
        return [int(each) for each in value]

    def size_list(self, value: Value | Sequence[int] | int, what: str) -> list[Size]:
        """The elements of an integer tensor of any rank, or of an attribute, as sizes."""
        if isinstance(value, Tensor | Known):
            elements = as_objects(self.known(value, what)).flat
            return [Size.of(int(each) if isinstance(each, float) else each) for each in elements]
        return [Size.const(each) for each in ([value] if isinstance(value, int) else value)]

    def shape(self, value: Value | Sequence[int], what: str = "the shape") -> list[Size]:
        """The elements of an integer vector as sizes of a tensor, none of which may be negative."""
        sizes = self.size_list(value, what)
        for size in sizes:
            if self.prove(size.ge(0)) is not True:
                self.require(size.ge(0), f"a size of {sizes_text(sizes)}")
        return sizes

    def number(self, value: Value | float | int, what: str) -> float | int:
        """The only element of a constant, or an attribute."""
        if isinstance(value, int | float):
            return value
        numbers = self.literal(value, what)
        if numbers.size != 1:
            raise Malformed(f"{what} must be one number; here it is a tensor of {numbers.size}")
        return numbers.reshape(()).item()

    # -- ops --------------------------------------------------------------------------------------------------------

    def emit(self, kind: type[DhloOp], /, *operands: Value, **attributes: AttributeValue) -> Tensor:
        """A new `dhlo` op of one result."""
        tensors = [self.tensor(each) for each in operands]
        if kind is Gather and self.taken is not None:
            tensors = guarded_gather(self, self.taken, tensors[0], tensors[1], attributes)
        else:
            self.may_fail += kind.name in _FALLIBLE
        result = self.graph.emit(kind, *tensors, **attributes)
        _check_extent(result)
        return result

    def convert(self, x: Value, dtype: DType) -> Tensor:
        if isinstance(x, Known) and x.is_literal and x.numpy != dtype.numpy and x.elements.size <= FOLDED_ELEMENTS:
            return self.tensor(Known(x.elements.astype(dtype.numpy)))
        tensor = self.tensor(x)
        return tensor if tensor.dtype == dtype else self.emit(Convert, tensor, dtype=dtype)

    def reshape(self, x: Value, sizes: Iterable[SizeLike]) -> Tensor:
        """The same elements in row-major order under other sizes; that both have as many is required of each call where it is not plain."""
        target, source = tuple(map(Size.of, sizes)), x.sizes
        if target != source and numel(target) != numel(source):
            self.require(numel(source).eq(numel(target)), f"{sizes_text(source)} as {sizes_text(target)}")
        return self.tensor(x).reshape(*target)

    def transpose(self, x: Value, permutation: Sequence[int]) -> Tensor:
        """Axis d of the result is axis permutation[d] of x."""
        tensor = self.tensor(x)
        if list(permutation) == list(range(tensor.rank)):
            return tensor
        return self.emit(Transpose, tensor, permutation=tuple(permutation))

    def broadcast(self, x: Value, sizes: Sequence[SizeLike]) -> Tensor:
        """x repeated to `sizes`, axes aligned at the last, each of the same size or of 1: required of each call where that is open."""
        target = tuple(map(Size.of, sizes))
        first = len(target) - x.rank
        if first < 0:
            raise Malformed(f"{sizes_text(x.sizes)} has too many axes to be broadcast to {sizes_text(target)}")
        for size, wanted in zip(x.sizes, target[first:], strict=True):
            if size not in (wanted, ONE):
                what = f"{sizes_text(x.sizes)} broadcast to {sizes_text(target)}"
                self.require(((size - 1) * (size - wanted)).eq(0), what)
        return self.repeated(x, target)

    def repeated(self, x: Value, target: tuple[Size, ...]) -> Tensor:
        """x broadcast to sizes that it is known to fit."""
        if x.sizes == target:
            return self.tensor(x)
        first = len(target) - x.rank
        pairs = list(zip(x.sizes, target[first:], strict=True))
        written = [
            to if size != ONE and not _is_open(size, to) and self.prove(size.eq(to)) else size for size, to in pairs
        ]
        tensor = self.tensor(x).reshape(*written)
        if tensor.sizes == target:
            return tensor
        return self.emit(BroadcastInDim, tensor, dimensions=tuple(range(first, len(target))), sizes=target)

    def slice(self, x: Value, axis: int, start: SizeLike, size: SizeLike, step: int = 1) -> Tensor:
        """x[…, start + step·i, …] for i < size; all of it must lie inside x, which is not checked here."""
        tensor = self.tensor(x)
        if step == 1 and Size.of(start) == ZERO and Size.of(size) == tensor.sizes[axis]:
            return tensor
        starts, sizes, steps = [ZERO] * tensor.rank, list(tensor.sizes), [1] * tensor.rank
        starts[axis], sizes[axis], steps[axis] = Size.of(start), Size.of(size), step
        return self.emit(Slice, tensor, starts=tuple(starts), sizes=tuple(sizes), strides=tuple(steps))

    def concatenate(self, tensors: Sequence[Value], axis: int) -> Tensor:
        """One after another along an axis, counted from 0; on the others they must agree."""
        first, *others = tensors
        parts = [self.tensor(first)]
        for other in others:
            if other.rank != first.rank:
                raise Malformed(
                    f"{sizes_text(first.sizes)} and {sizes_text(other.sizes)} cannot be joined: their ranks differ"
                )
            wanted = [*first.sizes[:axis], other.sizes[axis], *first.sizes[axis + 1 :]]
            parts.append(self.with_sizes(other, wanted, "tensors that are joined"))
        return parts[0] if len(parts) == 1 else self.emit(Concatenate, *parts, axis=axis)

    # -- elementwise --------------------------------------------------------------------------------------------------

    def common_sizes(self, *shapes: Sequence[Size]) -> tuple[Size, ...]:
        """The sizes to which tensors of these sizes are broadcast together; where that is open, each call decides."""
        rank = max(map(len, shapes))
        common = [ONE] * rank
        for shape in shapes:
            for axis, size in enumerate(shape, rank - len(shape)):
                common[axis] = self._common_size(common[axis], size)
        return tuple(common)

    def _common_size(self, a: Size, b: Size) -> Size:
        if a == b or b == ONE:
            return a
        if a == ONE:
            return b
        prove = self.graph.facts.prove
        if prove(a.eq(b)) is True:
            return a
        self.require(((a - 1) * (b - 1) * (a - b)).eq(0), f"sizes {a} and {b}, of which neither is 1,")
        for one, other in ((a, b), (b, a)):
            if prove(one.ne(1)) is True:
                return one
            if prove(one.eq(1)) is True:
                return other
        return broadcast_size(a, b)

    def together(self, *values: Value) -> list[Tensor]:
        """Broadcast to their common sizes."""
        sizes = self.common_sizes(*(value.sizes for value in values))
        return [self.repeated(value, sizes) for value in values]

    def binary(self, kind: type[DhloOp], lhs: Value | float, rhs: Value | float) -> Tensor:
        """kind(lhs, rhs), broadcast together; a number takes the other's dtype."""
        return self.emit(kind, *self._pair(lhs, rhs))

    def compare(self, direction: str, lhs: Value | float, rhs: Value | float) -> Tensor:
        """lhs ∘ rhs as bools for eq, ne, lt, le, gt or ge, broadcast together; a number takes the other's dtype."""
        return self.emit(Compare, *self._pair(lhs, rhs), direction=direction)

    def _pair(self, lhs: Value | float, rhs: Value | float) -> list[Tensor]:
        if isinstance(lhs, int | float):
            if isinstance(rhs, int | float):
                raise TypeError("one operand must be a value")
            return [self.constant(lhs, rhs.dtype, rhs.sizes), self.tensor(rhs)]
        if isinstance(rhs, int | float):
            return [self.tensor(lhs), self.constant(rhs, lhs.dtype, lhs.sizes)]
        if lhs.dtype != rhs.dtype:
            raise Malformed(f"the operands must have one type; here they are {lhs.dtype} and {rhs.dtype}")
        return self.together(lhs, rhs)

    def select(self, condition: Value, on_true: Value | float, on_false: Value | float) -> Tensor:
        """on_true where the bool condition holds, else on_false, broadcast together; a number takes the other's dtype."""
        dtype = next(each.dtype for each in (on_true, on_false) if isinstance(each, Tensor | Known))
        values = [self.operand(each, dtype) for each in (on_true, on_false)]
        return self.emit(Select, *self.together(self.convert(condition, BOOL), *values))

    # -- axes and sizes ----------------------------------------------------------------------------------------------

    def axis(self, axis: int, rank: int) -> int:
        """An axis, which may be counted from the end, counted from 0. Malformed where there is no such axis."""
        if not -rank <= axis < rank:
            raise Malformed(f"there is no axis {axis} among {rank}")
        return axis % rank

    def check_rank(self, x: Value, least: int, most: int | None = None) -> None:
        """Malformed unless x has from `least` to `most` axes."""
        if x.rank < least or (most is not None and x.rank > most):
            expected = f"{least}" if most == least else f"at least {least}" if most is None else f"{least} to {most}"
            raise Malformed(f"a tensor of {expected} axes is needed; here it has {x.rank}: {sizes_text(x.sizes)}")

    def axes(self, axes: Value | Sequence[int] | int, rank: int, what: str = "the axes") -> list[int]:
        """Axes counted from 0, in the order given. Malformed where one is named twice."""
        listed = [self.axis(each, rank) for each in self.integers(axes, what)]
        if len(set(listed)) != len(listed):
            raise Malformed(f"{what} name an axis twice: {listed}")
        return listed

    def same(self, a: SizeLike, b: SizeLike, what: str) -> Size:
        """The size that both are, which is required of each call where it is not known."""
        a, b = Size.of(a), Size.of(b)
        if a == b:
            return a
        self.require(a.eq(b), what)
        return b if b.is_constant else a

    def with_sizes(self, x: Value, sizes: Sequence[SizeLike], what: str) -> Tensor:
        """x, whose sizes must be these: what `same` requires of each axis. The result's type has `sizes`, as they are written."""
        target = tuple(map(Size.of, sizes))
        if len(target) != x.rank:
            raise Malformed(f"{what} must have {len(target)} axes; here it has {x.rank}")
        for got, wanted in zip(x.sizes, target, strict=True):
            if got != wanted:
                self.require(got.eq(wanted), what)
        return self.tensor(x).reshape(*target)

    def prove(self, relation: Relation) -> bool | None:
        """Whether the relation holds by what is known of sizes; None where both may be."""
        return self.graph.facts.prove(relation)

    def require(self, relation: Relation, what: str) -> None:
        """The program is defined only where `relation` holds: a fact from here on, which every call checks.

        Malformed where it never holds; `what` says what asks for it.
        """
        proved = self.prove(relation)
        if proved is False:
            raise Malformed(f"{what} cannot be: {relation} never holds")
        if proved is None:
            self.graph.facts.assume(relation)
            self.origins[str(relation)] = Origin(self.state.asker)


_FALLIBLE = frozenset({"dhlo.gather", "dhlo.scatter", "dhlo.read_size", "dhlo.compress"})
_MOST_BYTES = 2**63 - 1
FOLDED_ELEMENTS = 4096
"""Known tensors of up to so many elements are computed with while importing; larger ones are the program's, or its passes', to compute."""


def _is_open(size: Size, target: Size) -> bool:
    """Whether `target` is what `broadcast_size` makes of this size and another."""
    return any(atom.kind == "max" and size in atom.args for monomial, _ in target.terms for atom in monomial)


def _check_extent(tensor: Tensor) -> None:
    """Malformed where a tensor has more bytes than can be counted."""
    known = math.prod(size.value for size in tensor.sizes if size.is_constant)
    if known * tensor.dtype.numpy.itemsize > _MOST_BYTES:
        raise Malformed(f"a tensor {sizes_text(tensor.sizes)} of {tensor.dtype} has more bytes than 64 bits count")


def _no_graph(_: GraphProto) -> list[Value]:
    raise Unsupported("a graph outside of a node")


__all__ = ["FOLDED_ELEMENTS", "ONE", "SEED_NAME", "ZERO", "GraphBuilder", "NodeState"]
