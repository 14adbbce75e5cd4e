"""Exact division of sizes: what `-1` among the sizes of a Reshape stands for."""

from __future__ import annotations

from anyshape.symbolic import Size
from anyshape.symbolic.expr import make_size
from anyshape.symbolic.prove import divide_monomial


def exact_quotient(total: Size, part: Size) -> Size | None:
    """q with q·part = total as polynomials, so wherever they are defined; None where there is none, or part is 0.

    (b·s·768) / (64·b) = 12·s; where b is 0 at run time, q is what it is for every other b.
    """
    if not part.terms:
        return None
    leading_monomial, leading = part.terms[0]
    quotient, rest = Size.const(0), total
    while rest.terms:
        monomial, coefficient = rest.terms[0]
        factor = divide_monomial(monomial, leading_monomial)
        if factor is None or coefficient % leading:
            return None
        step = make_size({factor: coefficient // leading})
        quotient, rest = quotient + step, rest - step * part
    return quotient


__all__ = ["exact_quotient"]
