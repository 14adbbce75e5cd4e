"""F14: attention with rows of the mask all False, softmax over rows of −inf."""

from __future__ import annotations

import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention

from tests.end_to_end.eager import check, compiled


def attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    return scaled_dot_product_attention(q, k, v, attn_mask=mask)


def arguments(batch: int, heads: int, queries: int, keys: int) -> list[torch.Tensor]:
    torch.manual_seed(queries * 40 + keys)
    mask = torch.rand(batch, 1, queries, keys) < 0.5
    mask[:, :, queries // 2] = False
    sizes = [(batch, heads, queries, 8), (batch, heads, keys, 8), (batch, heads, keys, 8)]
    return [*(torch.randn(size) for size in sizes), mask]


def test_a_row_without_a_key_is_zero() -> None:
    program = compiled(attention, *arguments(2, 3, 4, 5))
    for queries in (1, 2, 7, 33):
        for keys in (1, 2, 7, 33):
            call = arguments(2, 3, queries, keys)
            check(program, attention, *call)
            assert not program(*call)[:, :, queries // 2].any()
    q, k, v, mask = arguments(1, 2, 7, 9)
    check(program, attention, q, k, v, torch.zeros_like(mask))


def test_a_float_mask_of_minus_infinity() -> None:
    """PyTorch gives zeros here as well, or NaN: whatever eager says."""

    def f(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        return scaled_dot_product_attention(q, k, v, attn_mask=mask)

    def call(queries: int, keys: int) -> list[torch.Tensor]:
        *tensors, mask = arguments(2, 3, queries, keys)
        return [*tensors, torch.zeros(mask.shape).masked_fill(~mask, -float("inf"))]

    program = compiled(f, *call(4, 5))
    for queries, keys in ((1, 1), (2, 7), (7, 33)):
        check(program, f, *call(queries, keys))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
def test_softmax_of_a_row_of_minus_infinity(dtype: torch.dtype) -> None:
    def f(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return x.softmax(-1), x.log_softmax(-1)

    program = compiled(f, torch.randn(2, 3, dtype=dtype))
    for width in (1, 2, 7, 33):
        x = torch.randn(4, width, dtype=dtype)
        x[1] = -float("inf")
        x[2, 0] = -float("inf")
        x[3, -1] = float("inf")
        check(program, f, x)
        assert program(x)[0][1].isnan().all()


def test_masks_by_hand() -> None:
    """`masked_fill` with −inf or a large number before softmax: NaN, or equal weights."""

    def f(scores: torch.Tensor, mask: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        low = torch.finfo(scores.dtype).min
        return scores.masked_fill(~mask, -float("inf")).softmax(-1), (scores + (~mask) * low).softmax(-1)

    program = compiled(f, torch.randn(3, 4), torch.ones(3, 4, dtype=torch.bool))
    for width in (1, 2, 7, 33):
        mask = torch.rand(3, width) < 0.5
        mask[0] = False
        check(program, f, torch.randn(3, width), mask)
