"""Reductions of a row from partial results of its chunks: each kind by itself, and two sums that need no pass of their own.

A sum around a value that is known only after another reduction of the same row would be a second pass over it. Two of them follow from
sums around a value of each chunk:

- Σ exp(x − t) = Σ_c exp(m_c − t) · Σ_{i∈c} exp(x_i − m_c), m_c the maximum of the chunk (M. Milakov, N. Gimelshein, arXiv:1805.02867);
- Σ (x − a)² = Σ_c Σ_{i∈c} (x_i − μ_c)² + n_c (μ_c − a)², μ_c the mean of the chunk, n_c its elements (T. Chan, G. Golub, R. LeVeque,
  The American Statistician 37, 1983).

Both hold for any t and a. They are used where t depends on the maximum of x and a on its sum, so that factors are at most 1 and the second
terms are small.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from xdsl.builder import Builder
from xdsl.ir import SSAValue

from anyshape.dialects.dhlo import (
    Add,
    BroadcastInDim,
    Chunk,
    Constant,
    Convert,
    Divide,
    Exponential,
    Iota,
    IsInf,
    Maximum,
    Minimum,
    Multiply,
    Reduce,
    Reshape,
    Select,
    SizeOf,
    Subtract,
)
from anyshape.dialects.dhlo.reduction import emit_in_f32, identity_of, spread
from anyshape.dialects.dtypes import BOOL, I64, DType
from anyshape.dialects.sizes import dtype_of, numel, sizes_of
from anyshape.symbolic import Size

ONE = Size.const(1)
Lookup = Callable[[SSAValue], SSAValue]
"""What a value of the row's own is in the new form."""
Combine = Callable[[Lookup], SSAValue]
"""Emits a reduction from partial results, once the reductions before it are known."""


@dataclass(frozen=True)
class Centred:
    """The sum of `shifted(x, row)` over x: exp(x − row) or (x − row)²; `anchor` is the reduction of x that the row's value follows."""

    x: SSAValue
    row: SSAValue
    anchor: Reduce
    is_exponential: bool


def centred(op: Reduce, earlier: Sequence[Reduce]) -> Centred | None:
    """What a sum over the last axes is around a value of the row, where a reduction before it is of the same x and fits; else None."""
    summed = op.operands[0].owner
    if op.kind != "sum":
        return None
    match summed:
        case Exponential():
            kind, difference = "max", summed.operands[0].owner
        case Multiply() if summed.operands[0] is summed.operands[1]:
            kind, difference = "sum", summed.operands[0].owner
        case _:
            return None
    if not isinstance(difference, Subtract):
        return None
    x, shift = difference.operands
    row = _value_of_row(shift, op.axes[0])
    anchor = next((each for each in earlier if each.operands[0] is x and each.kind == kind), None)
    return None if row is None or anchor is None else Centred(x, row, anchor, kind == "max")


def _value_of_row(shift: SSAValue, first: int) -> SSAValue | None:
    """What is repeated along all axes from `first` on."""
    owner = shift.owner
    if not isinstance(owner, BroadcastInDim):
        return None
    outer = owner.result_sizes[:first]
    pairs = zip(owner.integers("dimensions"), owner.operand_sizes(), strict=True)
    axes = [axis for axis, size in pairs if size != ONE]
    sizes = [size for size in owner.operand_sizes() if size != ONE]
    wanted = [axis for axis, size in enumerate(outer) if size != ONE]
    return owner.operands[0] if axes == wanted and sizes == [outer[axis] for axis in wanted] else None


class Partials:
    """Emits partial results of the rows of one space, and what combines them.

    Args:
        builder: where ops go.
        sizes: of what is reduced.
        axes: of the row, the last ones.
        count, length: chunks of a row, and elements of a chunk.
    """

    def __init__(
        self, builder: Builder, sizes: Sequence[Size], axes: tuple[int, ...], count: Size, length: int
    ) -> None:
        self._builder = builder
        self._sizes, self._axes, self._length = tuple(sizes), axes, length
        self._outer = (*sizes[: axes[0]], count)
        self._whole = (*self._outer, Size.const(length))
        self._last = axes[0]
        self._chunks: dict[tuple[SSAValue, float | int], SSAValue] = {}
        self._folds: dict[tuple[SSAValue, str], SSAValue] = {}

    def plain(self, op: Reduce, operand: SSAValue) -> Combine:
        """The reduction of `operand` from that of each chunk; f16 and bf16 have partial sums in f32."""
        b, dtype = self._builder, op.result_dtype
        wide = emit_in_f32(b, operand) if op.kind in ("sum", "prod") else operand
        partial = self._fold(wide, op.kind)

        def combine(lookup: Lookup) -> SSAValue:
            total = Reduce.emit(b, partial, axes=(self._last,), kind=op.kind)
            return total if dtype_of(total.type) == dtype else Convert.emit(b, total, dtype=dtype)

        return combine

    def exponentials(self, case: Centred, x: SSAValue) -> Combine:
        """Σ exp(x − t). Where the maximum of a chunk is infinite its sum is around 0, as that of nothing or of infinities."""
        b, top = self._builder, self._fold(x, "max")
        zero = self._full(0.0, dtype_of(x.type), self._outer)
        base = Select.emit(b, IsInf.emit(b, top), zero, top)
        weights = Exponential.emit(
            b, Subtract.emit(b, self._chunk(x, identity_of("max", dtype_of(x.type))), self._along(base))
        )
        partial = Reduce.emit(b, weights, axes=(self._last + 1,), kind="sum")

        def combine(lookup: Lookup) -> SSAValue:
            factor = Exponential.emit(b, Subtract.emit(b, top, self._of_row(lookup(case.row))))
            return Reduce.emit(b, Multiply.emit(b, partial, factor), axes=(self._last,), kind="sum")

        return combine

    def squares(self, case: Centred, x: SSAValue) -> Combine:
        """Σ (x − a)²."""
        b, dtype = self._builder, dtype_of(x.type)
        count = self._counts(dtype)
        one = self._full(1, dtype, self._outer)
        mean = Divide.emit(b, self._fold(x, "sum"), Maximum.emit(b, count, one))
        difference = Subtract.emit(b, self._chunk(x, 0), self._along(mean))
        square = Multiply.emit(b, difference, difference)
        exists = self._chunk(self._full(1, BOOL, self._sizes), 0)
        own = Select.emit(b, exists, square, self._full(0, dtype, self._whole))
        partial = Reduce.emit(b, own, axes=(self._last + 1,), kind="sum")

        def combine(lookup: Lookup) -> SSAValue:
            away = Subtract.emit(b, mean, self._of_row(lookup(case.row)))
            moved = Multiply.emit(b, count, Multiply.emit(b, away, away))
            return Reduce.emit(b, Add.emit(b, partial, moved), axes=(self._last,), kind="sum")

        return combine

    # -- pieces -----------------------------------------------------------------------------------------------------

    def _fold(self, operand: SSAValue, kind: str) -> SSAValue:
        if (operand, kind) not in self._folds:
            chunks = self._chunk(operand, identity_of(kind, dtype_of(operand.type)))
            self._folds[operand, kind] = Reduce.emit(self._builder, chunks, axes=(self._last + 1,), kind=kind)
        return self._folds[operand, kind]

    def _chunk(self, operand: SSAValue, behind: float | int) -> SSAValue:
        """The operand in chunks, with `behind` after its last element."""
        if (operand, behind) not in self._chunks:
            value = self._full(behind, dtype_of(operand.type), ())
            self._chunks[operand, behind] = Chunk.emit(
                self._builder, operand, value, axes=self._axes, count=(self._outer[-1],), length=(self._length,)
            )
        return self._chunks[operand, behind]

    def _full(self, value: float | int, dtype: DType, sizes: Sequence[Size]) -> SSAValue:
        return Constant.emit(self._builder, value=value, dtype=dtype, sizes=tuple(sizes))

    def _along(self, of_chunk: SSAValue) -> SSAValue:
        """A value of each chunk at all its elements."""
        return spread(self._builder, of_chunk, (self._last + 1,), self._whole)

    def _of_row(self, value: SSAValue) -> SSAValue:
        """A value of each row at all its chunks."""
        outer = self._outer[:-1]
        if sizes_of(value.type) != outer:
            value = Reshape.emit(self._builder, value, sizes=outer)
        return spread(self._builder, value, (self._last,), self._outer)

    def _counts(self, dtype: DType) -> SSAValue:
        """The elements of each chunk: min(max(n − c·L, 0), L)."""
        b, sizes = self._builder, self._outer
        start = Multiply.emit(b, Iota.emit(b, axis=self._last, sizes=sizes), self._full(self._length, I64, sizes))
        row = BroadcastInDim.emit(
            b, SizeOf.emit(b, size=numel([self._sizes[axis] for axis in self._axes])), dimensions=(), sizes=sizes
        )
        left = Maximum.emit(b, Subtract.emit(b, row, start), self._full(0, I64, sizes))
        return Convert.emit(b, Minimum.emit(b, left, self._full(self._length, I64, sizes)), dtype=dtype)


__all__ = ["Centred", "Combine", "Lookup", "Partials", "centred"]
