"""What facts can prove and simplify: relations that the compiler needs."""

from __future__ import annotations

import pytest

from anyshape.symbolic import ContradictionError, DivisorError, Facts, Size, parse_relation, parse_size


@pytest.fixture
def facts() -> Facts:
    """s in 0..512, t >= 1, v a multiple of 16, p >= 1 a multiple of 8; every other symbol is only >= 0."""
    facts = Facts()
    facts.declare("s", 0, 512, likely=128)
    facts.declare("t", 1)
    facts.declare("v", multiple_of=16)
    facts.declare("p", 1, multiple_of=8)
    for relation in ("b*q == n*k", "x <= y", "y < z", "m == 4*j", "e != f", "g == h", "(o + u) mod 6 == 0"):
        facts.assume(parse_relation(relation))
    return facts


TRUE = [
    "s <= 512", "s < 600", "0 <= i", "s floordiv 4 <= s", "s floordiv 4 <= 128", "b*s <= 512*b", "i <= i*t",
    "v mod 4 == 0", "v + 1 != 3", "2*b*q == 2*n*k", "b*q*i == i*k*n", "min(s, t) <= s", "s <= max(s, t)",
    "4*(s floordiv 4) + s mod 4 == s", "max(i, 1)*min(i, 1) == i", "t*(i floordiv t) <= i", "i mod t < t",
    "i mod t <= i", "x < z", "x + 1 <= z", "x != z", "x floordiv 4 <= y floordiv 4", "m mod 4 == 0",
    "m floordiv 4 == j", "e != f", "f != e", "g + i == h + i", "8 <= p", "(o + u) mod 3 == 0",
    "(2*o + 2*u) mod 12 == 0", "4*(i floordiv 4) <= i", "i < 4*(i floordiv 4) + 4", "i <= 4*((i + 3) floordiv 4)",
    "x*i <= y*i", "min(x, y) == x", "max(x, y) == y", "t*i <= t*t*i", "2*i + 1 != 2*j", "v floordiv 16 <= v",
    "(v + 15) floordiv 16 == v floordiv 16", "min(s, 512) + 1 <= 513", "(i*t) floordiv t == i",
    "max(1, t)*min(1, t) == t", "-(-i floordiv 4) == (i + 3) floordiv 4 - 0*i",
]  # fmt: skip
FALSE = [
    "512 < s",
    "s == 600",
    "v + 1 == 0",
    "v == 17",
    "z <= x",
    "e == f",
    "y == z",
    "t == 0",
    "p < 8",
    "4*i + 2 == 8*j",
    "i < 0",
]
UNKNOWN = [
    "s <= 511",
    "b == q",
    "i <= j",
    "i == 0",
    "e <= f",
    "(i*j) floordiv j == i",
    "v mod 32 == 0",
    "x == y",
    "i*i == j",
]


@pytest.mark.parametrize("text", TRUE)
def test_proved(facts: Facts, text: str) -> None:
    assert facts.prove(parse_relation(text)) is True
    assert facts.prove(parse_relation(text).negate()) is False


@pytest.mark.parametrize("text", FALSE)
def test_refuted(facts: Facts, text: str) -> None:
    assert facts.prove(parse_relation(text)) is False
    assert facts.prove(parse_relation(text).negate()) is True


@pytest.mark.parametrize("text", UNKNOWN)
def test_undecided(facts: Facts, text: str) -> None:
    assert facts.prove(parse_relation(text)) is None


SIMPLIFIED = [
    ("min(s, 512)", "s"),  # min(a, b) -> a where a <= b
    ("max(t, 1)", "t"),
    ("min(i, s, 600)", "min(i, s)"),
    ("(s*t) floordiv t", "s"),  # (d*q + r) floordiv d -> q + r floordiv d
    ("(i*t + i) floordiv (t + 1)", "i"),
    ("(i*j) floordiv j", "(i*j) floordiv j"),  # j may be 0
    ("(i*t + j) floordiv t", "i + j floordiv t"),
    ("0 floordiv t", "0"),  # 0 floordiv d -> 0
    ("0 floordiv i", "0 floordiv i"),
    ("(i*t) floordiv (t*p)", "i floordiv p"),  # (x*y) floordiv (z*y) -> x floordiv z
    ("(4*i*t + 2*t) floordiv (8*t)", "i floordiv 2"),
    ("(i mod t) floordiv t", "0"),  # r floordiv d -> 0
    ("(i mod t - t) floordiv t", "-1"),  # r floordiv d -> -1, by taking out -t
    ("(i*t) mod t", "0"),  # (d*q + r) mod d -> r mod d
    ("(i*j) mod j", "(i*j) mod j"),
    ("(i*t) mod (p*t)", "t*(i mod p)"),  # (x*y) mod (z*y) -> y*(x mod z)
    ("(i mod t) mod t", "i mod t"),  # r mod d -> r
    ("(v + 3) floordiv 4", "v floordiv 4"),  # (x + r) floordiv k -> x floordiv k + q
    ("s floordiv 1024", "0"),
    ("s mod 600", "s"),  # r mod k -> r
    ("(v + i) mod 4", "i mod 4"),  # (x + r) mod k -> r mod k
    ("16*(v floordiv 16)", "v"),  # k*(x floordiv k) -> x
    ("i*4*(v floordiv 4)", "i*v"),
    ("t*(i floordiv t) + i mod t", "i"),  # d*(x floordiv d) + x mod d -> x
    ("8*(i floordiv 8) + i mod 8 + j", "i + j"),
    ("i*b*q + 1", "i*k*n + 1"),  # a known product
    ("h + m", "g + 4*j"),  # known values
    ("m floordiv 4", "j"),
]


@pytest.mark.parametrize(("before", "after"), SIMPLIFIED)
def test_simplified(facts: Facts, before: str, after: str) -> None:
    found = facts.simplify(parse_size(before))
    expected = facts.simplify(parse_size(after))
    assert str(found) == str(expected)
    assert facts.simplify(found) is found
    assert before == after or found is not parse_size(before)


def test_negative_remainder_of_a_symbolic_divisor() -> None:
    facts = Facts()
    facts.declare("d", 8)
    facts.declare("r", -5, -1)
    assert str(facts.simplify(parse_size("r floordiv d"))) == "-1"  # r floordiv d -> -1, for -d <= r < 0
    assert facts.simplify(parse_size("r mod d")) is parse_size("r mod d")


def test_ranges(facts: Facts) -> None:
    found = {
        text: facts.range_of(parse_size(text))
        for text in ("3*s - 5", "i", "s mod 7", "s floordiv 10", "min(s, i)", "z", "-t", "y - x")
    }
    assert found == {
        "3*s - 5": (-5, 1531), "i": (0, None), "s mod 7": (0, 6), "s floordiv 10": (0, 51),
        "min(s, i)": (0, 512), "z": (1, None), "-t": (None, -1), "y - x": (0, None),
    }  # fmt: skip


def test_divisors(facts: Facts) -> None:
    found = [
        facts.multiple_of(parse_size(text))
        for text in ("v", "3*i*v", "v + 4", "v floordiv 4", "i", "12", "o + u", "m", "max(v, p)")
    ]
    assert found == [16, 48, 4, 4, 1, 12, 6, 4, 8]
    assert facts.multiple_of(0) == 2**62
    assert facts.is_multiple(parse_size("v + 8"), 8) is True
    assert facts.is_multiple(parse_size("v + 8"), 16) is False
    assert facts.is_multiple(parse_size("i"), 2) is None
    assert facts.is_multiple(0, 7) is True


def test_equality_carries_the_range_of_the_replaced_symbol() -> None:
    facts = Facts()
    facts.declare("a", 2, 10)
    facts.declare("b", 5, 20, multiple_of=3)
    facts.assume(parse_relation("a == b"))
    for name in ("a", "b"):
        assert facts.range_of(Size.symbol(name)) == (6, 9)
        assert facts.multiple_of(Size.symbol(name)) == 3


def test_a_range_of_one_value_is_that_value() -> None:
    facts = Facts()
    facts.declare("a", 3)
    facts.assume(parse_relation("a <= 3"))
    assert facts.simplify(parse_size("2*a + b")) is parse_size("b + 6")


def test_common_factor_of_an_equality_cancels_when_not_zero() -> None:
    facts = Facts()
    facts.assume(parse_relation("b*s == b*t"))
    assert facts.prove(parse_relation("s == t")) is None
    facts = Facts()
    facts.declare("b", 1)
    facts.assume(parse_relation("b*s == b*t"))
    assert facts.prove(parse_relation("s == t")) is True


@pytest.mark.parametrize(
    "relations",
    [
        ["a == b", "a < b"], ["a <= b", "b <= c", "c < a"], ["a == 3", "a mod 2 == 0"], ["a*b == 6", "a == 0"],
        ["a != b", "a == b"], ["a < 0"], ["a == 2*b", "a == 7"], ["a mod 4 == 1", "a mod 2 == 0"], ["1 == 2*a"],
        ["a + b <= 3", "2 <= a", "2 <= b"], ["a <= 3", "b == a + 4", "b <= 2"],
    ],
)  # fmt: skip
def test_contradictions(relations: list[str]) -> None:
    facts = Facts()
    with pytest.raises(ContradictionError, match="contradicts"):
        for text in relations:
            facts.assume(parse_relation(text))


def test_contradicting_declarations() -> None:
    facts = Facts()
    facts.declare("a", 2, 10)
    with pytest.raises(ContradictionError):
        facts.declare("a", 11)
    with pytest.raises(ContradictionError):
        facts.declare("b", 5, 7, multiple_of=4)
    with pytest.raises(DivisorError):
        facts.declare("c", multiple_of=0)
    with pytest.raises(DivisorError):
        facts.is_multiple(Size.symbol("a"), 0)


def test_a_refused_statement_leaves_the_store_as_it_was() -> None:
    facts = Facts()
    facts.declare("a", 2, 10)
    key = facts.key()
    for statement in (lambda: facts.declare("a", 11), lambda: facts.assume(parse_relation("a == 12"))):
        with pytest.raises(ContradictionError):
            statement()
    assert facts.key() == key and facts.range_of(Size.symbol("a")) == (2, 10)


def test_negative_symbols_are_declared() -> None:
    facts = Facts()
    facts.declare("a", -3)
    facts.declare("b", None)
    assert facts.range_of(Size.symbol("a")) == (-3, None)
    assert facts.range_of(Size.symbol("b")) == (None, None)
    assert facts.prove(parse_relation("a <= a*t")) is None


def test_relations_rebuild_the_store(facts: Facts) -> None:
    again = Facts()
    for relation in facts.relations():
        again.assume(relation)
    for text in TRUE:
        assert again.prove(parse_relation(text)) is True, text


def test_copies_are_independent(facts: Facts) -> None:
    other = facts.copy()
    other.assume(parse_relation("i <= 3"))
    assert other.prove(parse_relation("i < 4")) is True
    assert facts.prove(parse_relation("i < 4")) is None
    assert facts.copy().key() == facts.key() != other.key()


def test_key_does_not_depend_on_order() -> None:
    one, two = Facts(), Facts()
    one.declare("a", 1)
    one.declare("b", 2)
    one.assume(parse_relation("a <= b"))
    one.assume(parse_relation("a != 7"))
    two.declare("b", 2)
    two.assume(parse_relation("a != 7"))
    two.declare("a", 1)
    two.assume(parse_relation("a <= b"))
    assert one.key() == two.key()


def test_symbols_and_likely_values(facts: Facts) -> None:
    assert facts.symbols == ("s", "t", "v", "p")
    assert facts.likely("s") == 128 and facts.likely("t") is None and facts.likely("unknown") is None


def test_a_remainder_that_may_reach_the_divisor_stays() -> None:
    facts = Facts()
    facts.declare("d", 1)
    facts.assume(parse_relation("r <= d"))
    assert facts.simplify(parse_size("r floordiv d")) is parse_size("r floordiv d")
    assert facts.simplify(parse_size("r mod d")) is parse_size("r mod d")
    facts.assume(parse_relation("r != d"))
    facts.assume(parse_relation("r < d"))
    assert facts.simplify(parse_size("r floordiv d")) is Size.const(0)
    assert facts.simplify(parse_size("r mod d")) is Size.symbol("r")


@pytest.mark.parametrize(
    ("x", "d"), [((0, 9), (1, 4)), ((-7, 9), (2, 5)), ((6, 9), (2, 3)), ((-9, -2), (1, 4)), ((3, 5), (6, 9))]
)
def test_ranges_of_quotients_are_those_of_their_corners(x: tuple[int, int], d: tuple[int, int]) -> None:
    facts = Facts()
    facts.declare("x", *x)
    facts.declare("d", *d)
    quotients = [a // b for a in range(x[0], x[1] + 1) for b in range(d[0], d[1] + 1)]
    remainders = [a % b for a in range(x[0], x[1] + 1) for b in range(d[0], d[1] + 1)]
    assert facts.range_of(parse_size("x floordiv d")) == (min(quotients), max(quotients))
    lo, hi = facts.range_of(parse_size("x mod d"))
    assert lo is not None and hi is not None and lo <= min(remainders) and max(remainders) <= hi


@pytest.mark.parametrize(
    "relation",
    [
        "n + (-n) mod 4 == 4*((n + (-n) mod 4) floordiv 4)",
        "n + n mod 2 == 2*((n + n mod 2) floordiv 2)",
        "(n + n mod 2 + 1) floordiv 2 == (n + n mod 2) floordiv 2",
        "((n floordiv 2 + (-(n floordiv 2)) mod 7) floordiv 7)*7 == n floordiv 2 + (-(n floordiv 2)) mod 7",
        "(b*n + b*((-n) mod 4)) mod 4 == 0",
    ],
)
def test_a_padded_size_is_a_multiple(relation: str) -> None:
    claim = parse_relation(relation)
    assert all(claim.evaluate({"n": n, "b": b}) for n in range(60) for b in range(3))
    assert Facts().prove(claim) is True


def test_a_size_that_is_padded_otherwise_is_no_multiple() -> None:
    assert Facts().prove(parse_relation("n + n mod 3 == 3*((n + n mod 3) floordiv 3)")) is None


@pytest.mark.parametrize("remainder", ["(d floordiv 2) mod 4", "(-(d floordiv 2)) mod 4"])
def test_what_divides_an_exact_quotient_divides_the_dividend(remainder: str) -> None:
    facts = Facts()
    facts.assume(parse_relation(f"{remainder} == 0"))
    assert facts.is_multiple(parse_size("d"), 8) is None
    facts.assume(parse_relation("d mod 2 == 0"))
    assert facts.is_multiple(parse_size("d"), 8) is True
    assert facts.prove(parse_relation("4*((d + 6) floordiv 8) == d floordiv 2")) is True
