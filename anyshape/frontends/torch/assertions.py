"""Assertions of the model's about data: a call that breaks one is refused, with the user's line and message."""

# PyTorch is typed in part only.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

import operator
from typing import Any

import torch
from torch import fx
from xdsl.ir import SSAValue

from anyshape.dialects.dhlo import Not
from anyshape.dialects.dhlo.checks import Check
from anyshape.dialects.dtypes import I64
from anyshape.dialects.messages import verbatim
from anyshape.frontends.torch.builder import GraphBuilder, Value, lowers
from anyshape.frontends.torch.elementwise import as_bool
from anyshape.frontends.torch.unsupported import Unsupported


@lowers("aten._assert_async.default", "aten._assert_async.msg")
def lower_assertion(builder: GraphBuilder, condition: SSAValue, message: str = "an assertion of the model's") -> None:
    """The only element of `condition` is not 0"""
    fails = builder.emit(Not, as_bool(builder, builder.reshape(condition, ())))
    builder.emit(Check, builder.convert(fails, I64), error="guard", message=verbatim(message))


def _holds_of_every_bool(condition: fx.Node) -> bool:
    """Whether a condition is one of PyTorch's own, that a bool as a number is 0 or 1."""
    if (condition.target, *condition.args[1:]) not in ((operator.ge, 0), (operator.le, 1)):
        return False
    number = condition.args[0]
    return isinstance(number, fx.Node) and number.target is torch.sym_ite and number.args[1:] == (1, 0)


@lowers("aten._assert_scalar.default")
def lower_assertion_about_sizes(builder: GraphBuilder, condition: Value, message: str = "") -> None:
    """A condition on numbers that the data say; those on sizes of inputs are among the guards of the export."""
    argument: Any = builder.node.args[0]
    value = argument.meta.get("val") if isinstance(argument, fx.Node) else condition
    if not isinstance(value, torch.SymBool):
        return
    if isinstance(condition, SSAValue):
        if not _holds_of_every_bool(argument):
            lower_assertion(builder, condition, message)
        return
    try:
        relation = builder.names.relation(value.node.expr)
    except Unsupported:
        return
    known = {size.as_symbol() for size in builder.read_sizes}
    of_data = frozenset() if relation is None else relation.symbols & builder.names.of_data
    if relation is not None and of_data and of_data <= known:
        builder.require(relation, message)


__all__: list[str] = []
