"""A second form of groups that reduce rows, for rows that no cache holds, and for long ones that are fewer than threads.

In the first form a point of the launch is a row: it is passed over once for each reduction and once more for the results, in cache after
the first pass. A row that no cache holds would be read from memory each time, and one row is one thread's. In the second form

1. each chunk of a row gives partial results, in cache however many passes that takes: a `reduce` fusion over rows and chunks;
2. they are combined: a `reduce` fusion over rows, as short as there are chunks;
3. what is as long as the row is computed from it once more: a `flat` fusion, over rows and their points.

A row is thus read twice, or once where nothing is as long as it. A reduction that needs the result of another one costs a round of 1 and
2 more, but for those that `partials.py` knows. Which form computes a call's results is a function of sizes alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.builder import Builder
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from anyshape.dialects.dhlo import BroadcastInDim, Chunk, Constant, Reduce
from anyshape.dialects.dhlo.fusion import FusionOp, YieldOp
from anyshape.dialects.dhlo.graph import facts_of
from anyshape.dialects.sizes import numel, sizes_of
from anyshape.fusion.decide import decide_fusion
from anyshape.fusion.outline import outline_groups
from anyshape.fusion.partials import Centred, Combine, Partials, centred
from anyshape.fusion.results import copy_shared_results
from anyshape.fusion.roles import is_elementwise, reduced_axes
from anyshape.support.machine import Machine
from anyshape.symbolic import Size, size_max, size_min

CHUNK = 4096
"""Elements of a chunk: several passes over them find them in a first-level cache, or next to it."""
SHARED_CHUNKS = 8
"""Chunks that a row has at least where threads share it."""
ROW_BUFFERS = 2
"""A row, and one of scratch or of results, that a core's part of the last cache holds from one pass to the next."""
F32_BYTES = 4


@dataclass(frozen=True)
class RowLimits:
    """From which row on the second form pays.

    Args:
        cached: elements of a row that stays in cache from one pass to the next.
        busy: rows from which on all cores have one.
        shared: elements from which fewer rows are shared by threads.
    """

    cached: int
    busy: int
    shared: int = SHARED_CHUNKS * CHUNK

    @staticmethod
    def of(machine: Machine) -> RowLimits:
        """What the caches hold, in f32, and the cores: properties of the machine, like the width of vectors. Results depend on neither
        the threads of a run nor on anything that is measured.
        """
        own = max(machine.l2, machine.l3 // machine.cores)
        return RowLimits(own // (ROW_BUFFERS * F32_BYTES), machine.cores)

    def passed(self, rows: Size, row: Size, *, reads_again: bool) -> Size:
        """1 where `rows` rows of `row` elements are too long or too few, else 0; too long matters only where they are read again."""
        few = size_min(_at_least(row, self.shared), 1 - _at_least(rows, self.busy))
        return size_max(few, _at_least(row, self.cached)) if reads_again else few


def _at_least(size: Size, bound: int) -> Size:
    """1 where size >= bound, else 0."""
    return size_min(1, size_max(0, size - (bound - 1)))


def add_long_rows(func: FuncOp, limits: RowLimits) -> None:
    """Give every `reduce` fusion of `func` whose rows may pass the limits its second form, or that form only where they always do."""
    facts = facts_of(func)
    for op in list(func.body.block.ops):
        rows = _rows_of(op) if isinstance(op, FusionOp) and op.kind.data == "reduce" else None
        if rows is None:
            continue
        (_, longest), (fewest, _) = facts.range_of(rows.length), facts.range_of(rows.number)
        when = limits.passed(rows.number, rows.length, reads_again=rows.are_read_again)
        too_short = longest is not None and longest < min(limits.shared, limits.cached)
        too_many = fewest is not None and fewest >= limits.busy and not rows.are_read_again
        known = when.constant_or(None)
        if known == 1:
            _replace(rows.fusion, _Form(rows).block())
        elif known is None and not too_short and not too_many:
            rows.fusion.add_other_form(when, _Form(rows).block())


def _replace(fusion: FusionOp, form: Block) -> None:
    """Put the ops of a form in the place of a fusion."""
    last = form.last_op
    assert isinstance(last, YieldOp)
    for argument, value in zip(form.args, fusion.inputs, strict=True):
        argument.replace_all_uses_with(value)
    for result, value in zip(fusion.results, last.values, strict=True):
        result.replace_all_uses_with(value)
    for op in list(form.ops):
        op.detach()
        if op is not last:
            Rewriter.insert_op(op, InsertPoint.before(fusion))
    fusion.detach()
    fusion.erase()


@dataclass(frozen=True)
class _Rows:
    """What the reductions of a group go over: the last `axes` of values of `sizes`."""

    fusion: FusionOp
    reductions: tuple[Reduce, ...]
    sizes: tuple[Size, ...]
    axes: tuple[int, ...]

    @property
    def number(self) -> Size:
        return numel(self.sizes[: self.axes[0]])

    @property
    def length(self) -> Size:
        return numel(self.sizes[self.axes[0] :])

    @property
    def are_read_again(self) -> bool:
        """Whether a row is passed over more than once."""
        return len(self.reductions) > 1 or any(sizes_of(value.type) == self.sizes for value in self.fusion.results)


def _rows_of(fusion: FusionOp) -> _Rows | None:
    """The rows of a group; None where its reductions do not go over the last axes of the same sizes, or over chunks already."""
    reductions = tuple(op for op in fusion.block.ops if isinstance(op, Reduce) and reduced_axes(op))
    sizes, axes = reductions[0].operand_sizes(), reductions[0].axes
    if axes != tuple(range(axes[0], len(sizes))) or any(isinstance(op, Chunk) for op in fusion.block.ops):
        return None
    if any(op.axes != axes or op.operand_sizes() != sizes for op in reductions):
        return None
    is_one_axis = len(axes) == 1 or all(_is_one_axis(op.operands[0], axes[0]) for op in reductions)
    return _Rows(fusion, reductions, sizes, axes) if is_one_axis else None


def _is_one_axis(value: SSAValue, first: int) -> bool:
    """Whether the axes from `first` on are one axis of all that a value is made of: nothing is repeated along some of them."""
    sizes = sizes_of(value.type)
    seen: set[SSAValue] = set()
    work = [value]
    while work:
        each = work.pop()
        owner = each.owner
        if each in seen or isinstance(owner, Block | Constant):
            continue
        seen.add(each)
        if isinstance(owner, BroadcastInDim):
            if any(axis >= first for axis in owner.integers("dimensions")):
                return False
        elif not is_elementwise(owner) or sizes_of(each.type) != sizes:
            return False
        else:
            work.extend(owner.operands)
    return True


class _Form:
    """Builds the second form of one group."""

    def __init__(self, rows: _Rows) -> None:
        self._rows = rows
        self._fusion = fusion = rows.fusion
        self._block = Block(arg_types=[argument.type for argument in fusion.block.args])
        self._builder = Builder(InsertPoint.at_end(self._block))
        self._known: dict[SSAValue, SSAValue] = dict(zip(fusion.block.args, self._block.args, strict=True))
        self._levels: dict[Reduce, int] = {}
        self._cases: dict[Reduce, Centred | None] = {}

    def block(self) -> Block:
        """Fusions and views, and their yield."""
        self._sort()
        for level in range(max(self._levels.values()) + 1):
            self._round([op for op, its in self._levels.items() if its == level])
        known = dict(self._known)
        self._builder.insert(ReturnOp(*(self._copy(value, known) for value in self._fusion.yielded)))
        func = FuncOp(
            "form",
            ([each.type for each in self._block.args], [each.type for each in self._fusion.results]),
            Region(self._block),
        )
        outline_groups(func, decide_fusion(func))
        copy_shared_results(func)
        return self._finished(func)

    def _finished(self, func: FuncOp) -> Block:
        block = func.body.detach_block(func.body.block)
        last = block.last_op
        assert isinstance(last, ReturnOp)
        Rewriter.insert_op(YieldOp(*last.operands), InsertPoint.before(last))
        last.detach()
        last.erase()
        for op in block.ops:
            if isinstance(op, FusionOp) and op.kind.data == "loop" and self._are_rows(op.results):
                op.become_flat()
        return block

    def _are_rows(self, values: Sequence[SSAValue]) -> bool:
        return all(sizes_of(value.type) == self._rows.sizes for value in values)

    # -- rounds -----------------------------------------------------------------------------------------------------

    def _sort(self) -> None:
        """The round in which each reduction is made: after those that it needs, but for a sum that follows from chunks."""
        for op in self._rows.reductions:
            case = centred(op, list(self._levels))
            if case is not None:
                needed = max((self._levels[each] for each in self._needed(case.row)), default=-1)
                own = self._levels[case.anchor]
                if needed == own:
                    self._cases[op], self._levels[op] = case, own
                    continue
            needed = max((self._levels[each] for each in self._needed(op.operands[0])), default=-1)
            self._cases[op], self._levels[op] = None, needed + 1

    def _needed(self, value: SSAValue) -> list[Reduce]:
        """The reductions that a value is made of, through ops other than reductions."""
        found: dict[Reduce, None] = {}
        seen: set[SSAValue] = set()
        work = [value]
        while work:
            each = work.pop()
            owner = each.owner
            if each in seen or isinstance(owner, Block):
                continue
            seen.add(each)
            if isinstance(owner, Reduce) and owner in self._levels:
                found[owner] = None
            else:
                work.extend(owner.operands)
        return list(found)

    def _round(self, reductions: Sequence[Reduce]) -> None:
        """Partial results of all chunks, then what they are together.

        Both have copies of their own of what they need beside reductions: it would be written and read otherwise.
        """
        known = dict(self._known)
        count = size_max(1, (self._rows.length + (CHUNK - 1)) // CHUNK)
        partials = Partials(self._builder, self._rows.sizes, self._rows.axes, count, CHUNK)
        combines: list[tuple[Reduce, Combine]] = []
        for op in reductions:
            case = self._cases[op]
            if case is None:
                combines.append((op, partials.plain(op, self._copy(op.operands[0], known))))
            else:
                make = partials.exponentials if case.is_exponential else partials.squares
                combines.append((op, make(case, self._copy(case.x, known))))
        known = dict(self._known)
        for op, combine in combines:
            known[op.result] = self._known[op.result] = combine(lambda value: self._copy(value, known))

    def _copy(self, value: SSAValue, known: dict[SSAValue, SSAValue]) -> SSAValue:
        """The value in the new form; ops that are not `known` there are copied, operands first."""
        work = [value]
        while work:
            owner = work[-1].owner
            if work[-1] in known:
                work.pop()
                continue
            assert isinstance(owner, Operation)
            missing = [operand for operand in owner.operands if operand not in known]
            if missing:
                work.extend(missing)
                continue
            copy = owner.clone(known)
            copy.location = owner.location
            self._builder.insert(copy)
        return known[value]


__all__ = ["CHUNK", "RowLimits", "add_long_rows"]
