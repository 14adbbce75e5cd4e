"""torch_adaptor against PyTorch's own results."""

import ctypes
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from anyshape.runtime import torch_adaptor  # noqa: E402
from anyshape.runtime.loader import Program  # noqa: E402
from anyshape.support.errors import ArgumentError, DtypeError, IndexOutOfRange  # noqa: E402

TABLE, SCALE = torch.tensor([1.0, 2, 3, 5, 8]), torch.tensor([0.5])


@pytest.fixture(scope="module")
def model(programs: ctypes.CDLL) -> Program:
    address = ctypes.addressof(ctypes.c_char.in_dll(programs, "model"))
    return Program(address, [TABLE.numpy(), SCALE.numpy()], 2)


def expected(x: Any, index: Any) -> Any:
    return (x.detach() + TABLE[index][:, None]) * SCALE


def test_any_strides_and_sizes(model: Program) -> None:
    x = torch.randn(30, 40)
    for view in (x, x.t(), x[::3, 5:20:2], x[:1].expand(7, -1), x[:0], x[:, :0], x[:1, :1]):
        index = torch.arange(view.shape[0]) % 5
        (y,) = torch_adaptor.run(model, [view, index])
        assert y.is_contiguous() and y.dtype == torch.float32
        torch.testing.assert_close(y, expected(view, index), rtol=0, atol=0)


def test_lazy_conjugation_and_negation_are_resolved(model: Program, programs: ctypes.CDLL) -> None:
    z = torch.randn(6, 5, dtype=torch.complex64)
    negated = z.conj().imag
    assert negated.is_neg()
    index = torch.zeros(6, dtype=torch.int64)
    (y,) = torch_adaptor.run(model, [negated, index])
    torch.testing.assert_close(y, expected(negated, index), rtol=0, atol=0)
    copies = Program(ctypes.addressof(ctypes.c_char.in_dll(programs, "copies")), [], 1)
    inputs = [torch.arange(4).to(dtype) for dtype in torch_adaptor.TORCH_DTYPES.values()]
    inputs[-1] = z[0, :4].conj()
    for given, got in zip(inputs, torch_adaptor.run(copies, inputs), strict=True):
        assert got.dtype == given.dtype
        assert torch.equal(got, given)


def test_autograd_does_not_see_the_call(model: Program) -> None:
    x = torch.randn(3, 4, requires_grad=True)
    index = torch.tensor([0, 1, 2])
    (y,) = torch_adaptor.run(model, [x, index])
    assert not y.requires_grad
    torch.testing.assert_close(y, expected(x, index), rtol=0, atol=0)


def test_tensors_that_cannot_be_read_are_refused(model: Program) -> None:
    x, index = torch.zeros(2, 3), torch.zeros(2, dtype=torch.int64)
    with pytest.raises(ArgumentError, match="device meta"):
        torch_adaptor.run(model, [x.to("meta"), index])
    with pytest.raises(ArgumentError, match="sparse"):
        torch_adaptor.run(model, [x.to_sparse(), index])
    with pytest.raises(DtypeError, match=r"input 0 \('x'\)[\s\S]*complex128"):
        torch_adaptor.run(model, [x.to(torch.complex128), index])
    with pytest.raises(IndexOutOfRange, match="index 9 out of range"):
        torch_adaptor.run(model, [x, index + 9])
