"""Complex tensors as two real ones, and the ATen ops on them.

Inside a graph a complex value is a pair of planes, real and imaginary part, so that every pass and kernel sees real tensors only;
at the boundary it is PyTorch's interleaved memory, an axis of two behind the others.
"""

# PyTorch is typed in part only.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx
from torch.utils import _pytree as pytree
from xdsl.ir import SSAValue

from anyshape.dialects.dhlo import (
    Concatenate,
    Cosine,
    Multiply,
    Negate,
    Sine,
)
from anyshape.dialects.dhlo.base import DhloOp
from anyshape.dialects.dtypes import DType
from anyshape.dialects.sizes import dtype_of, rank_of, sizes_of
from anyshape.frontends.torch.builder import LOWERINGS, GraphBuilder, Lowering, Value
from anyshape.frontends.torch.movement import sliced
from anyshape.frontends.torch.unsupported import Unsupported


@dataclass(frozen=True)
class Planes:
    """A complex tensor: its real and its imaginary part, of equal sizes and dtype."""

    real: SSAValue
    imaginary: SSAValue


COMPLEX: dict[str, Lowering] = {}
"""The lowering of each ATen overload where an operand or the result is complex."""

PLANEWISE = (
    "aten.alias.default", "aten.clone.default",
    "aten.contiguous.default", "aten.cumsum.default", "aten.detach.default", "aten.diagonal.default",
    "aten.expand.default", "aten.flip.default", "aten.gather.default", "aten.index.Tensor", "aten.index_select.default",
    "aten.lift_fresh_copy.default", "aten.masked_scatter.default",
    "aten.mean.default", "aten.mean.dim", "aten.neg.default", "aten.permute.default",
    "aten.repeat.default", "aten.reshape.default", "aten.select.int", "aten.slice.Tensor",
    "aten.split.Tensor", "aten.split_with_sizes.default", "aten.squeeze.default", "aten.squeeze.dim", "aten.squeeze.dims",
    "aten.sum.default", "aten.sum.dim_IntList", "aten.t.default", "aten.transpose.int",
    "aten.tril.default", "aten.triu.default", "aten.unbind.int", "aten.unfold.default", "aten.unsqueeze.default",
    "aten.view.default", "aten._unsafe_view.default",
)  # fmt: skip
"""Overloads that do to a complex tensor what they do to each of its planes."""


def complex_op(*overloads: str) -> Callable[[Lowering], Lowering]:
    """Registers a function as the lowering of overloads on complex tensors."""

    def register(lowering: Lowering) -> Lowering:
        COMPLEX.update(dict.fromkeys(overloads, lowering))
        return lowering

    return register


def concerns_complex(node: fx.Node) -> bool:
    """Whether an operand or the result of a node is a complex tensor."""
    values = [node.meta.get("val"), *(each.meta.get("val") for each in node.all_input_nodes)]
    leaves = (leaf for value in values for leaf in pytree.tree_leaves(value))
    return any(isinstance(leaf, torch.Tensor) and leaf.is_complex() for leaf in leaves)


def complex_lowering(name: str) -> Lowering | None:
    """The lowering of an overload on complex tensors, or None."""
    if name in PLANEWISE:
        return _planewise(LOWERINGS.get(name) or _elementwise_lowering(name))
    return COMPLEX.get(name)


def _elementwise_lowering(name: str) -> Lowering:
    kind = DhloOp.OVERLOADS[name]

    def lower(builder: GraphBuilder, *operands: SSAValue) -> SSAValue:
        return builder.emit(kind, *operands)

    return lower


def _planewise(lowering: Lowering) -> Lowering:
    def lower(builder: GraphBuilder, *arguments: Value, **keywords: Value) -> Value:
        parts = [
            lowering(builder, *_plane(arguments, which), **_plane(keywords, which)) for which in ("real", "imaginary")
        ]
        return [Planes(*pair) for pair in zip(*parts, strict=True)] if isinstance(parts[0], list) else Planes(*parts)

    return lower


def _plane(values: Any, which: str) -> Any:
    if isinstance(values, Planes):
        return getattr(values, which)
    if isinstance(values, Mapping):
        return {key: _plane(value, which) for key, value in values.items()}
    if isinstance(values, list | tuple):
        return type(values)(_plane(value, which) for value in values)
    return values


# -- between planes and memory ---------------------------------------------------------------------------------------


def planes_of_memory(builder: GraphBuilder, x: SSAValue) -> Planes:
    """A tensor whose last axis is (real, imaginary) as planes."""
    sizes, axis = sizes_of(x.type)[:-1], rank_of(x.type) - 1
    return Planes(*(builder.reshape(sliced(builder, x, axis, part, 1), sizes) for part in (0, 1)))


def interleaved(builder: GraphBuilder, x: Planes) -> SSAValue:
    """Planes as a tensor whose last axis is (real, imaginary)."""
    sizes = (*sizes_of(x.real.type), 1)
    return builder.emit(
        Concatenate, *(builder.reshape(part, sizes) for part in (x.real, x.imaginary)), axis=len(sizes) - 1
    )


complex_op("aten.view_as_complex.default", "aten.view_as_complex_copy.default")(planes_of_memory)


@complex_op("aten.view_as_real.default", "aten.view_as_real_copy.default")
def lower_view_as_real(builder: GraphBuilder, x: Planes) -> SSAValue:
    return interleaved(builder, x)


@complex_op("aten.complex.default")
def lower_complex(builder: GraphBuilder, real: SSAValue, imaginary: SSAValue) -> Planes:
    if dtype_of(real.type) != dtype_of(imaginary.type):
        raise Unsupported(
            f"complex numbers of {dtype_of(real.type)} and {dtype_of(imaginary.type)}, which PyTorch refuses too"
        )
    sizes = builder.result_sizes
    return Planes(builder.broadcast(real, sizes), builder.broadcast(imaginary, sizes))


@complex_op("aten.polar.default")
def lower_polar(builder: GraphBuilder, magnitude: SSAValue, angle: SSAValue) -> Planes:
    """r·(cos φ + i·sin φ)"""
    sizes = builder.result_sizes
    r, phi = builder.broadcast(magnitude, sizes), builder.broadcast(angle, sizes)
    return turned(builder, r, phi)


def turned(builder: GraphBuilder, r: SSAValue, phi: SSAValue) -> Planes:
    """r·(cos φ + i·sin φ)"""
    return Planes(*(builder.emit(Multiply, r, builder.emit(kind, phi)) for kind in (Cosine, Sine)))


@complex_op("aten.real.default")
def lower_real(_builder: GraphBuilder, x: Planes) -> SSAValue:
    return x.real


@complex_op("aten.imag.default")
def lower_imag(_builder: GraphBuilder, x: Planes) -> SSAValue:
    return x.imaginary


@complex_op(
    "aten._conj.default", "aten._conj_physical.default", "aten.conj_physical.default", "aten._conj_copy.default"
)
def lower_conj(builder: GraphBuilder, x: Planes) -> Planes:
    return Planes(x.real, builder.emit(Negate, x.imaginary))


@complex_op("aten.resolve_conj.default", "aten.resolve_neg.default")
def lower_resolve(_builder: GraphBuilder, x: Planes) -> Planes:
    return x


def as_planes(builder: GraphBuilder, value: Value, dtype: DType, sizes: Sequence[Any]) -> Planes:
    """A complex or real tensor, or a number, as planes of this dtype and these sizes."""
    if isinstance(value, Planes):
        parts: tuple[Value, Value] = (value.real, value.imaginary)
    elif isinstance(value, complex):
        parts = (value.real, value.imag)
    else:
        parts = (value, 0.0)
    return Planes(*(builder.broadcast(builder.operand(part, dtype, sizes), sizes) for part in parts))


# -- joining ---------------------------------------------------------------------------------------------------------


def _joined(name: str) -> None:
    @complex_op(name)
    def lower_joined(builder: GraphBuilder, tensors: Sequence[Value], dim: int = 0) -> Planes:  # pyright: ignore[reportUnusedFunction]
        """Real tensors among them have imaginary parts of 0."""
        dtype = builder.result_dtype
        parts = [
            as_planes(builder, x, dtype, sizes_of(x.real.type if isinstance(x, Planes) else x.type)) for x in tensors
        ]
        join = LOWERINGS[name]
        return Planes(
            join(builder, [part.real for part in parts], dim), join(builder, [part.imaginary for part in parts], dim)
        )


for _name in ("aten.cat.default", "aten.concat.default", "aten.stack.default"):
    _joined(_name)


@complex_op("aten.constant_pad_nd.default")
def lower_constant_pad(builder: GraphBuilder, x: Planes, pad: Sequence[Value], value: Value = 0) -> Planes:
    lower, number = LOWERINGS["aten.constant_pad_nd.default"], complex(value)
    return Planes(lower(builder, x.real, pad, number.real), lower(builder, x.imaginary, pad, number.imag))
