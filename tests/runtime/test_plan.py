"""ral_plan_arena against the definition: no two live buffers share a byte, and the total is near the peak."""

import ctypes
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anyshape.runtime.abi import Code
from anyshape.runtime.loader import Runtime, runtime

Buffers = list[tuple[int, int, int]]  # bytes, first, last


class Planner:
    def __init__(self, ral: Runtime) -> None:
        self.ral = ral
        self.context = ral.create_context(1)

    def __call__(self, buffers: Buffers) -> tuple[int, list[int], int]:
        """Code, offsets and total."""
        count = len(buffers)
        sizes, first, last = zip(*buffers, strict=True) if buffers else ((), (), ())
        offsets, total = (ctypes.c_int64 * count)(), ctypes.c_int64()
        code: int = self.ral.library.ral_plan_arena(
            self.context,
            count,
            (ctypes.c_int64 * count)(*sizes),
            (ctypes.c_int32 * count)(*first),
            (ctypes.c_int32 * count)(*last),
            offsets,
            ctypes.byref(total),
        )
        return code, list(offsets), total.value

    def error(self) -> str:
        return self.ral.library.ral_error(self.context).decode()


@pytest.fixture
def planner() -> Iterator[Planner]:
    made = Planner(runtime())
    yield made
    made.ral.library.ral_context_destroy(made.context)


def rounded(size: int) -> int:
    return -(-size // 64) * 64


def peak_bytes(buffers: Buffers) -> int:
    steps = sorted({first for _, first, _ in buffers})
    return max((sum(rounded(b) for b, first, last in buffers if first <= t <= last) for t in steps), default=0)


def check(buffers: Buffers, offsets: list[int], total: int) -> None:
    ends = [offset + size for offset, (size, _, _) in zip(offsets, buffers, strict=True)]
    assert all(offset >= 0 and offset % 64 == 0 for offset in offsets)
    assert all(end <= total for end in ends)
    for i, (size, first, last) in enumerate(buffers):
        for j in range(i):
            alive_together = first <= buffers[j][2] and buffers[j][1] <= last
            if alive_together and size and buffers[j][0]:
                assert ends[i] <= offsets[j] or ends[j] <= offsets[i], (i, j)


LIFETIMES = st.tuples(st.integers(0, 20), st.integers(0, 20)).map(lambda pair: (min(pair), max(pair)))
ARBITRARY = st.lists(st.tuples(st.integers(0, 5000), LIFETIMES).map(lambda b: (b[0], *b[1])), max_size=40)


@settings(max_examples=150, deadline=None)
@given(ARBITRARY)
def test_live_buffers_never_overlap(buffers: Buffers) -> None:
    planner = Planner(runtime())
    code, offsets, total = planner(buffers)
    assert code == Code.OK
    check(buffers, offsets, total)
    assert peak_bytes(buffers) <= total
    assert planner(buffers) == (code, offsets, total)  # the remembered plan
    planner.ral.library.ral_context_destroy(planner.context)


def chain(random: np.random.Generator) -> Buffers:
    """The intermediates of a network: each lives to the next launch or two, residuals live longer, sizes repeat."""
    tokens, widths = int(random.integers(1, 600)), random.choice([64, 384, 1152, 1536], random.integers(4, 10))
    buffers: Buffers = []
    for _ in range(random.integers(1, 9)):
        for position, width in enumerate(widths):
            lifetime = len(widths) if position == 0 else int(random.integers(1, 3))
            buffers.append((4 * tokens * int(width), len(buffers), len(buffers) + lifetime))
    return buffers


def test_the_totals_of_chains_are_near_their_peaks(planner: Planner) -> None:
    random = np.random.default_rng(0)
    ratios: list[float] = []
    for _ in range(150):
        buffers = chain(random)
        code, offsets, total = planner(buffers)
        assert code == Code.OK
        check(buffers, offsets, total)
        ratios.append(total / peak_bytes(buffers))
    assert max(ratios) <= 1.15
    assert np.mean(ratios) <= 1.03


def test_two_hundred_mixed_buffers_stay_near_the_peak(planner: Planner) -> None:
    random = np.random.default_rng(0)
    for _ in range(20):
        sizes = random.integers(1, 65, 200) * np.where(random.random(200) < 0.25, 65536, 1024)
        lengths = np.where(random.random(200) < 1 / 6, random.integers(1, 13, 200), random.integers(1, 3, 200))
        buffers = [(int(sizes[i]), i, i + int(lengths[i])) for i in range(200)]
        code, offsets, total = planner(buffers)
        assert code == Code.OK
        check(buffers, offsets, total)
        assert total <= 1.15 * peak_bytes(buffers)


def test_a_chain_that_defeats_the_order_of_birth(planner: Planner) -> None:
    _, offsets, total = planner([(64, 0, 1), (256, 1, 2), (512, 2, 3)])
    assert total == 768
    check([(64, 0, 1), (256, 1, 2), (512, 2, 3)], offsets, total)


def test_the_order_of_the_buffers_need_not_be_that_of_the_launches(planner: Planner) -> None:
    buffers = [(512, 2, 3), (64, 0, 1), (0, 0, 9), (256, 1, 2)]
    code, offsets, total = planner(buffers)
    assert (code, total, offsets[2]) == (Code.OK, 768, 0)
    check(buffers, offsets, total)


def test_a_changed_size_is_planned_again(planner: Planner) -> None:
    assert planner([(64, 0, 1), (64, 1, 2)])[2] == 128
    assert planner([(64, 0, 1), (640, 1, 2)])[2] == 704
    assert planner([(64, 0, 0), (640, 1, 2)])[2] == 640
    assert planner([(64, 0, 1), (640, 2, 2)])[2] == 640


def test_no_buffers(planner: Planner) -> None:
    assert planner([]) == (Code.OK, [], 0)


@pytest.mark.parametrize(
    ("buffers", "code", "message"),
    [
        ([(64, 0, 1), (-1, 0, 1)], Code.MEMORY, "arena buffer 1 has -1 bytes"),
        ([(2**63 - 1, 0, 1)], Code.MEMORY, f"arena buffer 0 has {2**63 - 1} bytes"),
        ([(2**62, 0, 1), (2**62, 0, 1)], Code.MEMORY, "the arena's 2 buffers exceed 2^63 bytes"),
        ([(64, 3, 2)], Code.ARGUMENT, "arena buffer 0 lives from launch 3 to 2"),
    ],
)
def test_impossible_buffers_are_errors(planner: Planner, buffers: Buffers, code: Code, message: str) -> None:
    assert planner(buffers)[0] == code
    assert planner.error() == message
    assert planner([(64, 0, 1)]) == (Code.OK, [0], 64)
