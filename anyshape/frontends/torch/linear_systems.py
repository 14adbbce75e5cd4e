"""ATen's factorisations of matrices — Cholesky, LU — and what is solved with them; triangular systems, inverses, determinants."""

# PyTorch is typed in part only.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from xdsl.ir import SSAValue

from anyshape.dialects.dhlo import (
    Abs,
    Add,
    BroadcastInDim,
    Compare,
    Gather,
    Iota,
    Log,
    Multiply,
    Not,
    Reduce,
    Select,
    Sign,
    Subtract,
)  # fmt: skip
from anyshape.dialects.dhlo.factorisation import Cholesky, Lu, LuPivots, PivotOrder, TriangularSolve
from anyshape.dialects.dhlo.sort import ArgSort
from anyshape.dialects.dhlo.strided import Diagonal
from anyshape.dialects.dtypes import I32, I64, DType
from anyshape.dialects.sizes import dtype_of, rank_of, sizes_of
from anyshape.frontends.torch.builder import GraphBuilder, Value, lowers
from anyshape.frontends.torch.checks import require_factorised
from anyshape.frontends.torch.creation import lower_tril, lower_triu, triangle
from anyshape.frontends.torch.movement import sliced, transposed
from anyshape.frontends.torch.unsupported import Unsupported
from anyshape.symbolic import Size, size_min

ONE = Size.const(1)


def turned(builder: GraphBuilder, x: SSAValue) -> SSAValue:
    """Matrices [.., m, n] transposed."""
    rank = rank_of(x.type)
    return transposed(builder, x, [*range(rank - 2), rank - 1, rank - 2])


def rows_at(builder: GraphBuilder, x: SSAValue, order: SSAValue) -> SSAValue:
    """result[.., i, :] = x[.., order[.., i], :]"""
    rank = rank_of(x.type)
    outer = tuple(range(rank - 2))
    return builder.emit(
        Gather, x, order, offset_dims=(rank - 1,), collapsed_slice_dims=(rank - 2,), start_index_map=(rank - 2,),
        operand_batching_dims=outer, start_indices_batching_dims=outer, index_vector_dim=rank - 1,
        slice_sizes=(*(ONE,) * (rank - 1), sizes_of(x.type)[-1]),
    )  # fmt: skip


def diagonal(builder: GraphBuilder, x: SSAValue) -> SSAValue:
    """[.., min(m, n)]"""
    sizes, rank = sizes_of(x.type), rank_of(x.type)
    length = size_min(sizes[-2], sizes[-1])
    return builder.emit(Diagonal, x, first=rank - 2, second=rank - 1, row=0, column=0, length=length)


def identity(builder: GraphBuilder, sizes: Sequence[Size], dtype: DType) -> SSAValue:
    """Ones on the diagonal of matrices of these sizes."""
    return builder.convert(triangle(builder, "eq", 0, sizes), dtype)


def _first_place(builder: GraphBuilder, wrong: SSAValue) -> SSAValue:
    """Counted from 1, the first place of each row at which a bool tensor [.., n] holds, 0 where there is none: LAPACK's `info`, i32."""
    sizes = sizes_of(wrong.type)
    axis = len(sizes) - 1
    places = builder.emit(Iota, axis=axis, dtype=I64, sizes=sizes)
    after = builder.broadcast(builder.operand(sizes[-1], I64), sizes)
    zero = builder.constant(0, I64, sizes)
    from_end = builder.emit(Select, wrong, builder.emit(Subtract, after, places), zero)
    largest = builder.emit(Reduce, from_end, axes=(axis,), kind="max")
    found = builder.emit(Compare, largest, builder.constant(0, I64, sizes[:-1]), direction="gt")
    end = builder.broadcast(builder.operand(sizes[-1] + 1, I64), sizes[:-1])
    place = builder.emit(Select, found, builder.emit(Subtract, end, largest), builder.constant(0, I64, sizes[:-1]))
    return builder.convert(place, I32)


def _compared(builder: GraphBuilder, x: SSAValue, direction: str, number: float) -> SSAValue:
    return builder.emit(Compare, x, builder.constant(number, dtype_of(x.type), sizes_of(x.type)), direction=direction)


# -- what is wrong with a matrix -------------------------------------------------------------------------------------


@lowers("with_effects")
def lower_with_effects(builder: GraphBuilder, token: Value, op: Value, *args: Value, **keywords: Value) -> list[Value]:
    """An op that only raises; PyTorch keeps such ops in order by tokens."""
    if op is not torch.ops.aten._linalg_check_errors.default:
        raise Unsupported(f"{op} has effects beside its result")
    info, function = args
    require_factorised(builder, info, function)
    return [token]


# -- Cholesky --------------------------------------------------------------------------------------------------------


def _cholesky(builder: GraphBuilder, x: SSAValue, upper: bool) -> tuple[SSAValue, SSAValue]:
    """(the factor, the first pivot that is not positive, counted from 1, or 0)"""
    factor = builder.emit(Cholesky, x if upper else turned(builder, x))
    wrong = builder.emit(Not, _compared(builder, diagonal(builder, factor), "gt", 0))
    return factor if upper else turned(builder, factor), _first_place(builder, wrong)


@lowers("aten.linalg_cholesky_ex.default")
def lower_cholesky_ex(
    builder: GraphBuilder, x: SSAValue, *, upper: bool = False, check_errors: bool = False
) -> tuple[SSAValue, SSAValue]:
    factor, info = _cholesky(builder, x, upper)
    if check_errors:
        require_factorised(builder, info, "linalg.cholesky")
    return factor, info


@lowers("aten.cholesky.default")
def lower_cholesky(builder: GraphBuilder, x: SSAValue, upper: bool = False) -> SSAValue:
    return lower_cholesky_ex(builder, x, upper=upper, check_errors=True)[0]


def _solved_by_cholesky(builder: GraphBuilder, b: SSAValue, factor: SSAValue, upper: bool) -> SSAValue:
    """X with L·Lᵀ·X = B, or UᵀU·X = B"""
    lower = turned(builder, factor) if upper else factor
    half = builder.emit(TriangularSolve, lower, b, lower=True)
    return builder.emit(TriangularSolve, turned(builder, lower), half, lower=False)


@lowers("aten.cholesky_solve.default")
def lower_cholesky_solve(builder: GraphBuilder, b: SSAValue, factor: SSAValue, upper: bool = False) -> SSAValue:
    factor, b = _same_batch(builder, factor, b)
    return _solved_by_cholesky(builder, b, factor, upper)


@lowers("aten.cholesky_inverse.default")
def lower_cholesky_inverse(builder: GraphBuilder, factor: SSAValue, upper: bool = False) -> SSAValue:
    """(L·Lᵀ)⁻¹; the call raises SingularMatrix where an element of L's diagonal is 0"""
    require_factorised(
        builder, _first_place(builder, _compared(builder, diagonal(builder, factor), "eq", 0)), "cholesky_inverse"
    )
    unit = identity(builder, sizes_of(factor.type), dtype_of(factor.type))
    return _solved_by_cholesky(builder, unit, factor, upper)


# -- triangular systems ----------------------------------------------------------------------------------------------


def _same_batch(builder: GraphBuilder, a: SSAValue, b: SSAValue) -> tuple[SSAValue, SSAValue]:
    """Matrices with their leading axes broadcast to each other's."""
    first, second = sizes_of(a.type), sizes_of(b.type)
    batch = builder.common_sizes(first[:-2], second[:-2]) if len(first) > 2 or len(second) > 2 else ()
    return builder.broadcast(a, (*batch, *first[-2:])), builder.broadcast(b, (*batch, *second[-2:]))


def _triangular(
    builder: GraphBuilder, a: SSAValue, b: SSAValue, *, upper: bool, left: bool = True, unit: bool = False
) -> SSAValue:
    """X with A·X = B, or X·A = B"""
    a, b = _same_batch(builder, a, b)
    if left:
        return builder.emit(TriangularSolve, a, b, lower=not upper, unit=unit)
    return turned(
        builder, builder.emit(TriangularSolve, turned(builder, a), turned(builder, b), lower=upper, unit=unit)
    )


@lowers("aten.linalg_solve_triangular.default")
def lower_solve_triangular(
    builder: GraphBuilder, a: SSAValue, b: SSAValue, *, upper: bool, left: bool = True, unitriangular: bool = False
) -> SSAValue:
    return _triangular(builder, a, b, upper=upper, left=left, unit=unitriangular)


@lowers("aten.triangular_solve.default")
def lower_triangular_solve(
    builder: GraphBuilder, b: SSAValue, a: SSAValue, upper: bool = True, transpose: bool = False, unitriangular: bool = False
) -> tuple[SSAValue, SSAValue]:  # fmt: skip
    a, b = _same_batch(builder, a, b)
    system = turned(builder, a) if transpose else a
    return _triangular(builder, system, b, upper=upper != transpose, unit=unitriangular), a


# -- LU --------------------------------------------------------------------------------------------------------------


class _Factors:
    """A[order] = L·U: the packed factors, the pivots counted from 0, and the order of rows."""

    def __init__(self, builder: GraphBuilder, packed: SSAValue, pivots: SSAValue) -> None:
        self.builder, self.packed, self.pivots = builder, packed, pivots
        self.order = builder.emit(PivotOrder, pivots, rows=(sizes_of(packed.type)[-2],))

    @classmethod
    def of(cls, builder: GraphBuilder, a: SSAValue) -> _Factors:
        pivots = builder.emit(LuPivots, a)
        order = builder.emit(PivotOrder, pivots, rows=(sizes_of(a.type)[-2],))
        return cls(builder, builder.emit(Lu, rows_at(builder, a, order)), pivots)

    @classmethod
    def given(cls, builder: GraphBuilder, packed: SSAValue, pivots: SSAValue) -> _Factors:
        """As PyTorch hands them over: pivots counted from 1."""
        pivots = builder.convert(pivots, I64)
        return cls(builder, packed, builder.emit(Subtract, pivots, builder.constant(1, I64, sizes_of(pivots.type))))

    @property
    def from_one(self) -> SSAValue:
        one = self.builder.constant(1, I64, sizes_of(self.pivots.type))
        return self.builder.convert(self.builder.emit(Add, self.pivots, one), I32)

    @property
    def info(self) -> SSAValue:
        return _first_place(self.builder, _compared(self.builder, diagonal(self.builder, self.packed), "eq", 0))

    def broadcast(self, batch: Sequence[Size]) -> _Factors:
        builder = self.builder
        packed = builder.broadcast(self.packed, (*batch, *sizes_of(self.packed.type)[-2:]))
        return _Factors(builder, packed, builder.broadcast(self.pivots, (*batch, sizes_of(self.pivots.type)[-1])))

    def solve(self, b: SSAValue, *, transpose: bool = False) -> SSAValue:
        """X with A·X = B, or Aᵀ·X = B"""
        builder, packed = self.builder, self.packed
        if not transpose:
            half = builder.emit(TriangularSolve, packed, rows_at(builder, b, self.order), lower=True, unit=True)
            return builder.emit(TriangularSolve, packed, half, lower=False)
        packed = turned(builder, packed)
        half = builder.emit(TriangularSolve, packed, b, lower=True)
        half = builder.emit(TriangularSolve, packed, half, lower=False, unit=True)
        return rows_at(builder, half, builder.emit(ArgSort, self.order))

    def parts(self) -> tuple[SSAValue, SSAValue]:
        """L [.., m, k] and U [.., k, n]"""
        builder, sizes, rank = self.builder, sizes_of(self.packed.type), rank_of(self.packed.type)
        shorter = size_min(sizes[-2], sizes[-1])
        left = sliced(builder, self.packed, rank - 1, 0, shorter)
        ones = identity(builder, sizes_of(left.type), dtype_of(left.type))
        lower = builder.emit(Add, lower_tril(builder, left, -1), ones)
        return lower, lower_triu(builder, sliced(builder, self.packed, rank - 2, 0, shorter))

    def permutation(self, dtype: DType) -> SSAValue:
        """P [.., m, m] with P·L·U = A"""
        builder, rows = self.builder, sizes_of(self.order.type)
        sizes = (*rows, rows[-1])
        row = builder.emit(Iota, axis=len(sizes) - 2, dtype=I64, sizes=sizes)
        outer = tuple(range(len(sizes) - 2))
        order = builder.emit(BroadcastInDim, self.order, dimensions=(*outer, len(sizes) - 1), sizes=sizes)
        return builder.convert(builder.emit(Compare, row, order, direction="eq"), dtype)

    def sign(self) -> SSAValue:
        """1 or −1, by the number of exchanges"""
        builder, sizes = self.builder, sizes_of(self.pivots.type)
        places = builder.emit(Iota, axis=len(sizes) - 1, dtype=I64, sizes=sizes)
        stays = builder.emit(Compare, self.pivots, places, direction="eq")
        dtype = dtype_of(self.packed.type)
        factor = builder.emit(Select, stays, builder.constant(1, dtype, sizes), builder.constant(-1, dtype, sizes))
        return builder.emit(Reduce, factor, axes=(len(sizes) - 1,), kind="prod")


def _check_pivots(pivot: bool) -> None:
    if not pivot:
        raise Unsupported("elimination without pivots, which PyTorch has for GPUs only")


@lowers("aten.linalg_lu_factor_ex.default")
def lower_lu_factor_ex(
    builder: GraphBuilder, a: SSAValue, *, pivot: bool = True, check_errors: bool = False
) -> tuple[SSAValue, SSAValue, SSAValue]:
    _check_pivots(pivot)
    factors = _Factors.of(builder, a)
    if check_errors:
        require_factorised(builder, factors.info, "torch.linalg.lu_factor")
    return factors.packed, factors.from_one, factors.info


@lowers("aten.linalg_lu.default")
def lower_lu(builder: GraphBuilder, a: SSAValue, *, pivot: bool = True) -> tuple[SSAValue, SSAValue, SSAValue]:
    _check_pivots(pivot)
    factors = _Factors.of(builder, a)
    return factors.permutation(dtype_of(a.type)), *factors.parts()


@lowers("aten.lu_unpack.default")
def lower_lu_unpack(
    builder: GraphBuilder, packed: SSAValue, pivots: SSAValue, unpack_data: bool = True, unpack_pivots: bool = True
) -> tuple[SSAValue, SSAValue, SSAValue]:
    factors, dtype = _Factors.given(builder, packed, pivots), dtype_of(packed.type)
    nothing = builder.constant(0, dtype, (0,))
    lower, upper = factors.parts() if unpack_data else (nothing, nothing)
    return factors.permutation(dtype) if unpack_pivots else nothing, lower, upper


@lowers("aten.linalg_lu_solve.default")
def lower_lu_solve(
    builder: GraphBuilder, packed: SSAValue, pivots: SSAValue, b: SSAValue, *, left: bool = True, adjoint: bool = False
) -> SSAValue:
    if not left:  # X·A = B where Aᵀ·Xᵀ = Bᵀ
        b = turned(builder, b)
    packed, b = _same_batch(builder, packed, b)
    pivots = builder.broadcast(pivots, (*sizes_of(packed.type)[:-2], sizes_of(pivots.type)[-1]))
    factors = _Factors.given(builder, packed, pivots)
    solved = factors.solve(b, transpose=adjoint == left)
    return solved if left else turned(builder, solved)


@lowers("aten._linalg_solve_ex.default")
def lower_solve_ex(
    builder: GraphBuilder, a: SSAValue, b: SSAValue, *, left: bool = True, check_errors: bool = False
) -> tuple[SSAValue, SSAValue, SSAValue, SSAValue]:
    """(X, packed factors, pivots, info); of a B with one axis less than A's matrices each row is a vector"""
    result: Any = builder.node.meta["val"][0]
    sizes = builder.names.sizes(result.shape)
    of_vectors = len(sizes) == rank_of(a.type) - 1 or rank_of(b.type) == 1
    if of_vectors:
        b = builder.reshape(b, (*sizes_of(b.type), ONE))
    factors = _Factors.of(builder, a)
    if check_errors:
        require_factorised(builder, factors.info, "torch.linalg.solve")
    if not left and not of_vectors:
        b = turned(builder, b)
    b = _same_batch(builder, a, b)[1]
    solved = factors.broadcast(sizes_of(b.type)[:-2]).solve(b, transpose=not left)
    if not left and not of_vectors:
        solved = turned(builder, solved)
    return builder.reshape(solved, sizes), factors.packed, factors.from_one, factors.info


@lowers("aten.linalg_inv_ex.default")
def lower_inv_ex(builder: GraphBuilder, a: SSAValue, *, check_errors: bool = False) -> tuple[SSAValue, SSAValue]:
    factors = _Factors.of(builder, a)
    if check_errors:
        require_factorised(builder, factors.info, "linalg.inv")
    return factors.solve(identity(builder, sizes_of(a.type), dtype_of(a.type))), factors.info


@lowers("aten._linalg_det.default")
def lower_det(builder: GraphBuilder, a: SSAValue) -> tuple[SSAValue, SSAValue, SSAValue]:
    factors = _Factors.of(builder, a)
    product = builder.emit(Reduce, diagonal(builder, factors.packed), axes=(rank_of(a.type) - 2,), kind="prod")
    return builder.emit(Multiply, product, factors.sign()), factors.packed, factors.from_one


@lowers("aten._linalg_slogdet.default")
def lower_slogdet(builder: GraphBuilder, a: SSAValue) -> tuple[SSAValue, SSAValue, SSAValue, SSAValue]:
    """(the sign of the determinant, ln of its magnitude, packed factors, pivots)"""
    factors, axis = _Factors.of(builder, a), rank_of(a.type) - 2
    along = diagonal(builder, factors.packed)
    signs = builder.emit(Reduce, builder.emit(Sign, along), axes=(axis,), kind="prod")
    logarithm = builder.emit(Reduce, builder.emit(Log, builder.emit(Abs, along)), axes=(axis,), kind="sum")
    return builder.emit(Multiply, signs, factors.sign()), logarithm, factors.packed, factors.from_one
