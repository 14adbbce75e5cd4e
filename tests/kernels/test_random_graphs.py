"""Random graphs: reference = plans by numpy = machine code, at sizes 0, 1, 2, 3, 7, 8 and 17."""

import pytest

from tests.kernels.graphs import environments, random_function
from tests.kernels.harness import check


@pytest.mark.parametrize("seed", range(60))
def test_plans(seed: int) -> None:
    func, store = random_function(seed)
    check(func, list(environments(seed, 3)), store, compile=False, label=f"seed {seed}")


@pytest.mark.parametrize("seed", range(1000, 1006))
def test_machine_code(seed: int) -> None:
    """Several graphs are one function, since a compilation costs more than a graph."""
    func, store = random_function(seed, graphs=5, steps=7)
    check(func, list(environments(seed, 4)), store, label=f"seed {seed}")
