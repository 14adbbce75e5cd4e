"""Compiled host programs against the interpreter: sizes, strides, views, guards, errors, outputs."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from anyshape.codegen.host import MAIN, emit_program
from anyshape.codegen.mlir import ModuleBuilder
from anyshape.dialects.host import CheckOp, GuardOp, ProgramOp
from anyshape.runtime.abi import DType
from anyshape.support.errors import (
    ArgumentError,
    CodegenError,
    DtypeError,
    GuardError,
    IndexOutOfRange,
    MemoryLimit,
    RankError,
    SingularMatrix,
)
from anyshape.symbolic import Size, size_max, size_min

Array = np.ndarray[Any, Any]
Compile = Callable[..., Any]
N, M = Size.symbol("n"), Size.symbol("m")
F32 = DType.F32


def floats(*shape: int) -> Array:
    return np.random.default_rng(7).standard_normal(shape).astype(np.float32)


def sum_program(draft: Any) -> ProgramOp:
    """out = 2 (x + y), x and y of sizes [n, m]."""
    d = draft([("x", [N, M]), ("y", [N, M])])
    d.bind(0, "n", "m")
    d.guard(1, N, M)
    x, y = d.dense(0), d.dense(1)
    total = d.allocate(N, M)
    d.launch("add", x, y, total, extent=N * M)
    out = d.output(0, N, M)
    d.launch("twice", total, out, extent=N * M)
    return d.finish()


@pytest.mark.parametrize("shape", [(3, 5), (1, 1), (0, 4), (4, 0), (65, 33)])
def test_gives_what_the_interpreter_gives(draft: Any, compile_host: Compile, reference: Any, shape: Any) -> None:
    program = sum_program(draft)
    x, y = floats(*shape), floats(*shape) + 1
    (got,) = compile_host(program, [(F32, 2)])(x, y)
    (expected,) = reference(program, [x, y])
    assert got.shape == shape
    np.testing.assert_array_equal(got, expected)
    np.testing.assert_array_equal(got, 2 * (x + y))


def test_takes_any_strides(draft: Any, compile_host: Compile) -> None:
    run = compile_host(sum_program(draft), [(F32, 2)])
    x, y = floats(6, 8), floats(8, 6)
    for a, b in ((x, y.T), (x[::2, ::-1], y.T[3:, :]), (np.broadcast_to(x[:1], (6, 8)), y.T), (x[:, ::2], y.T[:, ::2])):
        np.testing.assert_array_equal(run(a, b)[0], 2 * (a + b))


def test_copies_strided_arguments_only(draft: Any, compile_host: Compile) -> None:
    run = compile_host(sum_program(draft), [(F32, 2)])
    x, y = floats(4, 6), floats(6, 4).T
    run(x, x)
    run(x, y)
    run(np.empty((0, 6), np.float32)[:, ::2], np.empty((0, 3), np.float32))
    copied = [plan.bytes[:2] for plan in run.plans]
    assert copied == [[0, 0], [0, 96], [0, 0]]


def test_constants_and_sizes_of_kernels(draft: Any, compile_host: Compile, reference: Any) -> None:
    d = draft([("x", [N, M])], constants=2)
    d.bind(0, "n", "m")
    d.append(GuardOp(M.eq(5), "argument 'x' axis 1: got %lld, allowed 5", [M]))
    x, out = d.dense(0), d.output(0, N)
    d.launch("row_dot", x, d.constant(1, 5), out, extent=N, sizes=[M])
    program = d.finish()
    constants = [floats(3), floats(5)]
    run = compile_host(program, [(F32, 1)], constants)
    x = floats(7, 5)
    np.testing.assert_allclose(run(x)[0], x @ constants[1], rtol=1e-5)
    np.testing.assert_allclose(run(x)[0], reference(program, [x], constants)[0], rtol=1e-5)
    with pytest.raises(GuardError, match=r"argument 'x' axis 1: got 6, allowed 5"):
        run(floats(7, 6))


def test_launches_of_the_form_that_the_sizes_choose(draft: Any, compile_host: Compile, reference: Any) -> None:
    """out = 2 x below four elements, and x + 2 x from there on; what follows finds its own buffers either way."""
    d = draft([("x", [N])])
    d.bind(0, "n")
    x, doubled = d.dense(0), d.allocate(N)
    out, other = d.output(0, N), d.output(1, N)
    is_long = size_min(1, size_max(0, N - 3))
    d.launch("twice", x, out, extent=N, when=1 - is_long)
    d.launch("twice", x, doubled, extent=N, when=is_long)
    d.launch("add", x, doubled, out, extent=N, when=is_long)
    d.launch("add", x, out, other, extent=N)
    program = d.finish()
    assert "when <[min(max(n - 3, 0), 1)]>" in str(program)
    run = compile_host(program, [(F32, 1), (F32, 1)])
    for n, factor in ((0, 2), (1, 2), (3, 2), (4, 3), (70, 3)):
        x = floats(n)
        for got in (run(x), reference(program, [x])):
            np.testing.assert_allclose(got[0], factor * x, rtol=1e-6)
            np.testing.assert_allclose(got[1], (factor + 1) * x, rtol=1e-6)


def test_views_share_memory(draft: Any, compile_host: Compile, reference: Any) -> None:
    d = draft([("x", [N, 6])])
    d.bind(0, "n")
    d.guard(0, N, 6)
    x = d.dense(0)
    doubled = d.allocate(N, 6)
    d.launch("twice", x, doubled, extent=6 * N)
    flat = d.view(doubled, 6 * N)
    square = d.view(flat, 2, 3 * N)
    out = d.output(0, 3, 2 * N)
    d.launch("add", square, d.view(x, 6 * N), d.view(out, 6 * N), extent=6 * N)
    program = d.finish()
    x = floats(5, 6)
    (got,) = compile_host(program, [(F32, 2)])(x)
    np.testing.assert_array_equal(got, 3 * x.reshape(3, 10))
    np.testing.assert_array_equal(got, reference(program, [x])[0])


def test_guards_name_argument_axis_got_and_allowed(draft: Any, compile_host: Compile, reference: Any) -> None:
    program = sum_program(draft)
    run = compile_host(program, [(F32, 2)])
    for shape, message in (((2, 5), "axis 0: got 2, expected 3"), ((3, 7), "axis 1: got 7, expected 5")):
        inputs = [floats(3, 5), floats(*shape)]
        with pytest.raises(GuardError) as compiled:
            run(*inputs)
        with pytest.raises(GuardError) as interpreted:
            reference(program, inputs)
        assert str(compiled.value) == str(interpreted.value) == f"argument 'y' {message}"
    np.testing.assert_array_equal(
        run(floats(1, 2), floats(1, 2))[0], 4 * floats(1, 2)
    )  # a failure leaves nothing broken


def test_guard_shows_sizes(draft: Any, compile_host: Compile, reference: Any) -> None:
    d = draft([("x", [N])])
    d.bind(0, "n")
    shown = [N, (N - 8) // 3, (N - 8) % 3, size_max(N, 2) * size_min(N, 4, 9)]
    d.append(GuardOp(Size.of(N % 4).ne(1), "n is %lld: 100%% wrong (%lld, %lld, %lld)", shown))
    d.launch("twice", d.dense(0), d.output(0, N), extent=N)
    program = d.finish()
    run = compile_host(program)
    for n in (1, 5, 13):
        with pytest.raises(GuardError) as compiled:
            run(floats(n))
        with pytest.raises(GuardError) as interpreted:
            reference(program, [floats(n)])
        values = ((n - 8) // 3, (n - 8) % 3, max(n, 2) * min(n, 4, 9))
        assert str(compiled.value) == f"n is {n}: 100% wrong {values}"
        assert str(interpreted.value) == str(compiled.value)
    np.testing.assert_array_equal(run(floats(12))[0], 2 * floats(12))


@pytest.mark.parametrize(("error", "kind"), [("guard", GuardError), ("singular", SingularMatrix)])
def test_checks_of_data(draft: Any, compile_host: Compile, reference: Any, error: str, kind: type[GuardError]) -> None:
    d = draft([("x", [N]), ("index", [])], sites=[])
    d.bind(0, "n")
    number = d.dense(1)
    d.append(CheckOp(number, error, "100%% wrong: %lld and %lld\n  got:      %lld", [number] * 3))
    d.launch("twice", d.dense(0), d.output(0, N), extent=N)
    program = d.finish()
    run, x = compile_host(program), floats(3)
    for value in (-1, 7, 2**40):
        inputs = [x, np.array(value)]
        for call in (run, lambda *inputs: reference(program, inputs)):
            with pytest.raises(kind) as caught:
                call(*inputs)
            assert type(caught.value) is kind
            assert (caught.value.message, caught.value.got) == (f"100% wrong: {value} and {value}", str(value))
    np.testing.assert_array_equal(run(x, np.array(0))[0], 2 * x)


@pytest.mark.parametrize(
    ("relation", "allowed"), [(N.lt(3), [0, 2]), (N.le(3), [0, 3]), (N.eq(M), [4]), (N.ne(M), [3])]
)
def test_every_relation(draft: Any, compile_host: Compile, relation: Any, allowed: list[int]) -> None:
    d = draft([("x", [N]), ("y", [M])])
    d.bind(0, "n")
    d.bind(1, "m")
    d.append(GuardOp(relation, "refused", []))
    d.launch("twice", d.dense(0), d.output(0, N), extent=N)
    run = compile_host(d.finish())
    y = floats(4)
    for n in range(6):
        if relation.evaluate({"n": n, "m": 4}):
            run(floats(n), y)
        else:
            assert n not in allowed
            with pytest.raises(GuardError, match=r"^refused$"):
                run(floats(n), y)


def test_kernel_errors_end_the_call(draft: Any, compile_host: Compile, reference: Any) -> None:
    d = draft([("x", [M]), ("index", [N])], sites=["model.py:3: index %lld is outside an axis of size %lld"])
    d.bind(0, "m")
    d.bind(1, "n")
    picked = d.allocate(N)
    d.launch("pick", d.dense(0), d.dense(1), picked, extent=N, sizes=[M])
    d.launch("twice", picked, d.output(0, N), extent=N)
    program = d.finish()
    run = compile_host(program)
    table = floats(5)
    np.testing.assert_array_equal(run(table, np.array([4, 0]))[0], 2 * table[[4, 0]])
    with pytest.raises(IndexOutOfRange, match=r"model\.py:3: index 5 is outside an axis of size 5"):
        run(table, np.array([0, 5, 1]))
    with pytest.raises(IndexOutOfRange, match=r"model\.py:3: index 5 is outside an axis of size 5"):
        reference(program, [table, np.array([0, 5, 1])])


def test_sizes_that_do_not_fit_are_refused(draft: Any, compile_host: Compile) -> None:
    d = draft([("x", [N]), ("y", [M])])
    d.bind(0, "n")
    d.bind(1, "m")
    d.launch("twice", d.dense(0), d.allocate(N, M, M, 2**20), extent=1)
    d.launch("twice", d.dense(0), d.output(0, N), extent=N)
    run = compile_host(d.finish())
    one = np.ones(1, np.float32)
    many = np.broadcast_to(one, 2**21)
    with pytest.raises(MemoryLimit, match="does not fit 64 bits"):  # 2**(21 + 42 + 20 + 2) bytes
        run(many, many)
    with pytest.raises(MemoryLimit, match="arena"):  # fits, but no machine has 2**(21 + 20 + 20 + 2) bytes
        run(np.broadcast_to(one, 2**10), np.broadcast_to(one, 2**14))
    np.testing.assert_array_equal(run(one, one)[0], [2])


def test_negative_sizes_are_refused(draft: Any, compile_host: Compile, reference: Any) -> None:
    d = draft([("x", [N])])
    d.bind(0, "n")
    d.launch("twice", d.dense(0), d.output(0, N - 3, N - 4), extent=1)
    program = d.finish()
    run = compile_host(program, [(F32, 2)])
    assert run(floats(4))[0].shape == (1, 0)
    with pytest.raises(
        MemoryLimit, match="would have the size -3"
    ):  # -2 times -3 is positive, and no size all the same
        run(floats(1))
    with pytest.raises(MemoryLimit, match="negative"):
        reference(program, [floats(1)])


def test_division_by_a_symbol_that_is_zero_does_not_trap(draft: Any, compile_host: Compile) -> None:
    d = draft([("x", [N]), ("y", [M])])
    d.bind(0, "n")
    d.bind(1, "m")
    d.append(GuardOp(M.ne(0), "argument 'y' axis 0: got %lld, must not be 0", [M]))
    d.append(GuardOp((N // M).le(3), "n is too large: %lld", [N % M]))
    d.launch("twice", d.dense(0), d.output(0, N), extent=N)
    run = compile_host(d.finish())
    np.testing.assert_array_equal(run(floats(6), floats(2))[0], 2 * floats(6))
    with pytest.raises(GuardError, match="got 0, must not be 0"):
        run(floats(6), floats(0))


def test_outputs_are_the_callers(draft: Any, compile_host: Compile) -> None:
    d = draft([("x", [N, M])])
    d.bind(0, "n", "m")
    x = d.dense(0)
    d.launch("twice", x, second := d.output(1, M, N), extent=N * M)
    d.launch("add", x, d.view(second, N, M), d.output(0, N, M), extent=N * M)
    run = compile_host(d.finish(), [(F32, 2), (F32, 2)])
    x = floats(2, 3)
    made: dict[int, Array] = {}
    asked: list[Any] = []

    def allocate(index: int, dtype: int, sizes: list[int], strides: list[int]) -> int:
        asked.append((index, dtype, sizes, strides))
        made[index] = np.full(sizes, np.nan, np.float32)
        return made[index].ctypes.data

    view = (x.ctypes.data, x.shape, (3, 1), F32)
    run.program.run([view], allocate)
    assert asked == [(1, F32, [3, 2], [2, 1]), (0, F32, [2, 3], [3, 1])]
    np.testing.assert_array_equal(made[0], 3 * x)
    np.testing.assert_array_equal(made[1], 2 * x.reshape(3, 2))
    with pytest.raises(MemoryLimit, match="output 1: the caller could not allocate 24 bytes"):
        run.program.run([view], lambda *_: 0)
    run.program.run([(x.ctypes.data, (0, 3), (3, 1), F32)], lambda *_: 0)  # no elements, no memory


def test_descriptor_describes_the_program(draft: Any, compile_host: Compile) -> None:
    run = compile_host(sum_program(draft), [(F32, 2)])
    assert [(a.name, a.dtype, a.rank) for a in run.program.inputs] == [("x", F32, 2), ("y", F32, 2)]
    assert [(a.dtype, a.rank) for a in run.program.outputs] == [(F32, 2)]
    with pytest.raises(DtypeError, match="x"):
        run(floats(2, 2).astype(np.float64), floats(2, 2))
    with pytest.raises(RankError, match="y"):
        run(floats(2, 2), floats(2))
    with pytest.raises(ArgumentError):
        run(floats(2, 2))


def test_misfits_are_refused_when_emitting(draft: Any) -> None:
    program = sum_program(draft)
    for outputs, constants, message in (
        ([], [], "outputs"),
        ([(F32, 2)], [(4, 0)], "constants"),
    ):
        with pytest.raises(CodegenError, match=message), ModuleBuilder("p") as module:
            emit_program(module, program, outputs=outputs, constants=constants)
    d = draft([("x", [])], constants=1)
    d.launch("twice", d.constant(0), d.output(0), extent=1)
    with pytest.raises(CodegenError, match="multiple of 64"), ModuleBuilder("p") as module:
        emit_program(module, d.finish(), outputs=[(F32, 0)], constants=[(4, 32)])


def test_code_stays_small(draft: Any) -> None:
    """A launch that changes one buffer stores one pointer, and repeats no constant table."""
    texts: list[str] = []
    for launches in (1, 21):
        d = draft([("x", [N])])
        d.bind(0, "n")
        x = d.dense(0)
        previous = x
        for _ in range(launches):
            d.launch("add", x, previous, following := d.allocate(N), extent=N)
            previous = following
        d.launch("twice", previous, d.output(0, N), extent=N)
        with ModuleBuilder("p") as module:
            emit_program(module, d.finish(), outputs=[(F32, 1)], constants=[])
        texts.append(str(module))
    assert f"@{MAIN}(" in texts[0]
    stores = [text.count("llvm.store") for text in texts]
    assert stores[1] - stores[0] == 20 * 3  # its bytes, its input and its output
    products = [text.count("smul.with.overflow") for text in texts]
    assert products[0] == products[1] == 1
