"""Complex tensors and Fourier transforms at any size, against eager PyTorch."""

# PyTorch is typed in part only.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false
# pyright: reportUnknownLambdaType=false

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from anyshape.support.errors import DtypeError
from tests.end_to_end.eager import assert_same, compiled


def check(program: Callable[..., Any], function: Callable[..., Any], *args: Tensor, tolerance: float = 2e-4) -> None:
    assert_same(program(*args), function(*args), tolerance=tolerance, message=[tuple(x.shape) for x in args])


def arithmetic(a: Tensor, b: Tensor, x: Tensor) -> tuple[Tensor, ...]:
    return (
        a + b, a - 2 * b, a * b, a / b, a * x, x / b, a / 2, 1j * a, -a, a.conj() * b, (a * b).real, a.imag + x, a.reciprocal(),
        a.abs(), a.angle(), a**2, torch.sgn(a), a == b, a != a, torch.where(x > 0, a, b),
    )  # fmt: skip


def functions(a: Tensor) -> tuple[Tensor, ...]:
    return a.exp(), a.log(), a.sqrt(), a.sin(), a.cos(), a.sinh(), a.cosh(), torch.polar(a.abs(), a.angle())


def moves(a: Tensor) -> tuple[Tensor, ...]:
    real = torch.view_as_real(a)
    return (
        real * 2, torch.view_as_complex(real + 1), a.t(), a[1:].sum(0), torch.cat([a, a.conj(), a.real], 1),
        torch.nn.functional.pad(a, (1, 2)), a.reshape(-1),
        a.sum(-1), a[None].expand(2, *a.shape), torch.complex(a.real, a.real), a.flip(0), a.cumsum(1), a.to(torch.complex128),
    )  # fmt: skip


def products(a: Tensor, b: Tensor) -> tuple[Tensor, ...]:
    return a @ b, torch.vdot(a[0], b[:, 0]), a[None] @ b[None], torch.addmm(a @ b, a, b, beta=2, alpha=1j)


SHAPES = [(2, 3), (1, 1), (5, 33), (0, 2)]


def random(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.complex64)


def test_arithmetic() -> None:
    program = compiled(arithmetic, random(2, 3), random(2, 3), torch.randn(2, 3))
    for shape in SHAPES:
        check(program, arithmetic, random(*shape), random(*shape), torch.randn(shape))


def test_functions() -> None:
    program = compiled(functions, random(2, 3))
    for shape in SHAPES:
        check(program, functions, random(*shape))


def test_moves() -> None:
    program = compiled(moves, random(3, 4))
    for shape in [(2, 3), (1, 1), (5, 33)]:
        check(program, moves, random(*shape))


def test_products() -> None:
    program = compiled(products, random(3, 4), random(4, 3))
    for rows, depth in [(2, 3), (1, 1), (5, 33)]:
        check(program, products, random(rows, depth), random(depth, rows))


class Rotary(nn.Module):
    """Positions as rotations, a complex buffer sliced by length."""

    turns: Tensor

    def __init__(self) -> None:
        super().__init__()
        angles = torch.outer(torch.arange(64.0), torch.tensor([1.0, 0.1, 0.01]))
        self.register_buffer("turns", torch.polar(torch.ones_like(angles), angles))

    def forward(self, x: Tensor) -> Tensor:
        pairs = torch.view_as_complex(x.reshape(*x.shape[:-1], -1, 2))
        return torch.view_as_real(pairs * self.turns[: x.shape[1]]).flatten(-2)


def test_rotary_embedding_by_complex_numbers() -> None:
    module = Rotary()
    program = compiled(module, torch.randn(2, 5, 6))
    for shape in [(1, 1, 6), (3, 17, 6), (2, 64, 6)]:
        check(program, module, torch.randn(shape))


def test_a_real_argument_in_the_place_of_a_complex_one_is_an_error() -> None:
    program = compiled(functions, random(2, 3))
    with pytest.raises(DtypeError, match="complex"):
        program(torch.randn(2, 3))


def transforms(x: Tensor) -> tuple[Tensor, ...]:
    spectrum = torch.fft.rfft(x)
    return (
        spectrum, torch.fft.irfft(spectrum, n=x.shape[-1]), torch.fft.fft(x, norm="ortho"), torch.fft.ifft(torch.fft.fft(x)),
        torch.fft.rfft2(x), torch.fft.fft2(spectrum), torch.fft.fftshift(torch.fft.hfft(spectrum, n=x.shape[-1])),
    )  # fmt: skip


def test_fourier_transforms_of_any_length() -> None:
    program = compiled(transforms, torch.randn(4, 6))
    for shape in [(2, 3), (1, 1), (3, 8), (5, 33), (2, 97)]:
        check(program, transforms, torch.randn(shape), tolerance=2e-3)


def test_short_time_fourier_transform() -> None:
    def spectrogram(x: Tensor) -> Tensor:
        window = torch.hann_window(16)
        return torch.stft(x, 16, hop_length=4, window=window, return_complex=True).abs()

    program = compiled(spectrogram, torch.randn(2, 50))
    for shape in [(1, 16), (3, 47), (2, 200)]:
        check(program, spectrogram, torch.randn(shape), tolerance=1e-3)
