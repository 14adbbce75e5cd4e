"""The invariants of a graph, and their verifier.

1. Every op of the function's block satisfies its own rule: result types are those that `infer` gives.
2. Every operand is an argument or the result of an earlier op of the same block.
3. Every size symbol, in a type or in an attribute, occurs in an argument's type or is bound by an earlier op.
4. The block ends with `func.return`, whose operands have the function's result types.
5. The facts of the function do not contradict each other.
"""

from __future__ import annotations

from collections.abc import Iterable

from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.utils.exceptions import VerifyException

from anyshape.dialects.dhlo.base import DhloOp
from anyshape.dialects.dhlo.graph import facts_of, only_function
from anyshape.dialects.printing import op_with_neighbours
from anyshape.dialects.sizes import DimsAttr, symbols_of
from anyshape.support.errors import VerifyError
from anyshape.symbolic import ContradictionError

_NEIGHBOURS = 2


def verify_graph(program: ModuleOp | func.FuncOp) -> None:
    """Raise VerifyError, which shows the ops around the fault, unless the program has the invariants of this module's page."""
    function = only_function(program)
    ops = list(function.body.block.ops)
    try:
        facts_of(function)
        bound = set(symbols_of(argument.type for argument in function.body.block.args))
    except (ContradictionError, VerifyException) as error:
        raise VerifyError(str(error), where=f"@{function.sym_name.data}") from error
    defined: set[SSAValue] = set(function.body.block.args)
    for position, op in enumerate(ops):
        _verify_op(ops, position, defined, bound)
        defined.update(op.results)
    if not ops or not isinstance(ops[-1], func.ReturnOp):
        raise VerifyError(
            "the function does not end with func.return", where=op_with_neighbours(ops, len(ops) - 1, _NEIGHBOURS)
        )


def _verify_op(ops: list[Operation], position: int, defined: set[SSAValue], bound: set[str]) -> None:
    op = ops[position]
    for number, operand in enumerate(op.operands):
        if operand not in defined:
            raise VerifyError(
                f"operand {number} of {op.name} is not defined before it",
                where=op_with_neighbours(ops, position, _NEIGHBOURS),
                remedy="insert the op after the one that defines its operand",
            )
    try:
        op.verify()
        if not isinstance(op, DhloOp):
            return
        bound |= op.bound_symbols
        used = symbols_of(result.type for result in op.results) | _attribute_symbols(op.attributes.values())
    except VerifyException as error:
        raise VerifyError(str(error).strip(), where=op_with_neighbours(ops, position, _NEIGHBOURS)) from error
    if not used <= bound:
        raise VerifyError(
            f"{op.name} uses size symbols that nothing binds",
            where=op_with_neighbours(ops, position, _NEIGHBOURS),
            got=", ".join(sorted(used - bound)),
            expected=f"symbols of argument types or of earlier data-dependent ops: {', '.join(sorted(bound)) or 'none'}",
        )


def _attribute_symbols(attributes: Iterable[Attribute]) -> frozenset[str]:
    found: frozenset[str] = frozenset()
    for attribute in attributes:
        if isinstance(attribute, DimsAttr):
            found = found.union(*(size.symbols for size in attribute.data))
    return found


__all__ = ["verify_graph"]
