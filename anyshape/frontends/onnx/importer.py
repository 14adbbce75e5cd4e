"""An ONNX model as a `dhlo` graph: one lowering for each node, in order."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeAlias

import numpy as np
from onnx import AttributeProto, FunctionProto, GraphProto, NodeProto, TensorProto, ValueInfoProto, defs
from xdsl.dialects.builtin import ModuleOp, NameLoc, StringAttr, UnknownLoc
from xdsl.utils.exceptions import VerifyException

from anyshape.dialects.dhlo import ConstantStore
from anyshape.dialects.dhlo.graph import only_function
from anyshape.dialects.dtypes import I64, DType
from anyshape.dialects.locations import location_of_origins, location_text, origins_in
from anyshape.frontends.onnx.builder import FOLDED_ELEMENTS, SEED_NAME, GraphBuilder, NodeState
from anyshape.frontends.onnx.dtypes import code_of_numpy, type_name
from anyshape.frontends.onnx.functions import function_body
from anyshape.frontends.onnx.inputs import DynamicSizes, InputSpec, input_specs
from anyshape.frontends.onnx.loading import LoadedModel, domain_of, node_text, subgraphs_of
from anyshape.frontends.onnx.lowering import find_fold, find_lowering
from anyshape.frontends.onnx.refusals import Malformed, Unsupported
from anyshape.frontends.onnx.registry import STANDARD
from anyshape.frontends.onnx.signatures import applied
from anyshape.frontends.onnx.storage import elements_of, lower_stored, stored
from anyshape.frontends.onnx.values import Anything, Known, Stored, Value, sizes_text
from anyshape.nn import Graph, Tensor
from anyshape.support.errors import (
    AnyshapeError,
    ArgumentError,
    CompileError,
    FileFormatError,
    UnsupportedOp,
    UnsupportedOps,
)
from anyshape.symbolic import SizeError, SizeOverflowError

Scope: TypeAlias = MutableMapping[str, Anything]
Attributes: TypeAlias = Mapping[str, AttributeProto]


@dataclass(frozen=True)
class OutputSpec:
    """An output of the model.

    Attributes:
        dtype: of the program's result.
        numpy: the element type where programs lack it and hold it in `dtype`.
    """

    name: str
    dtype: DType
    numpy: np.dtype[np.generic] | None = None


@dataclass(frozen=True)
class ImportedModel:
    """An ONNX model as a `dhlo` graph.

    Attributes:
        name: what errors call the model.
        module: `@main` from the inputs to the results; its `dhlo.facts` lists what must hold of the sizes of a call.
        store: the arrays of the file that the graph uses.
        constants: the inputs that have a value in the file, which the program does not take.
    """

    name: str
    module: ModuleOp
    store: ConstantStore
    inputs: tuple[InputSpec, ...]
    outputs: tuple[OutputSpec, ...]
    constants: frozenset[str]

    def places(self) -> str:
        """The node of each op and of each condition on sizes, as text: what the program's errors say beside what its graph does."""
        function = only_function(self.module)
        origins = (f"{condition}: {origin.asker}" for condition, origin in origins_in(function.location).items())
        return "\n".join([*(location_text(op.location) for op in function.body.block.ops), *origins])


def import_model(model: LoadedModel, dynamic_shapes: DynamicSizes | None = None) -> ImportedModel:
    """Build the graph of a model, with the sizes that its file names free.

    Args:
        dynamic_shapes: names or sizes for axes, instead of what the file says: `{"x": {0: "batch"}}` or `{"x": ("batch", 3, None)}`.

    Raises:
        UnsupportedOps: ops or types that anyshape lacks; all of them, with their nodes.
        FileFormatError: a node breaks ONNX's rules, or its operands do not fit each other.
        ArgumentError: `dynamic_shapes` names what is not there.
    """
    return _Importer(model, dynamic_shapes or {}).run()


@dataclass(frozen=True)
class _Frame:
    """Where nodes stand: in the model, or in the body of a function.

    Attributes:
        opsets: versions of operator sets.
        attributes: of the call of the function, for references to them.
        prefix: of what nodes are called.
    """

    opsets: Mapping[str, int]
    attributes: Attributes
    prefix: str


class _Importer:
    def __init__(self, model: LoadedModel, given: DynamicSizes) -> None:
        self.model = model
        self.given = given
        self.graph = Graph()
        self.builder = GraphBuilder(self.graph)
        self.unsupported: list[UnsupportedOp] = []

    def run(self) -> ImportedModel:
        model, graph = self.model, self.model.proto.graph
        stated = frozenset(each.name for each in graph.initializer).intersection(each.name for each in graph.input)
        try:
            specs = input_specs([each for each in graph.input if each.name not in stated], self.given, model.name)
        except Unsupported as error:
            raise UnsupportedOps([UnsupportedOp("graph input", str(error), model.name)]) from error
        except Malformed as error:
            raise FileFormatError("a graph input is not valid", where=model.name, got=error) from error
        for symbol in dict.fromkeys(name for spec in specs for size in spec.sizes for name in sorted(size.symbols)):
            self.graph.facts.declare(symbol, lo=0)
        arguments = {spec.name: self.graph.input(spec.name, spec.sizes, spec.dtype) for spec in specs}
        scope: dict[str, Anything] = dict(arguments)
        scope |= {spec.name: Stored(arguments[spec.name], spec.numpy) for spec in specs if spec.numpy is not None}
        self._bind_initializers(graph, scope)
        self._lower_nodes(
            _needed(graph.node, [each.name for each in graph.output]), scope, _Frame(model.opsets, {}, "")
        )
        results, outputs = self._outputs(graph, scope)
        if self.unsupported:
            raise UnsupportedOps(self.unsupported)
        if len(results) < len(graph.output):
            raise CompileError("an output got no value because of a mistake in the front end", where=model.name)
        if self.builder.seed_argument is not None:
            specs.append(InputSpec(SEED_NAME, I64, ()))
        finished = self.graph.finish(*results)
        only_function(finished.module).location = location_of_origins(self.builder.origins)
        return ImportedModel(model.name, finished.module, finished.store, tuple(specs), outputs, stated)

    def _bind_initializers(self, graph: GraphProto, scope: Scope) -> None:
        for tensor in graph.initializer:
            scope[tensor.name] = Known(self.model.array(tensor))
        for sparse in graph.sparse_initializer:
            self._fail(
                "sparse initialiser", "sparse tensors have no lowering", f"{self.model.name}: '{sparse.values.name}'"
            )

    def _outputs(self, graph: GraphProto, scope: Scope) -> tuple[list[Tensor], tuple[OutputSpec, ...]]:
        """The results of `@main`, one for each output of the model, and what they are."""
        results: list[Tensor] = []
        outputs: list[OutputSpec] = []
        for output in graph.output:
            value = scope.get(output.name)
            if output.name in scope and not isinstance(value, Tensor | Known | Stored):
                kind = "a sequence" if isinstance(value, tuple) else "nothing"
                self._fail("graph output", f"'{output.name}' is {kind}; only tensors can be outputs", self.model.name)
            if not isinstance(value, Tensor | Known | Stored):
                continue
            held = stored(self.builder, value)
            try:
                tensor = self.builder.tensor(elements_of(self.builder, value))
            except Unsupported as error:
                self._fail("graph output", str(error), f"{self.model.name}: '{output.name}'")
                continue
            numpy = None if held is None else held.numpy
            self._check_stated(output, tensor, tensor.dtype.numpy if numpy is None else numpy)
            results.append(tensor)
            outputs.append(OutputSpec(output.name, tensor.dtype, numpy))
        return results, tuple(outputs)

    def _check_stated(self, output: ValueInfoProto, tensor: Tensor, numpy: np.dtype[np.generic]) -> None:
        """FileFormatError where the file says another type of an output, or other axes. Sizes that it says may be those of an example."""
        stated = output.type.tensor_type
        where = f"{self.model.name}: output '{output.name}'"
        if stated.elem_type not in (TensorProto.UNDEFINED, code_of_numpy(numpy)):
            raise FileFormatError(
                "an output has another element type than the file says", where=where, got=numpy,
                expected=type_name(stated.elem_type),
            )  # fmt: skip
        if stated.shape.dim and len(stated.shape.dim) != tensor.rank:
            raise FileFormatError(
                "an output has another number of axes than the file says", where=where, got=sizes_text(tensor.sizes),
                expected=len(stated.shape.dim),
            )  # fmt: skip

    # -- nodes --------------------------------------------------------------------------------------------------------

    def _lower_nodes(self, nodes: Iterable[NodeProto], scope: Scope, frame: _Frame) -> None:
        for node in nodes:
            self._lower_node(node, scope, frame)

    def _lower_node(self, node: NodeProto, scope: Scope, frame: _Frame) -> None:
        """Gives the node's outputs their values in `scope`; those of a node that cannot be lowered get none."""
        where = f"{self.model.name}: {frame.prefix}{node_text(node)}"
        domain = domain_of(node.domain)
        version = frame.opsets.get(domain, 0)
        lowering = find_lowering(domain, node.op_type, version)
        missing = any(name and name not in scope for name in node.input)
        body = self.model.functions.get((domain, node.op_type))
        if lowering is None and body is None and missing:
            body = function_body(node, version, None)
            if body is None:
                self._refuse(node, version, where)
            return
        if missing:
            return
        inputs = [scope[name] if name else None for name in node.input]
        self.builder.state = NodeState(
            where,
            tuple(node.output),
            version,
            frame.opsets.get(STANDARD, version),
            lambda graph: self._lower_graph(graph, scope, frame),
        )
        try:
            with self.graph.located(NameLoc(StringAttr(where), UnknownLoc())):
                if body is None and lowering is None:
                    body = function_body(_resolved(node, frame), version, inputs)
                if body is not None:
                    results = self._call(body, inputs, node, frame)
                elif lowering is not None:
                    results = self._results(lowering, domain, node, inputs, frame)
                else:
                    self._refuse(node, version, where)
                    return
        except Malformed as error:
            raise FileFormatError("a node is not valid", where=where, got=error) from error
        except _Failed:
            return
        except (Unsupported, ArgumentError, VerifyException, SizeError) as error:
            self._fail(node.op_type, str(error), where)
            return
        except AnyshapeError:
            raise
        except Exception as error:
            raise CompileError(
                "a node cannot be taken because of a mistake in the front end", where=where, got=repr(error)
            ) from error
        self._bind(node, results, scope, where)

    def _refuse(self, node: NodeProto, version: int, where: str) -> None:
        domain = domain_of(node.domain)
        name = f"{domain}::{node.op_type}" if domain else node.op_type
        self._fail(name, "there is no lowering for this op" if version else "no such operator set is imported", where)

    def _fail(self, name: str, reason: str, where: str) -> None:
        self.unsupported.append(UnsupportedOp(name, reason, where))

    def _bind(self, node: NodeProto, results: Sequence[Anything], scope: Scope, where: str) -> None:
        if len(node.output) > len(results):
            self._fail(node.op_type, f"it has {len(node.output)} outputs, of which {len(results)} are lowered", where)
        for name, result in zip(node.output, results, strict=False):
            if name:
                scope[name] = result

    def _results(
        self, lowering: Callable[..., Any], domain: str, node: NodeProto, inputs: Sequence[Anything], frame: _Frame
    ) -> list[Anything]:
        protos = _attributes(node, frame)
        _check_kinds(protos, _kinds(domain, node.op_type, self.builder.state.version))
        attributes = {name: self._attribute(each) for name, each in protos.items()}
        fold = find_fold(domain, node.op_type)
        if fold is not None and all(_is_small(each) for each in inputs):
            folded = _folded(applied(fold, inputs, attributes), self.builder)
            if folded is not None:
                return _as_list(folded)
        if domain == STANDARD and any(isinstance(each, Stored) for each in inputs):
            on_held = lower_stored(
                self.builder,
                node.op_type,
                inputs,
                lambda held: _as_list(applied(lowering, held, attributes)(self.builder)),
            )
            if on_held is not None:
                return on_held
        return _as_list(applied(lowering, inputs, attributes)(self.builder))

    def _call(self, body: FunctionProto, inputs: Sequence[Anything], node: NodeProto, frame: _Frame) -> list[Anything]:
        """The outputs of a function, whose nodes are lowered here."""
        given = _attributes(node, frame)
        defaults = {each.name: each for each in body.attribute_proto}
        if len(inputs) > len(body.input):
            raise Malformed(f"it has {len(inputs)} inputs, and its function takes {len(body.input)}")
        padded = [*inputs, *([None] * (len(body.input) - len(inputs)))]
        scope: dict[str, Anything] = dict(zip(body.input, padded, strict=True))
        opsets = {domain_of(each.domain): each.version for each in body.opset_import}
        inner = _Frame({**frame.opsets, **opsets}, {**defaults, **given}, f"{frame.prefix}{node_text(node)}, ")
        self._lower_nodes(_needed(body.node, body.output), scope, inner)
        if any(name not in scope for name in body.output):
            raise _Failed
        return [scope[name] for name in body.output]

    def _lower_graph(self, graph: GraphProto, outer: Scope, frame: _Frame) -> list[Value]:
        """The values of a subgraph's outputs. It has no inputs of its own."""
        scope: dict[str, Anything] = dict(outer)
        self._bind_initializers(graph, scope)
        state = self.builder.state
        self._lower_nodes(_needed(graph.node, [each.name for each in graph.output]), scope, frame)
        self.builder.state = state
        if any(each.name not in scope for each in graph.output):
            raise _Failed
        values = [scope[each.name] for each in graph.output]
        if not all(isinstance(value, Tensor | Known | Stored) for value in values):
            raise Unsupported("a graph inside the node gives a sequence, or nothing; only tensors can be its outputs")
        return values  # pyright: ignore[reportReturnType]

    def _attribute(self, attribute: AttributeProto) -> Any:
        kinds = AttributeProto
        match attribute.type:
            case kinds.FLOAT:
                return attribute.f
            case kinds.INT:
                return attribute.i
            case kinds.STRING:
                return attribute.s.decode("utf-8", "replace")
            case kinds.TENSOR:
                return Known(self.model.array(attribute.t))
            case kinds.GRAPH:
                return attribute.g
            case kinds.FLOATS:
                return tuple(attribute.floats)
            case kinds.INTS:
                return tuple(attribute.ints)
            case kinds.STRINGS:
                return tuple(each.decode("utf-8", "replace") for each in attribute.strings)
            case _:
                raise Unsupported(f"attribute '{attribute.name}' is of a kind that no lowering takes")


class _Failed(Exception):
    """What is inside could not be lowered, and is in the list of what is unsupported already."""


def _attributes(node: NodeProto, frame: _Frame) -> dict[str, AttributeProto]:
    """The attributes of a node by name; what refers to an attribute of the function around it stands for that one, if it was given."""
    found: dict[str, AttributeProto] = {}
    for attribute in node.attribute:
        if attribute.name in found:
            raise Malformed(f"attribute '{attribute.name}' is given twice")
        if not attribute.ref_attr_name:
            found[attribute.name] = attribute
        elif attribute.ref_attr_name in frame.attributes:
            found[attribute.name] = frame.attributes[attribute.ref_attr_name]
    return found


def _resolved(node: NodeProto, frame: _Frame) -> NodeProto:
    """The node with the attributes of the function around it in the place of references to them."""
    if not any(each.ref_attr_name for each in node.attribute):
        return node
    resolved = NodeProto()
    resolved.CopyFrom(node)
    del resolved.attribute[:]
    for name, each in _attributes(node, frame).items():
        attribute = resolved.attribute.add()
        attribute.CopyFrom(each)
        attribute.name = name
    return resolved


@cache
def _kinds(domain: str, op: str, version: int) -> Mapping[str, str]:
    """The kind of each attribute that the schema of an op names; none for an op without a schema."""
    try:
        schema = defs.get_schema(op, version, domain)
    except defs.SchemaError:
        return {}
    kinds: Any = {name: each.type for name, each in schema.attributes.items()}
    return {name: kind.name for name, kind in kinds.items()}


def _check_kinds(attributes: Attributes, kinds: Mapping[str, str]) -> None:
    for name, attribute in attributes.items():
        got, expected = AttributeProto.AttributeType.Name(attribute.type), kinds.get(name)
        if expected not in (None, got):
            raise Malformed(f"attribute '{name}' is of the kind {got}; it has to be {expected}")


def _folded(fold: Callable[..., Any], builder: GraphBuilder) -> Any:
    """What a fold gives; None where numbers leave 64 bits, where the program wraps."""
    try:
        return fold(builder)
    except SizeOverflowError:
        return None


def _is_small(value: Anything) -> bool:
    """Whether a value is known, and of few elements; or left out."""
    return value is None or (isinstance(value, Known) and value.elements.size <= FOLDED_ELEMENTS)


def _as_list(results: Any) -> list[Anything]:
    return [results] if isinstance(results, Tensor | Known | Stored) else list(results)


def _needed(nodes: Sequence[NodeProto], outputs: Iterable[str]) -> list[NodeProto]:
    """The nodes on which outputs depend, in order."""
    wanted = set(outputs)
    kept: list[NodeProto] = []
    for node in reversed(nodes):
        if not wanted.isdisjoint(node.output):
            kept.append(node)
            wanted.update(_uses(node))
    return kept[::-1]


def _uses(node: NodeProto) -> set[str]:
    """The names that a node and its subgraphs read."""
    names = {name for name in node.input if name}
    for graph in subgraphs_of(node):
        names.update(each.name for each in graph.output)
        for inner in graph.node:
            names |= _uses(inner)
    return names


__all__ = ["ImportedModel", "OutputSpec", "import_model"]
