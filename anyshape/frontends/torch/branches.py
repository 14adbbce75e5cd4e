"""Conditions on sizes that the model's own Python code asks for while it is exported.

Export assumes that sizes are at least 2 and answers a question such as `x.shape[0] == 1` from that, without a guard. In PyTorch's
own code this is harmless (it asks in order to check or to go faster), in the model's it may choose another computation: those questions are
recorded here, and answered for sizes 0 and 1 by `probes`.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

import sympy
import torch
from torch import nn
from torch.fx.experimental import sym_node, symbolic_shapes
from torch.fx.experimental.sym_node import SymNode
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch.utils._sympy import functions as symbolic

from anyshape.dialects.locations import Origin
from anyshape.frontends.torch.origins import OP_OF_CALL, asking
from anyshape.frontends.torch.replacing import replaced

_TORCH = str(Path(torch.__file__).parent)
_LAYERS = str(Path(torch.__file__).parent / "nn")
_CALLING = str(Path(nn.modules.module.__file__))
"""Calls of modules: on the stack of whatever is asked, the asker of nothing."""

_ASKING = frozenset((str(Path(symbolic_shapes.__file__)), str(Path(sym_node.__file__)), str(Path(torch.__file__))))
"""Files through which a question goes from whoever asks it to the environment."""

_LAYOUT = re.compile(
    r"contiguous|stride|dense|memory_format|channels_last|overlapping|_reshape_view_helper|physical_perm"
    r"|^(matmul|should_fold|meta_pixel_shuffle)$"
)
"""Functions of PyTorch that compare sizes in order to choose strides or a cheaper view, which is no business of values."""

_STRIDE_OPS = frozenset(
    getattr(torch.ops.aten, name)
    for name in ("_unsafe_view", "clone", "contiguous", "reshape", "view", "view_copy", "_reshape_copy", "as_strided")
)


@dataclass(frozen=True)
class Branch:
    """`condition` is the form that held; `location` is the `file:line` that asked."""

    condition: sympy.Basic
    location: str


@dataclass
class Record:
    """What was seen of one export.

    Attributes:
        branches: the model's branches.
        examples: the example's size behind each symbol that was asked for.
        about_strides: identities of the guards that say which strides a view or a copy gets.
        origins: who asked, by the identities of guards.
    """

    branches: list[Branch] = field(default_factory=list[Branch])
    examples: dict[str, int] = field(default_factory=dict[str, int])
    about_strides: set[int] = field(default_factory=set[int])
    origins: dict[int, Origin] = field(default_factory=dict[int, Origin])

    def clear(self) -> None:
        """Forget an export that failed."""
        for seen in (self.branches, self.examples, self.about_strides, self.origins):
            seen.clear()


@contextmanager
def record_branches(record: Record) -> Generator[None]:
    """Fills `record` while a model is exported inside."""
    evaluate = ShapeEnv.evaluate_expr
    comparisons = {name: _noting(getattr(SymNode, name), name, record) for name in _COMPARISONS}
    # PyTorch names guards by the innermost frame outside these files, which must not be the function below.
    uninteresting = symbolic_shapes.uninteresting_files() | {__file__}

    def recording(env: ShapeEnv, expression: Any, *args: Any, **kwargs: Any) -> Any:
        for symbol in getattr(expression, "free_symbols", ()):
            if symbol in env.backed_var_to_val:
                record.examples[str(symbol)] = int(env.backed_var_to_val[symbol])
        known = len(env.guards)
        result = evaluate(env, expression, *args, **kwargs)
        new = env.guards[known:]
        origin = asking() if new else None
        if origin is not None:
            record.origins.update(dict.fromkeys(map(id, new), origin))
        if new and (_is_about_strides() or _is_about_strides_of_an_op(expression)):
            record.about_strides.update(map(id, new))
        if getattr(expression, "is_Relational", False):
            location = _asking_line(env)
            if location is not None:
                record.branches.append(Branch(expression if result else sympy.Not(expression), location))
        return result

    with ExitStack() as stack:
        stack.enter_context(replaced(ShapeEnv, "evaluate_expr", recording))
        stack.enter_context(replaced(symbolic_shapes, "uninteresting_files", lambda: uninteresting))
        for name, comparison in comparisons.items():
            stack.enter_context(replaced(SymNode, name, comparison))
        yield


_COMPARISONS: Mapping[str, tuple[Any, Any]] = {
    "eq": (sympy.Eq, sympy.Ne),
    "ne": (sympy.Ne, sympy.Eq),
    "gt": (sympy.Gt, sympy.Le),
    "ge": (sympy.Ge, sympy.Lt),
    "lt": (sympy.Lt, sympy.Ge),
    "le": (sympy.Le, sympy.Gt),
}
"""Comparisons of sizes by PyTorch's names, with what holds where they do and where they do not."""


def _noting(compare: Callable[[SymNode, SymNode], SymNode], name: str, record: Record) -> Callable[..., SymNode]:
    """The comparison; as a branch is noted what sympy knows at once, since every size is positive to it: nobody evaluates that.

    Only Python's: what the C++ code of an op asks is no business of the model, whose frame is the innermost there too.
    """

    def noting(a: SymNode, b: SymNode) -> SymNode:
        result = compare(a, b)
        known: Any = result.expr
        environment: Any = a.shape_env
        if known in (sympy.true, sympy.false) and (a.expr.free_symbols or b.expr.free_symbols):
            caller = sys._getframe(1).f_code.co_filename  # pyright: ignore[reportPrivateUsage]
            location = _asking_line(environment) if caller == sym_node.__file__ else None
            if location is not None:
                holds = _COMPARISONS[name][0 if known == sympy.true else 1]
                record.branches.append(Branch(holds(a.expr, b.expr, evaluate=False), location))
        return result

    return noting


def _asking_frames() -> Iterator[FrameType]:
    """The Python frames from the innermost outside the files of a question outwards; called while one is recorded."""
    frame: FrameType | None = sys._getframe()  # pyright: ignore[reportPrivateUsage]
    while frame is not None and frame.f_code.co_filename != __file__:
        frame = frame.f_back
    while frame is not None and frame.f_code.co_filename in {__file__, *_ASKING}:
        frame = frame.f_back
    while frame is not None:
        yield frame
        frame = frame.f_back


def _is_about_strides() -> bool:
    """Whether a function that computes strides asks, or the C++ code of an op that only chooses strides by it."""
    for depth, frame in enumerate(_asking_frames()):
        code = frame.f_code
        holder = OP_OF_CALL.get((code.co_filename, code.co_name))
        if holder is not None:
            return depth == 0 and getattr(frame.f_locals.get(holder), "overloadpacket", None) in _STRIDE_OPS
        if in_model(code.co_filename):
            return False
        if _LAYOUT.search(code.co_name):
            return True
    return False


def _is_about_strides_of_an_op(condition: Any) -> bool:
    """Whether the C++ code of an op asks about max(n, 1), which is how it reckons strides; Python asks through `SymBool`."""
    if not isinstance(condition, sympy.Basic) or not any(1 in each.args for each in condition.atoms(symbolic.Max)):
        return False
    frame: FrameType | None = sys._getframe()  # pyright: ignore[reportPrivateUsage]
    while frame is not None and frame.f_code.co_filename in {__file__, *_ASKING}:
        if frame.f_code.co_filename == torch.__file__:
            return False
        frame = frame.f_back
    return True


def in_model(file: str) -> bool:
    """Whether a source file is the model's: outside PyTorch, or one of its layers."""
    return not file.startswith(_TORCH) or (file.startswith(_LAYERS) and file != _CALLING)


def _asking_line(env: ShapeEnv) -> str | None:
    """The line that turned a symbolic condition into a bool; None when it is in PyTorch and outside its layers."""
    frame = env._get_user_frame()  # pyright: ignore[reportPrivateUsage]
    if frame is None:
        return None
    file = frame.f_code.co_filename
    return f"{file}:{frame.f_lineno}" if in_model(file) else None
