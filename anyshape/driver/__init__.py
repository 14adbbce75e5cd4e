"""From a model to a running program: the pipeline, the compilation, the report.

`compile_objects` is imported when something is compiled: a program that comes from the cache is loaded without the compiler."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from anyshape.driver.build import compile_objects

__all__ = ["compile_objects"]


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module("anyshape.driver.build"), name)
