"""Numbers that a program would compute from constants alone, for whoever must know them while importing: axes, pads, a shape."""

from __future__ import annotations

from xdsl.ir import Block, SSAValue

from anyshape.dialects.dhlo import Array, ConstantStore, DhloOp
from anyshape.dialects.dhlo.interpreter import run_op
from anyshape.dialects.sizes import sizes_of
from anyshape.nn import Tensor
from anyshape.support.errors import AnyshapeError
from anyshape.symbolic import SizeError

_MOST_OPS = 256
_MOST_ELEMENTS = 4096


def constant_elements(tensor: Tensor, store: ConstantStore) -> Array | None:
    """The elements of a tensor that depends on constants alone, by the references of its ops.

    None where an argument or a size of the call says them, or where there is much to compute.
    """
    ops = _ops_behind(tensor.value)
    if ops is None:
        return None
    values: dict[SSAValue, Array] = {}
    try:
        for op in ops:
            results = run_op(op, [values[operand] for operand in op.operands], {}, store)
            values.update(zip(op.results, results, strict=True))
    except (AnyshapeError, SizeError):  # an index outside its axis, say: the call says so
        return None
    return values[tensor.value]


def _ops_behind(value: SSAValue) -> list[DhloOp] | None:
    """The ops that a value depends on, in order; None where these are not few ops on few elements of constants."""
    order: dict[DhloOp, None] = {}
    open_: set[DhloOp] = set()
    stack = [value]
    while stack:
        owner = stack[-1].owner
        if isinstance(owner, Block) or not isinstance(owner, DhloOp) or owner.bound_symbols:
            return None
        if owner in order:
            stack.pop()
        elif owner in open_:
            order[owner] = None
            stack.pop()
        else:
            if len(open_) == _MOST_OPS or not all(map(_is_small, owner.results)):
                return None
            open_.add(owner)
            stack.extend(owner.operands)
    return list(order)


def _is_small(value: SSAValue) -> bool:
    elements = 1
    for size in sizes_of(value.type):
        if not size.is_constant:
            return False
        elements *= size.value
    return elements <= _MOST_ELEMENTS


__all__ = ["constant_elements"]
