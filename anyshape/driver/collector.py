"""Python's collector of cyclic garbage, and where it only costs."""

from __future__ import annotations

import gc
from collections.abc import Generator
from contextlib import contextmanager


@contextmanager
def collector_paused() -> Generator[None]:
    """No collections meanwhile: for steps of tenths of a second that make many objects, which live until their end.

    A collection walks every object of the process, PyTorch's traces among them, for up to a second, and would free nothing.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


__all__ = ["collector_paused"]
