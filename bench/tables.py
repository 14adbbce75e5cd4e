"""The results as tables: on the terminal, and as Markdown between two marks of the README."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from bench.engines import ENGINES, INSIDE, SUBJECT
from bench.figures import geometric_mean

BEGIN, END = "<!-- bench:begin -->", "<!-- bench:end -->"
LARGE_BATCH = 16
"""Throughput, where latency no longer matters, is shown apart from here on."""
REASON_WIDTH = 100

Results = Mapping[str, Any]


@dataclass(frozen=True)
class Grid:
    """A titled table of text; the first column holds names."""

    title: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]

    def show(self, console: Console) -> None:
        """Print it on the terminal."""
        table = Table(*self.header, title=self.title, title_justify="left")
        for column in table.columns[1:]:
            column.justify = "right"
        for row in self.rows:
            table.add_row(*row)
        console.print(table)

    def markdown(self) -> str:
        """The title in bold above a Markdown table."""
        rule = ["---", *["---:"] * (len(self.header) - 1)]
        lines = [f"| {' | '.join(row)} |" for row in (self.header, rule, *self.rows)]
        return f"**{self.title}**\n\n" + "\n".join(lines)


def grids(results: Results) -> list[Grid]:
    """Every table of the sections that were measured."""
    found: list[Grid] = []
    if "ceilings" in results:
        found.append(_ceilings(results["ceilings"]))
    if "minilm" in results:
        found += _minilm(results["minilm"])
    if "stream" in results:
        found.append(_stream(results["stream"]))
    for model in results.get("models", {}).values():
        found += _compared(model)
    if "onnx" in results:
        found += _onnx(results["onnx"])
    if "products" in results:
        found.append(_products(results["products"]))
    if "attention" in results:
        found.append(_attention(results["attention"]))
    if "convolutions" in results:
        found.append(_convolutions(results["convolutions"]))
    if "memory" in results:
        found.append(_memory(results["memory"]))
    if "model" in results:
        found += _model(results["model"])
    if "pool" in results:
        found.append(_pool(results["pool"]))
    for section in ("compile", "torch-compile"):
        if section in results:
            found += _inside(results[section])
    return found


def _ceilings(ceilings: Results) -> Grid:
    rows = [
        ("f32 multiply-add", f"{ceilings['fma_gflops']:.0f} GFLOP/s"),
        ("memory, read", f"{ceilings['memory_read']:.1f} GB/s"),
        ("memory, scale", f"{ceilings['memory_scale']:.1f} GB/s"),
        ("last-level cache, read", f"{ceilings['cache_read']:.1f} GB/s"),
    ]
    return Grid(f"Ceilings of the machine, {ceilings['threads']} threads", ("what", "measured"), rows)


def _minilm(minilm: Results) -> list[Grid]:
    rows: list[Results] = minilm["rows"]
    small = [row for row in rows if row["batch"] < LARGE_BATCH]
    large = [row for row in rows if row["batch"] >= LARGE_BATCH]
    single = [row for row in small if row["batch"] == 1]
    several = [row for row in small if row["batch"] > 1]
    return [
        *(
            _times(f"MiniLM-L6, warm, {what}: ms a call", part)
            for what, part in (("batch 1", single), ("batch 8", several))
        ),
        _times("MiniLM-L6, warm, batch 16 and more: ms a call", large),
        _ratios("MiniLM-L6, warm: times as fast as PyTorch eager, median and 10–90 % of the paired ratios", rows),
        *_held("MiniLM-L6, warm: anyshape against the best peer of each shape, and against its static twin", minilm),
        _shares("MiniLM-L6, warm: share of the machine's ceiling", rows),
        _cold("MiniLM-L6, cold: seconds with compilation", minilm),
    ]


def _cold(title: str, model: Results) -> Grid:
    lines = [
        (ENGINES[name].title, f"{times['first']:.2f}", f"{times['all_shapes']:.2f}", f"{difference:.0e}")
        for (name, times), difference in zip(model["cold"].items(), model["largest_difference"].values(), strict=True)
    ]
    lines += [(ENGINES[name].title, "–", "–", f"skipped: {why}") for name, why in model["skipped"].items()]
    return Grid(title, ("engine", "to the first answer", "to one answer at every shape", "largest difference"), lines)


def _compared(model: Results) -> list[Grid]:
    """One table a model with a line for each shape and engine, and one of cold starts."""
    best: dict[tuple[int, int], Results] = {
        (row["batch"], row["length"]): row for row in model["held_against"] if row["what"] == "best peer"
    }
    lines: list[Sequence[str]] = []
    for row in model["rows"]:
        held = best.get((row["batch"], row["length"])) if row["engine"] == SUBJECT else None
        against = f"{ENGINES[held['engine']].title} {_ratio(held['ratio'])}" if held else ""
        shape, time = f"{row['batch']}×{row['length']}", _ms(row["ms"]["median"])
        lines.append(
            [ENGINES[row["engine"]].title, shape, time, f"{row['share']:.0%}", _ratio(row["eager_ratio"]), against]
        )
    lines += [[ENGINES[name].title, "", "–", "–", "–", f"skipped: {why}"] for name, why in model["skipped"].items()]
    title = f"{model['title']}, warm, batch × {model['size']}"
    header = ("engine", "shape", "ms", "of the ceiling", "against eager", "against the best peer, 10–90 %")
    return [Grid(title, header, lines), _cold(f"{model['title']}, cold: seconds with compilation", model)]


def _onnx(section: Results) -> list[Grid]:
    """ONNX files: a line for each size with a mean for each kind of file, then a line of cold starts for each file."""
    files: list[Results] = section["files"]
    engines = list(dict.fromkeys(name for file in files for name in (*file["cold"], *file["failed"])))
    titles = [ENGINES[name].title for name in engines]
    rows: list[dict[str, Any]] = [{"file": file, **row} for file in files for row in file["rows"]]
    warm = [
        [
            row["file"]["title"],
            f"{row['file']['counted']}: {row['size']}",
            *(_ms(row["ms"][name]["median"]) if name in row["ms"] else "–" for name in engines),
            f"{ENGINES[row['peer']].title} {_ratio(row['ratio'])}" if "ratio" in row else "–",
        ]
        for row in rows
    ]
    compared = [{"kind": row["file"]["kind"], "ratio": row["ratio"]} for row in rows if "ratio" in row]
    if compared:
        blank = [""] * (1 + len(engines))
        means = _parts(compared, "kind").items()
        warm += [[f"geometric mean, {kind}", *blank, f"{_mean_ratio(part, 'ratio'):.2f}"] for kind, part in means]
    cold = [
        [
            file["title"],
            file["kind"],
            *(f"{file['cold'][name]:.2f}" if name in file["cold"] else "–" for name in engines),
            ", ".join(f"{ENGINES[name].title} {off:.0e}" for name, off in file["difference"].items() if off),
            "; ".join(f"{ENGINES[name].title}: {_brief(why)}" for name, why in file["failed"].items()),
        ]
        for file in files
    ]
    blank = ["–"] * len(engines)
    cold += [[title, "", *blank, "", f"skipped: {why}"] for title, why in section["skipped"].items()]
    cold_header = ("file", "kind", *titles, "largest difference from ONNX Runtime, relative", "not measured")
    return [
        Grid("ONNX files, warm: ms a call", ("file", "size", *titles, "against the better, 10–90 %"), warm),
        Grid("ONNX files, cold: seconds from a fresh process to the first answer", cold_header, cold),
    ]


def _brief(reason: str) -> str:
    """Short enough for a cell, of which bars would end it."""
    return textwrap.shorten(reason.replace("|", "/"), REASON_WIDTH, placeholder=" …")


def _by_engine(rows: Sequence[Results]) -> tuple[list[str], dict[str, list[Results]]]:
    """Column titles, and the rows of each engine in the order of the columns."""
    table: dict[str, list[Results]] = {}
    for row in rows:
        table.setdefault(row["engine"], []).append(row)
    columns = dict.fromkeys(f"{row['batch']}×{row['length']}" for row in rows)
    return list(columns), table


def _times(title: str, rows: Sequence[Results]) -> Grid:
    columns, table = _by_engine(rows)
    lines = [[ENGINES[name].title, *(_ms(row["ms"]["median"]) for row in line)] for name, line in table.items()]
    floors = [_ms(row["floor_ms"]) for row in next(iter(table.values()))] if table else []
    return Grid(title, ["engine", *columns], [*lines, ["limit of the machine", *floors]])


def _ratios(title: str, rows: Sequence[Results]) -> Grid:
    columns, table = _by_engine(rows)
    lines = [[ENGINES[name].title, *(_ratio(row["eager_ratio"]) for row in line)] for name, line in table.items()]
    return Grid(title, ["engine", *columns], lines)


def _held(title: str, minilm: Results) -> list[Grid]:
    held: list[Results] = minilm["held_against"]
    lines = [
        [f"{row['batch']}×{row['length']}", row["what"], ENGINES[row["engine"]].title, _ratio(row["ratio"])]
        for row in held
    ]
    return [Grid(title, ["shape", "against", "engine", "times as fast, 10–90 %"], lines)] if lines else []


def _shares(title: str, rows: Sequence[Results]) -> Grid:
    columns, table = _by_engine(rows)
    lines = [[ENGINES[name].title, *(f"{row['share']:.0%}" for row in line)] for name, line in table.items()]
    return Grid(title, ["engine", *columns], lines)


def _stream(stream: Results) -> Grid:
    title = (
        f"A stream of {stream['requests']} requests, {stream['shapes']} different shapes, {stream['tokens']} tokens: "
        f"seconds (limit of the machine {stream['floor_s']:.1f})"
    )
    rows = [
        (
            ENGINES[row["engine"]].title,
            f"{row['empty']['seconds']:.1f}",
            f"{row['filled']['seconds']:.1f}",
            " + ".join(f"{row['empty'][part]:.1f}" for part in ("imports", "capture")),
            f"{row['warm_s']['median']:.2f}",
            _ratio(row["eager_ratio"]),
            f"{row['share']:.0%}",
        )
        for row in stream["rows"]
    ]
    shares = stream["of_best_peer"]
    if shares:
        empty, filled, warm = (f"{shares[kind]:.2f}" for kind in ("empty", "filled", "warm"))
        rows.append(("anyshape over the best peer", empty, filled, "", warm, "", ""))
    header = (
        "engine", "first pass, empty caches", "first pass, filled caches", "imports + capture, apart", "warm",
        "against eager", "of the ceiling",
    )  # fmt: skip
    return Grid(title, header, rows)


def _products(rows: Sequence[Results]) -> Grid:
    lines = [
        (
            f"{row['model']} {row['k']}×{row['n']}",
            str(row["m"]),
            f"{row['gflops']:.0f}",
            f"{row['share']:.0%}",
            _ratio(row["eager_ratio"]),
        )
        for row in rows
    ]
    lines += [
        (f"geometric mean, {model}", "", "", "", f"{_mean_ratio(part, 'eager_ratio'):.2f}")
        for model, part in _parts(rows, "model").items()
    ]
    header = ("layer", "rows", "GFLOP/s", "of the ceiling", "against eager")
    return Grid("Linear layers, one compilation each for any number of rows", header, lines)


def _attention(rows: Sequence[Results]) -> Grid:
    lines = [
        (
            f"{row['mask']}, {row['case']}",
            f"{row['heads']}/{row['key_heads']}",
            f"{row['queries']}×{row['keys']}",
            f"{1e6 * row['seconds']['median']:.0f}",
            f"{row['gflops']:.0f}",
            f"{row['share']:.0%}",
            _ratio(row["sdpa_ratio"]),
        )
        for row in rows
    ]
    lines += [
        (f"geometric mean, {mask}", "", "", "", "", "", f"{_mean_ratio(part, 'sdpa_ratio'):.2f}")
        for mask, part in _parts(rows, "mask").items()
    ]
    header = ("mask, case", "heads/of keys", "queries×keys", "µs", "GFLOP/s", "of the ceiling", "against SDPA")
    return Grid("Attention, one compilation a mask, beside scaled_dot_product_attention", header, lines)


def _convolutions(rows: Sequence[Results]) -> Grid:
    lines = [
        (
            f"{row['group']} {row['case']}",
            f"{row['batch']}",
            f"{1e6 * row['seconds']['median']:.0f}",
            f"{1e6 * row['eager_seconds']['median']:.0f}",
            _ratio(row["eager_ratio"]),
        )
        for row in rows
    ]
    lines += [
        (f"geometric mean, {group}", "", "", "", f"{_mean_ratio(part, 'eager_ratio'):.2f}")
        for group, part in _parts(rows, "group").items()
    ]
    header = ("layer", "batch", "µs", "eager, µs", "against eager")
    return Grid("Convolutions, pads and recurrent layers, one compilation each for any size", header, lines)


def _parts(rows: Sequence[Results], key: str) -> dict[str, list[Results]]:
    """The rows of each value of a key, and all of them."""
    parts: dict[str, list[Results]] = {}
    for row in rows:
        parts.setdefault(row[key], []).append(row)
    return {**parts, "all": list(rows)}


def _mean_ratio(rows: Sequence[Results], key: str) -> float:
    """The geometric mean of the median ratios."""
    return geometric_mean([row[key]["median"] for row in rows])


def _memory(rows: Sequence[Results]) -> Grid:
    lines = [
        (
            row["group"],
            f"{row['rows']}×{row['columns']}",
            f"{row['gb_s']:.1f}",
            f"{row['share']:.0%}",
            _ratio(row["eager_ratio"]),
        )
        for row in rows
    ]
    header = ("group", "size", "GB/s", "of memory's scale rate", "against eager")
    return Grid("Memory-bound groups; each element and parameter is read once, each result written once", header, lines)


def _model(model: Results) -> list[Grid]:
    origin = "measured rates" if model["calibrated"] else "usual rates; `anyshape bench --calibrate` measures them"
    lines = [
        (
            row["kernel"],
            row["shape"],
            f"{1e-3 * row['predicted_ns']:.2f}",
            f"{1e-3 * row['measured_ns']:.2f}",
            f"{row['predicted_ns'] / row['measured_ns']:.2f}",
        )
        for row in model["rows"]
    ]
    errors = [
        (kind, f"{error['mean']:.2f}", f"{error['least']:.2f}", f"{error['greatest']:.2f}", f"{error['factor']:.2f}")
        for kind, error in model["errors"].items()
    ]
    return [
        Grid(f"Cost model, one core, {origin}: µs", ("kernel", "size", "predicted", "measured", "ratio"), lines),
        Grid(
            "Cost model: predicted ÷ measured",
            ("kind", "geometric mean", "least", "greatest", "typical factor"),
            errors,
        ),
    ]


def _pool(pool: Results) -> Grid:
    lines = [
        (
            row["title"],
            f"{row['work_us']:.2f}",
            f"{row['one_us']:.2f}",
            f"{row['two_us']:.2f}",
            f"{row['region_us']:.2f}",
            f"{row['one_us'] / row['two_us']:.2f}",
        )
        for row in pool["rows"]
    ]
    header = ("machine", "work", "one thread", "two threads", "two threads less half the work", "speed-up")
    return Grid("Parallel regions of two threads, one after another: µs a region", header, lines)


def _inside(section: Results) -> list[Grid]:
    """anyshape in `torch.compile`: a line for each model and shape, and one for each way to make the smallest call."""
    peers = list(dict.fromkeys(name for row in section["models"] for name in row["ratios"]))
    lines = [
        [
            row["title"],
            f"{row['batch']}×{row['length']}",
            _ms(row["ms"][INSIDE]["median"]),
            *(_ratio(row["ratios"][name]) if name in row["ratios"] else "–" for name in peers),
        ]
        for row in section["models"]
    ]
    header = ("model", "shape", "ms", *(f"against {ENGINES[name].title}" for name in peers))
    calls = [(row["way"], *(f"{row['us'][key]:.1f}" for key in ("median", "low", "high"))) for row in section["call"]]
    return [
        Grid("anyshape in torch.compile, warm, paired ratios, 10–90 %", header, lines),
        Grid("x + 1 on f32[1,1]: µs a call from Python", ("way", "median", "10 %", "90 %"), calls),
    ]


def _ms(value: float) -> str:
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def _ratio(ratio: Results) -> str:
    return f"{ratio['median']:.2f} ({ratio['low']:.2f}–{ratio['high']:.2f})"


def readme_section(results: Results) -> str:
    """What stands between the marks: where it was measured, then the tables."""
    machine = results["machine"]
    versions = ", ".join(f"{name} {version}" for name, version in results["versions"].items())
    where = (
        f"Measured on {results['time'][:10]} by `make bench` on {machine['processor']}, "
        f"{results['threads']} threads for every engine, all of them in turn "
        f"in one run; f32. {versions}."
    )
    sections = ("ceilings", "minilm", "stream", "models", "onnx")
    shown = {name: results[name] for name in sections if name in results}
    skipped = [f"{name}: {why}" for name, why in results["skipped"].items()]
    missing = [f"Not measured: {'; '.join(skipped)}."] if skipped else []
    notes = [results["note"]] if "note" in results else []
    late = [f"{name} at {when}" for name, when in results.get("added", {}).items() if name in shown]
    notes += [f"Measured apart, after the others: {', '.join(late)}."] if late else []
    return "\n\n".join([where, *notes, *missing, *(grid.markdown() for grid in grids(shown))])


def write_readme(path: Path, results: Results) -> None:
    """Replace what stands between the marks; ValueError when the file does not have them, once and in order."""
    text = path.read_text(encoding="utf-8")
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end or BEGIN in after or END in after:
        raise ValueError(f"{path}: expected {BEGIN} and then {END}, once each")
    path.write_text(f"{before}{BEGIN}\n{readme_section(results)}\n{END}{after}", encoding="utf-8")
