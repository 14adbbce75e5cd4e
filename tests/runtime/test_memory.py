"""ral_arena, ral_contiguous, ral_is_contiguous and ral_fail against numpy and Python."""

import ctypes
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anyshape.runtime.abi import Code
from anyshape.runtime.loader import Runtime


class TensorLayout(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("sizes", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("rank", ctypes.c_int32),
        ("dtype", ctypes.c_int32),
    ]


def tensor(data: int, sizes: tuple[int, ...], strides: list[int]) -> TensorLayout:
    rank = len(sizes)
    return TensorLayout(data, (ctypes.c_int64 * rank)(*sizes), (ctypes.c_int64 * rank)(*strides), rank, 0)


def of_array(array: np.ndarray) -> TensorLayout:
    return tensor(array.ctypes.data, array.shape, [stride // array.itemsize for stride in array.strides])


@pytest.fixture(scope="module", params=[1, 2])
def context(request: pytest.FixtureRequest, ral: Runtime) -> Iterator[int]:
    made = ral.create_context(request.param)
    yield made
    ral.library.ral_context_destroy(made)


DTYPES = [np.dtype(t) for t in ("i1", "i2", "i4", "i8", "V3", "V12", "c16")]


@st.composite
def views(draw: st.DrawFn) -> np.ndarray:
    """An array seen through slices with any step, a transposition, a broadcast axis and an axis of size 1."""
    dtype = draw(st.sampled_from(DTYPES))
    shape = tuple(draw(st.lists(st.integers(1, 9), min_size=0, max_size=4)))
    count = int(np.prod(shape))
    array = (np.arange(count * dtype.itemsize) % 251).astype(np.uint8).view(dtype).reshape(shape)
    array = array.transpose(draw(st.permutations(range(array.ndim))))
    for axis in range(array.ndim):
        step = draw(st.sampled_from([1, 1, -1, 2, -3]))
        start = draw(st.integers(0, array.shape[axis]))
        cut = slice(start, None, step) if step > 0 else slice(None, None, step)
        array = array[(slice(None),) * axis + (cut,)]
    if draw(st.booleans()):
        array = np.broadcast_to(array, (draw(st.integers(0, 4)), *array.shape))
        array = np.moveaxis(array, 0, draw(st.integers(0, array.ndim - 1)))
    if draw(st.booleans()):
        array = array[..., None]
    return array


def copied(ral: Runtime, context: int, array: np.ndarray) -> np.ndarray:
    out = np.zeros(array.shape, array.dtype)
    view = of_array(array)
    code = ral.library.ral_contiguous(context, ctypes.addressof(view), array.itemsize, out.ctypes.data)
    assert code == Code.OK
    return out


@settings(max_examples=200, deadline=None)
@given(array=views())
def test_strided_copies_agree_with_numpy(ral: Runtime, context: int, array: np.ndarray) -> None:
    assert copied(ral, context, array).tobytes() == array.tobytes()


@settings(max_examples=200, deadline=None)
@given(array=views())
def test_contiguity_agrees_with_numpy(ral: Runtime, array: np.ndarray) -> None:
    view = of_array(array)
    assert ral.library.ral_is_contiguous(ctypes.addressof(view)) == array.flags.c_contiguous


def test_large_copies_are_right_on_every_thread(ral: Runtime, context: int) -> None:
    x = np.arange(300 * 700, dtype=np.float32).reshape(300, 700)
    images = np.arange(2 * 50 * 60 * 40, dtype=np.int16).reshape(2, 50, 60, 40)
    for array in (x.T, x[::-1, ::2], np.broadcast_to(x[:, :1], x.shape), images.transpose(0, 3, 1, 2), x.ravel()[::3]):
        np.testing.assert_array_equal(copied(ral, context, array), array)


def test_rank_is_not_limited(ral: Runtime, context: int) -> None:
    data = np.arange(6, dtype=np.int64)
    out = np.zeros(6, np.int64)
    ones = (1,) * 70
    view = tensor(data.ctypes.data, (*ones, 3, *ones, 2), [*([77] * 70), 1, *([-5] * 70), 3])
    assert ral.library.ral_contiguous(context, ctypes.addressof(view), 8, out.ctypes.data) == Code.OK
    np.testing.assert_array_equal(out, [0, 3, 1, 4, 2, 5])


def test_an_impossible_copy_is_an_error(ral: Runtime, context: int) -> None:
    data = np.zeros(1)
    for sizes, element in (((2,) * 62, 8), ((3, -2), 8), ((3,), 0)):
        view = tensor(data.ctypes.data, sizes, [0] * len(sizes))
        code = ral.library.ral_contiguous(context, ctypes.addressof(view), element, data.ctypes.data)
        assert code == (Code.MEMORY if element else Code.ARGUMENT)
    view = tensor(data.ctypes.data, (2**62, 2**62, 0), [0, 0, 0])
    assert ral.library.ral_contiguous(context, ctypes.addressof(view), 8, None) == Code.OK


def test_the_arena_grows_and_is_aligned(ral: Runtime) -> None:
    context = ral.create_context(1)
    for size in (0, 1, 100, 1 << 20, (1 << 21) + 1, 5 << 20):
        address = ral.library.ral_arena(context, size)
        assert address % (1 << 21 if size >= 1 << 21 else 64) == 0
        ctypes.memset(address, 1, size)
    assert ral.library.ral_arena(context, 10) == address
    for size in (-1, -(2**63), 1 << 60, 2**63 - 1):
        assert ral.library.ral_arena(context, size) is None
        assert ral.library.ral_error_code(context) == Code.MEMORY
        assert f" {size} bytes" in ral.library.ral_error(context).decode()
    assert ral.library.ral_arena(context, 64) % 64 == 0
    ral.library.ral_context_destroy(context)


def test_parts_of_the_arena_are_apart(ral: Runtime) -> None:
    context = ral.create_context(1)
    arena = ral.library.ral_arena(context, 1000)
    third = ral.library.ral_arena_part(context, 3, 1000)
    ctypes.memset(arena, 1, 1000)
    ctypes.memset(third, 3, 1000)
    first = ral.library.ral_arena_part(context, 1, 1 << 20)
    ctypes.memset(first, 2, 1 << 20)
    for part in (1, 2, 3):
        assert ral.library.ral_arena_part(context, part, 10) % 64 == 0
    assert ral.library.ral_arena(context, 1000) == arena
    assert ral.library.ral_arena_part(context, 3, 1000) == third
    assert ctypes.string_at(arena, 1000) == b"\1" * 1000
    assert ctypes.string_at(third, 1000) == b"\3" * 1000
    for part, size, code in ((0, 8, Code.ARGUMENT), (1, -1, Code.MEMORY), (2, 1 << 60, Code.MEMORY)):
        assert ral.library.ral_arena_part(context, part, size) is None
        assert ral.library.ral_error_code(context) == code
    ral.library.ral_context_destroy(context)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain", "plain"),
        ("%lld of %ld, 100%%", "-9223372036854775808 of 2, 100%"),
        ("%lld %lld %lld %lld %lld", "-9223372036854775808 2 3 4 %lld"),
        ("%s %n %d %", "%s %n %d %"),
        ("x" * 5000, "x" * 1023),
        ("x" * 1020 + "%lld", "x" * 1020 + "-92"),
        ("x" * 1023 + "%lld", "x" * 1023),
        ("", ""),
    ],
)
def test_messages_substitute_integers_only_and_are_bounded(ral: Runtime, text: str, expected: str) -> None:
    context = ral.create_context(1)
    assert ral.library.ral_fail(context, Code.GUARD, text.encode(), -(2**63), 2, 3, 4) == Code.GUARD
    assert ral.library.ral_error(context).decode() == expected
    assert ral.library.ral_error_code(context) == Code.GUARD
    ral.library.ral_context_destroy(context)
