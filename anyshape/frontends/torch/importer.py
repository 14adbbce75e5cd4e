"""A PyTorch module as a `dhlo` graph: capture, then one lowering for each ATen node."""

# PyTorch and sympy are typed in part only.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import fx, nn
from torch.export import Dim, ExportedProgram
from torch.export.dynamic_shapes import _combine_args, _tree_map_with_path  # pyright: ignore[reportPrivateUsage]
from torch.export.graph_signature import (
    ConstantArgument,
    InputKind,
    OutputKind,
    TensorArgument,
)
from torch.export.graph_signature import (
    InputSpec as TorchInputSpec,
)
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch.utils import _pytree as pytree
from xdsl.ir import Block, SSAValue

from anyshape.dialects.dhlo import ConstantStore
from anyshape.dialects.dtypes import DType
from anyshape.dialects.locations import Origin
from anyshape.dialects.sizes import tensor
from anyshape.frontends.torch.arithmetic import know_divisors, required_relations
from anyshape.frontends.torch.builder import GraphBuilder
from anyshape.frontends.torch.calls import example_misfit
from anyshape.frontends.torch.capture import Capture, DynamicShapes, capture
from anyshape.frontends.torch.dtypes import array_of_tensor, dtype_of_torch
from anyshape.frontends.torch.examples import path_name, standing_alone
from anyshape.frontends.torch.graph_key import graph_text
from anyshape.frontends.torch.guards import (
    assume_all,
    cancelled_equalities,
    constant_sizes,
    derived_relations,
    guard_relations,
    range_relations,
)
from anyshape.frontends.torch.lowering import only_checked
from anyshape.frontends.torch.misfits import check_ranks, model_misfit
from anyshape.frontends.torch.nodes import NodeLowering, module_of, name_hint, number_source, output_source
from anyshape.frontends.torch.origins import origins_of_axes
from anyshape.frontends.torch.planes import Planes, interleaved, planes_of_memory
from anyshape.frontends.torch.probes import branch_relations
from anyshape.frontends.torch.program import (
    SEED,
    CallAdaptor,
    FromComplexResult,
    FromConstant,
    FromInput,
    FromResult,
    ImportedProgram,
    InputSpec,
    IntoInput,
    OutputSource,
)
from anyshape.frontends.torch.random import is_random
from anyshape.frontends.torch.silence import quiet_attempts
from anyshape.frontends.torch.sizes import SizeNames, shape_environment
from anyshape.frontends.torch.unsupported import Unsupported
from anyshape.frontends.torch.weights import Memory, memory_of, named_meanwhile
from anyshape.support.errors import ArgumentError, DtypeError, ExportError, UnsupportedOp, UnsupportedOps
from anyshape.symbolic import Facts, Size


def import_module(
    module: nn.Module,
    args: tuple[Any, ...] = (),
    kwargs: Mapping[str, Any] | None = None,
    *,
    dynamic_shapes: DynamicShapes = "all",
    live_weights: bool = False,
) -> ImportedProgram:
    """Capture `module` as called with the example arguments, and build its graph: see `capture_module` for the arguments.

    Raises:
        ArgumentError, ExportError: see `capture_module`.
        UnsupportedOps: the captured graph uses ops that have no lowering; all of them are listed.
    """
    captured = capture_module(module, args, kwargs, dynamic_shapes=dynamic_shapes, live_weights=live_weights)
    return captured.import_graph()


def capture_module(
    module: nn.Module,
    args: tuple[Any, ...] = (),
    kwargs: Mapping[str, Any] | None = None,
    *,
    dynamic_shapes: DynamicShapes = "all",
    live_weights: bool = False,
) -> CapturedModule:
    """Capture `module` as called with the example arguments.

    Args:
        module: the model, in the mode (train or eval) in which it is to be compiled.
        args: example arguments by position; tensors may be nested in tuples, lists, dicts and registered dataclasses.
        kwargs: example arguments by name.
        dynamic_shapes: `"all"` makes every axis of every input free that the model allows, sizes 0 and 1 included, whatever the
            example's sizes are; None makes every size that of the example; anything else is passed to `torch.export.export`.
        live_weights: whether parameters and buffers stay the module's and may change between calls; else they are constants. The store
            names them as the module does; tied ones, which are the same memory, by the first of their names.

    Raises:
        ArgumentError: `module` is no module, or its `forward` does not take the example arguments.
        ExportError: PyTorch cannot capture the module.
    """
    if not isinstance(module, nn.Module):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ArgumentError(
            "only modules are compiled", where="module", got=type(module).__name__, expected="a torch.nn.Module",
            remedy="put a function into the `forward` of a module",
        )  # fmt: skip
    args, example_kwargs = pytree.tree_map(standing_alone, (args, dict(kwargs or {})))
    check_ranks(args, example_kwargs)
    try:
        with quiet_attempts(), named_meanwhile(module) as weight_names:
            captured = capture(module, args, example_kwargs, dynamic_shapes)
    except ExportError as error:  # only now, because hooks may add to the arguments of a call
        misfit = example_misfit(inspect.signature(module.forward), args, example_kwargs)
        misfit = misfit or model_misfit(module, args, example_kwargs)
        if misfit is None:
            raise
        raise misfit from error
    preferred = {}
    if dynamic_shapes != "all" and isinstance(dynamic_shapes, Mapping | Sequence):
        preferred = _given_names(module, args, example_kwargs, dynamic_shapes)
    kept = None if live_weights else weight_names
    return CapturedModule(module, captured, preferred, kept, ranges_are_given=dynamic_shapes != "all")


def _given_names(
    module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], dynamic_shapes: Any
) -> dict[tuple[int, int], str]:
    """(id of an example tensor, axis) -> the name of the `Dim` that the caller put there."""
    found: dict[tuple[int, int], str] = {}

    def visit(_path: Any, leaf: Any, shape: Any) -> None:
        if not isinstance(leaf, torch.Tensor) or shape is None:
            return
        axes = shape.items() if isinstance(shape, Mapping) else enumerate(shape)
        for axis, dim in axes:
            if type(dim) is Dim:
                found[id(leaf), axis] = dim.__name__

    combined: Any = _combine_args(module, args, kwargs)
    if isinstance(dynamic_shapes, Sequence):
        combined = tuple(combined.values()) if isinstance(dynamic_shapes, tuple) else list(combined.values())
    _tree_map_with_path(visit, combined, dynamic_shapes, tree_name="arguments")
    return found


class CapturedModule:
    """A module whose graph and conditions are known, before any op of it is lowered.

    Args:
        module: the model.
        captured: what PyTorch handed over.
        given_names: (id of an example tensor, axis) -> the name that the caller gave to the axis.
        weight_names: the names in the store of tensors whose contents were digested before; None where weights are live.
        ranges_are_given: whether the ranges of sizes are the caller's, and so conditions.

    Attributes:
        inputs: the tensor arguments of `@main`; the last one is the seed where the graph draws random numbers.
        store: the parameters, buffers and constants that the graph uses; they share the module's memory.
        capture_seconds: wall time that PyTorch took to hand over the graph.
        origins: who asked for conditions on sizes, by their texts, and for axes that are not free, by `args[0], axis 1`.

    Raises:
        ExportError: the graph holds under a condition that cannot be checked at a call.
    """

    def __init__(
        self,
        module: nn.Module,
        captured: Capture,
        given_names: Mapping[tuple[int, int], str],
        weight_names: Mapping[Memory, str] | None,
        *,
        ranges_are_given: bool,
    ) -> None:
        self.module = module
        self.captured = captured
        self.capture_seconds = captured.seconds
        self._given_names = given_names
        program = captured.program
        environment = shape_environment(node.meta.get("val") for node in program.graph.nodes)
        preferred, equal = self._preferred(program), cancelled_equalities(environment, captured.derived.known)
        self.names = names = SizeNames(
            environment,
            preferred,
            equal,
            constant_sizes(environment, captured.needless.guards),
            captured.derived.known,
            with_data=True,
            rounded_up=captured.needless.rounded_up,
        )
        know_divisors(captured.derived, names)
        self.inputs, self._constants, self._leaf_names = self._inputs(program, names)
        self.facts = facts = Facts()
        symbols = (name for spec in self.inputs for size in spec.sizes for name in sorted(size.symbols))
        for symbol in dict.fromkeys(symbols):
            facts.declare(symbol, lo=0)
        self.origins = origins = self._origins_of_axes(program, environment)
        try:
            openings = [opening.sizes(names) for opening in captured.openings]
            derived = captured.derived.known
            broadcast = (
                (relation, each.origin) for each in captured.openings for relation in each.relations(names, derived)
            )
            origins |= assume_all(facts, broadcast)
            origins |= assume_all(facts, derived_relations(environment, names, derived, captured.origins))
            origins |= assume_all(facts, required_relations(captured.derived, names))
            strides, needless = captured.about_strides, captured.needless.guards
            origins |= assume_all(
                facts, guard_relations(environment, names, strides, captured.origins, derived, needless)
            )
            if ranges_are_given:
                origins |= assume_all(facts, range_relations(program, names))
            origins |= assume_all(facts, branch_relations(module, captured, self.inputs, names, facts))
        except Unsupported as error:
            raise ExportError("the model holds only under a condition that cannot be checked", where=error) from error
        self.openings = frozenset(openings)
        if any(map(is_random, program.graph.nodes)):
            self.inputs = (*self.inputs, SEED)
        self.store = ConstantStore()
        self.weights, self.unusable = _store_weights(program, self.store, weight_names)

    def graph_text(self) -> str | None:
        """What the graph depends on, where that can be said without building it; see `graph_key`."""
        if self.unusable:
            return None
        names = {node: name for node, (name, _) in self.weights.items()}
        return graph_text(self.captured.program, self.inputs, self.names, self.facts, self.openings, names)

    def import_graph(self) -> ImportedProgram:
        """Build the graph, once. Raises UnsupportedOps."""
        return _Importer(self).run()

    def adaptor(self, outputs: Sequence[OutputSource]) -> CallAdaptor:
        """How calls map onto the program, whose outputs come from there."""
        structure, out_spec = self.captured.structure, self.captured.program.call_spec.out_spec
        assert out_spec is not None
        signature = inspect.signature(self.module.forward)
        return CallAdaptor(
            self.inputs, self._constants, tuple(outputs), structure, out_spec, signature, self._leaf_names
        )

    def _preferred(self, program: ExportedProgram) -> dict[Any, str]:
        """Symbols whose axis the caller named."""
        preferred: dict[Any, str] = {}
        for leaf, (_, node) in enumerate(_user_inputs(program)):
            value = node.meta.get("val")
            example = self.captured.examples[leaf]
            if isinstance(value, torch.Tensor):
                for axis, size in enumerate(value.shape):
                    name = self._given_names.get((id(example), axis))
                    if name is not None and isinstance(size, torch.SymInt) and size.node.expr.is_Symbol:
                        preferred.setdefault(size.node.expr, name)
        return preferred

    def _origins_of_axes(self, program: ExportedProgram, environment: ShapeEnv | None) -> dict[str, Origin]:
        nodes = [node for _, node in _user_inputs(program)]
        values = ((spec.name, nodes[spec.leaf].meta["val"]) for spec in self.inputs)
        return origins_of_axes(environment, values, self.captured.origins)

    def _inputs(
        self, program: ExportedProgram, names: SizeNames
    ) -> tuple[tuple[InputSpec, ...], dict[int, object], tuple[str, ...]]:
        tree = pytree.tree_unflatten(list(self.captured.examples), self.captured.structure)
        leaf_names = tuple(path_name(path) for path, _ in pytree.tree_flatten_with_path(tree)[0])
        inputs: list[InputSpec] = []
        constants: dict[int, object] = {}
        for leaf, (spec, node) in enumerate(_user_inputs(program)):
            if isinstance(spec.arg, TensorArgument):
                value = node.meta["val"]
                dtype, sizes = dtype_of_torch(value.dtype.to_real()), names.sizes(value.shape)
                pair = (Size.const(2),) if value.is_complex() else ()
                inputs.append(InputSpec(leaf_names[leaf], dtype, (*sizes, *pair), leaf, value.is_complex()))
            else:
                constants[leaf] = (
                    spec.arg.value if isinstance(spec.arg, ConstantArgument) else self.captured.examples[leaf]
                )
        return tuple(inputs), constants, leaf_names


class _Importer(NodeLowering):
    """Builds a graph."""

    def __init__(self, source: CapturedModule) -> None:
        super().__init__()
        self.source = source

    def run(self) -> ImportedProgram:
        source, program = self.source, self.source.captured.program
        block = Block(arg_types=[tensor(spec.dtype, spec.sizes) for spec in source.inputs])
        seed = block.args[-1] if source.inputs and source.inputs[-1].is_seed else None
        builder = GraphBuilder(
            block, source.names, source.facts, source.store, source.openings, source.origins, seed=seed
        )
        self._bind_placeholders(program, builder, block)
        unneeded = only_checked(program.graph)
        for node in program.graph.nodes:
            if node.op not in ("placeholder", "output") and node not in unneeded:
                self.lower(builder, node)
        results, outputs = self._outputs(program, builder, block)
        if self.unsupported:
            raise UnsupportedOps(self.unsupported)
        module = module_of(block, results, source.facts, builder.origins)
        return ImportedProgram(module, source.store, source.adaptor(outputs), source.capture_seconds)

    def _bind_placeholders(self, program: ExportedProgram, builder: GraphBuilder, block: Block) -> None:
        arguments = iter(block.args)
        for spec, node in zip(program.graph_signature.input_specs, _placeholders(program), strict=True):
            builder.begin(node)
            if spec.kind == InputKind.USER_INPUT:
                if isinstance(spec.arg, TensorArgument):
                    value = next(arguments)
                    value.name_hint = name_hint(node)
                    self.values[node] = planes_of_memory(builder, value) if _is_complex(node) else value
                else:
                    self.values[node] = node.meta.get("val")
            elif not node.users:
                continue
            elif spec.kind == InputKind.TOKEN:
                self.values[node] = None
            elif node in self.source.weights:
                value = builder.stored_weight(*self.source.weights[node])
                self.values[node] = planes_of_memory(builder, value) if _is_complex(node) else value
            elif node in self.source.unusable:
                self.fail(node, _own_name(spec.target), self.source.unusable[node])
            else:
                self.fail(
                    node, f"{spec.kind.name.lower()} input", "only tensors can be inputs and constants of a program"
                )

    # -- outputs ----------------------------------------------------------------------------------------------------

    def _outputs(
        self, program: ExportedProgram, builder: GraphBuilder, block: Block
    ) -> tuple[list[SSAValue], tuple[OutputSource, ...]]:
        (output,) = (node for node in program.graph.nodes if node.op == "output")
        results: list[SSAValue] = []
        sources: list[OutputSource] = []
        written = self._written(program, output)
        for spec, value in zip(program.graph_signature.output_specs, output.args[0], strict=True):
            if spec.kind == OutputKind.USER_INPUT_MUTATION and value in written:
                source = output_source(self.values[value], results, block)
                if isinstance(source, FromResult):  # else it is the argument as it was
                    sources.append(IntoInput(source.index, written[value]))
            elif isinstance(value, fx.Node) and value in written:
                sources.append(FromInput(written[value]))
            elif spec.kind == OutputKind.TOKEN:
                continue
            elif spec.kind != OutputKind.USER_OUTPUT:
                kind = spec.kind.name.lower().replace("_", " ")
                self.unsupported.append(UnsupportedOp(kind, f"the model writes to {_own_name(spec.target)} in place"))
            elif not isinstance(value, fx.Node):
                sources.append(FromConstant(value))
            elif isinstance(self.values.get(value), Planes):
                results.append(interleaved(builder, self.values[value]))
                sources.append(FromComplexResult(len(results) - 1))
            elif value not in self.failed:
                is_number = isinstance(value.meta.get("val"), torch.SymInt | torch.SymFloat | torch.SymBool)
                held = self.values[value]
                sources.append(
                    number_source(builder, held, results, block) if is_number else output_source(held, results, block)
                )
        return results, tuple(sources)

    def _written(self, program: ExportedProgram, output: fx.Node) -> dict[fx.Node, int]:
        """What the model leaves in arguments that it writes to, each with the number of the argument among the tensors.

        `x.copy_(y)` is a node of its own, so a result that is the same node is the argument itself.
        """
        leaves = {node.name: leaf for leaf, (_, node) in enumerate(_user_inputs(program))}
        places = {spec.leaf: place for place, spec in enumerate(self.source.inputs) if not spec.is_complex}
        values: Any = output.args[0]
        specs = zip(program.graph_signature.output_specs, values, strict=True)
        written: dict[fx.Node, int] = {}
        for spec, value in specs:
            place = places.get(leaves.get(spec.target or "", -1))
            if spec.kind == OutputKind.USER_INPUT_MUTATION and place is not None and value not in self.failed:
                written[value] = place
        return written


def _store_weights(
    program: ExportedProgram, store: ConstantStore, known: Mapping[Memory, str] | None
) -> tuple[dict[fx.Node, tuple[str, DType]], dict[fx.Node, str]]:
    """Puts the constants that are used into the store: their names and dtypes there, and why others cannot be there."""
    weights: dict[fx.Node, tuple[str, DType]] = {}
    live: dict[Any, str] = {}
    unusable: dict[fx.Node, str] = {}
    for spec, node in zip(program.graph_signature.input_specs, _placeholders(program), strict=True):
        if spec.kind not in (InputKind.PARAMETER, InputKind.BUFFER, InputKind.CONSTANT_TENSOR) or not node.users:
            continue
        assert spec.target is not None
        held: Any = program.state_dict.get(spec.target)
        value: Any = program.constants[spec.target] if held is None else held
        if value.is_complex():
            if known is None and spec.kind != InputKind.CONSTANT_TENSOR:
                unusable[node] = "a complex weight cannot be one that may change"
                continue
            value = torch.view_as_real(value.detach().resolve_conj())
        try:
            dtype, memory = dtype_of_torch(value.dtype), memory_of(value)
        except DtypeError as error:
            unusable[node] = str(error)
            continue
        array = array_of_tensor(value)
        if known is None and spec.kind != InputKind.CONSTANT_TENSOR:
            place = (value.data_ptr(), dtype, value.shape, value.stride())
            if place not in live:
                live[place] = store.add_live(_own_name(spec.target), array)
            weights[node] = live[place], dtype
            continue
        name = None if known is None or memory is None else known.get(memory)
        if name is None:
            name = store.add(array)
        else:
            store.put(name, array)
        weights[node] = name, dtype
    return weights, unusable


def _own_name(target: str | None) -> str:
    """A parameter or buffer as the module itself names it."""
    return (target or "an input").removeprefix("module.")


def _is_complex(node: fx.Node) -> bool:
    return node.meta["val"].is_complex()


def _placeholders(program: ExportedProgram) -> list[fx.Node]:
    return [node for node in program.graph.nodes if node.op == "placeholder"]


def _user_inputs(program: ExportedProgram) -> list[tuple[TorchInputSpec, fx.Node]]:
    """The leaves of a call, in order."""
    pairs = zip(program.graph_signature.input_specs, _placeholders(program), strict=True)
    return [(spec, node) for spec, node in pairs if spec.kind == InputKind.USER_INPUT]


__all__ = ["CapturedModule", "capture_module", "import_module"]
