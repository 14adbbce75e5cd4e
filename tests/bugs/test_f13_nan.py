"""F13: maxima, minima and clamps pass NaN on, wherever it stands, in vectors, tails and reductions."""

from __future__ import annotations

import pytest
import torch

from tests.end_to_end.eager import check, compiled

NAN = float("nan")


def pairs(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return (
        torch.maximum(x, y),
        torch.minimum(x, y),
        torch.relu(x),
        x.clamp(-1, 1),
        x.clamp(min=0.5),
        y.clamp(max=0.5),
        torch.clamp(x, y, y + 1),
    )


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16], ids=str)
def test_elementwise(dtype: torch.dtype) -> None:
    special = torch.tensor([NAN, 1.0, -1.0, float("inf"), -float("inf"), 0.0], dtype=dtype)
    x, y = (t.reshape(-1) for t in torch.meshgrid(special, special, indexing="ij"))
    program = compiled(pairs, x, y)
    for size in (1, 2, 7, 36):
        check(program, pairs, x[:size], y[:size])
    first = program(torch.tensor([NAN, 2.0], dtype=dtype), torch.tensor([1.0, NAN], dtype=dtype))
    assert first[0].isnan().all() and first[1].isnan().all()


def reductions(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return x.amax(-1), x.amin(-1), x.amax(0), x.amin(0), x.amax(), x.max(-1).values, x.min(-1).values, x.sum(-1)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_reductions_with_nan_at_every_place(dtype: torch.dtype) -> None:
    program = compiled(reductions, torch.randn(3, 5, dtype=dtype))
    for width in (1, 2, 7, 33):
        for place in {0, width // 2, width - 1}:
            x = torch.randn(4, width, dtype=dtype)
            x[1, place] = NAN
            check(program, reductions, x)
    assert program(torch.tensor([[NAN, 1], [2, NAN]], dtype=dtype))[0].isnan().all()


def test_argmax_finds_the_first_nan() -> None:
    def f(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return x.argmax(-1), x.argmin(-1)

    program = compiled(f, torch.randn(3, 5))
    for place in (0, 3, 18):
        x = torch.randn(2, 19)
        x[0, place] = NAN
        check(program, f, x)
