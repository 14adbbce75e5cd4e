"""Points as programs: parallel points and blocks of lanes become the grid, a row's lanes blocks with masks, loops loops.

Scratch is a row kept from one pass over lanes to the next. With whole rows it stays in registers, which asks that it is
written and read at the lane itself; otherwise it is memory of the launcher's, written and read by the one program that
owns the point, with a barrier between the passes.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass, field

from xdsl.dialects import arith
from xdsl.ir import Attribute, Block, Operation, SSAValue

from anyshape.dialects.sizes import numel
from anyshape.dialects.tile import (
    DotOp,
    LanesOp,
    LoadOp,
    LoopOp,
    ParallelOp,
    ScratchOp,
    SizeOp,
    StoreOp,
    YieldOp,
    buffer_of,
)
from anyshape.support.errors import CodegenError
from anyshape.symbolic import Size
from anyshape.targets.triton.arithmetic import cast, scalar_expression
from anyshape.targets.triton.body import UNIFORM, Axes, BlockAxis, Body, Value
from anyshape.targets.triton.reduce import Reduction, reduction_of
from anyshape.targets.triton.syntax import assign, binary, call, compare, for_range, name, number

BLOCK = "BLOCK"
LANES: Axes = frozenset({0})


def scratch_elements(op: ScratchOp) -> Size:
    """The elements of one point's scratch."""
    return numel(buffer_of(op.result).sizes.data)


@dataclass
class Points:
    """Emits the ops of a plan's points into `body`.

    Attributes:
        combiners: reductions whose functions the statements call, by the functions' names.
        rows: extents of lanes that must fit one block.
    """

    body: Body
    whole_rows: bool = False
    combiners: dict[str, Reduction] = field(default_factory=dict[str, Reduction])
    rows: dict[Size, None] = field(default_factory=dict[Size, None])
    _kept: dict[SSAValue, Value] = field(default_factory=dict[SSAValue, Value])
    _program: ast.expr | None = None
    _lane: SSAValue | None = None

    def outermost(self, op: ParallelOp | LanesOp) -> tuple[tuple[Size, str | None], ...]:
        """The whole nest, and the grid that runs it."""
        self._program = self.body.program()
        if isinstance(op, ParallelOp):
            extents = op.extents.data
            names = self.body.indices_of(self._program, extents)
            self.body.values.update(
                (index, Value(each, UNIFORM)) for index, each in zip(op.indices, names, strict=True)
            )
            self.block(op.body.block)
            return tuple((extent, None) for extent in extents)
        self._enter_lanes(op, binary("*", self._program, name(BLOCK)))
        self.block(op.body.block)
        return ((op.size, BLOCK),)

    def block(self, block: Block) -> None:
        for op in block.ops:
            self.operation(op)

    def operation(self, op: Operation) -> None:
        body = self.body
        if isinstance(op, SizeOp | arith.ConstantOp) and not any(op.results[0].uses):
            return
        match op:
            case YieldOp():
                pass
            case ScratchOp():
                self._open_scratch(op)
            case SizeOp():
                body.bind(op.result, body.size(op.expression), UNIFORM, "n")
            case LoadOp() if isinstance(op.buffer.owner, ScratchOp):
                self._load_scratch(op)
            case LoadOp():
                expression, axes = body.load(op.buffer, op.indices, op.guard)
                body.bind(op.result, expression, axes)
            case StoreOp() if isinstance(op.buffer.owner, ScratchOp):
                self._store_scratch(op)
            case StoreOp():
                body.store(op.value, op.buffer, op.indices)
            case LanesOp():
                self._lanes(op)
            case LoopOp():
                self._loop(op)
            case DotOp():
                self._dot(op)
            case _ if op.dialect_name() in ("arith", "math"):
                operands = [body.name_of(operand) for operand in op.operands]
                body.bind(op.results[0], scalar_expression(op, operands), body.axes_of(op.operands))
            case _:
                raise CodegenError("an op of the plan has no emission for Triton", where=op.name, got=op,
                                   expected="parallel, lanes, loop, dot, load, store, scratch, size or contract")  # fmt: skip

    # ---- scratch -------------------------------------------------------------------------------------------------

    def _open_scratch(self, op: ScratchOp) -> None:
        """The point's own row of the launcher's memory; nothing where rows are kept in registers."""
        if not self.whole_rows:
            assert self._program is not None
            start = binary("*", self._program, self.body.size(scratch_elements(op)))
            row = self.body.define("row", binary("+", name(self.body.pointers[op.result]), start))
            self.body.pointers[op.result] = row

    def _check_kept_at_lane(self, op: LoadOp | StoreOp) -> None:
        if list(op.indices) != [self._lane]:
            raise CodegenError(
                "a row kept in registers is not accessed at the lane itself", where=op.name, got=op,
                expected="the index of the lanes around", remedy="whole_rows=False, which keeps rows in memory",
            )  # fmt: skip

    def _store_scratch(self, op: StoreOp) -> None:
        if not self.whole_rows:
            self.body.store(op.value, op.buffer, op.indices)
            return
        self._check_kept_at_lane(op)
        self._kept[op.buffer] = self.body.values[op.value]

    def _load_scratch(self, op: LoadOp) -> None:
        if not self.whole_rows:
            expression, axes = self.body.load(op.buffer, op.indices, op.guard)
            self.body.bind(op.result, expression, axes)
            return
        self._check_kept_at_lane(op)
        if op.buffer not in self._kept or op.guard is not None:
            raise CodegenError("a row kept in registers is read before it is written, or under a guard", got=op)
        self.body.values[op.result] = self._kept[op.buffer]

    # ---- lanes ---------------------------------------------------------------------------------------------------

    def _enter_lanes(self, op: LanesOp, start: ast.expr | None) -> None:
        """Define the lanes' index and mask, and open their axis."""
        lanes = cast(call("tl.arange", number(0), name(BLOCK)), op.index.type)
        index = self.body.bind(op.index, lanes if start is None else binary("+", start, lanes), LANES, "j")
        mask = self.body.define("mask", compare("<", name(index.name), self.body.size(op.size)))
        self.body.axes = (BlockAxis(BLOCK, mask),)
        self._lane = op.index

    def _leave_lanes(self) -> None:
        self.body.axes, self._lane = (), None

    def _lanes(self, op: LanesOp) -> None:
        reductions = self._reductions(op.kind_names, [value.type for value in op.yielded])
        if self.whole_rows:
            self._whole_row(op, reductions)
        else:
            self._row_by_blocks(op, reductions)

    def _whole_row(self, op: LanesOp, reductions: Sequence[Reduction]) -> None:
        self.rows[op.size] = None
        self._enter_lanes(op, None)
        self.block(op.body.block)
        inside = [
            self.body.define("part", self._inside(value, each))
            for value, each in zip(op.yielded, reductions, strict=True)
        ]
        self._leave_lanes()
        self._fold_lanes(op, reductions, inside)

    def _row_by_blocks(self, op: LanesOp, reductions: Sequence[Reduction]) -> None:
        body = self.body
        start, accumulators = body.fresh("start"), [body.fresh("part") for _ in reductions]
        with body.nested() as statements:
            self._enter_lanes(op, name(start))
            self.block(op.body.block)
            for value, each, accumulator in zip(op.yielded, reductions, accumulators, strict=True):
                combined = call(each.combiner, name(accumulator), self._inside(value, each))
                body.statements.append(assign(accumulator, combined))
            initial = [body.filled(number(each.identity), each.accumulator, LANES) for each in reductions]
            self._leave_lanes()
        body.statements.extend(assign(each, value) for each, value in zip(accumulators, initial, strict=True))
        body.statements.append(for_range(start, [number(0), body.size(op.size), name(BLOCK)], statements))
        if any(isinstance(each, StoreOp) and isinstance(each.buffer.owner, ScratchOp) for each in op.body.walk()):
            body.add(call("tl.debug_barrier"))
        self._fold_lanes(op, reductions, accumulators)

    def _inside(self, value: SSAValue, reduction: Reduction) -> ast.expr:
        """The value to accumulate: the identity at lanes outside."""
        (mask,) = self.body.mask(LANES)
        return call("tl.where", mask, self._widened(value, reduction), number(reduction.identity))

    def _widened(self, value: SSAValue, reduction: Reduction) -> ast.expr:
        named = self.body.name_of(value)
        return named if value.type == reduction.accumulator else cast(named, reduction.accumulator)

    def _fold_lanes(self, op: LanesOp, reductions: Sequence[Reduction], parts: Sequence[str]) -> None:
        for result, each, part in zip(op.results, reductions, parts, strict=True):
            folded = call("tl.reduce", name(part), number(0), name(each.combiner))
            self.body.bind(result, folded if result.type == each.accumulator else cast(folded, result.type), UNIFORM)

    def _reductions(self, kinds: Sequence[str], elements: Sequence[Attribute]) -> list[Reduction]:
        reductions = [reduction_of(kind, element) for kind, element in zip(kinds, elements, strict=True)]
        self.combiners.update((each.combiner, each) for each in reductions)
        return reductions

    # ---- loops ---------------------------------------------------------------------------------------------------

    def _loop(self, op: LoopOp) -> None:
        reductions = self._reductions(op.kind_names, [value.type for value in op.yielded])
        self._accumulate(op, op.results, reductions)

    def _dot(self, op: DotOp) -> None:
        self._accumulate(op, [op.result], self._reductions(["sum"], [op.result.type]))

    def _accumulate(self, op: LoopOp | DotOp, results: Sequence[SSAValue], reductions: Sequence[Reduction]) -> None:
        """A loop that carries one accumulator a reduction; a `dot` accumulates the product of its yields."""
        body = self.body
        accumulators = [body.fresh("sum" if each.kind == "sum" else "part") for each in reductions]
        body.values[op.index] = Value(body.fresh("k"), UNIFORM)
        axes: list[Axes] = []
        with body.nested() as statements:
            self.block(op.body.block)
            last = op.body.block.last_op
            assert isinstance(last, YieldOp)
            groups = [last.values] if isinstance(op, DotOp) else [(value,) for value in last.values]
            for group, each, accumulator in zip(groups, reductions, accumulators, strict=True):
                element, *others = (self._widened(value, each) for value in group)
                for other in others:
                    element = binary("*", element, other)
                axes.append(body.axes_of(group))
                body.statements.append(assign(accumulator, call(each.combiner, name(accumulator), element)))
        for each, accumulator, along in zip(reductions, accumulators, axes, strict=True):
            initial = body.filled(number(each.identity), each.accumulator, along)
            body.statements.append(assign(accumulator, initial))
        index = body.values[op.index].name
        body.statements.append(for_range(index, [number(0), body.size(op.size)], statements))
        for result, each, accumulator, along in zip(results, reductions, accumulators, axes, strict=True):
            if result.type == each.accumulator:
                body.values[result] = Value(accumulator, along)
            else:
                body.bind(result, cast(name(accumulator), result.type), along)


__all__ = ["BLOCK", "Points", "scratch_elements"]
