"""PyTorch's own reports on attempts to export, kept off the user's terminal."""

from __future__ import annotations

import logging
import threading
from collections.abc import Generator
from contextlib import contextmanager

_LOGGERS = (
    "torch._export.non_strict_utils",  # "… 0/1 specialized": what an example fixed is among the guards of the report
    "torch._subclasses.fake_tensor",  # the traceback of an attempt: it is an exception too, and that is handled
    "torch.fx.experimental.symbolic_shapes",
)


@contextmanager
def quiet_attempts() -> Generator[None]:
    """Drops what these loggers say in this thread, while inside: several examples are tried, and a failure of all is an error."""
    thread = threading.get_ident()

    def of_another_thread(record: logging.LogRecord) -> bool:
        return record.thread != thread

    loggers = [logging.getLogger(name) for name in _LOGGERS]
    for logger in loggers:
        logger.addFilter(of_another_thread)
    try:
        yield
    finally:
        for logger in loggers:
            logger.removeFilter(of_another_thread)


__all__ = ["quiet_attempts"]
