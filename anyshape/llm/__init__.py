"""Language models: a GGUF file in, text out. `load` is the door; nothing of it is imported before it is used."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from anyshape.llm.language_model import LanguageModel, load

__all__ = ["LanguageModel", "load"]


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module("anyshape.llm.language_model"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
