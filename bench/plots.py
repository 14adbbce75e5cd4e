"""The results as SVG plots."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bench.engines import ENGINES
from bench.tables import LARGE_BATCH

Results = Mapping[str, Any]


def write_plots(results: Results, folder: Path) -> list[Path]:
    """One file a plot, for the sections that were measured; none without matplotlib."""
    try:
        import matplotlib
    except ModuleNotFoundError:
        return []
    matplotlib.use("svg")
    # The same figures give the same bytes.
    matplotlib.rcParams["svg.hashsalt"] = "anyshape"
    paths: list[Path] = []
    if "minilm" in results:
        rows = results["minilm"]["rows"]
        latency = [row for row in rows if row["batch"] < LARGE_BATCH]
        throughput = [row for row in rows if row["batch"] >= LARGE_BATCH]
        for name, title, part in (
            ("minilm-latency", "MiniLM-L6, small batches", latency),
            ("minilm-throughput", f"MiniLM-L6, batch {LARGE_BATCH} and more", throughput),
        ):
            paths.append(_plot_ratios(part, title, folder / f"{name}.svg"))
    if "stream" in results:
        paths.append(_plot_stream(results["stream"], folder / "stream.svg"))
    if "products" in results:
        paths.append(_plot_products(results["products"], folder / "products.svg"))
    return paths


def _plot_ratios(rows: Any, title: str, path: Path) -> Path:
    """Bars: times as fast as eager at each shape, with the 10–90 % spread."""
    from matplotlib import pyplot

    shapes = list(dict.fromkeys((row["batch"], row["length"]) for row in rows))
    engines = list(dict.fromkeys(row["engine"] for row in rows))
    figure, axes = pyplot.subplots(figsize=(9, 4))
    width = 0.8 / max(1, len(engines))
    for number, engine in enumerate(engines):
        ratios = [row["eager_ratio"] for row in rows if row["engine"] == engine]
        errors = [
            [max(0.0, ratio["median"] - ratio["low"]) for ratio in ratios],
            [max(0.0, ratio["high"] - ratio["median"]) for ratio in ratios],
        ]
        places = [index + (number - (len(engines) - 1) / 2) * width for index in range(len(shapes))]
        heights = [ratio["median"] for ratio in ratios]
        axes.bar(places, heights, width, yerr=errors, label=ENGINES[engine].title, error_kw={"linewidth": 0.7})
    axes.axhline(1, color="black", linewidth=0.7)
    axes.set_xticks(range(len(shapes)), [f"{batch}×{length}" for batch, length in shapes])
    axes.set_xlabel("batch × length")
    axes.set_ylabel("times as fast as PyTorch eager")
    return _save(figure, axes, title, path)


def _plot_stream(stream: Results, path: Path) -> Path:
    """Bars: seconds for the stream, cold and warm."""
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(7, 3.5))
    titles = [ENGINES[row["engine"]].title for row in stream["rows"]]
    places = range(len(titles))
    axes.barh([p + 0.2 for p in places], [row["first_s"] for row in stream["rows"]], 0.4, label="first pass, cold")
    axes.barh([p - 0.2 for p in places], [row["warm_s"]["median"] for row in stream["rows"]], 0.4, label="warm")
    axes.axvline(stream["floor_s"], color="black", linewidth=0.7, label="limit of the machine")
    axes.set_yticks(places, titles)
    axes.set_xlabel(f"seconds for {stream['requests']} requests of {stream['shapes']} shapes")
    return _save(figure, axes, "A stream of requests", path)


def _plot_products(rows: Any, path: Path) -> Path:
    """Lines: share of the ceiling over the number of rows, one a layer."""
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(8, 4))
    for layer in dict.fromkeys((row["model"], row["k"], row["n"]) for row in rows):
        line = [row for row in rows if (row["model"], row["k"], row["n"]) == layer]
        label = f"{layer[0]} {layer[1]}×{layer[2]}"
        axes.plot([row["m"] for row in line], [100 * row["share"] for row in line], marker="o", label=label)
    axes.set_xscale("log", base=2)
    axes.set_xlabel("rows")
    axes.set_ylabel("% of the ceiling")
    return _save(figure, axes, "Linear layers", path)


def _save(figure: Any, axes: Any, title: str, path: Path) -> Path:
    from matplotlib import pyplot

    axes.set_title(title)
    axes.legend(fontsize="small")
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})
    pyplot.close(figure)
    return path
