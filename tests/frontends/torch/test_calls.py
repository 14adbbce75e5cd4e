"""Arguments in, outputs back, errors that say where."""

from __future__ import annotations

from collections import OrderedDict, defaultdict, deque, namedtuple
from collections.abc import Callable
from dataclasses import dataclass
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree
from xdsl.dialects.builtin import FileLineColLoc, NameLoc

from anyshape.dialects.dhlo import DhloOp
from anyshape.frontends.torch import import_module
from anyshape.frontends.torch.calls import leaves_as_in
from anyshape.frontends.torch.dtypes import array_of_tensor
from anyshape.support.errors import ArgumentError, UnsupportedOps


@dataclass
class Output:
    values: Tensor
    rest: dict[str, Any]


torch.export.register_dataclass(Output, serialized_type_name="test.Output")


class Nested(nn.Module):
    """Takes nested arguments and returns every kind of output."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("table", torch.arange(4.0))

    def forward(
        self, pair: tuple[Tensor, Tensor], options: dict[str, Tensor], scale: int = 2, mask: Tensor | None = None
    ) -> Any:
        x, y = pair
        doubled = x * scale + options["bias"]
        rest = {
            "same": y,
            "twice": [doubled, doubled],
            "none": None,
            "size": x.shape[0],
            "number": 3,
            "table": self.table,
        }
        return Output(doubled, rest), (doubled.sum(),)


@pytest.fixture(scope="module")
def nested() -> tuple[Nested, Any]:
    module = Nested()
    example = ((torch.randn(3, 4), torch.randn(5)), {"bias": torch.randn(4)})
    return module, import_module(module, example, {"scale": 2})


def arguments(n: int) -> tuple[tuple[Tensor, Tensor], dict[str, Tensor]]:
    return (torch.randn(n, 4), torch.randn(n + 1)), {"bias": torch.randn(4)}


def test_outputs_come_back_nested(
    nested: tuple[Nested, Any], run: Callable[..., Any], compare: Callable[..., None]
) -> None:
    module, program = nested
    assert [spec.name for spec in program.inputs] == ["args[0][0]", "args[0][1]", "args[1]['bias']"]
    for n in (1, 6):
        compare(program, module, *arguments(n), scale=2)
    pair, options = arguments(2)
    output, _ = run(program, (pair, options), {"scale": 2})
    assert isinstance(output, Output)
    assert output.rest["same"] is pair[1]
    assert output.rest["twice"][0] is output.rest["twice"][1]
    assert output.rest["size"] == 2


def test_arguments_by_name_or_position(nested: tuple[Nested, Any], run: Callable[..., Any]) -> None:
    _, program = nested
    pair, options = arguments(2)
    by_position, _ = run(program, (pair, options, 2), {})
    by_name, _ = run(program, (), {"options": options, "scale": 2, "pair": pair, "mask": None})
    assert torch.equal(by_position.values, by_name.values)


def test_wrong_arguments_are_named(nested: tuple[Nested, Any]) -> None:
    _, program = nested
    pair, options = arguments(2)
    flatten = program.adaptor.flatten
    with pytest.raises(ArgumentError, match="missing a required argument: 'options'"):
        flatten((pair,), {"scale": 2})
    assert len(flatten((pair, options), {})) == 3  # the default of scale is the example's
    with pytest.raises(ArgumentError, match="mask: unexpected"):
        flatten((pair, options), {"scale": 2, "mask": torch.ones(1)})
    with pytest.raises(ArgumentError, match="nested differently"):
        flatten((pair, {"bias": pair[0], "more": pair[0]}), {"scale": 2})
    with pytest.raises(ArgumentError, match=r"kwargs\['scale'\]"):
        flatten((pair, options), {"scale": 3})
    with pytest.raises(ArgumentError, match=r"args\[1\]\['bias'\]"):
        flatten((pair, {"bias": 1.0}), {"scale": 2})


def test_the_place_that_is_nested_otherwise_is_named(nested: tuple[Nested, Any]) -> None:
    _, program = nested
    (x, y), options = arguments(2)
    bias = options["bias"]
    for args, where, got, expected in [
        (((x, y, y), options), "args[0]", "a tuple of 3", "a tuple of 2"),
        (([x, y], options), "args[0]", "a list of 2", "a tuple of 2"),
        ((x, options), "args[0]", "a Tensor", "a tuple of 2"),
        (((x, y), None), "args[1]", "None", "a dict with the keys 'bias'"),
        (((x, y), {}), "args[1]", "an empty dict", "a dict with the keys 'bias'"),
        (
            ((x, y), {"bias": bias, "b": y}),
            "args[1]",
            "a dict with the keys 'bias', 'b'",
            "a dict with the keys 'bias'",
        ),
    ]:
        with pytest.raises(ArgumentError, match="nested differently") as caught:
            program.adaptor.flatten(args, {"scale": 2})
        assert (caught.value.where, caught.value.got, caught.value.expected) == (where, got, expected)
    with pytest.raises(ArgumentError, match="no tensor") as caught:
        program.adaptor.flatten(((x, [y, y]), options), {"scale": 2})
    assert (caught.value.where, caught.value.got) == ("args[0][1]", "list")


def test_leaves_follow_the_keys_of_the_example() -> None:
    """The leaves of one dict are in the example's order, whatever the order and kind of the call's."""
    Point = namedtuple("Point", "x y")
    example = {"b": 0, "a": [1, Point(2, 3)], "c": deque([4])}
    structure = pytree.tree_structure(example)
    expected = pytree.tree_leaves(example)
    for kind in (dict, OrderedDict, lambda items: defaultdict(list, items)):
        for order in permutations(example):
            assert leaves_as_in(structure, kind({key: example[key] for key in order})) == expected
            other = pytree.tree_structure(kind({key: example[key] for key in order}))
            by_key = [leaf for key in other.unflatten(range(5)) for leaf in pytree.tree_leaves(example[key])]
            assert leaves_as_in(other, example) == by_key
    Other = namedtuple("Other", "x y")
    with pytest.raises(ArgumentError, match="a Other of 2"):
        leaves_as_in(pytree.tree_structure(((example,), {})), (({**example, "a": [1, Other(2, 3)]},), {}))


def test_a_missing_argument_that_the_example_passed_by_name() -> None:
    class Named(nn.Module):
        def forward(self, x: Tensor, **more: Tensor) -> Tensor:
            return x + more["y"]

    program = import_module(Named(), (torch.randn(2),), {"y": torch.randn(2)})
    with pytest.raises(ArgumentError, match="y: missing"):
        program.adaptor.flatten((torch.randn(2),), {})
    with pytest.raises(ArgumentError, match="z: unexpected"):
        program.adaptor.flatten((torch.randn(2),), {"y": torch.randn(2), "z": torch.randn(2)})


def test_one_tensor_given_twice(compare: Callable[..., None]) -> None:
    class Sum(nn.Module):
        def forward(self, x: Tensor, y: Tensor) -> Tensor:
            return x + 2 * y

    module, x = Sum(), torch.randn(1, 3)
    program = import_module(module, (x, x))
    compare(program, module, torch.randn(5, 2), torch.randn(5, 2))


def test_weights_share_the_memory_of_the_module() -> None:
    module = nn.Linear(4, 4)
    program = import_module(module, (torch.randn(2, 4),))
    pointers = {array.ctypes.data for array in program.store.values()}
    assert pointers == {parameter.data_ptr() for parameter in module.parameters()}


def test_unsupported_ops_are_all_listed_with_their_lines() -> None:
    class Unusual(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            y = torch.igammac(x, x)
            return torch.igamma(y, x).sum()

    with pytest.raises(UnsupportedOps) as caught:
        import_module(Unusual(), (torch.randn(2, 8),))
    assert {op.name.split(".")[1] for op in caught.value.ops} >= {"igammac", "igamma"}
    first = Unusual.forward.__code__.co_firstlineno
    lines = {op.name.split(".")[1]: op.location for op in caught.value.ops}
    assert lines["igammac"] == f"{Path(__file__)}:{first + 1}"
    assert lines["igamma"] == f"{Path(__file__)}:{first + 2}"


def test_ops_carry_the_line_that_they_come_from() -> None:
    class Layer(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return torch.tanh(x)

    program = import_module(Layer(), (torch.randn(2, 8),))
    (tanh,) = (op for op in program.module.walk() if op.name == "dhlo.tanh")
    assert isinstance(tanh.location, NameLoc)
    line = tanh.location.location
    assert isinstance(line, FileLineColLoc)
    assert (line.filename.data, line.line.data) == (str(Path(__file__)), Layer.forward.__code__.co_firstlineno + 1)


def test_a_write_to_a_buffer_is_unsupported() -> None:
    class Counter(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("count", torch.zeros(1))

        def forward(self, x: Tensor) -> Tensor:
            self.count.add_(1)  # pyright: ignore[reportCallIssue]
            return x + self.count

    with pytest.raises(UnsupportedOps, match="writes to count in place"):
        import_module(Counter(), (torch.randn(2),))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_parameters_of_other_dtypes(dtype: torch.dtype, compare: Callable[..., None]) -> None:
    module = nn.Sequential(nn.Linear(6, 4), nn.ReLU()).to(dtype)
    program = import_module(module, (torch.randn(2, 6, dtype=dtype),))
    compare(program, module, torch.randn(3, 6, dtype=dtype))
    assert array_of_tensor(torch.ones(2, dtype=dtype)).itemsize == torch.ones(1, dtype=dtype).itemsize


def test_an_argument_that_a_one_to_one_op_lacks_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Dropping it would change the result in silence."""
    monkeypatch.setitem(DhloOp.OVERLOADS, "aten.celu.default", DhloOp.OVERLOADS["aten.relu.default"])
    with pytest.raises(UnsupportedOps, match="has no alpha"):
        import_module(torch.nn.CELU(alpha=2.0), (torch.zeros(2, 3),))
