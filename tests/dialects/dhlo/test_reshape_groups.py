"""Factor matching of reshapes, and that it maps elements as a row-major reshape does."""

import itertools

import numpy as np
import pytest

from anyshape.dialects.dhlo import Reshape, reshape_groups
from anyshape.dialects.dhlo.graph import FunctionBuilder, size_from
from anyshape.dialects.dhlo.pointwise import evaluate_pointwise

Sizes = tuple[int | str, ...]


@pytest.mark.parametrize(
    ("source", "target", "expected"),
    [
        (("b", "s", 384), ("b", "s", 12, 32), [((0,), (0,)), ((1,), (1,)), ((2,), (2, 3))]),
        (("b", "s", 12, 32), ("b", "s", 384), [((0,), (0,)), ((1,), (1,)), ((2, 3), (2,))]),
        (("b*s", "d"), ("b", "s", "d"), [((0,), (0, 1)), ((1,), (2,))]),
        (("b", 1, "d"), ("b", "d"), [((0,), (0,)), ((1,), ()), ((2,), (1,))]),
        (("b", "d"), (1, "b", "d", 1), [((0,), (1,)), ((), (0,)), ((1,), (2,)), ((), (3,))]),
        (("x", "d"), ("y", "z", "d"), [((0,), (0, 1)), ((1,), (2,))]),  # x = y*z by facts
        (("b", "x", "d"), ("b", "y", "d"), [((0,), (0,)), ((1,), (1,)), ((2,), (2,))]),
        (("a",), ("a", "c"), [((0,), (0, 1))]),  # c = 1 by facts
        (("a", "c"), ("a",), [((0, 1), (0,))]),
        (("m", "n"), ("n", "m"), [((0, 1), (0, 1))]),
        ((0, 3), (0, 5), [((0, 1), (0, 1))]),
        ((), (1, 1), [((), (0,)), ((), (1,))]),
        ((), (), []),
    ],
)
def test_groups(source: Sizes, target: Sizes, expected: list[tuple[tuple[int, ...], tuple[int, ...]]]) -> None:
    groups = reshape_groups([size_from(size) for size in source], [size_from(size) for size in target])
    assert sorted(groups) == sorted(expected)


FACTORISATIONS: list[tuple[int, ...]] = [
    sizes
    for rank in range(4)
    for sizes in itertools.product((1, 2, 3, 4, 6, 12), repeat=rank)
    if np.prod(sizes, dtype=int) == 12
]


@pytest.mark.parametrize("source", FACTORISATIONS, ids=str)
def test_every_factorisation_of_12(source: tuple[int, ...]) -> None:
    x = np.arange(12, dtype=np.float32).reshape(source)
    for target in FACTORISATIONS:
        groups = reshape_groups(source, target)
        assert sorted(axis for group in groups for axis in group[0]) == list(range(len(source)))
        assert sorted(axis for group in groups for axis in group[1]) == list(range(len(target)))
        op = Reshape.of(FunctionBuilder().input(*source), sizes=target)
        np.testing.assert_array_equal(evaluate_pointwise(op, [x], {}), x.reshape(target))


def test_sizes_known_only_by_facts() -> None:
    x = np.arange(24, dtype=np.float32).reshape(6, 4)
    env = {"x": 6, "y": 2, "z": 3}
    op = Reshape.of(FunctionBuilder().input("x", 4), sizes=tuple(size_from(text) for text in ("y", "z", "4")))
    np.testing.assert_array_equal(evaluate_pointwise(op, [x], env), x.reshape(2, 3, 4))
    assert len(list(op.result_sizes)) == 3
