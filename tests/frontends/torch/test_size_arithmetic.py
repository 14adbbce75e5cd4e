"""Python's arithmetic on sizes in a model: the value at every size, or an error that says which line asks."""

# PyTorch is typed in part only.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false, reportUnknownLambdaType=false

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from typing import Any

import pytest
import torch
from torch import Tensor

from anyshape.support.errors import AnyshapeError, ExportError, GuardError, UnsupportedOps
from anyshape.symbolic.errors import SizeOverflowError
from tests.end_to_end.eager import assert_same, check, compiled

Function = Callable[[int, int], Any]
SIZES = (
    (6, 7), (0, 0), (0, 7), (7, 0), (1, 1), (1, 7), (7, 1), (2, 2), (3, 4), (4, 3), (5, 5), (7, 2), (9, 10), (10, 9), (33, 100), (4097, 64),
)  # fmt: skip
"""The example first."""

EXACT: Mapping[str, Function] = {
    "polynomials": lambda n, k: n * k - 3 * n + (k - 5) ** 2 - n**3,
    "quotients of negatives": lambda n, k: -n // 4 + 10 * (-n % 4) + 100 * (n // -3) + 1000 * (n % -3),
    "negative dividends": lambda n, k: (n - 10) // 4 + 10 * ((n - k) % 4),
    "nested quotients": lambda n, k: (n + k) // 2 // 3 % 5,
    "divmod": lambda n, k: divmod(n - 7, 4),
    "ceil": lambda n, k: math.ceil(n / 4) + 100 * math.ceil((n - 10) / 4),
    "floor": lambda n, k: math.floor(n / 4) + 100 * math.floor((n - 10) / 4),
    "trunc": lambda n, k: math.trunc(n / 4) + 100 * math.trunc((n - 10) / 4),
    "round": lambda n, k: round(n / 2) + 100 * round((n - 10) / 4) + round(n),
    "ceil of a quotient of sizes": lambda n, k: math.ceil(n / (k + 1)) + 100 * math.floor((n - 7) / (k + 1)),
    "rounded products": lambda n, k: (math.floor(n * 0.5), math.ceil(n * 1.7), math.trunc((n - 10) * -0.5), round(n * 0.25)),
    "products rounded twice": lambda n, k: math.ceil(n * 0.1 * 10) + 100 * math.floor(n * 0.7 * 3.0),
    "floors of sums": lambda n, k: math.floor(n * 0.5 + 1.5) + 100 * math.ceil(n / 4 * 3),
    "floor of a root": lambda n, k: math.floor(n**0.5) + 100 * math.ceil((n * n) ** 0.5),
    "max": lambda n, k: (max(n, k), max(n, 1), max(1, n), max(n, 2), max(n - 1, 0), max(n, 0)),
    "min": lambda n, k: (min(n, k), min(n, 1), min(n, 5), min(n + k, 9)),
    "sym_max": lambda n, k: (torch.sym_max(n, 1), torch.sym_max(n + k, k), torch.sym_min(1, n), torch.sym_min(n, k)),
    "abs": lambda n, k: (abs(n), abs(n - 1), abs(n - 5), abs(n - k)),
    "sum and prod": lambda n, k: (sum((n, k, 3)) + math.prod((n, k)), torch.sym_sum((n, k, 3))),
    "shifts and masks": lambda n, k: ((n << 2) + (n >> 1), n & 3, (n + 7) & ~7, (n - 10) & 7, ~n),
    "floats": lambda n, k: (n * 0.1 + 1, n / 7, (n - 3) / (k + 1)),
}  # fmt: skip


def _model(function: Function) -> Callable[[Tensor, Tensor], Any]:
    """The numbers, each as a value in a kernel too, and as a size where none is negative."""

    def f(x: Tensor, y: Tensor) -> Any:
        found = function(x.shape[0], y.shape[0])
        numbers = found if isinstance(found, tuple) else (found,)
        return found, [torch.ones(1, dtype=torch.float64) * number for number in numbers]

    return f


@pytest.mark.parametrize("name", EXACT)
def test_values(name: str) -> None:
    f = _model(EXACT[name])
    program = compiled(f, *map(torch.zeros, SIZES[0]))
    for sizes in SIZES:
        check(program, f, *map(torch.zeros, sizes))


SHAPES: tuple[Function, ...] = (
    lambda n, k: max(n, 1),
    lambda n, k: max(n - 1, 0),
    lambda n, k: abs(n - 1),
    lambda n, k: abs(n - k),
    lambda n, k: math.ceil(n / 4),
    lambda n, k: round(n / 2),
    lambda n, k: math.trunc(max(n - 10, 0) / 4),
    lambda n, k: (n + 7) & ~7,
)


@pytest.mark.parametrize("shape", range(len(SHAPES)))
def test_shapes(shape: int) -> None:
    def f(x: Tensor, y: Tensor) -> Tensor:
        return x.new_ones(SHAPES[shape](x.shape[0], y.shape[0])).cumsum(0)

    program = compiled(f, *map(torch.zeros, SIZES[0]))
    for sizes in SIZES:
        check(program, f, *map(torch.zeros, sizes))


GUARDED: Mapping[str, Function] = {
    "int of a quotient": lambda n, k: int(n / 4),
    "int of a negative quotient": lambda n, k: int((n - 10) / 4),
    "int of a product": lambda n, k: int((n - 10) * 0.5),
    "a comparison of a quotient": lambda n, k: 1 if n / (k + 1) > 0.5 else 0,
    "a comparison of a product": lambda n, k: 1 if n * 0.5 >= 3 else 0,
    "a comparison of quotients": lambda n, k: 1 if n / 2 == n // 2 else 0,
    "a bool": lambda n, k: n if bool(n) else 7,
    "and": lambda n, k: n and k,
    "or": lambda n, k: n or k,
    "not": lambda n, k: 1 if not n else 2,
    "a chain": lambda n, k: 1 if 2 < n < 10 else 0,
    "a chain of sizes": lambda n, k: 1 if n < k < 10 else 0,
    "int of a comparison": lambda n, k: int(n == 5),
    "a sum of comparisons": lambda n, k: (n > 5) + (k > 5),
    "three arguments": lambda n, k: max(n, k, 3),
    "a minimum below zero": lambda n, k: min(n - 1, 0),
    "a loop": lambda n, k: sum(i for i in range(n)),
    "a loop with a step": lambda n, k: len([0 for _ in range(0, n, 2)]),
    "an index": lambda n, k: (1, 2, 3, 4)[n % 4],
    "a member": lambda n, k: 1 if n in (4, 6) else 0,
    "gcd": lambda n, k: math.gcd(n, k),
    "sqrt": lambda n, k: math.sqrt(n),
    "isqrt": lambda n, k: math.isqrt(n),
}
"""What needs the number itself: it holds where the answer is the example's."""


@pytest.mark.parametrize("name", GUARDED)
def test_values_or_guards(name: str) -> None:
    f = _model(GUARDED[name])
    program = compiled(f, *map(torch.zeros, SIZES[0]))
    refused = 0
    for sizes in SIZES:
        arguments = tuple(map(torch.zeros, sizes))
        try:
            got = program(*arguments)
        except GuardError as error:
            refused += 1
            assert sizes != SIZES[0] and f"{__file__}:" in str(error)
            continue
        assert_same(got, f(*arguments), message=sizes)
    assert 0 < refused < len(SIZES)


REFUSED: Mapping[str, tuple[Function, type[AnyshapeError], str]] = {
    "int of a root": (lambda n, k: int(n**0.5), ExportError, r"`\*\*` with a fraction"),
    "int of a sum of fractions": (lambda n, k: int(n * 0.5 + 1.5), ExportError, "a fraction"),
    "a size as an exponent": (lambda n, k: 2**n, UnsupportedOps, "exponent is the size"),
    "an or of bits": (lambda n, k: n | 1, UnsupportedOps, r"computed by `\|`"),
    "decimals": (lambda n, k: round(n / 3, 1), UnsupportedOps, "`round`"),
    "a choice": (lambda n, k: torch.sym_ite(n > 5, n, k), UnsupportedOps, "sym_ite"),
    "rounding decides": (lambda n, k: 1 if n * 0.1 > k / 7 else 0, ExportError, "a fraction"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refusals(name: str) -> None:
    function, kind, reason = REFUSED[name]
    with pytest.raises(kind, match=reason) as error:
        compiled(_model(function), *map(torch.zeros, SIZES[0]))
    assert ".py:" in str(error.value) and "that the data say" not in str(error.value)


@pytest.mark.parametrize("divide", (operator.floordiv, operator.mod))
def test_a_quotient_of_more_than_64_bits_is_an_error(divide: Callable[[int, int], int]) -> None:
    """-2⁶³ by -1 must not end the process."""

    def f(x: Tensor, y: Tensor) -> tuple[int, Tensor]:
        found = divide(x.shape[0] * 2**60, y.shape[0] - 4)
        return found, x.new_ones(2) * found

    program = compiled(f, torch.zeros(3), torch.zeros(5))
    with pytest.raises(SizeOverflowError):
        program(torch.zeros(8), torch.zeros(3))
