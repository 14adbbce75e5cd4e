"""The errors that anyshape raises, each with where, what was got, what was expected and what to do.

Every class derives from `AnyshapeError` and, where Python has a fitting built-in class, from that one too, so that
`except ValueError` keeps working for callers who know nothing of this package.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeVar


class AnyshapeError(Exception):
    """An error with structured fields, rendered as one line of message and one line a field.

    Args:
        message: what went wrong, one sentence.
        where: the input, axis, op, file or source line concerned.
        got: the value found there; formatted with `str`, so pass `repr(x)` where quotes matter.
        expected: the values allowed there.
        remedy: what the reader can do about it.

    A field that is None is left out of the text.
    """

    def __init__(
        self,
        message: str,
        *,
        where: object = None,
        got: object = None,
        expected: object = None,
        remedy: object = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.where = where
        self.got = got
        self.expected = expected
        self.remedy = remedy

    def __str__(self) -> str:
        lines = [self.message]
        for name, label in _LABELS.items():
            value = getattr(self, name)
            if value is not None:
                lines.append(_field_line(label, value))
        return "\n".join(lines)


_LABELS: Mapping[str, str] = {"where": "where", "got": "got", "expected": "expected", "remedy": "to do"}
_LABEL_WIDTH = len("expected: ")


def _field_line(label: str, value: object) -> str:
    """`  label:    value`, later lines of a value aligned under its first."""
    continuation = "\n" + " " * (2 + _LABEL_WIDTH)
    return f"  {label + ':':<{_LABEL_WIDTH}}{continuation.join(str(value).splitlines())}"


_Error = TypeVar("_Error", bound=AnyshapeError)
_FIELD_LINE = re.compile(rf"^  ({'|'.join(_LABELS.values())}): *", re.MULTILINE)


def error_from_text(kind: type[_Error], text: str) -> _Error:
    """The error of this kind whose text is `text`: the inverse of `str`, for what programs without Python say."""
    message, *rest = _FIELD_LINE.split(text)
    names = {label: name for name, label in _LABELS.items()}
    values = [re.sub(rf"\n {{{2 + _LABEL_WIDTH}}}", "\n", value.removesuffix("\n")) for value in rest[1::2]]
    return kind(
        message.removesuffix("\n"), **{names[label]: value for label, value in zip(rest[::2], values, strict=True)}
    )


class GuardError(AnyshapeError, ValueError, RuntimeError, IndexError):
    """The sizes of the inputs break a condition under which the program was compiled.

    PyTorch raises RuntimeError for most sizes, ValueError for some, IndexError for the maximum along an axis without elements.
    """


class SingularMatrix(GuardError):
    """A matrix of the call's data is singular, or not positive definite; of a call from PyTorch also a `torch.linalg.LinAlgError`."""


DATA_ERRORS: Mapping[str, type[GuardError]] = {"guard": GuardError, "singular": SingularMatrix}
"""What a check of a call's data raises, by the names that checks have for it."""


class DtypeError(AnyshapeError, TypeError, RuntimeError):
    """A tensor has another element type than the program takes; PyTorch raises TypeError for some, RuntimeError for others."""


class RankError(AnyshapeError, ValueError, RuntimeError):
    """A tensor has another number of axes than the program takes."""


class ArgumentError(AnyshapeError, TypeError):
    """The arguments of a call do not have the structure of the example arguments."""


class IndexOutOfRange(AnyshapeError, IndexError, RuntimeError):
    """A gather, scatter or embedding got an index outside its axis; PyTorch raises IndexError for some ops, RuntimeError for others."""


class MemoryLimit(AnyshapeError, MemoryError):
    """The program needs more memory than there is, or than the caller allows."""


class ArtifactError(AnyshapeError):
    """A compiled artifact is corrupt, of another version, or for another machine."""


class FileFormatError(AnyshapeError, ValueError):
    """A file that was given to be read breaks its format, or uses a part of it that is not supported."""


class TemplateError(AnyshapeError, ValueError):
    """A chat template is not valid, asks for what the sandbox denies, exceeds its limits, or raised an error of its own."""


class CodegenError(AnyshapeError, RuntimeError):
    """A kernel plan or host program could not be turned into machine code."""


class CompileError(AnyshapeError, RuntimeError):
    """A graph could not be compiled because of a mistake in the compiler."""


class VerifyError(AnyshapeError, ValueError):
    """A program breaks an invariant of its stage."""


class OptionError(AnyshapeError, ValueError):
    """An option, or an environment variable, has a value that is not allowed."""


class ExportError(AnyshapeError):
    """A framework could not hand over the model as a graph."""


class ModelError(ExportError):
    """The model itself raises an error for the example arguments; what is raised is of the class of that error too (`model_error`)."""


def model_error(error: Exception, remedy: str | None = None) -> ModelError:
    """A ModelError that `except type(error)` catches as well, with the text of `error`."""
    kind = _model_error_of(next(each for each in type(error).__mro__ if each.__module__ in _PLAIN_MODULES))
    return kind(
        "the model does not take the example arguments",
        got=f"{type(error).__name__}: {str(error).strip()[:2000]}",
        remedy=remedy,
    )


_PLAIN_MODULES = ("builtins", "torch._C", "torch.linalg")
"""Modules whose exceptions are made of a message alone; of others, the nearest class of these is taken."""


@lru_cache(maxsize=64)
def _model_error_of(kind: type[Exception]) -> type[ModelError]:
    if issubclass(ModelError, kind):
        return ModelError
    return type("ModelError", (ModelError, kind), {"__module__": __name__, "__doc__": ModelError.__doc__})


@dataclass(frozen=True)
class UnsupportedOp:
    """One op that a front end cannot take.

    Args:
        name: the op's name in its own framework, such as `aten.fft_rfft.default`.
        reason: why it cannot be taken.
        location: `file:line` in the user's program, where known.
    """

    name: str
    reason: str
    location: str | None = None


class UnsupportedOps(AnyshapeError):
    """The model uses ops that cannot be compiled; the text lists all of them, each with its source lines."""

    def __init__(self, ops: Sequence[UnsupportedOp]) -> None:
        self.ops = tuple(ops)
        kinds = len({op.name for op in self.ops})
        noun = "op" if kinds == 1 else "different ops"
        super().__init__(
            f"the model uses {kinds} {noun} that anyshape cannot compile",
            where=_ops_text(self.ops),
            remedy="replace these ops in the model, or leave them to the framework",
        )
        # Unpickling calls the class with `args`.
        self.args = (self.ops,)


def _ops_text(ops: Sequence[UnsupportedOp]) -> str:
    """One line for each (name, reason), below it the distinct source lines in the order in which they were met."""
    locations: dict[tuple[str, str], dict[str, None]] = {}
    for op in ops:
        seen = locations.setdefault((op.name, op.reason), {})
        if op.location is not None:
            seen[op.location] = None
    lines: list[str] = []
    for (name, reason), seen in locations.items():
        lines.append(f"{name}: {reason}")
        lines.extend(f"  at {location}" for location in seen)
    return "\n".join(lines)
