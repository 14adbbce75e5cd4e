"""Recurrent layers of any length: nn.LSTM, nn.GRU and nn.RNN, which export would unroll step by step.

While a model is exported, a call of PyTorch's recurrent functions is one op of ours, `anyshape::recurrent`, whose own implementation is
that same function, so that it can also stay with PyTorch.
"""

# PyTorch is typed in part only.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from xdsl.ir import SSAValue

from anyshape.dialects.dhlo import Concatenate, Slice, Transpose
from anyshape.dialects.dhlo.recurrence import Recurrence
from anyshape.dialects.dtypes import BF16, F16, F32
from anyshape.dialects.sizes import dtype_of, rank_of, sizes_of
from anyshape.frontends.torch.builder import GraphBuilder, lowers
from anyshape.frontends.torch.contraction import lower_linear
from anyshape.symbolic import Size

ZERO, ONE = Size.const(0), Size.const(1)

FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "lstm": torch.lstm,
    "gru": torch.gru,
    "tanh": torch.rnn_tanh,
    "relu": torch.rnn_relu,
}
"""PyTorch's function of each kind of cell."""
_CELL_OF = {function: cell for cell, function in FUNCTIONS.items()}


@torch.library.custom_op("anyshape::recurrent", mutates_args=())
def recurrent(
    x: torch.Tensor,
    states: Sequence[torch.Tensor],
    parameters: Sequence[torch.Tensor],
    cell: str,
    has_biases: bool,
    layers: int,
    bidirectional: bool,
    batch_first: bool,
) -> list[torch.Tensor]:
    """What the function of the cell returns in inference: h of all steps, the last h of each layer and direction, and so c for `lstm`."""
    hx = list(states) if cell == "lstm" else states[0]
    return list(FUNCTIONS[cell](x, hx, list(parameters), has_biases, layers, 0.0, False, bidirectional, batch_first))


@recurrent.register_fake
def _(
    x: torch.Tensor,
    states: Sequence[torch.Tensor],
    parameters: Sequence[torch.Tensor],
    cell: str,
    has_biases: bool,
    layers: int,
    bidirectional: bool,
    batch_first: bool,
) -> list[torch.Tensor]:
    directions = 2 if bidirectional else 1
    out = x.new_empty((*x.shape[:2], directions * states[0].shape[2]))
    return [out, *(torch.empty_like(state) for state in states)]


class RecurrentLayersWhole(TorchFunctionMode):
    """While inside, calls of PyTorch's recurrent functions on padded batches in inference are `anyshape::recurrent`."""

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        cell = _CELL_OF.get(func)
        if cell is None or kwargs or not _is_whole(cell, args):
            return func(*args, **(kwargs or {}))
        x, hx, parameters, has_biases, layers, _, _, bidirectional, batch_first = args
        states = list(hx) if cell == "lstm" else [hx]
        return tuple(recurrent(x, states, parameters, cell, has_biases, layers, bidirectional, batch_first))


def _is_whole(cell: str, args: tuple[Any, ...]) -> bool:
    """Whether a call has a padded batch (packed ones have two tensors first), no dropout in effect, and no projections."""
    if len(args) != 9 or not isinstance(args[3], bool):
        return False
    _, _, parameters, has_biases, layers, dropout, train, bidirectional, _ = args
    expected = layers * (2 if bidirectional else 1) * (4 if has_biases else 2)
    return len(parameters) == expected and not (train and dropout)


@lowers("anyshape.recurrent.default")
def lower_recurrent(
    builder: GraphBuilder,
    x: SSAValue,
    states: Sequence[SSAValue],
    parameters: Sequence[SSAValue],
    cell: str,
    has_biases: bool,
    layers: int,
    bidirectional: bool,
    batch_first: bool,
) -> list[SSAValue]:
    """Layer by layer: the inputs' part of all gates is one product over all steps, the rest is a `recurrence`."""
    dtype = dtype_of(x.type)
    wide = F32 if dtype in (F16, BF16) else dtype
    directions = 2 if bidirectional else 1
    if batch_first:
        x = builder.emit(Transpose, x, permutation=(1, 0, 2))
    builder.require(sizes_of(x.type)[0].ge(1), "a recurrent layer has at least one step")
    wide_states = [builder.convert(state, wide) for state in states]
    last: list[list[SSAValue]] = [[] for _ in states]
    each = 4 if has_biases else 2
    of_direction = [parameters[first : first + each] for first in range(0, len(parameters), each)]
    for layer in range(layers):
        chosen = slice(layer * directions, (layer + 1) * directions)
        first = [_rows(builder, state, chosen) for state in wide_states]
        history = _layer(builder, builder.convert(x, wide), of_direction[chosen], first, cell)
        for number, found in enumerate(last):
            found.extend(_last_states(builder, history, number, directions))
        x = _rounded(builder, _rows(builder, history, slice(0, 1)), dtype)
    out = builder.emit(Transpose, x, permutation=(1, 0, 2)) if batch_first else x
    joined = (found[0] if len(found) == 1 else builder.emit(Concatenate, *found, axis=0) for found in last)
    return [out, *(builder.convert(each, dtype) for each in joined)]


def _layer(
    builder: GraphBuilder, x: SSAValue, parameters: Sequence[Sequence[SSAValue]], first: Sequence[SSAValue], cell: str
) -> SSAValue:
    """The history of the states of one layer."""
    wide = dtype_of(x.type)
    parts = [[builder.convert(each, wide) for each in direction] for direction in parameters]
    weights = _joined(builder, [direction[0] for direction in parts])
    recurrent_weights = _stacked(builder, [direction[1] for direction in parts])
    gates = sizes_of(parts[0][1].type)[0]
    if len(parts[0]) == 4:
        own = _joined(builder, [direction[2] for direction in parts])
        bias = _stacked(builder, [direction[3] for direction in parts])
    else:
        own, bias = None, builder.constant(0, wide, (len(parts), gates))
    inputs = lower_linear(builder, x, weights, own)
    is_reversed = tuple(range(len(parts)))  # the second direction goes from the end
    kind = {"cell": cell} if cell in ("lstm", "gru") else {"cell": "rnn", "functions": cell}
    return builder.emit(Recurrence, inputs, recurrent_weights, bias, *first, **kind, reversed=is_reversed)


def _last_states(builder: GraphBuilder, history: SSAValue, number: int, directions: int) -> list[SSAValue]:
    """State `number` behind the last step of each direction, [1, b, n] each: backwards that is the step at 0."""
    _, steps, batch, width = sizes_of(history.type)
    units = width // directions
    found: list[SSAValue] = []
    for direction in range(directions):
        step = ZERO if direction else steps - 1
        starts = (Size.const(number), step, ZERO, units * direction)
        part = builder.emit(Slice, history, starts=starts, sizes=(ONE, ONE, batch, units), strides=(1, 1, 1, 1))
        found.append(builder.reshape(part, (ONE, batch, units)))
    return found


def _rounded(builder: GraphBuilder, x: SSAValue, dtype: Any) -> SSAValue:
    """[1, s, b, n] as [s, b, n] of the model's dtype."""
    return builder.convert(builder.reshape(x, sizes_of(x.type)[1:]), dtype)


def _rows(builder: GraphBuilder, x: SSAValue, rows: slice) -> SSAValue:
    """x[rows] along the first axis."""
    sizes = sizes_of(x.type)
    if sizes[0] == Size.const(rows.stop - rows.start):
        return x
    rank = rank_of(x.type)
    starts, kept = (Size.const(rows.start), *[ZERO] * (rank - 1)), (Size.const(rows.stop - rows.start), *sizes[1:])
    return builder.emit(Slice, x, starts=starts, sizes=kept, strides=(1,) * rank)


def _joined(builder: GraphBuilder, parts: Sequence[SSAValue]) -> SSAValue:
    """[n, …] each -> [d·n, …]."""
    return parts[0] if len(parts) == 1 else builder.emit(Concatenate, *parts, axis=0)


def _stacked(builder: GraphBuilder, parts: Sequence[SSAValue]) -> SSAValue:
    """[n, …] each -> [d, n, …]."""
    return _joined(builder, [builder.reshape(part, (1, *sizes_of(part.type))) for part in parts])


__all__ = ["RecurrentLayersWhole", "lower_recurrent", "recurrent"]
