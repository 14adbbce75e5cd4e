"""Results larger than the last-level cache are stored past the caches, at any alignment, and are the same bits."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import pairwise

import numpy as np
import points_access_plans
import points_harness
import points_plans
import pytest
from points_plans import F32, Plan, buffer
from test_machine_code import AVX2, AVX512, HASWELL, NEON, NEOVERSE, ZEN4, assembly, count, innermost_loops
from xdsl.dialects import arith

from anyshape.codegen.llvm import Target
from anyshape.dialects.dtypes import BY_NAME
from anyshape.dialects.tile import KernelOp
from anyshape.support.machine import Machine, host_machine
from anyshape.symbolic import Size

B, N = (Size.symbol(name) for name in "bn")
SMALL_CACHE = replace(host_machine(), l1=64, l2=128, l3=256)
"""Whose last-level cache holds 64 floats."""
WIDTHS = (0, 1, 7, 16, 33, 64, 300)
ROW_KERNELS = {"bias_relu": 1, "bias_gelu": 1, "layer_norm": 2, "softmax_f16": 0, "softmax_bf16": 0}
"""Rows of columns, and how many more arguments they have that are one row."""


def flat(name: str = "flat", size: Size = N) -> KernelOp:
    """out[j] = x[j] + x[j], divided among threads anywhere."""
    plan = Plan(name, ["n"], [buffer(F32, [size]), buffer(F32, [size])])
    x, out = plan.buffers
    with plan.lanes(size) as (j, _):
        plan.store(plan.math.add(plan.load(x, j), plan.load(x, j)), out, j)
    return plan.kernel


def parts_of_rows() -> KernelOp:
    """out[i, j] = x[i, j] + y[i], divided among threads anywhere in a row."""
    plan = Plan("parts_of_rows", ["b", "n"], [buffer(F32, [B, N]), buffer(F32, [B]), buffer(F32, [B, N])])
    x, y, out = plan.buffers
    with plan.parallel(B, N) as (i, j):
        plan.store(plan.math.add(plan.load(x, i, j), plan.load(y, i)), out, i, j)
    return plan.kernel


def two_results() -> KernelOp:
    """Two results of one axis, of other widths."""
    plan = Plan("two_results", ["n"], [buffer(F32, [N]), buffer(F32, [N]), buffer(points_access_plans.F64, [N])])
    x, out, wide = plan.buffers
    with plan.lanes(N) as (j, _):
        y = plan.load(x, j)
        extended = plan.add(arith.ExtFOp(y, points_access_plans.F64))
        assert extended is not None
        plan.store(y, out, j)
        plan.store(extended, wide, j)
    return plan.kernel


def kernels() -> list[KernelOp]:
    narrow = points_access_plans.NARROW
    return [
        flat(),
        two_results(),
        parts_of_rows(),
        points_plans.bias_relu(),
        points_plans.bias_gelu(),
        points_plans.layer_norm(),
        *(points_access_plans.half_softmax(f"softmax_{name}", element) for name, element in narrow.items()),
        *(points_access_plans.map_of(f"map_{name}", each) for name, each in points_access_plans.ELEMENTS.items()),
    ]


@pytest.fixture(scope="module")
def streaming() -> Iterator[points_harness.Compiled]:
    yield points_harness.compile_plans(kernels(), SMALL_CACHE)


@pytest.fixture(scope="module")
def plain() -> Iterator[points_harness.Compiled]:
    yield points_harness.compile_plans(kernels())


def placed(array: np.ndarray, misaligned: int) -> tuple[np.ndarray, np.ndarray]:
    """A copy that starts so many elements behind a line, and all the memory around it, filled with ones."""
    room = np.full(array.nbytes + 1024, 1, np.uint8)
    start = 256 + -room.ctypes.data % 64 + misaligned * array.itemsize
    inside = room[start : start + array.nbytes].view(array.dtype)
    inside[:] = array
    return inside, room


def run_both(
    plain: points_harness.Compiled,
    streaming: points_harness.Compiled,
    name: str,
    arrays: list[np.ndarray],
    sizes: dict[str, int],
    spans: list[tuple[int, int]],
    misaligned: int,
) -> None:
    """Both give the same bytes, around the buffers too."""
    rooms: list[list[np.ndarray]] = []
    for code in (plain, streaming):
        pairs = [placed(each, misaligned if number else 0) for number, each in enumerate(arrays)]
        for begin, end in spans:
            code.run(name, [inside for inside, _ in pairs], sizes, begin, end)
        # Where a buffer starts inside its room depends on where the room was allocated.
        rooms.append([np.roll(room, -(-room.ctypes.data % 64)) for _, room in pairs])
    for number, (first, second) in enumerate(zip(*rooms, strict=True)):
        np.testing.assert_array_equal(first, second, err_msg=f"{name} buffer {number}, {sizes}, {misaligned} behind")


def floats(*shape: int) -> np.ndarray:
    return np.random.default_rng(3).standard_normal(int(np.prod(shape))).astype(np.float32)


@pytest.mark.parametrize("misaligned", [0, 1, 4, 15])
@pytest.mark.parametrize("name", ["flat", "two_results"])
def test_flat_results_at_any_alignment(
    plain: points_harness.Compiled, streaming: points_harness.Compiled, name: str, misaligned: int
) -> None:
    for n in (0, 1, 7, 33, 64, 65, 80, 1000, 4099):
        arrays = [floats(n), np.zeros(n, np.float32), *([np.zeros(n)] if name == "two_results" else [])]
        cuts = sorted({0, min(n, 64), min(n, 333), n})
        spans = list(pairwise(cuts)) or [(0, 0)]
        run_both(plain, streaming, name, arrays, {"n": n}, spans, misaligned)


@pytest.mark.parametrize("misaligned", [0, 3])
@pytest.mark.parametrize("name", ROW_KERNELS)
def test_rows_at_any_alignment(
    plain: points_harness.Compiled, streaming: points_harness.Compiled, name: str, misaligned: int
) -> None:
    narrow = BY_NAME[name.removeprefix("softmax_")].numpy if name.startswith("softmax_") else np.float32
    for n in WIDTHS:
        rows = [floats(n) for _ in range(ROW_KERNELS[name])]
        arrays = [each.astype(narrow) for each in (floats(5, n), *rows, np.zeros(5 * n))]
        run_both(plain, streaming, name, arrays, {"b": 5, "n": n}, [(0, 2), (2, 5)], misaligned)


@pytest.mark.parametrize("misaligned", [0, 3])
def test_parts_of_rows_at_any_alignment(
    plain: points_harness.Compiled, streaming: points_harness.Compiled, misaligned: int
) -> None:
    for n in WIDTHS:
        cuts = sorted({0, min(5 * n, 21), 2 * n, 3 * n + n // 2, 5 * n})
        arrays = [floats(5, n), floats(5), np.zeros(5 * n, np.float32)]
        run_both(
            plain, streaming, "parts_of_rows", arrays, {"b": 5, "n": n}, list(pairwise(cuts)) or [(0, 0)], misaligned
        )


@pytest.mark.parametrize("name", points_access_plans.ELEMENTS)
def test_every_element_type(plain: points_harness.Compiled, streaming: points_harness.Compiled, name: str) -> None:
    dtype = BY_NAME["bool" if name == "i1" else name]
    for n in WIDTHS:
        data = [(100 * floats(3, n)).astype(np.int64).astype(dtype.numpy) for _ in range(2)]
        run_both(plain, streaming, f"map_{name}", [*data, np.zeros(3 * n, dtype.numpy)], {"b": 3, "n": n}, [(0, 3)], 1)


@pytest.mark.parametrize(
    ("machine", "target", "pattern"),
    [(AVX512, ZEN4, r"vmovntps\s+%zmm"), (AVX2, HASWELL, r"vmovntps\s+%ymm"), (NEON, NEOVERSE, "stnp")],
)
def test_the_large_version_streams_and_is_fenced(machine: Machine, target: Target, pattern: str) -> None:
    text = assembly(points_plans.bias_relu(), machine, target)
    lines = text.splitlines()
    assert count(lines, pattern) >= 1
    assert count(lines, r"lock|mfence|dmb\s") == 1
    after = lines[max(number for number, line in enumerate(lines) if re.search("movnt|stnp", line)) :]
    assert count(after, r"lock|mfence|dmb\s") == 1


def test_small_results_keep_their_loop() -> None:
    """The loop that runs below the cache's size is what it is without the other: no choice inside."""
    loops = [body for body in innermost_loops(assembly(points_plans.bias_relu())) if count(body, "vmaxps") == 2]
    assert sorted(count(body, "vmovntps") for body in loops) == [0, 2]
    assert all(len(body) <= 12 for body in loops)


@pytest.mark.parametrize(("floats_", "expected"), [(64, False), (1 << 20, False), (1 << 24, True)])
def test_a_known_size_is_decided_when_compiled(floats_: int, expected: bool) -> None:
    text = assembly(flat("known", Size.const(floats_)))
    assert ("vmovntps" in text) == expected
    assert not expected or "lock" in text


def test_sums_do_not_stream() -> None:
    """The axis of a reduction starts where its row starts, wherever that lies, so that its order is that of the extent."""
    make: Callable[[], KernelOp] = points_access_plans.column_sum
    assert "vmovnt" not in assembly(make())
