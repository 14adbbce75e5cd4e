"""A stream of requests of many shapes to MiniLM-L6: anyshape beside its peers."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from bench.compare import exportable, start
from bench.engines import BASELINE, ONE_SHAPE, SUBJECT, peers_among
from bench.figures import paired_ratio, spread
from bench.models import MODELS, Shape
from bench.settings import Settings
from bench.workers import Worker

REQUESTS = 200
WARM_PASSES = 3
MODEL = MODELS["minilm"]


def request_shapes(seed: int = 0) -> list[Shape]:
    """Shapes of 200 requests: batch 1 to 8, lengths log-normal with median 34, 2 to 512."""
    draw = random.Random(seed)
    return [(draw.randint(1, 8), max(2, min(512, round(34 * draw.lognormvariate(0.0, 0.8))))) for _ in range(REQUESTS)]


@dataclass(frozen=True)
class FirstPass:
    """Seconds of a process's first pass: the compilation and all answers, apart from what every engine needs first."""

    seconds: float
    imports: float
    capture: float


def measure_stream(run: Settings) -> dict[str, Any]:
    """Seconds for the stream: first passes of a process with empty caches and of one with filled ones, then warm passes in turn."""
    shapes = request_shapes()
    # It has more than a hundred shapes, too many to compile each.
    names, skipped = exportable(MODEL, [name for name in run.engines if name not in ONE_SHAPE], run)
    workers: dict[str, Worker] = {}
    empty: dict[str, FirstPass] = {}
    filled: dict[str, FirstPass] = {}
    with tempfile.TemporaryDirectory() as folder:
        try:
            for name in names:
                cache = Path(folder) / name
                cache.mkdir(mode=0o700)
                worker = start(name, MODEL, run, cache)
                try:
                    empty[name] = _first_pass(worker, shapes, run, "empty")
                finally:
                    worker.close()
                workers[name] = start(name, MODEL, run, cache)
                filled[name] = _first_pass(workers[name], shapes, run, "filled")
            warm: dict[str, list[float]] = {name: [] for name in workers}
            for number in range(WARM_PASSES):
                run.say(f"stream, warm pass {number + 1}")
                for name, worker in workers.items():
                    warm[name].append(worker.stream(shapes)[0])
        finally:
            for worker in workers.values():
                worker.close()
    floor = 1e-3 * sum(MODEL.floor_ms(run.ceilings, shape) for shape in shapes)
    rows = [
        {
            "engine": name,
            "empty": asdict(empty[name]),
            "filled": asdict(filled[name]),
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
        "of_best_peer": _shares_of_best_peer(empty, filled, warm),
    }


def _first_pass(worker: Worker, shapes: Sequence[Shape], run: Settings, caches: str) -> FirstPass:
    run.say(f"stream, first pass of {worker.name}, {caches} caches")
    first = worker.first_answer(shapes[0])
    seconds, capture = worker.stream(shapes[1:])
    return FirstPass(first.rest + seconds - capture, first.imports, first.capture + capture)


def _shares_of_best_peer(
    empty: Mapping[str, FirstPass], filled: Mapping[str, FirstPass], warm: Mapping[str, Sequence[float]]
) -> dict[str, float]:
    """The subject's seconds over those of the best peer, for each kind of pass; below 1, the subject is faster."""
    passes = {
        "empty": {name: one.seconds for name, one in empty.items()},
        "filled": {name: one.seconds for name, one in filled.items()},
        "warm": {name: spread(seconds).median for name, seconds in warm.items()},
    }
    peers = peers_among(warm)
    if SUBJECT not in warm or not peers:
        return {}
    return {kind: seconds[SUBJECT] / min(seconds[name] for name in peers) for kind, seconds in passes.items()}
