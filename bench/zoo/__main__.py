"""`python -m bench.zoo`: the models that people run, of real size, beside eager; writes `docs/models.md`.

Each model is compiled in a process of its own, from one example, and measured at batch 1 and 8 in turn with eager.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import date
from pathlib import Path
from typing import Any

import torch
from torch.utils import _pytree as pytree

import anyshape
from anyshape.cli.timing import alternate
from anyshape.support.machine import host_machine, processor_name
from bench.figures import paired_ratio
from bench.zoo import ENTRIES, Entry

PAGE = Path(__file__).parents[2] / "docs" / "models.md"
BATCHES = (1, 8)
SECONDS = 2.0
"""How long a shape is measured, both engines together."""


@dataclass(frozen=True)
class Measured:
    """One model; `ratios` and `milliseconds` belong to `BATCHES`, each ratio with its 10 and 90 % bounds."""

    name: str
    sizes: str
    capture_seconds: float
    compile_seconds: float
    kernels: int
    launches: int
    milliseconds: list[float]
    ratios: list[tuple[float, float, float]]
    difference: float


def main() -> None:
    """Measure all models, or those that are named, and write the page where all were."""
    parser = argparse.ArgumentParser(prog="python -m bench.zoo", description=__doc__)
    parser.add_argument("names", nargs="*", help="models, by default all; the page is written when all are measured")
    parser.add_argument("--threads", type=int, default=host_machine().cores)
    parser.add_argument("--one", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        (entry,) = (each for each in ENTRIES if each.name == options.one)
        print(json.dumps(asdict(measure(entry, options.threads))))
        return
    chosen = [each for each in ENTRIES if not options.names or each.name in options.names]
    rows = [_in_process(entry, options.threads) for entry in chosen]
    if not options.names:
        PAGE.write_text(page(rows, options.threads), encoding="utf-8")


def _in_process(entry: Entry, threads: int) -> Measured:
    command = [sys.executable, "-W", "ignore", "-m", "bench.zoo", "--one", entry.name, "--threads", str(threads)]
    run = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    row = Measured(**json.loads(run.stdout.splitlines()[-1]))
    print(line(row), flush=True)
    return row


def measure(entry: Entry, threads: int) -> Measured:
    """Compile one model and compare it with eager."""
    torch.set_num_threads(threads)
    module = entry.make(small=False)
    call = entry.call(module, 2, entry.real_size)
    begin = time.perf_counter()
    program = anyshape.compile(module, (), dict(call), options=anyshape.Options(threads=threads, cache=None))
    total = time.perf_counter() - begin
    report = program.report()
    milliseconds: list[float] = []
    ratios: list[tuple[float, float, float]] = []
    difference = 0.0
    for batch in BATCHES:
        call = entry.call(module, batch, entry.real_size)

        def eager(call: Any = call) -> Any:
            with torch.inference_mode():
                return module(**call)

        def ours(call: Any = call) -> Any:
            return program(**call)

        difference = max(difference, _difference(ours(), eager()))
        times = alternate({"ours": ours, "eager": eager}, seconds=SECONDS)
        ratio = paired_ratio(times["eager"], times["ours"])
        milliseconds.append(1000 * statistics.median(times["ours"]))
        ratios.append((ratio.median, ratio.low, ratio.high))
    capture = report.capture_seconds
    sizes = f"{entry.size} {entry.real_size}"
    return Measured(
        entry.name, sizes, capture, total - capture, report.kernels, report.launches, milliseconds, ratios, difference
    )


def _difference(ours: Any, eager: Any) -> float:
    """The largest difference of any result, in its largest magnitude."""
    pairs = zip(pytree.tree_leaves(ours), pytree.tree_leaves(eager), strict=True)
    return max(((a - b).abs().max() / b.abs().max().clamp(min=1e-6)).item() for a, b in pairs if b.numel())


def line(row: Measured) -> str:
    """The row of a model in the table."""
    shapes = " | ".join(
        f"{ms:.1f} | {median:.2f} ({low:.2f}–{high:.2f})"
        for ms, (median, low, high) in zip(row.milliseconds, row.ratios, strict=True)
    )
    cells = f"{row.capture_seconds:.1f} | {row.compile_seconds:.1f} | {row.kernels} | {row.launches}"
    return f"| {row.name} | {row.sizes} | {cells} | {shapes} | {row.difference:.0e} |"


def page(rows: Sequence[Measured], threads: int) -> str:
    """`docs/models.md`."""
    heads = " | ".join(f"batch {batch}, ms | × eager" for batch in BATCHES)
    titles = f"| model | size | capture, s | compile, s | kernels | launches | {heads} | difference |"
    return "\n".join(
        (
            "# Models",
            "",
            "Each is compiled once from one example, with random weights of real size, and serves every batch and size: `make test-models`",
            "compares small ones of the same architectures with eager at many. Capture is PyTorch's export; compile is all of",
            "anyshape with an empty cache; × eager is the median of paired ratios, with 10 and 90 %; difference is the largest",
            "of any result, in its largest magnitude.",
            "",
            f"`make models-table`, {date.today().isoformat()}, {processor_name()}, {threads} threads, torch {torch.__version__}.",
            "",
            titles,
            "|" + "---|" * titles.count("|", 1),
            *map(line, rows),
            "",
        )
    )


if __name__ == "__main__":
    main()
