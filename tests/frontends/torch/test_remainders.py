"""Conditions on remainders: what no size meets, against all sizes of a range."""

from __future__ import annotations

import itertools

import pytest

from anyshape.frontends.torch.remainders import exclude_each_other, settled
from anyshape.symbolic import Relation, parse_size

CONDITIONS = (
    parse_size("n mod 2").eq(0),
    parse_size("n mod 2").ne(0),
    parse_size("(n floordiv 2) mod 2").ne(1),
    parse_size("n floordiv 4").eq(parse_size("(n + 2) floordiv 4")),
    parse_size("(-(n floordiv 2)) mod 4").le(0),
    parse_size("(-(n floordiv 2)) mod 4").ne(0),
    parse_size("(-((n + 2) floordiv 4)) mod 4").le(0),
    parse_size("(-((n + 2) floordiv 4)) mod 4").ne(0),
    parse_size("n mod 3").eq(2),
)


@pytest.mark.parametrize("count", [1, 2, 3, 4])
def test_exclusion_is_what_trying_all_sizes_says(count: int) -> None:
    for conditions in itertools.combinations(CONDITIONS, count):
        meets = any(all(each.evaluate({"n": n}) for each in conditions) for n in range(48, 96))
        assert exclude_each_other(conditions) is not meets, [str(each) for each in conditions]


def test_conditions_that_do_not_repeat_exclude_nothing() -> None:
    assert not exclude_each_other([parse_size("n").eq(4), parse_size("n mod 4").eq(1)])
    assert not exclude_each_other([parse_size("n mod 2").eq(1), parse_size("m mod 2").eq(0)])


@pytest.mark.parametrize(
    ("relation", "expected"),
    [
        (parse_size("n mod 2").ne(1), parse_size("n mod 2").eq(0)),
        (parse_size("2*(n mod 2)").ne(0), parse_size("n mod 2").eq(1)),
        (parse_size("n mod 4").le(0), parse_size("n mod 4").eq(0)),
        (parse_size("n mod 4").ne(0), parse_size("n mod 4").ne(0)),
    ],
)
def test_one_remainder_is_an_equality(relation: Relation, expected: Relation) -> None:
    assert settled(relation) == expected
