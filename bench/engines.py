"""The engines that are compared: each loads a model and answers its named inputs with arrays."""

from __future__ import annotations

import importlib.util
import logging
import os
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import torch

from anyshape.cli.minilm import Inputs
from bench.models import Model


class Engine(ABC):
    """Something that runs a model. `prepare` is what happens once, before the first answer.

    Args:
        cache: a folder for what the engine keeps between processes, where it keeps anything; empty for a start from nothing.
    """

    title: str
    imports: tuple[str, ...] = ()
    """Modules that compile and run: imported before `prepare`, in a time of their own."""
    needs: tuple[str, ...] = ()
    """Modules that must be installed."""
    reads_onnx = False
    """Whether it starts from the exported file and not from the PyTorch module."""

    def __init__(self, model: Model, threads: int, onnx_file: Path, cache: Path) -> None:
        self.model = model
        self.threads = threads
        self.onnx_file = onnx_file
        self.cache = cache
        # Read by Inductor when it first compiles.
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(cache)
        torch.set_num_threads(threads)

    @abstractmethod
    def load(self) -> None:
        """Read the weights: not counted as cold start, the same for all that start from PyTorch."""

    @abstractmethod
    def prepare(self) -> None:
        """Compile, as far as this happens before the first call."""

    @property
    def capture_seconds(self) -> float:
        """Of the time so far, what the framework took to hand over the model as a graph. An exported file was captured before."""
        return 0.0

    @abstractmethod
    def __call__(self, inputs: Inputs) -> list[Any]:
        """The outputs, as tensors or arrays."""


class Eager(Engine):
    title = "PyTorch eager"

    def load(self) -> None:
        self.module: Callable[..., Any] = self.model.load()

    def prepare(self) -> None:
        return

    def __call__(self, inputs: Inputs) -> list[Any]:
        with torch.no_grad():
            return list(self.module(**inputs))


class InductorDynamic(Eager):
    title = "Inductor, dynamic"
    imports = ("torch._dynamo", "torch._inductor.compile_fx")
    dynamic = True

    @property
    def capture_seconds(self) -> float:
        """Dynamo, AOTAutograd and decompositions: all of the compilation that is not Inductor's own."""
        seconds: dict[str, float] = torch._dynamo.utils.calculate_time_spent()  # pyright: ignore
        return seconds.get("entire_frame_compile", 0.0) - seconds.get("inductor_compile", 0.0)

    def prepare(self) -> None:
        # A run meets more shapes than the default number of recompilations, after which PyTorch goes back to eager.
        torch._dynamo.config.recompile_limit = 256  # pyright: ignore
        self.module = torch.compile(self.module, dynamic=self.dynamic)


class InductorStatic(InductorDynamic):
    title = "Inductor, static"
    dynamic = False


class Anyshape(Engine):
    title = "anyshape"
    imports = ("torch.export", "anyshape.driver.api", "anyshape.frontends.torch")

    def load(self) -> None:
        self.module = self.model.load()

    def prepare(self) -> None:
        import anyshape

        self.program = anyshape.compile(
            self.module,
            kwargs=self.model.inputs(self.model.example),
            options=anyshape.Options(threads=self.threads, cache=self.cache),
        )

    @property
    def capture_seconds(self) -> float:
        return self.program.report().capture_seconds

    def __call__(self, inputs: Inputs) -> list[Any]:
        return list(self.program(**inputs))


class AnyshapeStatic(Anyshape):
    """One program for each shape: what the same compiler reaches when it knows every size."""

    title = "anyshape, static twins"

    def prepare(self) -> None:
        self.programs: dict[tuple[tuple[int, ...], ...], Any] = {}

    @property
    def capture_seconds(self) -> float:
        return sum(program.report().capture_seconds for program in self.programs.values())

    def __call__(self, inputs: Inputs) -> list[Any]:
        import anyshape

        shapes = tuple(tuple(tensor.shape) for tensor in inputs.values())
        if shapes not in self.programs:
            options = anyshape.Options(threads=self.threads, cache=self.cache)
            self.programs[shapes] = anyshape.compile(self.module, kwargs=inputs, dynamic_shapes=None, options=options)
        return list(self.programs[shapes](**inputs))


class AnyshapeInside(Eager):
    """The same compiler as a back end of `torch.compile`, with the weights still PyTorch's."""

    title = "anyshape in torch.compile"
    imports = ("torch._dynamo", "anyshape.driver.dynamo")

    @property
    def capture_seconds(self) -> float:
        import anyshape

        seconds: dict[str, float] = torch._dynamo.utils.calculate_time_spent()  # pyright: ignore
        return seconds.get("entire_frame_compile", 0.0) - sum(each.compile_seconds for each in anyshape.report().graphs)

    def prepare(self) -> None:
        from anyshape.driver.dynamo import backend

        options = {"threads": self.threads, "cache": self.cache}
        self.module = torch.compile(self.module, backend=backend, dynamic=True, options=options)


class OnnxRuntime(Engine):
    title = "ONNX Runtime"
    needs = ("onnxruntime", "onnx", "onnxscript")
    imports = ("onnxruntime",)
    reads_onnx = True

    def load(self) -> None:
        return

    def prepare(self) -> None:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = self.threads
        self.session = onnxruntime.InferenceSession(str(self.onnx_file), options, providers=["CPUExecutionProvider"])

    def __call__(self, inputs: Inputs) -> list[Any]:
        return list(self.session.run(None, {name: tensor.numpy() for name, tensor in inputs.items()}))


class OpenVino(Engine):
    title = "OpenVINO"
    needs = ("openvino", "onnx", "onnxscript")
    imports = ("openvino",)
    reads_onnx = True

    def load(self) -> None:
        return

    def prepare(self) -> None:
        import openvino

        settings = {
            "CACHE_DIR": str(self.cache),
            "INFERENCE_NUM_THREADS": self.threads,
            "PERFORMANCE_HINT": "LATENCY",
            # Its default on this kind of CPU is bf16, which answers another question.
            "INFERENCE_PRECISION_HINT": "f32",
        }
        self.request = openvino.Core().compile_model(str(self.onnx_file), "CPU", settings).create_infer_request()

    def __call__(self, inputs: Inputs) -> list[Any]:
        results = self.request.infer({name: tensor.numpy() for name, tensor in inputs.items()})
        return [results[index] for index in range(len(results))]


ENGINES: Mapping[str, type[Engine]] = {
    "anyshape": Anyshape,
    "anyshape-static": AnyshapeStatic,
    "anyshape-inside": AnyshapeInside,
    "eager": Eager,
    "inductor": InductorDynamic,
    "inductor-static": InductorStatic,
    "onnxruntime": OnnxRuntime,
    "openvino": OpenVino,
}
"""Every engine, by the name that `--peers` takes."""

BASELINE = "eager"
SUBJECT = "anyshape"
INSIDE = "anyshape-inside"
"""The subject as a back end of `torch.compile`: the section `compile` measures it, and no other unless it is asked for."""
TWIN = "anyshape-static"
"""The subject again, compiled for each shape: no peer, but what dynamic sizes are held against."""
ONE_SHAPE = frozenset({"inductor-static", TWIN})
"""Engines that compile every shape anew."""


def peers_among(names: Iterable[str]) -> list[str]:
    """Those that are not ours."""
    return [name for name in names if name not in (SUBJECT, TWIN, INSIDE)]


def missing_modules(name: str) -> list[str]:
    """The modules that an engine needs and that are not installed."""
    return [module for module in ENGINES[name].needs if importlib.util.find_spec(module) is None]


def export_onnx(model: Model, path: Path) -> None:
    """Write a model as ONNX with its dynamic axes symbolic, by PyTorch's own exporter; whole or not at all."""
    dimensions = {name: torch.export.Dim(name, min=1, max=limit) for name, limit in model.limits.items()}
    shapes = {name: {axis: dimensions[of] for axis, of in enumerate(axes)} for name, axes in model.axes.items()}
    path.parent.mkdir(parents=True, exist_ok=True)
    # It tells of packages that these models do not need.
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program = torch.onnx.export(
            model.load(),
            (),
            kwargs=model.inputs(model.example),
            dynamo=True,
            dynamic_shapes=shapes,
            output_names=list(model.outputs),
            verbose=False,
        )
    assert program is not None
    partial = path.with_suffix(".partial.onnx")
    program.save(partial)
    partial.replace(path)
