"""Covariances and correlations in ops that export takes: PyTorch's own ask for the number of elements and look at the weights."""

# PyTorch is typed in part only.
# pyright: reportUnknownMemberType=false

from __future__ import annotations

import torch
from torch import Tensor


def cov(x: Tensor, *, correction: int = 1, fweights: Tensor | None = None, aweights: Tensor | None = None) -> Tensor:
    """torch.cov: Σ w·(x − x̄)(y − ȳ)ᵀ / norm over observations, which are columns; x̄ = Σ w·x / Σ w.

    w is fweights·aweights, or 1. The norm is Σ w − correction, or Σ w − correction·Σ w·aweights / Σ w, and 0 at least. RuntimeError where
    the weights do not fit.
    """
    _check_weights(x, fweights, aweights)
    rows = x.reshape(1, -1) if x.dim() < 2 else x
    rows = rows if rows.is_floating_point() or rows.is_complex() else rows.to(torch.get_default_dtype())
    weight = fweights if aweights is None else aweights if fweights is None else fweights * aweights
    if weight is None:
        total = torch.full((), rows.shape[1], dtype=rows.dtype)
        centred = rows - rows.sum(1, keepdim=True) / rows.shape[1]
        product, norm = centred @ centred.mT.conj(), total - correction
    else:
        weight = weight.to(torch.promote_types(rows.dtype, weight.dtype))
        total = weight.sum()
        centred = rows - (rows * weight).sum(1, keepdim=True) / total
        taken = correction * (weight * aweights).sum() / total if aweights is not None and correction else correction
        product, norm = centred @ (centred * weight).mT.conj(), total - taken
    norm = norm.real.clamp(min=0) if norm.is_complex() else norm.clamp(min=0)
    return (product / norm).squeeze()


def _check_weights(x: Tensor, fweights: Tensor | None, aweights: Tensor | None) -> None:
    if x.dim() > 2:
        raise RuntimeError(f"cov(): expected input to have two or fewer dimensions but got {x.dim()}")
    for name, weight in (("fweights", fweights), ("aweights", aweights)):
        if weight is None:
            continue
        if weight.dim() > 1:
            raise RuntimeError(f"cov(): expected {name} to have one or fewer dimensions but got {weight.dim()}")
        if weight.is_floating_point() != (name == "aweights"):
            raise RuntimeError(f"cov(): expected {name} of another kind of dtype than {weight.dtype}")
        if x.dim() and weight.shape[0] != x.shape[-1]:
            raise RuntimeError(f"cov(): expected {name} to have as many elements as there are observations")


def corrcoef(x: Tensor) -> Tensor:
    """torch.corrcoef: covariances over the product of the deviations, within −1 and 1."""
    covariances = cov(x)
    if covariances.dim() == 0:
        return covariances / covariances
    deviations = covariances.diagonal().real.sqrt() if x.is_complex() else covariances.diagonal().sqrt()
    correlations = covariances / deviations[:, None] / deviations[None, :]
    if not x.is_complex():
        return correlations.clamp(-1, 1)
    return torch.complex(correlations.real.clamp(-1, 1), correlations.imag.clamp(-1, 1))


__all__ = ["corrcoef", "cov"]
