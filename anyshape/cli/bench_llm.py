"""`anyshape bench llm`: how fast a language model is, beside llama.cpp where that is installed."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast, get_args

import typer
from rich.console import Console
from rich.table import Table

from anyshape.llm.key_cache import DEFAULT, cache_type
from anyshape.support.errors import OptionError
from anyshape.support.machine import host_machine, processor_name
from anyshape.support.options import Activations, Options

if TYPE_CHECKING:
    from anyshape.cli.llm_speed import EngineSpeed, Rate, SpeedReport

_MODEL = typer.Argument(metavar="MODEL.gguf", help="The model file.", show_default=False)
_THREADS = typer.Option(help="Threads for every engine.", show_default="one a core")
_PROMPT = typer.Option(help="Lengths of prompts in tokens, separated by commas.")
_GENERATE = typer.Option(help="Single tokens to time.")
_ACTIVATIONS = typer.Option(help="int16, int8, or both: int16,int8. See ANYSHAPE_ACTIVATIONS.", show_default="int16")
_CACHE = typer.Option(help="What our program keeps keys and values in: f32, f16 or int8.")
_ROUNDS = typer.Option(help="How often each prompt is timed.")
_PEER = typer.Option(" /--no-peer", help="Leave llama.cpp out.", show_default=False)
_STARTS = typer.Option(
    " /--no-starts", help="Leave out compiling and first tokens of new processes.", show_default=False
)


def command(
    model: Annotated[Path, _MODEL],
    threads: Annotated[int | None, _THREADS] = None,
    prompt: Annotated[str, _PROMPT] = "128,512",
    generate: Annotated[int, _GENERATE] = 64,
    activations: Annotated[str | None, _ACTIVATIONS] = None,
    cache: Annotated[str, _CACHE] = DEFAULT,
    rounds: Annotated[int, _ROUNDS] = 5,
    peer: Annotated[bool, _PEER] = True,
    starts: Annotated[bool, _STARTS] = True,
    as_json: Annotated[bool, typer.Option("--json", help="Print the same as JSON.")] = False,
) -> None:
    """Measure a language model: prompts, single tokens, loading and the time to the first token.

    Where llama-cpp-python is installed, llama.cpp reads the same tokens in the same run, in turn with anyshape.
    """
    from anyshape.cli.llm_speed import Wanted, measure_speed

    options = Options.from_environment()
    wanted = Wanted(
        model, threads or options.threads or host_machine().cores, _lengths(prompt), generate,
        _activations(activations) or (options.activations,), rounds, peer, starts,
        cache_type(cache),
    )  # fmt: skip
    with Console(stderr=True).status("measuring") as status:
        report = measure_speed(wanted, options, status.update)
    if as_json:
        print(json.dumps(asdict(report), indent=1))
    else:
        _show(report, Console())


def _lengths(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError as error:
        raise OptionError(
            "lengths of prompts are numbers", where="--prompt", got=repr(text), expected="128,512"
        ) from error


def _activations(text: str | None) -> tuple[Activations, ...]:
    names = tuple(text.split(",")) if text else ()
    known = get_args(Activations)
    if not set(names) <= set(known):
        raise OptionError("unknown activations", where="--activations", got=repr(text), expected=", ".join(known))
    return cast("tuple[Activations, ...]", tuple(dict.fromkeys(names)))


def _show(report: SpeedReport, console: Console) -> None:
    console.print(
        f"{report.model}: {report.architecture}, {report.file_bytes / 1e6:.0f} MB; a token reads {report.weight_bytes / 1e6:.0f} MB "
        f"of weights, and adds {report.cache_bytes_of_token / 1e3:.1f} kB to a cache of {report.cache}\n"
        f"{processor_name()}, {report.threads} threads read {report.rates.memory:.1f} GB/s of memory, "
        f"{report.rates.cache:.0f} GB/s of the last level of caches ({report.cache_bytes / 2**20:.0f} MiB)",
        soft_wrap=True,
    )  # fmt: skip
    engines = report.engines
    table = Table(box=None, padding=(0, 2, 0, 0))
    for number, heading in enumerate(("", *(engine.engine for engine in engines))):
        table.add_column(heading, justify="right" if number else "left")

    def row(text: str, cell: Callable[[EngineSpeed], str]) -> None:
        table.add_row(text, *map(cell, engines))

    for index, length in enumerate(rate.tokens for rate in engines[0].prompts):
        row(f"prompt of {length}, tokens/s", lambda engine, index=index: _rate(engine.prompts[index]))
    row("generation, tokens/s", lambda engine: _rate(engine.generation))
    row("  of the memory's rate", lambda engine: f"{100 * engine.memory_share:.0f} %")
    row("  of caches and memory", lambda engine: f"{100 * engine.limit_share:.0f} %")
    row("load, s", lambda engine: _seconds(engine.start.load))
    if engines[0].start.first_token is not None:
        row("load, compiling, s", lambda engine: _seconds(engine.start.cold_load))
        row("first token, s", lambda engine: _seconds(engine.start.first_token))
        row("first token, compiling, s", lambda engine: _seconds(engine.start.cold_first_token))
    console.print(table)
    if any(engine.generation.gain for engine in engines):
        console.print("in brackets: times as fast as llama.cpp, median of pairs, 10th to 90th percentile")


def _rate(rate: Rate) -> str:
    if rate.gain is None:
        return f"{rate.per_second:.1f}"
    return "{:.1f} ({:.2f}x, {:.2f}-{:.2f})".format(rate.per_second, *rate.gain)


def _seconds(seconds: float | None) -> str:
    return "" if seconds is None else f"{seconds:.2f}"
