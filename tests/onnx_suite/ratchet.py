"""The checked-in list of cases that are not right, each with what became of it and why. It may only shrink."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

FILE = Path(__file__).with_name("not_right.txt")
STATES = ("refused", "timed out", "crashed", "failed", "wrong")
"""From best to worst; what is right is not listed."""

Key = tuple[str, str]
"""The case's name and the mode."""


@dataclass(frozen=True)
class NotRight:
    """What became of a case that is not right.

    Attributes:
        state: one of `STATES`.
        reason: in one line; for a case outside of what is asked, why it is outside.
    """

    state: str
    reason: str


Listed = Mapping[Key, NotRight]


def read() -> dict[Key, NotRight]:
    """The checked-in list: a line is `mode | name | state | reason`."""
    found: dict[Key, NotRight] = {}
    for line in FILE.read_text().splitlines() if FILE.exists() else ():
        mode, name, state, reason = line.split(" | ", 3)
        found[name, mode] = NotRight(state, reason)
    return found


def write(listed: Listed) -> None:
    """Check in this list."""
    lines = [f"{mode} | {name} | {each.state} | {each.reason}" for (name, mode), each in sorted(listed.items())]
    FILE.write_text("".join(f"{line}\n" for line in lines))


def worse(before: Listed, now: Listed) -> dict[Key, tuple[str, NotRight]]:
    """Cases that were better before, with what they were."""
    found: dict[Key, tuple[str, NotRight]] = {}
    for key, state in now.items():
        known = before[key].state if key in before else "right"
        if _rank(state.state) > _rank(known):
            found[key] = known, state
    return found


def merged(before: Listed, now: Listed, run: Iterable[Key]) -> dict[Key, NotRight]:
    """`now` for the cases that were run, `before` for the others."""
    fresh = set(run)
    return {**{key: each for key, each in before.items() if key not in fresh}, **now}


def _rank(state: str) -> int:
    return STATES.index(state) + 1 if state in STATES else 0


__all__ = ["FILE", "STATES", "Key", "Listed", "NotRight", "merged", "read", "worse", "write"]
