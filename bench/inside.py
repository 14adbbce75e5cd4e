"""anyshape inside `torch.compile`: beside `anyshape.compile`, eager and Inductor, and what one call costs from Python.

    python -m bench --only compile
    python -m bench --only torch-compile    the same at batches of 1 and 8 alone, without Inductor: two or three minutes

A call through `torch.compile` is TorchDynamo's guards, AOTAutograd's wrapper and our call. The smallest one there is, x + 1 of one element,
shows them apart: a back end that hands the graph back as it came has the guards only, one that PyTorch runs op by op the wrapper too.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import torch

import anyshape
from anyshape.driver.dynamo import backend
from bench.compare import measure_shape
from bench.engines import BASELINE, INSIDE, SUBJECT
from bench.figures import paired_ratio, spread
from bench.models import MODELS, Model, Shape
from bench.settings import Settings
from bench.workers import Worker

Call = Callable[[torch.Tensor], Any]

INDUCTOR = "inductor"
BLOCKS, CALLS = 60, 200
"""Blocks of calls of each way to add one, taken in turn."""


BRIEF = {"minilm": ((1, 128), (8, 128)), "gpt2": ((1, 128), (8, 128)), "vit": ((1, 224), (8, 224))}
"""Models and shapes of the short run."""


def measure_inside(run: Settings) -> dict[str, Any]:
    """Models at their shapes, then the cost of one call."""
    peers = [INDUCTOR] if INDUCTOR in run.engines else []
    rows = [row for model in MODELS.values() for row in _model_rows(model, model.shapes, peers, run)]
    return {"models": rows, "call": _call_rows(run)}


def measure_inside_briefly(run: Settings) -> dict[str, Any]:
    """The same at few shapes, beside eager and `anyshape.compile` alone."""
    rows = [row for name, shapes in BRIEF.items() for row in _model_rows(MODELS[name], shapes, [], run)]
    return {"models": rows, "call": _call_rows(run)}


def _model_rows(model: Model, shapes: Sequence[Shape], peers: Sequence[str], run: Settings) -> list[dict[str, Any]]:
    names = [BASELINE, SUBJECT, INSIDE, *peers]
    workers: dict[str, Worker] = {}
    try:
        for name in names:
            run.say(f"starting {name}, {model.title}")
            workers[name] = Worker(name, model.name, run.threads, run.folder / f"{model.name}.onnx")
            workers[name].first_answer(shapes[0])
        return [_row(model, shape, workers, run) for shape in shapes]
    finally:
        for worker in workers.values():
            worker.close()


def _row(model: Model, shape: Shape, workers: Mapping[str, Worker], run: Settings) -> dict[str, Any]:
    run.say(f"{model.title} {shape[0]}×{shape[1]}")
    samples = measure_shape(workers, shape, run)
    ours = samples[INSIDE]
    return {
        "title": model.title,
        "batch": shape[0],
        "length": shape[1],
        "ms": {name: asdict(spread([1e3 * sample for sample in seconds])) for name, seconds in samples.items()},
        "ratios": {name: asdict(paired_ratio(seconds, ours)) for name, seconds in samples.items() if name != INSIDE},
    }


def _call_rows(run: Settings) -> list[dict[str, Any]]:
    run.say("the cost of one call")
    x = torch.ones(1, 1)
    with torch.no_grad():
        ways = _ways_to_add_one(x, run.threads)
        samples: dict[str, list[float]] = {name: [] for name in ways}
        for _ in range(BLOCKS):
            for name, call in ways.items():
                samples[name].append(_microseconds(call, x))
    return [{"way": name, "us": asdict(spread(taken))} for name, taken in samples.items()]


class _AddOne(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + 1


def _ways_to_add_one(x: torch.Tensor, threads: int) -> dict[str, Call]:
    def as_it_came(graph: torch.fx.GraphModule, inputs: Sequence[Any]) -> Any:
        return graph.forward

    module = _AddOne().eval()
    ways: dict[str, Call] = {
        "eager": module,
        "anyshape.compile": anyshape.compile(module, (x,), options=anyshape.Options(threads=threads)),
        "torch.compile, guards only": torch.compile(module, backend=as_it_came, dynamic=True),
        "torch.compile, guards and AOTAutograd": torch.compile(module, backend="aot_eager", dynamic=True),
        "torch.compile, anyshape": torch.compile(module, backend=backend, dynamic=True, options={"threads": threads}),
    }
    for call in ways.values():
        for _ in range(CALLS):
            call(x)
    return ways


def _microseconds(call: Call, x: torch.Tensor) -> float:
    """The median of `CALLS` calls."""
    taken: list[float] = []
    for _ in range(CALLS):
        start = time.perf_counter()
        call(x)
        taken.append(1e6 * (time.perf_counter() - start))
    return statistics.median(taken)
