"""Reductions: in which type they are accumulated, from which identity, combined by which function."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from xdsl.dialects.builtin import BFloat16Type, Float16Type, Float32Type, IntegerType
from xdsl.ir import Attribute, Block, Operation

from anyshape.dialects.tile.folds import combiner, identity, kind_on
from anyshape.support.errors import CodegenError
from anyshape.targets.triton.arithmetic import scalar_expression
from anyshape.targets.triton.syntax import Number, jit_function, name


@dataclass(frozen=True)
class Reduction:
    """One of `tile.KINDS` on `accumulator`, the type in which it runs."""

    kind: str
    identity: Number
    accumulator: Attribute

    @property
    def combiner(self) -> str:
        """The name of its function."""
        return self._combining().name.removeprefix("arith.")

    def function(self) -> ast.stmt:
        """`def combiner(a, b)`, which `tl.reduce` and accumulation both call."""
        result = scalar_expression(self._combining(), (name("a"), name("b")))
        return jit_function(self.combiner, [("a", None), ("b", None)], [ast.Return(result)])

    def _combining(self) -> Operation:
        return combiner(self.kind, *Block(arg_types=[self.accumulator] * 2).args)


def reduction_of(kind: str, element: Attribute) -> Reduction:
    """How to reduce elements by one of `tile.KINDS`.

    f16 and bf16 are accumulated in f32, since a sum is rounded once; i1 in i32, since Triton exchanges no bits between lanes.
    CodegenError for a kind that the elements do not have, and for extrema of unsigned integers.
    """
    kind = kind_on(kind, element)
    if kind in ("umax", "umin"):  # signless integers are signed in Triton
        raise CodegenError("a reduction does not fit its elements", got=f"{kind} of {element}")
    accumulator = element
    if isinstance(element, Float16Type | BFloat16Type):
        accumulator = Float32Type()
    elif element == IntegerType(1):
        accumulator = IntegerType(32)
    return Reduction(kind, identity(kind, element), accumulator)


__all__ = ["Reduction", "reduction_of"]
