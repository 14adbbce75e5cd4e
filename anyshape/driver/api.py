"""The public face of the compiler: `compile`, `load`, `report`."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, Literal

from anyshape.codegen.llvm import host_target
from anyshape.driver.build import build_objects, compile_objects, load_program, write_objects
from anyshape.driver.machine import calibrated_machine
from anyshape.driver.report import Report
from anyshape.driver.stored import BuiltObjects, StoredProgram
from anyshape.runtime import Program
from anyshape.support.errors import ArgumentError
from anyshape.support.options import Options
from anyshape.support.trace import Progress, Trace

Run = Callable[[Program, Sequence[Any]], list[Any]]
DynamicShapes = Mapping[str, Any] | Sequence[Any] | Literal["all"] | None


class CompiledModule:
    """A compiled PyTorch module: call it as the module itself, at any size.

    Raises on a call:
        ArgumentError, DtypeError, RankError: an argument is missing, nested otherwise, of another dtype or rank.
        GuardError: a size that the model does not allow; names the argument, the axis, got and allowed.
        IndexOutOfRange: a token or index that its table does not have; names index and bound, nothing is read.
    """

    def __init__(self, adaptor: Any, built: BuiltObjects, program: Program, report: Report, run: Run) -> None:
        self._adaptor = adaptor
        self._built = built
        self._program = program
        self._report = report
        self._run = run

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        tensors = self._adaptor.flatten(args, kwargs)
        return self._adaptor.unflatten(self._run(self._program, tensors), tensors)

    def __repr__(self) -> str:
        report = self._report
        sizes = ", ".join(report.symbols) or "none"
        return f"<CompiledModule: {report.kernels} kernels, {report.launches} launches a call, dynamic sizes: {sizes}>"

    def __reduce__(self) -> Any:
        raise ArgumentError(
            "a compiled program is machine code of this process: it can be neither pickled nor copied",
            remedy="compile it in the other process, where the cache makes that cheap, or deploy `write_objects(...)`",
        )

    def report(self) -> Report:
        """What was compiled."""
        return self._report

    @property
    def built(self) -> BuiltObjects:
        """Objects, constants and, where they were compiled in this process, kernel plans and host program (`stages`)."""
        return self._built

    def write_objects(self, directory: Path | str) -> list[Path]:
        """Write the object files and `constants.bin`, to be linked with the C sources of the runtime into any program."""
        return write_objects(self._built, Path(directory))


def compile(
    module: Any,
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    *,
    dynamic_shapes: DynamicShapes = "all",
    options: Options | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> CompiledModule:
    """Compile a PyTorch module once, for every size that it allows.

    Args:
        module: a `torch.nn.Module` in inference mode; its weights become constants.
        args, kwargs: an example call. With `dynamic_shapes="all"` its sizes do not matter, as far as the model allows; what is
            fixed is among the guards of the report.
        dynamic_shapes: `"all"`, None (every size static), or what `torch.export.export` takes.
        options: see `anyshape.Options`; by default from the environment.
        progress: called as stages begin, step and end.

    Raises:
        ArgumentError: `args` is no tuple or list, `module` is no module, its `forward` takes other arguments than the example's.
        ExportError: PyTorch cannot capture the module, or a size cannot be made dynamic from this example.
        UnsupportedOps: ops that anyshape lacks, all of them, with their source lines.
    """
    if not isinstance(args, tuple | list):  # a tensor is a sequence too, of its rows
        raise ArgumentError(
            "the example arguments are no tuple", where="args", got=type(args).__name__, expected="a tuple or a list",
            remedy="write (x,) for one argument x",
        )  # fmt: skip
    options = options or Options.from_environment()
    trace = Trace.from_options(options, progress=progress)
    frontend = import_module("anyshape.frontends.torch")
    start = time.perf_counter()
    with trace.stage("import"):
        captured = frontend.capture_module(module, tuple(args), dict(kwargs or {}), dynamic_shapes=dynamic_shapes)
    built, adaptor = _build(frontend, captured, options, trace)
    with trace.stage("load"):
        program = load_program(built, options.threads or 0)
    seconds = time.perf_counter() - start - captured.capture_seconds
    report = _report_of(built, seconds, captured.capture_seconds, trace)
    trace.log("compile", trace.times_text)
    run = import_module("anyshape.runtime.torch_adaptor").run
    return CompiledModule(adaptor, built, program, report, run)


def _build(frontend: Any, captured: Any, options: Options, trace: Trace) -> tuple[BuiltObjects, Any]:
    """The program of a captured module and how calls map onto it: fetched by what its graph depends on, so that a warm process
    builds no graph, or compiled."""
    machine, target = calibrated_machine(options.cache), host_target()
    place: StoredProgram | None = None
    if options.cache is not None and options.dump is None and not trace.enabled("graph"):
        with trace.stage("cache"):
            text = captured.graph_text()
            place = None if text is None else StoredProgram(machine, target, options, frontend.__name__, text)
            found = place and place.get(captured.store, trace)
        if found:
            built, outputs = found
            return built, captured.adaptor(frontend.decode_outputs(outputs))
    given = frozenset(captured.store)  # what the front end adds is as much the program's as what folding makes
    with trace.stage("import"):
        imported = captured.import_graph()
    trace.log("graph", lambda: str(imported.module))
    trace.dump("graph", "mlir", lambda: str(imported.module))
    names = [spec.name for spec in imported.inputs]
    outputs = frontend.encode_outputs(imported.adaptor.outputs)
    if place is None or outputs is None:
        return build_objects(imported.module, names, imported.store, options, trace), imported.adaptor
    built = compile_objects(imported.module, names, imported.store, options, trace, machine, target)
    with trace.stage("cache"):
        place.put(built, given, outputs)
    return built, imported.adaptor


def _report_of(built: BuiltObjects, seconds: float, capture_seconds: float, trace: Trace) -> Report:
    summary, constants = built.summary, built.constants
    return Report(
        kernels=len(summary.launches),
        launches=sum(summary.launches.values()),
        symbols=summary.symbols,
        guards=summary.guards,
        compile_seconds=seconds,
        capture_seconds=capture_seconds,
        stages={name: stage.seconds for name, stage in trace.stages.items()},
        kernel_launches=summary.launches,
        constant_bytes=sum(constants.bytes_of(entry) for entry in constants.entries),
        packed_bytes=constants.packed_bytes,
        copied_bytes=constants.copied_bytes,
    )
