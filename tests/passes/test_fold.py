"""Folding of weights: what is computed at compile time, and what is not because the program would grow."""

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

from anyshape.dialects.dhlo import (
    BroadcastInDim,
    Concatenate,
    Constant,
    ConstantStore,
    Convert,
    DhloOp,
    DotGeneral,
    Multiply,
    Reshape,
    Slice,
    Transpose,
    Weight,
)
from anyshape.dialects.dhlo.graph import FunctionBuilder
from anyshape.dialects.dhlo.interpreter import evaluate
from anyshape.dialects.dtypes import BY_NAME, F32, I64, DType
from tests.passes.programs import apply

RNG = np.random.default_rng(0)


def folded(g: FunctionBuilder, store: ConstantStore, *results: SSAValue) -> list[str]:
    """Names of the ops that are left after folding; the program's results are the same."""
    module = ModuleOp([g.finish(*results)])
    before = evaluate(module, [], store)
    apply("fold", module, store)
    for expected, got in zip(before, evaluate(module, [], store), strict=True):
        np.testing.assert_array_equal(got, expected)
    return [op.name.removeprefix("dhlo.") for op in module.walk() if isinstance(op, DhloOp)]


def weight(g: FunctionBuilder, store: ConstantStore, *shape: int) -> SSAValue:
    return g.add(Weight.of_array(RNG.standard_normal(shape).astype(np.float32), store)).result


def test_small_arrays_are_folded_through_any_op() -> None:
    g, store = FunctionBuilder(), ConstantStore()
    product = g(DotGeneral, weight(g, store, 3, 4), weight(g, store, 4, 5), lhs_contract=(1,), rhs_contract=(0,))
    assert folded(g, store, g(Transpose, product, permutation=(1, 0))) == ["weight"]


def test_a_large_weight_is_converted_in_its_place() -> None:
    g, store = FunctionBuilder(), ConstantStore()
    assert folded(g, store, g(Convert, weight(g, store, 200, 200), dtype=BY_NAME["f16"])) == ["weight"]


def test_a_large_weight_that_others_use_is_not_doubled() -> None:
    g, store = FunctionBuilder(), ConstantStore()
    w = weight(g, store, 200, 200)
    assert folded(g, store, g(Multiply, w, g.full(2.0, 200, 200)), w) == ["weight", "constant", "multiply"]


def part(g: FunctionBuilder, w: SSAValue, first: int) -> SSAValue:
    """100 rows of a weight of 200 columns."""
    return g(Slice, w, starts=(first, 0), sizes=(100, 200), strides=(1, 1))


def test_parts_of_a_large_weight_change_places() -> None:
    """Gates of a recurrent layer, say, in another order."""
    g, store = FunctionBuilder(), ConstantStore()
    w = weight(g, store, 200, 200)
    assert folded(g, store, g(Concatenate, part(g, w, 100), part(g, w, 0), axis=0)) == ["weight"]


def test_parts_of_a_large_weight_that_are_used_apart_stay() -> None:
    g, store = FunctionBuilder(), ConstantStore()
    w = weight(g, store, 200, 200)
    assert folded(g, store, part(g, w, 100), part(g, w, 0)) == ["weight", "slice", "slice"]


def test_a_large_weight_takes_other_sizes_in_its_place() -> None:
    """Scales of a quantised table, say, as a vector."""
    g, store = FunctionBuilder(), ConstantStore()
    assert folded(g, store, g(Reshape, weight(g, store, 40000, 1), sizes=(40000,))) == ["weight"]
    g, store = FunctionBuilder(), ConstantStore()
    used = weight(g, store, 40000, 1)
    assert folded(g, store, g(Reshape, used, sizes=(40000,)), used) == ["weight", "reshape"]


def test_a_broadcast_does_not_blow_up() -> None:
    g, store = FunctionBuilder(), ConstantStore()
    wide = g(BroadcastInDim, weight(g, store, 200), dimensions=(1,), sizes=(200, 200))
    assert folded(g, store, wide) == ["weight", "broadcast_in_dim"]


def test_a_large_product_is_left_to_its_kernel() -> None:
    g, store = FunctionBuilder(), ConstantStore()
    product = g(DotGeneral, weight(g, store, 1, 200), weight(g, store, 200, 200), lhs_contract=(1,), rhs_contract=(0,))
    assert "dot_general" in folded(g, store, product)


def test_without_the_arrays_nothing_is_folded_from_weights() -> None:
    g, store = FunctionBuilder(), ConstantStore()
    module = ModuleOp([g.finish(g(Transpose, weight(g, store, 3, 4), permutation=(1, 0)))])
    apply("fold", module)
    assert "transpose" in str(module)


@pytest.mark.parametrize(
    ("value", "dtype"), [(2**62, I64), (1.0 + 2.0**-23, F32), (float("inf"), F32), (-0.0, F32), (float("nan"), F32)]
)
def test_values_are_exact(value: float | int, dtype: DType) -> None:
    g, store = FunctionBuilder(), ConstantStore()
    one = g.full(1, dtype=dtype)
    module = ModuleOp([g.finish(g(Multiply, g.full(value, dtype=dtype), one))])
    apply("fold", module, store)
    (constant,) = (op for op in module.walk() if isinstance(op, Constant) and op.result.uses)
    np.testing.assert_equal(np.array(constant.attribute("value")), np.array(value))
    assert np.signbit(constant.attribute("value")) == np.signbit(value)
