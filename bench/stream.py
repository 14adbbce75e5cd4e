"""A stream of requests of many shapes to MiniLM-L6: anyshape beside its peers."""

from __future__ import annotations

import random
from dataclasses import asdict
from typing import Any

from bench.compare import exportable, start
from bench.engines import BASELINE, ONE_SHAPE
from bench.figures import paired_ratio, spread
from bench.models import MODELS, Shape
from bench.settings import Settings
from bench.workers import Worker

REQUESTS = 200
MODEL = MODELS["minilm"]


def request_shapes(seed: int = 0) -> list[Shape]:
    """Shapes of 200 requests: batch 1 to 8, lengths log-normal with median 34, 2 to 512."""
    draw = random.Random(seed)
    return [(draw.randint(1, 8), max(2, min(512, round(34 * draw.lognormvariate(0.0, 0.8))))) for _ in range(REQUESTS)]


def measure_stream(run: Settings) -> dict[str, Any]:
    """Seconds for the stream: the first pass with everything that happens once, then warm passes in turn."""
    shapes = request_shapes()
    # It has more than a hundred shapes, too many to compile each.
    names, skipped = exportable(MODEL, [name for name in run.engines if name not in ONE_SHAPE], run)
    workers: dict[str, Worker] = {}
    try:
        for name in names:
            workers[name] = start(name, MODEL, run)
        first: dict[str, float] = {}
        for name, worker in workers.items():
            run.say(f"stream, first pass of {name}")
            first[name] = worker.first_answer(shapes[0]) + worker.stream(shapes[1:])
        warm: dict[str, list[float]] = {name: [] for name in workers}
        for number in range(3):
            run.say(f"stream, warm pass {number + 1}")
            for name, worker in workers.items():
                warm[name].append(worker.stream(shapes))
    finally:
        for worker in workers.values():
            worker.close()
    floor = 1e-3 * sum(MODEL.floor_ms(run.ceilings, shape) for shape in shapes)
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
    return {
        "requests": len(shapes),
        "shapes": len(set(shapes)),
        "tokens": tokens,
        "floor_s": floor,
        "skipped": skipped,
        "rows": rows,
    }
