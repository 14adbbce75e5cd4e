"""Ops that make a tensor from pieces or from positions: concatenate, pad, iota."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from xdsl.builder import Builder
from xdsl.ir import SSAValue
from xdsl.utils.exceptions import VerifyException

from anyshape.dialects.dhlo.base import (
    REQUIRED,
    Arg,
    Array,
    DhloOp,
    Environment,
    Oracle,
    Points,
    Sample,
    Sym,
    same_dtype,
)
from anyshape.dialects.dhlo.elementwise import NUMERIC, operand_within, rounded
from anyshape.dialects.dhlo.laws import Simplified, law
from anyshape.dialects.dtypes import DTYPES, F32, I64
from anyshape.dialects.sizes import Tensor, rank_of, sizes_of, tensor
from anyshape.symbolic import Facts, Size

M, N, K = (Size.symbol(name) for name in "mnk")
ZERO = Size.const(0)


def check_axis(name: str, axis: int, rank: int) -> None:
    if not 0 <= axis < rank:
        raise VerifyException(f"{name}: axis {axis} is not in [0, {rank})")


class Concatenate(DhloOp, op="concatenate"):
    """result = the operands one after another along `axis`; their other sizes agree (StableHLO concatenate)."""

    DEFAULTS: ClassVar = {"axis": REQUIRED}
    SAMPLES = (
        Sample(
            ((M, N), (M, K), (M, N)),
            {"axis": 1},
            dtypes=DTYPES,
            oracle=Oracle("aten.cat.default", ([Arg(0), Arg(1), Arg(2)], 1)),
        ),
        Sample(((M, N), (3, N)), {"axis": 0}, dtypes=(F32,), oracle=Oracle("aten.cat.default", ([Arg(0), Arg(1)], 0))),
    )

    @classmethod
    def infer(cls, operands: Sequence[Tensor], attributes: Mapping[str, Any]) -> Sequence[Tensor]:
        axis = attributes["axis"]
        if not operands:
            raise VerifyException(f"{cls.name} needs at least one operand")
        dtype, first = same_dtype(cls.name, operands), list(sizes_of(operands[0]))
        check_axis(cls.name, axis, len(first))
        for position, operand in enumerate(operands[1:], 1):
            sizes = sizes_of(operand)
            if len(sizes) != len(first):
                raise VerifyException(
                    f"{cls.name}: operand {position} has rank {len(sizes)}, operand 0 has rank {len(first)}"
                )
            for other, (a, b) in enumerate(zip(first, sizes, strict=True)):
                if other != axis and a != b:
                    raise VerifyException(
                        f"{cls.name}: axis {other} of operand {position} has size {b}, of operand 0 size {a}"
                    )
            first[axis] = first[axis] + sizes[axis]
        return [tensor(dtype, first)]

    def reference(self, *operands: Array, env: Environment) -> Sequence[Array]:
        return [np.concatenate(operands, self.integer("axis"))]

    def offsets(self) -> list[Size]:
        """Where along the axis each operand begins."""
        starts = [ZERO]
        for index in range(len(self.operands) - 1):
            starts.append(starts[-1] + self.operand_sizes(index)[self.integer("axis")])
        return starts

    def element(self, points: Points, at: Sequence[SSAValue]) -> SSAValue:
        scalars, axis = points.scalars, self.integer("axis")
        if len(self.operands) == 1:
            return points.operand(0, at)
        result: SSAValue | None = None
        for index, start in enumerate(self.offsets()):
            local = at[axis] if start == ZERO else scalars.sub(at[axis], points.size(start))
            inside = scalars.compare("lt", local, points.size(self.operand_sizes(index)[axis]), unsigned=True)
            with points.guarded(inside):
                piece = points.operand(index, [*at[:axis], local, *at[axis + 1 :]])
            result = piece if result is None else scalars.select(inside, piece, result)
        assert result is not None
        return result

    @law("concatenate of one -> x", example=lambda g: g(Concatenate, g.input("m", "n"), axis=0))
    def single(self, builder: Builder, facts: Facts) -> Simplified:
        return self.operands[0] if len(self.operands) == 1 else None

    @law(
        "concatenate without its empty operands",
        example=lambda g: g(Concatenate, g.input("m", "n"), g.input(0, "n"), g.input("k", "n"), axis=0),
    )
    def drop_empty(self, builder: Builder, facts: Facts) -> Simplified:
        axis = self.integer("axis")
        kept = [each for each in self.operands if facts.simplify(sizes_of(each.type)[axis]) != ZERO]
        if len(kept) == len(self.operands) or not kept:
            return None
        smaller = Concatenate.of(*kept, axis=axis)
        return builder.insert(smaller).result if smaller.result.type == self.result.type else None


class Pad(DhloOp, op="pad"):
    """result[i…] = x[i − low…] where that is inside x, else operand 1, a rank 0 value; sizes are low + size + high.

    `low` and `high` have one size an axis; a negative one crops (StableHLO dynamic_pad without interior padding).
    """

    DEFAULTS: ClassVar = {"low": REQUIRED, "high": REQUIRED}
    SIZE_ATTRIBUTES = ("low", "high")
    SAMPLES = (
        Sample(
            ((M, N), ()),
            {"low": (1, 2), "high": (0, K)},
            dtypes=DTYPES,
            values={1: "zero"},
            oracle=Oracle("aten.constant_pad_nd.default", (Arg(0), (2, Sym("k"), 1, 0), 0)),
        ),
        Sample(
            ((M + 1, N), ()),
            {"low": (-1, 0), "high": (2, 0)},
            dtypes=(F32,),
            values={1: "zero"},
            oracle=Oracle("aten.constant_pad_nd.default", (Arg(0), (0, 0, -1, 2), 0)),
        ),
    )

    @classmethod
    def infer(cls, operands: Sequence[Tensor], attributes: Mapping[str, Any]) -> Sequence[Tensor]:
        if len(operands) != 2 or rank_of(operands[1]) != 0:
            raise VerifyException(f"{cls.name} takes a tensor and a value of rank 0")
        sizes, low, high = sizes_of(operands[0]), attributes["low"], attributes["high"]
        if not len(low) == len(high) == len(sizes):
            raise VerifyException(f"{cls.name}: low and high must have one entry for each of {len(sizes)} axes")
        padded = [before + size + after for before, size, after in zip(low, sizes, high, strict=True)]
        if any(size.is_constant and size.value < 0 for size in padded):
            raise VerifyException(f"{cls.name}: result sizes [{', '.join(map(str, padded))}] are not all >= 0")
        return [tensor(same_dtype(cls.name, operands), padded)]

    def reference(self, *operands: Array, env: Environment) -> Sequence[Array]:
        x, value = operands
        result = np.full([size.evaluate(env) for size in self.result_sizes], value, x.dtype)
        target: list[slice] = []
        source: list[slice] = []
        for low, extent, total in zip(self.size_list("low"), x.shape, result.shape, strict=True):
            start = low.evaluate(env)
            first, last = max(0, start), min(total, start + extent)
            target.append(slice(first, max(first, last)))
            source.append(slice(first - start, max(first, last) - start))
        result[tuple(target)] = x[tuple(source)]
        return [result]

    def element(self, points: Points, at: Sequence[SSAValue]) -> SSAValue:
        scalars = points.scalars
        source: list[SSAValue] = []
        conditions: list[SSAValue] = []
        padding = zip(at, self.size_list("low"), self.size_list("high"), self.operand_sizes(), strict=True)
        for index, low, high, size in padding:
            part = points.part(index)
            if part is not None and part.local is None:
                return points.operand(1, ())
            local = index if low == ZERO else scalars.sub(index, points.size(low))
            source.append(local if part is None or part.local is None else part.local)
            if part is None and (low != ZERO or high != ZERO):
                conditions.append(scalars.compare("lt", local, points.size(size), unsigned=True))
        return operand_within(points, 0, source, conditions, lambda: points.operand(1, ()))

    @law(
        "pad by 0 -> x",
        example=lambda g: g(Pad, g.input("m", "n"), g.full(0.0), low=(0, 0), high=(0, 0)),
    )
    def by_nothing(self, builder: Builder, facts: Facts) -> Simplified:
        amounts = (*self.size_list("low"), *self.size_list("high"))
        return self.operands[0] if all(amount == ZERO for amount in amounts) else None


class Iota(DhloOp, op="iota"):
    """result[i…] = i[axis] as `dtype`, of these `sizes` (StableHLO dynamic_iota)."""

    DEFAULTS: ClassVar = {"axis": REQUIRED, "sizes": REQUIRED, "dtype": I64}
    SIZE_ATTRIBUTES = ("sizes",)
    SAMPLES = tuple(Sample((), {"axis": 1, "sizes": (M, N), "dtype": dtype}) for dtype in NUMERIC)

    @classmethod
    def infer(cls, operands: Sequence[Tensor], attributes: Mapping[str, Any]) -> Sequence[Tensor]:
        if operands:
            raise VerifyException(f"{cls.name} takes no operands")
        check_axis(cls.name, attributes["axis"], len(attributes["sizes"]))
        if attributes["dtype"].is_bool:
            raise VerifyException(f"{cls.name} does not take bool")
        return [tensor(attributes["dtype"], attributes["sizes"])]

    def reference(self, *operands: Array, env: Environment) -> Sequence[Array]:
        sizes = [size.evaluate(env) for size in self.result_sizes]
        axis = self.integer("axis")
        shape = [extent if position == axis else 1 for position, extent in enumerate(sizes)]
        positions = rounded(np.arange(sizes[axis], dtype=np.int64), self.result_dtype)
        return [np.broadcast_to(positions.reshape(shape), sizes).copy()]

    def element(self, points: Points, at: Sequence[SSAValue]) -> SSAValue:
        position = points.scalars.from_index(at[self.integer("axis")], I64.scalar)
        return points.scalars.convert(position, I64, self.result_dtype)


def is_iota_along(value: SSAValue, axis: int) -> bool:
    """Whether value[i…] = i[axis] in i64: an `Iota`, also behind reshapes that only add 1s and behind broadcasts."""
    op = value.owner
    while isinstance(op, DhloOp) and not isinstance(op, Iota):
        if op.name == "dhlo.broadcast_in_dim":
            dimensions = op.integers("dimensions")
            if axis not in dimensions or op.operand_sizes()[dimensions.index(axis)] != op.result_sizes[axis]:
                return False
            axis = dimensions.index(axis)
        elif op.name == "dhlo.reshape":
            longer = op.result_sizes
            kept = [at for at, size in enumerate(longer) if size != Size.const(1)]
            source = [at for at, size in enumerate(op.operand_sizes()) if size != Size.const(1)]
            if [longer[at] for at in kept] != [op.operand_sizes()[at] for at in source] or (kept and axis not in kept):
                return False
            axis = source[kept.index(axis)] if kept else 0
        else:
            return False
        op = op.operands[0].owner
    if not isinstance(op, Iota) or op.result_dtype != I64:
        return False
    return op.integer("axis") == axis or all(size == Size.const(1) for size in op.result_sizes)  # 0, the only position


__all__ = ["Concatenate", "Iota", "Pad", "check_axis", "is_iota_along"]
