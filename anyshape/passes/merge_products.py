"""`merge-products`: products that share their left factor become one; q, k and v of an attention are slices of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from anyshape.dialects.dhlo import (
    Add,
    Attention,
    BroadcastInDim,
    Concatenate,
    DotGeneral,
    Reshape,
    Slice,
    Transpose,
    Weight,
)
from anyshape.dialects.dtypes import DType
from anyshape.dialects.sizes import sizes_of
from anyshape.passes.context import store_of
from anyshape.passes.worklist import functions_of
from anyshape.symbolic import Size


@dataclass(frozen=True)
class Projection:
    """x · weightᵀ + bias, whose value attention reads."""

    dot: DotGeneral
    weight: Weight
    bias: Weight | None
    last: Operation
    """The op whose result is the projection: the product, or the addition behind it."""

    @property
    def names(self) -> list[str]:
        return [weight.attribute("name") for weight in (self.weight, self.bias) if weight is not None]

    @property
    def columns(self) -> int:
        return self.weight.result_sizes[0].value


@dataclass(frozen=True)
class MergeProductsPass(ModulePass):
    """x·Wᵢᵀ + bᵢ for several i, all read by one attention -> slices of x·[W₀; W₁; …]ᵀ + [b₀, b₁, …].

    The concatenations are of weights that nothing else uses; `fold` makes weights of them. Live weights of which no other form may
    be kept stay apart.
    """

    name: ClassVar[str] = "merge-products"  # pyright: ignore[reportIncompatibleVariableOverride]

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        store = store_of(ctx)
        for func in functions_of(op):
            for projections in shared_projections(func):
                if store is None or all(store.may_copy(name) for p in projections for name in p.names):
                    merge(projections)


def shared_projections(func: FuncOp) -> list[list[Projection]]:
    """Projections of one value that feed one attention, two or more, in program order."""
    found: dict[tuple[SSAValue, Operation, DType, bool], list[Projection]] = {}
    for op in func.body.block.ops:
        projection = _projection_of(op)
        attention = None if projection is None else _attention_behind(projection.last)
        if projection is not None and attention is not None:
            dtype = projection.weight.result_dtype
            key = (projection.dot.operands[0], attention, dtype, projection.bias is None)
            found.setdefault(key, []).append(projection)
    return [projections for projections in found.values() if len(projections) > 1]


def _projection_of(op: Operation) -> Projection | None:
    """The projection whose product `op` is: rank 2 weight with its second axis contracted, no batch axes."""
    if not isinstance(op, DotGeneral) or op.attribute("lhs_batch"):
        return None
    weight = op.operands[1].owner
    rank = len(op.operand_sizes(0))
    if not isinstance(weight, Weight) or len(weight.result_sizes) != 2 or not weight.result.has_one_use():
        return None
    if tuple(op.attribute("rhs_contract")) != (1,) or tuple(op.attribute("lhs_contract")) != (rank - 1,):
        return None
    user = _only_user(op)
    bias = _bias_of(user, op) if isinstance(user, Add) else None
    return Projection(op, weight, bias, user if bias is not None and user is not None else op)


def _bias_of(add: Add, dot: DotGeneral) -> Weight | None:
    """The weight that `add` spreads along the product's last axis."""
    for operand in add.operands:
        spread = operand.owner
        if isinstance(spread, BroadcastInDim) and isinstance(spread.operands[0].owner, Weight):
            last = len(dot.result_sizes) - 1
            if tuple(spread.attribute("dimensions")) == (last,):
                return spread.operands[0].owner
    return None


def _only_user(op: Operation) -> Operation | None:
    users = [use.operation for use in op.results[0].uses]
    return users[0] if len(users) == 1 else None


def _attention_behind(op: Operation) -> Operation | None:
    """The attention that is the only reader of an op's result, through reshapes and transposes."""
    user = _only_user(op)
    while isinstance(user, Reshape | Transpose):
        user = _only_user(user)
    return user if isinstance(user, Attention) else None


def merge(projections: Sequence[Projection]) -> None:
    """Replace the projections by slices of one product."""
    first = projections[0]
    place = InsertPoint.before(first.dot)
    lhs = first.dot.operands[0]

    def put(op: Operation) -> SSAValue:
        op.location = first.dot.location
        Rewriter.insert_op(op, place)
        return op.results[0]

    merged = put(
        DotGeneral.of(
            lhs,
            put(Concatenate.of(*(put(p.weight.clone()) for p in projections), axis=0)),
            lhs_contract=first.dot.attribute("lhs_contract"),
            rhs_contract=first.dot.attribute("rhs_contract"),
        )
    )
    sizes = sizes_of(merged.type)
    if first.bias is not None:
        row = put(Concatenate.of(*(put(p.bias.clone()) for p in projections if p.bias is not None), axis=0))
        merged = put(Add.of(merged, put(BroadcastInDim.of(row, dimensions=(len(sizes) - 1,), sizes=sizes))))
    start = 0
    zeros = [Size.const(0)] * (len(sizes) - 1)
    for projection in projections:
        part = [*sizes[:-1], Size.const(projection.columns)]
        piece = put(Slice.of(merged, starts=[*zeros, start], sizes=part, strides=(1,) * len(sizes)))
        projection.last.results[0].replace_all_uses_with(piece)
        start += projection.columns
