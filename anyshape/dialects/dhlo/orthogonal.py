"""Orthogonal transformations of matrices: Householder reflectors, and rotations that make rows orthogonal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from xdsl.utils.exceptions import VerifyException

from anyshape.dialects.dhlo.base import Array, Environment, Sample, same_dtype
from anyshape.dialects.dhlo.factorisation import MATRIX_DTYPES
from anyshape.dialects.dhlo.movement import one_operand
from anyshape.dialects.dhlo.whole import Whole
from anyshape.dialects.dtypes import F32, F64
from anyshape.dialects.sizes import Tensor, dtype_of, sizes_of, tensor

SWEEPS = 40
"""How often all pairs of rows are rotated at most; a dozen is enough where elements are finite."""


class HouseholderQr(Whole, op="householder_qr"):
    """R and the reflectors of Q for x [.., m, n] = Q·R, in one tensor [.., m + 1, n].

    Rows 0 … m − 1 are R on and above the diagonal, and below it in column k the elements of the vector v_k behind its one, at k. Row m
    has the factors τ, 0 from min(m, n) on. Q = H_0·H_1·…, H_k = 1 − τ_k·v_k·v_kᵀ; R_kk has the sign that x_kk had not. (LAPACK `geqr2`.)
    """

    SAMPLES = (
        Sample((("k", "m", "n"),), {}, MATRIX_DTYPES, values={0: "finite"}),
        Sample((("n", "n"),), {}, (F32,), values={0: "dominant"}),
    )

    @classmethod
    def infer(cls, operands: Sequence[Tensor], attributes: Mapping[str, Any]) -> Sequence[Tensor]:
        x = one_operand(cls.name, operands)
        sizes = sizes_of(x)
        if len(sizes) < 2 or dtype_of(x) not in MATRIX_DTYPES:
            raise VerifyException(f"{cls.name} takes matrices of f32 or f64, got {x}")
        return [tensor(dtype_of(x), (*sizes[:-2], sizes[-2] + 1, sizes[-1]))]

    def reference(self, *operands: Array, env: Environment) -> Sequence[Array]:
        x = operands[0]
        rows, columns = x.shape[-2:]
        result = np.zeros((*x.shape[:-2], rows + 1, columns), x.dtype)
        result[..., :rows, :] = x
        for batch in np.ndindex(*x.shape[:-2]):
            a = result[batch][:rows]
            for k in range(min(rows, columns)):
                below = np.sqrt(np.sum(np.square(a[k + 1 :, k])))
                if below == 0:
                    continue
                beta = -np.copysign(np.hypot(a[k, k], below), a[k, k])
                tau = (beta - a[k, k]) / beta
                a[k + 1 :, k] /= a[k, k] - beta
                v = np.concatenate([np.ones(1, x.dtype), a[k + 1 :, k]])
                a[k:, k + 1 :] -= tau * np.outer(v, v @ a[k:, k + 1 :])
                a[k, k], result[(*batch, rows, k)] = beta, tau
        return [result]


class ApplyReflectors(Whole, op="apply_reflectors"):
    """Q·C, or Qᵀ·C with `transpose`; operands v [.., m, n], τ [.., k] and C [.., m, p] of one dtype, k ≤ n.

    Q = H_0·…·H_{k−1} with H_j = 1 − τ_j·v_j·v_jᵀ, where v_j has a one at j, nothing above it, and column j of v below it. Reflectors
    from m on are left out. (LAPACK `orm2r` from the left.)
    """

    DEFAULTS: ClassVar = {"transpose": False}
    SAMPLES = tuple(
        Sample(
            ((*batch, "m", "n"), (*batch, "n"), (*batch, "m", "k")), {"transpose": transpose}, MATRIX_DTYPES,
            values={0: "unit", 1: "unit", 2: "unit"},
        )
        for batch, transpose in (((), False), ((2,), True))
    )  # fmt: skip

    @classmethod
    def infer(cls, operands: Sequence[Tensor], attributes: Mapping[str, Any]) -> Sequence[Tensor]:
        if len(operands) != 3:
            raise VerifyException(f"{cls.name} takes three operands, got {len(operands)}")
        same_dtype(cls.name, operands, lambda dtype: dtype in MATRIX_DTYPES)
        v, tau, c = (sizes_of(operand) for operand in operands)
        if len(v) < 2 or tau[:-1] != v[:-2] or c[:-1] != v[:-1] or len(c) != len(v):
            raise VerifyException(f"{cls.name}: v is {operands[0]}, τ {operands[1]}, C {operands[2]}")
        return [operands[2]]

    def reference(self, *operands: Array, env: Environment) -> Sequence[Array]:
        vectors, factors, c = operands
        result = c.copy()
        steps = range(min(factors.shape[-1], c.shape[-2]))
        for batch in np.ndindex(*c.shape[:-2]):
            for k in steps if self.attribute("transpose") else reversed(steps):
                v = np.concatenate([np.ones(1, c.dtype), vectors[batch][k + 1 :, k]])
                result[batch][k:] -= factors[batch][k] * np.outer(v, v @ result[batch][k:])
        return [result]


class OrthogonalRows(Whole, op="orthogonal_rows"):
    """[W, V] side by side, [.., m, n + m], with V·x = W for x [.., m, n] of f64, V orthogonal, and rows of W orthogonal to each other.

    Rows come by their norms, the largest first: these are the singular values of x, the rows of V its left singular vectors. By
    rotations of pairs of rows until all are orthogonal to f64's precision. (One-sided Jacobi: Hestenes, 1958.)
    """

    SAMPLES = (
        Sample((("m", "n"),), {}, (F64,), values={0: "finite"}),
        Sample(((2, "n", "n"),), {}, (F64,), values={0: "unit"}),
    )

    @classmethod
    def infer(cls, operands: Sequence[Tensor], attributes: Mapping[str, Any]) -> Sequence[Tensor]:
        x = one_operand(cls.name, operands)
        sizes = sizes_of(x)
        if len(sizes) < 2 or dtype_of(x) != F64:
            raise VerifyException(f"{cls.name} takes matrices of f64, got {x}")
        return [tensor(F64, (*sizes[:-1], sizes[-1] + sizes[-2]))]

    def reference(self, *operands: Array, env: Environment) -> Sequence[Array]:
        x = operands[0]
        rows, columns = x.shape[-2:]
        result = np.zeros((*x.shape[:-1], columns + rows))
        for batch in np.ndindex(*x.shape[:-2]):
            work = np.concatenate([x[batch], np.eye(rows)], axis=1)
            for _ in range(SWEEPS):
                if not _rotated(work, columns):
                    break
            norms = np.sum(np.square(work[:, :columns]), axis=1)
            result[batch] = work[np.argsort(-norms, kind="stable")]
        return [result]


def _rotated(work: Array, columns: int) -> bool:
    """Rotate each pair of rows that is not orthogonal; whether there was one."""
    any_rotated = False
    for i in range(len(work)):
        for j in range(i + 1, len(work)):
            first, second = work[i, :columns], work[j, :columns]
            alpha, beta, gamma = first @ first, second @ second, first @ second
            if not abs(gamma) > np.finfo(np.float64).eps * np.sqrt(alpha) * np.sqrt(beta):
                continue
            zeta = (beta - alpha) / (2 * gamma)
            tangent = np.copysign(1 / (abs(zeta) + np.sqrt(1 + zeta * zeta)), zeta)
            cosine = 1 / np.sqrt(1 + tangent * tangent)
            sine = cosine * tangent
            work[i], work[j] = cosine * work[i] - sine * work[j], sine * work[i] + cosine * work[j]
            any_rotated = True
    return any_rotated


__all__ = ["SWEEPS", "ApplyReflectors", "HouseholderQr", "OrthogonalRows"]
