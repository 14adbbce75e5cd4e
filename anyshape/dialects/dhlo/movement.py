"""Ops that only move elements of one operand: broadcast, reshape, transpose, slice."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from xdsl.builder import Builder
from xdsl.ir import SSAValue
from xdsl.utils.exceptions import VerifyException

from anyshape.dialects.dhlo.base import REQUIRED, Arg, Array, DhloOp, Environment, Oracle, Points, Sample, Sym
from anyshape.dialects.dhlo.constant import Constant
from anyshape.dialects.dhlo.laws import Simplified, law
from anyshape.dialects.dhlo.reshape_groups import reshape_groups
from anyshape.dialects.dtypes import DTYPES, F32, DType
from anyshape.dialects.sizes import Tensor, dtype_of, numel, sizes_of, tensor, without_ones
from anyshape.symbolic import Facts, Size, SizeLike

M, N, K = (Size.symbol(name) for name in "mnk")


def one_operand(name: str, operands: Sequence[Tensor]) -> Tensor:
    if len(operands) != 1:
        raise VerifyException(f"{name} takes 1 operand, got {len(operands)}")
    return operands[0]


def _moved_constant(op: DhloOp, builder: Builder) -> SSAValue | None:
    """The same value in every element of the result, where it is that in the operand."""
    inner = op.operands[0].owner
    if not isinstance(inner, Constant):
        return None
    return Constant.emit(builder, value=inner.attribute("value"), dtype=op.result_dtype, sizes=op.result_sizes)


class BroadcastInDim(DhloOp, op="broadcast_in_dim"):
    """result[i…] = x[j…], j[d] = i[dimensions[d]] where x has that axis' size, 0 where x has size 1 there.

    (StableHLO dynamic_broadcast_in_dim.) `sizes` are the result's. An axis of x may also be *open*: its size a is neither
    provably 1 nor the result's n; then 1 or n is decided at run time, and any other size is the caller's error to guard.
    """

    DEFAULTS: ClassVar = {"dimensions": REQUIRED, "sizes": REQUIRED}
    SIZE_ATTRIBUTES = ("sizes",)
    SAMPLES = (
        Sample(
            ((N,),),
            {"dimensions": (1,), "sizes": (M, N)},
            dtypes=DTYPES,
            oracle=Oracle("aten.expand.default", (Arg(0), (Sym("m"), Sym("n")))),
        ),
        Sample(
            ((M, 1),),
            {"dimensions": (0, 1), "sizes": (M, N)},
            dtypes=(F32,),
            oracle=Oracle("aten.expand.default", (Arg(0), (Sym("m"), Sym("n")))),
        ),
        Sample(((),), {"dimensions": (), "sizes": (M, N)}, dtypes=(F32,)),
        Sample((("min(m, 1)", N),), {"dimensions": (0, 2), "sizes": (M, K, N)}, dtypes=(F32,)),
    )

    @classmethod
    def infer(cls, operands: Sequence[Tensor], attributes: Mapping[str, Any]) -> Sequence[Tensor]:
        operand = one_operand(cls.name, operands)
        sizes, dimensions = attributes["sizes"], attributes["dimensions"]
        source = sizes_of(operand)
        if len(dimensions) != len(source) or list(dimensions) != sorted(set(dimensions)):
            raise VerifyException(
                f"{cls.name}: dimensions {list(dimensions)} must name one increasing result axis for each of {len(source)} axes"
            )
        if any(not 0 <= axis < len(sizes) for axis in dimensions):
            raise VerifyException(
                f"{cls.name}: dimensions {list(dimensions)} must be below the result's rank {len(sizes)}"
            )
        for axis, size in zip(dimensions, source, strict=True):
            if size.is_constant and sizes[axis].is_constant and size.value not in (1, sizes[axis].value):
                raise VerifyException(
                    f"{cls.name}: size {size} cannot broadcast to {sizes[axis]} on result axis {axis}"
                )
        return [tensor(dtype_of(operand), sizes)]

    def reference(self, *operands: Array, env: Environment) -> Sequence[Array]:
        (x,) = operands
        sizes = [size.evaluate(env) for size in self.result_sizes]
        shape = [1] * len(sizes)
        for axis, extent in zip(self.integers("dimensions"), x.shape, strict=True):
            shape[axis] = extent
        return [np.broadcast_to(x.reshape(shape), sizes).copy()]

    def element(self, points: Points, at: Sequence[SSAValue]) -> SSAValue:
        scalars = points.scalars
        source: list[SSAValue] = []
        for axis, size in zip(self.integers("dimensions"), self.operand_sizes(), strict=True):
            if size == self.result_sizes[axis]:
                source.append(at[axis])
            elif size.is_constant and size.value == 1:
                source.append(points.size(0))
            else:  # open: 1 or n, known at run time
                is_one = scalars.compare("eq", points.size(size), points.size(1))
                source.append(scalars.select(is_one, points.size(0), at[axis]))
        return points.operand(0, source)

    @law(
        "broadcast to the same sizes -> x",
        example=lambda g: g(BroadcastInDim, g.input("m", "n"), dimensions=(0, 1), sizes=(M, N)),
    )
    def same(self, builder: Builder, facts: Facts) -> Simplified:
        return self.operands[0] if self.operands[0].type == self.results[0].type else None

    @law(
        "broadcast of a constant -> constant",
        example=lambda g: g(BroadcastInDim, g.full(3.0), dimensions=(), sizes=(M, N)),
    )
    def of_constant(self, builder: Builder, facts: Facts) -> Simplified:
        return _moved_constant(self, builder)

    @law(
        "broadcast(broadcast(x)) -> broadcast(x)",
        example=lambda g: g(
            BroadcastInDim,
            g(BroadcastInDim, g.input("n"), dimensions=(1,), sizes=(1, N)),
            dimensions=(0, 1),
            sizes=(M, N),
        ),
    )
    def compose(self, builder: Builder, facts: Facts) -> Simplified:
        inner = self.operands[0].owner
        if not isinstance(inner, BroadcastInDim):
            return None
        dimensions = tuple(self.integers("dimensions")[axis] for axis in inner.integers("dimensions"))
        return BroadcastInDim.emit(builder, inner.operands[0], dimensions=dimensions, sizes=self.result_sizes)


def _reshape_sample(
    source: tuple[SizeLike, ...],
    sizes: tuple[SizeLike, ...],
    shape: Sequence[Sym | int],
    dtypes: tuple[DType, ...] = (F32,),
) -> Sample:
    return Sample((source,), {"sizes": sizes}, dtypes=dtypes, oracle=Oracle("aten.reshape.default", (Arg(0), shape)))


class Reshape(DhloOp, op="reshape"):
    """result = x with its elements, in row-major order, laid out in `sizes` (StableHLO dynamic_reshape).

    The number of elements is the same; where normal forms do not show it, whoever builds the op vouches for it.
    """

    DEFAULTS: ClassVar = {"sizes": REQUIRED}
    SIZE_ATTRIBUTES = ("sizes",)
    SAMPLES = (
        _reshape_sample((M, N, 12), (M, N, 3, 4), (Sym("m"), Sym("n"), 3, 4), DTYPES),
        _reshape_sample((M, N, 3), (M * N, 1, 3), (Sym("m*n"), 1, 3)),
        _reshape_sample((2 * M, 3, N), (M, 6, N), (Sym("m"), 6, Sym("n"))),
        _reshape_sample((6, M), (M, 2, 3), (Sym("m"), 2, 3)),
    )

    @classmethod
    def infer(cls, operands: Sequence[Tensor], attributes: Mapping[str, Any]) -> Sequence[Tensor]:
        operand, sizes = one_operand(cls.name, operands), attributes["sizes"]
        difference = numel(sizes_of(operand)) - numel(sizes)
        if difference.is_constant and difference.value != 0:
            got = f"{numel(sizes)} elements, operand 0 has {numel(sizes_of(operand))}"
            raise VerifyException(f"{cls.name}: sizes [{', '.join(map(str, sizes))}] hold {got}")
        return [tensor(dtype_of(operand), sizes)]

    def reference(self, *operands: Array, env: Environment) -> Sequence[Array]:
        return [operands[0].reshape([size.evaluate(env) for size in self.result_sizes]).copy()]

    def element(self, points: Points, at: Sequence[SSAValue]) -> SSAValue:
        sizes, result_sizes = self.operand_sizes(), self.result_sizes
        source: list[SSAValue] = [points.size(0)] * len(sizes)
        for axes, targets in reshape_groups(sizes, result_sizes):
            if len(axes) == 1 and len(targets) == 1:
                source[axes[0]] = at[targets[0]]
            elif axes and targets:
                linear = linearise(points, [at[axis] for axis in targets], [result_sizes[axis] for axis in targets])
                for axis, index in zip(axes, delinearise(points, linear, [sizes[axis] for axis in axes]), strict=True):
                    source[axis] = index
        return points.operand(0, source)

    @property
    def only_ones_differ(self) -> bool:
        """Whether the reshape only adds or removes axes of size 1: any kernel takes it as a layout of its operand."""
        return without_ones(self.operand_sizes()) == without_ones(self.result_sizes)

    @law("reshape to the same sizes -> x", example=lambda g: g(Reshape, g.input("m", "n"), sizes=(M, N)))
    def same(self, builder: Builder, facts: Facts) -> Simplified:
        return self.operands[0] if self.operands[0].type == self.results[0].type else None

    @law(
        "reshape(reshape(x)) -> reshape(x)",
        example=lambda g: g(Reshape, g(Reshape, g.input("m", "n"), sizes=(M * N,)), sizes=(N, M)),
    )
    def compose(self, builder: Builder, facts: Facts) -> Simplified:
        inner = self.operands[0].owner
        return Reshape.emit(builder, inner.operands[0], sizes=self.result_sizes) if isinstance(inner, Reshape) else None

    @law("reshape of a constant -> constant", example=lambda g: g(Reshape, g.full(2.0, "m", "n"), sizes=(M * N,)))
    def of_constant(self, builder: Builder, facts: Facts) -> Simplified:
        return _moved_constant(self, builder)


def linearise(points: Points, at: Sequence[SSAValue], sizes: Sequence[Size]) -> SSAValue:
    """The row-major position of `at` in a tensor of these sizes: ((i₀·n₁ + i₁)·n₂ + i₂)…"""
    linear = at[0]
    for index, size in zip(at[1:], sizes[1:], strict=True):
        linear = points.scalars.add(points.scalars.mul(linear, points.size(size)), index)
    return linear


def delinearise(points: Points, linear: SSAValue, sizes: Sequence[Size]) -> list[SSAValue]:
    """The index values of row-major position `linear`: the inverse of `linearise`."""
    indices: list[SSAValue] = []
    for size in reversed(sizes[1:]):
        extent = points.size(size)
        indices.append(points.scalars.trunc_rem(linear, extent, unsigned=True))
        linear = points.scalars.trunc_div(linear, extent, unsigned=True)
    return [linear, *reversed(indices)]


class Transpose(DhloOp, op="transpose"):
    """result[i…] = x[j…] with j[permutation[d]] = i[d] (StableHLO transpose)."""

    DEFAULTS: ClassVar = {"permutation": REQUIRED}
    SAMPLES = (
        Sample(
            ((M, N, K),),
            {"permutation": (2, 0, 1)},
            dtypes=DTYPES,
            oracle=Oracle("aten.permute.default", (Arg(0), (2, 0, 1))),
        ),
    )

    @classmethod
    def infer(cls, operands: Sequence[Tensor], attributes: Mapping[str, Any]) -> Sequence[Tensor]:
        operand = one_operand(cls.name, operands)
        sizes = sizes_of(operand)
        permutation: tuple[int, ...] = attributes["permutation"]
        if sorted(permutation) != list(range(len(sizes))):
            raise VerifyException(f"{cls.name}: {list(permutation)} is no permutation of {len(sizes)} axes")
        return [tensor(dtype_of(operand), [sizes[axis] for axis in permutation])]

    def reference(self, *operands: Array, env: Environment) -> Sequence[Array]:
        return [np.ascontiguousarray(np.transpose(operands[0], self.integers("permutation")))]

    def element(self, points: Points, at: Sequence[SSAValue]) -> SSAValue:
        source = list(at)
        for axis, target in enumerate(self.integers("permutation")):
            source[target] = at[axis]
        return points.operand(0, source)

    @law("transpose by the identity -> x", example=lambda g: g(Transpose, g.input("m", "n"), permutation=(0, 1)))
    def same(self, builder: Builder, facts: Facts) -> Simplified:
        permutation = self.integers("permutation")
        return self.operands[0] if list(permutation) == list(range(len(permutation))) else None

    @law(
        "transpose(transpose(x, p), q) -> transpose(x, p[q])",
        example=lambda g: g(
            Transpose, g(Transpose, g.input("m", "n", "k"), permutation=(1, 2, 0)), permutation=(0, 2, 1)
        ),
    )
    def compose(self, builder: Builder, facts: Facts) -> Simplified:
        inner = self.operands[0].owner
        if not isinstance(inner, Transpose):
            return None
        permutation = tuple(inner.integers("permutation")[axis] for axis in self.integers("permutation"))
        return Transpose.emit(builder, inner.operands[0], permutation=permutation)

    @law(
        "transpose of a constant -> constant", example=lambda g: g(Transpose, g.full(2.0, "m", "n"), permutation=(1, 0))
    )
    def of_constant(self, builder: Builder, facts: Facts) -> Simplified:
        return _moved_constant(self, builder)


class Slice(DhloOp, op="slice"):
    """result[i…] = x[starts[d] + strides[d]·i[d] …], of these `sizes`; a stride may be negative (StableHLO real_dynamic_slice).

    All elements must lie inside x; whoever builds the op clamps starts and sizes first.
    """

    DEFAULTS: ClassVar = {"starts": REQUIRED, "sizes": REQUIRED, "strides": REQUIRED}
    SIZE_ATTRIBUTES = ("starts", "sizes")
    SAMPLES = (
        Sample(
            ((M + 3, N),),
            {"starts": (1, 0), "sizes": (M, N), "strides": (1, 1)},
            dtypes=DTYPES,
            oracle=Oracle("aten.slice.Tensor", (Arg(0), 0, 1, Sym("m + 1"))),
        ),
        Sample(
            ((M, 2 * N + 1),),
            {"starts": (0, 1), "sizes": (M, N), "strides": (1, 2)},
            dtypes=(F32,),
            oracle=Oracle("aten.slice.Tensor", (Arg(0), 1, 1, 2**62, 2)),
        ),
        Sample(
            ((M, N),),
            {"starts": (M - 1, 0), "sizes": (M, N), "strides": (-1, 1)},
            dtypes=(F32,),
            oracle=Oracle("aten.flip.default", (Arg(0), (0,))),
        ),
    )

    @classmethod
    def infer(cls, operands: Sequence[Tensor], attributes: Mapping[str, Any]) -> Sequence[Tensor]:
        operand = one_operand(cls.name, operands)
        source = sizes_of(operand)
        starts, sizes, strides = attributes["starts"], attributes["sizes"], attributes["strides"]
        if not len(starts) == len(sizes) == len(strides) == len(source):
            raise VerifyException(
                f"{cls.name}: starts, sizes and strides must have one entry for each of {len(source)} axes"
            )
        for axis, (start, size, stride, extent) in enumerate(zip(starts, sizes, strides, source, strict=True)):
            if stride == 0:
                raise VerifyException(f"{cls.name}: stride of axis {axis} is 0")
            if not size.is_constant or size.value == 0:
                continue
            for index in (start, start + (size.value - 1) * stride):
                after = index - extent
                if (index.is_constant and index.value < 0) or (after.is_constant and after.value >= 0):
                    raise VerifyException(f"{cls.name}: index {index} of axis {axis} is outside its size {extent}")
        return [tensor(dtype_of(operand), sizes)]

    def reference(self, *operands: Array, env: Environment) -> Sequence[Array]:
        (x,) = operands
        for axis, (start, size) in enumerate(zip(self.size_list("starts"), self.result_sizes, strict=True)):
            indices = start.evaluate(env) + self.integers("strides")[axis] * np.arange(size.evaluate(env))
            if indices.size and (indices.min() < 0 or indices.max() >= x.shape[axis]):
                raise IndexError(
                    f"{self.name}: axis {axis} of size {x.shape[axis]} has no index {indices.min()} … {indices.max()}"
                )
            x = np.take(x, indices, axis)
        return [x]

    def element(self, points: Points, at: Sequence[SSAValue]) -> SSAValue:
        scalars = points.scalars
        source: list[SSAValue] = []
        for index, start, stride in zip(at, self.size_list("starts"), self.integers("strides"), strict=True):
            moved = index if stride == 1 else scalars.mul(index, points.size(stride))
            source.append(moved if start == Size.const(0) else scalars.add(points.size(start), moved))
        return points.operand(0, source)

    @law(
        "slice of everything -> x",
        example=lambda g: g(Slice, g.input("m", "n"), starts=(0, 0), sizes=(M, N), strides=(1, 1)),
    )
    def whole(self, builder: Builder, facts: Facts) -> Simplified:
        strides = zip(self.integers("strides"), self.result_sizes, strict=True)
        if self.operands[0].type != self.results[0].type or any(s != 1 and n != Size.const(1) for s, n in strides):
            return None  # equal sizes and forward steps leave no room for a start other than 0
        return self.operands[0]

    @law(
        "slice(slice(x)) -> slice(x)",
        example=lambda g: g(
            Slice,
            g(Slice, g.input(M + 5), starts=(1,), sizes=(M + 2,), strides=(1,)),
            starts=(M + 1,), sizes=(M,), strides=(-1,),
        ),
    )  # fmt: skip
    def compose(self, builder: Builder, facts: Facts) -> Simplified:
        inner = self.operands[0].owner
        if not isinstance(inner, Slice):
            return None
        steps = inner.integers("strides")
        pairs = zip(inner.size_list("starts"), self.size_list("starts"), steps, strict=True)
        starts = tuple(first + second * step for first, second, step in pairs)
        strides = tuple(a * b for a, b in zip(steps, self.integers("strides"), strict=True))
        return Slice.emit(builder, inner.operands[0], starts=starts, sizes=self.result_sizes, strides=strides)


__all__ = ["BroadcastInDim", "Reshape", "Slice", "Transpose", "delinearise", "linearise", "one_operand"]
