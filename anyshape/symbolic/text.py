"""The text of sizes: `2*b*(s floordiv 4) + min(s, 512) - 1`.

Precedence, loosest first: `+ -`, then `* floordiv mod` (left to right), then unary `-`. `//` and `%` are not used
because MLIR's lexer takes the first for a comment and the second for the start of a value name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from anyshape.symbolic.fold import INT64_MIN

if TYPE_CHECKING:
    from anyshape.symbolic.expr import Atom, Size


def format_size(size: Size) -> str:
    """The text which `parse_size` reads back as the same size."""
    if not size.terms:
        return "0"
    parts: list[str] = []
    for monomial, coefficient in size.terms:
        body = _format_product(monomial, abs(coefficient), alone=coefficient == 1)
        if not parts:
            parts.append(f"-{body}" if coefficient < 0 else body)
        elif coefficient == INT64_MIN:  # its absolute value is no 64-bit constant
            parts.append(f" + -{body}")
        else:
            parts.append(f" - {body}" if coefficient < 0 else f" + {body}")
    return "".join(parts)


def _format_product(monomial: tuple[Atom, ...], magnitude: int, alone: bool) -> str:
    if not monomial:
        return str(magnitude)
    if alone and len(monomial) == 1:
        return _format_atom(monomial[0])
    factors = [] if magnitude == 1 else [str(magnitude)]
    factors += [_format_factor(atom) for atom in monomial]
    return "*".join(factors)


def _format_factor(atom: Atom) -> str:
    text = _format_atom(atom)
    return f"({text})" if atom.kind in ("floordiv", "mod") else text


def _format_atom(atom: Atom) -> str:
    if atom.kind == "symbol":
        return atom.name
    if atom.kind in ("min", "max"):
        return f"{atom.kind}({', '.join(str(argument) for argument in atom.args)})"
    lhs, rhs = atom.args
    return f"{_format_operand(lhs)} {atom.kind} {_format_operand(rhs)}"


def _format_operand(size: Size) -> str:
    """An operand of `floordiv` or `mod`: only a symbol, min, max or a constant >= 0 stands without parentheses."""
    text = str(size)
    if size.is_constant:
        return text if size.value >= 0 else f"({text})"
    atom = size.as_atom()
    return text if atom is not None and atom.kind in ("symbol", "min", "max") else f"({text})"
