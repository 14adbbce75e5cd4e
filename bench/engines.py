"""The engines that are compared: each loads MiniLM-L6 and answers `{input_ids, attention_mask}` with its arrays."""

from __future__ import annotations

import importlib.util
import logging
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import torch

from anyshape.cli.minilm import Inputs, load_transformer, random_inputs

MAX_BATCH = 4096


class Transformer(torch.nn.Module):
    """MiniLM-L6 with plain tensors for results: (tokens [b, s, 384], pooled [b, 384])."""

    def __init__(self) -> None:
        super().__init__()
        self.model = load_transformer()

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        output: Any = self.model(input_ids=input_ids, attention_mask=attention_mask)
        return output.last_hidden_state, output.pooler_output


class Engine(ABC):
    """Something that runs the model. `prepare` is what happens once, before the first answer."""

    title: str
    needs: tuple[str, ...] = ()
    """Modules that must be installed."""

    def __init__(self, threads: int, onnx_file: Path) -> None:
        self.threads = threads
        self.onnx_file = onnx_file
        torch.set_num_threads(threads)

    @abstractmethod
    def load(self) -> None:
        """Read the weights: not counted as cold start, the same for all that start from PyTorch."""

    @abstractmethod
    def prepare(self) -> None:
        """Compile, as far as this happens before the first call."""

    @abstractmethod
    def __call__(self, inputs: Inputs) -> list[Any]:
        """The outputs, as tensors or arrays."""


class Eager(Engine):
    title = "PyTorch eager"

    def load(self) -> None:
        self.model: Callable[..., Any] = Transformer().eval()

    def prepare(self) -> None:
        return

    def __call__(self, inputs: Inputs) -> list[Any]:
        with torch.no_grad():
            return list(self.model(**inputs))


class InductorDynamic(Eager):
    title = "Inductor, dynamic"
    dynamic = True

    def prepare(self) -> None:
        # A run meets more shapes than the default number of recompilations, after which PyTorch goes back to eager.
        torch._dynamo.config.recompile_limit = 256  # pyright: ignore
        self.model = torch.compile(self.model, dynamic=self.dynamic)


class InductorStatic(InductorDynamic):
    title = "Inductor, static"
    dynamic = False


class Anyshape(Engine):
    title = "anyshape"

    def load(self) -> None:
        self.model = Transformer().eval()

    def prepare(self) -> None:
        import anyshape

        self.program = anyshape.compile(
            self.model, kwargs=random_inputs(2, 7), options=anyshape.Options(threads=self.threads)
        )

    def __call__(self, inputs: Inputs) -> list[Any]:
        return list(self.program(**inputs))


class AnyshapeStatic(Anyshape):
    """One program for each shape: what the same compiler reaches when it knows every size."""

    title = "anyshape, static twins"

    def prepare(self) -> None:
        self.programs: dict[tuple[int, ...], Callable[..., Any]] = {}

    def __call__(self, inputs: Inputs) -> list[Any]:
        import anyshape

        shape = tuple(inputs["input_ids"].shape)
        if shape not in self.programs:
            options = anyshape.Options(threads=self.threads)
            self.programs[shape] = anyshape.compile(self.model, kwargs=inputs, dynamic_shapes=None, options=options)
        return list(self.programs[shape](**inputs))


class OnnxRuntime(Engine):
    title = "ONNX Runtime"
    needs = ("onnxruntime", "onnx", "onnxscript")

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

    def load(self) -> None:
        return

    def prepare(self) -> None:
        import openvino

        settings = {
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
    "eager": Eager,
    "inductor": InductorDynamic,
    "inductor-static": InductorStatic,
    "onnxruntime": OnnxRuntime,
    "openvino": OpenVino,
}
"""Every engine, by the name that `--peers` takes."""

BASELINE = "eager"
SUBJECT = "anyshape"
TWIN = "anyshape-static"
"""The subject again, compiled for each shape: no peer, but what dynamic sizes are held against."""


def peers_among(names: Iterable[str]) -> list[str]:
    """Those that are not ours."""
    return [name for name in names if name not in (SUBJECT, TWIN)]


def missing_modules(name: str) -> list[str]:
    """The modules that an engine needs and that are not installed."""
    return [module for module in ENGINES[name].needs if importlib.util.find_spec(module) is None]


def export_onnx(path: Path) -> None:
    """Write the model as ONNX with a symbolic batch and length, by PyTorch's own exporter."""
    batch = torch.export.Dim("batch", min=1, max=MAX_BATCH)
    length = torch.export.Dim("length", min=1, max=512)
    dimensions = {0: batch, 1: length}
    path.parent.mkdir(parents=True, exist_ok=True)
    # It tells of packages that this model does not need.
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program = torch.onnx.export(
            Transformer().eval(),
            (),
            kwargs=random_inputs(2, 7),
            dynamo=True,
            dynamic_shapes={"input_ids": dimensions, "attention_mask": dimensions},
            output_names=["tokens", "pooled"],
            verbose=False,
        )
    assert program is not None
    program.save(path)
