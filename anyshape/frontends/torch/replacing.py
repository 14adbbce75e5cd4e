"""Another value in a place of PyTorch's, for a while: where PyTorch has no hook for what an export asks and decides."""

from __future__ import annotations

from collections.abc import Generator, MutableMapping
from contextlib import contextmanager
from typing import Any


@contextmanager
def replaced(owner: object, name: str, value: object) -> Generator[None]:
    """`owner.name` is `value` while inside."""
    before = getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, before)


@contextmanager
def replaced_item(table: MutableMapping[Any, Any], key: object, value: object) -> Generator[None]:
    """`table[key]` is `value` while inside, whether or not there is one outside."""
    before = [table[key]] if key in table else []
    table[key] = value
    try:
        yield
    finally:
        del table[key]
        table.update((key, each) for each in before)
