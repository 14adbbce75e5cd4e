"""Sizes that a model chooses by conditions on sizes."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from onnx import ModelProto, NodeProto, helper

from anyshape.dialects.dhlo.graph import only_function
from anyshape.dialects.sizes import sizes_of
from anyshape.frontends.onnx.builder import GraphBuilder
from anyshape.frontends.onnx.conditions import any_of, both_of, chosen_size, truth
from anyshape.nn import Graph
from anyshape.symbolic import Facts, Relation, Size
from tests.frontends.onnx.models import FLOAT, check, check_compiled, floats, imported, model_of

A, B = Size.symbol("a"), Size.symbol("b")
VALUES = list(product(range(4), repeat=2))


@pytest.mark.parametrize("op", ["==", "!=", "<=", "<"])
def test_truth_of_relations(op: str) -> None:
    relation = Relation(A, op, B)  # pyright: ignore[reportArgumentType]
    for a, b in VALUES:
        env = {"a": a, "b": b}
        assert truth(relation).evaluate(env) == int(relation.evaluate(env))


def test_conditions_together() -> None:
    builder = GraphBuilder(Graph())
    first, second = A.lt(2), B.ne(1)
    both, either = both_of(builder, first, second), any_of(first, second)
    chosen = chosen_size(Facts(), first, A + 5, B * 2)
    for a, b in VALUES:
        env = {"a": a, "b": b}
        assert both.evaluate(env) == (a < 2 and b != 1)
        assert either.evaluate(env) == (a < 2 or b != 1)
        assert chosen.evaluate(env) == (a + 5 if a < 2 else b * 2)


def model_with(*nodes: NodeProto, **constants: list[int]) -> ModelProto:
    """x [1] repeated as often as `count` says, which the nodes compute from the sizes q and k of inputs."""
    sizes = [helper.make_node("Shape", [name], [size]) for name, size in (("u", "q"), ("v", "k"))]
    expand = helper.make_node("Expand", ["x", "count"], ["y"])
    inputs = {"x": (FLOAT, (1,)), "u": (FLOAT, ("q",)), "v": (FLOAT, ("k",))}
    return model_of([*sizes, *nodes, expand], inputs, ["y"], {name: np.array(each) for name, each in constants.items()})


def feeds(q: int, k: int) -> dict[str, np.ndarray]:
    return {"x": floats(1), "u": floats(q), "v": floats(k)}


def test_a_size_is_chosen() -> None:
    model = model_with(
        helper.make_node("Less", ["q", "three"], ["short"]),
        helper.make_node("Greater", ["k", "q"], ["more"]),
        helper.make_node("Or", ["short", "more"], ["test"]),
        helper.make_node("Where", ["test", "k", "q"], ["count"]),
        three=[3],
    )
    calls = [feeds(q, k) for q, k in ((0, 2), (2, 5), (3, 1), (7, 3), (3, 9))]
    check(model, *calls)
    check_compiled(model, *calls)


def test_groups_of_heads() -> None:
    """q != k and q mod k == 0 around q / k, as bodies of Attention have it: the quotient alone, since that is 1 for q == k"""
    model = model_with(
        helper.make_node("Equal", ["q", "k"], ["same"]),
        helper.make_node("Not", ["same"], ["differ"]),
        helper.make_node("Div", ["q", "k"], ["quotient"]),
        helper.make_node("Mod", ["q", "k"], ["left"]),
        helper.make_node("Equal", ["left", "zero"], ["even"]),
        helper.make_node("And", ["differ", "even"], ["test"]),
        helper.make_node("Where", ["test", "quotient", "one"], ["count"]),
        zero=[0],
        one=[1],
    )
    (size,) = sizes_of(only_function(imported(model).module).function_type.outputs.data[0])
    assert str(size) == "q floordiv k"
    check(model, *(feeds(q, k) for q, k in ((4, 4), (6, 2), (8, 1), (0, 3))))
