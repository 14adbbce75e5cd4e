"""ATen ops that write at indices held in tensors, compiled, against eager PyTorch at sizes that the example did not have."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import anyshape
from anyshape.support.errors import IndexOutOfRange

Expressions = Mapping[str, Callable[..., Tensor]]
put: Any = torch.ops.aten.index_put
ROWS = 5
"""Rows that indices are of."""


class Family(nn.Module):
    """The value of each expression, by name."""

    def __init__(self, expressions: Expressions) -> None:
        super().__init__()
        self.expressions = expressions

    def forward(self, *inputs: Tensor) -> dict[str, Any]:
        return {name: expression(*inputs) for name, expression in self.expressions.items()}


def inputs_of(m: int, n: int, seed: int = 0) -> tuple[Tensor, ...]:
    """x [ROWS, n], updates y [m, n], one index a row, one index an element, and what whole numbers there are of x and y."""
    torch.manual_seed(seed)
    x, y = torch.randn(ROWS, n), torch.randn(m, n)
    return x, y, torch.randint(0, ROWS, (m,)), torch.randint(0, ROWS, (m, n)), (4 * x).int(), (4 * y).int()


ADDED: Expressions = {
    "index_add": lambda x, y, i, e, a, b: x.index_add(0, i, y),
    "index_add_alpha": lambda x, y, i, e, a, b: x.index_add(0, i, y, alpha=0.5),
    "index_add_columns": lambda x, y, i, e, a, b: x.t().contiguous().index_add(1, i, y.t()),
    "index_add_i32": lambda x, y, i, e, a, b: a.index_add(0, i.int(), b),
    "index_add_bf16": lambda x, y, i, e, a, b: x.bfloat16().index_add(0, i, y.bfloat16()),
    "scatter_add": lambda x, y, i, e, a, b: x.scatter_add(0, e, y),
    "scatter_add_rows": lambda x, y, i, e, a, b: x.scatter_add(0, i[:, None].expand(-1, y.shape[1]), y),
    "scatter_add_last": lambda x, y, i, e, a, b: y.t().contiguous().scatter_add(1, e.t() % y.shape[0], y.t()),
    "scatter_multiply": lambda x, y, i, e, a, b: x.scatter(0, e, y, reduce="multiply"),
    "put_rows": lambda x, y, i, e, a, b: x.index_put((i,), y, accumulate=True),
    "put_rows_f64": lambda x, y, i, e, a, b: x.double().index_put((i,), y.double(), accumulate=True),
    "put_pairs": lambda x, y, i, e, a, b: put(torch.zeros(3, ROWS, ROWS), [None, i, i - ROWS], y[:, 0], True),
    "put_apart": lambda x, y, i, e, a, b: put(torch.zeros(ROWS, y.shape[1], ROWS), [i, None, i], y, True),
    "put_broadcast": lambda x, y, i, e, a, b: torch.zeros(ROWS, ROWS).index_put(
        (i[:, None], i), y[:, :1], accumulate=True
    ),
    "take": lambda x, y, i, e, a, b: torch.take(x, i - ROWS),
    "put_flat": lambda x, y, i, e, a, b: x.put(e % x.shape[1], y, accumulate=True),
    "masked_rows": lambda x, y, i, e, a, b: y.index_put((i > 1,), torch.tensor(2.0), accumulate=True),
}
REDUCED: Expressions = {
    f"{how}_{'with' if include else 'without'}_self": lambda x, y, i, e, a, b, how=how, include=include: torch.cat(
        [
            x.scatter_reduce(0, e, y, how, include_self=include),
            a.scatter_reduce(0, e, b, how, include_self=include),
            x if how == "sum" else x.index_reduce(0, i, y, how, include_self=include),
        ]
    )
    for how in ("sum", "prod", "mean", "amax", "amin")
    for include in (True, False)
}
UNIQUE: Expressions = {
    "scatter_value": lambda x, y, p, m: x.scatter(0, p[:, None].expand(-1, x.shape[1]), 2.5),
    "scatter_source": lambda x, y, p, m: x.scatter(0, p[:, None].expand(-1, x.shape[1]), y),
    "scatter_bool": lambda x, y, p, m: (x > 0).scatter(0, p[:, None].expand(-1, x.shape[1]), y > 0),
    "index_copy": lambda x, y, p, m: x.index_copy(0, p, y),
    "index_fill": lambda x, y, p, m: x.index_fill(0, p[:2] - x.shape[0], 1.5),
    "assigned": lambda x, y, p, m: x.index_put((p,), y),
    "assigned_pairs": lambda x, y, p, m: x.index_put((p, p * 0 + x.shape[1] - 1), y[:, 0]),
    "assigned_half": lambda x, y, p, m: x.half().index_put((p,), y.half()),
    "strided": lambda x, y, p, m: torch.slice_scatter(x, y[: x.shape[0] // 2], 0, 1, None, 2),
    "masked": lambda x, y, p, m: x.index_put((m,), torch.tensor(-1.0)),
    "masked_rows": lambda x, y, p, m: x.index_put((m[:, 0],), torch.tensor(-1.0)),
    "masked_columns": lambda x, y, p, m: put(x, [None, m[0]], torch.tensor(-1.0)),
}


def check(expressions: Expressions, example: tuple[Tensor, ...], calls: list[tuple[Tensor, ...]]) -> None:
    module = Family(expressions)
    program = anyshape.compile(module, example)
    for inputs in calls:
        got, expected = program(*inputs), module(*inputs)
        for name in expressions:
            tolerance = 2e-2 if expected[name].dtype in (torch.bfloat16, torch.float16) else 1e-5
            torch.testing.assert_close(
                got[name], expected[name], rtol=tolerance, atol=tolerance, equal_nan=True,
                msg=lambda text, name=name: f"{name}: {text}",
            )  # fmt: skip


def test_sums() -> None:
    check(ADDED, inputs_of(4, 3), [inputs_of(*sizes, seed=1) for sizes in ((7, 2), (1, 9), (40, 33))])


def test_reductions() -> None:
    check(REDUCED, inputs_of(4, 3), [inputs_of(*sizes, seed=1) for sizes in ((7, 2), (1, 1), (0, 3), (40, 33))])


def test_replacements() -> None:
    def call(m: int, n: int, seed: int = 0) -> tuple[Tensor, ...]:
        torch.manual_seed(seed)
        return torch.randn(m, n), torch.randn(m, n), torch.randperm(m), torch.rand(m, n) > 0.5

    check(UNIQUE, call(4, 3), [call(*sizes, seed=1) for sizes in ((7, 2), (2, 9), (40, 33))])


def test_gradient_of_embedding() -> None:
    backward = torch.ops.aten.embedding_dense_backward
    check(
        {
            "plain": lambda g, i: backward(g, i, 6, -1, False),
            "padded": lambda g, i: backward(g, i, 6, 2, False),
            "scaled": lambda g, i: backward(g, i, 6, -1, True),
        },
        (torch.randn(3, 4), torch.randint(0, 6, (3,))),
        [(torch.randn(m, n), torch.randint(0, 6, (m,))) for m, n in ((1, 1), (9, 5))],
    )


@pytest.mark.parametrize("index", [5, -1])
def test_index_out_of_range(index: int) -> None:
    class Add(nn.Module):
        def forward(self, x: Tensor, i: Tensor, y: Tensor) -> Tensor:
            return x.index_add(0, i, y)

    program = anyshape.compile(Add(), (torch.zeros(3, 2), torch.tensor([0, 1]), torch.ones(2, 2)))
    with pytest.raises(IndexOutOfRange, match=rf"index_add.*index {index} is out of range \[0, 5\)"):
        program(torch.zeros(5, 2), torch.tensor([1, index, 0]), torch.ones(3, 2))


def test_same_bytes_for_any_number_of_threads() -> None:
    class Add(nn.Module):
        def forward(self, x: Tensor, i: Tensor, y: Tensor) -> Tensor:
            return x.index_add(0, i, y)

    inputs = (torch.randn(300, 64), torch.randint(0, 300, (4000,)), torch.randn(4000, 64))
    results = [
        anyshape.compile(Add(), inputs, options=anyshape.Options(threads=threads))(*inputs) for threads in (1, 2)
    ]
    assert torch.equal(*results)
    assert torch.equal(results[0], Add()(*inputs))
