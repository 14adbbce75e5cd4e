"""`anyshape chat`: talk with a language model."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from anyshape.cli.generate import note_end, open_model, write_pieces
from anyshape.llm.generate import Generation, Limits
from anyshape.llm.key_cache import DEFAULT
from anyshape.llm.language_model import Message
from anyshape.llm.sampling import Sampling

_MODEL = typer.Argument(metavar="MODEL.gguf", help="The model file.", show_default=False)
_MAX_TOKENS = typer.Option(help="Most tokens of an answer.", show_default="until its end")


def command(
    model: Annotated[Path, _MODEL],
    system: Annotated[str, typer.Option(help="What the model is told before the conversation.")] = "",
    max_tokens: Annotated[int | None, _MAX_TOKENS] = None,
    temperature: Annotated[float, typer.Option(help="0 takes the likeliest token each time.")] = 0.7,
    top_k: Annotated[int, typer.Option(help="Choose among so many of the likeliest tokens; 0 for all.")] = 40,
    top_p: Annotated[float, typer.Option(help="Choose among tokens with so much probability together.")] = 0.95,
    min_p: Annotated[float, typer.Option(help="Choose among tokens so likely, relative to the likeliest.")] = 0.05,
    repetition_penalty: Annotated[float, typer.Option(help="Above 1 makes repetition less likely.")] = 1.0,
    seed: Annotated[int | None, typer.Option(help="Of the random numbers.", show_default="another each time")] = None,
    context: Annotated[int | None, typer.Option(help="Tokens of the conversation.", show_default="the model's")] = None,
    shift: Annotated[bool, typer.Option("--shift", help="When the context is full, forget its older half.")] = False,
    cache: Annotated[str, typer.Option(help="What keys and values are kept in: f32, f16 or int8.")] = DEFAULT,
    threads: Annotated[int | None, typer.Option(help="Threads of kernels.", show_default="one a core")] = None,
) -> None:
    """Talk with a language model in a GGUF file. Each line is a message; an empty line or the end of the input ends the conversation."""
    language_model = open_model(model, context, threads, cache)
    sampling = Sampling(temperature, top_k, top_p, min_p, repetition_penalty, seed)
    limits = Limits(max_tokens, shift=shift)
    session = language_model.session()
    messages: list[Message] = [{"role": "system", "content": system}] if system else []
    while text := _next_line():
        messages.append({"role": "user", "content": text})
        generation = language_model.answer(messages, session, limits, sampling)
        answer = _written(generation)
        messages.append({"role": "assistant", "content": answer})
        note_end(generation)


def _next_line() -> str:
    """The next message; nothing at the end."""
    if sys.stdin.isatty():
        print("> ", end="", flush=True)
    return sys.stdin.readline().strip()


def _written(generation: Generation) -> str:
    """Write an answer as it comes; returns it."""
    pieces: list[str] = []
    write_pieces(generation, pieces)
    print()
    return "".join(pieces)


__all__ = ["command"]
