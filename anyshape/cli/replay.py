"""`anyshape replay`: compiles a graph again whose compilation failed."""

import sys
import traceback
from pathlib import Path
from typing import Annotated

import typer

from anyshape.driver.reproducer import read_crash, replay
from anyshape.support.options import Options


def command(
    folder: Annotated[Path, typer.Argument(help="A folder that a failed compilation wrote.")],
) -> None:
    """Compile the graph of a failure again, with the options of that time, verifying after every pass.

    Exits with 1 and the traceback when it fails. ANYSHAPE_LOG and ANYSHAPE_DUMP work as ever.
    """
    environment = Options.from_environment()
    crash, graph = read_crash(folder)
    print(f"recorded: {crash.error}")
    if crash.location is not None:
        print(f"graph of: {crash.location}")
    if graph is None:
        print("It failed before there was a graph of ATen ops, and TorchDynamo's has what cannot be read back:")
        print(f"{folder / 'fx.txt'} and {folder / 'traceback.txt'} show more.")
        print("For a program that fails in the same way, run yours again with TORCHDYNAMO_REPRO_AFTER=dynamo.")
        raise typer.Exit(1)
    try:
        replay(crash, graph, environment.log, environment.dump)
    except Exception as error:
        traceback.print_exc(file=sys.stderr)
        same = f"{type(error).__name__}: {error}".splitlines()[0] == crash.error.splitlines()[0]
        print("replayed: the same error" if same else f"replayed: another error, {type(error).__name__}: {error}")
        raise typer.Exit(1) from error
    print("replayed: the graph compiles")
