"""ATen's orthogonal factorisations: QR by reflectors; singular values, eigenvalues and pseudo-inverses by rotations.

Singular vectors and eigenvectors are determined up to signs, and are not PyTorch's.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import SSAValue

from anyshape.dialects.dhlo import (
    Abs,
    Add,
    BroadcastInDim,
    Compare,
    Concatenate,
    Divide,
    DotGeneral,
    Maximum,
    Multiply,
    Reduce,
    Select,
    Sqrt,
    Subtract,
)  # fmt: skip
from anyshape.dialects.dhlo.orthogonal import ApplyReflectors, HouseholderQr, OrthogonalRows
from anyshape.dialects.dtypes import F64
from anyshape.dialects.sizes import dtype_of, rank_of, sizes_of
from anyshape.frontends.torch.builder import GraphBuilder, Value, lowers
from anyshape.frontends.torch.creation import lower_tril, lower_triu
from anyshape.frontends.torch.indexing import lower_flip
from anyshape.frontends.torch.linear_systems import diagonal, identity, turned
from anyshape.frontends.torch.movement import sliced
from anyshape.symbolic import Size, size_max, size_min

ONE = Size.const(1)

EPSILONS = {"f32": 2.0**-23, "f64": 2.0**-52}


def _down(builder: GraphBuilder, row: SSAValue, sizes: Sequence[Size]) -> SSAValue:
    """result[.., i, j] = row[.., i]"""
    return builder.emit(BroadcastInDim, row, dimensions=tuple(range(len(sizes) - 1)), sizes=tuple(sizes))


# -- reflectors ------------------------------------------------------------------------------------------------------


class _Reflectors:
    """Q as reflectors v [.., m, n] and factors τ [.., k]."""

    def __init__(self, builder: GraphBuilder, vectors: SSAValue, factors: SSAValue) -> None:
        self.builder, self.vectors, self.factors = builder, vectors, factors

    @classmethod
    def of(cls, builder: GraphBuilder, x: SSAValue) -> _Reflectors:
        """Those of x = Q·R, with R in `vectors` on and above the diagonal."""
        sizes, rank = sizes_of(x.type), rank_of(x.type)
        packed = builder.emit(HouseholderQr, x)
        factors = sliced(builder, packed, rank - 2, sizes[-2], ONE)
        shorter = size_min(sizes[-2], sizes[-1])
        factors = sliced(builder, builder.reshape(factors, (*sizes[:-2], sizes[-1])), rank - 2, 0, shorter)
        return cls(builder, sliced(builder, packed, rank - 2, 0, sizes[-2]), factors)

    def apply(self, c: SSAValue, *, transpose: bool = False) -> SSAValue:
        """Q·C, or Qᵀ·C"""
        return self.builder.emit(ApplyReflectors, self.vectors, self.factors, c, transpose=transpose)

    def columns(self, count: Size) -> SSAValue:
        """The first columns of Q [.., m, m]"""
        sizes = (*sizes_of(self.vectors.type)[:-1], count)
        return self.apply(identity(self.builder, sizes, dtype_of(self.vectors.type)))


@lowers("aten.linalg_qr.default")
def lower_qr(builder: GraphBuilder, x: SSAValue, mode: str = "reduced") -> tuple[SSAValue, SSAValue]:
    """Q·R = x; R is upper triangular, Q has as many columns as R has rows"""
    sizes, rank = sizes_of(x.type), rank_of(x.type)
    reflectors = _Reflectors.of(builder, x)
    rows = sizes[-2] if mode == "complete" else size_min(sizes[-2], sizes[-1])
    upper = lower_triu(builder, sliced(builder, reflectors.vectors, rank - 2, 0, rows))
    if mode == "r":
        return builder.constant(0, dtype_of(x.type), (0,)), upper
    return reflectors.columns(rows), upper


@lowers("anyshape.geqrf.default", "aten.geqrf.default")
def lower_geqrf(builder: GraphBuilder, x: SSAValue) -> tuple[SSAValue, SSAValue]:
    """R on and above the diagonal and the reflectors below it, and their factors"""
    reflectors = _Reflectors.of(builder, x)
    return reflectors.vectors, reflectors.factors


@lowers("aten.linalg_householder_product.default")
def lower_householder_product(builder: GraphBuilder, vectors: SSAValue, factors: SSAValue) -> SSAValue:
    """The first columns of Q, as many as there are in `vectors`"""
    return _Reflectors(builder, vectors, factors).columns(sizes_of(vectors.type)[-1])


@lowers("aten.ormqr.default")
def lower_ormqr(
    builder: GraphBuilder, vectors: SSAValue, factors: SSAValue, c: SSAValue, left: bool = True, transpose: bool = False
) -> SSAValue:
    """Q·C, or C·Q, and Qᵀ for Q with `transpose`"""
    reflectors = _Reflectors(builder, vectors, factors)
    if left:
        return reflectors.apply(c, transpose=transpose)
    return turned(builder, reflectors.apply(turned(builder, c), transpose=not transpose))


# -- singular values -------------------------------------------------------------------------------------------------


class _Rotated:
    """V·x = W in f64: rows of W are orthogonal and come by their norms, V is orthogonal."""

    def __init__(self, builder: GraphBuilder, x: SSAValue) -> None:
        sizes, last = sizes_of(x.type), rank_of(x.type) - 1
        both = builder.emit(OrthogonalRows, builder.convert(x, F64))
        self.builder = builder
        self.shorter = size_min(sizes[-2], sizes[-1])
        self.w = sliced(builder, both, last, 0, sizes[-1])
        self.v = sliced(builder, both, last, sizes[-1], sizes[-2])
        squares = builder.emit(Reduce, builder.emit(Multiply, self.w, self.w), axes=(last,), kind="sum")
        self.norms = builder.emit(Sqrt, squares)

    @property
    def values(self) -> SSAValue:
        """The singular values, [.., min(m, n)]"""
        return sliced(self.builder, self.norms, rank_of(self.norms.type) - 1, 0, self.shorter)

    @property
    def left(self) -> SSAValue:
        """U [.., m, m]"""
        return turned(self.builder, self.v)

    def right(self, rows: Size) -> SSAValue:
        """The first rows of Vᴴ [.., n, n]: those of W made units, and orthogonal ones for rows that are 0 and beyond them."""
        builder = self.builder
        reflectors = _Reflectors.of(builder, turned(builder, self.w))
        basis = turned(builder, reflectors.columns(rows))
        sizes, along = sizes_of(basis.type), diagonal(builder, reflectors.vectors)
        is_negative = builder.emit(Compare, along, builder.constant(0, F64, sizes_of(along.type)), direction="lt")
        signs = builder.emit(
            Select, is_negative, *(builder.constant(sign, F64, sizes_of(along.type)) for sign in (-1, 1))
        )
        rest = builder.constant(1, F64, (*sizes[:-2], rows - self.shorter))
        signs = builder.emit(Concatenate, signs, rest, axis=len(sizes) - 2)
        return builder.emit(Multiply, basis, _down(builder, signs, sizes))


def _is_used(builder: GraphBuilder, *results: int) -> bool:
    """Whether any of the node's results with these numbers is used."""
    return any(user.args[1] in results for user in builder.node.users)


@lowers("aten._linalg_svd.default")
def lower_svd(
    builder: GraphBuilder, x: SSAValue, full_matrices: bool = False, compute_uv: bool = True, *, driver: Value = None
) -> tuple[SSAValue, SSAValue, SSAValue]:
    """U·diag(S)·Vᴴ = x"""
    dtype, (rows, columns) = dtype_of(x.type), sizes_of(x.type)[-2:]
    rotated = _Rotated(builder, x)
    values = builder.convert(rotated.values, dtype)
    left = right = builder.constant(0, dtype, (0,))
    if compute_uv and _is_used(builder, 0, 2):
        kept = (rows, columns) if full_matrices else (rotated.shorter, rotated.shorter)
        left = builder.convert(sliced(builder, rotated.left, rank_of(x.type) - 1, 0, kept[0]), dtype)
        right = builder.convert(rotated.right(kept[1]), dtype)
    return left, values, right


def _symmetric(builder: GraphBuilder, x: SSAValue, upper: bool) -> SSAValue:
    """The matrix of which one triangle is read."""
    if upper:
        half = lower_triu(builder, x)
        return builder.emit(Add, half, lower_tril(builder, turned(builder, half), -1))
    half = lower_tril(builder, x)
    return builder.emit(Add, half, lower_triu(builder, turned(builder, half), 1))


@lowers("aten._linalg_eigh.default")
def lower_eigh(
    builder: GraphBuilder, x: SSAValue, uplo: str = "L", compute_v: bool = True
) -> tuple[SSAValue, SSAValue]:
    """Eigenvalues in ascending order, and eigenvectors as columns: the singular ones of x + c, which has no negative eigenvalue"""
    dtype, rank = dtype_of(x.type), rank_of(x.type)
    matrix = builder.convert(_symmetric(builder, x, uplo == "U"), F64)
    sizes = sizes_of(matrix.type)
    sums = builder.emit(Reduce, builder.emit(Abs, matrix), axes=(rank - 1,), kind="sum")
    bound = builder.emit(Reduce, sums, axes=(rank - 2,), kind="max")
    shift = builder.emit(BroadcastInDim, bound, dimensions=tuple(range(rank - 2)), sizes=sizes)
    shifted = builder.emit(Add, matrix, builder.emit(Multiply, identity(builder, sizes, F64), shift))
    rotated = _Rotated(builder, shifted)
    bounds = builder.emit(BroadcastInDim, bound, dimensions=tuple(range(rank - 2)), sizes=sizes[:-1])
    values = lower_flip(builder, builder.emit(Subtract, rotated.norms, bounds), [rank - 2])
    vectors = lower_flip(builder, rotated.left, [rank - 1]) if compute_v else builder.constant(0, F64, (0,))
    return builder.convert(values, dtype), builder.convert(vectors, dtype)


# -- pseudo-inverses -------------------------------------------------------------------------------------------------


@lowers("aten.linalg_pinv.atol_rtol_tensor")
def lower_pinv(
    builder: GraphBuilder, x: SSAValue, *, atol: Value = None, rtol: Value = None, hermitian: bool = False
) -> SSAValue:
    """Wᵀ·diag(1 / s²)·V, with 0 where a singular value s is not above max(atol, rtol·the largest)"""
    dtype, rank = dtype_of(x.type), rank_of(x.type)
    if hermitian:
        x = _symmetric(builder, x, upper=False)
    rotated = _Rotated(builder, x)
    rows, columns = sizes_of(x.type)[-2:]
    batch, norms = sizes_of(x.type)[:-2], rotated.norms
    kept = sizes_of(norms.type)
    limit = _tolerance(builder, EPSILONS[dtype.name], size_max(rows, columns), (atol, rtol), batch)
    largest = builder.emit(Reduce, norms, axes=(rank - 2,), kind="max")
    limit = builder.emit(Maximum, limit[0], builder.emit(Multiply, limit[1], largest))
    limit = builder.emit(BroadcastInDim, limit, dimensions=tuple(range(rank - 2)), sizes=kept)
    is_large = builder.emit(Compare, norms, limit, direction="gt")
    one, zero = (builder.constant(value, F64, kept) for value in (1.0, 0.0))
    inverse = builder.emit(Divide, one, builder.emit(Select, is_large, builder.emit(Multiply, norms, norms), one))
    inverse = builder.emit(Select, is_large, inverse, zero)
    scaled = builder.emit(Multiply, rotated.v, _down(builder, inverse, sizes_of(rotated.v.type)))
    axes = tuple(range(rank - 2))
    product = builder.emit(
        DotGeneral,
        rotated.w,
        scaled,
        lhs_batch=axes,
        rhs_batch=axes,
        lhs_contract=(rank - 2,),
        rhs_contract=(rank - 2,),
    )
    return builder.convert(product, dtype)


def _tolerance(
    builder: GraphBuilder, epsilon: float, extent: Size, given: tuple[Value, Value], batch: Sequence[Size]
) -> tuple[SSAValue, SSAValue]:
    """(absolute, relative) in f64 of the batch's sizes: without either, ε·max(m, n) of the largest singular value."""
    absolute, relative = (
        None if each is None else builder.broadcast(builder.convert(each, F64), batch) for each in given
    )
    zero = builder.constant(0.0, F64, batch)
    default = builder.broadcast(builder.operand(extent, F64), batch)
    default = builder.emit(Multiply, default, builder.constant(epsilon, F64, batch))
    if relative is None and absolute is not None:
        is_given = builder.emit(Compare, absolute, zero, direction="gt")
        relative = builder.emit(Select, is_given, zero, default)
    return absolute or zero, relative or default
