"""`tile.prefix` in numpy, against the fold of every prefix taken by itself."""

import numpy as np
import pytest

from anyshape.dialects.tile import KINDS
from anyshape.dialects.tile.interpreter import prefixes_last, reduce_last

INTEGER_ONLY = ("umax", "umin", "and", "or")
CASES = [
    (kind, dtype)
    for dtype in (np.bool_, np.int8, np.int64, np.float32)
    for kind in KINDS
    if dtype is not np.float32 or kind not in INTEGER_ONLY
]


@pytest.mark.parametrize(("kind", "dtype"), CASES)
def test_each_prefix_is_the_fold_of_its_points(kind: str, dtype: type) -> None:
    x = (np.random.default_rng(0).standard_normal((3, 9)) * 40).astype(dtype)
    folds = [reduce_last(kind, x[:, : end + 1]) for end in range(x.shape[1])]
    got = prefixes_last(kind, x)
    assert got.dtype == x.dtype
    np.testing.assert_allclose(got.astype(np.float64), np.stack(folds, -1).astype(np.float64), rtol=1e-6)


@pytest.mark.parametrize("kind", ["max", "min"])
def test_nan_stays(kind: str) -> None:
    got = prefixes_last(kind, np.array([[1.0, np.nan, 2.0]], np.float32))
    np.testing.assert_array_equal(got, [[1.0, np.nan, np.nan]])


def test_logarithms_of_sums_of_exponentials() -> None:
    got = prefixes_last("logaddexp", np.array([[-1e4, -np.inf, 0.0, 0.0, np.inf, np.nan]], np.float32))
    np.testing.assert_array_equal(got, np.array([[-1e4, -1e4, 0.0, np.log(2.0), np.inf, np.nan]], np.float32))


def test_no_points() -> None:
    assert prefixes_last("sum", np.zeros((2, 0), np.int32)).shape == (2, 0)
