"""Functions of PyTorch's that export cannot take, because they ask their data or have no rule for shapes, in ops that it can.

What such a function rejects by its data is rejected by `anyshape::checked`: a tensor as it is, unless an element of another one holds.
"""

# PyTorch is typed in part only.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional
from torch.overrides import TorchFunctionMode
from xdsl.ir import SSAValue

from anyshape.frontends.torch.builder import GraphBuilder, lowers
from anyshape.frontends.torch.checks import require_none
from anyshape.frontends.torch.covariance import corrcoef, cov
from anyshape.frontends.torch.ctc import ctc_loss
from anyshape.frontends.torch.histograms import histogram, histogramdd
from anyshape.frontends.torch.inverse_stft import istft
from anyshape.frontends.torch.least_squares import geqrf, lstsq
from anyshape.frontends.torch.padding import pad_to_multiples


@torch.library.custom_op("anyshape::checked", mutates_args=())
def checked(x: Tensor, wrong: Tensor, what: str) -> Tensor:
    """A copy of x; ValueError where an element of `wrong` holds."""
    if bool(wrong.any()):
        raise ValueError(what.replace("_", " "))
    return x.clone()


@checked.register_fake
def _(x: Tensor, wrong: Tensor, what: str) -> Tensor:
    return torch.empty_like(x)


@lowers("anyshape.checked.default")
def lower_checked(builder: GraphBuilder, x: SSAValue, wrong: SSAValue, what: str) -> SSAValue:
    require_none(builder, wrong, what)
    return x


@torch.library.custom_op("anyshape::linspace", mutates_args=())
def spaced(start: Tensor, end: Tensor, steps: int, *, dtype: torch.dtype) -> Tensor:
    """torch.linspace with a number of steps that may be symbolic."""
    return torch.linspace(start, end, steps, dtype=dtype)


@spaced.register_fake
def _(start: Tensor, end: Tensor, steps: int, *, dtype: torch.dtype) -> Tensor:
    return torch.empty((steps,), dtype=dtype)


_LINSPACE: Callable[..., Tensor] = torch.linspace  # typed in part only


def _linspace(start: Any, end: Any, steps: Any, *, dtype: torch.dtype | None = None, **keywords: Any) -> Tensor:
    """torch.linspace, whose schema has no symbolic number of steps: it would be the example's."""
    if not isinstance(steps, torch.SymInt) or keywords.get("out") is not None:
        return _LINSPACE(start, end, steps, dtype=dtype, **keywords)
    ends = (each if isinstance(each, Tensor) else torch.full((), each, dtype=torch.float64) for each in (start, end))
    return spaced(*ends, steps, dtype=dtype or torch.get_default_dtype())


def _equal(x: Tensor, other: Tensor) -> Any:
    """torch.equal as a bool that the data say, which export has no rule for."""
    if x.dtype != other.dtype:
        raise RuntimeError(f"equal: got tensors of {x.dtype} and {other.dtype}, expected one dtype")
    return x.shape == other.shape and (x == other).all().item()


def _allclose(x: Tensor, other: Tensor, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> Any:
    """torch.allclose as a bool that the data say."""
    return torch.isclose(x, other, rtol, atol, equal_nan).all().item()


def _multinomial(x: Tensor, num_samples: Any, *args: Any, out: Tensor | None = None, **keywords: Any) -> Tensor:
    """torch.multinomial, of which export takes weights, numbers and tensors to write to that it rejects."""
    if not x.is_floating_point():
        raise RuntimeError(f"multinomial only supports floating-point dtypes for input, got: {x.dtype}")
    if isinstance(num_samples, int) and num_samples < 1:
        raise RuntimeError("cannot sample n_sample <= 0 samples")
    if out is not None and out.dtype != torch.int64:
        raise RuntimeError(f"multinomial expects Long tensor out, got: {out.dtype}")
    return torch.multinomial(x, num_samples, *args, out=out, **keywords)


def _gaussian_nll_loss(
    x: Tensor, target: Tensor, var: Any, full: bool = False, eps: float = 1e-6, reduction: str = "mean"
) -> Tensor:
    """½·(ln v + (x − target)² / v), v = max(var, eps), and ½·ln 2π more with `full`; their mean or sum unless `reduction` is "none".

    var has the sizes of x, or 1 on an axis, or lacks the last one. ValueError where it has others, or a negative element.
    """
    if not isinstance(var, Tensor):
        if var < 0:
            raise ValueError("var has negative entry/entries")
        var = var * torch.ones_like(x)
    if var.shape != x.shape:
        if x.shape[:-1] == var.shape:
            var = var.unsqueeze(-1)
        elif x.dim() != var.dim():
            raise ValueError("var is of incorrect size")
    if reduction not in ("none", "mean", "sum"):
        raise ValueError(f"{reduction} is not valid")
    spread = checked(var.detach(), var < 0, "negative_variances").clamp(min=eps)
    loss = 0.5 * (torch.log(spread) + (x - target) ** 2 / spread) + (0.5 * math.log(2 * math.pi) if full else 0.0)
    return loss if reduction == "none" else loss.mean() if reduction == "mean" else loss.sum()


_LINEAR_CROSS_ENTROPY: Callable[..., Any] | None = getattr(functional, "linear_cross_entropy", None)
"""PyTorch has it since 2.13."""


def _linear_cross_entropy(*args: Any, **keywords: Any) -> Tensor:
    """PyTorch's without its own choice of chunks, which is about memory and asks for sizes."""
    assert _LINEAR_CROSS_ENTROPY is not None
    return _LINEAR_CROSS_ENTROPY(*args, **{**keywords, "options": None})


_EXTREMES = (1, -1, 2, -2, math.inf, -math.inf)
"""The orders of norms of matrices that are the largest or the smallest of something."""


def _matrix_norm(
    x: Tensor, ord: Any = "fro", dim: Any = (-2, -1), keepdim: bool = False, *, dtype: torch.dtype | None = None
) -> Tensor:
    """torch.linalg.matrix_norm, which reads sizes as numbers where it takes the extreme of singular values, or of sums of magnitudes."""
    if (
        ord not in _EXTREMES
        or x.dim() < 2
        or isinstance(dim, int)
        or len(dim) != 2
        or dim[0] % x.dim() == dim[1] % x.dim()
    ):
        return torch.linalg.matrix_norm(x, ord, dim, keepdim, dtype=dtype)
    if abs(ord) != 2:
        summed, other = dim if abs(ord) == 1 else reversed(dim)
        sums = torch.linalg.vector_norm(x, 1, summed, keepdim=True, dtype=dtype)
        sums = sums.movedim(other, -1)
        # The largest of no sums is 0, which is no larger than any; the smallest of none is an error.
        extreme = functional.pad(sums, (0, 1)).amax(-1, keepdim=True) if ord > 0 else sums.amin(-1, keepdim=True)
        result = extreme.movedim(-1, other)
        return result if keepdim else result.squeeze((summed, other))
    values = torch.linalg.svdvals((x if dtype is None else x.to(dtype)).movedim(tuple(dim), (-2, -1)))
    result = values.amax(-1) if ord > 0 else values.amin(-1)
    for axis in sorted(each % x.dim() for each in dim) if keepdim else ():
        result = result.unsqueeze(axis)
    return result


def _norm(
    x: Tensor, ord: Any = None, dim: Any = None, keepdim: bool = False, *, dtype: torch.dtype | None = None
) -> Tensor:
    """torch.linalg.norm, of matrices by way of `_matrix_norm`."""
    axes = tuple(range(x.dim())) if dim is None else dim
    if ord in _EXTREMES and not isinstance(axes, int) and len(axes) == 2:
        return _matrix_norm(x, ord, axes, keepdim, dtype=dtype)
    return torch.linalg.norm(x, ord, dim, keepdim, dtype=dtype)


def _cdist(a: Tensor, b: Tensor, p: float = 2.0, compute_mode: str | None = None) -> Tensor:
    """torch.cdist by differences, as exact at any size: its choice of a product asks whether there are more than 25 rows."""
    return torch.cdist(a, b, p, "donot_use_mm_for_euclid_dist")


def _isin(
    elements: Tensor | float | None = None,
    test_elements: Tensor | float | None = None,
    *,
    element: float | None = None,
    test_element: float | None = None,
    assume_unique: bool = False,
    invert: bool = False,
) -> Tensor:
    """torch.isin by comparing each with each: its choice of sorting asks how many there are, as a power of their number.

    PyTorch's overloads name what is no tensor `element` and `test_element`.
    """
    elements = element if elements is None else elements
    test_elements = test_element if test_elements is None else test_elements
    tensors = [each for each in (elements, test_elements) if isinstance(each, Tensor)]
    if any(each.is_complex() or each.dtype == torch.bool for each in tensors):
        refused: Callable[..., Tensor] = torch.isin
        return refused(elements, test_elements, assume_unique=assume_unique, invert=invert)
    if not isinstance(test_elements, Tensor):
        found = torch.as_tensor(elements) == test_elements
    elif not isinstance(elements, Tensor):
        found = (test_elements == elements).any()
    else:
        found = (elements.unsqueeze(-1) == test_elements.reshape(-1)).any(-1)
    return ~found if invert else found


def _kron(a: Tensor, b: Tensor) -> Tensor:
    """torch.kron as a product with axes between: its own reads sizes as numbers. The operand of fewer axes has others of 1 in front."""
    rank = max(a.dim(), b.dim())
    a, b = (each.reshape((1,) * (rank - each.dim()) + tuple(each.shape)) for each in (a, b))
    product = a
    for axis in range(rank):
        product = product.unsqueeze(2 * axis + 1)
    for axis in range(rank):
        b = b.unsqueeze(2 * axis)
    sizes = tuple(m * n for m, n in zip(a.shape, b.shape[1::2], strict=True))
    return (product * b).reshape(sizes)


def _index_select(x: Tensor, dim: int, index: Tensor) -> Tensor:
    """torch.index_select, which asks when it runs, and not for shapes, that the index is a vector."""
    if index.dim() > 1:
        raise IndexError("index_select(): Index is supposed to be a vector")
    return torch.index_select(x, dim, index)


SUBSTITUTES: dict[Callable[..., Any], Callable[..., Any]] = {
    functional.ctc_loss: partial(ctc_loss, checked),
    functional.gaussian_nll_loss: _gaussian_nll_loss,
    functional.pad: pad_to_multiples,
    torch.ctc_loss: partial(ctc_loss, checked),
    torch.cdist: _cdist,
    torch.allclose: _allclose,
    torch.Tensor.allclose: _allclose,
    torch.equal: _equal,
    torch.Tensor.equal: _equal,
    torch.isin: _isin,
    torch.cov: cov,
    torch.Tensor.cov: cov,
    torch.corrcoef: corrcoef,
    torch.Tensor.corrcoef: corrcoef,
    torch.histogram: histogram,
    torch.Tensor.histogram: histogram,
    torch.histogramdd: histogramdd,
    torch.index_select: _index_select,
    torch.Tensor.index_select: _index_select,
    torch.geqrf: geqrf,
    torch.Tensor.geqrf: geqrf,
    torch.linalg.lstsq: lstsq,
    torch.linalg.matrix_norm: _matrix_norm,
    torch.linalg.norm: _norm,
    torch.istft: partial(istft, checked),
    torch.Tensor.istft: partial(istft, checked),
    torch.kron: _kron,
    torch.Tensor.kron: _kron,
    torch.linspace: _linspace,
    torch.multinomial: _multinomial,
}
if _LINEAR_CROSS_ENTROPY is not None:
    SUBSTITUTES[_LINEAR_CROSS_ENTROPY] = _linear_cross_entropy


class Substituted(TorchFunctionMode):
    """While inside, calls of these functions are calls of their substitutes."""

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        if func in SUBSTITUTES:
            func = SUBSTITUTES[func]
        return func(*args, **(kwargs or {}))


__all__ = ["SUBSTITUTES", "Substituted", "checked"]
