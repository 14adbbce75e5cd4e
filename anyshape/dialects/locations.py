"""Source locations as people read them."""

from __future__ import annotations

from xdsl.dialects.builtin import FileLineColLoc, NameLoc
from xdsl.ir import Attribute


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
