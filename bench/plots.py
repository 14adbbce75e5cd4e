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
    for name, model in results.get("models", {}).items():
        paths.append(_plot_ratios(model["rows"], model["title"], folder / f"{name}.svg", model["size"]))
    if "attention" in results:
        paths.append(_plot_attention(results["attention"], folder / "attention.svg"))
    if "products" in results:
        paths.append(_plot_products(results["products"], folder / "products.svg"))
    if "model" in results:
        paths.append(_plot_model(results["model"], folder / "model.svg"))
    return paths


def _plot_ratios(rows: Any, title: str, path: Path, size: str = "length") -> Path:
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
    axes.set_xlabel(f"batch × {size}")
    axes.set_ylabel("times as fast as PyTorch eager")
    return _save(figure, axes, title, path)


def _plot_stream(stream: Results, path: Path) -> Path:
    """Bars: seconds for the stream, cold and warm."""
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(7, 3.5))
    titles = [ENGINES[row["engine"]].title for row in stream["rows"]]
    places = range(len(titles))
    axes.barh(
        [p + 0.2 for p in places],
        [row["empty"]["seconds"] for row in stream["rows"]],
        0.4,
        label="first pass, empty caches",
    )
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


def _plot_attention(rows: Any, path: Path) -> Path:
    """Points: times as fast as PyTorch over the number of keys, with the 10–90 % spread, one colour a mask."""
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(8, 4))
    for mask in dict.fromkeys(row["mask"] for row in rows):
        part = [row for row in rows if row["mask"] == mask]
        ratios = [row["sdpa_ratio"] for row in part]
        errors = [
            [max(0.0, ratio["median"] - ratio["low"]) for ratio in ratios],
            [max(0.0, ratio["high"] - ratio["median"]) for ratio in ratios],
        ]
        heights = [ratio["median"] for ratio in ratios]
        axes.errorbar([row["keys"] for row in part], heights, yerr=errors, fmt="o", elinewidth=0.7, label=mask)
    axes.axhline(1, color="black", linewidth=0.7)
    axes.set_xscale("log", base=2)
    axes.set_xlabel("keys")
    axes.set_ylabel("times as fast as scaled_dot_product_attention")
    return _save(figure, axes, "Attention", path)


def _plot_model(model: Results, path: Path) -> Path:
    """Points: measured over predicted time, both logarithmic, a colour each kind; on the line the model is right."""
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(6.5, 6))
    rows = model["rows"]
    times = [1e-3 * row[side] for row in rows for side in ("predicted_ns", "measured_ns")]
    ends = [min(times) / 2, max(times) * 2]
    axes.plot(ends, ends, color="black", linewidth=0.7)
    axes.fill_between(
        ends, [end / 2 for end in ends], [end * 2 for end in ends], color="0.92", label="within a factor of 2"
    )
    for kind, error in model["errors"].items():
        points = [row for row in rows if row["kind"] == kind]
        axes.scatter(
            [1e-3 * row["predicted_ns"] for row in points],
            [1e-3 * row["measured_ns"] for row in points],
            s=18,
            label=f"{kind}, typical factor {error['factor']:.2f}",
        )
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlim(ends)
    axes.set_ylim(ends)
    axes.set_xlabel("predicted µs, one core")
    axes.set_ylabel("measured µs")
    return _save(figure, axes, "The cost model beside measurement", path)


def _save(figure: Any, axes: Any, title: str, path: Path) -> Path:
    from matplotlib import pyplot

    axes.set_title(title)
    axes.legend(fontsize="small")
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})
    pyplot.close(figure)
    return path
