"""`split-reductions`: long reductions become partial results of chunks, which threads share, and a short reduction of those."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.ir import SSAValue
from xdsl.pattern_rewriter import PatternRewriter

from anyshape.dialects.dhlo import BroadcastInDim, Chunk, Constant, Convert, DhloOp, Elementwise, Reduce, Reshape
from anyshape.dialects.dhlo.reduction import emit_in_f32, identity_of
from anyshape.dialects.sizes import dtype_of, numel, sizes_of
from anyshape.passes.worklist import Rewrite, RewritePass, Rewritten
from anyshape.symbolic import Facts, Size, size_max, size_min

ONE = Size.const(1)
CHUNK_ELEMENTS = 16384
"""Elements that a chunk should at least have: what pays for waking a thread, and little enough to stay in a core's cache."""
MOST_CHUNKS = 256
"""Chunks of one reduction: enough for any number of threads, few enough for one thread to combine."""
MOST_ROWS = 64
"""Rows of innermost axes from which on threads share rows; a number of rows that is not known counts as this many."""
LEAST_LENGTH = 16
"""Turns that a chunk of an outer axis should at least have, so that partial results are few beside what they are made of."""


@dataclass(frozen=True)
class SplitReductionsPass(RewritePass):
    """reduce(x) over axes -> reduce(reduce(chunk(x))), the number of chunks a function of the sizes alone.

    The same sizes thus give the same bytes on any number of threads; a short reduction has one chunk. A reduction over
    innermost axes is left whole where threads can share its rows, or where its result is spread over them again (softmax, layer
    norm), since one kernel then keeps its row in cache. f16 and bf16 have partial results in f32.
    """

    name = "split-reductions"

    def rewrite_with(self, ctx: Context, facts: Facts) -> Rewrite:
        return split_reduction


def split_reduction(op: DhloOp, rewriter: PatternRewriter) -> Rewritten | None:
    """The reduction in two steps, None where it is better in one."""
    if not isinstance(op, Reduce) or _is_part(op.operands[0]) or _stays_whole(op):
        return None
    if any(op.operand_sizes()[axis] == ONE for axis in op.axes):
        return Rewritten("drop axes of size 1", [_without_ones(op, rewriter)])
    runs = _runs(op)
    counts = _counts(op, runs)
    if all(count == ONE for count in counts):
        return None
    x = op.operands[0]
    partial = emit_in_f32(rewriter, x) if op.kind in ("sum", "prod") else x
    dtype = dtype_of(partial.type)
    identity = Constant.emit(rewriter, value=identity_of(op.kind, dtype), dtype=dtype)
    lengths: list[int] = []
    for run, count in reversed(
        list(zip(runs, counts, strict=True))
    ):  # from behind: the axes in front keep their numbers
        partial = Chunk.emit(rewriter, partial, identity, axes=run, count=(count,))
        grown = 2 - len(run)
        lengths = [run[0] + 1, *(length + grown for length in lengths)]
    partial = Reduce.emit(rewriter, partial, axes=tuple(lengths), kind=op.kind)
    chunks = tuple(length - 1 - number for number, length in enumerate(lengths))
    result = Reduce.emit(rewriter, partial, axes=chunks, kind=op.kind)
    if dtype != op.result_dtype:
        result = Convert.emit(rewriter, result, dtype=op.result_dtype)
    return Rewritten("split", [result])


def _without_ones(op: Reduce, rewriter: PatternRewriter) -> SSAValue:
    """The reduction of an operand without the reduced axes that have one element."""
    sizes = op.operand_sizes()
    kept = [axis for axis, size in enumerate(sizes) if axis not in op.axes or size != ONE]
    x = Reshape.emit(rewriter, op.operands[0], sizes=[sizes[axis] for axis in kept])
    axes = tuple(position for position, axis in enumerate(kept) if axis in op.axes)
    return Reduce.emit(rewriter, x, axes=axes, kind=op.kind)


def _is_part(x: SSAValue) -> bool:
    """Whether a value is in chunks, or made of the partial results of chunks."""
    owner = x.owner
    if isinstance(owner, Reduce):
        owner = owner.operands[0].owner
    return isinstance(owner, Chunk)


def _real(sizes: Sequence[Size]) -> list[int]:
    return [axis for axis, size in enumerate(sizes) if size != ONE]


def _stays_whole(op: Reduce) -> bool:
    """Whether one kernel is better: nothing to reduce, rows enough to share, or rows that are read again once they are reduced."""
    real = _real(op.operand_sizes())
    gone = [axis for axis in real if axis in op.axes]
    if not gone:
        return True
    if gone != real[len(real) - len(gone) :]:
        return False
    rows = numel([op.operand_sizes()[axis] for axis in real if axis not in op.axes])
    return rows.constant_or(MOST_ROWS) >= MOST_ROWS or _is_spread_again(op)


def _is_spread_again(op: Reduce) -> bool:
    """Whether elementwise ops lead from the result to a broadcast over the sizes that were reduced."""
    domain = [size for size in op.operand_sizes() if size != ONE]
    seen: set[DhloOp] = set()
    work: list[DhloOp] = [op]
    while work:
        for user in (use.operation for use in work.pop().result.uses):
            if not isinstance(user, DhloOp) or user in seen or len(user.results) != 1:
                continue
            seen.add(user)
            sizes = [size for size in user.result_sizes if size != ONE]
            if isinstance(user, BroadcastInDim) and sizes == domain:
                return True
            if len(sizes) < len(domain) and not isinstance(user, Reduce):
                work.append(user)
    return False


def _runs(op: Reduce) -> list[tuple[int, ...]]:
    """The reduced axes, neighbours together where all that the operand is made of has them as one axis in memory."""
    runs: list[list[int]] = []
    joins = _is_dense(op.operands[0])
    for axis in op.axes:
        if runs and joins and axis == runs[-1][-1] + 1:
            runs[-1].append(axis)
        else:
            runs.append([axis])
    return [tuple(run) for run in runs]


def _is_dense(value: SSAValue) -> bool:
    """Whether elementwise ops compute the value from tensors of its own sizes and from single numbers."""
    sizes = sizes_of(value.type)
    seen: set[SSAValue] = set()
    work = [value]
    while work:
        each = work.pop()  # constants have no axes, reshapes are views of memory or add axes of size 1
        owner = each.owner
        if each in seen or not isinstance(owner, DhloOp) or owner.PLANNED or isinstance(owner, Constant | Reshape):
            continue
        seen.add(each)
        if isinstance(owner, BroadcastInDim) and numel(owner.operand_sizes()) == ONE:
            continue
        if not isinstance(owner, Elementwise) or any(sizes_of(operand.type) != sizes for operand in owner.operands):
            return False
        work.extend(owner.operands)
    return True


def _counts(op: Reduce, runs: Sequence[tuple[int, ...]]) -> list[Size]:
    """How many chunks each run is cut into: together as many as the elements are worth, outer runs first."""
    sizes = op.operand_sizes()
    first = min(axis for run in runs for axis in run)
    wanted = size_min(numel(sizes[first:]) // CHUNK_ELEMENTS, MOST_CHUNKS)
    counts: list[Size] = []
    for number, run in enumerate(runs):
        least = LEAST_LENGTH if number == len(runs) - 1 else 1
        count = size_max(size_min(wanted, numel([sizes[axis] for axis in run]) // least), 1)
        counts.append(count)
        wanted = wanted // count
    return counts


__all__ = ["SplitReductionsPass", "split_reduction"]
