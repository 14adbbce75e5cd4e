"""Every family of lowerings against eager PyTorch, at sizes that the example did not have."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from anyshape.frontends.torch import import_module

Expressions = Mapping[str, Callable[..., Any]]
SIZES = ((0, 3), (1, 1), (2, 7), (7, 2), (33, 5), (3, 0))


class Family(nn.Module):
    """Returns the value of each expression, by name."""

    def __init__(self, expressions: Expressions) -> None:
        super().__init__()
        self.expressions = expressions

    def forward(self, *inputs: Tensor) -> dict[str, Any]:
        return {name: expression(*inputs) for name, expression in self.expressions.items()}


def floats(b: int, s: int) -> tuple[Tensor, Tensor]:
    return torch.randn(b, s), torch.randn(b, s)


ELEMENTWISE: Expressions = {
    "add": lambda x, y: x + y,
    "add_alpha": lambda x, y: torch.add(x, y, alpha=0.5),
    "add_number": lambda x, y: x + 2,
    "radd_number": lambda x, y: 1.5 - x,
    "sub": lambda x, y: x - y,
    "mul": lambda x, y: x * y * 3,
    "div": lambda x, y: x / (y.abs() + 1),
    "div_floor": lambda x, y: torch.div(x, y.abs() + 1, rounding_mode="floor"),
    "div_trunc": lambda x, y: torch.div(x, y.abs() + 1, rounding_mode="trunc"),
    "remainder": lambda x, y: torch.remainder(x, y.abs() + 1),
    "fmod": lambda x, y: torch.fmod(x, y.abs() + 1),
    "broadcast_row": lambda x, y: x + y.sum(1, keepdim=True),
    "broadcast_up": lambda x, y: x[:, None, :] * y[None, :, :],
    "pow_2": lambda x, y: x**2,
    "pow_3": lambda x, y: x**3,
    "pow_half": lambda x, y: x.abs() ** 0.5,
    "pow_minus_half": lambda x, y: (x.abs() + 1) ** -0.5,
    "pow_tensor": lambda x, y: (x.abs() + 0.5) ** y,
    "pow_scalar": lambda x, y: 2.0**x,
    "reciprocal": lambda x, y: torch.reciprocal(x.abs() + 1),
    "exp": lambda x, y: torch.exp(x) + torch.expm1(y),
    "log": lambda x, y: torch.log(x.abs() + 1) + torch.log1p(y.abs()),
    "trig": lambda x, y: torch.sin(x) + torch.cos(y) + torch.tanh(x) + torch.erf(y),
    "roots": lambda x, y: torch.sqrt(x.abs()) + torch.rsqrt(y.abs() + 1),
    "sigmoid": lambda x, y: torch.sigmoid(x),
    "gelu": lambda x, y: F.gelu(x),
    "gelu_tanh": lambda x, y: F.gelu(x, approximate="tanh"),
    "silu": lambda x, y: F.silu(x),
    "relu": lambda x, y: F.relu(x),
    "leaky_relu": lambda x, y: F.leaky_relu(x, 0.2),
    "hardtanh": lambda x, y: F.hardtanh(x),
    "relu6": lambda x, y: F.relu6(x),
    "hardswish": lambda x, y: F.hardswish(x),
    "clamp": lambda x, y: x.clamp(-0.5, 0.5) + y.clamp(min=0) + x.clamp(max=0),
    "clamp_tensor": lambda x, y: torch.clamp(x, min=y),
    "rounding": lambda x, y: torch.floor(x) + torch.ceil(y) + torch.round(x * 3) + torch.trunc(y * 3),
    "signs": lambda x, y: torch.abs(x) + torch.neg(y) + torch.sign(x),
    "extrema": lambda x, y: torch.maximum(x, y) - torch.minimum(x, y),
    "where": lambda x, y: torch.where(x > y, x, y),
    "where_number": lambda x, y: torch.where(x > 0, 1.0, y),
    "masked_fill": lambda x, y: x.masked_fill(y > 0, float("-inf")),
    "compare": lambda x, y: (x < y) | (x == y) & ~(x != 0.5) ^ (x >= y),
    "compare_numbers": lambda x, y: (x <= 0.5) | (y > 1),
    "logical": lambda x, y: torch.logical_and(x > 0, y) | torch.logical_not(x) | torch.logical_xor(x > 0, y > 0),
    "tests": lambda x, y: torch.isnan(x / 0.0) | torch.isinf(y) | torch.isfinite(x),
    "casts": lambda x, y: x.to(torch.float64) + y.double(),
    "to_int": lambda x, y: (x * 10).to(torch.int32),
    "to_half": lambda x, y: x.half() + y.half(),
    "to_bfloat16": lambda x, y: x.bfloat16() * y.bfloat16(),
    "copies": lambda x, y: x.clone().contiguous().detach() + F.dropout(y, 0.5, training=False),
    "dtypes_mixed": lambda x, y: x + y.to(torch.int64) * 2,
    "int_true_division": lambda x, y: x.to(torch.int64) / 3,
}

MOVEMENT: Expressions = {
    "view": lambda x, y: x.view(x.shape[0], 1, x.shape[1]),
    "flatten": lambda x, y: x.flatten(),
    "reshape": lambda x, y: torch.stack([x, y], 1).reshape(2 * x.shape[0], x.shape[1]),
    "transpose": lambda x, y: x.t() + y.transpose(0, 1),
    "permute": lambda x, y: torch.stack([x, y, x]).permute(2, 0, 1),
    "expand": lambda x, y: x[:, None].expand(-1, 3, -1),
    "expand_as": lambda x, y: torch.ones(1, 1).expand_as(x),
    "squeeze": lambda x, y: x[None].squeeze(0) + y[:, None].squeeze(1),
    "unsqueeze": lambda x, y: x.unsqueeze(-1),
    "cat": lambda x, y: torch.cat([x, y, x], 1),
    "cat_dtypes": lambda x, y: torch.cat([x, y.double()]),
    "stack": lambda x, y: torch.stack([x, y], -1),
    "repeat": lambda x, y: x.repeat(2, 1, 3),
    "pad": lambda x, y: F.pad(x, (1, 2, 0, 1), value=0.5),
    "pad_cut": lambda x, y: F.pad(torch.cat([x, y], 1), (0, 1)),
    "flip": lambda x, y: x.flip(0, 1),
    "slice_step": lambda x, y: torch.cat([x, y], 1)[:, ::2],
    "slice_half": lambda x, y: torch.cat([x, y])[: x.shape[0]],
    "slice_end": lambda x, y: torch.cat([x, y])[x.shape[0] :],
    "split": lambda x, y: torch.stack([x, y, x], 2).split(2, 2),
    "chunk": lambda x, y: torch.stack([x, y], 2).chunk(2, 2),
    "unbind": lambda x, y: torch.stack([x, y], 1).unbind(1),
    "select": lambda x, y: torch.stack([x, y])[1] - torch.stack([x, y])[-2],
    "arange": lambda x, y: torch.arange(x.shape[1]) + x.shape[0],
    "arange_step": lambda x, y: torch.arange(1, 10, 3) * 2,
    "arange_float": lambda x, y: torch.arange(0, x.shape[1], dtype=torch.float32),
    "full": lambda x, y: torch.full((x.shape[0], 2), 7) + torch.ones(x.shape[0], 1, dtype=torch.int64),
    "full_of_size": lambda x, y: torch.full((2,), x.shape[1]),
    "like": lambda x, y: torch.zeros_like(x) + torch.ones_like(y) + torch.full_like(x, 2.5),
    "new": lambda x, y: x.new_zeros(3) + x.new_ones(3) + x.new_full((3,), 4.0),
    "tril": lambda x, y: torch.tril(x, 1) + torch.triu(y, -1),
    "numel": lambda x, y: x * x.numel() + y.shape[0] * y.shape[1],
}

REDUCTIONS: Expressions = {
    "sum": lambda x, y: x.sum(),
    "sum_dim": lambda x, y: x.sum(1) + y.sum(-1),
    "sum_keep": lambda x, y: x.sum(0, keepdim=True),
    "sum_bool": lambda x, y: (x > 0).sum(1),
    "prod": lambda x, y: x.prod(1),
    "mean": lambda x, y: x.mean(-1, keepdim=True) + y.mean(1, keepdim=True),
    "var": lambda x, y: x.var(1, correction=0) + torch.cat([x, y, x], 1).var(1),
    "std": lambda x, y: torch.cat([x, y, x], 1).std(1, keepdim=True),
    "any": lambda x, y: (x > 1).any(1),
    "all": lambda x, y: (x > -2).all() & (y > -3).all(0),
    "norm": lambda x, y: torch.linalg.vector_norm(x, dim=1) + F.normalize(y, dim=1).sum(1),
    "softmax": lambda x, y: torch.softmax(x, -1) + torch.softmax(y, 0),
    "log_softmax": lambda x, y: torch.log_softmax(x, 1),
    "softmax_dtype": lambda x, y: torch.softmax(x, 1, dtype=torch.float64),
}

EXTREMA: Expressions = {
    "amax": lambda x, y: x.amax(1) + y.amin(1),
    "max": lambda x, y: x.max() - y.min(),
    "max_dim": lambda x, y: tuple(x.max(1)),
    "min_dim": lambda x, y: tuple(y.min(0, keepdim=True)),
    "argmax": lambda x, y: x.argmax(1) + y.argmin(1),
    "argmax_all": lambda x, y: x.argmax(),
    "logsumexp": lambda x, y: torch.logsumexp(x, 1),
}


def _heads(z: Tensor, **keywords: Any) -> Tensor:
    return F.scaled_dot_product_attention(z[:, None], z[:, None], z[:, None], **keywords)


WEIGHT, BIAS, ROWS = torch.randn(6, 4), torch.randn(6), torch.randn(4)

PRODUCTS: Expressions = {
    "linear": lambda x, y, z: F.linear(z, WEIGHT, BIAS) + F.linear(z, WEIGHT),
    "layer_norm": lambda x, y, z: (
        F.layer_norm(z, (4,)) + F.layer_norm(z, (4,), ROWS) + F.layer_norm(z, (4,), ROWS, ROWS, 1e-3)
    ),
    "rms_norm": lambda x, y, z: F.rms_norm(z, (4,), ROWS) + F.rms_norm(z, (4,), eps=1e-3),
    "mm": lambda x, y, z: x @ y.t(),
    "addmm": lambda x, y, z: torch.addmm(x.sum(1, keepdim=True), x, y.t(), beta=0.5, alpha=2),
    "bmm": lambda x, y, z: torch.bmm(z, z.transpose(1, 2)),
    "baddbmm": lambda x, y, z: torch.baddbmm(z.sum((1, 2), keepdim=True), z, z.transpose(1, 2), beta=2),
    "mv": lambda x, y, z: z @ ROWS,
    "vm": lambda x, y, z: ROWS @ z.transpose(1, 2),
    "matmul_broadcast": lambda x, y, z: x[:, None, None, :] @ z,
    "einsum": lambda x, y, z: torch.einsum("bsd,bs->bd", z, x),
    "attention": lambda x, y, z: F.scaled_dot_product_attention(z, z, z),
    "attention_causal": lambda x, y, z: _heads(z, is_causal=True, scale=0.3),
    "attention_mask": lambda x, y, z: _heads(z, attn_mask=(x > -1)[:, None, None, :]),
    "attention_bias": lambda x, y, z: F.scaled_dot_product_attention(z, z, z, attn_mask=y[:, None, :] * x[:, :, None]),
    "attention_2d": lambda x, y, z: F.scaled_dot_product_attention(x, y, x, scale=0.2),
    "attention_grouped": lambda x, y, z: F.scaled_dot_product_attention(
        torch.stack([z, z + 1, z - 1, z * 2], 1),
        torch.stack([z, z + 2], 1),
        torch.stack([z, z * 3], 1),
        enable_gqa=True,
    ),
}

TABLE = torch.randn(11, 3)

INDEXING: Expressions = {
    "embedding": lambda x, i: F.embedding(i, TABLE),
    "embedding_padding": lambda x, i: F.embedding(i, TABLE, padding_idx=0),
    "index_select": lambda x, i: torch.index_select(TABLE, 0, i.flatten()),
    "index": lambda x, i: TABLE[i],
    "index_negative": lambda x, i: TABLE[i - 11],
    "index_two": lambda x, i: TABLE[i, i % 3],
    "index_second": lambda x, i: TABLE.t()[:, i],
    "index_apart": lambda x, i: torch.stack([TABLE, TABLE], 1)[i, :, i % 3],
    "index_counted": lambda x, i: x[torch.arange(x.shape[0])[:, None], torch.arange(x.shape[1])[None, :]],
    "index_counted_transposed": lambda x, i: x[torch.arange(x.shape[0])[None, :], torch.arange(x.shape[1])[:, None]],
    "gather": lambda x, i: torch.gather(TABLE.t().sum(0)[None].expand(x.shape[0], 11), 1, i),
    "gather_axis_0": lambda x, i: torch.gather(TABLE[:, :2], 0, torch.stack([i.flatten(), i.flatten()], 1)),
}

INTEGERS: Expressions = {
    "arithmetic": lambda i, j: i + j * 2 - 3,
    "alpha": lambda i, j: torch.sub(i, j, alpha=3),
    "floor": lambda i, j: i // (j.abs() + 1),
    "floor_number": lambda i, j: torch.div(i, 3, rounding_mode="floor"),
    "remainder": lambda i, j: i % (j.abs() + 1),
    "remainder_number": lambda i, j: i % 3,
    "bits": lambda i, j: (i & j) | (i ^ 5) | ~j,
    "shifts": lambda i, j: (i << 2) + (j >> 1),
    "mean": lambda i, j: i.float().mean(1) + (i.sum(1) / 2),
    "compare_float": lambda i, j: i < 1.5,
    "compare_dtypes": lambda i, j: i.int() == j,
    "sqrt": lambda i, j: torch.sqrt(i.abs()) + torch.exp(-j.abs()),
    "minmax": lambda i, j: torch.maximum(i, j) + i.clamp(-1, 1),
    "bool": lambda i, j: i.bool() & j.bool(),
    "cumulative_mask": lambda i, j: (i > 0).long() * j,
    "prod": lambda i, j: (i % 3).prod(1),
}

CHANNELS = nn.BatchNorm1d(6).eval()
with torch.no_grad():
    CHANNELS.running_mean.normal_()  # pyright: ignore[reportOptionalMemberAccess]
    CHANNELS.weight.normal_()

LAYERS: Expressions = {
    "elu": lambda x, y, z: F.elu(x, 0.7) + F.selu(y) + F.celu(x),
    "softplus": lambda x, y, z: F.softplus(x) + F.mish(y),
    "exp2": lambda x, y, z: torch.exp2(x),
    "batch_norm": lambda x, y, z: CHANNELS(z.transpose(1, 2)),
    "group_norm": lambda x, y, z: F.group_norm(z.transpose(1, 2), 3, torch.arange(6.0), torch.ones(6)),
    "attention_layer": lambda x, y, z: SELF_ATTENTION(z, z, z, need_weights=False)[0],
    "patches": lambda x, y, z: F.conv1d(z.flatten(0, 1)[:, :, None].expand(-1, 6, 5), PATCHES, BIAS, stride=2),
    "root_of_size": lambda x, y, z: x / (z.shape[-1] ** 0.5) + y * (x.shape[0] / 2),
    "size_compared": lambda x, y, z: torch.arange(6) < x.shape[0],
    "one_hot": lambda x, y, z: F.one_hot((x > 0).long(), 3),
    "roll": lambda x, y, z: x[:, None].expand(-1, 4, -1).roll(1, 1),
    "cosine": lambda x, y, z: F.cosine_similarity(x, y, dim=1),
    "var_mean": lambda x, y, z: tuple(torch.var_mean(z, -1)),
}

SELF_ATTENTION = nn.MultiheadAttention(6, 2, batch_first=True).eval()
PATCHES = torch.randn(6, 6, 2)


def _integers(b: int, s: int) -> tuple[Tensor, Tensor]:
    return torch.randint(-9, 9, (b, s)), torch.randint(-9, 9, (b, s))


def _with_width(b: int, s: int) -> tuple[Tensor, Tensor, Tensor]:
    return (*floats(b, s), torch.randn(b, s, 4))


def _with_indices(b: int, s: int) -> tuple[Tensor, Tensor]:
    return torch.randn(b, s), torch.randint(0, 11, (b, s))


FAMILIES: Mapping[str, tuple[Expressions, Callable[[int, int], tuple[Tensor, ...]]]] = {
    "elementwise": (ELEMENTWISE, floats),
    "movement": (MOVEMENT, floats),
    "reductions": (REDUCTIONS, floats),
    "extrema": (EXTREMA, floats),
    "products": (PRODUCTS, _with_width),
    "indexing": (INDEXING, _with_indices),
    "layers": (LAYERS, lambda b, s: (*floats(b, s), torch.randn(b, s, 6))),
    "integers": (INTEGERS, _integers),
}


@pytest.mark.parametrize("family", FAMILIES)
def test_interpreter_equals_eager(family: str, compare: Callable[..., None]) -> None:
    torch.manual_seed(0)
    expressions, make = FAMILIES[family]
    module = Family(expressions)
    program = import_module(module, make(3, 5))
    program.module.verify()
    for b, s in SIZES:
        if family == "extrema" and 0 in (b, s):
            continue  # an extremum of nothing is an error in PyTorch
        compare(program, module, *make(b, s))
