"""Who asked for a condition on sizes, as it was noted: which op or Python condition, and which line of the user's program."""

# PyTorch and sympy are typed in part only.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import cache
from glob import escape, glob
from pathlib import Path
from traceback import FrameSummary
from typing import Any

import sympy
import torch
from torch import fx
from torch.fx.experimental.symbolic_shapes import ShapeEnv

from anyshape.dialects.locations import Origin
from anyshape.frontends.torch.locations import source_line

CONDITION = "a condition in Python"
BROADCAST = "a broadcast of an axis of size 1"
DIVISION = "a division in Python"
CALLER = "the caller's `dynamic_shapes`"

_TORCH = str(Path(torch.__file__).parent)
_FRAME_LINE = re.compile(r".*  # (?P<file>[^\n]+):(?P<line>\d+) in ")
"""PyTorch's short form of a frame: `code  # file:line in function`."""


def origin_of_node(node: fx.Node) -> Origin:
    """The op of a node, and its source line."""
    return origin_at(str(node.target), source_line(node))


def origin_at(asker: str, place: str | None) -> Origin:
    """`asker` at `file:line`."""
    file, _, line = (place or "").rpartition(":")
    return Origin(asker, file, int(line)) if file else Origin(asker)


def origin_of_guard(guard: Any, known: Mapping[int, Origin]) -> Origin:
    """Who asked for a guard: as was noted when it was made, else as far as PyTorch has noted it.

    Args:
        guard: one of a `ShapeEnv`.
        known: origins of guards by their identities.
    """
    if id(guard) in known:
        return known[id(guard)]
    frame = guard.sloc.framework_loc
    in_torch = isinstance(frame, FrameSummary) and frame.filename.startswith(_TORCH)
    asker = f"PyTorch's {frame.name}" if in_torch and "_dynamo" not in frame.filename else CONDITION
    found = _FRAME_LINE.search(guard.sloc.maybe_user_loc or "")
    if found is not None:
        return Origin(asker, _full_path(found["file"]), int(found["line"]))
    if isinstance(frame, FrameSummary) and not in_torch:
        return Origin(asker, frame.filename, frame.lineno)
    return Origin(asker)


@cache
def _full_path(shortened: str) -> str:
    """A file that PyTorch names without what its path shares with that of PyTorch, which is / and one letter more at least."""
    own = Path(_TORCH)
    for folder in (own, *own.parents):
        if (folder / shortened).is_file():
            return str(folder / shortened)
    return next(iter(glob(f"/?{escape(shortened)}")), shortened)


def origins_of_axes(
    environment: ShapeEnv | None, inputs: Iterable[tuple[str, torch.Tensor]], known: Mapping[int, Origin]
) -> dict[str, Origin]:
    """Who made an axis of an input another size than a free one, by `args[0], axis 1`: the first equality that is about it.

    Args:
        environment: of the export.
        inputs: name and fake tensor of each input.
        known: origins of guards by their identities.
    """
    guards: Any = () if environment is None else environment.guards
    equalities = [guard for guard in guards if isinstance(guard.expr, sympy.Eq)]
    found: dict[str, Origin] = {}
    for name, value in inputs:
        for axis, size in enumerate(value.shape):
            # `expr` has what the symbol became in its place.
            symbol: Any = size.node._expr if isinstance(size, torch.SymInt) else None
            about = [guard for guard in equalities if symbol in guard.expr.free_symbols]
            if about:
                fixing = [guard for guard in about if any(side.is_Integer for side in guard.expr.args)]
                found[f"{name}, axis {axis}"] = _with_cause(origin_of_guard((fixing or about)[0], known))
    return found


def _with_cause(origin: Origin) -> Origin:
    """An op that export replaces by its steps, as many as the example has, says so."""
    if not origin.asker.startswith(_UNROLLED):
        return origin
    return replace(origin, asker=f"{origin.asker}, whose loop PyTorch unrolls at the example's length")


_UNROLLED = ("aten.lstm.", "aten.gru.", "aten.rnn_")


__all__ = [
    "BROADCAST",
    "CALLER",
    "CONDITION",
    "DIVISION",
    "origin_at",
    "origin_of_guard",
    "origin_of_node",
    "origins_of_axes",
]
