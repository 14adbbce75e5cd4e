"""An axis of size 1 that the model squeezes must be of the size of another input's axis: the program refused its own example, since the
other axis had a substitute that the squeezed one could not have. Found by nnsmith."""

import torch

from tests.end_to_end.eager import check, compiled


def test_squeezed_and_joined() -> None:
    def f(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        both = torch.min(x, torch.ones(2, 1, 1, 1))
        return both.squeeze(2), torch.cat([both, y], dim=3)

    program = compiled(f, torch.randn(1, 1, 1, 2), torch.randn(2, 1, 1, 1))
    for columns in (0, 1, 2, 9):
        check(program, f, torch.randn(1, 1, 1, columns), torch.randn(2, 1, 1, 3))
