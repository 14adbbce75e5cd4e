"""Attention of 16-bit elements through the whole compiler: one kernel, computed in f32 and rounded once."""

from __future__ import annotations

import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention

from anyshape.dialects.dtypes import BF16, F16
from tests.end_to_end.eager import compiled
from tests.tolerances import REFERENCE

DTYPES = {torch.bfloat16: BF16, torch.float16: F16}
F32_ERROR = 1e-5
"""What sums in f32 may lose beside the rounding of the result."""
SIZES = ((1, 1, 1), (2, 7, 7), (1, 33, 90), (3, 130, 65), (1, 1, 333), (2, 2, 40), (1, 0, 5))
"""(batch, queries, keys)."""


def attend(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, **options: object) -> torch.Tensor:
    """q, k, v [batch, length, heads, depth], as projections leave them; so is the result.

    Depths are open here, and a scale that depends on one would be a kernel of its own, which rounds.
    """
    q, k, v = (x.transpose(1, 2) for x in (q, k, v))
    return scaled_dot_product_attention(q, k, v, scale=0.2, enable_gqa=True, **options).transpose(1, 2)  # pyright: ignore[reportArgumentType]


def plain(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    return attend(q, k, v)


def causal(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    return attend(q, k, v, is_causal=True)


def masked(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    return attend(q, k, v, attn_mask=mask[:, None, None, :])


def arguments(dtype: torch.dtype, sizes: tuple[int, int, int], key_heads: int, mask: str | None) -> list[torch.Tensor]:
    batch, queries, keys = sizes
    generator = torch.Generator().manual_seed(queries * 400 + keys)

    def randn(*shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=generator).to(dtype)

    tensors = [randn(batch, queries, 4, 24), randn(batch, keys, key_heads, 24), randn(batch, keys, key_heads, 40)]
    if mask is None:
        return tensors
    keep = torch.rand(batch, keys, generator=generator) < 0.7
    # Beside f16's lowest number f32 resolves no scores: with a float mask a row keeps some key.
    keep[0] = mask == "float"
    return [*tensors, keep if mask == "bool" else torch.where(keep, randn(batch, keys), torch.finfo(dtype).min)]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize(
    ("function", "key_heads", "mask"), [(plain, 4, None), (causal, 2, None), (masked, 4, "bool"), (masked, 2, "float")]
)
def test_one_kernel_within_one_rounding(dtype: torch.dtype, function: object, key_heads: int, mask: str | None) -> None:
    program = compiled(function, *arguments(dtype, (2, 5, 6), key_heads, mask))  # pyright: ignore[reportArgumentType]
    assert dict(program.report().kernel_launches) == {"k0_attend": 1}
    for sizes in SIZES:
        call = arguments(dtype, sizes, key_heads, mask)
        exact = function(*(x if x.dtype == torch.bool else x.double() for x in call))  # pyright: ignore
        got = program(*call)
        assert got.dtype == dtype
        limit = REFERENCE[DTYPES[dtype]]
        torch.testing.assert_close(got.double(), exact, rtol=limit.relative, atol=F32_ERROR)
