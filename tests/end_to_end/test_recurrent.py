"""nn.LSTM, nn.GRU and nn.RNN: one program for every batch and length, beside eager."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from anyshape.driver.api import CompiledModule
from anyshape.support.errors import GuardError
from tests.end_to_end.eager import check, compiled

SHAPES = ((1, 1), (1, 9), (2, 3), (7, 1), (33, 4))
LAYERS: dict[str, nn.Module] = {
    "lstm": nn.LSTM(5, 7),
    "lstm, two layers in both directions": nn.LSTM(5, 70, 2, batch_first=True, bidirectional=True),
    "lstm without biases": nn.LSTM(5, 16, bias=False),
    "lstm in f64": nn.LSTM(3, 6, bidirectional=True).double(),
    "lstm in bf16": nn.LSTM(3, 6).bfloat16(),
    "gru": nn.GRU(5, 33, 2, batch_first=True),
    "gru in both directions": nn.GRU(5, 8, bidirectional=True),
    "rnn": nn.RNN(5, 8, 2, bidirectional=True),
    "rnn of relu": nn.RNN(5, 8, nonlinearity="relu", batch_first=True),
}


@pytest.fixture(params=LAYERS)
def layer(request: pytest.FixtureRequest) -> Any:
    return LAYERS[request.param].eval()


def sequences(layer: Any, batch: int, steps: int) -> torch.Tensor:
    torch.manual_seed(100 * batch + steps)
    shape = (batch, steps) if layer.batch_first else (steps, batch)
    return torch.randn(*shape, layer.input_size, dtype=next(layer.parameters()).dtype)


def test_every_batch_and_length(layer: Any) -> None:
    program = compiled(layer, sequences(layer, 3, 6))
    for batch, steps in SHAPES:
        check(program, layer, sequences(layer, batch, steps))


def test_the_number_of_launches_does_not_depend_on_the_length() -> None:
    layer = LAYERS["gru"].eval()
    launches = {compiled(layer, sequences(layer, 2, steps)).report().launches for steps in (3, 11)}
    assert len(launches) == 1


def test_given_states() -> None:
    layer = nn.LSTM(4, 6, 2, bidirectional=True).eval()

    def states(batch: int) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.randn(4, batch, 6), torch.randn(4, batch, 6)

    program = compiled(layer, torch.randn(5, 3, 4), states(3))
    for batch, steps in SHAPES:
        check(program, layer, torch.randn(steps, batch, 4), states(batch))


def test_threads_give_the_same_bytes() -> None:
    layer = nn.LSTM(8, 32, bidirectional=True).eval()
    x = torch.randn(6, 13, 8)
    one, three = (compiled(layer, x, threads=threads) for threads in (1, 3))
    assert all(torch.equal(a, b) for a, b in zip(flat(one, x), flat(three, x), strict=True))


def flat(program: CompiledModule, x: torch.Tensor) -> list[torch.Tensor]:
    out, states = program(x)
    return [out, *states]


def test_no_steps_are_refused() -> None:
    layer = nn.GRU(3, 4).eval()
    program = compiled(layer, torch.randn(5, 2, 3))
    with pytest.raises(RuntimeError):
        layer(torch.randn(0, 2, 3))
    with pytest.raises(GuardError, match="axis 0: got size 0"):
        program(torch.randn(0, 2, 3))


def test_no_rows() -> None:
    layer = nn.GRU(3, 4).eval()
    check(compiled(layer, torch.randn(5, 2, 3)), layer, torch.randn(5, 0, 3))
