"""Source locations: as people read them, and as the place where a function says who asked for its conditions on sizes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

from xdsl.dialects.builtin import (
    ArrayAttr,
    FileLineColLoc,
    FusedLoc,
    IntAttr,
    LocationAttr,
    NameLoc,
    NoneAttr,
    StringAttr,
    UnknownLoc,
)
from xdsl.ir import Attribute


@dataclass(frozen=True)
class Origin:
    """Who asked for a condition on sizes.

    Attributes:
        asker: the op, or in words what else it was.
        file, line: where in the user's program, as far as that is known.
    """

    asker: str
    file: str | None = None
    line: int | None = None

    def __str__(self) -> str:
        return self.asker if self.file is None or self.line is None else f"{self.asker}, {self.file}:{self.line}"


def location_at(file: str | None, line: int | None) -> LocationAttr:
    """A line of a file, where both are known."""
    if file is None or line is None:
        return UnknownLoc()
    return FileLineColLoc(StringAttr(file), IntAttr(line), IntAttr(0))


def location_of_origins(origins: Mapping[str, Origin]) -> LocationAttr:
    """The location of a function whose conditions, by their texts, were asked for there.

    `fused["d0 <= 512"("aten.add.Tensor"("model.py":12:0))]`. A location is part of no text and of no key, and is kept in copies.
    """
    if not origins:
        return UnknownLoc()
    named = [
        NameLoc(StringAttr(condition), NameLoc(StringAttr(origin.asker), location_at(origin.file, origin.line)))
        for condition, origin in origins.items()
    ]
    return FusedLoc(ArrayAttr[Attribute](named), NoneAttr())


def origins_in(location: Attribute) -> dict[str, Origin]:
    """The inverse of `location_of_origins`; empty for any other location."""
    found: dict[str, Origin] = {}
    parts = cast("ArrayAttr[Attribute]", location.locations) if isinstance(location, FusedLoc) else ()
    for part in parts:
        if isinstance(part, NameLoc) and isinstance(part.location, NameLoc):
            file, line = file_and_line(part.location)
            found[part.desc.data] = Origin(part.location.desc.data, file, line)
    return found


def file_and_line(location: Attribute) -> tuple[str | None, int | None]:
    """The place in a source file behind the names of a location."""
    while isinstance(location, NameLoc):
        location = location.location
    if isinstance(location, FileLineColLoc):
        return location.filename.data, location.line.data
    return None, None


def location_text(location: Attribute) -> str:
    """`model.py:12 (embedding)`: file and line of the user's source and the name that the front end knows the op by, as
    far as they are known."""
    match location:
        case NameLoc():
            inner = location_text(location.location)
            return f"{inner} ({location.desc.data})" if inner else location.desc.data
        case FileLineColLoc():
            return f"{location.filename.data}:{location.line.data}"
        case _:
            return ""


def node_name(location: Attribute) -> str:
    """The name that the front end knows an op by, where it has one."""
    return location.desc.data if isinstance(location, NameLoc) else ""
