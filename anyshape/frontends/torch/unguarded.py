"""Graphs of exports run at sizes that their guards exclude: whether the model gives the same there is what runs them."""

# PyTorch and sympy are typed in part only.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false

from __future__ import annotations

import operator
from collections.abc import Collection
from typing import Any

import sympy
import torch
from torch import fx
from torch.export import ExportedProgram


class UnguardedGraph(fx.Interpreter):
    """Runs the graph of an export without its guards, with the remainders of sizes that the program made of it would have.

    Args:
        program: the export; `run` takes its weights and constants, then the leaves of a call.
        by_zero_is_zero: whether a remainder by 0 is 0, as in programs, where the op that asks for it has a case of its own; else it raises
            ZeroDivisionError, as in Python.
        rounded_up: remainders a mod k that are k where k divides a; see `boundaries.Needless`.
    """

    def __init__(
        self, program: ExportedProgram, *, by_zero_is_zero: bool = False, rounded_up: Collection[sympy.Basic] = ()
    ) -> None:
        super().__init__(program.graph_module)
        self._by_zero_is_zero = by_zero_is_zero
        self._rounded_up = rounded_up

    def call_function(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        is_undefined = self._by_zero_is_zero and target is operator.mod and args[1] == 0
        return 0 if is_undefined else super().call_function(target, args, kwargs)

    def run_node(self, n: fx.Node) -> Any:
        result, value = super().run_node(n), n.meta.get("val")
        if isinstance(value, torch.SymInt) and value.node.expr in self._rounded_up and result == 0:
            return int(value.node.expr.args[1])
        return result


__all__ = ["UnguardedGraph"]
