"""A recurrence hands its steps to the driver of products, which copied rows that crowd in few cache sets without room for the copy."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from anyshape.codegen.contract.driver import CROWDED_COLUMNS, CROWDED_ROWS
from anyshape.codegen.tiles.shape import tile_shape
from anyshape.support.machine import host_machine
from tests.end_to_end.eager import check, compiled

LAYERS = (nn.LSTM, nn.GRU, nn.RNN)


@pytest.mark.parametrize("layer", LAYERS)
def test_states_that_lie_a_power_of_two_apart(layer: type[nn.LSTM | nn.GRU | nn.RNN]) -> None:
    units = tile_shape("f32", host_machine()).crowding
    assert units > CROWDED_COLUMNS
    module = layer(3, units)
    program = compiled(module, torch.randn(2, 2, 3))
    for steps in (1, 9):
        for batch in (CROWDED_ROWS - 1, CROWDED_ROWS, 2 * CROWDED_ROWS + 1):
            check(program, module, torch.randn(steps, batch, 3))
