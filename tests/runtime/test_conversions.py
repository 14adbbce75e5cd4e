"""The routine that machine code for CPUs without bf16 instructions calls, beside ml_dtypes."""

import ctypes
import math

import ml_dtypes
import numpy as np

from anyshape.runtime import runtime


def test_floats_become_the_nearest_bf16() -> None:
    # As LLVM calls it: the result is the low half of the register of a float.
    routine = ctypes.CFUNCTYPE(ctypes.c_float, ctypes.c_float)(runtime().symbols["__truncsfbf2"])
    rng = np.random.default_rng(0)
    bits = np.concatenate([
        rng.integers(0, 1 << 32, 2000, dtype=np.uint64).astype(np.uint32),
        np.array([0x3F808000, 0x3F818000, 0x3F808001, 0x7F7FFFFF, 0xFF7FFFFF, 0x7F800000, 0, 0x80000000, 1], np.uint32),
    ])  # fmt: skip
    values = bits.view(np.float32)
    finite = values[~np.isnan(values)]
    got = np.array([routine(float(value)) for value in finite], np.float32).view(np.uint32)
    np.testing.assert_array_equal(got.astype(np.uint16), finite.astype(ml_dtypes.bfloat16).view(np.uint16))
    nan = np.array([routine(math.nan)], np.float32).view(np.uint32).astype(np.uint16).view(ml_dtypes.bfloat16)
    assert np.isnan(nan.astype(np.float32)[0])
