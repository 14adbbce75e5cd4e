"""Messages with places for numbers of a call, as `ral_fail` fills them in: `%lld` is a place, `%%` is a percent sign."""

from __future__ import annotations

import re
from collections.abc import Sequence

PLACE = "%lld"
SHOWN = 4
"""Numbers that a message can show."""


def verbatim(text: str) -> str:
    """A text as part of a message."""
    return text.replace("%", "%%")


def places_in(message: str) -> int:
    """How many numbers a message wants."""
    return message.replace("%%", "").count(PLACE)


def filled(message: str, numbers: Sequence[int]) -> str:
    """The message with the numbers in its places, in order."""
    rest = iter(numbers)
    return re.sub(f"%%|{PLACE}", lambda place: "%" if place[0] == "%%" else str(next(rest)), message)


__all__ = ["PLACE", "SHOWN", "filled", "places_in", "verbatim"]
