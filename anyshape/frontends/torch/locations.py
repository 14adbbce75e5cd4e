"""Where in the user's program a node comes from."""

from __future__ import annotations

import inspect
import re
from functools import cache
from pathlib import Path

import torch
from torch import fx
from xdsl.dialects.builtin import FileLineColLoc, IntAttr, LocationAttr, NameLoc, StringAttr, UnknownLoc

_FRAME = re.compile(r'^\s*File "(?P<file>[^"]+)", line (?P<line>\d+)', re.MULTILINE)
_PACKAGE = str(Path(__file__).parents[2])
_NOT_THE_USER = (str(Path(torch.__file__).parent), str(Path(__file__).parent))


@cache
def innermost(stack_trace: str) -> tuple[str, int] | None:
    """File and line of the innermost frame outside PyTorch and this package."""
    frames = [(match["file"], int(match["line"])) for match in _FRAME.finditer(stack_trace)]
    own = [frame for frame in frames if not frame[0].startswith(_NOT_THE_USER)]
    return own[-1] if own else None


def source_line(node: fx.Node) -> str | None:
    """`file:line` of the innermost frame of the user's program, where PyTorch recorded one."""
    found = innermost(node.meta.get("stack_trace") or "")
    return None if found is None else f"{found[0]}:{found[1]}"


def first_source_line(graph: fx.Graph) -> str | None:
    """The source line of the first node that has one."""
    return next((line for node in graph.nodes if (line := source_line(node)) is not None), None)


def calling_line() -> str | None:
    """The innermost line on the stack that belongs neither to PyTorch nor to this package."""
    frame = inspect.currentframe()
    while frame is not None:
        file = frame.f_code.co_filename
        if not file.startswith((*_NOT_THE_USER, _PACKAGE, "<")):
            return f"{file}:{frame.f_lineno}"
        frame = frame.f_back
    return None


def location_of(node: fx.Node) -> LocationAttr:
    """The node's name over its source line: `loc("linear_3"("model.py":12:0))`."""
    found = innermost(node.meta.get("stack_trace") or "")
    inner = UnknownLoc() if found is None else FileLineColLoc(StringAttr(found[0]), IntAttr(found[1]), IntAttr(0))
    return NameLoc(StringAttr(node.name), inner)
