"""Products with block-quantised weights in graphs: claimed, fused, and equal to products with the decoded weights in f64."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import SSAValue
from xdsl.utils.exceptions import VerifyException

from anyshape.dialects.block_formats import FORMATS, BlockFormat
from anyshape.dialects.dhlo import (
    Add,
    Array,
    BroadcastInDim,
    ConstantStore,
    Dequantize,
    DotGeneral,
    Gather,
    Multiply,
    QuantisedDot,
    RmsNorm,
    Silu,
    Slice,
    Transpose,
    Weight,
)
from anyshape.dialects.dhlo.graph import FunctionBuilder
from anyshape.dialects.dtypes import I64, U8
from anyshape.dialects.sizes import sizes_of
from anyshape.driver import build
from anyshape.driver.build import build_objects, load_program
from anyshape.runtime import numpy_adaptor
from anyshape.support.errors import OptionError
from anyshape.support.options import Options
from anyshape.support.trace import Trace
from anyshape.symbolic import Size
from tests.dialects.test_block_formats import random_rows
from tests.kernels.harness import compiled, inputs_of, plan

B, S = Size.symbol("b"), Size.symbol("s")
SIZES = (0, 1, 3, 4, 8, 17, 33)
EXACT = 1e-7
"""Normalised mean square error of activations rounded to 16 bits."""


def error(got: Array, expected: Array) -> float:
    assert got.shape == expected.shape
    return float(((got - expected) ** 2).sum() / max((expected**2).sum(), 1e-30)) if got.size else 0.0


def decoded(g: FunctionBuilder, store: ConstantStore, format: BlockFormat, rows: Array) -> SSAValue:
    return g(Dequantize, g.add(Weight.of_array(rows, store)).result, format=format.name)


def product(g: FunctionBuilder, x: SSAValue, weights: SSAValue) -> SSAValue:
    """x · weightsᵀ."""
    last = len(sizes_of(x.type)) - 1
    return g(DotGeneral, x, weights, lhs_contract=(last,), rhs_contract=(1,))


def linear(format: BlockFormat, rows: Array, store: ConstantStore) -> FuncOp:
    g = FunctionBuilder()
    x = g.input("m", format.columns(rows.shape[1]))
    return g.finish(product(g, x, decoded(g, store, format, rows)))


@pytest.mark.parametrize("format", FORMATS.values(), ids=str)
def test_a_product_is_that_of_the_decoded_weights(format: BlockFormat) -> None:
    rng, store = np.random.default_rng(5), ConstantStore()
    rows = random_rows(format, (70,), 3, rng)
    func = linear(format, rows, store)
    run, weights = compiled(func, store), format.decode(rows).astype(np.float64)
    for m in SIZES:
        x = rng.standard_normal((m, weights.shape[1])).astype(np.float32)
        assert error(run([x])[0], x.astype(np.float64) @ weights.T) < EXACT, m


def test_the_plan_in_numpy_is_the_same_product() -> None:
    format, rng, store = FORMATS["q5_k"], np.random.default_rng(6), ConstantStore()
    rows = random_rows(format, (20,), 1, rng)
    planned = plan(linear(format, rows, store), store)
    assert planned.kinds == ["contract"]
    assert "blocks" in str(*planned.kernels.values())
    x = rng.standard_normal((5, 256)).astype(np.float32)
    assert error(planned.run([x])[0], x.astype(np.float64) @ format.decode(rows).T) < 1e-12


def test_what_follows_is_part_of_the_product() -> None:
    """down(silu(gate(x)) · up(x)) + x + bias, with three formats: a kernel for each product and none beside them."""
    rng, store = np.random.default_rng(7), ConstantStore()
    formats = [FORMATS[name] for name in ("q4_1", "q8_0", "q5_0")]
    gate, up, down = (random_rows(f, (n,), k, rng) for f, n, k in zip(formats, (96, 96, 64), (2, 2, 3), strict=True))
    bias = rng.standard_normal(64).astype(np.float32)
    g = FunctionBuilder()
    x = g.input("b", "s", 64)
    hidden = g(
        Multiply,
        g(Silu, product(g, x, decoded(g, store, formats[0], gate))),
        product(g, x, decoded(g, store, formats[1], up)),
    )
    y = g(Add, product(g, hidden, decoded(g, store, formats[2], down)), x)
    spread = g(BroadcastInDim, g.add(Weight.of_array(bias, store)).result, dimensions=(2,), sizes=sizes_of(y.type))
    func = g.finish(g(Add, y, spread))
    assert plan(func, store).kinds == ["contract"] * 3
    run = compiled(func, store)
    for b, s in ((1, 1), (2, 3), (0, 4), (1, 50)):
        value = rng.standard_normal((b, s, 64)).astype(np.float32)
        wide = value.astype(np.float64)
        a, c = (wide @ f.decode(w).astype(np.float64).T for f, w in zip(formats[:2], (gate, up), strict=True))
        expected = (a / (1 + np.exp(-a)) * c) @ formats[2].decode(down).astype(np.float64).T + wide + bias
        assert error(run([value])[0], expected) < EXACT


def normalised(g: FunctionBuilder) -> SSAValue:
    return g(RmsNorm, g.input("b", "s", 64), g.input(64), axes=(2,), epsilon=1e-5)


def gated(g: FunctionBuilder) -> SSAValue:
    both = g.input("b", "s", 128)
    left, right = (g(Slice, both, starts=(0, 0, at), sizes=(B, S, 64), strides=(1, 1, 1)) for at in (0, 64))
    return g(Multiply, g(Silu, left), right)


@pytest.mark.parametrize("rows", [normalised, gated], ids=lambda rows: rows.__name__)
@pytest.mark.parametrize("has_epilogue", [False, True])
def test_rows_are_computed_on_the_way_into_the_product(
    rows: Callable[[FunctionBuilder], SSAValue], has_epilogue: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One kernel, and the same bytes as of two."""
    format, rng, store = FORMATS["q4_1"], np.random.default_rng(11), ConstantStore()
    weights = random_rows(format, (200,), 2, rng)
    g = FunctionBuilder()
    y = product(g, rows(g), decoded(g, store, format, weights))
    func = g.finish(g(Silu, y) if has_epilogue else y)
    monkeypatch.setattr(build, "why_no_prologue", lambda *_: None)
    planned, fused = plan(func, store), compiled(func, store)
    assert planned.kinds == ["contract"] and "prologue" in str(*planned.kernels.values())
    monkeypatch.setattr(build, "why_no_prologue", lambda *_: "no")
    apart = compiled(func, store)
    for b, s in ((1, 1), (2, 3), (1, 10), (0, 4), (1, 100), (3, 200)):
        values = inputs_of(func, {"b": b, "s": s}, s)
        one, other = fused(values)[0], apart(values)[0]
        assert one.tobytes() == other.tobytes()
        assert error(one, planned.run(values)[0]) < EXACT


def test_a_transposed_weight_is_the_same_product() -> None:
    format, rng, store = FORMATS["q4_0"], np.random.default_rng(8), ConstantStore()
    rows = random_rows(format, (24,), 2, rng)
    g = FunctionBuilder()
    x = g.input("m", 64)
    turned = g(Transpose, decoded(g, store, format, rows), permutation=(1, 0))
    planned = plan(g.finish(g(DotGeneral, x, turned, lhs_contract=(1,), rhs_contract=(0,))), store)
    assert planned.kinds == ["contract"]
    assert any(isinstance(op, QuantisedDot) for op in planned.fusions[0].block.ops)


@pytest.mark.parametrize("format", FORMATS.values(), ids=str)
def test_an_embedding_decodes_the_rows_that_it_reads(format: BlockFormat) -> None:
    rng, store = np.random.default_rng(9), ConstantStore()
    rows = random_rows(format, (40,), 2, rng)
    columns = format.columns(rows.shape[1])
    g = FunctionBuilder()
    ids = g.input("b", "s", dtype=I64)
    table = decoded(g, store, format, rows)
    func = g.finish(
        g(
            Gather, table, ids,
            offset_dims=(2,), collapsed_slice_dims=(0,), start_index_map=(0,), index_vector_dim=2, slice_sizes=(1, columns),
        )
    )  # fmt: skip
    assert plan(func, store).kinds == ["loop"]
    run, weights = compiled(func, store), format.decode(rows)
    for b, s in ((1, 1), (2, 5), (0, 3)):
        chosen = rng.integers(0, 40, (b, s))
        np.testing.assert_array_equal(run([chosen])[0], weights[chosen])


def test_activations_of_one_byte_are_an_option_and_less_exact() -> None:
    format, rng, errors = FORMATS["q4_0"], np.random.default_rng(10), dict[str, float]()
    rows = random_rows(format, (48,), 4, rng)
    x = rng.standard_normal((6, 128)).astype(np.float32)
    expected = x.astype(np.float64) @ format.decode(rows).astype(np.float64).T
    for activations in ("int16", "int8"):
        store, options = ConstantStore(), Options(threads=1, activations=activations)
        built = build_objects(
            ModuleOp([linear(format, rows, store)]), ["x"], store, options, Trace.from_options(options)
        )
        errors[activations] = error(numpy_adaptor.run(load_program(built, 1), [x])[0], expected)
    assert errors["int16"] < EXACT < errors["int8"] < 1e-3
    with pytest.raises(OptionError, match="unknown activations"):
        Options(activations="int4")  # type: ignore[arg-type]


def test_a_cached_program_packs_its_weights_again(tmp_path: Path) -> None:
    format, rng = FORMATS["q6_k"], np.random.default_rng(11)
    rows = random_rows(format, (30,), 1, rng)
    x = rng.standard_normal((3, 256)).astype(np.float32)
    results: list[Array] = []
    for _ in range(2):
        store, options = ConstantStore(), Options(threads=1, cache=tmp_path / "cache")
        built = build_objects(
            ModuleOp([linear(format, rows, store)]), ["x"], store, options, Trace.from_options(options)
        )
        results.append(numpy_adaptor.run(load_program(built, 1), [x])[0])
    assert built.stages is None, "the second one comes from the cache"
    np.testing.assert_array_equal(*results)


def test_rows_that_are_no_whole_blocks_are_refused() -> None:
    g = FunctionBuilder()
    with pytest.raises(VerifyException, match="rows of 35 bytes are no whole blocks; q8_0 has 34 bytes for 32"):
        g(Dequantize, g.input(4, 35, dtype=U8), format="q8_0")
    with pytest.raises(VerifyException, match="unknown format 'q2_k'; known are q4_0"):
        g(Dequantize, g.input(4, 34, dtype=U8), format="q2_k")
