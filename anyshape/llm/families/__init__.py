"""The families of language models that are known, each a short definition."""

from __future__ import annotations

from collections.abc import Mapping

from anyshape.llm.families.base import Description, Family
from anyshape.llm.families.gemma import GEMMA3
from anyshape.llm.families.llama import LLAMA
from anyshape.llm.families.phi import PHI3
from anyshape.llm.families.qwen import QWEN2, QWEN3
from anyshape.support.errors import FileFormatError

_FAMILIES = (LLAMA, QWEN2, QWEN3, GEMMA3, PHI3)
FAMILIES: Mapping[str, Family] = {name: each for each in _FAMILIES for name in (each.architecture, *each.aliases)}
"""Every family by its name in GGUF files."""


MODEL_TYPES: Mapping[str, Family] = {name: each for each in _FAMILIES for name in each.model_types}
"""Every family by its names in `config.json`."""


def family_of(architecture: str, source: str) -> Family:
    """The family of that name. Raises FileFormatError with the list of known ones."""
    return _found(FAMILIES, architecture, source)


def family_of_type(model_type: str, source: str) -> Family:
    """The family by its name in `config.json`. Raises FileFormatError with the list of known ones."""
    return _found(MODEL_TYPES, model_type, source)


def _found(table: Mapping[str, Family], name: str, source: str) -> Family:
    family = table.get(name)
    if family is None:
        raise FileFormatError(
            "models of this architecture are not known", where=source, got=repr(name), expected=", ".join(table)
        )
    return family


__all__ = ["FAMILIES", "MODEL_TYPES", "Description", "Family", "family_of", "family_of_type"]
