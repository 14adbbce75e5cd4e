"""A value of a graph, with the operators of arithmetic."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from xdsl.ir import SSAValue

from anyshape.dialects.dhlo import (
    Add,
    BroadcastInDim,
    Constant,
    DhloOp,
    Divide,
    Multiply,
    Negate,
    Reshape,
    Subtract,
    Transpose,
)
from anyshape.dialects.dtypes import DType
from anyshape.dialects.sizes import dtype_of, sizes_of
from anyshape.support.errors import ArgumentError
from anyshape.symbolic import Size, SizeLike

if TYPE_CHECKING:
    from anyshape.nn.graph import Graph

ONE = Size.const(1)


@dataclass(frozen=True, eq=False)
class Tensor:
    """A tensor that a graph computes. Operators broadcast as numpy's do; a number takes the tensor's dtype.

    Raises:
        ArgumentError: sizes neither agree nor are 1, dtypes differ, or the tensors are of different graphs.
    """

    graph: Graph
    value: SSAValue

    @property
    def sizes(self) -> tuple[Size, ...]:
        return sizes_of(self.value.type)

    @property
    def dtype(self) -> DType:
        return dtype_of(self.value.type)

    @property
    def rank(self) -> int:
        return len(self.sizes)

    def __repr__(self) -> str:
        return f"Tensor[{', '.join(map(str, self.sizes))}] {self.dtype}"

    def axis(self, axis: int) -> int:
        """An axis, which may be counted from the end, counted from 0. Raises ArgumentError."""
        if not -self.rank <= axis < self.rank:
            raise ArgumentError("there is no such axis", got=axis, expected=f"[{-self.rank}, {self.rank}), of {self}")
        return axis % self.rank

    def reshape(self, *sizes: SizeLike) -> Tensor:
        """The same elements in row-major order under other sizes."""
        target = tuple(map(Size.of, sizes))
        return self if target == self.sizes else self.graph.emit(Reshape, self, sizes=target)

    def transpose(self, *permutation: int) -> Tensor:
        """Axis d of the result is axis permutation[d] of this tensor."""
        return self.graph.emit(Transpose, self, permutation=permutation)

    def broadcast(self, *sizes: SizeLike) -> Tensor:
        """Repeated to these sizes; axes are aligned at the last, and are equal or 1."""
        target = tuple(map(Size.of, sizes))
        if target == self.sizes:
            return self
        first = len(target) - self.rank
        if first < 0:
            raise ArgumentError("a tensor cannot lose axes", got=self, expected=f"at most {len(target)} axes")
        return self.graph.emit(BroadcastInDim, self, dimensions=tuple(range(first, len(target))), sizes=target)

    def __add__(self, other: Operand) -> Tensor:
        return self._with(Add, other)

    def __radd__(self, other: Operand) -> Tensor:
        return self._with(Add, other)

    def __sub__(self, other: Operand) -> Tensor:
        return self._with(Subtract, other)

    def __rsub__(self, other: Operand) -> Tensor:
        return self._operand(other)._with(Subtract, self)

    def __mul__(self, other: Operand) -> Tensor:
        return self._with(Multiply, other)

    def __rmul__(self, other: Operand) -> Tensor:
        return self._with(Multiply, other)

    def __truediv__(self, other: Operand) -> Tensor:
        return self._with(Divide, other)

    def __rtruediv__(self, other: Operand) -> Tensor:
        return self._operand(other)._with(Divide, self)

    def __neg__(self) -> Tensor:
        return self.graph.emit(Negate, self)

    def _with(self, kind: type[DhloOp], other: Operand) -> Tensor:
        right = self._operand(other)
        sizes = common_sizes(self, right)
        return self.graph.emit(kind, self.broadcast(*sizes), right.broadcast(*sizes))

    def _operand(self, other: Operand) -> Tensor:
        if isinstance(other, Tensor):
            if other.graph is not self.graph:
                raise ArgumentError("the operands are tensors of different graphs", got=other)
            return other
        return self.graph.emit(Constant, value=other, dtype=self.dtype, sizes=self.sizes)


Operand: TypeAlias = "Tensor | float | int"


def common_sizes(*tensors: Tensor) -> tuple[Size, ...]:
    """The sizes to which tensors are broadcast together. Raises ArgumentError where two sizes neither agree nor are 1."""
    rank = max(each.rank for each in tensors)
    common: list[Size] = [ONE] * rank
    for each in tensors:
        for axis, size in enumerate(each.sizes, rank - each.rank):
            common[axis] = _common_size(each, common[axis], size, tensors)
    return tuple(common)


def _common_size(source: Tensor, a: Size, b: Size, tensors: Sequence[Tensor]) -> Size:
    if a == b or b == ONE or source.graph.facts.prove(a.eq(b)) is True:
        return a
    if a == ONE:
        return b
    raise ArgumentError(
        "sizes do not agree", got=" and ".join(map(repr, tensors)), expected=f"{a}, or 1, in the place of {b}",
        remedy="state that they are equal with `graph.require(a.eq(b))`, or reshape",
    )  # fmt: skip


__all__ = ["Operand", "Tensor", "common_sizes"]
