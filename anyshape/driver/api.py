"""The public face of the compiler: `compile`, `load`, `report`."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from os import PathLike
from pathlib import Path
from typing import Any, Literal

from anyshape.codegen.llvm import host_target
from anyshape.driver.build import build_objects, compile_objects, load_program, write_objects
from anyshape.driver.machine import calibrated_machine
from anyshape.driver.report import Report
from anyshape.driver.stored import BuiltObjects, StoredProgram
from anyshape.runtime import Program, numpy_adaptor
from anyshape.support.errors import ArgumentError, ExportError
from anyshape.support.options import Options
from anyshape.support.trace import Progress, Trace

Run = Callable[[Program, Sequence[Any]], list[Any]]
DynamicShapes = Mapping[str, Any] | Sequence[Any] | Literal["all"] | None


class CompiledModule:
    """A compiled model: call it at any size, a PyTorch module as the module itself, an ONNX model with numpy arrays.

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

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
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

    @property
    def input_names(self) -> tuple[str, ...]:
        """The names of the arguments of the program: an ONNX model's inputs, or where in a call of the module each tensor stands."""
        return tuple(spec.name for spec in self._adaptor.inputs)

    @property
    def output_names(self) -> tuple[str, ...]:
        """The names of an ONNX model's outputs; a PyTorch module has none."""
        return tuple(getattr(spec, "name", "") for spec in self._adaptor.outputs)

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
    """Compile a PyTorch module or an ONNX model once, for every size that it allows.

    Args:
        module: a `torch.nn.Module` in inference mode; its weights become constants. Or an ONNX model, by its file or as a `ModelProto`:
            it is called with numpy arrays, in the order of its inputs or by their names, and gives its output, or a tuple of several.
        args, kwargs: an example call. With `dynamic_shapes="all"` its sizes do not matter, as far as the model allows; what is
            fixed is among the guards of the report.
        dynamic_shapes: `"all"`, None (every size static), or what `torch.export.export` takes. Of an ONNX model the sizes that
            its file names are free; `{"x": {0: "batch"}}` frees axes that the file fixes, or fixes those that it frees.
        options: see `anyshape.Options`; by default from the environment.
        progress: called as stages begin, step and end.

    Raises:
        ArgumentError: `args` is no tuple or list, `module` is no module, its `forward` takes other arguments than the example's.
        ExportError: PyTorch cannot capture the module, or a size cannot be made dynamic from this example.
        UnsupportedOps: ops that anyshape lacks, all of them, with their source lines or nodes.
        FileFormatError: the file is no ONNX model, or breaks a rule of the format.
    """
    if not isinstance(args, tuple | list):  # a tensor is a sequence too, of its rows
        raise ArgumentError(
            "the example arguments are no tuple", where="args", got=type(args).__name__, expected="a tuple or a list",
            remedy="write (x,) for one argument x",
        )  # fmt: skip
    options = options or Options.from_environment()
    trace = Trace.from_options(options, progress=progress)
    if _is_onnx(module):
        return _compile_onnx(module, args, kwargs, dynamic_shapes, options, trace)
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


def _is_onnx(module: Any) -> bool:
    kind: Any = module.__class__
    return isinstance(module, str | bytes | PathLike) or (
        kind.__name__ == "ModelProto" and kind.__module__.startswith("onnx")
    )


def _compile_onnx(
    model: Any,
    args: Sequence[Any],
    kwargs: Mapping[str, Any] | None,
    dynamic_shapes: DynamicShapes,
    options: Options,
    trace: Trace,
) -> CompiledModule:
    if args or kwargs:
        raise ArgumentError(
            "an ONNX model says itself what it takes", where="args", remedy="leave the example arguments out"
        )
    given = None if dynamic_shapes is None or dynamic_shapes == "all" else dynamic_shapes
    if not isinstance(given, Mapping | None):
        raise ArgumentError(
            "the sizes of an ONNX model are given by its inputs' names", where="dynamic_shapes", got=repr(given),
            expected="a mapping such as {'x': {0: 'batch'}}",
        )  # fmt: skip
    start = time.perf_counter()
    with trace.stage("import"):
        frontend = _onnx_front_end()
        imported = frontend.import_model(frontend.load_model(model), given)
        adaptor = frontend.CallAdaptor(imported.name, imported.inputs, imported.outputs, imported.constants)
    trace.log("graph", lambda: str(imported.module))
    trace.dump("graph", "mlir", lambda: str(imported.module))
    built = _built_as_named(imported, options, trace)
    with trace.stage("load"):
        program = load_program(built, options.threads or 0)
    report = _report_of(built, time.perf_counter() - start, 0.0, trace)
    trace.log("compile", trace.times_text)
    return CompiledModule(adaptor, built, program, report, numpy_adaptor.run)


def _built_as_named(imported: Any, options: Options, trace: Trace) -> BuiltObjects:
    """The program of an imported graph, from the cache or compiled. Its errors name nodes, so these are part of what is looked up."""
    machine, target = calibrated_machine(options.cache), host_target()
    names = [spec.name for spec in imported.inputs]
    with trace.stage("cache"):
        place = StoredProgram(
            machine, target, options, "onnx", json.dumps(names), str(imported.module), imported.places()
        )
        found = place.get(imported.store, trace)
    if found is not None:
        return found[0]
    given = frozenset(imported.store)
    built = compile_objects(imported.module, names, imported.store, options, trace, machine, target)
    with trace.stage("cache"):
        place.put(built, given)
    return built


def _onnx_front_end() -> Any:
    try:
        return import_module("anyshape.frontends.onnx")
    except ModuleNotFoundError as error:
        if error.name != "onnx":
            raise
        raise ExportError(
            "reading ONNX models needs the package onnx", remedy="pip install 'anyshape[onnx]'"
        ) from error


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
