"""The slow meaning of a program: every op's numpy reference, one after another."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Attribute, SSAValue

from anyshape.dialects.arrays import ConstantStore
from anyshape.dialects.dhlo.base import Array, DhloOp
from anyshape.dialects.dhlo.constant import Weight
from anyshape.dialects.dhlo.graph import facts_of, only_function
from anyshape.dialects.sizes import dtype_of, sizes_of
from anyshape.support.errors import ArgumentError, DtypeError, GuardError, RankError, VerifyError
from anyshape.symbolic import Size, bind_symbols


def evaluate(
    program: ModuleOp | func.FuncOp, inputs: Sequence[Array], store: ConstantStore | None = None
) -> list[Array]:
    """The program's results on these inputs.

    Size symbols get their values from the inputs. `store` holds what `dhlo.weight` names.

    Raises:
        ArgumentError, DtypeError, RankError, GuardError: the inputs do not fit the argument types or the facts.
        VerifyError: an op that has no reference, or a result that does not have its type's sizes and dtype.
    """
    function = only_function(program)
    block = function.body.block
    env = bind_sizes([argument.type for argument in block.args], inputs)
    for relation in facts_of(function).relations():
        if relation.symbols <= env.keys() and not relation.evaluate(env):
            raise GuardError("the input sizes break a fact of the program", got=env, expected=relation)
    values: dict[SSAValue, Array] = dict(zip(block.args, inputs, strict=True))
    for op in block.ops:
        if isinstance(op, func.ReturnOp):
            return [values[operand] for operand in op.operands]
        if not isinstance(op, DhloOp):
            raise VerifyError("only dhlo ops have a reference", where=f"@{function.sym_name.data}", got=op.name)
        for result, array in zip(op.results, run_op(op, [values[v] for v in op.operands], env, store), strict=True):
            values[result] = array
    raise VerifyError("the function does not return", where=f"@{function.sym_name.data}")


def run_op(
    op: DhloOp, operands: Sequence[Array], env: dict[str, int], store: ConstantStore | None = None
) -> Sequence[Array]:
    """One op's results, checked against their types."""
    if isinstance(op, Weight):
        name = op.attribute("name")
        if store is None or name not in store:
            raise VerifyError(
                "a weight is not in the constant store", where=op.name, got=name, remedy="pass its ConstantStore"
            )
        arrays: Sequence[Array] = [store[name]]
    else:
        arrays = op.reference(*operands, env=env)
    for result, array in zip(op.results, arrays, strict=True):
        expected = tuple(size.evaluate(env) for size in sizes_of(result.type))
        if array.shape != expected or array.dtype != dtype_of(result.type).numpy:
            got = f"{array.dtype}{list(array.shape)}"
            raise VerifyError(
                "a reference breaks its type rule", where=op, got=got, expected=f"{result.type} {list(expected)}"
            )
    return arrays


def bind_sizes(types: Sequence[Attribute], inputs: Sequence[Array]) -> dict[str, int]:
    """The value of every symbol in these tensor types, from arrays of those types.

    A symbol is read where it stands alone, then where it is the only unknown in a·symbol + c; every other size is checked.
    """
    if len(types) != len(inputs):
        raise ArgumentError("wrong number of inputs", got=len(inputs), expected=len(types))
    axes: list[tuple[int, int, Size, int]] = []
    for number, (type, array) in enumerate(zip(types, inputs, strict=True)):
        sizes = sizes_of(type)
        if array.dtype != dtype_of(type).numpy:
            raise DtypeError("wrong element type", where=f"input {number}", got=array.dtype, expected=dtype_of(type))
        if array.ndim != len(sizes):
            raise RankError("wrong number of axes", where=f"input {number}", got=array.ndim, expected=len(sizes))
        axes += [(number, axis, *pair) for axis, pair in enumerate(zip(sizes, array.shape, strict=True))]
    env = bind_symbols((size, extent) for _, _, size, extent in axes)
    for _, _, size, extent in axes:
        _solve(size, extent, env)
    for number, axis, size, extent in axes:
        if size.symbols <= env.keys() and size.evaluate(env) != extent:
            where = f"input {number}, axis {axis}"
            raise GuardError("wrong size", where=where, got=extent, expected=f"{size} = {size.evaluate(env)}")
    return env


def _solve(size: Size, extent: int, env: dict[str, int]) -> None:
    """Bind x where `size` is a·x + c for its only unbound symbol x, and a divides what is left."""
    rest = size.substitute(env)
    varying = rest - rest.constant_term
    if len(varying.terms) != 1:
        return
    monomial, coefficient = varying.terms[0]
    if len(monomial) == 1 and monomial[0].kind == "symbol" and (extent - rest.constant_term) % coefficient == 0:
        env[monomial[0].name] = (extent - rest.constant_term) // coefficient


__all__ = ["bind_sizes", "evaluate", "run_op"]
