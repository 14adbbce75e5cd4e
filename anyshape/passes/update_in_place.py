"""`update-in-place`: results that the caller wants in an argument's own memory are computed there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from xdsl.context import Context
from xdsl.dialects.builtin import BoolAttr, ModuleOp
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import BlockArgument, Operation, SSAValue
from xdsl.passes import ModulePass

from anyshape.dialects.dhlo import DynamicUpdateSlice
from anyshape.dialects.dhlo.graph import updates_of
from anyshape.passes.worklist import functions_of
from anyshape.support.errors import VerifyError


@dataclass(frozen=True)
class UpdateInPlacePass(ModulePass):
    """dynamic_update_slice on the way from an argument to the result that updates it -> the same with `in_place`.

    Its kernel then writes the replaced part only. What an update replaces must not be read afterwards, so its first operand has no
    later reader.
    """

    name: ClassVar[str] = "update-in-place"  # pyright: ignore[reportIncompatibleVariableOverride]

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for func in functions_of(op):
            returned = func.body.block.last_op
            for result, argument in updates_of(func):
                assert isinstance(returned, ReturnOp)
                for update in chain_of(func, returned.operands[result], func.body.block.args[argument]):
                    _check_readers(update, returned, result)
                    update.attributes["in_place"] = BoolAttr.from_bool(True)


def chain_of(func: FuncOp, result: SSAValue, argument: BlockArgument) -> Sequence[DynamicUpdateSlice]:
    """The updates that make the result of the argument, the last first.

    Raises:
        VerifyError: something else makes it.
    """
    chain: list[DynamicUpdateSlice] = []
    while isinstance(result.owner, DynamicUpdateSlice):
        chain.append(result.owner)
        result = result.owner.operands[0]
    if result is not argument:
        raise VerifyError(
            "a result that updates an argument in place is not made of it by dynamic_update_slice",
            where=f"@{func.sym_name.data}", got=result.owner, expected=f"argument {argument.index}",
        )  # fmt: skip
    return chain


def _check_readers(update: DynamicUpdateSlice, returned: Operation, result: int) -> None:
    """VerifyError where the tensor as it was before the update is read behind it."""
    others = [use.operation for use in update.operands[0].uses if use.operation is not update]
    if not others:
        return
    order = {op: number for number, op in enumerate(update.parent.ops)} if update.parent else {}
    late = [other for other in others if order[other] > order[update]]
    if late:
        raise VerifyError(
            "a tensor is read after it was updated in place",
            where=f"result {result}", got=late[0], expected="readers of what the update returns, or ahead of it",
        )  # fmt: skip


__all__ = ["UpdateInPlacePass", "chain_of"]
