"""`python -m bench`: measure, print the tables, write JSON and plots under `bench/results`."""

from __future__ import annotations

import argparse
import json
import platform
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from rich.console import Console

from anyshape import __version__
from anyshape.support.machine import host_machine
from bench import attention, compare, convolutions, inside, layers, model, onnx_files, pool, stream
from bench.ceilings import measure_ceilings
from bench.engines import BASELINE, ENGINES, INSIDE, missing_modules
from bench.models import MODELS
from bench.plots import write_plots
from bench.settings import SECONDS, Settings
from bench.tables import grids, write_readme

SECTIONS = (
    "ceilings",
    "minilm",
    "stream",
    "models",
    "onnx",
    "products",
    "attention",
    "convolutions",
    "memory",
    "model",
    "pool",
    "compile",
)
BRIEF = "torch-compile"
"""What a whole run has in full."""
FOLDER = Path(__file__).parent / "results"
README = Path(__file__).parent.parent / "README.md"
FILE_WIDTH = 200
"""Characters of a line where standard output is no terminal."""
PACKAGES = ("torch", "transformers", "onnxruntime", "openvino")


def main() -> None:
    """Run the sections that were asked for, one after another."""
    options = parse_arguments()
    # The README shows whole runs only: figures of two runs are not side by side.
    path = options.output / f"{options.only or 'latest'}.json"
    if options.write_readme:
        write_readme(README, json.loads((options.output / "latest.json").read_text(encoding="utf-8")))
        return
    console = Console() if sys.stdout.isatty() else Console(width=FILE_WIDTH)
    sections = [options.only] if options.only else list(SECTIONS)
    chosen, skipped = _available(options.peers)
    for name, why in skipped.items():
        console.print(f"skipped {name}: {why}")
    results = describe(options.threads, skipped)
    if options.resume and path.exists():
        results = json.loads(path.read_text(encoding="utf-8"))
    load = _load()
    if load is not None and load > 1:
        console.print(f"other work is running (load {load:.1f}): the figures are not to be trusted")
    options.output.mkdir(parents=True, exist_ok=True)
    with console.status("ceilings") as status:
        ceilings = measure_ceilings(options.threads)
        # Every figure is also given as a share of the ceilings, which are always measured; shown are those of the run's beginning.
        results.setdefault("ceilings", asdict(ceilings))
        run = Settings(chosen, options.threads, options.seconds, options.output, ceilings, status.update)
        for section in sections:
            if section not in results:
                results[section] = measure(section, run)
                if options.resume:
                    results.setdefault("added", {})[section] = _now()
                # A whole run takes most of an hour: one that is stopped keeps what it has.
                path.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    for grid in grids(results):
        grid.show(console)
    path.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    for written in (path, *write_plots(results, options.output)):
        console.print(f"wrote {written}")


def parse_arguments(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m bench", description="Measure anyshape beside its peers.")
    parser.add_argument("--only", choices=(*SECTIONS, BRIEF), help="measure this section only, by default all")
    parser.add_argument(
        "--peers",
        type=lambda text: text.split(","),
        default=[name for name in ENGINES if name != INSIDE],
        help=f"engines, separated by commas, out of {', '.join(ENGINES)}; {BASELINE} always runs",
    )
    parser.add_argument("--threads", type=int, default=host_machine().cores, help="threads for every engine")
    parser.add_argument(
        "--seconds",
        type=float,
        default=SECONDS,
        help="for each engine at each shape of a model, and a tenth of it for single layers: a longer or shorter run",
    )
    parser.add_argument("--output", type=Path, default=FOLDER, help="folder of the results")
    parser.add_argument(
        "--resume", action="store_true", help="go on with a run that was stopped, at the first section it lacks"
    )
    parser.add_argument(
        "--write-readme", action="store_true", help="write the latest whole run into README.md, measure nothing"
    )
    options = parser.parse_args(arguments)
    unknown = sorted(set(options.peers) - ENGINES.keys())
    if unknown:
        parser.error(f"unknown peers: {', '.join(unknown)}; there are {', '.join(ENGINES)}")
    return options


def _available(wanted: Sequence[str]) -> tuple[list[str], dict[str, str]]:
    """The engines to run, the baseline among them, and why others are skipped."""
    chosen = [name for name in ENGINES if name in {*wanted, BASELINE}]
    skipped = {name: f"{', '.join(missing)} not installed" for name in chosen if (missing := missing_modules(name))}
    return [name for name in chosen if name not in skipped], skipped


def _now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def describe(threads: int, skipped: dict[str, str]) -> dict[str, Any]:
    """Machine, versions and settings of a run."""
    machine = host_machine()
    versions = {"anyshape": __version__, "Python": platform.python_version()}
    for package in PACKAGES:
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            continue
    return {
        "time": _now(),
        "machine": {
            "processor": _processor(),
            "cores": machine.cores,
            "vector_bits": machine.vector_bits,
            "l1": machine.l1,
            "l2": machine.l2,
            "l3": machine.l3,
            "features": sorted(machine.features),
            "load_before": _load(),
        },
        "versions": versions,
        "threads": threads,
        "skipped": skipped,
    }


def measure(section: str, run: Settings) -> Any:
    """The figures of one section."""
    match section:
        case "minilm":
            return compare.measure_model(MODELS["minilm"], run.engines, run)
        case "stream":
            return stream.measure_stream(run)
        case "models":
            return compare.measure_others(run)
        case "onnx":
            return onnx_files.measure_onnx(run)
        case "products":
            return layers.measure_products(run)
        case "attention":
            return attention.measure_attention(run)
        case "convolutions":
            return convolutions.measure_convolutions(run)
        case "memory":
            return layers.measure_memory(run)
        case "model":
            return model.measure_model(run.say)
        case "compile":
            return inside.measure_inside(run)
        case "torch-compile":
            return inside.measure_inside_briefly(run)
        case _:
            return pool.measure_pool(run.say)


def _processor() -> str:
    """The processor's name, as Linux gives it."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def _load() -> float | None:
    """Processes that wanted to run in the last minute: figures of a run that began above 1 are not to be trusted."""
    try:
        return float(Path("/proc/loadavg").read_text(encoding="utf-8").split()[0])
    except (OSError, ValueError):
        return None


if __name__ == "__main__":
    main()
