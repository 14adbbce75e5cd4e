"""ONNX's recurrent layers: LSTM, GRU and RNN. Cells of the usual kind are one op over all steps; others are unrolled, see `unrolling`."""

from __future__ import annotations

from collections.abc import Sequence

from anyshape.dialects.dhlo import Add, Concatenate, DotGeneral, Gather, Maximum, Select, Subtract
from anyshape.dialects.dhlo.recurrence import Recurrence
from anyshape.dialects.dhlo.reduction import accumulation_dtype
from anyshape.dialects.dtypes import I64
from anyshape.frontends.onnx.builder import ONE, ZERO, GraphBuilder
from anyshape.frontends.onnx.indexing import reverse_sequences
from anyshape.frontends.onnx.places import along, iota, reversed_along
from anyshape.frontends.onnx.refusals import Malformed
from anyshape.frontends.onnx.registry import lowers
from anyshape.frontends.onnx.unrolling import CellRules, Direction, unrolled
from anyshape.frontends.onnx.values import Value
from anyshape.nn import Tensor
from anyshape.symbolic import Size

_ORDERS = {"LSTM": (0, 2, 3, 1), "GRU": (1, 0, 2), "RNN": (0,)}
"""Where the gates of a `recurrence` are among ONNX's: i f g o among i o f c, r z n among z r h."""
_DEFAULTS = {"LSTM": ("Sigmoid", "Tanh", "Tanh"), "GRU": ("Sigmoid", "Tanh"), "RNN": ("Tanh",)}
_REVERSED = {"forward": (False,), "reverse": (True,), "bidirectional": (False, True)}


@lowers("LSTM")
def lower_lstm(
    b: GraphBuilder,
    x: Value,
    w: Value,
    r: Value,
    bias: Value | None = None,
    sequence_lens: Value | None = None,
    initial_h: Value | None = None,
    initial_c: Value | None = None,
    peepholes: Value | None = None,
    *,
    activation_alpha: Sequence[float] = (),
    activation_beta: Sequence[float] = (),
    activations: Sequence[str] = (),
    clip: float | None = None,
    direction: str = "forward",
    hidden_size: int | None = None,
    input_forget: int = 0,
    layout: int = 0,
) -> list[Value]:
    """(h of all steps, the last h, the last c), gates i o f c, and peepholes i o f"""
    rules = CellRules(
        "LSTM", tuple(activations), tuple(activation_alpha), tuple(activation_beta), clip, bool(input_forget), False
    )
    layer = _Layer(b, rules, x, w, r, bias, sequence_lens, direction, bool(layout), hidden_size)
    return layer.run([initial_h, initial_c], peepholes)


@lowers("GRU")
def lower_gru(
    b: GraphBuilder,
    x: Value,
    w: Value,
    r: Value,
    bias: Value | None = None,
    sequence_lens: Value | None = None,
    initial_h: Value | None = None,
    *,
    activation_alpha: Sequence[float] = (),
    activation_beta: Sequence[float] = (),
    activations: Sequence[str] = (),
    clip: float | None = None,
    direction: str = "forward",
    hidden_size: int | None = None,
    layout: int = 0,
    linear_before_reset: int = 0,
) -> list[Value]:
    """(h of all steps, the last h), gates z r h"""
    rules = CellRules(
        "GRU",
        tuple(activations),
        tuple(activation_alpha),
        tuple(activation_beta),
        clip,
        False,
        bool(linear_before_reset),
    )
    layer = _Layer(b, rules, x, w, r, bias, sequence_lens, direction, bool(layout), hidden_size)
    return layer.run([initial_h], None)


@lowers("RNN")
def lower_rnn(
    b: GraphBuilder,
    x: Value,
    w: Value,
    r: Value,
    bias: Value | None = None,
    sequence_lens: Value | None = None,
    initial_h: Value | None = None,
    *,
    activation_alpha: Sequence[float] = (),
    activation_beta: Sequence[float] = (),
    activations: Sequence[str] = (),
    clip: float | None = None,
    direction: str = "forward",
    hidden_size: int | None = None,
    layout: int = 0,
) -> list[Value]:
    """(h of all steps, the last h)"""
    rules = CellRules("RNN", tuple(activations), tuple(activation_alpha), tuple(activation_beta), clip, False, False)
    layer = _Layer(b, rules, x, w, r, bias, sequence_lens, direction, bool(layout), hidden_size)
    return layer.run([initial_h], None)


class _Layer:
    """A layer under construction: x [s, b, i], W [d, g·n, i], R [d, g·n, n], biases [d, g·n] of inputs and of states, lengths [b]."""

    def __init__(
        self,
        b: GraphBuilder,
        rules: CellRules,
        x: Value,
        w: Value,
        r: Value,
        bias: Value | None,
        lengths: Value | None,
        direction: str,
        batch_first: bool,
        hidden_size: int | None,
    ) -> None:
        if direction not in _REVERSED or x.rank != 3 or w.rank != 3 or r.rank != 3:
            raise Malformed(f"the direction is {direction!r}; x, W and R have {x.rank}, {w.rank} and {r.rank} axes")
        self.b, self.dtype, self.batch_first = b, x.dtype, batch_first
        self.wide = accumulation_dtype(x.dtype)
        self.reversed = _REVERSED[direction]
        self.rules = rules.of_directions(_DEFAULTS[rules.cell], len(self.reversed))
        self.gates = len(_ORDERS[rules.cell])
        self.units = r.sizes[2] if hidden_size is None else b.same(r.sizes[2], hidden_size, "the units of a layer")
        rows, d = self.units * self.gates, len(self.reversed)
        self.x = b.convert(b.transpose(x, (1, 0, 2)) if batch_first else x, self.wide)
        self.steps, self.batch, depth = self.x.sizes
        b.require(self.steps.ge(1), "the steps of a recurrent layer")
        self.w = b.convert(b.with_sizes(w, (d, rows, depth), "W"), self.wide)
        self.r = b.convert(b.with_sizes(r, (d, rows, self.units), "R"), self.wide)
        if bias is None:
            self.biases = [b.constant(0, self.wide, (d, rows))] * 2
        else:
            both = b.convert(b.with_sizes(bias, (d, rows * 2), "the bias"), self.wide)
            self.biases = [b.slice(both, 1, start, rows) for start in (ZERO, rows)]
        self.lengths = None if lengths is None else b.convert(b.with_sizes(lengths, (self.batch,), "the lengths"), I64)

    def run(self, initial: Sequence[Value | None], peepholes: Value | None) -> list[Value]:
        """The outputs of the node."""
        b, d = self.b, len(self.reversed)
        first = [self._state(each) for each in initial]
        cell = None if peepholes is not None else self.rules.whole_cell
        if cell is not None:
            histories, last = self._whole(cell, first)
        else:
            peeps = None
            if peepholes is not None:
                peeps = b.convert(b.with_sizes(peepholes, (d, self.units * 3), "the peepholes"), self.wide)
            histories, last = self._unrolled(first, peeps)
        joined = self._joined(histories, 2)  # [s, b, d, n]
        order = (1, 0, 2, 3) if self.batch_first else (0, 2, 1, 3)
        outputs = [b.transpose(joined, order)]
        for states in last:
            together = self._joined(states, 0)  # [d, b, n]
            outputs.append(b.transpose(together, (1, 0, 2)) if self.batch_first else together)
        return [b.convert(each, self.dtype) for each in outputs]

    def _joined(self, parts: Sequence[Tensor], axis: int) -> Tensor:
        """A new axis of directions."""
        b = self.b
        apart = [b.reshape(each, (*each.sizes[:axis], 1, *each.sizes[axis:])) for each in parts]
        return apart[0] if len(apart) == 1 else b.emit(Concatenate, *apart, axis=axis)

    def _state(self, given: Value | None) -> Tensor:
        """[d, b, n], zeros where none is given."""
        b, sizes = self.b, (Size.const(len(self.reversed)), self.batch, self.units)
        if given is None:
            return b.constant(0, self.wide, sizes)
        turned = b.transpose(given, (1, 0, 2)) if self.batch_first and given.rank == 3 else given
        return b.convert(b.with_sizes(turned, sizes, "the first states"), self.wide)

    def _of_direction(self, x: Tensor, direction: int) -> Tensor:
        """x[direction]"""
        return self.b.reshape(self.b.slice(x, 0, direction, 1), x.sizes[1:])

    # -- one op -----------------------------------------------------------------------------------------------------

    def _whole(self, cell: str, first: Sequence[Tensor]) -> tuple[list[Tensor], list[list[Tensor]]]:
        """By a `recurrence`: sequences that have lengths of their own are turned round beforehand, and cut afterwards."""
        b, d = self.b, len(self.reversed)
        turned = self.lengths is not None
        parts = [
            self._inputs(self._turned(self.x) if turned and backwards else self.x, direction)
            for direction, backwards in enumerate(self.reversed)
        ]
        inputs = parts[0] if d == 1 else b.emit(Concatenate, *parts, axis=2)
        flags = tuple(int(backwards and not turned) for backwards in self.reversed)
        history = b.emit(
            Recurrence, inputs, self._ordered(self.r), self._ordered(self.biases[1]), *first, cell=cell, reversed=flags
        )
        of_state = [b.reshape(b.slice(history, 0, state, 1), history.sizes[1:]) for state in range(len(first))]
        histories: list[Tensor] = []
        last: list[list[Tensor]] = [[] for _ in first]
        for direction, backwards in enumerate(self.reversed):
            own = [b.slice(each, 2, self.units * direction, self.units) for each in of_state]
            for state, each in enumerate(own):
                last[state].append(self._last(each, first[state], direction, backwards))
            histories.append(self._cut(own[0], backwards))
        return histories, last

    def _inputs(self, x: Tensor, direction: int) -> Tensor:
        """[s, b, g·n]: the inputs' part of all gates, in the order of the op."""
        b = self.b
        weights = self._of_direction(self._ordered(self.w), direction)
        bias = self._of_direction(self._ordered(self.biases[0]), direction)
        sums = b.emit(DotGeneral, x, weights, lhs_contract=(2,), rhs_contract=(1,))
        return b.emit(Add, sums, b.repeated(bias, sums.sizes))

    def _ordered(self, x: Tensor) -> Tensor:
        """[d, g·n, …] with the gates in the order of the op."""
        order = _ORDERS[self.rules.cell]
        if order == tuple(range(len(order))):
            return x
        parts = [self.b.slice(x, 1, self.units * gate, self.units) for gate in order]
        return self.b.emit(Concatenate, *parts, axis=1)

    def _turned(self, x: Tensor) -> Tensor:
        assert self.lengths is not None
        return reverse_sequences(self.b, x, self.lengths, 1, 0)

    def _last(self, history: Tensor, first: Tensor, direction: int, backwards: bool) -> Tensor:
        """[b, n]: the state behind the last step of each sequence; the first one of those that have none."""
        b = self.b
        if self.lengths is None:
            return b.reshape(b.slice(history, 0, ZERO if backwards else self.steps - 1, 1), history.sizes[1:])
        at = b.binary(Maximum, b.binary(Subtract, self.lengths, 1), 0)
        found = b.emit(
            Gather, history, at, offset_dims=(1,), collapsed_slice_dims=(0,), start_index_map=(0,), operand_batching_dims=(1,),
            start_indices_batching_dims=(0,), index_vector_dim=1, slice_sizes=(ONE, ONE, self.units),
        )  # fmt: skip
        some = along(b, b.compare("gt", self.lengths, 0), 0, found.sizes)
        return b.emit(Select, some, found, self._of_direction(first, direction))

    def _cut(self, history: Tensor, backwards: bool) -> Tensor:
        """0 behind the end of each sequence, and in the order of time."""
        if self.lengths is None:
            return history
        b = self.b
        inside = b.compare("lt", iota(b, history.sizes, 0), along(b, self.lengths, 1, history.sizes))
        kept = b.select(inside, history, 0.0)
        return self._turned(kept) if backwards else kept

    # -- step by step -----------------------------------------------------------------------------------------------

    def _unrolled(self, first: Sequence[Tensor], peepholes: Tensor | None) -> tuple[list[Tensor], list[list[Tensor]]]:
        b = self.b
        histories: list[Tensor] = []
        last: list[list[Tensor]] = [[] for _ in first]
        for direction, backwards in enumerate(self.reversed):
            x = self.x
            if backwards:
                x = reversed_along(b, x, 0) if self.lengths is None else self._turned(x)
            w, r, bias, state_bias = (self._of_direction(each, direction) for each in (self.w, self.r, *self.biases))
            peeps = None if peepholes is None else self._of_direction(peepholes, direction)
            own = Direction(x, w, r, bias, state_bias, peeps, self.lengths)
            history, ends = unrolled(
                b, self.rules, direction, own, [self._of_direction(each, direction) for each in first]
            )
            if backwards:
                history = reversed_along(b, history, 0) if self.lengths is None else self._turned(history)
            histories.append(history)
            for state, each in enumerate(ends):
                last[state].append(each)
        return histories, last


__all__: list[str] = []
