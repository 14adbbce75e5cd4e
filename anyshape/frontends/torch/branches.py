"""Conditions on sizes that the model's own Python code asks for while it is exported.

Export assumes that sizes are at least 2 and answers a question such as `x.shape[0] == 1` from that, without a guard. In PyTorch's
own code this is harmless (it asks in order to check or to go faster), in the model's it may choose another computation: those questions are
recorded here, and answered for sizes 0 and 1 by `probes`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import sympy
import torch
from torch.fx.experimental.symbolic_shapes import ShapeEnv

_TORCH = Path(torch.__file__).parent
_LAYERS = str(_TORCH / "nn")


@dataclass(frozen=True)
class Branch:
    """`condition` is the form that held; `location` is the `file:line` that asked."""

    condition: sympy.Basic
    location: str


@contextmanager
def record_branches() -> Iterator[list[Branch]]:
    """Gives a list that fills with the branches of the model that is exported inside."""
    branches: list[Branch] = []
    evaluate = ShapeEnv.evaluate_expr

    def recording(env: ShapeEnv, expression: Any, *args: Any, **kwargs: Any) -> Any:
        result = evaluate(env, expression, *args, **kwargs)
        if getattr(expression, "is_Relational", False):
            location = _asking_line()
            if location is not None:
                branches.append(Branch(expression if result else sympy.Not(expression), location))
        return result

    with mock.patch.object(ShapeEnv, "evaluate_expr", recording):
        yield branches


def _asking_line() -> str | None:
    """The line that turned a symbolic condition into a bool; None when it is in PyTorch and outside its layers."""
    frame = sys._getframe(2)  # pyright: ignore[reportPrivateUsage]
    while frame is not None:
        file = frame.f_code.co_filename
        if not file.startswith(str(_TORCH)) or file.startswith(_LAYERS):
            return f"{file}:{frame.f_lineno}"
        if not _is_symbolic_machinery(file):
            return None
        frame = frame.f_back
    return None


def _is_symbolic_machinery(file: str) -> bool:
    """Files between a `bool()` or `int()` of a symbolic value and the question to the shape environment."""
    inside = file.removeprefix(str(_TORCH))
    return inside in ("/__init__.py", "/utils/_stats.py") or inside.startswith(("/fx/experimental/", "/_logging/"))
