"""One row for each simplification law: the text before, and the text of its normal form."""

from __future__ import annotations

import copy
import pickle

import pytest

from anyshape.symbolic import (
    Size,
    SizeDivisionError,
    SizeNameError,
    SizeNotConstantError,
    SizeOverflowError,
    SizeParseError,
    SizeTypeError,
    UnboundSymbolError,
    broadcast_size,
    parse_relation,
    parse_size,
    size_max,
    size_min,
)
from anyshape.symbolic.expr import INT64_MAX

LAWS = [
    ("(a + b)*c", "a*c + b*c"),
    ("a - a", "0"),
    ("a + a", "2*a"),
    ("b*a*b", "a*b*b"),
    ("a floordiv -3", "(-a) floordiv 3"),
    ("a floordiv 1", "a"),
    ("(4*a + 8*b + c) floordiv 4", "a + 2*b + c floordiv 4"),
    ("(5*a) floordiv 4", "a + a floordiv 4"),
    ("(a + 7) floordiv 4", "(a + 3) floordiv 4 + 1"),
    ("(a - 1) floordiv 2 + 1", "(a + 1) floordiv 2"),
    ("(2*a + 1) floordiv 4", "a floordiv 2"),
    ("(6*a + 4) floordiv 4", "a + a floordiv 2 + 1"),
    ("((a + 1) floordiv 2 + 1) floordiv 2", "(a + 3) floordiv 4"),
    ("(a floordiv 3) floordiv 5", "a floordiv 15"),
    ("(a mod 3 + 1) floordiv 4", "0"),
    ("(a mod 3 + 2) floordiv 4", "(a mod 3 + 2) floordiv 4"),
    ("-((-a) floordiv 4)", "-((-a) floordiv 4)"),
    ("a mod -3", "-((-a) mod 3)"),
    ("a mod 1", "0"),
    ("(4*a + 5) mod 4", "1"),
    ("(5*a + b + 9) mod 4", "(a + b + 1) mod 4"),
    ("(6*a + 3) mod 4", "2*((a + 1) mod 2) + 1"),
    ("(a mod 12 + b) mod 4", "(a + b) mod 4"),
    ("(2*(a mod 6)) mod 12", "2*(a mod 6)"),
    ("(a mod 3 + 1) mod 4", "a mod 3 + 1"),
    ("-7 floordiv 2", "-4"),
    ("-7 mod 4", "1"),
    ("min(a, min(b, c))", "min(a, b, c)"),
    ("min(b, a, b)", "min(a, b)"),
    ("min(7, a, 5)", "min(a, 5)"),
    ("min(a + 3, a)", "a"),
    ("max(a + 3, a)", "a + 3"),
    ("min(a)", "a"),
    ("min(a, max(a, b))", "a"),
    ("max(a, min(a, b))", "a"),
    ("a floordiv b", "a floordiv b"),
    ("(a*b) floordiv b", "(a*b) floordiv b"),
    ("(a*b) mod b", "(a*b) mod b"),
    ("0 floordiv a", "0 floordiv a"),
]


@pytest.mark.parametrize(("before", "after"), LAWS)
def test_law(before: str, after: str) -> None:
    size = parse_size(before)
    assert str(size) == after
    assert parse_size(after) is size


def test_equal_normal_forms_are_one_object() -> None:
    a, b = Size.symbol("a"), Size.symbol("b")
    assert (a + b) * (a - b) is a * a - b * b
    assert 2 * a + 3 is 3 + a + a
    assert Size.const(4) is Size.of(4)
    assert copy.deepcopy(a // b) is a // b
    assert pickle.loads(pickle.dumps(size_min(a % b, 3))) is size_min(a % b, 3)


def test_operators_take_ints_on_either_side() -> None:
    a = Size.symbol("a")
    env = {"a": 3}
    found = [(5 + a), (5 - a), (5 * a), (7 // a), (7 % a), (a - 5), -a, size_max(1, a, 9)]
    assert [size.evaluate(env) for size in found] == [8, 2, 15, 2, 1, -2, -3, 9]


def test_order_does_not_depend_on_creation() -> None:
    later, earlier = Size.symbol("zz_order"), Size.symbol("yy_order")
    assert str(later * earlier + later + earlier) == "yy_order*zz_order + yy_order + zz_order"
    assert str(size_min(later, 2, earlier)) == "min(yy_order, zz_order, 2)"
    assert sorted([later, earlier], key=lambda size: size.sort_key) == [earlier, later]


def test_constants() -> None:
    a = Size.symbol("a")
    assert (a - a + 5).is_constant and (a - a + 5).value == 5
    assert a.constant_or(None) is None and Size.const(0).constant_or(None) == 0
    assert (a // 2 + Size.symbol("b")).symbols == {"a", "b"}
    with pytest.raises(SizeNotConstantError, match="'a' is not a constant"):
        _ = a.value


def test_overflow() -> None:
    a = Size.symbol("a")
    assert Size.const(INT64_MAX).value == INT64_MAX
    for fold in (lambda: Size.const(INT64_MAX + 1), lambda: Size.const(INT64_MAX) + 1, lambda: a * INT64_MAX * 2):
        with pytest.raises(SizeOverflowError):
            fold()
    with pytest.raises(OverflowError):
        (a * a).evaluate({"a": 2**40})
    assert (a * 2).evaluate({"a": 2**40}) == 2**41


@pytest.mark.parametrize(
    "text", ["-9223372036854775808*a + 1", "b - 1", "a*a + -9223372036854775808*b", "-9223372036854775808"]
)
def test_the_least_constant_round_trips(text: str) -> None:
    assert str(parse_size(text)) == text


def test_division_by_zero() -> None:
    a = Size.symbol("a")
    for divide in (
        lambda: a // 0,
        lambda: a % 0,
        lambda: (1 // a).evaluate({"a": 0}),
        lambda: (1 % a).substitute({"a": 0}),
    ):
        with pytest.raises(SizeDivisionError):
            divide()
    assert issubclass(SizeDivisionError, ZeroDivisionError)


def test_missing_symbol_is_named() -> None:
    with pytest.raises(UnboundSymbolError, match=r"symbol 'b' has no value \(bound symbols: a\)") as caught:
        parse_size("a*b").evaluate({"a": 1})
    assert caught.value.symbol == "b" and isinstance(caught.value, KeyError)


def test_substitution_is_simultaneous() -> None:
    a, b = Size.symbol("a"), Size.symbol("b")
    assert (a + 2 * b).substitute({"a": b, "b": a}) is b + 2 * a
    assert (a // b).substitute({"b": 2, "a": 4 * b}) is 2 * b


def test_wrong_types_and_names() -> None:
    with pytest.raises(SizeTypeError, match="expected a Size or an int"):
        Size.of("a")  # pyright: ignore[reportArgumentType]
    with pytest.raises(SizeTypeError):
        size_min()
    for name in ("", "1a", "min", "floordiv", "a b", "a\n"):
        with pytest.raises(SizeNameError):
            Size.symbol(name)
    with pytest.raises(TypeError):
        sorted([Size.symbol("a"), Size.symbol("b")])  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize(
    "text",
    ["", "a +", "a b", "(a", "min()", "min(a", "a // 2", "a % b", "2a b", "mod", "a = b", "()", "(" * 5000, "-" * 5000],
)
def test_bad_size_text(text: str) -> None:
    with pytest.raises(SizeParseError, match="size text"):
        parse_size(text)


def test_huge_literals_overflow_at_once() -> None:
    with pytest.raises(SizeOverflowError):
        parse_size("9" * 100_000)


@pytest.mark.parametrize("text", ["a == b", "a != 2*b", "a floordiv 2 <= b", "min(a, b) < 3"])
def test_relation_round_trip(text: str) -> None:
    relation = parse_relation(text)
    assert str(relation) == text
    assert parse_relation(str(relation)) == relation and hash(parse_relation(text)) == hash(relation)
    for x in range(4):
        for y in range(4):
            env = {"a": x, "b": y}
            assert relation.negate().evaluate(env) != relation.evaluate(env)
            assert relation.substitute(env).evaluate({}) == relation.evaluate(env)


def test_relation_methods() -> None:
    a, b = Size.symbol("a"), Size.symbol("b")
    found = [a.eq(b), a.ne(b), a.le(b), a.lt(b), a.ge(b), a.gt(b), a.ge(3)]
    assert [str(each) for each in found] == ["a == b", "a != b", "a <= b", "a < b", "b <= a", "b < a", "3 <= a"]
    assert found[0].symbols == {"a", "b"}


@pytest.mark.parametrize("text", ["a", "a == ", "a >= b", "a == b == c", "a > b"])
def test_bad_relation_text(text: str) -> None:
    with pytest.raises(SizeParseError):
        parse_relation(text)


def test_broadcast_size() -> None:
    a, b = Size.symbol("a"), Size.symbol("b")
    assert broadcast_size(a, a) is a and broadcast_size(a, 1) is a and broadcast_size(1, b) is b
    assert broadcast_size(1, 1) is Size.const(1) and broadcast_size(1, 7) is Size.const(7)
    either = broadcast_size(a, b)
    for n in (0, 1, 2, 7):
        for pair in ((n, n), (1, n), (n, 1)):
            assert either.evaluate(dict(zip("ab", pair, strict=True))) == n
