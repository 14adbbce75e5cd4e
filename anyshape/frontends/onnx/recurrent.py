"""ONNX's recurrent layers: LSTM, GRU and RNN, each one op over all steps; two where the directions have other functions."""

from __future__ import annotations

from collections.abc import Sequence

from anyshape.dialects.dhlo import Add, Concatenate, DotGeneral, Gather, Maximum, Select, Subtract
from anyshape.dialects.dhlo.cells import CELLS
from anyshape.dialects.dhlo.recurrence import Recurrence
from anyshape.dialects.dhlo.reduction import accumulation_dtype
from anyshape.dialects.dtypes import I64
from anyshape.frontends.onnx.builder import ONE, ZERO, GraphBuilder
from anyshape.frontends.onnx.cell_rules import CellAttributes
from anyshape.frontends.onnx.indexing import reverse_sequences
from anyshape.frontends.onnx.places import along, iota
from anyshape.frontends.onnx.refusals import Malformed
from anyshape.frontends.onnx.registry import lowers
from anyshape.frontends.onnx.values import Value
from anyshape.nn import Tensor
from anyshape.symbolic import Size

_ORDERS = {"lstm": (0, 2, 3, 1), "gru": (1, 0, 2), "gru_reset_before": (1, 0, 2), "rnn": (0,)}
"""Where the gates of a `recurrence` are among ONNX's: i f g o among i o f c, r z n among z r h."""
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
    rules = CellAttributes(
        "lstm", tuple(activations), tuple(activation_alpha), tuple(activation_beta), clip, bool(input_forget)
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
    cell = "gru" if linear_before_reset else "gru_reset_before"
    rules = CellAttributes(cell, tuple(activations), tuple(activation_alpha), tuple(activation_beta), clip)
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
    rules = CellAttributes("rnn", tuple(activations), tuple(activation_alpha), tuple(activation_beta), clip)
    layer = _Layer(b, rules, x, w, r, bias, sequence_lens, direction, bool(layout), hidden_size)
    return layer.run([initial_h], None)


class _Layer:
    """A layer under construction: x [s, b, i], W [d, g·n, i], R [d, g·n, n], biases [d, g·n] of inputs and of states, lengths [b]."""

    def __init__(
        self,
        b: GraphBuilder,
        rules: CellAttributes,
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
        self.rules, self.functions = rules, rules.functions(len(self.reversed))
        self.gates = CELLS[rules.cell].gates
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
        peeps: list[Tensor] = []
        if peepholes is not None:
            peeps = [b.convert(b.with_sizes(peepholes, (d, self.units * 3), "the peepholes"), self.wide)]
        together = list(range(d))
        groups = [together] if len(set(self.functions)) == 1 else [[each] for each in together]
        output, last = self._whole(groups, first, peeps)
        outputs = [self._directions_first(output)]
        for state in last:
            sizes = (self.batch, d, self.units) if self.batch_first else (d, self.batch, self.units)
            outputs.append(b.reshape(state if self.batch_first else self._directions_first(state), sizes))
        return [b.convert(each, self.dtype) for each in outputs]

    def _directions_first(self, x: Tensor) -> Tensor:
        """[s, b, d, n] as [s, d, b, n], or [b, s, d, n] where the batch comes first; one direction may stand anywhere."""
        b, (steps, batch, d, units) = self.b, x.sizes
        if self.batch_first:
            return b.transpose(x, (1, 0, 2, 3))
        return b.reshape(x, (steps, d, batch, units)) if len(self.reversed) == 1 else b.transpose(x, (0, 2, 1, 3))

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

    def _whole(
        self, groups: Sequence[Sequence[int]], first: Sequence[Tensor], peepholes: Sequence[Tensor]
    ) -> tuple[Tensor, list[Tensor]]:
        """h of all steps [s, b, d, n], and each state behind the last one [1, b, d, n]: by a `recurrence` for each group of directions.

        Sequences that have lengths of their own are turned round beforehand, and cut afterwards.
        """
        histories: list[Tensor] = []
        last: list[list[Tensor]] = [[] for _ in first]
        for group in groups:
            history = self._history(group, first, peepholes)
            steps = self.steps * len(first)
            flat = self.b.reshape(history, (steps, self.batch, len(group), self.units))
            if self.lengths is None:
                histories.append(self.b.slice(flat, 0, ZERO, self.steps))
            for number, direction in enumerate(group):
                for state, given in enumerate(first):
                    last[state].append(self._last(self._own(flat, state, number), given, direction))
                if self.lengths is not None:
                    histories.append(self._cut(self._own(flat, 0, number), self.reversed[direction]))
        return self._joined(histories), [self._joined(each) for each in last]

    def _own(self, flat: Tensor, state: int, direction: int) -> Tensor:
        """[s, b, 1, n]: one direction of the history of a state."""
        b = self.b
        return b.slice(b.slice(flat, 0, self.steps * state, self.steps), 2, direction, 1)

    def _joined(self, parts: Sequence[Tensor]) -> Tensor:
        """[s, b, d, n] of parts of the directions."""
        return parts[0] if len(parts) == 1 else self.b.emit(Concatenate, *parts, axis=2)

    def _history(self, group: Sequence[int], first: Sequence[Tensor], peepholes: Sequence[Tensor]) -> Tensor:
        """[k, s, b, d·n]: the states of all steps of some directions, in the order in which they are computed."""
        b, turned = self.b, self.lengths is not None
        operands = [self._ordered(self.r), self._ordered(self.biases[1]), *first, *peepholes]
        flags = tuple(int(self.reversed[direction] and not turned) for direction in group)
        return b.emit(
            Recurrence, self._inputs(group), *(self._chosen(each, group) for each in operands), cell=self.rules.cell, reversed=flags,
            functions=self.functions[group[0]], clip=self.rules.bound(), couples=self.rules.couples, peepholes=bool(peepholes),
        )  # fmt: skip

    def _chosen(self, x: Tensor, group: Sequence[int]) -> Tensor:
        """x[group]"""
        return x if len(group) == len(self.reversed) else self.b.slice(x, 0, group[0], len(group))

    def _inputs(self, group: Sequence[int]) -> Tensor:
        """[s, b, d·g·n]: the inputs' part of all gates, in the order of the op: one product where all directions read the same."""
        b = self.b
        if self.lengths is None or not any(self.reversed[direction] for direction in group):
            return self._product(self.x, group)
        parts = [self._product(self._turned(self.x) if self.reversed[each] else self.x, [each]) for each in group]
        return parts[0] if len(parts) == 1 else b.emit(Concatenate, *parts, axis=2)

    def _product(self, x: Tensor, group: Sequence[int]) -> Tensor:
        """x·Wᵀ + bias of some directions"""
        b = self.b
        weights, bias = (self._chosen(self._ordered(each), group) for each in (self.w, self.biases[0]))
        columns = self.units * self.gates * len(group)
        weights = b.reshape(weights, (columns, *weights.sizes[2:]))
        sums = b.emit(DotGeneral, x, weights, lhs_contract=(2,), rhs_contract=(1,))
        return b.emit(Add, sums, b.repeated(b.reshape(bias, (columns,)), sums.sizes))

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

    def _last(self, history: Tensor, first: Tensor, direction: int) -> Tensor:
        """[1, b, 1, n]: the state behind the last step of each sequence; the first one of those that have none."""
        b = self.b
        if self.lengths is None:
            return b.slice(history, 0, ZERO if self.reversed[direction] else self.steps - 1, 1)
        at = b.binary(Maximum, b.binary(Subtract, self.lengths, 1), 0)
        found = b.emit(
            Gather, b.reshape(history, (self.steps, self.batch, self.units)), at, offset_dims=(1,), collapsed_slice_dims=(0,),
            start_index_map=(0,), operand_batching_dims=(1,), start_indices_batching_dims=(0,), index_vector_dim=1,
            slice_sizes=(ONE, ONE, self.units),
        )  # fmt: skip
        some = along(b, b.compare("gt", self.lengths, 0), 0, found.sizes)
        last = b.emit(Select, some, found, self._of_direction(first, direction))
        return b.reshape(last, (1, self.batch, 1, self.units))

    def _cut(self, history: Tensor, backwards: bool) -> Tensor:
        """0 behind the end of each sequence, and in the order of time."""
        b, lengths = self.b, self.lengths
        assert lengths is not None
        inside = b.compare("lt", iota(b, history.sizes, 0), along(b, lengths, 1, history.sizes))
        kept = b.select(inside, history, 0.0)
        return self._turned(kept) if backwards else kept


__all__: list[str] = []
