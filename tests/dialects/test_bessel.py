"""The references and the formulas of Bessel functions and the Airy function against mpmath, in whose place PyTorch has too few digits."""

# mpmath has no types.
# pyright: reportUnknownMemberType=false, reportMissingTypeStubs=false, reportUnknownLambdaType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false, reportMissingImports=false

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
import pytest

from anyshape.dialects.dhlo.base import DhloOp
from anyshape.dialects.dhlo.graph import FunctionBuilder
from anyshape.dialects.dhlo.interpreter import run_op
from anyshape.dialects.dhlo.pointwise import evaluate_pointwise
from anyshape.dialects.dtypes import F64

PLACES = (1e-5, 0.1, 0.75, 1.9999, 2.0001, 3.3, 5.5, 7.9999, 8.0001, 12.25, 30.5, 90.125)
EXACT: dict[str, Callable[[Any], Any]] = {
    "airy_ai": mpmath.airyai,
    "bessel_j0": lambda x: mpmath.besselj(0, x),
    "bessel_j1": lambda x: mpmath.besselj(1, x),
    "bessel_y0": lambda x: mpmath.bessely(0, x),
    "bessel_y1": lambda x: mpmath.bessely(1, x),
    "bessel_k0": lambda x: mpmath.besselk(0, x),
    "bessel_k1": lambda x: mpmath.besselk(1, x),
    "bessel_k0e": lambda x: mpmath.exp(x) * mpmath.besselk(0, x),
    "bessel_k1e": lambda x: mpmath.exp(x) * mpmath.besselk(1, x),
    "spherical_bessel_j0": lambda x: mpmath.sin(x) / x,
}
WAVES = ("airy_ai", "bessel_j0", "bessel_j1", "bessel_y0", "bessel_y1")
"""Near their zeros errors are a few 10⁻¹⁶ in themselves."""


@pytest.mark.parametrize("name", EXACT)
def test_all_digits_are_right(name: str) -> None:
    places = np.array([*PLACES, *(-x for x in PLACES if name in ("airy_ai", "bessel_j0", "bessel_j1"))])
    with mpmath.workdps(40):
        expected = np.array([float(EXACT[name](mpmath.mpf(float(x)))) for x in places])
    g = FunctionBuilder()
    op = g.add(DhloOp.OPS[f"dhlo.{name}"].of(g.input(len(places), dtype=F64)))
    absolute = 4e-15 if name in WAVES else 0.0
    (reference,) = run_op(op, [places], {})
    np.testing.assert_allclose(reference, expected, 2e-12, 10 * absolute)
    formula = evaluate_pointwise(op, [places], {})
    np.testing.assert_allclose(formula, expected, 2e-15, absolute)
