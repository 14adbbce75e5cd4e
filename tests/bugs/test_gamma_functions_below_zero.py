"""Digamma, trigamma and lgamma below zero: reflections reckoned from the integer below lost the digits of small arguments.

Expected values are mpmath's, of 40 digits, at the f64 that each place is; around zeros, where terms cancel, digits are still lost.
"""

# PyTorch is typed in part only.
# pyright: reportUnknownMemberType=false

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

import anyshape
from anyshape.dialects.dhlo.special import _digamma, _trigamma  # pyright: ignore[reportPrivateUsage]

FUNCTIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "digamma": torch.digamma,
    "lgamma": torch.lgamma,
    "trigamma": lambda x: torch.polygamma(1, x),
}
EXPECTED: dict[str, dict[float, float]] = {
    "digamma": {
        -1e-10: 9999999999.422785,
        -0.001: 999.4211381978913,
        -0.25: 2.9141391202135276,
        -0.4999: 0.03738345008688251,
        -0.5: 0.03648997397857652,
        -0.75: -2.894120200042932,
        -1.0000000001: 9999999173.019142,
        -1.25: 3.714139120213528,
        -2.3: 3.3173231575618227,
        -2.999999: -999998.7437395476,
        -7.25: 5.189977214956288,
        -20.9: -6.60534611996264,
        1e-12: -1000000000000.5773,
        0.3: -3.502524222200133,
        1.0000001: -0.5772155004081381,
        1.5: 0.03648997397857652,
        2.0000001: 0.4227843995918717,
        8.1: 2.0288674570805814,
        100.5: 4.605174352581845,
    },
    "lgamma": {
        -1e-10: 23.025850929998178,
        -0.001: 6.908333317515028,
        -0.25: 1.589575312551186,
        -0.4999: 1.2655158171559169,
        -0.5: 1.2655121234846454,
        -0.75: 1.5757045971498584,
        -1.0000000001: 23.025850847157812,
        -1.25: 1.3664317612369763,
        -2.3: 0.36956666345500805,
        -2.999999: 12.023752344715612,
        -7.25: -7.54188344347575,
        -20.9: -42.75446858046848,
        1e-12: 27.63102111592797,
        0.3: 1.0957979948180756,
        1.0000001: -5.772155829918507e-08,
        1.5: -0.12078223763524522,
        2.0000001: 4.227843666532498e-08,
        8.1: 8.72738826343204,
        100.5: 361.4355404677776,
    },
    "trigamma": {
        -1e-10: 1e20,
        -0.001: 1000001.6473414317,
        -0.25: 18.541879647671607,
        -0.4999: 8.934720287925195,
        -0.5: 8.934802200544679,
        -0.75: 18.975106932284888,
        -1.0000000001: 9.999998345192786e19,
        -1.25: 19.181879647671607,
        -2.3: 14.725912160961292,
        -2.999999: 999999999723.4501,
        -7.25: 19.61035453929327,
        -20.9: 103.30911863492001,
        1e-12: 1e24,
        0.3: 12.245364546107732,
        1.0000001: 1.6449338264368782,
        1.5: 0.9348022005446793,
        2.0000001: 0.6449340264368484,
        8.1: 0.13139024657674372,
        100.5: 0.009999916669583104,
    },
}


class _Function(torch.nn.Module):
    def __init__(self, name: str) -> None:
        super().__init__()
        self._name = name

    def forward(self, x: Tensor) -> Tensor:
        return FUNCTIONS[self._name](x)


@pytest.mark.parametrize("name", EXPECTED)
def test_all_digits_are_right(name: str) -> None:
    places = torch.tensor(list(EXPECTED[name]), dtype=torch.float64)
    expected = torch.tensor(list(EXPECTED[name].values()), dtype=torch.float64)
    program = anyshape.compile(_Function(name), (torch.zeros(2, dtype=torch.float64),))
    torch.testing.assert_close(program(places), expected, rtol=2e-15, atol=0.0)


@pytest.mark.parametrize(("name", "reference"), [("digamma", _digamma), ("trigamma", _trigamma)])
def test_references_are_right(name: str, reference: Callable[[float], float]) -> None:
    found = torch.tensor([reference(x) for x in EXPECTED[name]], dtype=torch.float64)
    expected = torch.tensor(list(EXPECTED[name].values()), dtype=torch.float64)
    torch.testing.assert_close(found, expected, rtol=1e-13, atol=0.0)
