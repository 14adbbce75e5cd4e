"""Conditions on sizes that the model's own Python code asks for while it is exported.

Export assumes that sizes are at least 2 and answers a question such as `x.shape[0] == 1` from that, without a guard. In PyTorch's
own code this is harmless (it asks in order to check or to go faster), in the model's it may choose another computation: those questions are
recorded here, and answered for sizes 0 and 1 by `probes`.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import sympy
import torch
from torch.fx.experimental import symbolic_shapes
from torch.fx.experimental.symbolic_shapes import ShapeEnv

_TORCH = str(Path(torch.__file__).parent)
_LAYERS = str(Path(torch.__file__).parent / "nn")


@dataclass(frozen=True)
class Branch:
    """`condition` is the form that held; `location` is the `file:line` that asked."""

    condition: sympy.Basic
    location: str


@dataclass
class Record:
    """What was seen of one export: the model's branches, and the example's size behind each symbol that was asked for."""

    branches: list[Branch] = field(default_factory=list[Branch])
    examples: dict[str, int] = field(default_factory=dict[str, int])


@contextmanager
def record_branches(record: Record) -> Generator[None]:
    """Fills `record` while a model is exported inside."""
    evaluate = ShapeEnv.evaluate_expr
    # PyTorch names guards by the innermost frame outside these files, which must not be the function below.
    uninteresting = symbolic_shapes.uninteresting_files() | {__file__}

    def recording(env: ShapeEnv, expression: Any, *args: Any, **kwargs: Any) -> Any:
        for symbol in getattr(expression, "free_symbols", ()):
            if symbol in env.backed_var_to_val:
                record.examples[str(symbol)] = int(env.backed_var_to_val[symbol])
        result = evaluate(env, expression, *args, **kwargs)
        if getattr(expression, "is_Relational", False):
            location = _asking_line(env)
            if location is not None:
                record.branches.append(Branch(expression if result else sympy.Not(expression), location))
        return result

    with (
        _replaced(ShapeEnv, "evaluate_expr", recording),
        _replaced(symbolic_shapes, "uninteresting_files", lambda: uninteresting),
    ):
        yield


@contextmanager
def _replaced(owner: object, name: str, value: object) -> Generator[None]:
    """Another value for an attribute, while inside: PyTorch has no hook for these questions."""
    before = getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, before)


def in_model(file: str) -> bool:
    """Whether a source file is the model's: outside PyTorch, or one of its layers."""
    return not file.startswith(_TORCH) or file.startswith(_LAYERS)


def _asking_line(env: ShapeEnv) -> str | None:
    """The line that turned a symbolic condition into a bool; None when it is in PyTorch and outside its layers."""
    frame = env._get_user_frame()  # pyright: ignore[reportPrivateUsage]
    if frame is None:
        return None
    file = frame.f_code.co_filename
    return f"{file}:{frame.f_lineno}" if in_model(file) else None
