"""PyTorch's `numpy()` forbids from then on that a tensor's storage is resized; weights are the user's, who may free and refill theirs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

import anyshape
from anyshape.frontends.torch.dtypes import array_of_memory

# PyTorch is typed in part only.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false

WAYS: dict[str, Callable[[nn.Module, torch.Tensor], Callable[..., Any]]] = {
    "anyshape.compile": lambda model, x: anyshape.compile(model, (x,)),
    "torch.compile": lambda model, x: torch.compile(model, backend="anyshape", dynamic=True),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("way", WAYS)
def test_weights_are_freed_and_filled_again(way: str, dtype: torch.dtype) -> None:
    torch.compiler.reset()
    model = nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8), nn.Linear(8, 4)).eval().to(dtype)
    x = torch.randn(3, 8, dtype=dtype)
    with torch.no_grad():
        program = WAYS[way](model, x)
        before = program(x)
        for tensor in (*model.parameters(), *model.buffers()):
            storage, kept = tensor.untyped_storage(), tensor.clone()
            assert storage.resizable()
            size = storage.nbytes()
            storage.resize_(0)
            storage.resize_(size)
            tensor.copy_(kept)
        assert torch.equal(program(x), before)
        if way == "torch.compile":
            model[0].weight.mul_(2)  # pyright: ignore[reportCallIssue]
            torch.testing.assert_close(program(x), model(x))


DTYPES = [torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64]
FLOATS = [torch.float16, torch.bfloat16, torch.float32, torch.float64]


@pytest.mark.parametrize("dtype", [*DTYPES, *FLOATS])
def test_arrays_are_the_tensors_own_memory(dtype: torch.dtype) -> None:
    whole = (torch.arange(24) % 3).to(dtype)
    for tensor in (whole.view(4, 6), whole.view(4, 6).t()[::2], whole[:6].expand(4, 6), whole[3], whole[:0].view(0, 3)):
        array = array_of_memory(tensor)
        assert array.shape == tensor.shape and array.itemsize == tensor.element_size()
        assert array.astype(float).tolist() == tensor.double().tolist()
        if array.size:
            assert array.ctypes.data == tensor.data_ptr()
            assert all(
                step == stride * array.itemsize
                for step, stride, size in zip(array.strides, tensor.stride(), tensor.shape, strict=True)
                if size > 1
            )
        assert tensor.untyped_storage().resizable()
