"""Functions of `dhlo` ops: how one is built, and the facts about sizes that it carries."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import TypeVar, cast

from xdsl.builder import Builder
from xdsl.dialects import func
from xdsl.dialects.builtin import ArrayAttr, ModuleOp
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.rewriter import InsertPoint

from anyshape.dialects.dhlo.assembly import Iota
from anyshape.dialects.dhlo.attributes import AttributeValue, attribute_of, value_of
from anyshape.dialects.dhlo.base import DhloOp
from anyshape.dialects.dhlo.constant import Constant
from anyshape.dialects.dtypes import F32, I64, DType
from anyshape.dialects.sizes import RelationAttr, tensor
from anyshape.support.errors import VerifyError
from anyshape.symbolic import Facts, Relation, Size, SizeLike, parse_size

FACTS = "dhlo.facts"
UPDATES = "dhlo.updates"
OpT = TypeVar("OpT", bound=Operation)


def size_from(value: SizeLike | str) -> Size:
    """A size, an int, or the text of a size."""
    return parse_size(value) if isinstance(value, str) else Size.of(value)


class FunctionBuilder:
    """Builds one `func.func` of tensors, op by op.

    `g = FunctionBuilder(); x = g.input("b", 4); f = g.finish(g(Tanh, x))`.
    """

    def __init__(self, name: str = "main", facts: Facts | None = None) -> None:
        self.name = name
        self.facts = facts or Facts()
        self._block = Block()
        self.builder = Builder(InsertPoint.at_end(self._block))

    def input(self, *sizes: SizeLike | str, dtype: DType = F32) -> SSAValue:
        """A new argument with these sizes."""
        return self._block.insert_arg(tensor(dtype, [size_from(size) for size in sizes]), len(self._block.args))

    def add(self, op: OpT) -> OpT:
        return self.builder.insert(op)

    def __call__(self, cls: type[DhloOp], *operands: SSAValue, **attributes: AttributeValue) -> SSAValue:
        """Append an op and return its only result."""
        return cls.emit(self.builder, *operands, **attributes)

    def full(self, value: float | int, *sizes: SizeLike | str, dtype: DType = F32) -> SSAValue:
        """A constant in every element."""
        return self(Constant, value=value, dtype=dtype, sizes=tuple(size_from(size) for size in sizes))

    def iota(self, axis: int, *sizes: SizeLike | str, dtype: DType = I64) -> SSAValue:
        """Positions along an axis."""
        return self(Iota, axis=axis, dtype=dtype, sizes=tuple(size_from(size) for size in sizes))

    def finish(self, *results: SSAValue) -> func.FuncOp:
        """Return these values and make the function."""
        self.builder.insert(func.ReturnOp(*results))
        types = ([argument.type for argument in self._block.args], [result.type for result in results])
        function = func.FuncOp(self.name, types, Region(self._block))
        set_facts(function, self.facts)
        return function


def facts_of(function: func.FuncOp) -> Facts:
    """The facts that the function's `dhlo.facts` states, as a fresh store."""
    stated = function.attributes.get(FACTS)
    relations = cast("ArrayAttr[Attribute]", stated).data if isinstance(stated, ArrayAttr) else ()
    for relation in relations:
        if not isinstance(relation, RelationAttr):
            raise VerifyError(f"{FACTS} holds relations only", where=f"@{function.sym_name.data}", got=relation)
    return _store_of(tuple(cast("RelationAttr", relation).data for relation in relations)).copy()


@lru_cache(maxsize=16)
def _store_of(relations: tuple[Relation, ...]) -> Facts:
    # Every pass asks for the facts of its function, and that none contradicts those before it takes a proof each.
    facts = Facts()
    for relation in relations:
        facts.assume(relation)
    return facts


def set_facts(function: func.FuncOp, facts: Facts) -> None:
    """State these facts on the function, in place of those stated before."""
    relations = [RelationAttr(relation) for relation in facts.relations()]
    function.attributes.pop(FACTS, None)
    if relations:
        function.attributes[FACTS] = ArrayAttr(relations)


def updates_of(function: func.FuncOp) -> list[tuple[int, int]]:
    """(result, argument): which results are to lie in the memory of an argument, that the caller lets the program write."""
    stated = function.attributes.get(UPDATES)
    numbers = value_of(stated) if stated is not None else ()
    return list(zip(numbers[::2], numbers[1::2], strict=True))


def set_updates(function: func.FuncOp, updates: Sequence[tuple[int, int]]) -> None:
    """State (result, argument) pairs on the function, in place of those stated before."""
    function.attributes.pop(UPDATES, None)
    if updates:
        function.attributes[UPDATES] = attribute_of([number for pair in updates for number in pair])


def only_function(program: ModuleOp | func.FuncOp) -> func.FuncOp:
    """The function itself, or the only one in a module; VerifyError where there is none or more than one."""
    if isinstance(program, func.FuncOp):
        return program
    functions = [op for op in program.body.ops if isinstance(op, func.FuncOp)]
    if len(functions) != 1:
        names = ", ".join(f"@{function.sym_name.data}" for function in functions) or "none"
        raise VerifyError("expected a module with one function", got=names)
    return functions[0]


__all__ = [
    "FACTS",
    "UPDATES",
    "FunctionBuilder",
    "facts_of",
    "only_function",
    "set_facts",
    "set_updates",
    "size_from",
    "updates_of",
]
