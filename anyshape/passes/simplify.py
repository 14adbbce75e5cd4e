"""`simplify`: every law of every op, applied from left to right until none applies, on sizes in their simplest form."""

from __future__ import annotations

from collections.abc import Callable, Collection, Container
from dataclasses import dataclass

from xdsl.builder import Builder
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue
from xdsl.pattern_rewriter import PatternRewriter
from xdsl.rewriter import InsertPoint, Rewriter

from anyshape.dialects.dhlo import DhloOp, DynamicUpdateSlice, Reshape
from anyshape.dialects.dhlo.graph import facts_of, updates_of
from anyshape.dialects.dhlo.laws import simplify_op
from anyshape.dialects.sizes import DimsAttr, sizes_of, symbols_of
from anyshape.passes.worklist import Rewrite, RewritePass, Rewritten, functions_of
from anyshape.symbolic import Facts, Size


@dataclass(frozen=True)
class SimplifyPass(RewritePass):
    """Brings sizes into their simplest form by the facts, then applies the ops' laws."""

    name = "simplify"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for func in functions_of(op):
            canonicalise_sizes(func, facts_of(func))
        super().apply(ctx, op)

    def rewrite_with(self, ctx: Context, facts: Facts) -> Rewrite:
        return lambda op, rewriter: apply_law(op, rewriter, facts)


def apply_law(op: DhloOp, rewriter: PatternRewriter, facts: Facts) -> Rewritten | None:
    """The first law of the op that applies."""
    found = simplify_op(op, rewriter, facts)
    if found is None:
        return None
    law, values = found
    return Rewritten(law.text, values)


def canonicalise_sizes(func: FuncOp, facts: Facts) -> None:
    """Make sizes that the facts prove equal the same expression, in attributes and in the types of all results.

    The types of arguments are what callers pass, and stay; where such a size has a simpler form, a reshape, which is free, brings
    the argument to it. So do those of what is written in an argument's memory, since it is the argument. A size is never written in
    symbols that neither it nor an argument has.
    """
    bound = symbols_of(func.body.block.arg_types)
    writers = _writers_in_place(func)

    def simplest(size: Size) -> Size:
        simpler = facts.simplify(size)
        return simpler if simpler.symbols <= bound | size.symbols else size

    retyped: set[SSAValue] = set()
    for argument in func.body.block.args:
        retyped.update(_relabel(argument, simplest, writers, InsertPoint.at_start(func.body.block)))
    for op in func.walk():
        if isinstance(op, DhloOp):
            retyped.update(_retype(op, simplest, retyped))
        if op in writers and op.results:
            retyped.update(_relabel(op.results[0], simplest, writers, InsertPoint.after(op)))
    func.update_function_type()


def _writers_in_place(func: FuncOp) -> set[Operation]:
    """The updates between arguments and the results that lie in their memory, and the return behind them."""
    returned = func.body.block.last_op
    updates = updates_of(func)
    if returned is None or not updates:
        return set()
    writers = {returned}
    for result, _ in updates:
        value = returned.operands[result]
        while isinstance(value.owner, DynamicUpdateSlice):
            writers.add(value.owner)
            value = value.owner.operands[0]
    return writers


def _relabel(
    value: SSAValue, simplest: Callable[[Size], Size], writers: Collection[Operation], place: InsertPoint
) -> list[SSAValue]:
    """Reshape a value to the simplest form of its sizes for all but who writes in its memory; returns what took its place, if any."""
    sizes = sizes_of(value.type)
    target = tuple(map(simplest, sizes))
    uses = [use for use in value.uses if use.operation not in writers or (use.index > 0 and use.operation.results)]
    users = [use.operation for use in uses]
    if target == sizes or all(isinstance(user, Reshape) and user.result_sizes == target for user in users):
        return []
    reshape = Reshape.of(value, sizes=target)
    for use in uses:
        use.operation.operands[use.index] = reshape.result
    Builder(place).insert(reshape)
    return [reshape.result]


def _retype(op: DhloOp, simplest: Callable[[Size], Size], retyped: Container[SSAValue]) -> list[SSAValue]:
    """Simplify the op's size attributes; where they changed, or an operand is `retyped`, infer its results' types again.

    Returns the results that have new types.
    """
    changed = any(operand in retyped for operand in op.operands)
    for key, attribute in op.attributes.items():
        if isinstance(attribute, DimsAttr) and not op.bound_symbols:  # a size that gets its value here stays a symbol
            simpler = DimsAttr(tuple(map(simplest, attribute.data)))
            changed = changed or simpler != attribute
            op.attributes[key] = simpler
    if not changed:
        return []
    inferred = op.infer([value.type for value in op.operands], op.attribute_values)  # pyright: ignore[reportArgumentType]
    results: list[SSAValue] = list(op.results)
    pairs = zip(results, inferred, strict=True)
    return [Rewriter.replace_value_with_new_type(result, type) for result, type in pairs if result.type != type]
