"""The back end of `torch.compile`: `torch.compile(model, backend="anyshape")`.

PyTorch finds it by its entry point, without an import. TorchDynamo hands over graphs, AOTAutograd makes them functional. What has no
lowering stays with PyTorch, in as few pieces as possible, and so does what fails: `anyshape.report()` says what, how often and why.
With `strict` all of that is an error.
"""

# PyTorch is typed in part only.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Never

from torch import fx, nn

from anyshape.dialects.arrays import ConstantStore
from anyshape.driver.build import build_objects, load_program
from anyshape.driver.collector import collector_paused
from anyshape.driver.instances import Instances
from anyshape.driver.live import load_live
from anyshape.driver.remarks import JOURNAL, GraphReport, Kind
from anyshape.driver.reproducer import Crash, replay_command, write_crash
from anyshape.driver.stored import Summary
from anyshape.frontends.torch.dynamo.calls import CallWhere, GraphCall, Run, overlaps
from anyshape.frontends.torch.dynamo.errors import as_seen
from anyshape.frontends.torch.dynamo.functional import (
    FunctionalGraph,
    InputsOverlap,
    NeedsGradients,
    compile_functional,
)
from anyshape.frontends.torch.dynamo.graph import GraphLowering, GraphProgram
from anyshape.frontends.torch.dynamo.inputs import needs_gradients, unusable_among
from anyshape.frontends.torch.dynamo.partitions import PREFIX, split
from anyshape.frontends.torch.dynamo.record import record_graph
from anyshape.frontends.torch.dynamo.signals import SIGNALS, graph_break, graph_name
from anyshape.frontends.torch.dynamo.traced import record_traced
from anyshape.frontends.torch.dynamo.views import separate_views
from anyshape.frontends.torch.live import WeightWatch
from anyshape.frontends.torch.locations import calling_line, first_source_line
from anyshape.runtime import torch_adaptor
from anyshape.support.errors import (
    AnyshapeError,
    ArgumentError,
    CompileError,
    OptionError,
    UnsupportedOp,
    UnsupportedOps,
)
from anyshape.support.options import Options
from anyshape.support.trace import Trace

Callee = Callable[..., Any]

_DIFFERENTIABLE = "a result may be differentiated, and only inference is compiled: wrap the call in torch.no_grad()"
_OVERLAP = "an input that is written shares memory with another input"


def backend(
    graph_module: fx.GraphModule,
    example_inputs: Sequence[Any],
    *,
    mode: str | None = None,
    options: Mapping[str, Any] | None = None,
) -> Callee:
    """Compile a graph of TorchDynamo's; PyTorch calls this.

    Args:
        graph_module: the graph.
        example_inputs: its inputs, fake tensors and sizes among them.
        mode: ignored: there is one way to compile.
        options: fields of `anyshape.Options`, in place of those from the environment.

    Raises:
        OptionError: an option is unknown, or has a value that is not allowed.
        UnsupportedOps, CompileError: with `strict` only: part of the graph would stay with PyTorch; compiling it failed.
    """
    try:
        chosen = Options.from_environment().updated(options or {})
        return _GraphCompilation(graph_module, chosen).run(example_inputs)
    except (OptionError, UnsupportedOps, CompileError) as error:
        raise as_seen(error, inspect.currentframe()) from error


_INSTANCES = Instances()


class _GraphCompilation:
    """The compilation of one graph.

    Args:
        graph_module: TorchDynamo's graph.
        options: how to compile it.
    """

    def __init__(self, graph_module: fx.GraphModule, options: Options) -> None:
        self._eager: Callee = graph_module.forward
        self._graph_module = graph_module
        self._options = options
        self._name = graph_name()
        self._location = first_source_line(graph_module.graph) or calling_line()
        self._functional: fx.GraphModule | None = None
        self._written: tuple[int, ...] = ()
        self._parts = 0
        self._summaries: list[Summary] = []
        self._packed_bytes = self._copied_bytes = 0
        self._ops_left = 0
        self._compile_seconds = 0.0

    def run(self, example_inputs: Sequence[Any]) -> Callee:
        """The graph as a function of its inputs."""
        start = time.perf_counter()
        broken = graph_break(self._graph_module)
        if broken is not None:
            JOURNAL.remark("break", *broken)
        try:
            left = self._whole_graph_left(example_inputs)
            if left is not None:
                return left
            compiled = compile_functional(self._graph_module, example_inputs, self._compile)
        except (*SIGNALS, UnsupportedOps, CompileError):
            raise
        except NeedsGradients:
            return self._leave("gradients", self._name, _DIFFERENTIABLE)
        except InputsOverlap:
            return self._leave("overlap", self._name, _OVERLAP)
        except Exception as error:
            self._note_failure(error, None, self._functional or self._graph_module)
            compiled = self._eager
        self._note_graph(time.perf_counter() - start)
        return self._checked(compiled) if self._written else compiled

    def _whole_graph_left(self, example_inputs: Sequence[Any]) -> Callee | None:
        """PyTorch's way to run the graph, where nothing of it can be compiled."""
        placeholders = self._graph_module.graph.find_nodes(op="placeholder")
        for node, value in zip(placeholders, example_inputs, strict=True):
            reason = unusable_among(value)
            if reason is not None:
                return self._leave("input", node.name, f"it is {reason}")
        if needs_gradients(self._graph_module.graph, example_inputs):
            return self._leave("gradients", self._name, _DIFFERENTIABLE)
        return None

    def _leave(self, kind: Kind, subject: str, reason: str) -> Callee:
        if self._options.strict:
            raise UnsupportedOps([UnsupportedOp(subject, reason, self._location)])
        JOURNAL.remark(kind, subject, reason, self._location)
        self._ops_left = sum(node.op.startswith("call") for node in self._graph_module.graph.nodes)
        self._note_graph(0.0)
        return self._eager

    def _checked(self, compiled: Callee) -> Callee:
        """The functional graph reads an input's old elements where another input that shares them was written."""

        def call(*args: Any) -> Any:
            __tracebackhide__ = True
            if not overlaps([args[index] for index in self._written], args):
                return compiled(*args)
            if self._options.strict:
                raise ArgumentError(_OVERLAP, where=self._location, remedy="pass a copy, or compile without `strict`")
            JOURNAL.remark("overlap", self._name, _OVERLAP, self._location)
            return self._eager(*args)

        return call

    def _compile(self, functional: FunctionalGraph) -> Callee:
        self._functional, self._written = functional.graph, functional.written
        start = time.perf_counter()
        try:
            return self._compile_graph(functional.graph)
        finally:
            self._compile_seconds += time.perf_counter() - start

    def _compile_graph(self, graph: fx.GraphModule) -> Callee:
        separate_views(graph.graph)
        lowering = GraphLowering(graph, stand_ins=True)
        with collector_paused():
            program = lowering.run()
        self._note_ops(lowering, graph)
        if program is not None:
            return self._compile_part(graph, lambda: program)
        outer = split(graph, lowering.left_out)
        for name, part in list(outer.named_children()):
            if name.startswith(PREFIX):
                assert isinstance(part, fx.GraphModule)
                setattr(outer, name, _Part(self._compile_part(part, _lowering_of(part))))
        return outer.forward

    def _compile_part(self, part: fx.GraphModule, lower: Callable[[], GraphProgram]) -> Callee:
        """A part as a function; as PyTorch runs it, where it cannot be compiled."""
        return self._or_as_it_is(lambda: self._load(lower(), part), part)

    def _or_as_it_is(self, compiled: Callable[[], Callee], part: fx.GraphModule) -> Callee:
        try:
            return compiled()
        except Exception as error:
            self._note_failure(error, _lowering_of(part), part)
            return part.forward

    def _load(self, program: GraphProgram, part: fx.GraphModule) -> Callee:
        served = _INSTANCES.program_of(program, self._options, self._built)
        self._parts += 1
        call = GraphCall(served.program, served.run, self._instead_of(part))
        if not served.only_if:
            return call

        def otherwise() -> Callee:
            own = _INSTANCES.compiled(program, self._options, self._built)
            return GraphCall(own.program, own.run, self._instead_of(part))

        return CallWhere(served.only_if, call, lambda: self._or_as_it_is(otherwise, part))

    def _built(self, program: GraphProgram) -> Run:
        names = [spec.name for spec in program.inputs]
        trace = Trace(log=self._options.log, dump_directory=self._options.dump)
        built = build_objects(program.module, names, program.store, self._options, trace)
        self._summaries.append(built.summary)
        self._packed_bytes += built.constants.packed_bytes
        self._copied_bytes += built.constants.copied_bytes
        threads = self._options.threads or 0
        if not program.weights:
            loaded = load_program(built, threads)
            return lambda tensors, weights: torch_adaptor.run(loaded, tensors)
        watch = WeightWatch(load_live(built, threads), list(program.store.live), self._options.pack_budget_bytes)
        return lambda tensors, weights: torch_adaptor.run(watch.update(weights), tensors)

    def _instead_of(self, part: fx.GraphModule) -> Callable[[Exception, Sequence[Any]], Any] | None:
        """What to do where a call fails: PyTorch runs the part, which has written nothing yet."""
        if self._options.strict:
            return None
        name, location = self._name, self._location

        def call(error: Exception, args: Sequence[Any]) -> Any:
            JOURNAL.remark("run", name, _reason(error), location)
            return part.forward(*args)

        return call

    def _note_ops(self, lowering: GraphLowering, graph: fx.GraphModule) -> None:
        ops = lowering.left_ops
        if self._options.strict:
            for error in lowering.crashes.values():
                self._fail(error, self._keep(error, None, graph))
            if ops:
                raise UnsupportedOps(list(ops.values()))
        for node, op in ops.items():
            is_new = JOURNAL.remark("op", op.name, op.reason, op.location)
            if is_new and node in lowering.crashes:
                command = self._keep(lowering.crashes[node], None, graph)
                if command is not None:
                    JOURNAL.add_replay("op", op.name, op.reason, op.location, command)
        self._ops_left = len(ops)

    def _note_failure(self, error: Exception, lower: Callable[[], GraphProgram] | None, graph: fx.GraphModule) -> None:
        """Remark that compiling `graph` failed, and keep what is needed to replay that. Raises CompileError with `strict`."""
        reason = _reason(error)
        is_new = JOURNAL.remark("compile", self._name, reason, self._location)
        command: str | None = None
        if is_new or self._options.strict:
            command = self._keep(error, lower, graph)
            if command is not None:
                JOURNAL.add_replay("compile", self._name, reason, self._location, command)
        if self._options.strict:
            self._fail(error, command)

    def _keep(self, error: Exception, lower: Callable[[], GraphProgram] | None, graph: fx.GraphModule) -> str | None:
        """The command that replays a failure, after its folder was written.

        Args:
            lower: lowers the graph, where it was its compilation that failed; else its lowering did.
        """
        try:
            names: list[str] = []
            store = ConstantStore()
            kept: Any = None
            if lower is None:
                kept = self._record_of(graph)
            else:
                program = lower()  # a failed compilation has consumed the first one
                kept, store = program.module, program.store
                names = [spec.name for spec in program.inputs]
            crash = Crash.of(error, self._location, self._options, names, store)
            fx_text = graph.print_readable(print_output=False, include_stride=True)
            folder = write_crash(self._options, error, crash, kept, fx_text)
        except Exception:  # the failure that is to be kept is worth more than whatever this one is
            return None
        return None if folder is None else replay_command(folder)

    def _record_of(self, graph: fx.GraphModule) -> Any:
        if self._functional is not None:
            return record_graph(graph)
        try:
            return record_traced(graph)
        except ValueError:
            return None

    def _fail(self, error: Exception, command: str | None) -> Never:
        raise CompileError(
            "compiling a graph failed",
            where=self._location,
            got=_reason(error),
            remedy=f"replay it with: {command}" if command else "compile without `strict`, and PyTorch runs the graph",
        ) from error

    def _note_graph(self, seconds: float) -> None:
        summaries = self._summaries
        JOURNAL.add_graph(
            GraphReport(
                name=self._name,
                location=self._location,
                parts=self._parts,
                shared=self._parts - len(summaries),
                ops_left=self._ops_left,
                kernels=sum(len(summary.launches) for summary in summaries),
                launches=sum(sum(summary.launches.values()) for summary in summaries),
                symbols={symbol: axis for summary in summaries for symbol, axis in summary.symbols.items()},
                guards=tuple(dict.fromkeys(guard for summary in summaries for guard in summary.guards)),
                packed_bytes=self._packed_bytes,
                copied_bytes=self._copied_bytes,
                capture_seconds=max(0.0, seconds - self._compile_seconds),
                compile_seconds=self._compile_seconds,
            )
        )


class _Part(nn.Module):
    """A compiled part in the place of its graph."""

    def __init__(self, call: Callee) -> None:
        super().__init__()
        self.call = call

    def forward(self, *args: Any) -> Any:
        return self.call(*args)


def _lowering_of(part: fx.GraphModule) -> Callable[[], GraphProgram]:
    def lower() -> GraphProgram:
        program = GraphLowering(part).run()
        assert program is not None  # it raises where a node cannot be lowered
        return program

    return lower


def _reason(error: Exception) -> str:
    """Type and message; without the fields of our errors, some of which are different each time."""
    text = error.message if isinstance(error, AnyshapeError) else str(error)
    return f"{type(error).__name__}: {text}"
