"""Every law fires in its example, and keeps the meaning: reference(before) = reference(after) at sizes 0, 1, 2 and 3."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from xdsl.builder import Builder
from xdsl.dialects import func
from xdsl.ir import SSAValue
from xdsl.rewriter import InsertPoint

from anyshape.dialects.dhlo import (
    Add,
    And,
    BroadcastInDim,
    Compare,
    Concatenate,
    Constant,
    Convert,
    DhloOp,
    Gather,
    Law,
    Reduce,
    Reshape,
    Slice,
    Subtract,
    simplify_op,
)
from anyshape.dialects.dhlo.graph import FunctionBuilder
from anyshape.dialects.dhlo.interpreter import evaluate
from anyshape.dialects.dhlo.verify import verify_graph
from anyshape.dialects.dtypes import BF16, BOOL, F16, F32, I8, I32, I64, U8
from anyshape.dialects.sizes import dtype_of, sizes_of, symbols_of
from anyshape.symbolic import Facts, Size

B, M, N, K = (Size.symbol(name) for name in "bmnk")
LAWS = {law.apply: (name, law) for name, cls in DhloOp.OPS.items() for law in cls.LAWS}
Example = Callable[[FunctionBuilder], SSAValue]


def build(example: Example) -> tuple[func.FuncOp, DhloOp]:
    """A function that returns the example, with an argument to bind each symbol."""
    g = FunctionBuilder()
    value = example(g)
    for name in sorted(symbols_of([value.type, *(a.type for a in value.owner.operands)]) | set("mnk")):  # type: ignore[union-attr]
        g.input(name, dtype=BOOL)
    function = g.finish(value)
    assert isinstance(value.owner, DhloOp)
    return function, value.owner


def inputs(function: func.FuncOp, env: dict[str, int]) -> list[np.ndarray[Any, Any]]:
    rng = np.random.default_rng(3)
    arrays: list[np.ndarray[Any, Any]] = []
    for argument in function.args:
        shape = [size.evaluate(env) for size in sizes_of(argument.type)]
        dtype = dtype_of(argument.type)
        values = rng.integers(-3, 4, shape) if not dtype.is_bool else rng.integers(0, 2, shape)
        array = values.astype(dtype.numpy)
        if dtype.is_float and array.size > 2:
            array.reshape(-1)[:3] = (np.nan, -0.0, np.inf)
        arrays.append(array)
    return arrays


def same_bits(a: np.ndarray[Any, Any], b: np.ndarray[Any, Any]) -> bool:
    """Equal shapes, dtypes and values, the sign of zero included."""
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    x, y = (value if value.dtype.kind in "biu" else value.astype(np.float64) for value in (a, b))
    if x.dtype.kind != "f":
        return np.array_equal(x, y)
    return np.array_equal(x, y, equal_nan=True) and np.array_equal(np.signbit(x[x == 0]), np.signbit(y[y == 0]))


def check(example: Example, name: str | None = None) -> DhloOp:
    """Apply the law `name`, or the first that applies, and compare; the op that took the place is returned."""
    before, _ = build(example)
    after, op = build(example)
    builder = Builder(InsertPoint.before(op))
    if name is None:
        simplified = simplify_op(op, builder, Facts())
        assert simplified is not None, "no law fires"
        (replacement,) = simplified[1]
    else:
        law = next(law for law in type(op).LAWS if law.name == name)
        found = law.apply(op, builder, Facts())
        assert isinstance(found, SSAValue), "the law does not fire in its example"
        replacement = found
    assert replacement.type == op.result.type
    op.result.replace_all_uses_with(replacement)
    verify_graph(after)
    for size in range(4):
        for other in range(4):
            env = {"b": size, "m": size, "n": other, "k": (size + other) % 4}
            arrays = inputs(before, env)
            (expected,), (got,) = evaluate(before, arrays), evaluate(after, arrays)
            assert same_bits(got, expected), f"{env}: {got} instead of {expected}"
    return replacement.owner  # type: ignore[return-value]


@pytest.mark.parametrize(
    "law", [law for _, law in LAWS.values()], ids=[f"{name}-{law.name}" for name, law in LAWS.values()]
)
def test_law_fires_and_holds(law: Law) -> None:
    check(law.example, law.name)


@pytest.mark.parametrize(
    "example",
    [
        lambda g: g(Add, g.input("m"), g.full(-0.0, "m")),
        lambda g: g(And, g.input("m", dtype=U8), g.full(255, "m", dtype=U8)),
        lambda g: g(Convert, g(Convert, g.input("m", dtype=U8), dtype=I32), dtype=I8),
        lambda g: g(Convert, g(Convert, g.input("m", dtype=I8), dtype=F32), dtype=U8),
        lambda g: g(Convert, g(Convert, g.input("m", dtype=BOOL), dtype=BF16), dtype=I64),
        lambda g: g(BroadcastInDim, g(BroadcastInDim, g.input("n"), dimensions=(0,), sizes=(N, M)), dimensions=(1, 2), sizes=(K, N, M)),
        lambda g: g(
            Slice,
            g(Slice, g.input(2 * M + 4), starts=(2 * M + 3,), sizes=(M + 2,), strides=(-2,)),
            starts=(1,), sizes=(M,), strides=(1,),
        ),
        lambda g: g(Reduce, g(Reduce, g.input("m", "n", "k", dtype=I32), axes=(0,), kind="sum"), axes=(1,), kind="sum"),
        lambda g: g(Compare, g.iota(0, "m"), g.full(0, "m", dtype=I64), direction="lt"),
    ],
)  # fmt: skip
def test_other_forms_fire_and_hold(example: Example) -> None:
    check(example)


@pytest.mark.parametrize(
    "example",
    [
        lambda g: g(Add, g.input("m"), g.full(0.0, "m")),  # -0.0 + 0.0 is 0.0
        lambda g: g(Subtract, g.input("m"), g.full(-0.0, "m")),
        lambda g: g(Convert, g(Convert, g.input("m"), dtype=F16), dtype=F32),  # loses bits
        lambda g: g(Convert, g(Convert, g.input("m", dtype=I32), dtype=U8), dtype=I32),
        lambda g: g(Convert, g(Convert, g.input("m", dtype=I32), dtype=I8), dtype=I32),
        lambda g: g(Convert, g(Convert, g.input("m", dtype=U8), dtype=I8), dtype=I32),
        lambda g: _rows(g, g(BroadcastInDim, g.iota(0, 1), dimensions=(0,), sizes=(M,))),  # row 0, m times
        lambda g: _rows(g, g.iota(0, "k")),  # another number of rows
        lambda g: g(Compare, *[g.input("m")] * 2, direction="eq"),  # NaN
        lambda g: g(Compare, g.iota(0, "m", dtype=I8), g.full(0, "m", dtype=I8), direction="ge"),  # wraps
        lambda g: g(Slice, g.input("m"), starts=(M - 1,), sizes=(M,), strides=(-1,)),
        lambda g: g(Reduce, g(Reduce, g.input("m", "n"), axes=(0,)), axes=(0,)),  # another rounding
        lambda g: g(Concatenate, g.input("m"), g.input("n"), axis=0),
        lambda g: g(Reshape, g.input("m", "n"), sizes=(N, M)),
    ],
)  # fmt: skip
def test_no_law_fires(example: Example) -> None:
    _, op = build(example)
    assert simplify_op(op, Builder(InsertPoint.before(op)), Facts()) is None


def test_the_only_row_becomes_a_slice() -> None:
    """Where all sizes are 1, no axis counts, and each does."""
    op = check(lambda g: g(
        Gather, g.input(7, "n"), g(Reshape, g.iota(0, 1), sizes=(1, 1)),
        offset_dims=(2,), collapsed_slice_dims=(0,), start_index_map=(0,), index_vector_dim=2, slice_sizes=(1, N),
    ), "by_leading_iota")  # fmt: skip
    assert isinstance(op, BroadcastInDim)


def _rows(g: FunctionBuilder, indices: SSAValue) -> SSAValue:
    """x[indices] of x[m, n]."""
    return g(
        Gather, g.input("m", "n"), indices,
        offset_dims=(1,), collapsed_slice_dims=(0,), start_index_map=(0,), index_vector_dim=1, slice_sizes=(1, N),
    )  # fmt: skip


def mask_lookup(g: FunctionBuilder) -> SSAValue:
    """aten.index(mask, [arange(b)[:, None, None, None], arange(s)[None, None, None, :]]) as one gather: [b, 1, 1, s]."""
    mask = g.input("m", "n", dtype=BOOL)
    vectors = [
        g(Reshape, g(BroadcastInDim, g.iota(0, size), dimensions=(axis,), sizes=(M, 1, 1, N)), sizes=(M, 1, 1, N, 1))
        for axis, size in ((0, "m"), (3, "n"))
    ]
    return g(
        Gather, mask, g(Concatenate, *vectors, axis=4),
        offset_dims=(), start_index_map=(0, 1), collapsed_slice_dims=(0, 1), index_vector_dim=4, slice_sizes=(1, 1),
    )  # fmt: skip


def test_mask_lookup_becomes_a_broadcast() -> None:
    assert isinstance(check(mask_lookup, "by_iota"), BroadcastInDim)


def test_facts_decide_that_a_size_is_0() -> None:
    facts = Facts()
    facts.assume(M.eq(0))
    function, op = build(lambda g: g(Add, *[g.input("m", "n")] * 2))
    simplified = simplify_op(op, Builder(InsertPoint.before(op)), facts)
    assert simplified is not None and isinstance(simplified[1][0].owner, Constant)
    verify_graph(function)
