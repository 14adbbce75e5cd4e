"""Polygamma of a high order below zero: derivatives of the cotangent lost all digits halfway between poles, and half of them beside one.

Expected values are mpmath's, of 40 digits.
"""

# PyTorch is typed in part only.
# pyright: reportUnknownMemberType=false

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import Tensor

import anyshape
from anyshape.dialects.dhlo.special import _polygamma  # pyright: ignore[reportPrivateUsage]

EXPECTED: dict[int, dict[float, float]] = {
    2: {
        -0.5: -0.82879664423432,
        -2.5: -0.1082040516417274,
        -50.5: -0.00038443056696236074,
        -1e-10: 1.9999999999999998e30,
        -3.25: 123.95521103942203,
        0.25: -129.32773993753693,
        100000.0: -1.00001000005e-10,
    },
    3: {
        -0.5: 193.40909103400244,
        -2.5: 194.74787621918762,
        -50.5: 194.81816699374488,
        -1e-10: 5.999999999999999e40,
        -3.25: 1558.508802818279,
        0.25: 1538.7821440091884,
        100000.0: 2.0000300002e-15,
    },
    10: {
        -0.5: -42108.85876897549,
        -2.5: -4.026693041232995,
        -50.5: -3.0429628212571392e-12,
        -1e-10: 3.6287999999999984e116,
        -3.25: 15220204740667.846,
        0.25: -15220290667405.55,
        100000.0: -3.6289814433264e-45,
    },
    20: {
        -0.5: -487772949462609.9,
        -2.5: -9182070.204945628,
        -50.5: -8.526598313144684e-18,
        -1e-10: 2.4329020081766382e228,
        -3.25: 1.0700016187896298e31,
        0.25: -1.070001618891921e31,
        100000.0: -1.2165726534463073e-83,
    },
}


class _Derivative(torch.nn.Module):
    def __init__(self, order: int) -> None:
        super().__init__()
        self._order = order

    def forward(self, x: Tensor) -> Tensor:
        return torch.polygamma(self._order, x)


@pytest.mark.parametrize("order", EXPECTED)
def test_all_digits_are_right(order: int) -> None:
    places = torch.tensor(list(EXPECTED[order]), dtype=torch.float64)
    expected = torch.tensor(list(EXPECTED[order].values()), dtype=torch.float64)
    program = anyshape.compile(_Derivative(order), (torch.zeros(2, dtype=torch.float64),))
    torch.testing.assert_close(program(places), expected, rtol=1e-13, atol=0.0)
    with np.errstate(all="ignore"):
        reference = torch.tensor([float(_polygamma(order, x)) for x in EXPECTED[order]], dtype=torch.float64)
    torch.testing.assert_close(reference, expected, rtol=1e-13, atol=0.0)


@pytest.mark.parametrize("order", (2, 3))
def test_poles_are_pytorchs(order: int) -> None:
    places = torch.tensor([0.0, -0.0, -1.0, -2.0, -1e300, -math.inf, math.nan])
    program = anyshape.compile(_Derivative(order), (torch.zeros(2),))
    torch.testing.assert_close(program(places), torch.polygamma(order, places), equal_nan=True)
