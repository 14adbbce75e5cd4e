"""What a caller hands to `compile` and to the program beside plain tensors: nothing, numbers, a function, wrapped tensors."""

from __future__ import annotations

import pytest
import torch

import anyshape
from anyshape.support.errors import ArgumentError
from tests.end_to_end.eager import check, compiled


def scaled(x: torch.Tensor, factor: float) -> torch.Tensor:
    return x / factor


def test_a_float_is_the_same_only_bit_by_bit() -> None:
    x = torch.ones(3)
    program = compiled(scaled, x, 0.0)
    check(program, scaled, x, 0.0)
    with pytest.raises(ArgumentError, match="cannot change"):
        program(x, -0.0)
    check(compiled(scaled, x, float("nan")), scaled, x, float("nan"))


def test_no_argument() -> None:
    class Steps(torch.nn.Module):
        def forward(self) -> torch.Tensor:
            return torch.arange(5) * 2

    assert anyshape.compile(Steps())().tolist() == [0, 2, 4, 6, 8]


def test_a_function_is_no_module() -> None:
    with pytest.raises(ArgumentError, match=r"torch\.nn\.Module"):
        anyshape.compile(torch.relu, (torch.ones(3),))


def test_one_tensor_is_no_tuple_of_arguments() -> None:
    with pytest.raises(ArgumentError, match=r"\(x,\)"):
        anyshape.compile(torch.nn.ReLU(), torch.ones(3, 4))  # pyright: ignore[reportArgumentType]


def test_tensors_without_memory() -> None:
    program = anyshape.compile(torch.nn.ReLU(), (torch.ones(3, 4),))
    with pytest.raises(ArgumentError, match="memory of its own"):
        torch.func.vmap(program)(torch.ones(2, 3, 4))
    assert torch.equal(program(-torch.ones(3, 4)), torch.zeros(3, 4))


class Masked(torch.nn.Module):
    def forward(self, x: torch.Tensor, mask: torch.Tensor, *, shift: torch.Tensor, scale: float = 1.0) -> torch.Tensor:
        return x * mask * scale + shift


@pytest.mark.parametrize(
    ("args", "kwargs", "problem", "got"),
    [
        ((), {}, "lacks arguments of the module's forward: x, mask, shift\n", "no arguments"),
        ((torch.ones(2),), {}, "forward: mask, shift\n", "1 by position"),
        ((torch.ones(2),), {"mask": torch.ones(2)}, "forward: shift\n", "1 by position, by name mask"),
        ((torch.ones(2),) * 3, {}, "too many positional arguments", "3 by position"),
        ((), {"y": torch.ones(2)}, "unexpected keyword argument 'y'", "by name y"),
    ],
)
@pytest.mark.parametrize("dynamic_shapes", ["all", None])
def test_an_example_that_does_not_fit_is_shown_one_that_does(
    args: tuple[torch.Tensor, ...], kwargs: dict[str, torch.Tensor], problem: str, got: str, dynamic_shapes: None
) -> None:
    with pytest.raises(ArgumentError) as caught:
        anyshape.compile(Masked(), args, kwargs, dynamic_shapes=dynamic_shapes)
    text = str(caught.value)
    assert problem in text
    assert caught.value.got == got
    assert "forward(x, mask, *, shift, scale=1.0)" in text
    assert "anyshape.compile(module, (x, mask), {'shift': shift})" in text


def test_one_missing_argument_is_shown_with_its_comma() -> None:
    with pytest.raises(ArgumentError, match=r"lacks .*: input\n(.*\n)*.*compile\(module, \(input,\)\)"):
        anyshape.compile(torch.nn.Linear(3, 4))


def test_what_a_hook_adds_is_not_missing() -> None:
    x = torch.ones(2)
    module = Masked()
    module.register_forward_pre_hook(
        lambda _module, args, kwargs: (args, {**kwargs, "shift": torch.zeros(())}), with_kwargs=True
    )
    assert torch.equal(anyshape.compile(module, (x, x))(x, x), x)
