"""The text by which the program of a captured module is found: whatever changes the graph changes the text."""

import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional

from anyshape.frontends.torch import capture_module, decode_outputs, encode_outputs
from anyshape.frontends.torch.builder import LOWERINGS
from anyshape.frontends.torch.program import FromConstant, FromInput, FromResult, FromSize
from anyshape.symbolic import Size


class Function(nn.Module):
    """A function as a module, with tensors that it may use."""

    def __init__(self, function: Callable[..., Any], **held: torch.Tensor) -> None:
        super().__init__()
        self.function = function
        for name, tensor in held.items():
            self.register_buffer(name, tensor)

    def forward(self, *args: torch.Tensor) -> Any:
        return self.function(self, *args)


X = torch.linspace(-1.0, 1.0, 24).reshape(2, 3, 4)
_LINE = re.compile(r'"[^"]*\.py:\d+"')


def text_of(function: Callable[..., Any], *args: torch.Tensor, shapes: Any = "all", **held: torch.Tensor) -> str:
    """The text without source lines: the functions below stand on different ones."""
    text = capture_module(Function(function, **held), args, dynamic_shapes=shapes).graph_text()
    assert text is not None
    return _LINE.sub("line", text)


def test_equal_models_have_equal_texts() -> None:
    def text() -> str:
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.Linear(8, 4)).eval()
        found = capture_module(model, (X,)).graph_text()
        assert found is not None
        return found

    assert text() == text()


def test_another_example_of_the_same_graph_has_the_same_text() -> None:
    assert text_of(lambda _, x: x.exp(), X) == text_of(lambda _, x: x.exp(), torch.zeros(5, 7, 2))


PAIRS: dict[str, tuple[Callable[[], str], Callable[[], str]]] = {
    "an attribute": (
        lambda: text_of(lambda _, x: functional.gelu(x), X),
        lambda: text_of(lambda _, x: functional.gelu(x, approximate="tanh"), X),
    ),
    "an axis": (lambda: text_of(lambda _, x: x.sum(0), X), lambda: text_of(lambda _, x: x.sum(1), X)),
    "a scalar": (lambda: text_of(lambda _, x: x * 2.0, X), lambda: text_of(lambda _, x: x * (2.0 + 2**-51), X)),
    "the kind of a scalar": (lambda: text_of(lambda _, x: x * 2, X), lambda: text_of(lambda _, x: x * 2.0, X)),
    "the sign of zero": (lambda: text_of(lambda _, x: x + 0.0, X), lambda: text_of(lambda _, x: x + -0.0, X)),
    "an op": (lambda: text_of(lambda _, x: x.sin(), X), lambda: text_of(lambda _, x: x.cos(), X)),
    "the order of operands": (lambda: text_of(lambda _, x, y: x - y, X, X + 1), lambda: text_of(lambda _, x, y: y - x, X, X + 1)),
    "the order of results": (
        lambda: text_of(lambda _, x: (x.sin(), x.cos()), X),
        lambda: text_of(lambda _, x: (x.cos(), x.sin()), X),
    ),
    "a result that is an argument": (
        lambda: text_of(lambda _, x: (x.sin(), x), X),
        lambda: text_of(lambda _, x: (x.sin(),), X),
    ),
    "a dtype of an input": (
        lambda: text_of(lambda _, x: x + 1, X),
        lambda: text_of(lambda _, x: x + 1, X.double()),
    ),
    "a rank": (lambda: text_of(lambda _, x: x + 1, X), lambda: text_of(lambda _, x: x + 1, X[0])),
    "a constant": (
        lambda: text_of(lambda m, x: x + m.c, X, c=torch.ones(4)),
        lambda: text_of(lambda m, x: x + m.c, X, c=torch.ones(4).index_fill(0, torch.tensor([3]), 2.0)),
    ),
    "the shape of a constant": (
        lambda: text_of(lambda m, x: x + m.c, X, c=torch.ones(1, 4)),
        lambda: text_of(lambda m, x: x + m.c, X, c=torch.ones(4)),
    ),
    "which constants are equal": (
        lambda: text_of(lambda m, x: x * m.a + m.b, X, a=torch.ones(4), b=torch.ones(4)),
        lambda: text_of(lambda m, x: x * m.a + m.b, X, a=torch.ones(4), b=torch.zeros(4)),
    ),
    "a size that is static": (
        lambda: text_of(lambda _, x: x + 1, X),
        lambda: text_of(lambda _, x: x + 1, X, shapes=None),
    ),
    "a static size": (
        lambda: text_of(lambda _, x: x + 1, X, shapes=None),
        lambda: text_of(lambda _, x: x + 1, X.reshape(3, 2, 4), shapes=None),
    ),
    "a guard": (
        lambda: text_of(lambda _, x: x + 1 if x.shape[0] < 9 else x, X),
        lambda: text_of(lambda _, x: x + 1 if x.shape[0] < 10 else x, X),
    ),
    "sizes that are equal": (
        lambda: text_of(lambda _, x, y: x.sum(1) + y.sum(1), X, X),
        lambda: text_of(lambda _, x, y: x.sum((1, 2)).sum() + y.sum((1, 2)).sum(), X, X),
    ),
    "what happens at size 1": (
        lambda: text_of(lambda _, x: x * 2 if x.shape[0] == 1 else x + 1, X),
        lambda: text_of(lambda _, x: x + 1, X),
    ),
    "the sign of a position": (
        lambda: text_of(lambda _, x: x[: x.shape[0] - 1], X),
        lambda: text_of(lambda _, x: x[: 1 - x.shape[0]], X),
    ),
    "a size in a result": (
        lambda: text_of(lambda _, x: x.new_full((2,), x.shape[0]), X),
        lambda: text_of(lambda _, x: x.new_full((2,), x.shape[1]), X),
    ),
    "strides that the graph asks for": (
        lambda: text_of(lambda _, x: x.transpose(1, 2).contiguous(), X),
        lambda: text_of(lambda _, x: x.transpose(1, 2).clone(), X),
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", list(PAIRS))
def test_what_changes_the_graph_changes_the_text(what: str) -> None:
    one, other = PAIRS[what]
    assert one() != other()


class Sine(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.sin()


class SineElsewhere(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.sin()


def test_source_lines_are_part_of_the_text() -> None:
    """They are part of the program: of the error of an index that is out of range."""
    one, other = (capture_module(module, (X,)).graph_text() for module in (Sine(), SineElsewhere()))
    assert one is not None and other is not None
    assert one != other
    assert _LINE.sub("line", one) == _LINE.sub("line", other)


def test_a_lowering_from_elsewhere_has_no_text(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its sources are no part of any key."""
    own = LOWERINGS["aten.linear.default"]
    monkeypatch.setitem(LOWERINGS, "aten.linear.default", lambda builder, *args: own(builder, *args))
    assert capture_module(nn.Linear(4, 2), (X,)).graph_text() is None


def test_an_op_that_cannot_be_lowered_has_no_text() -> None:
    assert capture_module(Function(lambda _, x: torch.linalg.matrix_exp(x)), (torch.eye(3),)).graph_text() is None


def test_a_constant_that_cannot_be_stored_has_no_text() -> None:
    module = Function(lambda m, x: x + m.c.float(), c=torch.ones(4).to(torch.float8_e5m2))
    assert capture_module(module, (X,)).graph_text() is None


def test_outputs_are_stored_and_come_back() -> None:
    outputs = (
        FromResult(1), FromInput(0), FromSize(2 * Size.symbol("d0") + 1), FromConstant(None), FromConstant(True),
        FromConstant(3), FromConstant("text"), FromConstant(-0.0), FromConstant(float("inf")),
    )  # fmt: skip
    encoded = encode_outputs(outputs)
    assert encoded is not None
    assert repr(decode_outputs(encoded)) == repr(outputs)
    assert encode_outputs((FromConstant(torch.float32),)) is None
    with pytest.raises(ValueError, match="unknown source"):
        decode_outputs([["other", 1]])
