"""Programs from Python: loader, adaptors, constants files, errors, threads."""

import ctypes
import gc
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from anyshape.runtime import loader, numpy_adaptor
from anyshape.runtime.abi import ABI, Argument, DType
from anyshape.runtime.loader import Program, Runtime, include_directory, source_files
from anyshape.support.errors import (
    AnyshapeError,
    ArgumentError,
    ArtifactError,
    DtypeError,
    GuardError,
    IndexOutOfRange,
    MemoryLimit,
    RankError,
)

TABLE, SCALE = np.array([1, 2, 3, 5, 8], np.float32), np.array([0.5], np.float32)


@pytest.fixture(scope="module")
def address(programs: ctypes.CDLL) -> Callable[[str], int]:
    return lambda name: ctypes.addressof(ctypes.c_char.in_dll(programs, name))


@pytest.fixture(scope="module", params=[1, 2])
def model(request: pytest.FixtureRequest, address: Callable[[str], int]) -> Program:
    return Program(address("model"), [TABLE, SCALE], request.param)


def expected(x: np.ndarray, index: np.ndarray) -> np.ndarray:
    return (x + TABLE[index][:, None]) * SCALE


def arguments(rows: int, columns: int) -> tuple[np.ndarray, np.ndarray]:
    x = np.arange(rows * columns, dtype=np.float32).reshape(rows, columns)
    return x, np.arange(rows, dtype=np.int64) % 5


def test_the_descriptor_is_read(model: Program) -> None:
    assert model.inputs == (Argument("x", DType.F32, 2), Argument("index", DType.I64, 1))
    assert model.outputs == (Argument("y", DType.F32, 2),)


@pytest.mark.parametrize(("rows", "columns"), [(0, 3), (3, 0), (1, 1), (7, 5), (1000, 33)])
def test_any_size_runs(model: Program, rows: int, columns: int) -> None:
    x, index = arguments(rows, columns)
    (y,) = numpy_adaptor.run(model, [x, index])
    assert y.flags.c_contiguous
    np.testing.assert_array_equal(y, expected(x, index))


def test_inputs_may_have_any_strides(model: Program) -> None:
    x, index = arguments(12, 40)
    row = np.broadcast_to(x[:1], (9, 40))
    misaligned = np.frombuffer(b"\0" + x.tobytes(), np.uint8)[1:].view(np.float32).reshape(x.shape)
    records = np.zeros(12, np.dtype([("skip", "u1"), ("index", "i8")]))
    records["index"] = index
    for a, i in (
        (x[::-2, 1::3], index[::-2]),
        (x.T, np.zeros(40, np.int64)),
        (row, index[:9]),
        (misaligned, records["index"]),
    ):
        (y,) = numpy_adaptor.run(model, [a, i])
        np.testing.assert_array_equal(y, expected(a, i))


def test_every_dtype_passes_through(address: Callable[[str], int]) -> None:
    program = Program(address("copies"), [], 1)
    inputs = [np.arange(5).astype(dtype) for dtype in numpy_adaptor.NUMPY_DTYPES.values()]
    for given, got in zip(inputs, numpy_adaptor.run(program, inputs), strict=True):
        assert got.dtype == given.dtype
        np.testing.assert_array_equal(got, given)


BAD_CALLS: list[tuple[list[np.ndarray], type[AnyshapeError], type[Exception], str]] = [
    ([np.zeros((2, 3), np.float32)], ArgumentError, TypeError, "got 1 inputs, expected 2"),
    ([np.zeros((2, 3)), np.zeros(2, np.int64)], DtypeError, TypeError, r"input 0 \('x'\): got dtype f64, expected f32"),
    (
        [np.zeros((2, 3), np.float32), np.zeros((2, 1), np.int64)],
        RankError,
        ValueError,
        r"\('index'\): got rank 2, expected 1",
    ),
    ([np.zeros((2, 3), np.float32), np.zeros(3, np.int64)], GuardError, ValueError, "axis 0: got size 3, expected 2"),
    (
        [np.zeros((2, 3), np.float32), np.array([0, 5])],
        IndexOutOfRange,
        IndexError,
        r"model.py:12: index 5 out of range \[0, 5\)",
    ),
    ([np.zeros((2, 3), np.float32), np.array([-1, 0])], IndexOutOfRange, IndexError, r"index -1 out of range"),
    ([np.zeros((2, 3), ">f4"), np.zeros(2, np.int64)], DtypeError, TypeError, "programs do not take this dtype"),
]


@pytest.mark.parametrize(("inputs", "kind", "builtin", "message"), BAD_CALLS)
def test_bad_inputs_are_typed_errors_and_break_nothing(
    model: Program, inputs: list[np.ndarray], kind: type[AnyshapeError], builtin: type[Exception], message: str
) -> None:
    with pytest.raises(kind, match=message) as caught:
        numpy_adaptor.run(model, inputs)
    assert isinstance(caught.value, builtin)
    x, index = arguments(4, 4)
    np.testing.assert_array_equal(numpy_adaptor.run(model, [x, index])[0], expected(x, index))


def test_null_data_and_negative_sizes_are_refused(model: Program) -> None:
    index = np.zeros(2, np.int64)
    good = (index.ctypes.data, (2,), (1,), DType.I64)
    with pytest.raises(ArgumentError, match=r"input 0 \('x'\): got a null pointer"):
        model.run([(0, (2, 3), (3, 1), DType.F32), good], lambda *_: 0)
    with pytest.raises(ArgumentError, match=r"input 0 \('x'\), axis 1: negative size -3"):
        model.run([(index.ctypes.data, (2, -3), (3, 1), DType.F32), good], lambda *_: 0)


def test_what_the_allocation_raises_comes_out_unchanged(model: Program) -> None:
    x, index = arguments(2, 3)
    views = [(x.ctypes.data, (2, 3), (3, 1), DType.F32), (index.ctypes.data, (2,), (1,), DType.I64)]

    def refuse(*_: object) -> int:
        raise KeyboardInterrupt("stop")

    with pytest.raises(KeyboardInterrupt, match="stop"):
        model.run(views, refuse)
    with pytest.raises(MemoryLimit, match="output 0 could not be allocated"):
        model.run(views, lambda *_: 0)


def test_outputs_are_allocated_before_calls_whose_inputs_have_the_sizes_of_the_last(
    address: Callable[[str], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """C asks Python for an output only where it cannot be known: at new sizes, and where data say sizes."""
    program = Program(address("head"), [], 1)
    from_c: list[int] = []
    asked = loader._Asked.__call__

    def counted(self: loader._Asked, *arguments: int) -> None:
        from_c.append(arguments[1])
        asked(self, *arguments)

    monkeypatch.setattr(loader._Asked, "__call__", counted)
    known = [(8, 3, 1), (8, 3, 0), (9, 3, 1), (9, 3, 0), (0, 0, 1), (0, 0, 0), (9, 3, 1)]
    for length, count, callbacks in [*known, (9, 5, 1), (9, 5, 1), (8, 3, 1)]:
        x = np.arange(length, dtype=np.float32) + len(from_c)
        before = len(from_c)
        (y,) = numpy_adaptor.run(program, [x, np.array(count)])
        np.testing.assert_array_equal(y, x[:count])
        assert len(from_c) - before == callbacks, (length, count)


def test_an_output_is_the_callers_own(model: Program) -> None:
    x, index = arguments(3, 4)
    first, second, third = (numpy_adaptor.run(model, [x + add, index])[0] for add in (0, 1, 2))
    for add, y in enumerate((first, second, third)):
        np.testing.assert_array_equal(y, expected(x + add, index))


def test_what_is_expected_survives_calls_that_fail(address: Callable[[str], int]) -> None:
    program = Program(address("head"), [], 1)
    x = np.arange(8, dtype=np.float32)

    def refuse(*_: object) -> int:
        raise KeyboardInterrupt("stop")

    views = [(x.ctypes.data, (8,), (1,), DType.F32), (np.array(3).ctypes.data, (), (), DType.I64)]
    for _ in range(2):
        np.testing.assert_array_equal(numpy_adaptor.run(program, [x, np.array(3)])[0], x[:3])
        with pytest.raises(GuardError, match="9 is too many"):
            numpy_adaptor.run(program, [x, np.array(9)])
        with pytest.raises(KeyboardInterrupt, match="stop"):
            program.run(views, refuse)
        with pytest.raises(RankError):
            numpy_adaptor.run(program, [x[None], np.array(3)])


def test_an_expected_output_that_does_not_fit_in_memory_is_not_missed(address: Callable[[str], int]) -> None:
    """Data say its size, and may say less this time."""
    program = Program(address("head"), [], 1)
    x, count, y = np.arange(8, dtype=np.float32), np.array(6), np.zeros(6, np.float32)
    views = [(x.ctypes.data, (8,), (1,), DType.F32), (count.ctypes.data, (), (), DType.I64)]

    def run(room: int) -> None:
        def allocate(_index: int, _dtype: int, sizes: list[int], _strides: list[int]) -> int:
            if sizes[0] > room:
                raise MemoryLimit("full")
            return y.ctypes.data

        program.run(views, allocate)

    for room, wanted in ((6, 6), (3, 2), (3, 3)):
        count[...] = wanted
        run(room)
        np.testing.assert_array_equal(y[:wanted], x[:wanted])
    with pytest.raises(MemoryLimit, match="full"):
        run(1)


def test_a_run_within_the_allocation_of_another(model: Program) -> None:
    x, index = arguments(6, 4)
    inner: list[np.ndarray] = []
    out = np.empty((6, 4), np.float32)

    def allocate(_index: int, _dtype: int, sizes: list[int], strides: list[int]) -> int:
        assert (sizes, strides) == ([6, 4], [4, 1])
        inner.extend(numpy_adaptor.run(model, [x + 1000, index]))
        return out.ctypes.data

    model.run([(x.ctypes.data, (6, 4), (4, 1), DType.F32), (index.ctypes.data, (6,), (1,), DType.I64)], allocate)
    np.testing.assert_array_equal(out, expected(x, index))
    np.testing.assert_array_equal(inner[0], expected(x + 1000, index))


def test_threads_run_one_program_at_different_sizes(model: Program) -> None:
    failures: list[BaseException] = []

    def work(rows: int) -> None:
        try:
            for columns in range(1, 60):
                x, index = arguments(rows, columns)
                np.testing.assert_array_equal(numpy_adaptor.run(model, [x, index])[0], expected(x, index))
        except BaseException as error:
            failures.append(error)

    workers = [threading.Thread(target=work, args=(rows,)) for rows in (1, 17, 64, 300)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not failures


EXIT_SCRIPT = """
import ctypes, random, sys, threading
from pathlib import Path
import numpy as np
from anyshape.runtime import numpy_adaptor
from anyshape.runtime.loader import Program

library = ctypes.CDLL(sys.argv[1])
program = Program.open(ctypes.addressof(ctypes.c_char.in_dll(library, "model")), Path(sys.argv[2]), int(sys.argv[3]))
arrays = [[np.ones((rows, 200), np.float32), np.arange(rows) % 5] for rows in (3, 5000)]
calls = threading.Semaphore(0)

def call_on():
    while True:
        numpy_adaptor.run(program, random.choice(arrays))
        calls.release()

for _ in range(4):
    threading.Thread(target=call_on, daemon=True).start()
for _ in range(50):
    calls.acquire()
"""


@pytest.mark.parametrize("threads", [1, 2])
def test_a_process_ends_while_daemon_threads_run_a_program(programs_path: Path, tmp_path: Path, threads: int) -> None:
    """What they use is neither destroyed nor unmapped below them."""
    path = tmp_path / "constants.bin"
    path.write_bytes(TABLE.tobytes().ljust(64, b"\0") + SCALE.tobytes())
    for _ in range(4):
        command = [sys.executable, "-c", EXIT_SCRIPT, str(programs_path), str(path), str(threads)]
        ended = subprocess.run(command, capture_output=True, text=True, timeout=60)
        assert ended.returncode == 0, ended.stderr


def test_contexts_go_with_their_program(
    address: Callable[[str], int], monkeypatch: pytest.MonkeyPatch, ral: Runtime
) -> None:
    destroyed: list[int] = []
    destroy = ral.library.ral_context_destroy
    monkeypatch.setattr(
        ral.library, "ral_context_destroy", lambda context: (destroyed.append(context), destroy(context))
    )
    gc.disable()
    try:
        for count in range(1, 51):
            program = Program(address("model"), [TABLE, SCALE], 2)
            numpy_adaptor.run(program, list(arguments(20, 20)))
            del program
            assert len(destroyed) == count
    finally:
        gc.enable()


def test_outputs_may_be_asked_for_with_any_strides() -> None:
    """The shape and strides of the array are those asked for, over memory of its own."""
    for sizes, strides in [((2, 3), (1, 2)), ((2, 3), (5, 1)), ((), ()), ((0, 4), (4, 1)), ((3,), (7,))]:
        array = numpy_adaptor._empty_strided(sizes, strides, np.dtype(np.int16))
        array[...] = 7
        assert array.shape == sizes
        if 0 not in sizes:
            assert array.strides == tuple(2 * stride for stride in strides)
            assert array.size == 0 or np.all(array == 7)


# ---- constants ----


def test_constants_are_mapped_from_a_file(address: Callable[[str], int], tmp_path: Path) -> None:
    path = tmp_path / "constants.bin"
    path.write_bytes(TABLE.tobytes().ljust(64, b"\0") + SCALE.tobytes())
    program = Program.open(address("model"), path, 2)
    x, index = arguments(5, 3)
    np.testing.assert_array_equal(numpy_adaptor.run(program, [x, index])[0], expected(x, index))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "needs 20 bytes from offset 0, the file has 0 bytes"),
        (b"\0" * 64, "constant 1 needs 4 bytes from offset 64, the file has 64 bytes"),
        (b"\0" * 67, "constant 1 needs 4 bytes from offset 64, the file has 67 bytes"),
        (None, "cannot open"),
    ],
)
def test_a_wrong_constants_file_is_refused(
    address: Callable[[str], int], tmp_path: Path, content: bytes | None, message: str
) -> None:
    path = tmp_path / "constants.bin"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ArtifactError, match=message) as caught:
        Program.open(address("model"), path, 1)
    assert str(path) in str(caught.value)


def test_a_folder_is_no_constants_file(address: Callable[[str], int], tmp_path: Path) -> None:
    with pytest.raises(ArtifactError, match="not a regular file"):
        Program.open(address("model"), tmp_path, 1)


@pytest.mark.parametrize(
    "constants", [[TABLE], [TABLE, SCALE, SCALE], [TABLE[:4], SCALE], [np.repeat(TABLE, 2)[::2], SCALE]]
)
def test_constants_must_fit_the_descriptor(address: Callable[[str], int], constants: list[Any]) -> None:
    with pytest.raises(ArtifactError):
        Program(address("model"), constants, 1)


# ---- loading ----


def test_a_program_of_another_abi_is_refused(address: Callable[[str], int], ral: Runtime) -> None:
    with pytest.raises(ArtifactError, match=f"ABI {ABI + 1}"):
        Program(address("model_of_another_abi"), [TABLE, SCALE], 1)
    context = ral.create_context(1)
    call = (ctypes.c_char * 32)()
    code = ral.library.ral_run(context, address("model_of_another_abi"), None, ctypes.addressof(call))
    assert isinstance(ral.error(context), ArtifactError)
    assert code == 7
    ral.library.ral_context_destroy(context)


def test_a_missing_library_says_how_to_build_it(tmp_path: Path) -> None:
    with pytest.raises(ArtifactError, match="build_ext --inplace"):
        Runtime(tmp_path / "_ral.so")
    (tmp_path / "_ral.so").write_bytes(b"not a library")
    with pytest.raises(ArtifactError, match="cannot be loaded"):
        Runtime(tmp_path / "_ral.so")


def test_negative_threads_are_refused(ral: Runtime, address: Callable[[str], int]) -> None:
    with pytest.raises(ArgumentError, match="threads"):
        Program(address("model"), [TABLE, SCALE], -1)
    assert ral.library.ral_context_create(-1) is None


def test_symbols_are_callable_addresses(ral: Runtime) -> None:
    assert ctypes.CFUNCTYPE(ctypes.c_int32)(ral.symbols["ral_abi"])() == ABI
    assert {"ral_launch", "ral_arena", "ral_plan_arena", "ral_contiguous", "ral_fail"} <= ral.symbols.keys()


def test_the_package_carries_what_a_c_program_links() -> None:
    assert (include_directory() / "ral.h").is_file()
    assert all(path.is_file() for path in source_files())
