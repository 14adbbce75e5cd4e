"""`torch.isin` could not be compiled: whether it sorts depends on a power of the number of elements, which sizes do not have."""

from __future__ import annotations

import pytest
import torch

from tests.end_to_end.eager import check, compiled


@pytest.mark.parametrize("dtype", [torch.int64, torch.float32, torch.uint8])
def test_both_sides_are_of_any_size(dtype: torch.dtype) -> None:
    def among(x: torch.Tensor, known: torch.Tensor) -> tuple[torch.Tensor, ...]:
        unknown = torch.isin(x, known, assume_unique=False, invert=True)
        return torch.isin(x, known), unknown, torch.isin(x, test_element=3), torch.isin(3, known)

    def numbers(*sizes: int) -> torch.Tensor:
        return torch.randint(0, 40, sizes).to(dtype)

    program = compiled(among, numbers(3, 4), numbers(5))
    for sizes, known in (((3, 4), 5), ((0, 7), 2), ((2, 1), 0), ((1, 1), 1), ((70, 33), 64)):
        check(program, among, numbers(*sizes), numbers(known))


def test_a_tensor_of_another_type_is_compared_as_pytorch_promotes_it() -> None:
    def among(x: torch.Tensor, known: torch.Tensor) -> torch.Tensor:
        return torch.isin(x, known)

    known = torch.tensor([[0.5, 1.0], [2.0, torch.nan]])
    check(compiled(among, torch.arange(4), known), among, torch.arange(9), known[:1])


def test_types_that_pytorch_refuses_are_refused() -> None:
    with pytest.raises(RuntimeError, match="isin"):
        compiled(lambda x: torch.isin(x, x), torch.ones(3, dtype=torch.bool))
