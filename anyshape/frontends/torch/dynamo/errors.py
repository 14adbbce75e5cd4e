"""Errors as the user of `torch.compile` is to see them."""

# PyTorch is typed in part only.
# pyright: reportUnknownMemberType=false

from __future__ import annotations

from functools import cache
from types import FrameType
from typing import Any

from torch._dynamo.exc import ShortenTraceback

from anyshape.support.errors import AnyshapeError


class _Short(ShortenTraceback):
    """An error of a back end that TorchDynamo raises as it is, from a frame on; any other it wraps into `BackendCompilerFailed`."""

    def __init__(self, *args: object) -> None:
        super().__init__(*args, first_useful_frame=None)
        self.original: AnyshapeError | None = None

    def __reduce__(self) -> Any:
        # Another process gets the error itself: a class that was made here cannot be found there.
        return super().__reduce__() if self.original is None else self.original.__reduce__()


@cache
def _short(kind: type[AnyshapeError]) -> type[AnyshapeError]:
    # The name of the class that users catch is what their traceback shows.
    return type(kind.__name__, (kind, _Short), {"__module__": "anyshape", "__doc__": kind.__doc__})


def as_seen(error: AnyshapeError, frame: FrameType | None) -> AnyshapeError:
    """The same error, of a subclass of its class: its traceback begins at `frame` (all of it with TORCHDYNAMO_VERBOSE=1).

    Args:
        frame: the frame that raises it.
    """
    kind = _short(type(error))
    seen: Any = kind.__new__(kind, *error.args)
    _Short.__init__(seen, *error.args)
    seen.__dict__.update(vars(error))
    seen.args, seen.original = error.args, error
    seen.first_useful_frame = frame
    return seen


__all__ = ["as_seen"]
