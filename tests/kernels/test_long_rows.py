"""The second form of groups that reduce rows: what it launches and moves, and that it computes the same at every length."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pytest
from xdsl.dialects.func import FuncOp
from xdsl.ir import SSAValue
from xdsl.parser import Parser

from anyshape.dialects.context import new_context
from anyshape.dialects.dhlo import (
    Abs,
    ArgMax,
    Array,
    BroadcastInDim,
    ConstantStore,
    Convert,
    Divide,
    Exponential,
    LayerNorm,
    LogSoftmax,
    Multiply,
    Reduce,
    RmsNorm,
    Softmax,
)
from anyshape.dialects.dhlo.graph import FunctionBuilder
from anyshape.dialects.dtypes import F16, F32, I32, DType
from anyshape.dialects.host import LaunchOp
from anyshape.dialects.sizes import numel
from anyshape.dialects.tile import LoadOp, buffer_of
from anyshape.driver.build import build_objects, load_program
from anyshape.fusion import RowLimits
from anyshape.fusion.long_rows import CHUNK
from anyshape.runtime import numpy_adaptor
from anyshape.support.machine import Machine
from anyshape.support.trace import Trace
from anyshape.symbolic import Facts, Size
from tests.kernels.harness import OPTIONS, Planned, assert_same, check, compiled, module_of, plan

M, N = Size.symbol("m"), Size.symbol("n")
ALWAYS = RowLimits(cached=0, busy=1, shared=0)
LENGTHS = (0, 1, 2, CHUNK - 1, CHUNK, CHUNK + 1, 2 * CHUNK, 5 * CHUNK + 77)
Graph = Callable[[FunctionBuilder, SSAValue], SSAValue]
Oracle = Callable[[Array], Array]


def _softmax(x: Array) -> Array:
    weights = np.exp(x - x.max(1, keepdims=True, initial=-np.inf))
    return weights / weights.sum(1, keepdims=True)


def _log_sum(x: Array) -> Array:
    top = x.max(1, keepdims=True, initial=-np.inf)
    return x - top - np.log(np.exp(x - top).sum(1, keepdims=True))


def _normal(x: Array) -> Array:
    centred = x - x.sum(1, keepdims=True) / x.shape[1]
    return centred / np.sqrt(np.square(centred).sum(1, keepdims=True) / np.float64(x.shape[1]) + 1e-5)


CASES: Mapping[str, tuple[Graph, Oracle, int]] = {
    "softmax": (lambda g, x: g(Softmax, x, axis=1), _softmax, 1),
    "log_softmax": (lambda g, x: g(LogSoftmax, x, axis=1), _log_sum, 1),
    "layer_norm": (lambda g, x: g(LayerNorm, x, axes=(1,), epsilon=1e-5), _normal, 1),
    "rms_norm": (
        lambda g, x: g(RmsNorm, x, axes=(1,), epsilon=1e-5),
        lambda x: x / np.sqrt(np.square(x).sum(1, keepdims=True) / np.float64(x.shape[1]) + 1e-5),
        1,
    ),
    "sum": (lambda g, x: g(Reduce, x, axes=(1,)), lambda x: x.sum(1), 1),
    "maximum": (
        lambda g, x: g(Reduce, g(Abs, x), axes=(1,), kind="max"),
        lambda x: np.abs(x).max(1, initial=-np.inf),
        1,
    ),
    "argmax": (lambda g, x: g(ArgMax, x, axis=1), lambda x: x.argmax(1), 2),
}
"""Of each graph the same in f64, and how many rounds of partial results it takes."""


def function(graph: Graph, dtype: DType = F32) -> FuncOp:
    g = FunctionBuilder()
    return g.finish(graph(g, g.input(M, N, dtype=dtype)))


def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every call use the second form."""
    monkeypatch.setattr(RowLimits, "of", staticmethod(lambda machine: ALWAYS))


def rows_of(m: int, n: int, seed: int) -> Array:
    return (3 * np.random.default_rng(seed).standard_normal((m, n)) + 1).astype(np.float32)


def launched(planned: Planned, env: Mapping[str, int]) -> list[LaunchOp]:
    """The launches of a call."""
    ops = [op for op in planned.program.body.block.ops if isinstance(op, LaunchOp)]
    return [op for op in ops if op.condition.evaluate(env) == 1]


def elements_read(planned: Planned, env: Mapping[str, int]) -> int:
    """Elements of the argument that a call's kernels read from memory: all of it in each kernel that reads it."""
    total = 0
    for op in launched(planned, env):
        kernel = planned.kernels[op.kernel_name]
        loaded = {load.buffer for load in kernel.walk() if isinstance(load, LoadOp)}
        for value, buffer in zip(op.read, kernel.body.block.args, strict=False):
            if buffer in loaded:
                size = numel(buffer_of(value).sizes.data).evaluate(env)
                total += size if size >= env["m"] * env["n"] else 0
    return total


@pytest.mark.parametrize("name", CASES)
def test_every_length(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    graph, oracle, _ = CASES[name]
    always(monkeypatch)
    func = function(graph)
    ways = {"plans": plan(func, limits=ALWAYS).run, "compiled": compiled(func)}
    for n in LENGTHS if name != "argmax" else LENGTHS[1:]:
        for m in (1, 3):
            x = rows_of(m, n, n)
            with np.errstate(all="ignore"):
                exact = np.asarray(oracle(x.astype(np.float64)))
                wanted = exact if exact.dtype.kind == "i" else exact.astype(np.float32)
                for way, run in ways.items():
                    if way == "compiled" or n < 3 * CHUNK:
                        assert_same(run([x]), [wanted], f"{name} {way} at {m}×{n}", 2e-6)


@pytest.mark.parametrize("name", CASES)
def test_a_call_reads_each_row_as_often_as_there_are_rounds_and_results(name: str) -> None:
    graph, _, rounds = CASES[name]
    planned = plan(function(graph))
    kernels = {True: 2 * rounds + 1, False: 2 * rounds}[name not in ("sum", "maximum", "argmax")]
    env = {"m": 2, "n": 1 << 20}
    assert len(launched(planned, env)) == kernels
    assert elements_read(planned, env) == (kernels + 1) // 2 * 2 * (1 << 20)
    assert len(launched(planned, {"m": 2, "n": 1000})) == len(launched(planned, {"m": 4096, "n": 4096})) == 1


def test_limits() -> None:
    limits = RowLimits.of(Machine(l2=1 << 20, l3=1 << 25, cores=4))
    long, few = 1 << 20, limits.shared

    def form(rows: int, row: int, *, reads_again: bool = True) -> int:
        return limits.passed(M, N, reads_again=reads_again).evaluate({"m": rows, "n": row})

    assert [form(1000, n) for n in (0, few, long - 1, long)] == [0, 0, 0, 1]
    assert [form(m, few) for m in (0, 1, 3, 4)] == [1, 1, 1, 0]
    assert form(1, few - 1) == 0, "a row that one thread has done at once"
    assert form(1000, long, reads_again=False) == 0, "rows that are read once are shared as they are"


def test_static_rows_that_fit_have_one_form() -> None:
    g = FunctionBuilder()
    planned = plan(g.finish(g(LayerNorm, g.input(M, 384), axes=(1,), epsilon=1e-5)))
    assert planned.fusions[0].other is None
    g = FunctionBuilder()
    assert plan(g.finish(g(Softmax, g.input(M, N), axis=1))).fusions[0].other is not None


def test_both_forms_are_text() -> None:
    planned = plan(function(CASES["layer_norm"][0]))
    for text in (str(planned.func), str(planned.program)):
        parsed = Parser(new_context(), text).parse_op()
        assert str(parsed) == text and "when <[" in text
        parsed.verify()


def test_rows_of_several_axes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Images normalised whole, weights of their channels repeated along the others."""
    always(monkeypatch)
    g = FunctionBuilder()
    x, weight = g.input(M, 3, N, 5), g.input(3)
    normal = g(LayerNorm, x, axes=(1, 2, 3), epsilon=1e-5)
    func = g.finish(g(Multiply, normal, g(BroadcastInDim, weight, dimensions=(1,), sizes=(M, 3, N, 5))))
    check(func, [{"m": 2, "n": n} for n in (0, 1, 273, 274)], relative=2e-5)
    kinds = [each.kind.data for each in plan(func, limits=ALWAYS).fusions[0].fusions[1:]]
    assert kinds == ["reduce", "reduce", "flat"]


def test_rows_that_a_fact_bounds_have_one_form() -> None:
    facts = Facts()
    facts.assume(N.le(512))
    g = FunctionBuilder(facts=facts)
    assert plan(g.finish(g(Softmax, g.input(M, N), axis=1))).fusions[0].other is None


def test_static_rows_that_no_cache_holds_have_the_second_form_only() -> None:
    g = FunctionBuilder()
    planned = check(g.finish(g(Softmax, g.input(M, 1 << 17), axis=1)), [{"m": m} for m in (0, 1, 2)])
    assert planned.kinds == ["reduce", "reduce", "flat"]
    assert all(op.when is None for op in planned.program.body.block.ops if isinstance(op, LaunchOp))


def test_what_is_before_and_behind_a_softmax(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is computed again in each pass, not written and read."""
    g = FunctionBuilder()
    x, row = g.input(M, N, dtype=F16), g.input(N)
    scaled = g(Multiply, g(Convert, x, dtype=F32), g(BroadcastInDim, row, dimensions=(1,), sizes=(M, N)))
    func = g.finish(g(Convert, g(Softmax, scaled, axis=1), dtype=F16))
    always(monkeypatch)
    check(func, [{"m": 2, "n": n} for n in (0, 1, CHUNK + 3)], relative=1e-3)
    planned = plan(func, limits=ALWAYS)
    assert planned.kinds == ["reduce"]
    assert [each.kind.data for each in planned.fusions[0].fusions[1:]] == ["reduce", "reduce", "flat"]


def test_a_chain_that_no_law_shortens(monkeypatch: pytest.MonkeyPatch) -> None:
    """max, then a weighted sum around it, then its spread: each round needs the one before."""
    g = FunctionBuilder()
    x = g.input(M, N)
    weights = g(Exponential, g(Divide, x, spread(g, g(Reduce, x, axes=(1,), kind="max"))))
    total = g(Reduce, weights, axes=(1,))
    func = g.finish(g(Divide, weights, spread(g, total)), total)
    always(monkeypatch)
    check(func, [{"m": m, "n": n} for m, n in ((1, 1), (2, CHUNK + 1))])
    kinds = [each.kind.data for each in plan(func, limits=ALWAYS).fusions[0].fusions[1:]]
    assert kinds == ["reduce"] * 4 + ["flat"]


def spread(g: FunctionBuilder, value: SSAValue) -> SSAValue:
    return g(BroadcastInDim, value, dimensions=(0,), sizes=(M, N))


@pytest.mark.parametrize("kind", ["sum", "max", "min"])
def test_integers(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    always(monkeypatch)
    check(
        function(lambda g, x: g(Reduce, x, axes=(1,), kind=kind), I32),
        [{"m": 3, "n": n} for n in (0, 1, 2 * CHUNK + 5)],
    )


def test_infinities_and_nan(monkeypatch: pytest.MonkeyPatch) -> None:
    """A chunk of −∞ has no part in a sum; ∞ and NaN reach all of their row, as in one pass."""
    always(monkeypatch)
    n = 3 * CHUNK + 5
    x = rows_of(7, n, 3)
    x[0, :CHUNK] = x[1] = -np.inf
    x[2, 2 * CHUNK :] = -np.inf
    x[3, CHUNK + 1], x[4, 7], x[5, n - 1] = np.inf, np.nan, np.nan
    x[6] -= 3000  # far below 0: nothing may overflow
    for name in ("softmax", "log_softmax", "layer_norm", "maximum"):
        graph, oracle, _ = CASES[name]
        with np.errstate(all="ignore"):
            exact = oracle(x.astype(np.float64)).astype(np.float32)
        assert_same(compiled(function(graph))([x]), [exact], name, 2e-5)


def test_a_mean_far_from_zero(monkeypatch: pytest.MonkeyPatch) -> None:
    """The variance of numbers that are large beside it: sums of squares would lose it."""
    always(monkeypatch)
    x = rows_of(2, 6 * CHUNK + 9, 5) + np.float32(3000)
    graph, oracle, _ = CASES["layer_norm"]
    assert_same(compiled(function(graph))([x]), [oracle(x.astype(np.float64)).astype(np.float32)], "mean 3001", 2e-4)


def test_bytes_do_not_depend_on_threads() -> None:
    graphs: Sequence[Graph] = [CASES[name][0] for name in ("softmax", "layer_norm")]
    x = rows_of(1, 40 * CHUNK + 3, 0)
    for graph in graphs:
        func = function(graph)
        built = build_objects(module_of(func), ["x"], ConstantStore(), OPTIONS, Trace.from_options(OPTIONS))
        results = {numpy_adaptor.run(load_program(built, threads), [x])[0].tobytes() for threads in (1, 2, 3)}
        assert len(results) == 1
