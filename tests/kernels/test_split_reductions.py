"""Long reductions in chunks: semantics where there are several, and that bytes depend on sizes alone."""

import numpy as np
import pytest

from anyshape.dialects.dhlo import Abs, Add, BroadcastInDim, ConstantStore, Convert, Multiply, Reduce, Tanh
from anyshape.dialects.dhlo.graph import FunctionBuilder
from anyshape.dialects.dtypes import BF16, BOOL, F16, F32, I32, I64, U8, DType
from anyshape.driver.build import build_objects, load_program
from anyshape.runtime import numpy_adaptor
from anyshape.support.trace import Trace
from anyshape.symbolic import Size
from tests.kernels.harness import OPTIONS, check, module_of

B, M, N = (Size.symbol(name) for name in "bmn")
LONG = ({"m": 701, "n": 130}, {"m": 33, "n": 4099}, {"m": 0, "n": 5}, {"m": 1, "n": 40000}, {"m": 40000, "n": 3})


@pytest.mark.parametrize("kind", ["sum", "max", "min"])
@pytest.mark.parametrize("axes", [(0,), (1,), (0, 1)])
def test_two_axes(axes: tuple[int, ...], kind: str) -> None:
    g = FunctionBuilder()
    x = g(Tanh, g.input(M, N))
    planned = check(g.finish(g(Reduce, x, axes=axes, kind=kind)), LONG)
    steps = 1 if axes == (1,) else 2  # rows are shared as they are
    assert planned.kinds == ["reduce"] * steps, "tanh is computed where it is reduced"


def test_few_long_rows() -> None:
    g = FunctionBuilder()
    x = g.input(3, N)
    total = g(Reduce, g(Abs, x), axes=(1,))
    assert check(g.finish(total), [{"n": n} for n in (0, 1, 7, 70001)]).kinds == ["reduce", "reduce"]
    g = FunctionBuilder()
    x = g.input(3, N)
    spread = g(BroadcastInDim, g(Reduce, x, axes=(1,)), dimensions=(0,), sizes=(3, N))
    assert check(g.finish(g(Add, x, spread)), [{"n": 70001}]).kinds == ["reduce"], "the row is read again"


def test_a_column_after_what_is_added_to_rows() -> None:
    g = FunctionBuilder()
    x, row = g.input(M, N), g.input(N)
    wide = g(Add, x, g(BroadcastInDim, row, dimensions=(1,), sizes=(M, N)))
    check(g.finish(g(Reduce, wide, axes=(0, 1)), g(Reduce, wide, axes=(0,))), LONG)


def test_a_batch_of_columns_and_scattered_axes() -> None:
    g = FunctionBuilder()
    x = g.input(B, M, N)
    results = [g(Reduce, g(Abs, x), axes=axes) for axes in ((1,), (0, 1), (0, 2), (0, 1, 2))]
    check(g.finish(*results), [{"b": 3, "m": 129, "n": 260}, {"b": 70, "m": 2, "n": 511}, {"b": 2, "m": 0, "n": 3}])


@pytest.mark.parametrize("dtype", [F16, BF16, I32, I64, U8], ids=str)
def test_dtypes(dtype: DType) -> None:
    g = FunctionBuilder()
    x = g.input(M, N, dtype=dtype)
    results = [g(Reduce, x, axes=(0,), kind="max"), g(Reduce, g(Multiply, x, x), axes=(0, 1))]
    check(g.finish(*results), LONG[:3], relative=2e-2 if dtype in (F16, BF16) else 0)


def test_bools() -> None:
    g = FunctionBuilder()
    x = g.input(M, N, dtype=BOOL)
    counted = g(Reduce, g(Convert, x, dtype=I64), axes=(0, 1))
    check(g.finish(g(Reduce, x, axes=(0,), kind="and"), g(Reduce, x, axes=(0, 1), kind="or"), counted), LONG)


def test_bytes_do_not_depend_on_threads() -> None:
    g = FunctionBuilder()
    func = g.finish(g(Reduce, g.input(M, N), axes=(0, 1)), g(Reduce, g.input(M, N), axes=(0,)))
    built = build_objects(module_of(func), ["x", "y"], ConstantStore(), OPTIONS, Trace.from_options(OPTIONS))
    rng = np.random.default_rng(0)
    inputs = [rng.standard_normal((997, 131)).astype(F32.numpy) for _ in range(2)]
    got = [numpy_adaptor.run(load_program(built, threads), inputs) for threads in (1, 2, 3)]
    for other in got[1:]:
        assert [each.tobytes() for each in other] == [each.tobytes() for each in got[0]]
