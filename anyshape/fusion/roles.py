"""What fusion needs to know of an op, read off its class: its role, its cost, and how it reads its operands."""

from __future__ import annotations

from enum import Enum
from functools import cache

from xdsl.ir import Operation, SSAValue

from anyshape.dialects.dhlo import (
    Attention,
    BroadcastInDim,
    Constant,
    Convolution,
    DhloOp,
    DirectConvolution,
    DotGeneral,
    DynamicUpdateSlice,
    Elementwise,
    Gather,
    Iota,
    QuantisedDot,
    Reduce,
    Reshape,
    Scan,
    SizeOf,
    Slice,
    Transpose,
    Weight,
)
from anyshape.dialects.dhlo.checks import Check
from anyshape.dialects.dhlo.compaction import ReadSize
from anyshape.dialects.dhlo.grid_sample import GridSample
from anyshape.dialects.dhlo.random import RngBitGenerator
from anyshape.dialects.dhlo.whole import Whole
from anyshape.dialects.dhlo.windows import Sampling
from anyshape.dialects.sizes import sizes_of, without_ones
from anyshape.symbolic import Size


class Role(Enum):
    """How an op takes part in fusion."""

    RESIDENT = "already in memory"
    VIEW = "the same memory under other sizes"
    POINT = "computed at any point from operands at points"
    REDUCE = "reduction"
    SCAN = "scan"
    CONTRACT = "product"
    ATTEND = "attention"
    UPDATE = "part of a tensor, written where that lies"
    WHOLE = "a kernel by itself"


def role_of(op: Operation) -> Role:
    """The role of a `dhlo` op that has no expansion left."""
    match op:
        case _ if (role := _role_of_class(type(op))) is not None:
            return role
        case Reshape():
            return Role.POINT if op.only_ones_differ else Role.VIEW
        case Reduce():
            return Role.REDUCE if reduced_axes(op) else Role.POINT
        case Scan():
            return Role.SCAN if is_scan(op) else Role.POINT
        case DynamicUpdateSlice():
            return Role.UPDATE if op.attribute("in_place") else Role.POINT
        case _:
            raise TypeError(f"{op.name} is no dhlo op")


@cache
def _role_of_class(kind: type[Operation]) -> Role | None:
    """The role that all ops of a class have; None where it depends on the op."""
    roles = {
        Role.RESIDENT: (Weight, ReadSize, Check), Role.CONTRACT: (Convolution, DotGeneral, QuantisedDot), Role.ATTEND: (Attention,),
        Role.WHOLE: (Whole,),
    }  # fmt: skip
    if not issubclass(kind, DhloOp) or issubclass(kind, Reshape | Reduce | Scan | DynamicUpdateSlice):
        return None
    return next((role for role, classes in roles.items() if issubclass(kind, classes)), Role.POINT)


def real_axes(sizes: tuple[Size, ...]) -> list[int]:
    """The axes whose size is not the constant 1."""
    return [axis for axis, size in enumerate(sizes) if size != Size.const(1)]


def reduced_axes(op: Reduce) -> tuple[int, ...]:
    """The axes that a reduction walks along: those of size 1 have one element, which is the result."""
    sizes = op.operand_sizes()
    return tuple(axis for axis in op.attribute("axes") if sizes[axis] != Size.const(1))


def is_scan(op: Scan) -> bool:
    """Whether a scan walks along its axis: one of size 1 has one element, which is the result."""
    return op.operand_sizes()[op.axis] != Size.const(1)


def cost_of(op: Operation) -> int:
    """Operations for one element of the result, operands not counted; a load is about 1."""
    match op:
        case Constant() | SizeOf() | Iota() | BroadcastInDim() | Transpose() | Reshape() | Slice():
            return 0
        case Elementwise():
            return op.COST
        case Gather():
            return 4
        case Sampling() | RngBitGenerator():
            return op.cost
        case Reduce():
            return 1000 if reduced_axes(op) else 0
        case Scan():
            return 1000 if is_scan(op) else 0
        case Convolution() | DotGeneral() | QuantisedDot() | Attention() | Whole():
            return 1000
        case _:
            return 2


def reads_anywhere(op: Operation, operand: int) -> bool:
    """Whether the op reads this operand at points that depend on data, so that it must be in memory."""
    return isinstance(op, Gather | DirectConvolution | GridSample) and operand == 0


def checks_indices(op: Operation) -> bool:
    """Whether the op reports an index out of range, which a product's epilogue cannot do: it has no way to fail."""
    return isinstance(op, Gather) or (isinstance(op, Whole) and op.CHECKS_INDICES)


def repeats(op: Operation) -> bool:
    """Whether one element of the operand serves many elements of the result."""
    return isinstance(op, BroadcastInDim) and without_ones(op.operand_sizes()) != without_ones(op.result_sizes)


def is_elementwise(op: Operation) -> bool:
    """Whether an element of the result needs its operands at the same point only."""
    return isinstance(op, DhloOp) and type(op).scalar is not DhloOp.scalar


def is_unit_reshape(op: Operation) -> bool:
    """Whether the op is a reshape that only adds or removes axes of size 1."""
    return isinstance(op, Reshape) and op.only_ones_differ


def is_layout(op: Operation) -> bool:
    """Whether the op only says how its operand lies in memory: a buffer's strides can express it."""
    return isinstance(op, Transpose | BroadcastInDim) or is_unit_reshape(op)


def domain_of(value: SSAValue) -> tuple[Size, ...]:
    """Sizes of a value without constant ones: the points at which it is computed."""
    return without_ones(sizes_of(value.type))
