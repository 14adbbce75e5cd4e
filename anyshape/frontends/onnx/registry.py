"""Which function lowers which op of which version of ONNX."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

Lowering: TypeAlias = Callable[..., Any]

STANDARD = ""
"""The name of ONNX's own domain of ops, which may also be written `ai.onnx`."""

_LOWERINGS: dict[tuple[str, str], dict[int, Lowering]] = {}
_FOLDS: dict[str, Lowering] = {}


def lowers(*ops: str, since: int = 1, domain: str = STANDARD) -> Callable[[Lowering], Lowering]:
    """Registers a function as the lowering of these ops, from version `since` of their domain's operator set on.

    For an op that several functions lower, the one with the greatest `since` up to the model's version is taken.
    """

    def register(lowering: Lowering) -> Lowering:
        for op in ops:
            versions = _LOWERINGS.setdefault((domain, op), {})
            if since in versions:
                raise ValueError(f"{domain}::{op} has a lowering since {since} already")
            versions[since] = lowering
        return lowering

    return register


def folds(*ops: str) -> Callable[[Lowering], Lowering]:
    """Registers a function that computes these ops of ONNX's own domain on known operands, while importing.

    It is called as a lowering is, where every input is `Known`. It returns what the node stands for, or None where the
    elements cannot be known; then the lowering is asked.
    """

    def register(fold: Lowering) -> Lowering:
        for op in ops:
            if op in _FOLDS:
                raise ValueError(f"{op} is folded already")
            _FOLDS[op] = fold
        return fold

    return register


def find_lowering(domain: str, op: str, version: int) -> Lowering | None:
    """The lowering of an op in this version of its domain, or None."""
    versions = _LOWERINGS.get((domain, op), {})
    since = max((each for each in versions if each <= version), default=None)
    return None if since is None else versions[since]


def find_fold(domain: str, op: str) -> Lowering | None:
    return _FOLDS.get(op) if domain == STANDARD else None


def lowered_ops() -> tuple[tuple[str, str], ...]:
    """(domain, op) of all ops that have a lowering, sorted."""
    return tuple(sorted(_LOWERINGS))


__all__ = ["STANDARD", "Lowering", "find_fold", "find_lowering", "folds", "lowered_ops", "lowers"]
