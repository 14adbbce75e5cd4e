"""How a lowering says no."""

from __future__ import annotations


class Unsupported(Exception):
    """This use of an op cannot be lowered; the text says why. The importer collects all of them into one `UnsupportedOps`."""
