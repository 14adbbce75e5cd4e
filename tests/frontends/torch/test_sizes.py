"""Which axes become free, under which conditions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.export import Dim

from anyshape.dialects.dhlo.graph import facts_of, only_function
from anyshape.frontends.torch import ImportedProgram, import_module
from anyshape.frontends.torch.importer import capture_module
from anyshape.support.errors import ExportError, GuardError


class Function(nn.Module):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *inputs: Tensor) -> Any:
        return self.function(*inputs)


def mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 4), nn.Softmax(-1))


def sizes(program: ImportedProgram) -> list[str]:
    return [" ".join(map(str, spec.sizes)) for spec in program.inputs]


def facts(program: ImportedProgram) -> list[str]:
    return [str(relation) for relation in facts_of(only_function(program.module)).relations()]


@pytest.mark.parametrize("example", [(3, 5, 8), (1, 5, 8), (1, 1, 8), (0, 1, 8), (8, 8, 8)])
def test_every_axis_is_free_whatever_the_example(example: tuple[int, ...], compare: Callable[..., None]) -> None:
    module = mlp()
    program = import_module(module, (torch.randn(*example),))
    assert sizes(program) == ["d0 d1 8"]
    assert facts(program) == []
    for b, s in ((0, 0), (0, 1), (1, 0), (1, 1), (2, 7), (33, 2)):
        compare(program, module, torch.randn(b, s, 8))


def test_axes_that_must_agree_share_a_symbol(run: Callable[..., Any]) -> None:
    program = import_module(Function(lambda x, y: x + y), (torch.randn(3, 4), torch.randn(3, 4)))
    assert sizes(program) == ["d0 d1", "d0 d1"]
    with pytest.raises(GuardError):
        run(program, (torch.randn(3, 4), torch.randn(3, 5)), {})


def test_examples_of_size_one_are_told_apart(compare: Callable[..., None]) -> None:
    """y's only axis meets x's second one, though both inputs begin with an axis of size 1."""
    module = Function(lambda x, y: x + y)
    program = import_module(module, (torch.randn(1, 1), torch.randn(1)))
    assert sizes(program) == ["d0 d1", "d2"]
    for first, second in (((4, 3), (3,)), ((4, 3), (1,)), ((4, 1), (3,)), ((1, 0), (1,))):
        compare(program, module, torch.randn(first), torch.randn(second))


def test_an_axis_that_the_model_names_is_not_broadcast(run: Callable[..., Any], compare: Callable[..., None]) -> None:
    """The result has the sizes of x, so y is 1 or these, whichever the example was."""
    module = Function(lambda x, y: (x + y).reshape(x.shape[0], -1))
    program = import_module(module, (torch.randn(1, 4), torch.randn(1, 4)))
    compare(program, module, torch.randn(5, 4), torch.randn(1, 4))
    with pytest.raises(GuardError):
        run(program, (torch.randn(1, 4), torch.randn(5, 4)), {})


def test_equal_products_of_ones_are_equal_sizes(compare: Callable[..., None]) -> None:
    module = Function(lambda x: x @ x)
    program = import_module(module, (torch.randn(0, 1, 1),))
    assert sizes(program) == ["d0 d1 d1"]
    compare(program, module, torch.randn(2, 3, 3))


def test_conditions_of_views_are_short() -> None:
    """Bounds of the size, not the sizes that the views computed on the way."""
    cases: tuple[tuple[Callable[[Tensor], Tensor], list[str]], ...] = (
        (lambda x: torch.stack([x.narrow(0, 0, 1), x.narrow(0, 2, 1)]), ["3 <= d0"]),
        (lambda x: F.pad(x[1:], (0, 0, 1, 0)) + x, ["1 <= d0"]),
        (lambda x: x[:2] + torch.ones(2, 4), ["2 <= d0"]),
        (lambda x: x[-1:] * 2, ["1 <= d0"]),
        (lambda x: torch.stack([x.narrow(0, i * (x.shape[0] // 3), x.shape[0] // 3) for i in range(3)]), []),
    )
    for function, expected in cases:
        for rows in (3, 6):
            assert facts(import_module(Function(function), (torch.randn(rows, 4),))) == expected


def test_an_axis_of_size_one_that_is_broadcast_is_one_or_the_other_size(compare: Callable[..., None]) -> None:
    weight = torch.randn(4, 3)
    module = Function(lambda x, mask: (x @ weight) * mask)
    program = import_module(module, (torch.randn(2, 4), torch.randn(2, 1)))
    assert sizes(program) == ["d0 4", "d0 d1"]
    for columns in (1, 3):
        compare(program, module, torch.randn(5, 4), torch.randn(5, columns))


def test_equal_products_make_equal_sizes(compare: Callable[..., None]) -> None:
    module = nn.MultiheadAttention(6, 2).eval()
    program = import_module(module, (torch.randn(5, 3, 6), torch.randn(7, 3, 6), torch.randn(7, 3, 6)))
    assert sizes(program) == ["d0 d1 6", "d2 d1 6", "d2 d1 6"]
    for q, k, b in ((1, 1, 1), (2, 9, 4)):
        compare(program, module, torch.randn(q, b, 6), torch.randn(k, b, 6), torch.randn(k, b, 6))


def test_bounds_become_facts(run: Callable[..., Any]) -> None:
    table = nn.Embedding(10, 4)
    program = import_module(Function(lambda x: x + table.weight[: x.shape[1]]), (torch.randn(2, 5, 4),))
    assert facts(program) == ["d1 <= 10"]
    with pytest.raises(GuardError):
        run(program, (torch.randn(2, 11, 4),), {})


def test_a_read_of_an_element_needs_that_element(compare: Callable[..., None], run: Callable[..., Any]) -> None:
    module = Function(lambda x: x[:, 2] + x[:, -1])
    program = import_module(module, (torch.randn(2, 5),))
    compare(program, module, torch.randn(1, 3))
    with pytest.raises(GuardError):
        run(program, (torch.randn(1, 2),), {})


def test_a_branch_that_matters_at_size_one_becomes_a_fact(run: Callable[..., Any]) -> None:
    program = import_module(Function(lambda x: x * 2 if x.shape[0] == 1 else x + 1), (torch.randn(4, 3),))
    assert facts(program) == ["d0 != 1"]
    with pytest.raises(GuardError):
        run(program, (torch.randn(1, 3),), {})


def test_a_branch_that_does_not_matter_is_no_fact(compare: Callable[..., None]) -> None:
    def causal(x: Tensor) -> Tensor:
        return F.scaled_dot_product_attention(x, x, x, is_causal=bool(x.shape[-2] > 1))

    module = Function(causal)
    program = import_module(module, (torch.randn(2, 5, 4),))
    assert facts(program) == []
    for length in (0, 1, 2, 7):
        compare(program, module, torch.randn(2, length, 4))


def test_an_unrolled_loop_names_itself() -> None:
    captured = capture_module(nn.LSTM(4, 4, proj_size=2, batch_first=True), (torch.randn(2, 3, 4),))
    assert [str(size) for size in captured.inputs[0].sizes] == ["d0", "3", "4"]
    assert "unrolls at the example's length" in captured.origins["args[0], axis 1"].asker


def test_squeeze_keeps_an_axis_that_is_not_one(run: Callable[..., Any]) -> None:
    program = import_module(Function(lambda x: x.squeeze(1)), (torch.randn(4, 3),))
    assert facts(program) == ["d1 != 1"] or facts(program) == ["d0 >= 0", "d1 != 1"]
    with pytest.raises(GuardError):
        run(program, (torch.randn(4, 1),), {})


def test_explicit_names_and_bounds(compare: Callable[..., None], run: Callable[..., Any]) -> None:
    module = mlp()
    shapes = ({0: Dim("batch", min=0, max=64)},)
    program = import_module(module, (torch.randn(3, 8),), dynamic_shapes=shapes)
    assert sizes(program) == ["batch 8"]
    assert facts(program) == ["batch <= 64"]
    compare(program, module, torch.randn(1, 8))
    with pytest.raises(GuardError):
        run(program, (torch.randn(65, 8),), {})


def test_static_sizes(run: Callable[..., Any]) -> None:
    program = import_module(mlp(), (torch.randn(3, 8),), dynamic_shapes=None)
    assert sizes(program) == ["3 8"]
    with pytest.raises(GuardError):
        run(program, (torch.randn(2, 8),), {})


def test_a_model_that_export_refuses_is_an_export_error() -> None:
    module = Function(lambda x: x.to_sparse().to_dense())
    with pytest.raises(ExportError, match=r"could not hand over.*") as caught:
        import_module(module, (torch.randn(1, 8),))
    assert "args[0]: axis 0 has size 1" in str(caught.value)


def test_text_is_the_same_for_two_imports() -> None:
    def text() -> str:
        torch.manual_seed(0)
        return str(import_module(mlp(), (torch.randn(1, 3, 8),)).module)

    assert text() == text()
