"""The public face of the compiler: `compile`, `load`, `report`."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, Literal

from anyshape.dialects.host import BindOp, ProgramOp
from anyshape.driver.build import BuiltObjects, build_objects, load_program
from anyshape.driver.report import Report
from anyshape.support.options import Options
from anyshape.support.trace import Progress, Trace

DynamicShapes = Mapping[str, Any] | Sequence[Any] | Literal["all"] | None


class CompiledModule:
    """A compiled PyTorch module: call it as the module itself, at any size.

    Raises on a call:
        ArgumentError, DtypeError, RankError: an argument is missing, nested otherwise, of another dtype or rank.
        GuardError: a size that the model does not allow; names the argument, the axis, got and allowed.
        IndexOutOfRange: a token or index that its table does not have; names index and bound, nothing is read.
    """

    def __init__(self, imported: Any, built: BuiltObjects, options: Options, report: Report, run: Callable[..., Any]) -> None:
        self._adaptor = imported.adaptor
        self._built = built
        self._report = report
        self._run = run
        self._program = load_program(built, options.threads or 0)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        tensors = self._adaptor.flatten(args, kwargs)
        return self._adaptor.unflatten(self._run(self._program, tensors), tensors)

    def report(self) -> Report:
        """What was compiled."""
        return self._report

    @property
    def built(self) -> BuiltObjects:
        """Objects, constants, kernel plans and host program."""
        return self._built

    def write_objects(self, directory: Path | str) -> list[Path]:
        """Write the object files and `constants.bin`, to be linked with the C sources of the runtime into any program."""
        folder = Path(directory)
        folder.mkdir(parents=True, exist_ok=True)
        paths = [folder / f"{name}.o" for name in ("kernels", "program", "microkernels")][: len(self._built.objects)]
        for path, data in zip(paths, self._built.objects, strict=True):
            path.write_bytes(data)
        self._built.constants.write(folder / "constants.bin")
        return paths


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
        args, kwargs: an example call. With `dynamic_shapes="all"` its sizes do not matter.
        dynamic_shapes: `"all"`, None (every size static), or what `torch.export.export` takes.
        options: see `anyshape.Options`; by default from the environment.
        progress: called as stages begin, step and end.

    Raises:
        ExportError: PyTorch cannot capture the module, or a size cannot be made dynamic from this example.
        UnsupportedOps: ops that anyshape lacks, all of them, with their source lines.
    """
    options = options or Options.from_environment()
    trace = Trace.from_options(options, progress=progress)
    frontend = import_module("anyshape.frontends.torch")
    with trace.stage("capture"):
        imported = frontend.import_module(module, tuple(args), dict(kwargs or {}), dynamic_shapes=dynamic_shapes)
    trace.log("graph", lambda: str(imported.module))
    trace.dump("graph", "mlir", lambda: str(imported.module))
    start = time.perf_counter()
    built = build_objects(imported.module, [spec.name for spec in imported.inputs], imported.store, options, trace)
    report = _report_of(built, time.perf_counter() - start, imported.capture_seconds, trace)
    compiled = CompiledModule(imported, built, options, report, import_module("anyshape.runtime.torch_adaptor").run)
    trace.log("compile", trace.times_text)
    return compiled


def _report_of(built: BuiltObjects, seconds: float, capture_seconds: float, trace: Trace) -> Report:
    launches = Counter(launch.kernel_name for launch in built.launches)
    return Report(
        compiles=1,
        kernels=len(built.kernels),
        launches=launches.total(),
        fallbacks=0,
        symbols=_symbols_of(built.program),
        guards=tuple(built.guards),
        compile_seconds=seconds,
        capture_seconds=capture_seconds,
        stages={name: stage.seconds for name, stage in trace.stages.items()},
        kernel_launches=dict(launches),
        constant_bytes=sum(array.nbytes for array in built.constants.arrays),
    )


def _symbols_of(program: ProgramOp) -> dict[str, str]:
    names = dict(zip(program.body.block.args, (name.data for name in program.names), strict=True))
    return {
        op.symbol.data: f"{names[op.argument]}, axis {op.axis.value.data}"  # pyright: ignore[reportArgumentType]
        for op in program.body.block.ops
        if isinstance(op, BindOp)
    }
