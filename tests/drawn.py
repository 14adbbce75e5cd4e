"""Slices of long suites, drawn by the commit's hash: each commit runs another part, and the same one again and again."""

from __future__ import annotations

import hashlib
import random
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")


def commit() -> str:
    """The hash of the checkout's commit; empty where there is no checkout."""
    found = subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=Path(__file__).parent, capture_output=True, text=True, check=False
    )
    return found.stdout.strip()


def drawn(count: int, items: Sequence[T], seed: str | None = None) -> list[T]:
    """`count` of the items, in their order, by the commit unless another seed is given."""
    choose = random.Random(hashlib.sha256((commit() if seed is None else seed).encode()).digest())
    return [items[index] for index in sorted(choose.sample(range(len(items)), min(count, len(items))))]


__all__ = ["commit", "drawn"]
