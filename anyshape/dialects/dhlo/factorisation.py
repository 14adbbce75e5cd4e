"""Factorisations of matrices and the solution of triangular systems, each matrix of a batch by itself."""

from __future__ import annotations

from abc import ABC
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from xdsl.utils.exceptions import VerifyException

from anyshape.dialects.dhlo.base import REQUIRED, Arg, Array, Environment, Oracle, Sample, same_dtype
from anyshape.dialects.dhlo.elementwise import rounded
from anyshape.dialects.dhlo.movement import one_operand
from anyshape.dialects.dhlo.whole import Whole
from anyshape.dialects.dtypes import F32, F64, I64
from anyshape.dialects.sizes import Tensor, dtype_of, sizes_of, tensor
from anyshape.symbolic import Size, size_min

MATRIX_DTYPES = (F32, F64)


class _OfMatrix(Whole, ABC):
    """One operand of matrices [.., m, n], f32 or f64."""

    @classmethod
    def matrix_of(cls, operands: Sequence[Tensor]) -> tuple[tuple[Size, ...], Size, Size]:
        """The sizes of the batch, rows and columns."""
        x = one_operand(cls.name, operands)
        sizes = sizes_of(x)
        if len(sizes) < 2 or dtype_of(x) not in MATRIX_DTYPES:
            raise VerifyException(f"{cls.name} takes matrices of f32 or f64, got {x}")
        return sizes[:-2], sizes[-2], sizes[-1]

    @classmethod
    def infer(cls, operands: Sequence[Tensor], attributes: Mapping[str, Any]) -> Sequence[Tensor]:
        batch, rows, columns = cls.matrix_of(operands)
        return [tensor(dtype_of(operands[0]), (*batch, rows, columns))]


class Cholesky(_OfMatrix, op="cholesky"):
    """U [.., n, n], upper triangular with UᵀU = A, from the upper triangle of A [.., n, n].

    Where A is not positive definite, elimination ends at the first pivot that is not above 0, or is NaN, which stays on the
    diagonal as it was found; what lies behind it is what was left of A. (LAPACK `potf2`.)
    """

    SAMPLES = (
        Sample(
            (("m", "n", "n"),), {}, MATRIX_DTYPES, values={0: "dominant"},
            oracle=Oracle("aten.cholesky.default", (Arg(0), True)),
        ),
        Sample((("n", "n"),), {}, MATRIX_DTYPES, values={0: "dominant"}),
    )  # fmt: skip

    @classmethod
    def infer(cls, operands: Sequence[Tensor], attributes: Mapping[str, Any]) -> Sequence[Tensor]:
        batch, rows, columns = cls.matrix_of(operands)
        if rows != columns:
            raise VerifyException(f"{cls.name} takes square matrices, got {operands[0]}")
        return [tensor(dtype_of(operands[0]), (*batch, rows, columns))]

    def reference(self, *operands: Array, env: Environment) -> Sequence[Array]:
        result = np.triu(operands[0].astype(np.float64))
        with np.errstate(all="ignore"):
            for batch in np.ndindex(*result.shape[:-2]):
                u = result[batch]
                for k in range(len(u)):
                    if not u[k, k] > 0:
                        break
                    u[k, k:] = u[k, k:] / np.sqrt(u[k, k])
                    u[k + 1 :, k + 1 :] -= np.triu(np.outer(u[k, k + 1 :], u[k, k + 1 :]))
        return [rounded(result, self.result_dtype)]


class LuPivots(_OfMatrix, op="lu_pivots"):
    """The row, counted from 0, with which row k is exchanged at step k of elimination with partial pivoting; x [.., m, n].

    i64 [.., min(m, n)]: the first of the rows from k on whose element in column k has the largest magnitude. A pivot of 0
    eliminates nothing. (LAPACK `getf2`.)
    """

    SAMPLES = (
        Sample((("k", "m", "n"),), {}, MATRIX_DTYPES, values={0: "finite"}),
        Sample((("n", "n"),), {}, (F32,), values={0: "small"}),
    )

    @classmethod
    def infer(cls, operands: Sequence[Tensor], attributes: Mapping[str, Any]) -> Sequence[Tensor]:
        batch, rows, columns = cls.matrix_of(operands)
        return [tensor(I64, (*batch, size_min(rows, columns)))]

    def reference(self, *operands: Array, env: Environment) -> Sequence[Array]:
        work = operands[0].copy()
        steps = min(work.shape[-2:])
        result = np.zeros((*work.shape[:-2], steps), np.int64)
        for batch in np.ndindex(*work.shape[:-2]):
            a, pivots = work[batch], result[batch]
            for k in range(steps):
                pivots[k] = k + int(np.argmax(np.abs(a[k:, k])))
                a[[k, pivots[k]]] = a[[pivots[k], k]]
                _eliminate(a, k)
        return [result]


def _eliminate(a: Array, k: int) -> None:
    """Step k of elimination in place: factors below the pivot, and what is left behind it."""
    with np.errstate(all="ignore"):
        if a[k, k] != 0:
            a[k + 1 :, k] /= a[k, k]
        a[k + 1 :, k + 1 :] -= np.outer(a[k + 1 :, k], a[k, k + 1 :])


class Lu(_OfMatrix, op="lu"):
    """L and U in one matrix [.., m, n]: L·U = x where L has ones on its diagonal, which are not stored; no rows are exchanged.

    Below a pivot of 0 the column of L is what elimination has left there.
    """

    SAMPLES = (
        Sample((("k", "m", "n"),), {}, MATRIX_DTYPES, values={0: "dominant"}),
        Sample((("n", "n"),), {}, (F64,), values={0: "dominant"}),
    )

    def reference(self, *operands: Array, env: Environment) -> Sequence[Array]:
        result = operands[0].copy()
        for batch in np.ndindex(*result.shape[:-2]):
            for k in range(min(result.shape[-2:])):
                _eliminate(result[batch], k)
        return [result]


class PivotOrder(Whole, op="pivot_order"):
    """The order of `rows` rows, i64 [.., rows], after exchanging rows k and pivots[.., k] for each k in turn.

    Operand pivots [.., n] of i64. Row i of the exchanged matrix is row result[i] of the first. A pivot that is no row is an error.
    (JAX `lu_pivots_to_permutation`.)
    """

    DEFAULTS: ClassVar = {"rows": REQUIRED}
    SIZE_ATTRIBUTES = ("rows",)
    CHECKS_INDICES = True
    SAMPLES = (
        Sample((("m", "n"),), {"rows": (Size.symbol("n"),)}, (I64,), values={0: "index:n"}),
        Sample((("n",),), {"rows": (Size.symbol("n") + 2,)}, (I64,), values={0: "index:n + 2"}),
    )

    @classmethod
    def infer(cls, operands: Sequence[Tensor], attributes: Mapping[str, Any]) -> Sequence[Tensor]:
        pivots = one_operand(cls.name, operands)
        sizes = sizes_of(pivots)
        if not sizes or dtype_of(pivots) != I64 or len(attributes["rows"]) != 1:
            raise VerifyException(f"{cls.name} takes pivots of i64 and one number of rows, got {pivots}")
        return [tensor(I64, (*sizes[:-1], attributes["rows"][0]))]

    def reference(self, *operands: Array, env: Environment) -> Sequence[Array]:
        pivots = operands[0]
        rows = self.size_list("rows")[0].evaluate(env)
        result = np.broadcast_to(np.arange(rows), (*pivots.shape[:-1], rows)).copy()
        for batch in np.ndindex(*pivots.shape[:-1]):
            for k, other in enumerate(pivots[batch]):
                result[(*batch, [k, other])] = result[(*batch, [other, k])]
        return [result]


class TriangularSolve(Whole, op="triangular_solve"):
    """X [.., n, k] with A·X = B for A [.., n, n] of which one triangle is read: the lower one, or the upper.

    `unit` takes ones as its diagonal. By substitution, one row after another; a 0 on the diagonal divides. (BLAS `trsm`,
    StableHLO `triangular_solve` from the left.)
    """

    DEFAULTS: ClassVar = {"lower": True, "unit": False}
    SAMPLES = tuple(
        Sample(
            ((*batch, "n", "n"), (*batch, "n", "k")), {"lower": lower, "unit": unit}, MATRIX_DTYPES,
            values={0: "dominant", 1: "unit"},
            oracle=Oracle(
                "aten.linalg_solve_triangular.default", (Arg(0), Arg(1)), {"upper": not lower, "unitriangular": unit}
            ),
        )
        for batch, lower, unit in (((), True, False), (("m",), False, False))
    )  # fmt: skip

    @classmethod
    def infer(cls, operands: Sequence[Tensor], attributes: Mapping[str, Any]) -> Sequence[Tensor]:
        if len(operands) != 2:
            raise VerifyException(f"{cls.name} takes two operands, got {len(operands)}")
        same_dtype(cls.name, operands, lambda dtype: dtype in MATRIX_DTYPES)
        a, b = (sizes_of(operand) for operand in operands)
        if len(a) < 2 or a[-1] != a[-2] or b[:-1] != a[:-1] or len(a) != len(b):
            raise VerifyException(f"{cls.name}: A is {operands[0]}, B {operands[1]}")
        return [operands[1]]

    def reference(self, *operands: Array, env: Environment) -> Sequence[Array]:
        a, b = operands
        x = b.copy()
        rows = range(a.shape[-1])
        lower = self.attribute("lower")
        with np.errstate(all="ignore"):
            for i in rows if lower else reversed(rows):
                solved = slice(0, i) if lower else slice(i + 1, None)
                x[..., i, :] -= (a[..., i, solved][..., None, :] @ x[..., solved, :])[..., 0, :]
                if not self.attribute("unit"):
                    x[..., i, :] /= a[..., i, i][..., None]
        return [x]


__all__ = ["Cholesky", "Lu", "LuPivots", "PivotOrder", "TriangularSolve"]
