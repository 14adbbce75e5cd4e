"""Least squares and packed reflectors, for which PyTorch has no rule for sizes, in ops that export takes."""

# PyTorch is typed in part only.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

_RESULTS: Any = torch.return_types  # typed in part only
DRIVERS = ("gels", "gelsy", "gelsd", "gelss")


@torch.library.custom_op("anyshape::geqrf", mutates_args=())
def packed_reflectors(x: Tensor) -> tuple[Tensor, Tensor]:
    """torch.geqrf."""
    packed, factors = torch.geqrf(x)
    return packed.clone(), factors.clone()


@packed_reflectors.register_fake
def _(x: Tensor) -> tuple[Tensor, Tensor]:
    *batch, rows, columns = x.shape
    shorter: Any = torch.sym_min(rows, columns)
    return x.new_empty(x.shape), x.new_empty((*batch, shorter))


def geqrf(x: Tensor) -> Any:
    """torch.geqrf: R on and above the diagonal, the reflectors of Q below it, and their factors."""
    if x.dim() < 2:
        raise RuntimeError(f"torch.geqrf: input must have at least 2 dimensions, got {x.dim()}")
    return _RESULTS.geqrf(packed_reflectors(x))


def lstsq(a: Tensor, b: Tensor, rcond: float | None = None, *, driver: str | None = None) -> Any:
    """torch.linalg.lstsq: (X of the least norm that makes ‖A·X − B‖ least, residuals, rank, singular values).

    By A's singular values, whatever the driver is; those not above rcond times the largest count as 0, ε·max(m, n) without one. What a
    driver does not give is empty. Residuals are given where m > n, for which A has to have full rank.
    """
    driver = driver or "gelsy"
    if driver not in DRIVERS:
        raise RuntimeError(f"torch.linalg.lstsq: parameter `driver` should be one of {DRIVERS}, got {driver}")
    if a.dim() < 2 or a.dtype != b.dtype or not a.is_floating_point():
        raise RuntimeError(f"torch.linalg.lstsq: got A of {a.dim()} axes and {a.dtype}, B of {b.dtype}")
    rows, columns = a.shape[-2:]
    are_vectors = b.dim() == a.dim() - 1
    if are_vectors:
        b = b.unsqueeze(-1)
    if b.dim() < 2 or b.shape[-2] != rows:
        raise RuntimeError(f"torch.linalg.lstsq: A has {rows} rows, B is {list(b.shape)}")
    relative = torch.finfo(a.dtype).eps * torch.full((), torch.sym_max(rows, columns), dtype=a.dtype)
    if rcond is not None:
        relative = torch.full((), rcond, dtype=a.dtype)
    absolute = torch.zeros((), dtype=a.dtype)
    x = torch.linalg.pinv(a, atol=absolute, rtol=relative) @ b
    nothing, no_rank = a.new_zeros(0), a.new_zeros(0, dtype=torch.int64)
    rank = no_rank if driver == "gels" else torch.linalg.matrix_rank(a, atol=absolute, rtol=relative)
    residuals = nothing
    if driver != "gelsy" and rows > columns:
        missed = a @ x - b
        if driver != "gels":
            missed = torch.ops.anyshape.checked(missed, rank < columns, "matrices_of_less_than_full_rank")
        residuals = (missed * missed).sum(-2)
    values = torch.linalg.svdvals(a) if driver in ("gelsd", "gelss") else nothing
    return _RESULTS.linalg_lstsq((x.squeeze(-1) if are_vectors else x, residuals, rank, values))


__all__ = ["geqrf", "lstsq"]
