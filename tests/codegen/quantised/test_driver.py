"""The driver with its tiles against products of the decoded weights in f64, for each method that this machine can run."""

import numpy as np
import pytest

from anyshape.codegen.quantised import Activations, block_shape
from anyshape.dialects.block_formats import FORMATS, BlockFormat
from tests.codegen.quantised.blocks import MACHINES, Array, driver, packed, runs_here
from tests.dialects.test_block_formats import random_rows

SHAPES = ((1, 16, 1), (2, 5, 1), (3, 37, 2), (5, 16, 2), (6, 100, 1), (7, 33, 1), (0, 16, 1), (20, 70, 2))
"""(rows, columns, blocks of a row)."""
ERROR: dict[Activations, float] = {"int16": 2e-8, "int8": 1e-3}
"""Normalised mean square error that rounding rows may cost."""


def cases() -> list[object]:
    found: list[object] = []
    for name in filter(runs_here, MACHINES):
        formats = FORMATS if name in ("vnni", "avx2") else ("q4_1", "q6_k")
        activations = ("int16", "int8") if name in ("vnni", "avx2") else ("int16",)
        found += [pytest.param(name, FORMATS[f], a, id=f"{name}-{f}-{a}") for f in formats for a in activations]
    return found


def error(got: Array, expected: Array) -> float:
    return float(((got - expected) ** 2).sum() / max((expected**2).sum(), 1e-30))


@pytest.mark.parametrize(("name", "format", "activations"), cases())
def test_equals_the_product_of_the_decoded_weights(name: str, format: BlockFormat, activations: Activations) -> None:
    rng, run = np.random.default_rng(2), driver(format, activations, name).run
    for rows, columns, blocks in SHAPES:
        weights = random_rows(format, (columns,), blocks, rng)
        x = rng.standard_normal((rows, blocks * format.elements)).astype(np.float32)
        bias = rng.standard_normal(columns).astype(np.float32) if rows % 2 else None
        expected = x.astype(np.float64) @ format.decode(weights).astype(np.float64).T + (0 if bias is None else bias)
        got = run(x, *packed(format, weights), bias)
        assert error(got, expected) < ERROR[activations], (rows, columns, blocks)


HERE = [name for name in ("vnni", "avx2", "avx") if runs_here(name)]


@pytest.mark.parametrize("name", HERE)
def test_touches_nothing_beyond_its_operands(name: str, guarded) -> None:
    """Rows, panels, bias and result end at unreadable pages."""
    format, rng = FORMATS["q4_1"], np.random.default_rng(3)
    for rows, columns in ((1, 17), (7, 33)):
        weights = random_rows(format, (columns,), 2, rng)
        form, panels = packed(format, weights)
        x, bias = rng.standard_normal((rows, 64)).astype(np.float32), np.ones(columns, np.float32)
        expected = x.astype(np.float64) @ format.decode(weights).astype(np.float64).T + 1
        x, panels, bias, out = (guarded(each) for each in (x, panels, bias, np.zeros((rows, columns), np.float32)))
        driver(format, "int16", name).run(x.array, form, panels.array, bias.array, out.array)
        assert error(out.array, expected) < ERROR["int16"]


@pytest.mark.parametrize("name", HERE)
def test_a_row_has_the_same_bits_whatever_rows_are_beside_it(name: str) -> None:
    format, rng = FORMATS["q5_0"], np.random.default_rng(4)
    form, panels = packed(format, random_rows(format, (40,), 3, rng))
    x = rng.standard_normal((13, 96)).astype(np.float32)
    run = driver(format, "int16", name).run
    together = run(x, form, panels)
    for count in (1, 2, 5):
        np.testing.assert_array_equal(run(x[:count], form, panels), together[:count])


@pytest.mark.parametrize("name", HERE)
def test_no_number_stays_no_number_and_zero_is_exact(name: str) -> None:
    format, rng = FORMATS["q8_0"], np.random.default_rng(5)
    form, panels = packed(format, random_rows(format, (16,), 2, rng))
    x = rng.standard_normal((5, 64)).astype(np.float32)
    x[0], x[1, 3], x[2, 40], x[3] = 0, np.nan, np.inf, 1e-38
    got = driver(format, "int16", name).run(x, form, panels)
    assert not got[0].any() and not got[3].any()
    assert not np.isfinite(got[1]).any() and not np.isfinite(got[2]).any()
    assert np.isfinite(got[4]).all()


@pytest.mark.parametrize("name", HERE)
def test_extreme_codes_do_not_saturate(name: str) -> None:
    """All codes and activations at their largest, where sums of two products of bytes would not fit 16 bits."""
    format = FORMATS["q8_0"]
    rows = np.full((16, 4 * format.bytes), 0x7F, np.uint8)
    rows.reshape(16, 4, -1)[..., :2] = np.array([1.0], "<f2").view(np.uint8)
    rows[8:].reshape(8, 4, -1)[..., 2:] = 0x80
    form, panels = packed(format, rows)
    x = np.ones((2, 128), np.float32)
    x[1] = -1
    for activations in ("int16", "int8"):
        got = driver(format, activations, name).run(x, form, panels)
        np.testing.assert_allclose(got, x.astype(np.float64) @ format.decode(rows).T, rtol=1e-6)


@pytest.mark.parametrize("activations", ["int16", "int8"])
@pytest.mark.parametrize("name", HERE)
def test_extreme_codes_of_4_bits_do_not_saturate(name: str, activations: Activations) -> None:
    """All codes 15 and activations whose bytes are at either end, where 16 bits just hold the sums of 32 columns."""
    format = FORMATS["q4_1"]
    rows = np.full((16, 4 * format.bytes), 0xFF, np.uint8)
    rows.reshape(16, 4, -1)[..., :4] = np.array([1.0, 0.0], "<f2").view(np.uint8)
    form, panels = packed(format, rows)
    assert np.all(format.decode(rows) == 15)
    largest = block_shape(format.name, activations, MACHINES[name][0]).largest
    # 127·256 − 128 has the lower byte −128; the first number of the row makes one step of the integers 1.
    q = np.array([[largest] * 128, [-largest] * 128, [127 * 256 - 128] * 128, [-127 * 256 - 127] * 128], np.float32)
    if activations == "int8":
        q = q[:2]
    q[:, 0] = largest
    got = driver(format, activations, name).run(q, form, panels)
    np.testing.assert_allclose(got, q.astype(np.float64) @ format.decode(rows).T, rtol=1e-6)
