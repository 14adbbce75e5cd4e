"""What TorchDynamo tells a back end beside the graph."""

from __future__ import annotations

from torch._dynamo.exc import RestartAnalysis, SkipFrame
from torch._guards import CompileContext

SIGNALS = (RestartAnalysis, SkipFrame)
"""Exceptions by which PyTorch's parts talk to each other: a back end lets them pass."""


def graph_name() -> str:
    """`graph 0/1`: TorchDynamo's number of the frame and of its compilation, as in its own logs."""
    number = CompileContext.current_compile_id()
    return "graph" if number is None else f"graph {number}"


__all__ = ["SIGNALS", "graph_name"]
