"""The state of one lowering: where ops are inserted, what is known of sizes, and the steps that many ops share."""

# PyTorch and sympy are typed in part only.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import torch
from torch import fx
from torch._prims_common import ELEMENTWISE_TYPE_PROMOTION_KIND, elementwise_dtypes
from xdsl.builder import Builder
from xdsl.dialects.builtin import LocationAttr
from xdsl.ir import Block, SSAValue
from xdsl.rewriter import InsertPoint

from anyshape.dialects.dhlo import BroadcastInDim, Constant, ConstantStore, Convert, Reshape, SizeOf, Weight
from anyshape.dialects.dhlo.attributes import AttributeValue
from anyshape.dialects.dhlo.base import Array, DhloOp
from anyshape.dialects.dtypes import DType
from anyshape.dialects.locations import Origin
from anyshape.dialects.sizes import dtype_of, sizes_of
from anyshape.frontends.torch.conditions import plain_form
from anyshape.frontends.torch.dtypes import dtype_of_torch
from anyshape.frontends.torch.locations import location_of
from anyshape.frontends.torch.openings import one_or
from anyshape.frontends.torch.origins import origin_of_node
from anyshape.frontends.torch.sizes import SizeNames
from anyshape.frontends.torch.unsupported import Unsupported
from anyshape.symbolic import Facts, Relation, Size, SizeLike, broadcast_size

Value: TypeAlias = Any
"""What a node stands for: an SSA value, a size, a Python constant, or a sequence of these."""


def axis_of(axis: int, rank: int) -> int:
    """A PyTorch axis, which may be negative, counted from 0; a scalar counts as having one axis."""
    return axis % max(rank, 1)


class GraphBuilder:
    """Builds the body of `@main`.

    Attributes:
        names: translates PyTorch's sizes.
        facts: what is known of them; `require` adds to it.
        store: the arrays that `dhlo.weight` ops name.
        openings: (a, n) where a size a of an input is 1 or n.
        origins: who asked for conditions on sizes, by their texts; `require` adds to it.
        node: the node being lowered.
        read_sizes: what gave their values to sizes that depend on the data.
    """

    def __init__(
        self,
        block: Block,
        names: SizeNames,
        facts: Facts,
        store: ConstantStore,
        openings: frozenset[tuple[Size, Size]] = frozenset(),
        origins: Mapping[str, Origin] | None = None,
        positions: Callable[[SSAValue], Size | None] = lambda _: None,
        seed: SSAValue | None = None,
    ) -> None:
        self.names = names
        self.facts = facts
        self.store = store
        self.openings = openings
        self.origins = dict(origins or {})
        self.node: fx.Node
        self._positions = positions
        self._seed = seed
        self._streams = 0
        self._builder = Builder(InsertPoint.at_end(block))
        self._location: LocationAttr | None = None
        self._weights: dict[str, SSAValue] = {}
        self.read_sizes: dict[Size, SSAValue] = {}

    def begin(self, node: fx.Node) -> None:
        """Ops built from here on belong to `node`."""
        self.node = node
        self._location = location_of(node)

    # -- what PyTorch says of the result ----------------------------------------------------------------------------

    @property
    def result_dtype(self) -> DType:
        """That of each plane where the result is complex."""
        return dtype_of_torch(self.node.meta["val"].dtype.to_real())

    @property
    def result_sizes(self) -> tuple[Size, ...]:
        return self.names.sizes(self.node.meta["val"].shape)

    def promoted_dtype(self) -> DType:
        """The dtype to which PyTorch promotes the operands of the node, where its result is of another (a comparison)."""
        metas = [_value_or_example(argument) for argument in self.node.args]
        operands = [meta for meta in metas if isinstance(meta, torch.Tensor | int | float | bool)]
        _, dtype = elementwise_dtypes(*operands, type_promotion_kind=ELEMENTWISE_TYPE_PROMOTION_KIND.DEFAULT)
        return dtype_of_torch(dtype)

    def is_negative(self, value: int | Size, argument: int) -> bool:
        """Whether a position is negative, by its value in the example where it is computed from sizes: export guards the sign."""
        if isinstance(value, int):
            return value < 0
        symbolic = self.node.args[argument]
        assert isinstance(symbolic, fx.Node)
        hint = symbolic.meta["val"].node.hint
        return hint is not None and hint < 0

    def position_in(self, value: SSAValue) -> Size | None:
        """The only element of a tensor of integers as a size, where the caller of the program can say it."""
        return self._positions(value)

    def seed(self) -> SSAValue:
        """The seed of a call's random numbers, an i64 of rank 0. Unsupported where calls have none."""
        if self._seed is None:
            raise Unsupported("random numbers are drawn by PyTorch here")
        return self._seed

    def next_stream(self) -> int:
        """The number of a stream of random numbers that no other op of the program has."""
        self._streams += 1
        return self._streams - 1

    # -- building ---------------------------------------------------------------------------------------------------

    def emit(self, kind: type[DhloOp], /, *operands: SSAValue, **attributes: AttributeValue) -> SSAValue:
        """A new op of one result."""
        op = kind.build_from(*operands, location=self._location, **attributes)
        self._builder.insert(op)
        return op.result

    def constant(self, value: float | bool, dtype: DType, sizes: Sequence[SizeLike] = ()) -> SSAValue:
        """`value` at every point of a tensor of these sizes."""
        typed = float(value) if dtype.is_float else bool(value) if dtype.is_bool else int(value)
        return self.emit(Constant, value=typed, dtype=dtype, sizes=tuple(Size.of(size) for size in sizes))

    def weight(self, array: Array, dtype: DType) -> SSAValue:
        """A constant array, in the text once however often it is used."""
        return self.stored_weight(self.store.add(array), dtype)

    def stored_weight(self, name: str, dtype: DType) -> SSAValue:
        """The array that the store has by this name."""
        if name not in self._weights:
            self._weights[name] = self.emit(Weight, name=name, dtype=dtype, sizes=self.store.type_of(name).shape)
        return self._weights[name]

    def convert(self, x: SSAValue, dtype: DType) -> SSAValue:
        return x if dtype_of(x.type) == dtype else self.emit(Convert, x, dtype=dtype)

    def reshape(self, x: SSAValue, sizes: Sequence[SizeLike]) -> SSAValue:
        """The same elements in row-major order with other sizes of the same product."""
        target = tuple(Size.of(size) for size in sizes)
        return x if sizes_of(x.type) == target else self.emit(Reshape, x, sizes=target)

    def broadcast(self, x: SSAValue, sizes: Sequence[SizeLike]) -> SSAValue:
        """x repeated to `sizes`, axes aligned at the last, as PyTorch and numpy broadcast."""
        target = tuple(Size.of(size) for size in sizes)
        source = sizes_of(x.type)
        if source == target:
            return x
        first = len(target) - len(source)
        if first < 0:
            raise Unsupported(f"{len(source)} axes cannot be broadcast to {len(target)}")
        return self.emit(BroadcastInDim, x, dimensions=tuple(range(first, len(target))), sizes=target)

    def checked_broadcast(self, x: SSAValue, sizes: Sequence[SizeLike], what: str) -> SSAValue:
        """`broadcast` where PyTorch's shape rule compares nothing: that each axis of x is 1 or has its size is required."""
        target = tuple(Size.of(size) for size in sizes)
        for own, size in zip(reversed(sizes_of(x.type)), reversed(target), strict=False):
            if own.constant_or(None) != 1 and (own, size) not in self.openings:
                self.require(one_or(own, size), what)
        return self.broadcast(x, target)

    def require_sizes(self, x: SSAValue, sizes: Sequence[SizeLike], what: str) -> None:
        """The program is defined only where x has these sizes, which PyTorch's shape rule does not compare."""
        own = sizes_of(x.type)
        if len(own) != len(sizes):
            raise Unsupported(f"{what}: {len(own)} axes instead of {len(sizes)}")
        for each, size in zip(own, sizes, strict=True):
            self.require(each.eq(size), what)

    def common_sizes(self, *shapes: Sequence[Size]) -> tuple[Size, ...]:
        """The sizes of the broadcast of tensors of these sizes."""
        rank = max(map(len, shapes))
        common = [Size.const(1)] * rank
        for shape in shapes:
            for axis, size in enumerate(shape, rank - len(shape)):
                common[axis] = self._common_size(common[axis], size)
        return tuple(common)

    def _common_size(self, a: Size, b: Size) -> Size:
        if a == b or (b, a) in self.openings or self.facts.prove(a.eq(b)) is True:
            return a
        if (a, b) in self.openings:
            return b
        both = {target for size, target in self.openings if size == a} & {n for size, n in self.openings if size == b}
        return min(both, key=lambda size: (len(size.symbols), str(size))) if both else broadcast_size(a, b)

    def operand(self, value: Value, dtype: DType, sizes: Sequence[SizeLike] = ()) -> SSAValue:
        """A tensor converted to `dtype`, or a Python number as a constant of that dtype and these sizes."""
        if isinstance(value, SSAValue):
            return self.convert(value, dtype)
        if isinstance(value, Size):
            return self.convert(self.emit(SizeOf, size=value), dtype)
        if not isinstance(value, int | float | bool):
            raise Unsupported(f"{value} of type {type(value).__name__} cannot be an element of a tensor")
        return self.constant(value, dtype, sizes)

    def is_result(self, value: Value) -> bool:
        """Whether a value has the dtype and the sizes of the node's result."""
        return (
            isinstance(value, SSAValue)
            and dtype_of(value.type) == self.result_dtype
            and sizes_of(value.type) == self.result_sizes
        )

    # -- facts ------------------------------------------------------------------------------------------------------

    def require(self, relation: Relation, what: str) -> None:
        """The program is defined only where `relation` holds: it becomes a fact, checked when the program is called."""
        proved = self.facts.prove(relation)
        if proved is False:
            raise Unsupported(f"{what}: {relation} never holds")
        if proved is None:
            condition = plain_form(relation)
            self.facts.assume(condition)
            self.origins[str(condition)] = origin_of_node(self.node)


def _value_or_example(argument: Any) -> Any:
    """What decides the promotion of an argument: a tensor, or any number of its kind."""
    value = argument.meta.get("val") if isinstance(argument, fx.Node) else argument
    if isinstance(value, torch.SymInt):
        return 1
    return 1.0 if isinstance(value, torch.SymFloat) else value


Lowering: TypeAlias = Callable[..., Value]
LOWERINGS: dict[str, Lowering] = {}
"""The lowering of each ATen overload: `lowering(builder, *arguments, **keywords)` gives what the node stands for."""


def lowers(*overloads: str) -> Callable[[Lowering], Lowering]:
    """Registers a function as the lowering of these overloads (`"aten.view.default"`)."""

    def register(lowering: Lowering) -> Lowering:
        for overload in overloads:
            if overload in LOWERINGS or overload in DhloOp.OVERLOADS:
                raise ValueError(f"{overload} already has a lowering, or an op that names it")
            LOWERINGS[overload] = lowering
        return lowering

    return register
