"""One `torch.fx` graph of ATen ops, with sizes as inputs where they are needed, as a `dhlo` graph."""

# PyTorch and sympy are typed in part only.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false

from __future__ import annotations

import operator
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import fx
from torch._subclasses.fake_tensor import unset_fake_temporarily
from torch.utils import _pytree as pytree
from xdsl.dialects.builtin import BoolAttr, ModuleOp
from xdsl.ir import Block, BlockArgument, SSAValue

from anyshape.dialects.arrays import ArrayType
from anyshape.dialects.dhlo import ConstantStore, Transpose
from anyshape.dialects.dtypes import U8, DType
from anyshape.dialects.locations import Origin
from anyshape.dialects.sizes import dtype_of, sizes_of, tensor
from anyshape.frontends.torch.builder import GraphBuilder
from anyshape.frontends.torch.dtypes import array_of_tensor, dtype_of_torch
from anyshape.frontends.torch.dynamo.inputs import is_token, is_weight, is_write, unusable_among
from anyshape.frontends.torch.dynamo.strides import Layout, Permuted, Strided, layout_of
from anyshape.frontends.torch.dynamo.views import shared_views
from anyshape.frontends.torch.dynamo.writes import needed_by, updates_between
from anyshape.frontends.torch.guards import assume_all, cancelled_equalities, constant_sizes, guard_relations
from anyshape.frontends.torch.locations import source_line
from anyshape.frontends.torch.nodes import NodeLowering, module_of, name_hint, number_source, output_source
from anyshape.frontends.torch.origins import origins_of_axes
from anyshape.frontends.torch.program import FromConstant, FromInput, FromResult, OutputSource
from anyshape.frontends.torch.sizes import SizeNames, shape_environment
from anyshape.frontends.torch.unsupported import Unsupported
from anyshape.support.errors import DtypeError, UnsupportedOp, UnsupportedOps
from anyshape.symbolic import Facts, Size


@dataclass(frozen=True)
class GraphInput:
    """One tensor argument of `@main`.

    Attributes:
        position: which argument of the fx graph it is.
        sizes: its sizes; a size argument n is an input of n elements that nothing reads.
        is_size: whether it is such.
        length: its length where the fx graph has no argument for it.
        is_element: whether it is a size argument, and the fx graph's argument a tensor whose only element is the size.
    """

    position: int
    name: str
    dtype: DType
    sizes: tuple[Size, ...]
    is_size: bool
    length: int | None = None
    is_element: bool = False


@dataclass(frozen=True)
class GraphProgram:
    """A lowered graph.

    Attributes:
        module: `@main`, from the tensors of `inputs` to the results.
        store: its constants.
        outputs: where each output of the fx graph comes from, and how it lies in memory.
        is_single: whether the fx graph returns its only output as it is, not in a tuple.
        weights: positions of the arguments that are live arrays of the store, in its order.
        written: indices of the inputs that the program writes.
    """

    module: ModuleOp
    store: ConstantStore
    inputs: tuple[GraphInput, ...]
    outputs: tuple[tuple[OutputSource, Layout], ...]
    is_single: bool
    weights: tuple[int, ...] = ()
    written: tuple[int, ...] = ()


class GraphLowering(NodeLowering):
    """Lowers a graph. With `stand_ins`, a node that cannot be lowered becomes an input, so that all such nodes are found.

    Attributes:
        causes: the nodes that `unsupported` is about, in its order.
        crashes: those among them whose lowering raised what it should not, with that.

    Raises:
        UnsupportedOps: without `stand_ins`, at the end, for nodes that cannot be lowered.
    """

    def __init__(self, graph_module: fx.GraphModule, *, stand_ins: bool = False) -> None:
        super().__init__()
        self._graph_module = graph_module
        self._nodes = list(graph_module.graph.nodes)
        self._stand_ins = stand_ins
        self._views = shared_views(graph_module.graph) | _answers(graph_module.graph) if stand_ins else set[fx.Node]()
        self.causes: list[fx.Node] = []
        self.crashes: dict[fx.Node, Exception] = {}
        environment = shape_environment(node.meta.get("val") for node in self._nodes)
        equal, constants = cancelled_equalities(environment), constant_sizes(environment)
        self._names = SizeNames(environment, {}, equal, constants)
        self._environment = environment
        self._block = Block()
        self._weights: dict[fx.Node, int] = {}
        self._specs: list[GraphInput] = []
        self._elements: dict[SSAValue, Size] = {}
        self._updated: dict[SSAValue, SSAValue] = {}

    def run(self) -> GraphProgram | None:
        """The program; with `stand_ins`, None where a node stays with PyTorch."""
        placeholders = [node for node in self._nodes if node.op == "placeholder"]
        self._specs = list(self._inputs(placeholders))
        facts, origins = self._facts({name for spec in self._specs for size in spec.sizes for name in size.symbols})
        store = ConstantStore()
        builder = GraphBuilder(
            self._block, self._names, facts, store, origins=origins, positions=lambda value: self._element(value, facts)
        )
        self._bind_weights(builder)
        for node in self._nodes:
            if node.op == "get_attr":
                self._bind_attribute(builder, node)
            elif node.op not in ("placeholder", "output"):
                self.lower(builder, node)
        if self.unsupported and not self._stand_ins:
            raise UnsupportedOps(self.unsupported)
        if self.unsupported or self._views:
            return None
        results, outputs = self._outputs(builder, facts)
        written = [self._block.args.index(argument) for argument in self._updated]  # pyright: ignore[reportArgumentType]
        module = module_of(
            self._block, [*self._updated.values(), *results], facts, builder.origins, list(enumerate(written))
        )
        is_single = isinstance(self._nodes[-1].args[0], fx.Node)
        return GraphProgram(
            module, store, tuple(self._specs), outputs, is_single, tuple(self._weights.values()), tuple(written)
        )

    @property
    def left_out(self) -> list[fx.Node]:
        """The nodes that stay with PyTorch."""
        rest = (self.failed | self._views).difference(self.causes)
        return [*self.causes, *(node for node in self._nodes if node in rest)]

    @property
    def left_ops(self) -> dict[fx.Node, UnsupportedOp]:
        """Why ops stay with PyTorch; writes to inputs and views of them are no such ops."""
        ops = dict(zip(self.causes, self.unsupported, strict=True))
        reason = "it uses a tensor or a size that only PyTorch has"
        for node in self.left_out:
            if node not in self._views and isinstance(node.meta.get("val"), torch.Tensor):
                ops.setdefault(node, UnsupportedOp(str(node.target), reason, source_line(node)))
        return {node: op for node, op in ops.items() if not is_write(node) and node.target is not operator.getitem}

    def lower(self, builder: GraphBuilder, node: fx.Node) -> None:
        if node in self._views:
            self._replace(node)
            return
        reason = unusable_among(node.meta.get("val"))
        if reason is not None:
            self.fail(node, str(node.target), f"its result is {reason}")
            return
        try:
            if is_write(node):
                self._write(node)
                return
            super().lower(builder, node)
        except Exception as error:  # a mistake of one lowering costs no other op
            self.crashes[node] = error
            self.fail(node, str(node.target), f"its lowering failed: {type(error).__name__}: {error}")

    def _write(self, node: fx.Node) -> None:
        """A write to an input, in its own memory where the program can do that; else PyTorch makes it when the program has run."""
        target, source = node.args
        assert isinstance(target, fx.Node) and isinstance(source, fx.Node)
        argument, value = (self.values.get(each) for each in (target, source))
        try:
            if not (isinstance(argument, SSAValue) and isinstance(value, SSAValue)):
                raise Unsupported("a write of what has no lowering")
            for update in updates_between(argument, value, self._needed()):
                update.attributes["in_place"] = BoolAttr.from_bool(True)
        except Unsupported as error:
            self.fail(node, str(node.target), str(error))
            return
        self._updated[argument] = self.values[node] = value

    def _needed(self) -> set[SSAValue]:
        """The values that are written, returned, or used by nodes that stay with PyTorch."""
        users = (self._nodes[-1], *self.left_out, *filter(is_write, self._nodes))
        leaves = pytree.tree_leaves([self.values.get(node) for node in needed_by(users)])
        return {leaf for leaf in leaves if isinstance(leaf, SSAValue)}

    def _element(self, value: SSAValue, facts: Facts) -> Size | None:
        """The only element of a tensor argument as a size, for which there is an argument more."""
        if value in self._elements:
            return self._elements[value]
        if not isinstance(value, BlockArgument) or not dtype_of(value.type).is_integer:
            return None
        if any(size != Size.const(1) for size in sizes_of(value.type)):
            return None
        number = len(self._elements)
        self._elements[value] = size = Size.symbol(f"element{number}")
        facts.declare(f"element{number}", lo=0)
        if value.index < len(self._specs):  # else a stand-in, and the graph is not compiled as it is
            position = self._specs[value.index].position
            spec = GraphInput(position, f"element{number}", U8, (size,), True, is_element=True)
            self._argument(spec)
            self._specs.append(spec)
        return size

    def fail(self, node: fx.Node, name: str, reason: str) -> None:
        super().fail(node, name, reason)
        self.causes.append(node)
        if self._stand_ins:
            self._replace(node)

    def _replace(self, node: fx.Node) -> None:
        """Goes on as if the node were an input."""
        try:
            self.values[node] = self._stand_in(node.meta.get("val"))
            self.failed.discard(node)
        except (DtypeError, Unsupported):
            self.failed.add(node)  # nothing can use it: its users cannot be lowered either

    def _stand_in(self, value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            type = tensor(dtype_of_torch(value.dtype), self._names.sizes(value.shape))
            return self._block.insert_arg(type, len(self._block.args))
        if isinstance(value, torch.SymInt):
            return self._names.size(value)
        if isinstance(value, list | tuple):
            return tuple(self._stand_in(part) for part in value)
        return value

    def _inputs(self, placeholders: Sequence[fx.Node]) -> Iterator[GraphInput]:
        bound = {
            symbol
            for node in placeholders
            if isinstance(node.meta.get("val"), torch.Tensor) and node.users
            for symbol in self._symbols_of_axes(node)
        }
        for position, node in enumerate(placeholders):
            value = node.meta.get("val")
            if isinstance(value, torch.Tensor):
                if not node.users:
                    continue
                if is_token(node):
                    self.values[node] = None
                    continue
                if is_weight(node):
                    self._weights[node] = position
                    continue
                try:
                    spec = GraphInput(
                        position, node.name, dtype_of_torch(value.dtype), self._names.sizes(value.shape), False
                    )
                except (DtypeError, Unsupported) as error:
                    self.fail(node, node.name, str(error))
                    continue
                self.values[node] = self._argument(spec)
                self.values[node].name_hint = name_hint(node)
                yield spec
            elif isinstance(value, torch.SymInt):
                self.values[node] = size = self._names.size(value)
                symbol = size.as_symbol()
                if symbol is not None and symbol not in bound:
                    bound.add(symbol)
                    spec = GraphInput(position, node.name, U8, (size,), True)
                    self._argument(spec)
                    yield spec
            else:
                self.values[node] = value

    def _symbols_of_axes(self, node: fx.Node) -> Iterator[str]:
        """The sizes that a tensor input gives."""
        try:
            sizes = self._names.sizes(node.meta["val"].shape)
        except Unsupported:
            return
        yield from (symbol for symbol in (size.as_symbol() for size in sizes) if symbol is not None)

    def _argument(self, spec: GraphInput) -> SSAValue:
        return self._block.insert_arg(tensor(spec.dtype, spec.sizes), len(self._block.args))

    def _facts(self, bound: set[str]) -> tuple[Facts, dict[str, Origin]]:
        """What the guards say of sizes that the inputs bind, and who asked for it: the others are none of this graph's."""
        facts = Facts()
        for symbol in sorted(bound):
            facts.declare(symbol, lo=0)
        try:
            conditions = list(guard_relations(self._environment, self._names, ()))
        except Unsupported:
            conditions = []  # a guard that sizes cannot say: Dynamo checks it before the graph is called
        values = ((node.name, node.meta.get("val")) for node in self._nodes if node.op == "placeholder")
        axes = ((name, value) for name, value in values if isinstance(value, torch.Tensor))
        origins = origins_of_axes(self._environment, axes, {})
        return facts, origins | assume_all(facts, (each for each in conditions if each[0].symbols <= bound))

    def _bind_weights(self, builder: GraphBuilder) -> None:
        """Parameters and buffers stay the user's: they are named by their order, not by what they hold."""
        for number, node in enumerate(list(self._weights)):
            value = node.meta["val"]
            try:
                dtype = dtype_of_torch(value.dtype)
            except DtypeError as error:
                self.fail(node, node.name, str(error))
                continue
            builder.begin(node)
            name = builder.store.add_live(str(number), ArrayType(np.dtype(dtype.numpy), tuple(value.shape)))
            self.values[node] = builder.stored_weight(name, dtype)

    def _bind_attribute(self, builder: GraphBuilder, node: fx.Node) -> None:
        value: Any = self._graph_module
        for name in str(node.target).split("."):
            value = getattr(value, name)
        if not isinstance(value, torch.Tensor):
            self.fail(node, str(node.target), "only tensors can be constants of a program")
            return
        builder.begin(node)
        try:
            with unset_fake_temporarily():  # AOTAutograd compiles in the mode in which tensors have no elements
                array = array_of_tensor(value)
            self.values[node] = builder.weight(array, dtype_of_torch(value.dtype))
        except DtypeError as error:
            self.fail(node, str(node.target), str(error))

    def _outputs(
        self, builder: GraphBuilder, facts: Facts
    ) -> tuple[list[SSAValue], tuple[tuple[OutputSource, Layout], ...]]:
        output = self._nodes[-1]
        results: list[SSAValue] = []
        outputs: list[tuple[OutputSource, Layout]] = []
        returned = output.args[0]
        owners: dict[OutputSource, fx.Node] = {}
        made: dict[fx.Node, tuple[OutputSource, Layout]] = {}
        for node in returned if isinstance(returned, list | tuple) else (returned,):
            if not isinstance(node, fx.Node):
                outputs.append((FromConstant(node), None))
                continue
            if node in made:
                outputs.append(made[node])
                continue
            value = self.values[node]
            if value is None:
                outputs.append((FromConstant(None), None))
                continue
            if isinstance(value, list | tuple):
                raise Unsupported(f"{node.name} is several values, and a result is one")
            layout: Layout = None
            if isinstance(node.meta["val"], torch.SymInt | torch.SymFloat | torch.SymBool):
                outputs.append((number_source(builder, value, results, self._block), None))
                continue
            if isinstance(value, SSAValue) and value not in self._block.args:
                layout = layout_of(node.meta["val"], self._names, facts)
                if isinstance(layout, Permuted):
                    builder.begin(node)
                    value = builder.emit(Transpose, value, permutation=layout.order)
            source = output_source(value, results, self._block)
            is_copy = isinstance(source, FromInput) and node.op != "placeholder"
            if is_copy or (isinstance(source, FromResult) and owners.setdefault(source, node) is not node):
                fake = node.meta["val"]  # the elements of an input, or of another result, in memory of their own
                layout = Strided(self._names.sizes(fake.shape), self._names.sizes(fake.stride()))
            made[node] = (source, layout)
            outputs.append(made[node])
        return results, tuple(outputs)


def _answers(graph: fx.Graph) -> set[fx.Node]:
    """Comparisons of sizes that are results: PyTorch computes them, at no cost."""
    results = graph.output_node().all_input_nodes
    return {node for node in results if isinstance(node.meta.get("val"), torch.SymBool)}


__all__ = ["GraphInput", "GraphLowering", "GraphProgram"]
