"""What does not depend on choices that an op leaves open: the signs of singular vectors, which of equal elements is taken."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from tests.opinfo.programs import Call


def _product(*factors: Tensor) -> Tensor:
    """In f64, rounded to the dtype of the first."""
    result = factors[0].double()
    for factor in factors[1:]:
        result = result @ factor.double()
    return result.to(factors[0].dtype)


def _of_svd(_call: Call, results: Sequence[Tensor]) -> list[Tensor]:
    left, values, right = results
    count = values.shape[-1]
    return [
        values,
        _product(left[..., :count] * values[..., None, :], right[..., :count, :]),
        _product(left.mT, left),
        _product(right, right.mT),
    ]


def _of_eigenvectors(_call: Call, results: Sequence[Tensor]) -> list[Tensor]:
    values, vectors = results
    return [values, _product(vectors * values[..., None, :], vectors.mT), _product(vectors.mT, vectors)]


def _of_places(call: Call, results: Sequence[Tensor]) -> list[Tensor]:
    """The values, and the elements at the places that are said to have them."""
    (x, _, *dims), keywords = pytree.tree_unflatten(list(call.leaves), call.structure)
    values, places = results
    dim = dims[0] if dims else keywords.get("dim", -1)
    x = x.to(values.dtype)  # the exact values are of a wider dtype
    return [values, torch.take_along_dim(x, places, dim) if x.dim() else values]


def _of_kth(call: Call, results: Sequence[Tensor]) -> list[Tensor]:
    """The values, and the elements at the places that are said to have them, of which ties leave open which."""
    (x, _, *rest), keywords = pytree.tree_unflatten(list(call.leaves), call.structure)
    values, places = results
    dim, keepdim = (*rest, *(-1, False)[len(rest) :])
    dim, keepdim = keywords.get("dim", dim), keywords.get("keepdim", keepdim)
    if not x.dim():
        return [values, places]
    rows = places if keepdim else places.unsqueeze(dim)
    at_places = torch.take_along_dim(x.to(values.dtype), rows, dim)
    return [values, at_places if keepdim else at_places.squeeze(dim)]


def _of_order(call: Call, results: Sequence[Tensor]) -> list[Tensor]:
    """The elements in the order of the places, which are each there once; the places themselves where the order is to be stable."""
    (x, *dims), keywords = pytree.tree_unflatten(list(call.leaves), call.structure)
    places = results[-1]
    if keywords.get("stable") or not x.dim():
        return list(results)
    dim = dims[0] if dims else keywords.get("dim", -1)
    return [*results[:-1], torch.take_along_dim(x, places, dim), places.sort(dim).values]


INVARIANTS: Mapping[str, Callable[[Call, Sequence[Tensor]], list[Tensor]]] = {
    "linalg.svd": _of_svd,
    "svd": lambda call, results: _of_svd(call, [results[0], results[1], results[2].mT]),
    "linalg.eigh": _of_eigenvectors,
    "topk": _of_places,
    "kthvalue": _of_kth,
    "sort": _of_order,
    "argsort": _of_order,
}


def invariants(op: str, call: Call, results: Sequence[Any]) -> list[Any]:
    """What is compared of an op's results: themselves, but for ops whose results are determined in part only."""
    if op not in INVARIANTS:
        return list(results)
    with torch.no_grad():
        return INVARIANTS[op](call, results)


__all__ = ["invariants"]
