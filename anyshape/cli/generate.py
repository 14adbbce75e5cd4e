"""`anyshape generate`: a language model continues a text."""

from __future__ import annotations

import gc
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from anyshape.llm.generate import Generation
from anyshape.llm.key_cache import DEFAULT, cache_type
from anyshape.llm.language_model import LanguageModel, load
from anyshape.support.options import Options

_MODEL = typer.Argument(metavar="MODEL.gguf", help="The model file.", show_default=False)
_TEMPERATURE = typer.Option(help="0 takes the likeliest token each time.")
_TOP_K = typer.Option(help="Choose among so many of the likeliest tokens; 0 for all.")
_TOP_P = typer.Option(help="Choose among the likeliest tokens that have so much probability together.")
_MIN_P = typer.Option(help="Choose among tokens so likely, relative to the likeliest.")
_PENALTY = typer.Option(help="Above 1, tokens that are already there become less likely.")
_SEED = typer.Option(help="Of the random numbers.", show_default="another each time")
_STOP = typer.Option(help="A text at which to stop; may be given several times.")
_CONTEXT = typer.Option(help="Tokens that a text may have.", show_default="the model's own")
_SHIFT = typer.Option("--shift", help="When the context is full, forget its older half instead of ending.")
_CACHE = typer.Option(help="What keys and values of the tokens read are kept in: f32, f16 or int8.")
_THREADS = typer.Option(help="Threads that kernels run on.", show_default="one a core")
_STATS = typer.Option("--stats", help="Say at the end how long it took, to standard error.")


def command(
    model: Annotated[Path, _MODEL],
    prompt: Annotated[str, typer.Option(help="The text to continue; `-` reads it from standard input.")],
    max_tokens: Annotated[int | None, typer.Option(help="Most tokens to write.", show_default="until the end")] = None,
    temperature: Annotated[float, _TEMPERATURE] = 0.0,
    top_k: Annotated[int, _TOP_K] = 0,
    top_p: Annotated[float, _TOP_P] = 1.0,
    min_p: Annotated[float, _MIN_P] = 0.0,
    repetition_penalty: Annotated[float, _PENALTY] = 1.0,
    seed: Annotated[int | None, _SEED] = None,
    stop: Annotated[list[str] | None, _STOP] = None,
    context: Annotated[int | None, _CONTEXT] = None,
    shift: Annotated[bool, _SHIFT] = False,
    cache: Annotated[str, _CACHE] = DEFAULT,
    threads: Annotated[int | None, _THREADS] = None,
    stats: Annotated[bool, _STATS] = False,
) -> None:
    """Continue a text with a language model in a GGUF file, which is compiled when it is first used.

    What is written goes to standard output as it comes, what ended it to standard error where that is no end of the model's own.
    """
    start = time.perf_counter()
    language_model = open_model(model, context, threads, cache)
    loaded = time.perf_counter()
    text = sys.stdin.read() if prompt == "-" else prompt
    generation = language_model.generate(
        text, max_tokens=max_tokens, stop=stop or (), shift=shift, temperature=temperature, top_k=top_k, top_p=top_p,
        min_p=min_p, repetition_penalty=repetition_penalty, seed=seed,
    )  # fmt: skip
    first = write_pieces(generation)
    print()
    note_end(generation)
    if stats:
        print(_stats_text(generation, (start, loaded, first, time.perf_counter())), file=sys.stderr)


def open_model(path: Path, context: int | None, threads: int | None, cache: str) -> LanguageModel:
    """Load a model, with so many threads."""
    options = Options.from_environment()
    if threads is not None:
        options = replace(options, threads=threads)
    # Little of what loading or compiling makes is garbage before it is done: looking for it would take a tenth of the time.
    gc.disable()
    try:
        return load(path, context=context, cache=cache_type(cache), options=options)
    finally:
        gc.enable()


def write_pieces(generation: Generation, written: list[str] | None = None) -> float:
    """Write pieces to standard output as they come, and add them to `written`; returns when the first one came."""
    first = 0.0
    for piece in generation:
        first = first or time.perf_counter()
        print(piece, end="", flush=True)
        if written is not None:
            written.append(piece)
    return first or time.perf_counter()


def note_end(generation: Generation) -> None:
    """Say to standard error that a text ended because the context was full."""
    if generation.finish == "context":
        print("the context is full: --shift goes on without its older half", file=sys.stderr)


def _stats_text(generation: Generation, times: tuple[float, float, float, float]) -> str:
    start, loaded, first, end = times
    written = generation.written
    rate = (written - 1) / (end - first) if written > 1 and end > first else 0.0
    return (
        f"loaded in {loaded - start:.2f} s; first token after {first - loaded:.3f} s; "
        f"{written} tokens written, {rate:.1f} a second"
    )


__all__ = ["command", "note_end", "open_model", "write_pieces"]
