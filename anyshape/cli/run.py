"""`anyshape run`: compiles an ONNX model and runs it on arrays from files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

import anyshape
from anyshape.support.errors import ArgumentError, FileFormatError


def command(
    model: Annotated[Path, typer.Argument(help="An ONNX file.")],
    input: Annotated[
        list[str] | None, typer.Option(metavar="NAME=FILE", help="The array of an input, as .npy; for each input one.")
    ] = None,
    output: Annotated[
        list[str] | None,
        typer.Option(
            metavar="[NAME=]FILE", help="Where to write an output as .npy; without NAME, in the model's order."
        ),
    ] = None,
    size: Annotated[
        list[str] | None,
        typer.Option(
            metavar="INPUT.AXIS=NAME", help="Make an axis dynamic that the file fixes, or fix it at a number."
        ),
    ] = None,
) -> None:
    """Compile an ONNX model and run it on arrays: numpy in, numpy out.

    The compiled program is kept in the cache, so a second run on arrays of any other sizes compiles nothing. Prints the
    shape and the dtype of every output.
    """
    compiled = anyshape.compile(model, dynamic_shapes=_sizes(size or []) or "all")
    arrays = _inputs(input or [], compiled.input_names)
    result: Any = compiled(**arrays)
    every: list[Any] = [*result] if len(compiled.output_names) > 1 else [result]
    results = dict(zip(compiled.output_names, every, strict=True))
    for name, path in _outputs(output or [], compiled.output_names).items():
        np.save(path, results[name], allow_pickle=False)
    for name, array in results.items():
        print(f"{name}: {array.dtype}{list(array.shape)}")


def _inputs(given: Sequence[str], names: Sequence[str]) -> dict[str, Any]:
    """The arrays by input; where the model has one input, its name may be left out."""
    arrays: dict[str, Any] = {}
    for text in given:
        name, separator, path = text.partition("=")
        if not separator and len(names) == 1:
            name, path = names[0], text
        elif not separator:
            raise ArgumentError(
                "an input has no name", where="--input", got=text, expected=f"NAME=FILE, NAME of {', '.join(names)}"
            )
        arrays[name] = _read(Path(path))
    return arrays


def _read(path: Path) -> Any:
    try:
        return np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise FileFormatError(
            "an array cannot be read", where=path, got=error, expected="a .npy file of numbers"
        ) from error


def _outputs(given: Sequence[str], names: Sequence[str]) -> dict[str, Path]:
    """Where to write which output."""
    places: dict[str, Path] = {}
    unnamed = iter(names)
    for text in given:
        name, separator, path = text.rpartition("=")
        if not separator:
            name = next(unnamed, "")
        if name not in names:
            raise ArgumentError("there is no such output", where="--output", got=text, expected=", ".join(names))
        places[name] = Path(path)
    return places


def _sizes(given: Sequence[str]) -> dict[str, dict[int, str | int]]:
    """`x.0=batch` as {"x": {0: "batch"}}."""
    sizes: dict[str, dict[int, str | int]] = {}
    for text in given:
        place, separator, size = text.partition("=")
        name, dot, axis = place.rpartition(".")
        if not (separator and dot and name and size and axis.isascii() and axis.isdigit()):
            raise ArgumentError(
                "a size is not understood", where="--size", got=text, expected="INPUT.AXIS=NAME, such as x.0=batch"
            )
        sizes.setdefault(name, {})[int(axis)] = int(size) if size.isascii() and size.isdigit() else size
    return sizes
