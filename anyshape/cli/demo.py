"""`anyshape demo`: one compilation of a sentence encoder, run at many sizes beside PyTorch; then a text by a language model."""

from __future__ import annotations

import json
import os
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, TextColumn, TimeElapsedColumn, track
from rich.progress import Progress as ProgressBar
from rich.table import Table

from anyshape.cli.demo_text import print_text
from anyshape.cli.timing import alternate
from anyshape.support.errors import AnyshapeError, ArgumentError
from anyshape.support.machine import host_machine
from anyshape.support.options import Options
from anyshape.support.trace import Progress

# fmt: off
PAIRS = (
    (1, 1), (1, 2), (7, 3), (1, 333), (16, 200), (1, 8), (1, 17), (1, 64), (1, 128), (8, 24), (8, 128),
    (1, 3), (1, 5), (1, 13), (1, 31), (1, 48), (1, 77), (1, 100), (1, 191), (1, 256), (1, 511), (1, 512),
    (2, 1), (2, 7), (2, 19), (2, 65), (2, 300), (3, 2), (3, 11), (3, 50), (4, 4), (4, 33), (4, 96), (5, 1), (5, 9),
    (5, 129), (6, 21), (7, 40), (9, 6), (10, 15), (12, 3), (13, 27), (16, 1), (16, 10), (32, 5), (33, 12),
)
# fmt: on
"""(batch, length), the first ones shown even when few are asked for."""

SENTENCES = (
    "A cat sleeps on the warm window sill.",
    "The kitten is napping in the sun by the window.",
    "Stocks fell.",
    "Share prices dropped sharply on Tuesday after the central bank raised interest rates for the third time this year, and "
    "analysts said that investors should expect the market to stay nervous until inflation figures come out next month.",
    "How do I reset my password?",
    "I forgot my login details and cannot get into my account any more; what should I do?",
    "Rain is expected.",
    "The forecast for the weekend is heavy showers over the hills, clearing slowly from the west by Sunday evening.",
    "Bake the bread for forty minutes.",
    "Knead the dough until it is smooth, let it rise in a covered bowl for two hours, shape it into a loaf, let it rise once "
    "more while the oven heats up, then bake until the crust is dark and the loaf sounds hollow when you tap it underneath.",
    "A compiler translates programs into machine code.",
    "Go!",
)

TOLERANCE = 1e-4
_SECONDS_FOR_THE_TABLE = 25.0
# Share of each top-level stage in a typical compilation, together 1; what is not listed moves the bar by nothing.
_STAGE_SHARES = {
    "import": 0.5,
    "passes": 0.07,
    "fuse": 0.02,
    "plan": 0.04,
    "emit kernels": 0.16,
    "plan host": 0.01,
    "emit host": 0.06,
    "machine code": 0.12,
    "load": 0.02,
}


@dataclass(frozen=True)
class Row:
    """One line of the table: median milliseconds of each, and the largest difference with full and ragged masks."""

    batch: int
    length: int
    ms: float
    eager_ms: float
    difference: float


@dataclass(frozen=True)
class Compiled:
    """The one compiled program, beside the module that it was made from; `objects_emitted` counts the process's objects
    right after the compilation."""

    module: Any
    program: Any
    seconds: float
    objects_emitted: int


def command(
    as_json: Annotated[bool, typer.Option("--json", help="Print the figures as one line of JSON, last.")] = False,
    pairs: Annotated[int, typer.Option(min=1, help="How many (batch, length) pairs to run.")] = len(PAIRS),
    threads: Annotated[int, typer.Option(min=0, help="Threads for both; 0 is one a core.")] = 0,
) -> None:
    """Compile MiniLM-L6, a sentence encoder, once; run it at many sizes beside PyTorch; find similar sentences.

    At the end SmolLM2-135M, a language model, answers a question.
    """
    # People read standard error when a program reads standard output.
    console = Console(stderr=as_json)
    load = os.getloadavg()[0]
    minilm = _load_minilm()
    threads = threads or host_machine().cores
    minilm.set_eager_threads(threads)
    compiled = _compile(minilm, threads, console)
    rows = measure(minilm, compiled, PAIRS[:pairs], console)
    compiles = count_compilations(compiled)
    console.print(_table(rows, threads))
    _print_summary(console, rows, compiled, compiles)
    if load > 1:
        console.print(f"other work was running (load {load:.1f}): these times are not to be trusted", style="yellow")
    _print_sentences(console, minilm, compiled)
    print_text(console, replace(Options.from_environment(), threads=threads))
    if as_json:
        print(json.dumps(_figures(rows, compiled, compiles)))
    worst = max(rows, key=lambda row: row.difference)
    if worst.difference > TOLERANCE:
        raise AnyshapeError(
            "the compiled program disagrees with PyTorch",
            where=f"batch {worst.batch}, length {worst.length}",
            got=f"a difference of {worst.difference:.1e}",
            expected=f"at most {TOLERANCE:.0e}",
        )


def _load_minilm() -> Any:
    """The module that needs PyTorch and transformers, imported here so that the help page needs neither."""
    try:
        return import_module("anyshape.cli.minilm")
    except ModuleNotFoundError as error:
        raise ArgumentError(
            "the demonstration needs PyTorch and transformers",
            where="anyshape demo",
            got=str(error),
            remedy="install them with `pip install 'anyshape[demo]'`",
        ) from error


def _compile(minilm: Any, threads: int, console: Console) -> Compiled:
    with console.status("loading MiniLM-L6"):
        module = minilm.SentenceEncoder(minilm.load_transformer()).eval()
        anyshape_compile = import_module("anyshape").compile
    options = replace(Options.from_environment(), threads=threads)
    example = minilm.random_inputs(2, 7)
    start = time.perf_counter()
    with CompileBar(console) as bar:
        program = anyshape_compile(module, kwargs=example, options=options, progress=bar)
    return Compiled(module, program, time.perf_counter() - start, _objects_emitted())


def _objects_emitted() -> int:
    """Objects that LLVM has emitted in this process."""
    count: int = import_module("anyshape.codegen.llvm").objects_emitted()
    return count


class CompileBar:
    """A progress bar that a compilation drives: pass it as `progress`."""

    def __init__(self, console: Console) -> None:
        columns = (TextColumn("compiling"), BarColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
        self._bar = ProgressBar(*columns, console=console)
        self._task = self._bar.add_task("", total=1.0)
        self._before = 0.0

    @property
    def share_done(self) -> float:
        """How full the bar is, 0 to 1."""
        return self._bar.tasks[0].completed

    def __enter__(self) -> CompileBar:
        self._bar.start()
        return self

    def __exit__(self, *exception: object) -> None:
        if exception[0] is None:
            self._bar.update(self._task, completed=1.0, description="done")
        self._bar.stop()

    def __call__(self, progress: Progress) -> None:
        stage, _, inner = progress.stage.partition("/")
        share = _STAGE_SHARES.get(stage, 0.0)
        if progress.event == "begin":
            self._bar.update(self._task, description=progress.stage)
        elif progress.event == "step" and progress.total and not inner:
            self._bar.update(self._task, completed=self._before + share * progress.done / progress.total)
        elif progress.event == "end" and not inner:
            self._before += share
            self._bar.update(self._task, completed=self._before)


def measure(minilm: Any, compiled: Compiled, pairs: Sequence[tuple[int, int]], console: Console) -> list[Row]:
    """A row for each (batch, length): compared with ragged and with full masks, timed with full ones, where PyTorch is
    faster because it skips the mask."""
    rows: list[Row] = []
    deadline = time.perf_counter() + _SECONDS_FOR_THE_TABLE * len(pairs) / len(PAIRS)
    for number, (batch, length) in enumerate(track(pairs, "measuring", console=console, transient=True)):
        seconds = (deadline - time.perf_counter()) / (len(pairs) - number)
        rows.append(_measure_pair(minilm, compiled, batch, length, seconds))
    return rows


def _measure_pair(minilm: Any, compiled: Compiled, batch: int, length: int, seconds: float) -> Row:
    difference = 0.0
    inputs: Any = None
    for ragged in (True, False):
        inputs = minilm.random_inputs(batch, length, ragged=ragged)
        got, expected = compiled.program(**inputs), minilm.eager(compiled.module, inputs)
        difference = max(difference, minilm.largest_difference(got, expected, inputs["attention_mask"]))
    samples = alternate(
        {"ours": lambda: compiled.program(**inputs), "eager": lambda: minilm.eager(compiled.module, inputs)},
        seconds=max(seconds, 0.02),
        rounds=3 if seconds > 0 else 1,
    )
    ours, eager = (1e3 * statistics.median(samples[name]) for name in ("ours", "eager"))
    return Row(batch, length, ours, eager, difference)


def count_compilations(compiled: Compiled) -> int:
    """Compilations in the whole run: that of the model, and one more for every object emitted after it."""
    return 1 + _objects_emitted() - compiled.objects_emitted


def _table(rows: Sequence[Row], threads: int) -> Table:
    title = f"one program, {len(rows)} sizes, {threads} threads each"
    table = Table("batch", "length", "anyshape ms", "eager ms", "eager / anyshape", "largest difference", title=title)
    for column in table.columns:
        column.justify = "right"
    for row in rows:
        ratio = row.eager_ms / row.ms
        table.add_row(
            str(row.batch),
            str(row.length),
            f"{row.ms:.2f}",
            f"{row.eager_ms:.2f}",
            f"[{'green' if ratio >= 1 else 'red'}]{ratio:.2f}×[/]",
            f"{row.difference:.1e}",
        )
    return table


def _print_summary(console: Console, rows: Sequence[Row], compiled: Compiled, compiles: int) -> None:
    report = compiled.program.report()
    ratios = [row.eager_ms / row.ms for row in rows]
    console.print(
        f"{compiles} compilation, {compiled.seconds:.1f} s: {report.capture_seconds:.1f} s of capture by PyTorch, "
        f"{report.compile_seconds:.1f} s of anyshape; {report.kernels} kernels"
    )
    console.print(
        f"PyTorch takes {statistics.median(ratios):.2f}× our time in the median of these sizes; "
        f"largest difference {max(row.difference for row in rows):.1e}, ragged masks included"
    )


def _print_sentences(console: Console, minilm: Any, compiled: Compiled) -> None:
    inputs = minilm.tokenize(minilm.load_tokenizer(), SENTENCES)
    _, vectors = compiled.program(**inputs)
    lengths: list[int] = inputs["attention_mask"].sum(1).tolist()
    title = f"most similar of {len(SENTENCES)} sentences of {min(lengths)} to {max(lengths)} tokens, in one batch"
    table = Table("cosine", "tokens", "sentences", title=title, show_lines=True)
    pairs: list[tuple[float, int, int]] = minilm.similar_pairs(vectors, 5)
    for cosine, i, j in pairs:
        table.add_row(f"{cosine:.3f}", f"{lengths[i]}\n{lengths[j]}", f"{_short(SENTENCES[i])}\n{_short(SENTENCES[j])}")
    console.print(table)


def _short(sentence: str) -> str:
    return sentence if len(sentence) <= 60 else f"{sentence[:59]}…"


def _figures(rows: Sequence[Row], compiled: Compiled, compiles: int) -> dict[str, Any]:
    return {
        "compiles": compiles,
        "seconds_compile": compiled.seconds,
        "max_abs_err": max(row.difference for row in rows),
        "rows": [{"batch": row.batch, "length": row.length, "ms": row.ms, "eager_ms": row.eager_ms} for row in rows],
    }
