"""Language models: a GGUF file in, text out. `load` is the door; nothing of it is imported before it is used.

A model whose program is in the cache is loaded without what builds graphs, and without what runs templates of conversations."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from anyshape.llm import chat
    from anyshape.llm.decoder import build_decoder
    from anyshape.llm.language_model import LanguageModel, load

__all__ = ["LanguageModel", "build_decoder", "chat", "load"]

_ROOMS = {"build_decoder": "anyshape.llm.decoder"}


def __getattr__(name: str) -> object:
    if name == "chat":
        return import_module("anyshape.llm.chat")
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_ROOMS.get(name, "anyshape.llm.language_model")), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
