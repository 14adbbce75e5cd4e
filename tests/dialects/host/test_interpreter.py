"""The interpreter of host programs against numbers worked out by hand."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from anyshape.dialects.host.interpreter import peak_live_bytes, run_program
from anyshape.dialects.tile import KernelOp
from anyshape.support.errors import GuardError

W = np.array([1, 2, 3, 4], np.float32)
SCALE = np.zeros(3, np.float32)


def run(kernel: KernelOp, buffers: Sequence[np.ndarray], sizes: Mapping[str, int], **points: Any) -> None:
    rows = sizes["rows"]
    assert points["begin"] == 0 and points["end"] in (rows, 4 * rows)
    if kernel.sym_name.data == "double":
        buffers[1][: 4 * rows] = 2 * buffers[0]
    else:
        assert sizes["half"] == rows // 2
        buffers[2][:] = buffers[0] + np.tile(buffers[1], rows)


def test_runs(sample: Any) -> None:
    x = np.arange(12, dtype=np.float32).reshape(4, 3).T
    (got,) = run_program(sample.program, sample.kernels, [x, SCALE], [W], run=run)
    np.testing.assert_array_equal(got, (2 * x + W).reshape(3, 2, 2))


def test_no_points_no_launch(sample: Any) -> None:
    (got,) = run_program(sample.program, sample.kernels, [np.zeros((0, 4), np.float32), SCALE], [W], run=run)
    assert got.shape == (0, 2, 2)


def test_guards(sample: Any) -> None:
    with pytest.raises(GuardError, match=r"^argument 'x' axis 1: got 5, expected 4$"):
        run_program(sample.program, sample.kernels, [np.zeros((1, 5), np.float32), SCALE], [W], run=run)
    with pytest.raises(GuardError, match=r"^argument 'x' axis 0: got 513, allowed at most 512 of 100%$"):
        run_program(sample.program, sample.kernels, [np.zeros((513, 4), np.float32), SCALE], [W], run=run)


def test_fresh_memory_is_poisoned(sample: Any) -> None:
    (got,) = run_program(
        sample.program, sample.kernels, [np.zeros((2, 4), np.float32), SCALE], [W], run=lambda *_, **__: None
    )
    assert (got.view(np.uint8) == 0xA5).all()


def test_peak(sample: Any) -> None:
    shapes = [(3, 4), (3,)]
    assert peak_live_bytes(sample.program, shapes) == 48
    assert peak_live_bytes(sample.program, shapes, strided=[0]) == 96
    assert peak_live_bytes(sample.program, shapes, strided=[1]) == 48
