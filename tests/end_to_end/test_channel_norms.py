"""Batch, instance and group normalisation, with statistics and gradients, and distances, against eager PyTorch."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from tests.end_to_end.eager import check, compiled
from tests.end_to_end.test_pooling import agrees

aten = torch.ops.aten
SHAPES = [(1, 6, 2, 1), (3, 6, 33, 2), (2, 6, 4, 4), (1, 6, 7, 1)]


def test_statistics_of_the_batch() -> None:
    def every(x: Tensor, weight: Tensor, mean: Tensor) -> tuple[Tensor, ...]:
        training = aten._native_batch_norm_legit_functional(x, weight, weight, mean, weight, True, 0.1, 1e-5)
        return *training, *aten._native_batch_norm_legit.no_stats(x, weight, None, True, 0.1, 1e-5)

    program = compiled(every, torch.randn(2, 6, 5, 7), torch.rand(6), torch.rand(6))
    for shape in SHAPES:
        check(program, every, torch.randn(shape), torch.rand(shape[1]), torch.rand(shape[1]))
    check(program, every, torch.randn(4, 1, 3, 3), torch.rand(1), torch.rand(1))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_running_statistics(dtype: torch.dtype) -> None:
    def every(x: Tensor, mean: Tensor, variance: Tensor) -> tuple[Tensor, ...]:
        return F.batch_norm(x, mean, variance, mean, variance), F.instance_norm(x), F.group_norm(x, 3)

    def arguments(*shape: int) -> tuple[Tensor, ...]:
        return tuple(each.to(dtype) for each in (torch.randn(shape), torch.rand(shape[1]), torch.rand(shape[1])))

    program = compiled(every, *arguments(2, 6, 5, 7))
    for shape in SHAPES:
        check(program, every, *arguments(*shape))


def test_statistics_of_groups_and_rows() -> None:
    def every(x: Tensor, weight: Tensor) -> tuple[Tensor, ...]:
        groups = aten.native_group_norm(x, weight, None, x.shape[0], x.shape[1], x.shape[2] * x.shape[3], 2, 1e-5)
        return *groups, *aten.native_layer_norm(x, [x.shape[3]], None, None, 1e-5)

    program = compiled(every, torch.randn(2, 6, 5, 7), torch.rand(6))
    for shape in [*SHAPES, (0, 6, 3, 3)]:
        check(program, every, torch.randn(shape), torch.rand(shape[1]))


def test_gradients() -> None:
    def every(grad: Tensor, x: Tensor, weight: Tensor) -> tuple[Tensor, ...]:
        _, mean, deviation = aten.native_layer_norm(x, [7], weight, weight, 1e-5)
        rows = aten.native_layer_norm_backward(grad, x, [7], mean, deviation, weight, weight, [True, True, True])
        image, grad_image = x.reshape(-1, 6, 7), grad.reshape(-1, 6, 7)
        _, mean, deviation = aten.native_group_norm(image, None, None, image.shape[0], 6, 7, 3, 1e-5)
        whole = [grad_image, image, mean, deviation, None, image.shape[0], 6, 7, 3, [True, False, False]]
        return *rows, aten.native_group_norm_backward(*whole)[0]

    program = compiled(every, torch.randn(12, 7), torch.randn(12, 7), torch.rand(7))
    for count in (6, 36):
        check(program, every, torch.randn(count, 7), torch.randn(count, 7), torch.rand(7))


@pytest.mark.parametrize("p", [0.0, 1.0, 2.0, 3.0, float("inf")])
def test_distances(p: float) -> None:
    def every(a: Tensor, b: Tensor) -> tuple[Tensor, ...]:
        return torch.cdist(a, b, p, "donot_use_mm_for_euclid_dist"), F.pdist(a, p)

    program = compiled(every, torch.randn(4, 5), torch.randn(3, 5))
    for m, n, k in ((1, 1, 1), (2, 1, 3), (30, 33, 40), (3, 0, 4), (2, 3, 0)):
        check(program, every, torch.randn(m, k), torch.randn(n, k))


def test_pixels_and_channels() -> None:
    def every(x: Tensor) -> tuple[Tensor, ...]:
        return F.pixel_shuffle(x, 2), F.pixel_unshuffle(x, 2), torch.channel_shuffle(x, 2), F.local_response_norm(x, 3)

    agrees(every, (2, 8, 4, 6), [(1, 4, 2, 2), (3, 12, 10, 2)], torch.randn)
