"""ONNX files read and checked, before anything of them is lowered."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from os import PathLike, fspath
from pathlib import Path
from typing import Any

from google.protobuf.message import DecodeError, Message
from onnx import AttributeProto, FunctionProto, GraphProto, ModelProto, NodeProto, TensorProto, defs

from anyshape.dialects.dhlo import Array
from anyshape.frontends.onnx.external_data import ExternalData
from anyshape.frontends.onnx.registry import STANDARD
from anyshape.frontends.onnx.tensors import array_of
from anyshape.support.errors import ArgumentError, FileFormatError

OLDEST_OPSET = 7
"""Broadcasting was numpy's from here on."""
_MOST_NESTED = 64


@dataclass(frozen=True)
class LoadedModel:
    """A model whose structure holds: each name is defined once and before it is used.

    Attributes:
        proto: as it was in the file.
        name: what errors call it, the file's name or `model`.
        external: the files beside it; None where its folder is not known.
    """

    proto: ModelProto
    name: str
    external: ExternalData | None

    @cached_property
    def opsets(self) -> Mapping[str, int]:
        """The version of each domain's operator set."""
        return {domain_of(each.domain): each.version for each in self.proto.opset_import}

    @cached_property
    def functions(self) -> Mapping[tuple[str, str], FunctionProto]:
        """The model's own functions, by (domain, name)."""
        return {(domain_of(each.domain), each.name): each for each in self.proto.functions}

    def array(self, tensor: TensorProto) -> Array:
        """The elements of a tensor of the file. FileFormatError."""
        return array_of(tensor, self.external, self.name)


def domain_of(domain: str) -> str:
    """A domain by its one name: ONNX's own has two."""
    return STANDARD if domain == "ai.onnx" else domain


def load_model(source: str | PathLike[str] | ModelProto) -> LoadedModel:
    """Read a model and check its structure.

    Args:
        source: a file, beside which its external data lie; or a model in memory, which has all of its data.

    Raises:
        FileFormatError: it is no ONNX model, or breaks a rule of the format; says where.
        ArgumentError: `source` is neither.
    """
    if isinstance(source, ModelProto):
        model = LoadedModel(source, source.graph.name or "model", None)
    elif isinstance(source, str | PathLike):  # pyright: ignore[reportUnnecessaryIsInstance] - callers pass foreign values
        path = Path(fspath(source))
        model = LoadedModel(_parsed(path), path.name, ExternalData(path.parent, path.name))
    else:
        raise ArgumentError(
            "no ONNX model", where="model", got=type(source).__name__, expected="a path or a ModelProto"
        )
    if not model.proto.HasField("graph"):
        raise FileFormatError("no ONNX model", where=model.name, got="no graph", expected="a ModelProto with a graph")
    _check_texts(model.proto, model.name)
    _check_versions(model)
    _check_functions(model)
    _Structure(model.name).check_graph(model.proto.graph, frozenset(), 0)
    return model


def _parsed(path: Path) -> ModelProto:
    try:
        data = path.read_bytes()
    except OSError as error:
        raise FileFormatError("the file cannot be read", where=path, got=error.strerror) from error
    proto = ModelProto()
    try:
        proto.ParseFromString(data)
    except DecodeError as error:
        raise FileFormatError("the file is no ONNX model", where=path, got=error, expected="a ModelProto") from error
    return proto


def _check_texts(message: Message, name: str) -> None:
    """FileFormatError where a text is no UTF-8: protobuf gives it as bytes."""
    for field, value in message.ListFields():
        parts: list[Any] = [value] if isinstance(value, str | bytes | Message) else value
        if field.type == field.TYPE_STRING and any(isinstance(part, bytes) for part in parts):
            raise FileFormatError("a text is no UTF-8", where=f"{name}: {field.full_name}", got=repr(parts)[:80])
        if field.type == field.TYPE_MESSAGE:
            for part in parts:
                _check_texts(part, name)


def _check_versions(model: LoadedModel) -> None:
    domains = [domain_of(each.domain) for each in model.proto.opset_import]
    twice = sorted({each for each in domains if domains.count(each) > 1})
    if twice:
        raise FileFormatError("an operator set is imported twice", where=model.name, got=twice[0] or "ai.onnx")
    for each in model.proto.opset_import:
        if not 1 <= each.version < 2**31:
            raise FileFormatError(
                "the version of an operator set is no version",
                where=f"{model.name}: {each.domain or 'ai.onnx'}",
                got=each.version,
            )
    newest = defs.onnx_opset_version()
    version = model.opsets.get(STANDARD)
    if version is None and all(domain_of(node.domain) != STANDARD for node in model.proto.graph.node):
        return
    if version is None or not OLDEST_OPSET <= version <= newest:
        raise FileFormatError(
            "the version of the operator set is not supported", where=model.name, got=version,
            expected=f"{OLDEST_OPSET} to {newest}",
            remedy="convert the model with `onnx.version_converter.convert_version`, or install a newer `onnx`",
        )  # fmt: skip


def _check_functions(model: LoadedModel) -> None:
    seen: set[tuple[str, str]] = set()
    for function in model.proto.functions:
        key = (domain_of(function.domain), function.name)
        where = f"{model.name}: function '{function.name}'"
        if key in seen:
            raise FileFormatError("a function is defined twice", where=where)
        seen.add(key)
        structure = _Structure(where)
        structure.check_nodes(function.node, set(function.input), 0)
    _check_calls(model)


def _check_calls(model: LoadedModel) -> None:
    """FileFormatError where functions call each other in a circle."""
    called: dict[tuple[str, str], list[tuple[str, str]]] = {
        key: [each for each in _ops_in(function.node) if each in model.functions]
        for key, function in model.functions.items()
    }
    done: set[tuple[str, str]] = set()
    for start in called:
        open_: list[tuple[str, str]] = []
        stack: list[tuple[tuple[str, str], bool]] = [(start, False)]
        while stack:
            key, leaving = stack.pop()
            if leaving:
                open_.pop()
                done.add(key)
                continue
            if key in open_:
                raise FileFormatError("a function calls itself", where=f"{model.name}: function '{key[1]}'")
            if key in done:
                continue
            open_.append(key)
            stack.append((key, True))
            stack.extend((each, False) for each in called[key])


def _ops_in(nodes: Iterable[NodeProto]) -> Iterable[tuple[str, str]]:
    for node in nodes:
        yield domain_of(node.domain), node.op_type
        for graph in subgraphs_of(node):
            yield from _ops_in(graph.node)


def subgraphs_of(node: NodeProto) -> list[GraphProto]:
    """The graphs among a node's attributes."""
    found: list[GraphProto] = []
    for attribute in node.attribute:
        if attribute.type == AttributeProto.GRAPH:
            found.append(attribute.g)
        elif attribute.type == AttributeProto.GRAPHS:
            found.extend(attribute.graphs)
    return found


def node_text(node: NodeProto) -> str:
    """`node 'name' (Op)`; a node without a name is called by its first output."""
    op = f"{node.domain}.{node.op_type}" if domain_of(node.domain) else node.op_type
    output = next((each for each in node.output if each), "")
    return f"node '{node.name}' ({op})" if node.name else f"node that makes '{output}' ({op})"


class _Structure:
    """Checks that every name is defined once, before it is used."""

    def __init__(self, name: str) -> None:
        self._name = name

    def check_graph(self, graph: GraphProto, outer: Collection[str], depth: int) -> None:
        """The rules of one graph, `outer` being the names of the graphs around it."""
        if depth > _MOST_NESTED:
            raise FileFormatError("graphs are nested too deep", where=self._name, expected=f"at most {_MOST_NESTED}")
        defined = set(outer)
        self._define([each.name for each in graph.input], "input", defined, set())
        self._check_initializers(graph, defined)
        self.check_nodes(graph.node, defined, depth)
        for output in graph.output:
            if output.name not in defined:
                raise FileFormatError(
                    "an output is made by no node", where=f"{self._name}: graph '{graph.name}'", got=repr(output.name)
                )

    def _check_initializers(self, graph: GraphProto, defined: set[str]) -> None:
        inputs = {each.name for each in graph.input}
        names = [each.name for each in graph.initializer] + [each.values.name for each in graph.sparse_initializer]
        self._define(names, "initialiser", defined, inputs)

    def _define(self, names: Iterable[str], kind: str, defined: set[str], allowed: Collection[str]) -> None:
        seen: set[str] = set()
        for name in names:
            if not name:
                raise FileFormatError(f"an {kind} has no name", where=self._name)
            if name in seen or (name in defined and name not in allowed):
                raise FileFormatError(
                    "a name is defined twice",
                    where=f"{self._name}: {kind} '{name}'",
                    remedy="give each value a name of its own",
                )
            seen.add(name)
            defined.add(name)

    def check_nodes(self, nodes: Iterable[NodeProto], defined: set[str], depth: int) -> None:
        """The rules of nodes after `defined`, to which their outputs are added."""
        listed = list(nodes)
        made_by = {output: node for node in listed for output in node.output if output}
        for node in listed:
            where = f"{self._name}: {node_text(node)}"
            if not node.op_type:
                raise FileFormatError("a node has no op", where=where)
            for name in node.input:
                if name and name not in defined:
                    raise _undefined(name, made_by, where)
            for graph in subgraphs_of(node):
                self.check_graph(graph, defined, depth + 1)
            for name in node.output:
                if name in defined:
                    raise FileFormatError("a name is defined twice", where=where, got=repr(name))
                if name:
                    defined.add(name)


def _undefined(name: str, made_by: Mapping[str, NodeProto], where: str) -> FileFormatError:
    if name in made_by:
        return FileFormatError(
            "a node uses what is made behind it: the graph has a cycle, or its nodes are not in order", where=where,
            got=f"'{name}', made by {node_text(made_by[name])}", expected="nodes in an order in which they can run",
        )  # fmt: skip
    return FileFormatError(
        "a node uses a value that the file does not have", where=where, got=repr(name),
        expected="an input, an initialiser, or the output of a node before it",
    )  # fmt: skip


__all__ = ["LoadedModel", "domain_of", "load_model", "node_text", "subgraphs_of"]
