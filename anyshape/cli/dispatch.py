"""Finds the module of a subcommand and runs it; `anyshape --help` imports none of them.

A subcommand is a module of this package with one typed function `command`, whose parameters are its command line and
whose docstring is its help page; or, where it has subcommands of its own, with a `typer.Typer` named `group`.
"""

import io
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from anyshape import __version__
from anyshape.support.errors import AnyshapeError


@dataclass(frozen=True)
class Subcommand:
    """A row of the list of subcommands.

    Args:
        module: the module that defines `command`.
        summary: one line for `anyshape --help`.
    """

    module: str
    summary: str


SUBCOMMANDS: Mapping[str, Subcommand] = {
    "run": Subcommand("anyshape.cli.run", "Run an ONNX model on arrays."),
    "demo": Subcommand("anyshape.cli.demo", "Compile a sentence encoder once and run it at many sizes."),
    "generate": Subcommand("anyshape.cli.generate", "Continue a text with a language model."),
    "chat": Subcommand("anyshape.cli.chat", "Talk with a language model."),
    "opt": Subcommand("anyshape.cli.opt", "Run any passes on a program given as text."),
    "explain": Subcommand("anyshape.cli.explain", "Say why a model's program is what it is."),
    "replay": Subcommand("anyshape.cli.replay", "Compile a graph again whose compilation failed."),
    "bench": Subcommand("anyshape.cli.bench", "Show or measure the numbers of the cost model."),
    "info": Subcommand("anyshape.cli.info", "Show the machine, the options and the versions."),
}
"""Every subcommand, in the order of the help page."""


class _LazyGroup(TyperGroup):
    """Lists `SUBCOMMANDS` from the table, and imports the module of the one that is run."""

    def list_commands(self, ctx: Any) -> list[str]:
        return list(SUBCOMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> TyperCommand | None:
        """The entry for the help page: name and summary, nothing to run."""
        row = SUBCOMMANDS.get(cmd_name)
        return TyperCommand(cmd_name, help=row.summary) if row else None

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        name, command, rest = super().resolve_command(ctx, args)
        return name, load_subcommand(name) if name else command, rest


def load_subcommand(name: str) -> Any:
    """The command line of one of `SUBCOMMANDS`, built from the signature of its module's `command` function, or its `group`."""
    module = import_module(SUBCOMMANDS[name].module)
    if hasattr(module, "group"):
        return typer.main.get_command(module.group)
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    app.command(name)(module.command)
    return typer.main.get_command(app)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"anyshape {__version__}")
        raise typer.Exit


def _anyshape(
    version: Annotated[
        bool, typer.Option("--version", help="Show the version and exit.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """Compile a deep-learning model once; run it at any batch size, length or image size."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command and exit: 0 when it succeeded, 1 after an error, 2 after a mistake in the command line.

    Args:
        arguments: the words after `anyshape`, by default those of the process.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a terminal that lacks a character shows another
            stream.reconfigure(errors="replace")
    app = typer.Typer(cls=_LazyGroup, add_completion=False, pretty_exceptions_enable=False, no_args_is_help=True)
    app.callback()(_anyshape)
    try:
        app(args=None if arguments is None else list(arguments), prog_name="anyshape")
    except AnyshapeError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(1)
