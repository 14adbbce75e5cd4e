"""A graph at given sizes: symbols replaced, types inferred anew; and what moves nothing, as a reshape."""

from __future__ import annotations

from collections.abc import Mapping

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Region, SSAValue
from xdsl.pattern_rewriter import PatternRewriter

from anyshape.dialects.dhlo import BroadcastInDim, Reshape, Transpose
from anyshape.dialects.dhlo.base import DhloOp, function_type
from anyshape.dialects.dhlo.graph import facts_of, only_function, set_facts, set_updates, updates_of
from anyshape.dialects.sizes import Tensor, dtype_of, sizes_of, tensor, without_ones
from anyshape.passes.worklist import Rewritten
from anyshape.symbolic import Facts, Size, SizeLike


def specialised(module: ModuleOp, sizes: Mapping[str, SizeLike], facts: Facts) -> ModuleOp | None:
    """`@main` with every symbol in `sizes` replaced; None where its facts do not follow from `facts` then.

    The graph computes what `module` computes at such sizes. It is not simplified.
    """
    func = only_function(module)
    if not all(facts.prove(relation.substitute(sizes)) is True for relation in facts_of(func).relations()):
        return None
    body = func.body.block
    block = Block(arg_types=[_type(value, sizes) for value in body.args])
    values: dict[SSAValue, SSAValue] = dict(zip(body.args, block.args, strict=True))
    for op in body.ops:
        if isinstance(op, ReturnOp):
            block.add_op(ReturnOp(*(values[value] for value in op.operands)))
            continue
        assert isinstance(op, DhloOp)
        attributes = {
            key: tuple(size.substitute(sizes) for size in value) if key in op.SIZE_ATTRIBUTES else value
            for key, value in op.attribute_values.items()
        }
        copy = type(op).build_from(*(values[value] for value in op.operands), location=op.location, **attributes)
        block.add_op(copy)
        values.update(zip(op.results, copy.results, strict=True))
    returned = body.last_op
    assert returned is not None
    types = function_type([value.type for value in block.args], [values[value].type for value in returned.operands])
    copied = FuncOp(func.sym_name.data, types, Region(block))
    set_facts(copied, facts)
    set_updates(copied, updates_of(func))
    return ModuleOp([copied])


def as_reshape(op: DhloOp, rewriter: PatternRewriter) -> Rewritten | None:
    """A broadcast that repeats nothing, or a transpose that moves axes of size 1 only, as the reshape that it is."""
    if not (isinstance(op, BroadcastInDim | Transpose) and _moves_nothing(op)):
        return None
    return Rewritten("moves nothing", [Reshape.emit(rewriter, op.operands[0], sizes=op.result_sizes)])


def _moves_nothing(op: BroadcastInDim | Transpose) -> bool:
    if isinstance(op, BroadcastInDim):
        return without_ones(op.operand_sizes()) == without_ones(op.result_sizes)
    long = [axis for axis in op.integers("permutation") if op.operand_sizes()[axis] != Size.const(1)]
    return long == sorted(long)


def _type(value: SSAValue, sizes: Mapping[str, SizeLike]) -> Tensor:
    return tensor(dtype_of(value.type), tuple(size.substitute(sizes) for size in sizes_of(value.type)))
