"""Relations in words: what the words say holds exactly where the relation holds."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest

from anyshape.symbolic import describe_relation, parse_relation

CASES: list[tuple[str, str, Callable[[int, int, int], bool]]] = [
    ("d mod 3 == 0", "d is a multiple of 3", lambda d, e, f: d in (0, 3, 6, 9)),
    ("4*(d mod 3) == 0", "d is a multiple of 3", lambda d, e, f: d in (0, 3, 6, 9)),
    ("0 == d mod 3", "d is a multiple of 3", lambda d, e, f: d in (0, 3, 6, 9)),
    ("d == 3*(d floordiv 3)", "d is a multiple of 3", lambda d, e, f: d in (0, 3, 6, 9)),
    ("6*((2*d) floordiv 3) == 4*d", "2*d is a multiple of 3", lambda d, e, f: d in (0, 3, 6, 9)),
    ("(d + 1) mod 5 == 0", "d + 1 is a multiple of 5", lambda d, e, f: d in (4, 9)),
    ("(d*e) mod 4 == 0", "d*e is a multiple of 4", lambda d, e, f: d * e in range(0, 100, 4)),
    ("d*e*f == 4*d*f*(e floordiv 4)", "e is a multiple of 4 or d*f is 0", lambda d, e, f: d * f == 0 or e in (0, 4, 8)),
    ("2*e*(d mod 3) == 0", "d is a multiple of 3 or e is 0", lambda d, e, f: e == 0 or d in (0, 3, 6, 9)),
    ("2*(d mod 3) != 0", "d is not a multiple of 3", lambda d, e, f: d in (1, 2, 4, 5, 7, 8)),
    ("e*(d mod 3) != 0", "d is not a multiple of 3 and e is not 0", lambda d, e, f: e > 0 and d in (1, 2, 4, 5, 7, 8)),
    ("1 < d", "d > 1", lambda d, e, f: d >= 2),
    ("2 <= d*e", "d*e >= 2", lambda d, e, f: d * e >= 2),
    ("3 != d", "d != 3", lambda d, e, f: d != 3),
    ("d <= e", "d <= e", lambda d, e, f: d <= e),
    ("d mod 3 == 2", "d mod 3 == 2", lambda d, e, f: d in (2, 5, 8)),
    ("d == 2*(d floordiv 3)", "d == 2*(d floordiv 3)", lambda d, e, f: d == 0),
    ("d*e == 3*f*(d floordiv 3)", "d*e == 3*f*(d floordiv 3)", lambda d, e, f: d * e == 3 * f * (d // 3)),
    ("d*d - d*e - d + e == 0", "d is 1 or e", lambda d, e, f: d in (1, e)),
    ("e == e*e - 3*e + 3", "e is 1 or 3", lambda d, e, f: e in (1, 3)),
    ("e + d mod 3 == 0", "e + d mod 3 == 0", lambda d, e, f: e == 0 and d in (0, 3, 6, 9)),
]


@pytest.mark.parametrize(("text", "words", "holds"), CASES, ids=[text for text, _, _ in CASES])
def test_words(text: str, words: str, holds: Callable[[int, int, int], bool]) -> None:
    relation = parse_relation(text)
    assert describe_relation(relation) == words
    for d, e, f in itertools.product(range(10), repeat=3):
        assert relation.evaluate({"d": d, "e": e, "f": f}) is holds(d, e, f)


def test_a_multiple_of_a_size() -> None:
    assert describe_relation(parse_relation("(d*e) mod (3*e) == 0")) == "d*e is a multiple of 3*e"
