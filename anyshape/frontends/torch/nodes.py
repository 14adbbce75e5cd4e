"""The lowering of a graph's nodes, one after another, with a record of those that cannot be lowered."""

# PyTorch is typed in part only.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from torch import fx
from torch.fx.node import map_arg
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Region, SSAValue
from xdsl.utils.exceptions import VerifyException

from anyshape.dialects.dhlo import SizeOf
from anyshape.dialects.dhlo.base import function_type
from anyshape.dialects.dhlo.graph import set_facts, set_updates
from anyshape.dialects.locations import Origin, location_of_origins
from anyshape.frontends.torch.builder import GraphBuilder, Value
from anyshape.frontends.torch.locations import source_line
from anyshape.frontends.torch.lowering import find_lowering
from anyshape.frontends.torch.program import FromConstant, FromInput, FromNumber, FromResult, FromSize, OutputSource
from anyshape.frontends.torch.unsupported import Unsupported
from anyshape.support.errors import DtypeError, UnsupportedOp
from anyshape.symbolic import Facts, Size


@dataclass
class NodeLowering:
    """Lowers nodes in their order.

    Attributes:
        values: what each node stands for.
        failed: nodes that have no value, because they could not be lowered or use one that could not.
        unsupported: why, for each that is itself the cause.
    """

    values: dict[fx.Node, Value] = field(default_factory=dict[fx.Node, Value])
    failed: set[fx.Node] = field(default_factory=set[fx.Node])
    unsupported: list[UnsupportedOp] = field(default_factory=list[UnsupportedOp])

    def lower(self, builder: GraphBuilder, node: fx.Node) -> None:
        """Adds the ops that `node` stands for."""
        lowering = find_lowering(node)
        if lowering is None:
            self.fail(node, str(node.target), "there is no lowering for this op")
            return
        if not self.failed.isdisjoint(node.all_input_nodes):
            self.failed.add(node)
            return
        builder.begin(node)
        args: Any = map_arg(node.args, self.values.__getitem__)
        kwargs: Any = map_arg(node.kwargs, self.values.__getitem__)
        try:
            self.values[node] = lowering(builder, *args, **kwargs)
        except (Unsupported, DtypeError, VerifyException) as error:
            self.fail(node, str(node.target), str(error))

    def fail(self, node: fx.Node, name: str, reason: str) -> None:
        """`node` stays without a value."""
        self.failed.add(node)
        self.unsupported.append(UnsupportedOp(name, reason, source_line(node)))


def output_source(value: Value, results: list[SSAValue], block: Block) -> OutputSource:
    """Where an output comes from; a value that is returned twice is one result."""
    if isinstance(value, Size):
        return FromConstant(value.value) if value.is_constant else FromSize(value)
    if not isinstance(value, SSAValue):
        return FromConstant(value)
    if value in block.args:
        return FromInput(block.args.index(value))
    if value not in results:
        results.append(value)
    return FromResult(results.index(value))


def number_source(builder: GraphBuilder, value: Value, results: list[SSAValue], block: Block) -> OutputSource:
    """Where an output that is a Python number comes from: one that the data say is held by a tensor without axes."""
    if isinstance(value, Size) and value.symbols & builder.names.of_data:
        value = builder.emit(SizeOf, size=value)
    source = output_source(value, results, block)
    return FromNumber(source) if isinstance(source, FromResult | FromInput) else source


def module_of(
    block: Block,
    results: Sequence[SSAValue],
    facts: Facts,
    origins: Mapping[str, Origin],
    updates: Sequence[tuple[int, int]] = (),
) -> ModuleOp:
    """`@main` with this body, returning `results`, located where its facts come from; the block ends here.

    `updates` are (result, argument) pairs: such a result is to lie in the argument's memory.
    """
    block.add_op(ReturnOp(*results))
    type = function_type([argument.type for argument in block.args], [value.type for value in results])
    function = FuncOp("main", type, Region(block))
    set_facts(function, facts)
    set_updates(function, updates)
    function.location = location_of_origins(origins)
    return ModuleOp([function])


def name_hint(node: fx.Node) -> str | None:
    """The node's name, where it is one that the text form of the graph can show."""
    return node.name if SSAValue.is_valid_name(node.name) else None


__all__ = ["NodeLowering", "module_of", "name_hint", "output_source"]
