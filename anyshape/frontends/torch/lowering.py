"""Finds the lowering of a node: registered functions, ops that match one to one, arithmetic on sizes."""

# PyTorch and sympy are typed in part only.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence

import torch
from torch import fx
from torch._ops import OpOverload
from xdsl.ir import SSAValue

from anyshape.dialects.dhlo import Ceil, Floor, IsInf, IsNan, RoundNearestEven, Trunc
from anyshape.dialects.dhlo.attributes import AttributeValue
from anyshape.dialects.dhlo.base import DhloOp, Elementwise
from anyshape.dialects.dtypes import BOOL
from anyshape.frontends.torch import (
    antialias,
    assertions,
    bags,
    channel_norms,
    complex_arithmetic,
    contraction,
    convolution,
    creation,
    ctc,
    cumulative,
    data_sizes,
    dequantising,
    distances,
    division,
    elementwise,
    fourier,
    fractional_pooling,
    indexing,
    linear_systems,
    movement,
    normalization,
    orthogonal,
    planes,
    pooling,
    random,
    recurrent,
    reductions,
    resampling,
    scattering,
    scatters,
    segments,
    shuffles,
    sorting,
    special,
    special_functions,
    substitutes,
    views,
    windows,
)
from anyshape.frontends.torch.builder import LOWERINGS, GraphBuilder, Lowering, Value
from anyshape.frontends.torch.numbers import DIVISIONS, depends_on_data, number, number_of_data, require_divisor
from anyshape.frontends.torch.unsupported import Unsupported
from anyshape.symbolic import Size

FAMILIES = (
    antialias, assertions, bags, channel_norms, complex_arithmetic, contraction, convolution, creation, ctc, cumulative,
    data_sizes, dequantising, distances, division, elementwise, fourier, fractional_pooling, indexing, linear_systems,
    movement, normalization, orthogonal, planes, pooling, random, recurrent, reductions, resampling, scattering, scatters, segments,
    shuffles, sorting, special, special_functions, substitutes, views, windows,
)  # fmt: skip
"""The modules whose functions fill `LOWERINGS` when they are imported."""

IGNORED = (
    "aten._assert_tensor_metadata.default",
    "aten.sym_constrain_range.default",
    "aten.sym_constrain_range_for_size.default",
)
"""Checks that hold by construction: those on dtypes, and those on sizes, which are among the guards of the export."""


READS = ("aten._local_scalar_dense.default",)
"""Ops whose results are numbers that the data say."""


def find_lowering(node: fx.Node) -> Lowering | None:
    """The lowering of a node, or None when there is none."""
    value = node.meta.get("val")
    if str(node.target) in READS:
        return LOWERINGS[str(node.target)]
    if (
        isinstance(value, int | float | bool | torch.SymInt | torch.SymFloat | torch.SymBool)
        and node.op == "call_function"
    ):
        return _lower_size
    if node.target is operator.getitem:
        return _lower_getitem
    name = str(node.target)
    if name in IGNORED:
        return _lower_nothing
    if planes.concerns_complex(node):
        return planes.complex_lowering(name)
    if name in LOWERINGS:
        return LOWERINGS[name]
    kind = mapped_op(node)
    return None if kind is None else division.DIVISIONS.get(kind) or _elementwise(kind)


def only_checked(graph: fx.Graph) -> frozenset[fx.Node]:
    """The checks, and nodes without effects that nothing but checks use: they need no lowering."""
    found = {node for node in graph.nodes if str(node.target) in IGNORED}
    for node in reversed(graph.nodes):
        is_pure = node.op == "call_function" and not node.is_impure()
        if is_pure and node.users and all(user in found for user in node.users):
            found.add(node)
    return frozenset(found)


def mapped_op(node: fx.Node) -> type[Elementwise] | None:
    """The elementwise op that names the node's overload in its header."""
    # The overloads for a number on the right promote and compute as those for a tensor.
    return DhloOp.OVERLOADS.get(str(node.target).replace(".Scalar", ".Tensor"))


def _lower_size(builder: GraphBuilder, *operands: Value, **_kwargs: Value) -> Value:
    """A size, or what is computed from sizes alone: PyTorch knows its expression; else what is computed from numbers as values."""
    value = builder.node.meta["val"]
    if not isinstance(builder.node.target, OpOverload) and any(isinstance(each, SSAValue) for each in operands):
        if isinstance(value, torch.SymInt) and not depends_on_data(value):
            try:
                return builder.names.size(value)
            except Unsupported:  # an integer that no size expression is, such as the root of a size
                return number_of_data(builder, *operands)
        return number_of_data(builder, *operands)
    divisor = operands[-1] if builder.node.target in DIVISIONS else None
    if isinstance(divisor, Size) and divisor.symbols & builder.names.of_data:
        require_divisor(builder, divisor)
    if isinstance(value, torch.SymFloat):
        return number(builder, value.node.expr)
    return builder.names.size(value) if isinstance(value, torch.SymInt) else value


def _lower_getitem(_builder: GraphBuilder, values: Value, index: int) -> Value:
    return values[index]


def _lower_nothing(_builder: GraphBuilder, *_args: Value, **_kwargs: Value) -> None:
    return None


def _elementwise(kind: type[Elementwise]) -> Lowering:
    """Operands promoted, then repeated to the result's sizes, then the op; arguments behind the operands are its attributes."""

    def lower(builder: GraphBuilder, *arguments: Value, **keywords: Value) -> SSAValue:
        attributes = _attributes(builder, kind, arguments[kind.ARITY :], keywords)
        result = builder.result_dtype
        dtype = builder.promoted_dtype() if result.is_bool else result
        sizes = builder.result_sizes
        operands = [
            builder.broadcast(builder.operand(operand, dtype, sizes), sizes) for operand in arguments[: kind.ARITY]
        ]
        if not dtype.is_float and kind in ROUNDINGS:
            return operands[0]
        if not dtype.is_float and kind in NOT_NUMBERS:
            return builder.constant(False, BOOL, sizes)
        return builder.convert(builder.emit(kind, *operands, **attributes), result)

    return lower


ROUNDINGS = (Ceil, Floor, RoundNearestEven, Trunc)
"""Ops of floats that leave integers as they are."""
NOT_NUMBERS = (IsInf, IsNan)
"""Questions that are no for every integer."""


def _attributes(
    builder: GraphBuilder, kind: type[Elementwise], rest: Sequence[Value], keywords: Mapping[str, Value]
) -> dict[str, AttributeValue]:
    """The arguments behind the operands, by the names that the ATen schema gives them, in the types of the op's defaults.

    Unsupported for an argument that the op does not have: dropping it would change the result.
    """
    target = builder.node.target
    assert isinstance(target, OpOverload)
    names = [argument.name for argument in target._schema.arguments][kind.ARITY :]  # pyright: ignore[reportPrivateUsage]
    given = {**dict(zip(names, rest, strict=False)), **keywords}
    unknown = given.keys() - kind.DEFAULTS.keys()
    if unknown:
        raise Unsupported(f"the op has no {', '.join(sorted(unknown))}")
    symbolic = sorted(name for name, value in given.items() if not isinstance(value, bool | int | float | str))
    if symbolic:
        raise Unsupported(f"{', '.join(symbolic)} must be constant")
    return {name: float(value) if isinstance(kind.DEFAULTS[name], float) else value for name, value in given.items()}
