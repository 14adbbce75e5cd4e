"""`torch.compile(backend=...)`: the same values, sizes and strides as eager, whatever stays with PyTorch."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils import _pytree as pytree

from anyshape.driver.dynamo import backend

# PyTorch is typed in part only.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false
# pyright: reportUnknownLambdaType=false


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    return torch.compile(function, backend=backend, dynamic=True)


def check(got: Callable[..., Any], expected: Callable[..., Any], *args: torch.Tensor) -> None:
    """Equal results, strides of tensors included; written inputs are compared too."""
    ours, eagers = [x.clone() for x in args], [x.clone() for x in args]
    results = zip(pytree.tree_leaves((got(*ours), ours)), pytree.tree_leaves((expected(*eagers), eagers)), strict=True)
    for mine, eager in results:
        if not isinstance(eager, torch.Tensor):
            assert mine == eager
            continue
        assert mine.stride() == eager.stride(), f"{mine.stride()} instead of {eager.stride()} of {tuple(eager.shape)}"
        torch.testing.assert_close(mine, eager, rtol=2e-5, atol=2e-5)


def test_a_model_at_every_size() -> None:
    model = nn.Sequential(nn.Linear(4, 8), nn.LayerNorm(8), nn.Softmax(-1)).eval()
    program = compiled(model)
    for rows in (3, 5, 1, 0, 33):
        check(program, model, torch.randn(rows, 4))


class Composites(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.linear = nn.LayerNorm(16), nn.Linear(16, 16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.linear(self.norm(x))
        return nn.functional.gelu(nn.functional.scaled_dot_product_attention(y, x, x)).softmax(-1)


def test_composites_arrive_whole(tmp_path: Path) -> None:
    model, x = Composites().eval(), torch.randn(2, 3, 5, 16)
    options: dict[str, Any] = {"dump": tmp_path, "strict": True}
    program = torch.compile(model, backend="anyshape", dynamic=True, options=options)
    check(program, model, x)
    ops = Counter(re.findall(r"dhlo\.(\w+)", min(tmp_path.iterdir()).read_text()))
    assert [ops[name] for name in ("layer_norm", "dot_general", "attention", "gelu", "softmax")] == [1] * 5
    assert not ops.keys() & {"exponential", "rsqrt", "reduce", "erf"}


STRIDED: dict[str, Callable[[torch.Tensor], object]] = {
    "permuted": lambda x: x.permute(0, 3, 1, 2) * 2,
    "transposed": lambda x: x.transpose(1, 2) + 1,
    "several": lambda x: (x.transpose(0, 3) + 1, x * 2, x.sum((1, 2)), x.shape[0] * 2),
    "the input": lambda x: (x, x.clone(), x + 0),
    "views of the input": lambda x: (x.unsqueeze(0), x[1:], x.transpose(0, 1)),
    "expanded": lambda x: (x.sum(0, keepdim=True) + 1).expand(3, -1, -1, -1),
}


@pytest.mark.parametrize("kind", STRIDED)
def test_strides(kind: str) -> None:
    f = STRIDED[kind]
    program = compiled(f)
    for sizes in ((2, 3, 4, 5), (3, 4, 5, 6), (1, 2, 3, 4)):
        check(program, f, torch.randn(sizes))
        check(program, f, torch.randn(sizes).to(memory_format=torch.channels_last))


def test_views_of_inputs_share_their_memory() -> None:
    program = compiled(lambda x: (x[1:], x * 2))
    for rows in (3, 5):
        x = torch.randn(rows, 4)
        view, _ = program(x)
        assert view.data_ptr() == x[1:].data_ptr()


ALIASES: dict[str, Callable[[torch.Tensor], object]] = {
    "pieces": lambda x: (*x.split([1, x.shape[0] - 1]), x + 1),
    "the second half": lambda x: (x[x.shape[0] // 2 :], x.sum()),
    "written": lambda x: x.add_(1)[x.shape[0] // 2 :],
    "of a view": lambda x: x.T[1:].unbind(0)[-1],
    "used too": lambda x: (x[x.shape[0] // 2 :], x[x.shape[0] // 2 :] * 2),
    "several results": lambda x: (*x.chunk(2), *torch.topk(x, 2, -1), (x * 2).split([1, x.shape[0] - 1])[1]),
}


@pytest.mark.parametrize("kind", ALIASES)
def test_results_that_share_memory_with_an_input(kind: str) -> None:
    f = ALIASES[kind]
    program = compiled(f)
    for sizes in ((4, 3), (7, 5), (2, 2)):
        check(program, f, torch.randn(sizes))
    ours, eagers = torch.zeros(4, 3), torch.zeros(4, 3)
    for x, function in ((ours, program), (eagers, f)):
        pytree.tree_leaves(function(x))[0].add_(5)
    assert torch.equal(ours, eagers)


def test_ops_that_stay_with_pytorch() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        ordered = torch.sort((x * 2).softmax(-1), -1)[0]
        return torch.zeros(x.shape[0] * 2, x.shape[1]) + ordered.sum(0) + x.shape[0] + torch.fft.fft(x + 1).real.sum()

    program = compiled(f)
    for sizes in ((2, 3), (5, 7), (1, 4)):
        check(program, f, torch.randn(sizes))


def test_channels_last() -> None:
    model: Any = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU()).eval()
    model = model.to(memory_format=torch.channels_last)
    program = compiled(model)
    for sizes in ((2, 3, 8, 8), (5, 3, 9, 7), (1, 3, 4, 4)):
        check(program, model, torch.randn(sizes).to(memory_format=torch.channels_last))


def test_inputs_written_in_place() -> None:
    def f(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        x *= 2
        return x + y

    program = compiled(f)
    for size in (4, 9, 1):
        check(program, f, torch.randn(size), torch.randn(size))
    for shift in (0, 2, -1):  # F05: x and y are parts of one buffer
        ours, eagers = torch.ones(9), torch.ones(9)
        got = program(ours[1:5], ours[1 + shift : 5 + shift])
        assert torch.equal(got, f(eagers[1:5], eagers[1 + shift : 5 + shift]))
        assert torch.equal(ours, eagers)


def test_weights_that_change() -> None:
    model = nn.Linear(4, 3).eval()
    program = compiled(model)
    x = torch.randn(5, 4)
    check(program, model, x)
    model.weight.data.mul_(2)
    check(program, model, x)
    model.load_state_dict({"weight": torch.ones(3, 4), "bias": torch.zeros(3)})
    check(program, model, x)
    model.weight = nn.Parameter(torch.full((3, 4), 2.0))
    check(program, model, x)
