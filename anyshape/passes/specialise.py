"""A graph at given sizes: symbols replaced, types inferred anew."""

from __future__ import annotations

from collections.abc import Mapping

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Region, SSAValue

from anyshape.dialects.dhlo.base import DhloOp, function_type
from anyshape.dialects.dhlo.graph import facts_of, only_function, set_facts
from anyshape.dialects.sizes import Tensor, dtype_of, sizes_of, tensor
from anyshape.symbolic import Facts, SizeLike


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
    return ModuleOp([copied])


def _type(value: SSAValue, sizes: Mapping[str, SizeLike]) -> Tensor:
    return tensor(dtype_of(value.type), tuple(size.substitute(sizes) for size in sizes_of(value.type)))
