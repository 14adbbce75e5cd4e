"""What TorchDynamo tells a back end beside the graph."""

from __future__ import annotations

from typing import Any

from torch import fx
from torch._dynamo.exc import RestartAnalysis, SkipFrame
from torch._guards import CompileContext

SIGNALS = (RestartAnalysis, SkipFrame)
"""Exceptions by which PyTorch's parts talk to each other: a back end lets them pass."""


def graph_name() -> str:
    """`graph 0/1`: TorchDynamo's number of the frame and of its compilation, as in its own logs."""
    number = CompileContext.current_compile_id()
    return "graph" if number is None else f"graph {number}"


def graph_break(graph_module: fx.GraphModule) -> tuple[str, str, str | None] | None:
    """Why a function goes on in another graph: (what, reason, `file:line`); None where this graph is the end of it."""
    why: Any = getattr(graph_module, "compile_subgraph_reason", None)
    if why is None or not why.graph_break:
        return None
    lines = [line.strip() for line in str(why.reason).splitlines() if line.strip()]
    kept = [line for line in lines if not line.startswith(("Hint:", "Developer debug context:", "For more details"))]
    place = why.user_stack[-1] if why.user_stack else None
    what = kept[0] if kept else "graph break"
    reason = " ".join(line.removeprefix("Explanation: ") for line in kept[1:]) or "TorchDynamo cannot trace it"
    return what, reason, None if place is None else f"{place.filename}:{place.lineno}"


__all__ = ["SIGNALS", "graph_break", "graph_name"]
