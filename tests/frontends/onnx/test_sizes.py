"""Sizes: names from the file, shapes that fold into expressions, axes made dynamic, conditions that name their node."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import ModelProto, NodeProto, helper

from anyshape.dialects.dhlo.graph import only_function
from anyshape.dialects.locations import origins_in
from anyshape.dialects.sizes import sizes_of
from anyshape.frontends.onnx import import_model, load_model
from anyshape.frontends.onnx.division import exact_quotient
from anyshape.support.errors import ArgumentError, FileFormatError, GuardError, UnsupportedOps
from anyshape.symbolic import parse_size
from tests.frontends.onnx.models import (
    BOOL,
    FLOAT,
    INT64,
    SIZES,
    check,
    check_compiled,
    floats,
    imported,
    interpreted,
    model_of,
)


def shape_chain(*nodes: NodeProto) -> list[NodeProto]:
    """Shape of x, with its axes as b, s and d, and then these nodes."""
    picks = [helper.make_node("Gather", ["shape", f"i{axis}"], [name], axis=0) for axis, name in enumerate("bsd")]
    return [helper.make_node("Shape", ["x"], ["shape"]), *picks, *nodes]


PLACES: dict[str, Any] = {
    "i0": np.array(0),
    "i1": np.array(1),
    "i2": np.array(2),
    "zero": np.array([0]),
    "minus": np.array([-1]),
}
X = {"x": (FLOAT, ("b", "s", 6))}


def ops_of(model: ModelProto) -> list[str]:
    return [op.name.removeprefix("dhlo.") for op in only_function(imported(model).module).body.block.ops]


def result_sizes(model: ModelProto) -> list[str]:
    function = only_function(imported(model).module)
    return [str(size) for size in sizes_of(function.function_type.outputs.data[0])]


def test_shape_arithmetic_folds() -> None:
    """view(b * s, -1) as exporters write it leaves one reshape in the graph, and a product of symbols in its type."""
    nodes = shape_chain(
        helper.make_node("Mul", ["b", "s"], ["bs"]),
        helper.make_node("Unsqueeze", ["bs", "zero"], ["row"]),
        helper.make_node("Concat", ["row", "minus"], ["target"], axis=0),
        helper.make_node("Reshape", ["x", "target"], ["y"]),
    )
    model = model_of(nodes, X, ["y"], PLACES)
    assert ops_of(model) == ["reshape", "func.return"]
    assert result_sizes(model) == ["b*s", "6"]
    check(model, *({"x": floats(b, s, 6)} for b in (1, 2, 3) for s in (1, 2, 7)))
    assert interpreted(model, {"x": floats(0, 5, 6)})[0].shape == (0, 6)


def test_heads_and_back() -> None:
    """[b, s, 6] -> [b, s, -1, 3] -> [b, 2, s, 3] -> [b, s, 6]"""
    nodes = shape_chain(
        helper.make_node("Unsqueeze", ["b", "zero"], ["b1"]),
        helper.make_node("Unsqueeze", ["s", "zero"], ["s1"]),
        helper.make_node("Concat", ["b1", "s1", "minus", "three"], ["apart"], axis=0),
        helper.make_node("Reshape", ["x", "apart"], ["heads"]),
        helper.make_node("Transpose", ["heads"], ["turned"], perm=[0, 2, 1, 3]),
        helper.make_node("Transpose", ["turned"], ["again"], perm=[0, 2, 1, 3]),
        helper.make_node("Concat", ["b1", "s1", "minus"], ["flat"], axis=0),
        helper.make_node("Reshape", ["again", "flat"], ["y"]),
        helper.make_node("Shape", ["turned"], ["inner"]),
    )
    model = model_of(nodes, X, ["y", "inner"], {**PLACES, "three": np.array([3])})
    assert result_sizes(model) == ["b", "s", "6"]
    check(model, *({"x": floats(b, s, 6)} for b in (1, 2) for s in (1, 5)))


def test_arithmetic_of_shapes() -> None:
    """Every op of size arithmetic, as a result that the program gives."""
    steps = [
        helper.make_node("Add", ["b", "s"], ["sum"]),
        helper.make_node("Sub", ["sum", "two"], ["less"]),
        helper.make_node("Div", ["s", "two"], ["half"]),
        helper.make_node("Mod", ["s", "two"], ["odd"]),
        helper.make_node("Max", ["b", "s"], ["larger"]),
        helper.make_node("Min", ["b", "s"], ["smaller"]),
        helper.make_node("Equal", ["d", "six"], ["yes"]),
        helper.make_node("Where", ["yes", "half", "odd"], ["chosen"]),
        helper.make_node("Size", ["x"], ["count"]),
        helper.make_node("Slice", ["shape", "one", "three"], ["tail"]),
        helper.make_node("ReduceProd", ["tail"], ["inner"], keepdims=0),
        helper.make_node("Cast", ["inner"], ["cast"], to=6),
        helper.make_node("Cast", ["cast"], ["back"], to=7),
    ]
    names = ["sum", "less", "half", "odd", "larger", "smaller", "chosen", "count", "inner", "back"]
    rows = [helper.make_node("Unsqueeze", [name, "zero"], [f"{name}1"]) for name in names]
    joined = helper.make_node("Concat", [f"{name}1" for name in names], ["y"], axis=0)
    constants = {**PLACES, "two": np.array(2), "six": np.array(6), "one": np.array([1]), "three": np.array([3])}
    model = model_of(shape_chain(*steps, *rows, joined), X, ["y"], constants)
    check(model, *({"x": floats(b, s, 6)} for b in SIZES for s in (0, 1, 2, 7)))


def test_names_of_sizes() -> None:
    model = model_of(
        [helper.make_node("Identity", ["x"], ["y"])],
        {"x": (FLOAT, ("batch size", "unk__1", None, 3)), "z": (INT64, ("unk__1 + 1",))},
        ["y"],
    )
    inputs = imported(model).inputs
    assert [str(size) for size in inputs[0].sizes] == ["batch_size", "unk__1", "x.2", "3"]
    assert [str(size) for size in inputs[1].sizes] == ["unk__1 + 1"]


def test_dynamic_shapes_free_fixed_axes() -> None:
    nodes = shape_chain(
        helper.make_node("Unsqueeze", ["b", "zero"], ["b1"]),
        helper.make_node("Concat", ["b1", "minus"], ["target"], axis=0),
        helper.make_node("Reshape", ["x", "target"], ["y"]),
    )
    model = model_of(nodes, {"x": (FLOAT, (1, 5, 6))}, ["y"], PLACES)
    graph = imported(model, x={0: "batch", -2: "length"})
    assert [str(size) for size in graph.inputs[0].sizes] == ["batch", "length", "6"]
    for batch in (1, 4):
        assert interpreted(graph, {"x": floats(batch, 2, 6)})[0].shape == (batch, 12)
    assert [str(size) for size in imported(model, x=(None, "length", None)).inputs[0].sizes] == ["1", "length", "6"]


@pytest.mark.parametrize("given", [{"z": {0: "b"}}, {"x": {3: "b"}}, {"x": ("b",)}, {"x": "b"}], ids=str)
def test_dynamic_shapes_are_checked(given: Any) -> None:
    model = model_of([helper.make_node("Relu", ["x"], ["y"])], {"x": (FLOAT, (1, 5, 6))}, ["y"])
    with pytest.raises(ArgumentError):
        import_model(load_model(model), given)


def test_condition_names_its_node() -> None:
    model = model_of(
        [helper.make_node("MatMul", ["x", "w"], ["y"], name="project")],
        {"x": (FLOAT, ("b", "k"))},
        ["y"],
        {"w": floats(4, 3)},
    )
    graph = imported(model)
    origins = origins_in(only_function(graph.module).location)
    assert [origin.asker for origin in origins.values()] == ["small: node 'project' (MatMul)"]
    check(model, {"x": floats(2, 4)})
    with pytest.raises(GuardError):
        interpreted(graph, {"x": floats(2, 5)})


def test_sizes_that_never_fit() -> None:
    model = model_of(
        [helper.make_node("MatMul", ["x", "w"], ["y"], name="project")],
        {"x": (FLOAT, ("b", 5))},
        ["y"],
        {"w": floats(4, 3)},
    )
    with pytest.raises(FileFormatError, match="node 'project' \\(MatMul\\)"):
        imported(model)


def test_if_that_sizes_decide() -> None:
    """The pattern of exporters for `squeeze(1)`: the general case is taken, and is a condition."""
    yes = helper.make_graph(
        [helper.make_node("Squeeze", ["x", "one"], ["p"])], "then", [], [helper.make_empty_tensor_value_info("p")]
    )
    no = helper.make_graph(
        [helper.make_node("Identity", ["x"], ["q"])], "else", [], [helper.make_empty_tensor_value_info("q")]
    )
    nodes = shape_chain(
        helper.make_node("Equal", ["s", "i1"], ["is_one"]),
        helper.make_node("If", ["is_one"], ["y"], then_branch=yes, else_branch=no),
    )
    constants = {**PLACES, "one": np.array([1])}
    general = model_of(nodes, X, ["y"], constants)
    check(general, {"x": floats(2, 3, 6)})
    with pytest.raises(GuardError):
        interpreted(general, {"x": floats(2, 1, 6)})
    special = model_of(nodes, {"x": (FLOAT, ("b", 1, 6))}, ["y"], constants)
    check(special, {"x": floats(2, 1, 6)})


def branch(*nodes: NodeProto) -> Any:
    """A graph of these nodes, with the output of the last."""
    return helper.make_graph(list(nodes), "g", [], [helper.make_empty_tensor_value_info(nodes[-1].output[0])])


def test_if_that_data_decide_chooses() -> None:
    """Branches of one type are both computed, nested ones too, where neither may fail."""
    exponential, negative = (branch(helper.make_node(op, ["x"], [op])) for op in ("Exp", "Neg"))
    inner = helper.make_node("If", ["c"], ["i"], then_branch=exponential, else_branch=negative)
    relu = branch(helper.make_node("Relu", ["x"], ["r"]))
    model = model_of(
        [helper.make_node("If", ["c"], ["y"], then_branch=relu, else_branch=branch(inner))],
        {**X, "c": (BOOL, ())},
        ["y"],
    )
    check(model, *({"x": floats(b, 2, 6), "c": np.array(c)} for b in (0, 3) for c in (True, False)))


@pytest.mark.parametrize(
    "other",
    [
        helper.make_node("Transpose", ["x"], ["p"]), helper.make_node("Squeeze", ["x", "axis"], ["p"]),
        helper.make_node("Add", ["x", "seven"], ["p"]), helper.make_node("Gather", ["x", "indices"], ["p"]),
    ],
    ids=lambda node: node.op_type,
)  # fmt: skip
def test_if_that_data_decide(other: NodeProto) -> None:
    """A branch that may fail where it is not taken, or gives other sizes, is not computed."""
    relu = branch(helper.make_node("Relu", ["x"], ["r"]))
    nodes = [
        helper.make_node("ReduceMax", ["x"], ["m"], keepdims=0),
        helper.make_node("Cast", ["m"], ["c"], to=9),
        helper.make_node("If", ["c"], ["y"], name="choose", then_branch=relu, else_branch=branch(other)),
    ]
    constants = {"axis": np.array([1]), "seven": floats(7)}
    with pytest.raises(UnsupportedOps, match="node 'choose' \\(If\\)"):
        imported(model_of(nodes, {**X, "indices": (INT64, ("m",))}, ["y"], constants))


def test_branches_that_give_sequences() -> None:
    """An error, and no program without the output."""
    yes, no = (
        branch(helper.make_node("SequenceConstruct", names, [f"s{len(names)}"])) for names in (["x"], ["x", "x"])
    )
    model = model_of(
        [helper.make_node("If", ["c"], ["y"], name="choose", then_branch=yes, else_branch=no)],
        {**X, "c": (BOOL, ())},
        ["y"],
    )
    with pytest.raises(UnsupportedOps, match="gives a sequence"):
        imported(model)


def test_range_of_a_size() -> None:
    nodes = shape_chain(helper.make_node("Range", ["zero0", "s", "step"], ["y"]))
    model = model_of(nodes, X, ["y"], {**PLACES, "zero0": np.array(0), "step": np.array(2)})
    check(model, *({"x": floats(1, s, 6)} for s in SIZES))


def test_constant_of_shape_and_expand() -> None:
    nodes = shape_chain(
        helper.make_node("ConstantOfShape", ["shape"], ["ones"], value=helper.make_tensor("v", FLOAT, [1], [1.5])),
        helper.make_node("Expand", ["small", "shape"], ["wide"]),
        helper.make_node("Add", ["ones", "wide"], ["y"]),
    )
    model = model_of(nodes, X, ["y"], {**PLACES, "small": floats(6)})
    check_compiled(model, *({"x": floats(b, s, 6)} for b, s in ((1, 1), (0, 2), (3, 7))))


@pytest.mark.parametrize(
    ("total", "part", "quotient"),
    [
        ("b*s*768", "64*b", "12*s"), ("n*b*d + b*d", "n*b + b", "d"), ("6*b", "4", None), ("b*s", "d", None),
        ("b*(h floordiv 16)*5", "(h floordiv 16)", "5*b"), ("0", "b", "0"), ("b", "0", None),
    ],
)  # fmt: skip
def test_exact_quotient(total: str, part: str, quotient: str | None) -> None:
    wanted = None if quotient is None else parse_size(quotient)
    assert exact_quotient(parse_size(total), parse_size(part)) == wanted
