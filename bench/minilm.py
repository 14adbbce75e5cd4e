"""MiniLM-L6 with its real weights: anyshape beside its peers, at fixed shapes and over a stream of requests."""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from bench.ceilings import Ceilings
from bench.engines import BASELINE, SUBJECT, TWIN, peers_among
from bench.figures import paired_ratio, spread
from bench.workers import Shape, Worker

SHAPES: tuple[Shape, ...] = ((1, 8), (1, 17), (1, 64), (1, 128), (1, 333), (8, 24), (8, 128), (16, 200))
LAYERS, WIDTH, INNER = 6, 384, 1536
WEIGHTS = LAYERS * (4 * WIDTH * WIDTH + 2 * WIDTH * INNER)
"""Numbers in the matrices that every token is multiplied with."""
SECONDS_PER_SHAPE = 4.0
"""For each engine."""
MIN_ROUNDS, MAX_ROUNDS, BLOCK_SECONDS = 5, 40, 0.1
REQUESTS = 200
TOO_MANY_SHAPES = frozenset({"inductor-static", TWIN})
"""Engines that compile every shape anew, which the stream has more than a hundred of."""

Say = Callable[[str], None]


def operations(batch: int, length: int) -> float:
    """f32 operations of the products and of attention: 2·w·b·s + 4·layers·width·b·s²."""
    return 2.0 * WEIGHTS * batch * length + 4.0 * LAYERS * WIDTH * batch * length * length


def floor_ms(ceilings: Ceilings, batch: int, length: int) -> float:
    """The least time: the operations at the FMA rate, or the weights read once from cache."""
    return ceilings.product_ms(operations(batch, length), 4.0 * WEIGHTS)


def measure_table(names: Sequence[str], threads: int, onnx_file: Path, ceilings: Ceilings, say: Say) -> dict[str, Any]:
    """Cold start, then warm medians and paired ratios of each engine at each of `SHAPES`."""
    workers = _start(names, threads, onnx_file, say)
    try:
        cold = {name: _measure_cold(worker, say) for name, worker in workers.items()}
        differences = _largest_differences(workers)
        rows: list[dict[str, Any]] = []
        held: list[dict[str, Any]] = []
        for shape in SHAPES:
            say(f"MiniLM {shape[0]}×{shape[1]}")
            samples = _measure_shape(workers, shape)
            rows += [_row(name, shape, samples, ceilings) for name in workers]
            held += _held_against(shape, samples)
    finally:
        for worker in workers.values():
            worker.close()
    return {"cold": cold, "largest_difference": differences, "rows": rows, "held_against": held}


def _start(names: Sequence[str], threads: int, onnx_file: Path, say: Say) -> dict[str, Worker]:
    workers: dict[str, Worker] = {}
    for name in names:
        say(f"starting {name}")
        workers[name] = Worker(name, threads, onnx_file)
    return workers


def _measure_cold(worker: Worker, say: Say) -> dict[str, float]:
    """`first`: seconds to the first answer; `all_shapes`: and until every shape of the table has been answered once."""
    say(f"cold start of {worker.name}")
    first = worker.first_answer(SHAPES[0])
    rest = sum(worker.block(shape, 0, 1)[0] for shape in SHAPES[1:])
    return {"first": first, "all_shapes": first + rest}


def _largest_differences(workers: Mapping[str, Worker]) -> dict[str, float]:
    """Largest |engine − eager| over all outputs and shapes."""
    worst = dict.fromkeys(workers, 0.0)
    for shape in SHAPES:
        expected = workers[BASELINE].answer(shape)
        for name, worker in workers.items():
            for got, want in zip(worker.answer(shape), expected, strict=True):
                worst[name] = max(worst[name], float(np.abs(got - want).max()))
    return worst


def _measure_shape(workers: Mapping[str, Worker], shape: Shape) -> dict[str, list[float]]:
    """Seconds a call: one sample of each engine a round, the median of a block of calls; the order turns round."""
    slowest = max(worker.block(shape, 1, 1)[0] for worker in workers.values())
    calls = max(1, min(10, int(BLOCK_SECONDS / slowest)))
    warm_up = 2 if slowest < BLOCK_SECONDS else 0
    samples: dict[str, list[float]] = {name: [] for name in workers}
    order = list(workers)
    deadline = time.perf_counter() + SECONDS_PER_SHAPE * len(workers)
    for number in range(MAX_ROUNDS):
        if number >= MIN_ROUNDS and time.perf_counter() > deadline:
            break
        for name in order:
            samples[name].append(statistics.median(workers[name].block(shape, warm_up, calls)))
        order.reverse()
    return samples


def _row(name: str, shape: Shape, samples: Mapping[str, list[float]], ceilings: Ceilings) -> dict[str, Any]:
    batch, length = shape
    time_ms = spread([1e3 * sample for sample in samples[name]])
    floor = floor_ms(ceilings, batch, length)
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


def request_shapes(seed: int = 0) -> list[Shape]:
    """Shapes of 200 requests: batch 1 to 8, lengths log-normal with median 34, 2 to 512."""
    draw = random.Random(seed)
    return [(draw.randint(1, 8), max(2, min(512, round(34 * draw.lognormvariate(0.0, 0.8))))) for _ in range(REQUESTS)]


def measure_stream(names: Sequence[str], threads: int, onnx_file: Path, ceilings: Ceilings, say: Say) -> dict[str, Any]:
    """Seconds for the stream: the first pass with everything that happens once, then warm passes in turn."""
    shapes = request_shapes()
    workers = _start([name for name in names if name not in TOO_MANY_SHAPES], threads, onnx_file, say)
    try:
        first: dict[str, float] = {}
        for name, worker in workers.items():
            say(f"stream, first pass of {name}")
            first[name] = worker.first_answer(shapes[0]) + worker.stream(shapes[1:])
        warm: dict[str, list[float]] = {name: [] for name in workers}
        for number in range(3):
            say(f"stream, warm pass {number + 1}")
            for name, worker in workers.items():
                warm[name].append(worker.stream(shapes))
    finally:
        for worker in workers.values():
            worker.close()
    floor = 1e-3 * sum(floor_ms(ceilings, batch, length) for batch, length in shapes)
    rows = [
        {
            "engine": name,
            "first_s": first[name],
            "warm_s": asdict(spread(warm[name])),
            "eager_ratio": asdict(paired_ratio(warm[BASELINE], warm[name])),
            "share": floor / spread(warm[name]).median,
        }
        for name in workers
    ]
    tokens = sum(batch * length for batch, length in shapes)
    return {"requests": len(shapes), "shapes": len(set(shapes)), "tokens": tokens, "floor_s": floor, "rows": rows}
