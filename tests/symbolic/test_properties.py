"""Sizes and facts against brute force: a tree of plain Python ints is the oracle."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from anyshape.symbolic import (
    ContradictionError,
    Facts,
    Relation,
    Size,
    SizeDivisionError,
    parse_relation,
    parse_size,
    size_max,
    size_min,
)

NAMES: tuple[str, ...] = ("a", "b", "c")
FEW = settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True)


@dataclass(frozen=True)
class Tree:
    """An expression as written: nothing is simplified."""

    op: str
    args: tuple[Tree, ...] = ()
    leaf: int | str = 0

    def value(self, env: dict[str, int]) -> int:
        values = [arg.value(env) for arg in self.args]
        operators: dict[str, Callable[[], int]] = {
            "leaf": lambda: env[self.leaf] if isinstance(self.leaf, str) else self.leaf,
            "+": lambda: values[0] + values[1],
            "-": lambda: values[0] - values[1],
            "*": lambda: values[0] * values[1],
            "//": lambda: values[0] // values[1],
            "%": lambda: values[0] % values[1],
            "min": lambda: min(values),
            "max": lambda: max(values),
        }
        return operators[self.op]()

    def size(self) -> Size:
        sizes = [arg.size() for arg in self.args]
        operators: dict[str, Callable[[], Size]] = {
            "leaf": lambda: Size.symbol(self.leaf) if isinstance(self.leaf, str) else Size.const(self.leaf),
            "+": lambda: sizes[0] + sizes[1],
            "-": lambda: sizes[0] - sizes[1],
            "*": lambda: sizes[0] * sizes[1],
            "//": lambda: sizes[0] // sizes[1],
            "%": lambda: sizes[0] % sizes[1],
            "min": lambda: size_min(*sizes),
            "max": lambda: size_max(*sizes),
        }
        return operators[self.op]()


def _node(children: st.SearchStrategy[Tree]) -> st.SearchStrategy[Tree]:
    operators = st.sampled_from(["+", "-", "*", "//", "%", "min", "max"])
    return st.builds(Tree, operators, st.tuples(children, children))


LEAVES = st.one_of(st.sampled_from(NAMES), st.integers(-4, 8)).map(lambda leaf: Tree("leaf", leaf=leaf))
TREES = st.recursive(LEAVES, _node, max_leaves=8)


def _environments(lo: int, hi: int, step: int = 1) -> Iterator[dict[str, int]]:
    for values in itertools.product(range(lo, hi + 1, step), repeat=len(NAMES)):
        yield dict(zip(NAMES, values, strict=True))


def _size(tree: Tree) -> Size | None:
    try:
        return tree.size()
    except SizeDivisionError:  # a constant divisor that folds to zero
        return None


def _value(tree: Tree, env: dict[str, int]) -> int | None:
    try:
        return tree.value(env)
    except ZeroDivisionError:
        return None


@FEW
@given(TREES)
def test_normal_form_has_the_value_of_the_tree(tree: Tree) -> None:
    size = _size(tree)
    if size is None:
        return
    for env in _environments(-3, 7, 2):
        expected = _value(tree, env)
        if expected is not None:
            assert size.evaluate(env) == expected, (size, env)


@FEW
@given(TREES)
def test_text_round_trip_is_identity(tree: Tree) -> None:
    size = _size(tree)
    if size is not None:
        assert parse_size(str(size)) is size


@FEW
@given(TREES, TREES, TREES)
def test_substitute_is_evaluation_at_the_replacements(tree: Tree, a: Tree, b: Tree) -> None:
    size, size_a, size_b = _size(tree), _size(a), _size(b)
    if size is None or size_a is None or size_b is None:
        return
    try:
        replaced = size.substitute({"a": size_a, "b": size_b})
    except SizeDivisionError:
        return
    for env in _environments(0, 5, 2):
        value_a, value_b = _value(a, env), _value(b, env)
        if value_a is None or value_b is None:
            continue
        expected = _value(tree, {"a": value_a, "b": value_b, "c": env["c"]})
        if expected is not None:
            assert replaced.evaluate(env) == expected


class PlainInts:
    """The algebra of Python's ints at one environment."""

    def __init__(self, env: dict[str, int]) -> None:
        self.env = env

    def constant(self, value: int) -> int:
        return value

    def symbol(self, name: str) -> int:
        return self.env[name]

    def add(self, lhs: int, rhs: int) -> int:
        return lhs + rhs

    def mul(self, lhs: int, rhs: int) -> int:
        return lhs * rhs

    def floordiv(self, lhs: int, rhs: int) -> int:
        return lhs // rhs

    def mod(self, lhs: int, rhs: int) -> int:
        return lhs % rhs

    def min(self, lhs: int, rhs: int) -> int:
        return min(lhs, rhs)

    def max(self, lhs: int, rhs: int) -> int:
        return max(lhs, rhs)


@FEW
@given(TREES)
def test_fold_interprets_every_operator(tree: Tree) -> None:
    size = _size(tree)
    env = {"a": 5, "b": 3, "c": 2}
    expected = _value(tree, env)
    if size is not None and expected is not None:
        assert size.fold(PlainInts(env)) == expected


# Facts: whatever is answered holds at every assignment that satisfies what was stated.

SMALL = st.recursive(LEAVES, _node, max_leaves=4)
RELATIONS = st.tuples(SMALL, st.sampled_from(["==", "!=", "<=", "<"]), SMALL)
DECLARATIONS = st.tuples(
    st.sampled_from([-2, 0, 0, 0, 1, 2]), st.sampled_from([None, None, 3, 6, 2]), st.sampled_from([1, 1, 1, 2, 3])
)
WRITTEN = (
    "a == b", "a*b == 2*c", "a == b + c", "a <= b", "b < c", "a*b == a*c", "a != b", "2*a <= 3*b", "a == b floordiv 2",
    "(a + b) mod 3 == 0", "max(a, b) == c", "a mod 2 == 1", "a + b <= 4", "a*a == b*c", "2*a == 3*b", "min(a, c) == 1",
    "b == 0",
)  # fmt: skip


def _relation(parts: tuple[Tree, str, Tree]) -> Relation | None:
    lhs, rhs = _size(parts[0]), _size(parts[2])
    return None if lhs is None or rhs is None else Relation(lhs, parts[1], rhs)  # pyright: ignore[reportArgumentType]


def _holds(relation: Relation, env: dict[str, int]) -> bool:
    try:
        return relation.evaluate(env)
    except SizeDivisionError:
        return False


def _build(declarations: list[tuple[int, int | None, int]], assumed: list[Relation]) -> tuple[Facts, bool]:
    """The store, and whether it refused a statement as contradictory."""
    facts = Facts()
    try:
        for name, (lo, hi, multiple) in zip(NAMES, declarations, strict=True):
            facts.declare(name, lo, hi, multiple)
        for relation in assumed:
            facts.assume(relation)
    except ContradictionError:
        return facts, True
    return facts, False


def _models(declarations: list[tuple[int, int | None, int]], assumed: list[Relation]) -> list[dict[str, int]]:
    ranges = [
        [x for x in range(lo, 7 if hi is None else hi + 1) if x % multiple == 0] for lo, hi, multiple in declarations
    ]
    environments = (dict(zip(NAMES, values, strict=True)) for values in itertools.product(*ranges))
    return [env for env in environments if all(_holds(relation, env) for relation in assumed)]


def _check_answers(facts: Facts, models: list[dict[str, int]], question: Relation) -> None:
    size = question.lhs
    answer, simplified = facts.prove(question), facts.simplify(size)
    (lo, hi), divisor = facts.range_of(size), facts.multiple_of(size)
    is_even = facts.is_multiple(size, 2)
    for env in models:
        try:
            value = size.evaluate(env)
        except SizeDivisionError:
            continue
        assert simplified.evaluate(env) == value, f"{size} -> {simplified} at {env}"
        assert (lo is None or lo <= value) and (hi is None or value <= hi), f"{size} in {lo}..{hi} at {env}"
        assert value % divisor == 0, f"{divisor} | {size} at {env}"
        assert is_even is None or is_even == (value % 2 == 0), f"2 | {size}: {is_even} at {env}"
        try:
            holds = question.evaluate(env)
        except SizeDivisionError:
            continue
        assert answer is None or answer == holds, f"{question}: {answer} at {env}"


@settings(FEW, max_examples=200)
@given(
    st.lists(DECLARATIONS, min_size=3, max_size=3),
    st.lists(st.one_of(st.sampled_from(WRITTEN).map(parse_relation), RELATIONS.map(_relation)), max_size=3),
    st.lists(RELATIONS.map(_relation), min_size=4, max_size=4),
)
def test_every_answer_is_sound(
    declarations: list[tuple[int, int | None, int]], assumed: list[Relation | None], questions: list[Relation | None]
) -> None:
    stated = [relation for relation in assumed if relation is not None]
    facts, refused = _build(declarations, stated)
    models = _models(declarations, stated)
    if refused:
        assert not models, f"refused, but {models[0]} satisfies {[str(r) for r in stated]} {declarations}"
        return
    for question in questions:
        if question is not None:
            _check_answers(facts, models, question)


@pytest.mark.parametrize("first", WRITTEN)
def test_pairs_of_written_facts_are_sound(first: str) -> None:
    declarations: list[tuple[int, int | None, int]] = [(0, 4, 1), (0, 5, 1), (0, 4, 1)]
    for second in WRITTEN[::3]:
        stated = [parse_relation(first), parse_relation(second)]
        facts, refused = _build(declarations, stated)
        models = _models(declarations, stated)
        if refused:
            assert not models, second
            continue
        others = ("a floordiv b <= c", "(a*b) floordiv b == a", "max(a, 1)*min(a, 1) == a", "c - a <= b")
        for question in (*WRITTEN[1::3], *others):
            _check_answers(facts, models, parse_relation(question))
