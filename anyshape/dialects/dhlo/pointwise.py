"""Any op with `scalar` or `element`, computed at all points of its result at once by numpy."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from functools import reduce

import numpy as np
from xdsl.builder import Builder
from xdsl.dialects import arith
from xdsl.dialects.builtin import IndexType, IntegerAttr
from xdsl.ir import Block, Operation, SSAValue
from xdsl.rewriter import InsertPoint

from anyshape.dialects.dhlo.base import Array, DhloOp, Environment
from anyshape.dialects.dhlo.parts import AxisPart
from anyshape.dialects.dtypes import dtype_of_numpy
from anyshape.dialects.scalar_interpreter import from_signless, interpret_block, to_signless
from anyshape.dialects.scalars import Scalars
from anyshape.dialects.sizes import dtype_of
from anyshape.support.errors import IndexOutOfRange
from anyshape.symbolic import Size, SizeLike


class NumpyPoints:
    """`Points` whose reads happen at once: ops appended since the last read are run first.

    A read outside its operand raises IndexOutOfRange, unless every guard around it forbids the point: then it gives zero.
    """

    def __init__(self, operands: Sequence[Array], env: Environment) -> None:
        self._block = Block()
        self._operands, self._env = operands, env
        self._guards: list[SSAValue] = []
        self._last: Operation | None = None
        self.values: dict[SSAValue, Array] = {}
        self.scalars = Scalars(Builder(InsertPoint.at_end(self._block)))

    def index(self, array: Array) -> SSAValue:
        """A new index value that is `array` at the points."""
        value = self._block.insert_arg(IndexType(), len(self._block.args))
        self.values[value] = array
        return value

    def run(self) -> None:
        """Run the ops appended since the last run."""
        first = self._block.first_op if self._last is None else self._last.next_op
        pending: list[Operation] = []
        while first is not None:
            pending.append(first)
            first = first.next_op
        interpret_block(pending, self.values)
        self._last = self._block.last_op

    def operand(self, index: int, at: Sequence[SSAValue]) -> SSAValue:
        self.run()
        array = self._operands[index]
        allowed = reduce(np.logical_and, (self.values[guard] for guard in self._guards), np.True_)
        position = [self.values[value] for value in at]
        inside = reduce(
            np.logical_and, ((p >= 0) & (p < n) for p, n in zip(position, array.shape, strict=True)), np.True_
        )
        if np.any(allowed & ~inside):
            raise IndexOutOfRange(f"operand {index} is read outside its sizes {list(array.shape)}")
        if array.size == 0:
            read = np.zeros(np.shape(inside), array.dtype)
        else:
            safe = tuple(np.where(inside, p, 0) for p in position)
            read = np.where(inside & allowed, array[safe], np.zeros((), array.dtype))
        value = self._block.insert_arg(dtype_of_numpy(array.dtype).scalar, len(self._block.args))
        self.values[value] = to_signless(np.asarray(read))
        return value

    def size(self, size: SizeLike) -> SSAValue:
        constant = arith.ConstantOp(IntegerAttr(Size.of(size).evaluate(self._env), IndexType()))
        return self.scalars.builder.insert(constant).result

    @contextmanager
    def guarded(self, condition: SSAValue) -> Generator[None]:
        self._guards.append(condition)
        yield
        self._guards.pop()

    def part(self, index: SSAValue) -> AxisPart | None:
        return None

    def check_index(self, index: SSAValue, bound: Size) -> SSAValue:
        within = self.scalars.compare("lt", index, self.size(bound), unsigned=True)
        self.run()
        wrong = np.extract(~self.values[within], self.values[index])
        if wrong.size:
            raise IndexOutOfRange("index out of range", got=int(wrong[0]), expected=f"[0, {bound.evaluate(self._env)})")
        return within


def evaluate_pointwise(op: DhloOp, operands: Sequence[Array], env: Environment) -> Array:
    """The op's result by its `element`, which may be by `scalar`."""
    sizes = [size.evaluate(env) for size in op.result_sizes]
    points = NumpyPoints(operands, env)
    count = int(np.prod(sizes))
    grid = np.indices(sizes, dtype=np.int64).reshape(len(sizes), count)
    result = op.element(points, [points.index(axis) for axis in grid])
    points.run()
    flat = np.broadcast_to(points.values[result], (count,))
    return from_signless(np.ascontiguousarray(flat), dtype_of(op.result.type)).reshape(sizes)


__all__ = ["NumpyPoints", "evaluate_pointwise"]
