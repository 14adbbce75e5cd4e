"""A function of the user's script: found, called, and its errors shown without our frames."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable, Generator
from contextlib import contextmanager
from importlib.util import module_from_spec, spec_from_file_location
from inspect import isfunction
from pathlib import Path
from typing import Any

from anyshape.support.errors import AnyshapeError, ArgumentError

_PACKAGE = str(Path(__file__).resolve().parents[1])
_GENERATED = "<"
_TORCH = os.sep + os.path.join("site-packages", "torch") + os.sep
_EXPECTED = "SCRIPT.py:FUNCTION"


class ScriptError(AnyshapeError):
    """The user's script, or a function of it, raised; the traceback is the user's."""


def split_target(target: str) -> tuple[Path, str]:
    """The file and the function that `SCRIPT.py:FUNCTION` names. ArgumentError where there is no such file."""
    file, _, name = target.rpartition(":")
    if not file or not name.isidentifier():
        raise ArgumentError(
            "this names no function of a script", where=target, expected=_EXPECTED, remedy=f"write {target}:main"
        )
    path = Path(file)
    if not path.is_file():
        raise ArgumentError("there is no such script", where=file, expected=_EXPECTED, remedy="check the path")
    return path, name


@contextmanager
def loaded_function(target: str) -> Generator[Callable[[], Any]]:
    """The function that `SCRIPT.py:FUNCTION` names; inside, its module is among those that are imported, and modules beside the
    script are found. What `if __name__ == "__main__"` guards does not run.

    Raises:
        ArgumentError: there is no such file or function.
        ScriptError: loading the script, or inside the caller's call of the function, raised.
    """
    path, name = split_target(target)
    module_name = path.stem
    spec = spec_from_file_location(module_name, path.resolve())
    if spec is None or spec.loader is None:
        raise ArgumentError("the file is no Python script", where=str(path), expected=_EXPECTED)
    module = module_from_spec(spec)
    before = sys.modules.get(module_name)
    sys.modules[module_name] = module
    sys.path.insert(0, str(path.resolve().parent))
    try:
        with users_errors(f"loading {path}"):
            spec.loader.exec_module(module)
        function = getattr(module, name, None)
        if not callable(function):
            own = (key for key, value in vars(module).items() if isfunction(value) and value.__module__ == module_name)
            known = [key for key in own if not key.startswith("_")]
            raise ArgumentError(
                "the script has no such function", where=target, got=name, expected=", ".join(known) or "a function",
                remedy="name a function that takes no arguments",
            )  # fmt: skip
        yield function
    finally:
        sys.path.remove(str(path.resolve().parent))
        del sys.modules[module_name]
        if before is not None:
            sys.modules[module_name] = before


@contextmanager
def users_errors(what: str) -> Generator[None]:
    """Turns whatever the user's code raises inside into a ScriptError with the user's part of the traceback."""
    try:
        yield
    except Exception as error:
        raise ScriptError(
            f"{what} failed with {type(error).__name__}",
            got=users_traceback(error),
            remedy="run the function by itself, without `anyshape explain`, and correct it",
        ) from error


def users_traceback(error: BaseException) -> str:
    """The traceback, with its causes, without the frames of this package and of code that has no file.

    Where the error is ours, PyTorch ran the model for us: its frames are left out too.
    """
    text = traceback.TracebackException.from_exception(error)
    _hide_frames(text, torch_too=isinstance(error, AnyshapeError))
    return "".join(text.format()).rstrip()


def _hide_frames(text: traceback.TracebackException, *, torch_too: bool) -> None:
    shown = [
        frame
        for frame in text.stack
        if not frame.filename.startswith((_PACKAGE, _GENERATED)) and not (torch_too and _TORCH in frame.filename)
    ]
    text.stack = traceback.StackSummary.from_list(shown)
    for other in (text.__cause__, text.__context__):
        if other is not None:
            _hide_frames(other, torch_too=torch_too)


__all__ = ["ScriptError", "loaded_function", "split_target", "users_errors", "users_traceback"]
