"""Size expressions over symbols, relations between them, and facts that decide relations.

A size is an exact integer expression in normal form (`expr`), with a text (`text`, `parser`). `Facts` holds what is
known about symbols and answers `prove` with True, False or None.
"""

from anyshape.symbolic.binding import bind_symbols
from anyshape.symbolic.describe import describe_relation
from anyshape.symbolic.errors import (
    ContradictionError,
    DivisorError,
    SizeDivisionError,
    SizeError,
    SizeNameError,
    SizeNotConstantError,
    SizeOverflowError,
    SizeParseError,
    SizeTypeError,
    UnboundSymbolError,
)
from anyshape.symbolic.expr import Size, SizeLike, broadcast_size, size_max, size_min
from anyshape.symbolic.facts import Facts
from anyshape.symbolic.fold import SizeAlgebra
from anyshape.symbolic.parser import parse_relation, parse_size
from anyshape.symbolic.relation import Relation

__all__ = [
    "ContradictionError",
    "DivisorError",
    "Facts",
    "Relation",
    "Size",
    "SizeAlgebra",
    "SizeDivisionError",
    "SizeError",
    "SizeLike",
    "SizeNameError",
    "SizeNotConstantError",
    "SizeOverflowError",
    "SizeParseError",
    "SizeTypeError",
    "UnboundSymbolError",
    "bind_symbols",
    "broadcast_size",
    "describe_relation",
    "parse_relation",
    "parse_size",
    "size_max",
    "size_min",
]
