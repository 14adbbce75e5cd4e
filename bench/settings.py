"""What every section of a run is told."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.ceilings import Ceilings

SECONDS = 4.0
"""For each engine at each shape of a model."""
LAYER_FRACTION = 0.1
"""Of that, for each engine at one size of a single layer."""
LEAST_ROUNDS = 5


@dataclass(frozen=True)
class Settings:
    """`engines`: names, the baseline among them; `seconds`: for each engine and shape; `folder`: where results go; `say`: shows
    what is being done."""

    engines: Sequence[str]
    threads: int
    seconds: float
    folder: Path
    ceilings: Ceilings
    say: Callable[[str], None]

    @property
    def layer_seconds(self) -> float:
        """For each function at one size of a single layer."""
        return LAYER_FRACTION * self.seconds

    @property
    def rounds(self) -> int:
        """Rounds at least at a shape of a model, however long they take: 2 to 5, fewer in a short run."""
        return max(2, min(LEAST_ROUNDS, round(2 * self.seconds)))
