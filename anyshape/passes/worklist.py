"""The driver of rewriting passes: a worklist of ops, a budget, and source locations carried to new ops."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from xdsl.context import Context
from xdsl.dialects.builtin import LocationAttr, ModuleOp, UnknownLoc
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter
from xdsl.rewriter import InsertPoint

from anyshape.dialects.dhlo import DhloOp
from anyshape.dialects.dhlo.graph import facts_of
from anyshape.support.errors import AnyshapeError, VerifyError
from anyshape.symbolic import Facts

REWRITES_PER_OP = 64
"""Rewrites allowed for each op that a function had at the start; passes that end need a few."""


class RewriteBudgetError(AnyshapeError, RuntimeError):
    """A pass rewrote far more often than its program has ops: some of its rules undo each other."""


@dataclass(frozen=True)
class Rewritten:
    """`values` take the place of an op's results, in order; `rule` names what was done, for counts and errors."""

    rule: str
    values: Sequence[SSAValue]


Rewrite: TypeAlias = Callable[[DhloOp, PatternRewriter], Rewritten | None]


@dataclass(frozen=True)
class RewritePass(ModulePass, ABC):
    """A pass that replaces one op at a time, until none of its rules applies to any op."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for func in functions_of(op):
            rewrite_until_stable(func, self.name, self.rewrite_with(ctx, facts_of(func)))

    @abstractmethod
    def rewrite_with(self, ctx: Context, facts: Facts) -> Rewrite:
        """The rewrite of one op. New ops go to the rewriter's insertion point, before the op, which is left in place."""


def functions_of(module: ModuleOp) -> list[FuncOp]:
    """The functions of a module that have a body."""
    return [op for op in module.body.block.ops if isinstance(op, FuncOp) and not op.is_declaration]


def rewrite_until_stable(func: FuncOp, pass_name: str, rewrite: Rewrite) -> Counter[str]:
    """Apply `rewrite` to every `dhlo` op of `func` until it applies nowhere; returns how often each rule did.

    Ops are visited in program order; after a rewrite, again the new ops, the users of what changed and the owners of operands
    that lost a use. Ops without users are erased when they are met.

    Raises:
        RewriteBudgetError: the pass does not come to an end.
        VerifyError: a rewrite gave values of other types than those they replace.
    """
    ops = [op for op in func.walk() if isinstance(op, DhloOp)]
    worklist = _Worklist(ops)
    budget = REWRITES_PER_OP * (len(ops) + 1)
    rules: list[str] = []
    rewriter = _Rewriter(worklist, InsertPoint.at_start(func.body.block))
    while (op := worklist.pop()) is not None:
        if not isinstance(op, DhloOp) or op.parent is None:
            continue
        if not any(result.uses for result in op.results) and not op.has_effect:
            worklist.erase(op)
            continue
        done = rewrite(op, rewriter.at(op))
        if done is None:
            continue
        rules.append(f"{op.name}: {done.rule}")
        if len(rules) > budget:
            raise _over_budget(pass_name, budget, rules)
        _check_types(pass_name, op, done)
        worklist.replace(op, done.values)
    return Counter(rules)


@dataclass
class _Worklist:
    """Ops to visit, first in first out, each at most once at a time."""

    start: Iterable[Operation]
    _queue: deque[Operation] = field(init=False)
    _waiting: set[Operation] = field(init=False)

    def __post_init__(self) -> None:
        self._queue = deque(self.start)
        self._waiting = set(self._queue)

    def push(self, op: Operation | object) -> None:
        if isinstance(op, Operation) and op not in self._waiting:
            self._waiting.add(op)
            self._queue.append(op)

    def pop(self) -> Operation | None:
        if not self._queue:
            return None
        op = self._queue.popleft()
        self._waiting.discard(op)
        return op

    def replace(self, op: Operation, values: Sequence[SSAValue]) -> None:
        """Put `values` in the place of the op's results, and erase the op."""
        for result, value in zip(op.results, values, strict=True):
            for use in result.uses:
                self.push(use.operation)
            if value.name_hint is None:
                value.name_hint = result.name_hint
            result.replace_all_uses_with(value)
        self.erase(op)

    def erase(self, op: Operation) -> None:
        owners = [operand.owner for operand in op.operands]
        op.detach()
        op.erase()
        for owner in owners:
            self.push(owner)


class _Rewriter(PatternRewriter):
    """Inserts before the op that is visited; new ops have its source location and are visited too."""

    def __init__(self, worklist: _Worklist, place: InsertPoint) -> None:
        super().__init__(place)
        self._worklist = worklist
        self._location: LocationAttr = UnknownLoc()
        self.operation_insertion_handler.append(self._inserted)

    def at(self, op: Operation) -> PatternRewriter:
        """The same rewriter, before `op`: most ops are left as they are, and making one costs more than looking at them."""
        self.insertion_point, self._location = InsertPoint.before(op), op.location
        return self

    def _inserted(self, new: Operation) -> None:
        if isinstance(new.location, UnknownLoc):
            new.location = self._location
        self._worklist.push(new)


def _check_types(pass_name: str, op: Operation, done: Rewritten) -> None:
    before, after = list(op.result_types), [value.type for value in done.values]
    if before != after:
        raise VerifyError(
            f"pass {pass_name} gave values of other types than those they replace",
            where=f"{op.name} at {op.location}, rule '{done.rule}'",
            got=", ".join(map(str, after)),
            expected=", ".join(map(str, before)),
        )


def _over_budget(pass_name: str, budget: int, rules: Sequence[str]) -> RewriteBudgetError:
    return RewriteBudgetError(
        f"pass {pass_name} does not come to an end",
        got=f"more than {budget} rewrites; the last ones:\n" + "\n".join(rules[-6:]),
        expected="rules that never undo each other",
    )
