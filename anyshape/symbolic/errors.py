"""The errors of the size arithmetic."""


class SizeError(Exception):
    """Every error of this package."""


class SizeTypeError(SizeError, TypeError):
    """A value that is neither a size nor an int."""


class SizeNameError(SizeError, ValueError):
    """A symbol, or an operator of a relation, with a name that is not allowed."""


class DivisorError(SizeError, ValueError):
    """A divisibility fact or question about a number below 1."""


class SizeNotConstantError(SizeError, ValueError):
    """A constant was needed and the size has symbols."""


class SizeParseError(SizeError, ValueError):
    """A text that is not a size or a relation; the message shows where."""


class SizeOverflowError(SizeError, OverflowError):
    """A constant or a value outside the signed 64-bit range."""


class SizeDivisionError(SizeError, ZeroDivisionError):
    """A division, or a remainder, by zero."""


class UnboundSymbolError(SizeError, KeyError):
    """`evaluate` met a symbol that its environment does not bind.

    Attributes:
        symbol: the missing name.
    """

    def __init__(self, symbol: str, bound: tuple[str, ...]) -> None:
        known = ", ".join(bound) or "none"
        super().__init__(f"symbol '{symbol}' has no value (bound symbols: {known}); add it to the environment")
        self.symbol = symbol

    def __str__(self) -> str:
        return str(self.args[0])  # KeyError would print the repr


class ContradictionError(SizeError, ValueError):
    """A fact that cannot hold together with the facts already assumed."""
