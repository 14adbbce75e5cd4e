"""One model, anyshape beside its peers: cold start, then warm medians and paired ratios at each of the model's shapes."""

from __future__ import annotations

import statistics
import textwrap
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from anyshape.support.errors import AnyshapeError
from bench.ceilings import Ceilings
from bench.engines import BASELINE, ENGINES, ONE_SHAPE, SUBJECT, TWIN, export_onnx, peers_among
from bench.figures import paired_ratio, spread
from bench.models import MODELS, Model, Shape
from bench.settings import Settings
from bench.workers import Worker

MAX_ROUNDS, BLOCK_SECONDS = 40, 0.1
REASON_WIDTH = 100
OTHERS = ("gpt2", "vit")
"""The models of the section `models`."""

T = TypeVar("T")


def measure_others(run: Settings) -> dict[str, Any]:
    """Each of `OTHERS` beside the engines that take every shape in one program."""
    names = [name for name in run.engines if name not in ONE_SHAPE]
    return {name: measure_model(MODELS[name], names, run) for name in OTHERS}


def measure_model(model: Model, names: Sequence[str], run: Settings) -> dict[str, Any]:
    """Figures of the engines that can run the model, and why others cannot."""
    names, skipped = exportable(model, names, run)
    workers = _attempt(names, lambda name: start(name, model, run), skipped)
    try:
        cold = _attempt(workers, lambda name: _measure_cold(workers[name], model, run), skipped)
        for name in workers.keys() - cold.keys():
            workers.pop(name).close()
        differences = _largest_differences(workers, model)
        rows: list[dict[str, Any]] = []
        held: list[dict[str, Any]] = []
        for shape in model.shapes:
            run.say(f"{model.title} {shape[0]}×{shape[1]}")
            samples = measure_shape(workers, shape, run)
            rows += [_row(name, model, shape, samples, run.ceilings) for name in workers]
            held += _held_against(shape, samples)
    finally:
        for worker in workers.values():
            worker.close()
    return {
        "title": model.title,
        "size": model.size,
        "skipped": skipped,
        "cold": cold,
        "largest_difference": differences,
        "rows": rows,
        "held_against": held,
    }


def start(name: str, model: Model, run: Settings, cache: Path | None = None) -> Worker:
    """A worker with the model loaded."""
    run.say(f"starting {name}, {model.title}")
    return Worker(name, model.name, run.threads, _onnx_file(model, run), cache)


def exportable(model: Model, names: Sequence[str], run: Settings) -> tuple[list[str], dict[str, str]]:
    """The engines that can read the model, which is exported to ONNX if one of them starts from there, and why others cannot."""
    readers = [name for name in names if ENGINES[name].reads_onnx]
    path = _onnx_file(model, run)
    if not readers or path.exists():
        return list(names), {}
    run.say(f"exporting {model.title} to ONNX")
    try:
        export_onnx(model, path)
    except Exception as error:  # The exporter's own errors have no class in common.
        reason = f"the export to ONNX failed: {_first_line(error)}"
        return [name for name in names if name not in readers], dict.fromkeys(readers, reason)
    return list(names), {}


def _onnx_file(model: Model, run: Settings) -> Path:
    return run.folder / f"{model.name}.onnx"


def _attempt(names: Iterable[str], do: Callable[[str], T], skipped: dict[str, str]) -> dict[str, T]:
    """What is done for each engine; a peer that fails is skipped from then on, ours or the baseline ends the run."""
    done: dict[str, T] = {}
    for name in names:
        try:
            done[name] = do(name)
        except AnyshapeError as error:
            if name in (BASELINE, SUBJECT, TWIN):
                raise
            skipped[name] = _last_line(error)
    return done


def _first_line(error: Exception) -> str:
    return _short(next(iter(str(error).strip().splitlines()), type(error).__name__))


def _last_line(error: AnyshapeError) -> str:
    """Of an engine's traceback, or the message where there is none."""
    return _short(str(error.got).strip().splitlines()[-1] if error.got else error.message)


def _short(reason: str) -> str:
    """Short enough for a cell of a table."""
    return textwrap.shorten(reason, REASON_WIDTH, placeholder=" …")


def _measure_cold(worker: Worker, model: Model, run: Settings) -> dict[str, float]:
    """`first`: seconds to the first answer; `all_shapes`: and until every shape of the table has been answered once."""
    run.say(f"cold start of {worker.name}, {model.title}")
    first = worker.first_answer(model.shapes[0]).all
    rest = sum(worker.block(shape, 0, 1)[0] for shape in model.shapes[1:])
    return {"first": first, "all_shapes": first + rest}


def _largest_differences(workers: Mapping[str, Worker], model: Model) -> dict[str, float]:
    """Largest |engine − eager| over all outputs and shapes."""
    worst = dict.fromkeys(workers, 0.0)
    for shape in model.shapes:
        expected = workers[BASELINE].answer(shape)
        for name, worker in workers.items():
            for got, want in zip(worker.answer(shape), expected, strict=True):
                worst[name] = max(worst[name], float(np.abs(got - want).max()))
    return worst


def measure_shape(workers: Mapping[str, Worker], shape: Shape, run: Settings) -> dict[str, list[float]]:
    """Seconds a call: one sample of each engine a round, the median of a block of calls; the order turns round."""
    slowest = max(worker.block(shape, 1, 1)[0] for worker in workers.values())
    calls = max(1, min(10, int(BLOCK_SECONDS / slowest)))
    warm_up = 2 if slowest < BLOCK_SECONDS else 0
    samples: dict[str, list[float]] = {name: [] for name in workers}
    order = list(workers)
    deadline = time.perf_counter() + run.seconds * len(workers)
    for number in range(MAX_ROUNDS):
        if number >= run.rounds and time.perf_counter() > deadline:
            break
        for name in order:
            samples[name].append(statistics.median(workers[name].block(shape, warm_up, calls)))
        order.reverse()
    return samples


def _row(
    name: str, model: Model, shape: Shape, samples: Mapping[str, list[float]], ceilings: Ceilings
) -> dict[str, Any]:
    batch, length = shape
    time_ms = spread([1e3 * sample for sample in samples[name]])
    floor = model.floor_ms(ceilings, shape)
    return {
        "engine": name,
        "batch": batch,
        "length": length,
        "rounds": len(samples[name]),
        "ms": asdict(time_ms),
        "eager_ratio": asdict(paired_ratio(samples[BASELINE], samples[name])),
        "floor_ms": floor,
        "share": floor / time_ms.median,
    }


def _held_against(shape: Shape, samples: Mapping[str, list[float]]) -> list[dict[str, Any]]:
    """The subject beside the best peer at this shape (by median), and beside its static twin."""
    peers = peers_among(samples)
    others = {"best peer": min(peers, key=lambda name: statistics.median(samples[name]))} if peers else {}
    if TWIN in samples:
        others["static twin"] = TWIN
    return [
        {
            "what": what,
            "engine": other,
            "batch": shape[0],
            "length": shape[1],
            "ratio": asdict(paired_ratio(samples[other], samples[SUBJECT])),
        }
        for what, other in others.items()
        if SUBJECT in samples
    ]
