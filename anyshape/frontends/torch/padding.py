"""Padding to a multiple: `F.pad` by what is missing from a size gives the multiple as such.

A model pads n by (k − n mod k) mod k. To PyTorch the size is n + (k − n mod k) mod k, which it does not know to be k·⌈n / k⌉: each
view of it in windows of k is a question, products of two such sizes have four terms, and every further stage doubles them.
k·⌈n / k⌉ divides by k at once.
"""

# PyTorch and sympy are typed in part only.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sympy
import torch
from torch import Tensor
from torch.nn import functional
from torch.utils._sympy import functions as symbolic

_REMAINDERS = (symbolic.Mod, symbolic.PythonMod)


def pad_to_multiples(input: Tensor, pad: Sequence[Any], mode: str = "constant", value: float | None = None) -> Tensor:
    """torch.nn.functional.pad; an axis n that is padded on one side to the next multiple of k has the size k·⌈n / k⌉."""
    amounts = list(pad)
    for place in range(0, len(amounts) - 1, 2):
        if place // 2 >= input.dim():
            break
        size, pair = input.shape[input.dim() - 1 - place // 2], amounts[place : place + 2]
        for side, other in ((0, 1), (1, 0)):
            if type(pair[other]) is int and pair[other] == 0:
                amounts[place + side] = _missing(size, pair[side])
    return functional.pad(input, amounts, mode, value)


def _missing(size: Any, amount: Any) -> Any:
    """An amount as k·⌈size / k⌉ − size, where it is that: of k < 0 it is what is too much."""
    if not isinstance(size, torch.SymInt) or not isinstance(amount, torch.SymInt):
        return amount
    multiple = _multiple(size.node.expr, amount.node.expr)
    if multiple is None or not size.node.shape_env.bound_sympy(multiple).lower >= 1:
        return amount
    if isinstance(multiple, sympy.Integer):
        k: Any = int(multiple)
    else:
        hint: Any = multiple.xreplace(size.node.shape_env.backed_var_to_val)
        if not isinstance(hint, sympy.Integer):
            return amount
        k = size.node.shape_env.create_symintnode(multiple, hint=int(hint))
    return (size + (k - 1)) // k * k - size


def _multiple(size: sympy.Expr, amount: Any) -> sympy.Expr | None:
    """The k for which `amount` is (−size) mod k, however it is written; 2 where it is size mod 2."""
    if not isinstance(amount, _REMAINDERS):
        return None
    of, k = amount.args
    if k == 2 and of in (size, -size):
        return k  # pyright: ignore[reportReturnType]
    less = sympy.expand(of - k)  # pyright: ignore[reportOperatorIssue]
    is_missing = of == -size or (isinstance(-less, _REMAINDERS) and (-less).args == (size, k))
    return k if is_missing else None  # pyright: ignore[reportReturnType]


__all__ = ["pad_to_multiples"]
