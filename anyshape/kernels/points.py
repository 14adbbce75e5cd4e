"""`PlanPoints`: a group's values, element by element, as the body of a `tile` kernel.

Evaluation pulls: the element of a value at index values is computed from its operands' elements, each at most once in a
scope. A scope is the body of an open `parallel`, `lanes`, `loop`, `dot` or epilogue; what depends only on an outer scope's indices is
computed there, ahead of the loop that is open in it. A reduction becomes a loop of its own at the outermost scope that it can live in.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TypeGuard

from xdsl.builder import Builder
from xdsl.ir import Block, Operation, OpResult, SSAValue
from xdsl.rewriter import InsertPoint

from anyshape.dialects.dhlo import DhloOp, DotGeneral, Reduce, Scan
from anyshape.dialects.dhlo.parts import AxisPart
from anyshape.dialects.dhlo.windows import WindowsFamily
from anyshape.dialects.scalars import Scalars
from anyshape.dialects.sizes import dtype_of, sizes_of
from anyshape.dialects.tile import (
    CheckOp,
    DotOp,
    LanesOp,
    LoadOp,
    LoopOp,
    PrefixOp,
    ScratchOp,
    SizeOp,
    StoreOp,
    YieldOp,
)
from anyshape.fusion.roles import is_elementwise, is_scan, real_axes, reduced_axes
from anyshape.symbolic import Size, SizeLike

At = tuple[SSAValue, ...]


@dataclass(eq=False)
class Scope:
    """An open region: its block, the loop open in it (if any), and the elements computed so far."""

    block: Block
    inner: Operation | None = None
    elements: dict[tuple[SSAValue, At], SSAValue] = field(default_factory=dict[tuple[SSAValue, At], SSAValue])
    sizes: dict[Size, SSAValue] = field(default_factory=dict[Size, SSAValue])

    @property
    def insertion(self) -> InsertPoint:
        return InsertPoint.at_end(self.block) if self.inner is None else InsertPoint.before(self.inner)


@dataclass(eq=False)
class KeptRow:
    """A value of every lane kept from one pass over a row to the next: `scratch[lane]` at the row's indices.

    The first pass that computes the value at its own lanes writes the row; later passes may read it at any lane.
    """

    scratch: ScratchOp
    written_in: Block | None = None


class PlanPoints:
    """Implements `dialects.dhlo.base.Points` while a kernel body is built."""

    def __init__(self, buffers: Mapping[SSAValue, SSAValue], sites: Mapping[Operation, int]) -> None:
        """`buffers`: the kernel buffer of each group argument; `sites`: the error site of ops that check indices."""
        self._buffers = buffers
        self._sites = sites
        self._scopes: list[Scope] = []
        self._guards: list[SSAValue] = []
        self._ops: list[DhloOp] = []
        self.kept: dict[SSAValue, KeptRow] = {}
        self.row: At = ()
        self.parts: dict[SSAValue, AxisPart] = {}
        self.given: dict[SSAValue, SSAValue] = {}
        """Values known at the current point of an epilogue: the product itself."""

    # -- scopes ---------------------------------------------------------------------------------------------------

    @contextmanager
    def scope(self, block: Block) -> Generator[None]:
        """Everything inside is appended to `block`."""
        if self._scopes:
            self._scopes[-1].inner = block.parent_op()
        self._scopes.append(Scope(block))
        yield
        self._scopes.pop()
        if self._scopes:
            self._scopes[-1].inner = None

    @contextmanager
    def _at_depth(self, depth: int) -> Generator[None]:
        hidden = self._scopes[depth + 1 :]
        del self._scopes[depth + 1 :]
        inner = self._scopes[-1].inner
        yield
        self._scopes[-1].inner = inner
        self._scopes.extend(hidden)

    def _depth_of(self, value: SSAValue) -> int:
        owner = value.owner
        block = owner if isinstance(owner, Block) else owner.parent
        for depth, scope in enumerate(self._scopes):
            if scope.block is block:
                return depth
        return len(self._scopes) - 1

    def append(self, op: Operation) -> Operation:
        """Insert an op at the current point."""
        Builder(self._scopes[-1].insertion).insert(op)
        return op

    # -- the Points protocol --------------------------------------------------------------------------------------

    @property
    def scalars(self) -> Scalars:
        return Scalars(Builder(self._scopes[-1].insertion))

    def size(self, size: SizeLike) -> SSAValue:
        expression = Size.of(size)
        with self._at_depth(0):
            known = self._scopes[0].sizes
            if expression not in known:
                known[expression] = self.append(SizeOp(expression)).results[0]
            return known[expression]

    @contextmanager
    def guarded(self, condition: SSAValue) -> Generator[None]:
        outer = self._guard
        self._guards.append(condition if outer is None else self.scalars.logical_and(outer, condition))
        hidden = self._scopes[-1].elements
        self._scopes[-1].elements = {}  # what is read under a guard is not valid outside
        yield
        self._scopes[-1].elements = hidden
        self._guards.pop()

    def part(self, index: SSAValue) -> AxisPart | None:
        """What the loops around say of an index: the part of a padded axis that they walk, None where all of it."""
        return self.parts.get(index)

    def check_index(self, index: SSAValue, bound: Size) -> SSAValue:
        site = self._sites[self._ops[-1]]
        return self.append(CheckOp(index, bound, site, self._guard)).results[0]

    @property
    def _guard(self) -> SSAValue | None:
        """What says whether the element that is computed here is one at all."""
        return self._guards[-1] if self._guards else None

    def operand(self, index: int, at: Sequence[SSAValue]) -> SSAValue:
        return self.evaluate(self._ops[-1].operands[index], tuple(at))

    # -- evaluation -----------------------------------------------------------------------------------------------

    def evaluate(self, value: SSAValue, at: At) -> SSAValue:
        """The element of `value` at these indices."""
        if value in self.given:
            return self.given[value]
        if self._guards:
            return self._here(value, at)
        depth = max((self._depth_of(index) for index in at), default=0)
        if depth < len(self._scopes) - 1:
            with self._at_depth(depth):
                return self._here(value, at)
        return self._here(value, at)

    def _here(self, value: SSAValue, at: At) -> SSAValue:
        elements = self._scopes[-1].elements
        found = elements.get((value, at))
        if found is None:
            found = elements[value, at] = self._kept_or_computed(value, at)
        return found

    def _kept_or_computed(self, value: SSAValue, at: At) -> SSAValue:
        row = self.kept.get(value)
        real = tuple(at[axis] for axis in real_axes(sizes_of(value.type)))
        if row is None or self._guards or real[:-1] != self.row:
            return self._computed(value, at)
        scope, buffer = self._scopes[-1], row.scratch.result
        if row.written_in is None and isinstance(scope.block.parent_op(), LanesOp) and real[-1] is scope.block.args[0]:
            element = self._computed(value, at)
            self.append(StoreOp(element, buffer, [real[-1]]))
            row.written_in = scope.block
            return element
        if row.written_in is None or any(scope.block is row.written_in for scope in self._scopes):
            return self._computed(value, at)  # not all of the row is written yet
        return self.append(LoadOp(buffer, [real[-1]])).results[0]

    def _computed(self, value: SSAValue, at: At) -> SSAValue:
        owner = value.owner
        if isinstance(owner, Block):
            return self.append(LoadOp(self._buffers[value], at, self._guard)).results[0]
        assert isinstance(owner, DhloOp)
        if isinstance(owner, Reduce):
            return self._reduced(owner, at)
        if isinstance(owner, DotGeneral):
            return self._dotted(owner, at)
        if isinstance(owner, Scan):
            return self._scanned(owner, at)
        self._compute_operands_first(owner, at)
        return self._element(owner, at)

    def _element(self, op: DhloOp, at: At) -> SSAValue:
        self._ops.append(op)
        element = op.element(self, at)
        self._ops.pop()
        return element

    def _compute_operands_first(self, op: DhloOp, at: At) -> None:
        """Compute what a chain of elementwise ops is made of from its far end, so that no chain is too long to recurse."""
        work = [(operand, False) for operand in reversed(op.operands)] if is_elementwise(op) else []
        while work:
            value, ready = work.pop()
            if ready:
                self.evaluate(value, at)
            elif self._is_pending(value, at):
                work.append((value, True))
                work.extend((operand, False) for operand in reversed(value.owner.operands))

    def _is_pending(self, value: SSAValue, at: At) -> TypeGuard[OpResult]:
        """Whether `value` is an elementwise op's, not computed yet at these indices of the open scope."""
        known = (value, at) in self._scopes[-1].elements or value in self.given or value in self.kept
        return not known and isinstance(value.owner, Operation) and is_elementwise(value.owner)

    def with_ones(self, value: SSAValue, at: At) -> At:
        """The indices of `value` from those of its axes that are not of size 1; the others are at 0."""
        rest = iter(at)
        return tuple(self.size(0) if size == Size.const(1) else next(rest) for size in sizes_of(value.type))

    def _reduced(self, op: Reduce, at: At) -> SSAValue:
        """Loops over the reduced axes; the innermost runs in lanes where no lanes are open and it is the last axis.

        Windows are small: there the lanes are around the loops, so that they are folded once and not for each row of a window.
        """
        axes = reduced_axes(op)
        sizes = op.operand_sizes()
        kind = _tile_kind(op)
        kept = iter(at)
        ones = set(op.attribute("axes")) - set(axes)
        indices: list[SSAValue | None] = [
            self.size(0) if axis in ones else None if axis in axes else next(kept) for axis in range(len(sizes))
        ]
        last = real_axes(sizes)[-1] if axes else None
        free = not any(isinstance(scope.block.parent_op(), LanesOp) for scope in self._scopes) and last in axes
        if free and len(axes) > 1 and _reads_windows(op.operands[0]):
            axes = (axes[-1], *axes[:-1])

        def nest(rest: Sequence[int]) -> SSAValue:
            if not rest:
                return self.evaluate(op.operands[0], tuple(index for index in indices if index is not None))
            axis = rest[0]
            in_lanes = free and axis == last
            loop = (LanesOp if in_lanes else LoopOp)(sizes[axis], [kind], [dtype_of(op.operands[0].type).scalar])
            self.append(loop)
            with self.scope(loop.body.block):
                indices[axis] = loop.index
                self.append(YieldOp(nest(rest[1:])))
            return loop.results[0]

        return nest(axes)

    def _scanned(self, op: Scan, at: At) -> SSAValue:
        """The prefix at a point of the nest, inside the axis that is scanned."""
        element = self.evaluate(op.operands[0], at)
        if not is_scan(op):
            return element
        dtype, accumulator = op.result_dtype, op.accumulator
        prefix = self.append(PrefixOp(_tile_kind(op), self.scalars.convert(element, dtype, accumulator)))
        return self.scalars.convert(prefix.results[0], accumulator, dtype)

    def _dotted(self, op: DotGeneral, at: At) -> SSAValue:
        """Loops over the contracted axes, the last as `tile.dot` where products are floats."""
        lhs_contract: tuple[int, ...] = op.attribute("lhs_contract")
        rhs_contract: tuple[int, ...] = op.attribute("rhs_contract")
        lhs_batch: tuple[int, ...] = op.attribute("lhs_batch")
        rhs_batch: tuple[int, ...] = op.attribute("rhs_batch")
        sides: list[dict[int, SSAValue]] = [dict(zip(axes, at, strict=False)) for axes in (lhs_batch, rhs_batch)]
        free = iter(at[len(lhs_batch) :])
        for side, contract, indices in ((0, lhs_contract, sides[0]), (1, rhs_contract, sides[1])):
            for axis in range(len(op.operand_sizes(side))):
                if axis not in contract and axis not in indices:
                    indices[axis] = next(free)
        extents = [op.operand_sizes(0)[axis] for axis in lhs_contract]
        element = dtype_of(op.result.type)

        def factors() -> tuple[SSAValue, SSAValue]:
            lhs, rhs = (
                self.scalars.convert(
                    self.evaluate(op.operands[side], tuple(indices[axis] for axis in sorted(indices))),
                    op.operand_dtype(side),
                    element,
                )
                for side, indices in enumerate(sides)
            )
            return lhs, rhs

        def nest(depth: int) -> SSAValue:
            if depth == len(extents):
                return self.scalars.mul(*factors())
            last = depth == len(extents) - 1 and element.is_float
            loop = DotOp(extents[depth], element.scalar) if last else LoopOp(extents[depth], ["sum"], [element.scalar])
            self.append(loop)
            with self.scope(loop.body.block):
                sides[0][lhs_contract[depth]] = sides[1][rhs_contract[depth]] = loop.index
                self.append(YieldOp(*factors()) if last else YieldOp(nest(depth + 1)))
            return loop.results[0]

        return nest(0)


def _reads_windows(value: SSAValue) -> bool:
    """Whether a value is made of windows, point by point."""
    work, seen = [value], set[SSAValue]()
    while work:
        owner = work.pop().owner
        if isinstance(owner, WindowsFamily):
            return True
        if isinstance(owner, Operation) and is_elementwise(owner):
            work.extend(operand for operand in owner.operands if operand not in seen)
            seen.update(owner.operands)
    return False


def _tile_kind(op: Reduce | Scan) -> str:
    """The reduction of `tile` that a reduction or a scan folds by: extrema of unsigned integers have kinds of their own."""
    kind: str = op.attribute("kind")
    dtype = dtype_of(op.operands[0].type)
    return f"u{kind}" if kind in ("max", "min") and dtype.is_unsigned and not dtype.is_bool else kind
