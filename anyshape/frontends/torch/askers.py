"""Who asks a question of sizes, or computes with them, told by the Python frames on the stack.

A symbol's method gets its operands and nothing else, whether an `if` of the model's calls it, a check in PyTorch's own code, or the
C++ code of an op that reckons strides. PyTorch keeps no note of that either, so the stack at the moment of the question is what tells:

* Files tell the model from PyTorch and from us: the innermost frame outside the files that every question goes through is the asker's.
* C++ code has no frame. Where an op's C++ code asks, the symbol's method is called straight by the frame that called the op, while an
  operator of Python's on sizes has frames of its own, of `SymInt`, `SymFloat` and `SymBool`.
* The functions that call the C++ code of ops hold the op in a variable.

Every function here is about the question that is being asked when it is called; what stands in for methods of PyTorch's calls them.
"""

# PyTorch and sympy are typed in part only.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false

from __future__ import annotations

import inspect
import re
import sys
import sysconfig
from collections.abc import Iterator, Mapping
from pathlib import Path
from traceback import extract_tb
from types import FrameType, ModuleType
from typing import Any

import sympy
import torch
from torch import nn, overrides
from torch._export import non_strict_utils
from torch._subclasses import fake_impls, functional_tensor
from torch.fx import interpreter
from torch.fx import traceback as fx_traceback
from torch.fx.experimental import proxy_tensor, sym_node, symbolic_shapes
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch.utils._sympy import functions as symbolic

from anyshape.dialects.locations import Origin
from anyshape.frontends.torch.locations import innermost
from anyshape.frontends.torch.origins import CONDITION

A_GRAPH = "a graph"
"""What `computing` says where a graph is run again."""


def _file(module: ModuleType) -> str:
    return str(Path(str(module.__file__)))


def _beside(*names: str) -> frozenset[str]:
    return frozenset(str(Path(__file__).with_name(name)) for name in names)


_TORCH = str(Path(torch.__file__).parent)
_LAYERS = str(Path(torch.__file__).parent / "nn")
_CALLING = _file(nn.modules.module)
"""Calls of modules: on the stack of whatever is asked, the asker of nothing."""
_PACKAGE = str(Path(__file__).parents[2])
_STANDARD, _SITE = (sysconfig.get_paths()[name] for name in ("stdlib", "purelib"))

_EXPORTING = _beside("capture.py", "exports.py")
"""Further out on the stack is whoever compiles the model."""
RECORDING = _beside(Path(__file__).name, "branches.py")
"""Our files that a question goes through where it is recorded."""

_OPERATORS = frozenset(map(_file, (torch, sym_node)))
"""Files in which Python's operators on sizes are, and PyTorch's functions of them."""
_QUESTION = frozenset({*RECORDING, *_OPERATORS, _file(symbolic_shapes)})
"""Files through which a question goes from whoever asks it to the environment."""
_ARITHMETIC = frozenset({*_OPERATORS, *map(_file, (proxy_tensor, non_strict_utils, overrides))})
"""Files through which arithmetic goes from whoever computes to PyTorch's symbols."""
_INTERPRETER = _file(interpreter)
"""Runs the nodes of a graph again."""
_SYMBOLS = tuple(str(Path(torch.__file__).parent / name) for name in ("__init__.py", "fx"))
"""Where PyTorch's symbols are, and what traces them: no function there is named as who asks."""

_OP_OF_CALL: Mapping[tuple[str, str], str] = {
    (str(Path(inspect.getfile(torch.ops.aten.add.__class__))), "__call__"): "self",
    (_file(functional_tensor), "__torch_dispatch__"): "func",
}
"""The Python functions that call an op's C++ code, with their variables that hold the op."""

_LAYOUT = re.compile(
    r"contiguous|stride|dense|memory_format|channels_last|overlapping|_reshape_view_helper|physical_perm"
    r"|^(matmul|should_fold|meta_pixel_shuffle)$"
)
"""Functions of PyTorch that compare sizes in order to choose strides or a cheaper view, which is no business of values."""

_SEARCHES_OVERLAP = frozenset({"meta_copy_", "_scatter_meta_output"})
"""Functions of PyTorch that call nothing else in C++ which asks for sizes."""
_CHOOSES_CONVOLUTION = (_file(fake_impls), "conv")
"""The function of PyTorch whose C++ code chooses how to convolve: it looks whether an argument has its channels last."""
_KEEPS_STRIDES = frozenset(
    getattr(torch.ops.aten, name)
    for name in ("copy", "slice_scatter", "select_scatter", "diagonal_scatter", "as_strided_scatter")
)
"""Ops whose C++ code copies an argument with its strides, unless its elements share memory."""
_STRIDE_OPS = frozenset(
    getattr(torch.ops.aten, name)
    for name in ("_unsafe_view", "clone", "contiguous", "reshape", "view", "view_copy", "_reshape_copy", "as_strided")
)


# -- whose code it is ---------------------------------------------------------------------------------------------------


def in_model(file: str) -> bool:
    """Whether a source file is the model's: outside PyTorch, or one of its layers."""
    return not file.startswith(_TORCH) or (file.startswith(_LAYERS) and file != _CALLING)


def _is_users(file: str) -> bool:
    """Whether messages may name a line of it as the user's: no file of PyTorch's, its layers included, of ours or of Python's library."""
    in_library = file.startswith(_STANDARD) and not file.startswith(_SITE)
    return not in_library and not file.startswith((_TORCH, _PACKAGE, "<eval_with_key>"))


def _frames() -> Iterator[FrameType]:
    """The frames on the stack from the innermost outwards."""
    frame: FrameType | None = sys._getframe()  # pyright: ignore[reportPrivateUsage]
    while frame is not None:
        yield frame
        frame = frame.f_back


# -- questions ----------------------------------------------------------------------------------------------------------


def asking() -> Origin | None:
    """Who asks now: the outermost op that the model has called, or a condition in the model's own code, with the model's line.

    Without a line where neither the stack nor the node that is being decomposed leads to the user's program, as in a model of
    PyTorch's own layers; None where nothing is known.
    """
    asker: str | None = None
    for frame in _frames():
        file = frame.f_code.co_filename
        if file in _EXPORTING:
            break
        op = _called_op(frame)
        if op is not None:
            asker = str(op)
        elif _is_users(file):
            return Origin(asker or CONDITION, file, frame.f_lineno)
        elif asker is None and file.startswith(_TORCH) and not file.startswith(_SYMBOLS):
            asker = f"PyTorch's {frame.f_code.co_name}"
    found = innermost(fx_traceback.get_current_meta().get("stack_trace") or "")
    if found is not None:
        return Origin(asker or CONDITION, *found)
    return None if asker is None else Origin(asker)


def asking_line(env: ShapeEnv) -> str | None:
    """`file:line` that turned a symbolic condition into a bool; None when it is in PyTorch and outside its layers.

    The frame is the one that PyTorch names guards by, and PyTorch finds it: the files of `RECORDING` have to be uninteresting to it then.
    """
    frame = env._get_user_frame()  # pyright: ignore[reportPrivateUsage]
    if frame is None:
        return None
    file = frame.f_code.co_filename
    return f"{file}:{frame.f_lineno}" if in_model(file) else None


def is_about_strides(condition: Any) -> bool:
    """Whether a question is about strides alone, which are no business of values.

    A function of PyTorch's that computes strides asks it, or the C++ code of an op that only chooses strides by it, or the C++ code of
    any op where it is about max(n, 1), which is how that reckons strides. C++ code that looks whether an argument overlaps itself, or has
    its channels last, asks for axes of one element for the same reason.
    """
    return _layout_asks() or (_cpp_asks() and (_has_max_with_one(condition) or _search_asks(condition)))


def _layout_asks() -> bool:
    """Whether a function that computes strides asks, or the C++ code of an op that only chooses strides by it."""
    for depth, frame in enumerate(_asking_frames()):
        code = frame.f_code
        if (code.co_filename, code.co_name) in _OP_OF_CALL:
            # Its C++ code asks only where nothing is further in.
            return depth == 0 and getattr(_called_op(frame), "overloadpacket", None) in _STRIDE_OPS
        if in_model(code.co_filename):
            return False
        if _LAYOUT.search(code.co_name):
            return True
    return False


def _search_asks(condition: Any) -> bool:
    """Whether C++ code asks in its search for elements of an argument that share memory, or for channels that are last: which axes have
    more than one, it asks then."""
    frame = next(_asking_frames())
    op = _called_op(
        frame
    )  # or what stands for all its overloads, or an operator of a higher order, which have no schema
    schema = getattr(op, "_schema", None)
    searches = schema is not None and (schema.is_mutable or getattr(op, "overloadpacket", None) in _KEEPS_STRIDES)
    searches = searches or (frame.f_code.co_filename, frame.f_code.co_name) == _CHOOSES_CONVOLUTION
    at_least, more = isinstance(condition, sympy.Ge | sympy.Lt), isinstance(condition, sympy.Gt | sympy.Le)
    compares = (at_least and condition.rhs == 2) or (more and condition.rhs == 1)
    return (searches and compares) or frame.f_code.co_name in _SEARCHES_OVERLAP


def _has_max_with_one(condition: Any) -> bool:
    return isinstance(condition, sympy.Basic) and any(1 in each.args for each in condition.atoms(symbolic.Max))


def _cpp_asks() -> bool:
    """Whether C++ code turns the condition into a bool: Python does so by `SymBool`, in torch/__init__.py."""
    for frame in _frames():
        if frame.f_code.co_filename not in _QUESTION:
            return True
        if frame.f_code.co_filename == torch.__file__:
            return False
    return True


def _asking_frames() -> Iterator[FrameType]:
    """The frames from the innermost outside the files of a question outwards."""
    frames = _frames()
    for frame in frames:
        if frame.f_code.co_filename not in _QUESTION:
            yield frame
            break
    yield from frames


def _called_op(frame: FrameType) -> Any:
    """The op whose C++ code a frame calls; None where it does no such thing."""
    holder = _OP_OF_CALL.get((frame.f_code.co_filename, frame.f_code.co_name))
    return None if holder is None else frame.f_locals.get(holder)


def is_compared_in_python() -> bool:
    """Whether Python's operator, not the C++ code of an op, compares: asked by what stands in for a comparison of PyTorch's symbols."""
    caller = sys._getframe(2)  # pyright: ignore[reportPrivateUsage]
    return caller.f_code.co_filename == sym_node.__file__


# -- arithmetic ---------------------------------------------------------------------------------------------------------


def computing() -> str | None:
    """`file:line` of the model that computes, `A_GRAPH` where a graph is run again; None in PyTorch's own code.

    An op in C++ that the model calls, such as a view that reckons its strides, comes from the model's line as well, but through no
    operator of Python's.
    """
    is_operator: bool | None = None
    for frame in _frames():
        file = frame.f_code.co_filename
        if file == _INTERPRETER:
            return A_GRAPH
        if file in _EXPORTING:
            return None
        if not file.startswith(_PACKAGE):
            is_operator = file in _OPERATORS if is_operator is None else is_operator
            if file not in _ARITHMETIC:
                return f"{file}:{frame.f_lineno}" if is_operator and in_model(file) else None
    return None


# -- errors -------------------------------------------------------------------------------------------------------------


def raised_at(error: BaseException) -> str | None:
    """`file:line: code` of the innermost line of the user's program that an error went through."""
    frames = [frame for frame in extract_tb(error.__traceback__) if _is_users(frame.filename)]
    return f"{frames[-1].filename}:{frames[-1].lineno}: {frames[-1].line}" if frames else None


__all__ = [
    "A_GRAPH",
    "RECORDING",
    "asking",
    "asking_line",
    "computing",
    "in_model",
    "is_about_strides",
    "is_compared_in_python",
    "raised_at",
]
