"""How far a computed value may be from the exact one, by dtype: the only table of tolerances.

`REFERENCE` is for references, which compute in f64 and round once; `COMPUTED` for chains of ops that round at each step.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from anyshape.dialects.dtypes import BF16, F16, F32, F64, DType


@dataclass(frozen=True)
class Tolerance:
    """|got − expected| ≤ absolute + relative · |expected|."""

    relative: float
    absolute: float


EXACT = Tolerance(0.0, 0.0)
REFERENCE: Mapping[DType, Tolerance] = {
    F16: Tolerance(2e-3, 1e-6),
    BF16: Tolerance(1e-2, 1e-6),
    F32: Tolerance(3e-7, 1e-9),
    F64: Tolerance(1e-12, 1e-13),
}
COMPUTED: Mapping[DType, Tolerance] = {
    F16: Tolerance(4e-3, 2e-3),
    BF16: Tolerance(2e-2, 2e-2),
    F32: Tolerance(1e-5, 2e-6),
    F64: Tolerance(1e-11, 1e-12),
}


def assert_close(
    got: np.ndarray[Any, Any], expected: np.ndarray[Any, Any], tolerance: Tolerance, message: str = ""
) -> None:
    """Equal shapes and dtypes; NaN equals NaN, infinities equal themselves."""
    assert got.shape == expected.shape, f"{message}: shape {got.shape}, expected {expected.shape}"
    assert got.dtype == expected.dtype, f"{message}: dtype {got.dtype}, expected {expected.dtype}"
    if got.dtype.kind in "biu":
        np.testing.assert_array_equal(got, expected, err_msg=message)
        return
    np.testing.assert_allclose(
        got.astype(np.float64), expected.astype(np.float64), tolerance.relative, tolerance.absolute, err_msg=message
    )
