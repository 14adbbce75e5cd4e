"""Whether a compiled result is right: equal to eager's, or as near to eager in f64 as eager itself is.

Shapes and dtypes must be equal. Values are compared with the tolerances of `torch.testing.assert_close`, or those that the op's
entry in OpInfo states where these are wider. Where that fails, both are compared with the same op computed in f64.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.testing._comparison import default_tolerances
from torch.testing._internal.common_device_type import toleranceOverride
from torch.testing._internal.opinfo.core import OpInfo
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from tests.opinfo.invariants import invariants
from tests.opinfo.programs import Call, SampledProgram

UNINITIALISED = ("empty", "new_empty", "empty_like", "empty_strided", "new_empty_strided", "empty_permuted")
"""Ops whose elements mean nothing."""

WIDER: dict[torch.dtype, torch.dtype] = {
    torch.float32: torch.float64, torch.bfloat16: torch.float64, torch.float16: torch.float64,
    torch.complex64: torch.complex128,
}  # fmt: skip

FACTOR = 4.0
"""How many times as far from the exact value as eager a result may be: both round at each step, in another order."""


class Wrong(Exception):
    """A result differs from eager's."""


def copies(call: Call) -> Call:
    """The call with tensors of its own: an op may write its arguments."""
    return call.with_leaves(lambda leaf: leaf.clone() if isinstance(leaf, torch.Tensor) else leaf)


class _Seeds(TorchDispatchMode):
    """Notices ops that draw from the generator of random numbers."""

    drawn = False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.drawn = self.drawn or torch.Tag.nondeterministic_seeded in func.tags
        return func(*args, **(kwargs or {}))


def eager(program: SampledProgram, call: Call) -> tuple[Any, bool]:
    """What PyTorch computes, and whether values mean anything: not of random numbers, nor of memory that was never written."""
    mine, seeds = copies(call), _Seeds()
    with seeds:
        result = program.module(mine)(*mine.tensors)
    return result, not seeds.drawn and program.op.name not in UNINITIALISED


def judge(program: SampledProgram, call: Call, got: Any) -> None:
    """Raise Wrong where `got` is not what the op gives for this call."""
    expected, has_values = eager(program, call)
    ours, theirs = _leaves(got), _leaves(expected)
    if len(ours) != len(theirs):
        raise Wrong(f"{len(ours)} results instead of {len(theirs)}")
    for number, (a, b) in enumerate(zip(ours, theirs, strict=True)):
        _same_kind(a, b, f"result {number}")
    if not has_values:
        return
    ours, theirs = (invariants(program.op.name, call, each) for each in (ours, theirs))
    try:
        for number, (a, b) in enumerate(zip(ours, theirs, strict=True)):
            _close(a, b, program.op, f"result {number}")
    except Wrong as difference:
        exact = _exact(program, call)
        exact = None if exact is None else invariants(program.op.name, call, exact)
        if exact is None or not _as_near(ours, theirs, exact):
            raise difference from None


def _leaves(tree: Any) -> list[Any]:
    return pytree.tree_leaves(tree)


def _same_kind(a: Any, b: Any, where: str) -> None:
    if not isinstance(b, torch.Tensor):
        if isinstance(a, torch.Tensor):
            raise Wrong(f"{where}: a tensor instead of {b!r}")
        return
    if not isinstance(a, torch.Tensor):
        raise Wrong(f"{where}: {a!r} instead of a tensor")
    if a.dtype != b.dtype:
        raise Wrong(f"{where}: {a.dtype} instead of {b.dtype}")
    if a.shape != b.shape:
        raise Wrong(f"{where}: shape {list(a.shape)} instead of {list(b.shape)}")


def _close(a: Any, b: Any, op: OpInfo, where: str) -> None:
    if not isinstance(b, torch.Tensor):
        same = a == b or (a != a and b != b)
        if not same:
            raise Wrong(f"{where}: {a!r} instead of {b!r}")
        return
    relative, absolute = tolerance(op, b.dtype)
    try:
        torch.testing.assert_close(a, b, rtol=relative, atol=absolute, equal_nan=True)
    except AssertionError as error:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        raise Wrong(f"{where}: " + "; ".join(lines[1:4])) from None


def tolerance(op: OpInfo, dtype: torch.dtype) -> tuple[float, float]:
    """(relative, absolute): PyTorch's default, or the widest that the op's entry states for the CPU."""
    relative, absolute = default_tolerances(dtype)
    for decoration in op.decorators:
        if getattr(decoration, "device_type", None) not in (None, "cpu"):
            continue
        for each in getattr(decoration, "decorators", ()):
            if isinstance(each, toleranceOverride) and dtype in each.d:
                relative, absolute = max(relative, each.d[dtype].rtol), max(absolute, each.d[dtype].atol)
    return relative, absolute


def _exact(program: SampledProgram, call: Call) -> list[Any] | None:
    """The results in f64, where PyTorch can compute them and no result is of another kind then."""

    def widened(leaf: Any) -> Any:
        if isinstance(leaf, torch.Tensor):
            return leaf.to(WIDER.get(leaf.dtype, leaf.dtype))
        return WIDER.get(leaf, leaf) if isinstance(leaf, torch.dtype) else leaf

    try:
        return _leaves(eager(program, call.with_leaves(widened))[0])
    except (RuntimeError, TypeError, ValueError, NotImplementedError):
        return None


def _as_near(ours: Sequence[Any], theirs: Sequence[Any], exact: Sequence[Any]) -> bool:
    """Whether each result is not farther from the exact one than `FACTOR` times eager's, in the largest error of a tensor."""
    for a, b, c in zip(ours, theirs, exact, strict=True):
        if not isinstance(c, torch.Tensor) or not (c.is_floating_point() or c.is_complex()):
            if not (torch.equal(a, b) if isinstance(b, torch.Tensor) else a == b):
                return False
            continue
        ours_off, theirs_off = (_largest_error(each, c) for each in (a, b))
        epsilon = torch.finfo(b.dtype).eps
        scale = float(c.abs().nan_to_num(0, 0, 0).max()) if c.numel() else 0.0
        if not ours_off <= FACTOR * theirs_off + epsilon * scale:
            return False
    return True


def _largest_error(value: torch.Tensor, exact: torch.Tensor) -> float:
    """Over all elements; infinite where one is finite or NaN and the other is not."""
    rounded = exact.to(value.dtype).to(exact.dtype)
    wide = value.to(exact.dtype)
    off = (wide - exact).abs()
    off = torch.where((wide == rounded) | (wide.isnan() & rounded.isnan()), 0.0, off)
    off = torch.where(off.isnan(), float("inf"), off)
    return float(off.max()) if off.numel() else 0.0
