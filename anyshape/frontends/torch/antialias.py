"""ATen resizing that filters as widely as one step of the result goes in x, so that nothing is aliased."""

from __future__ import annotations

import math
from dataclasses import dataclass

from xdsl.ir import SSAValue

from anyshape.dialects.dhlo import (
    Abs,
    Add,
    Compare,
    Divide,
    Iota,
    Maximum,
    Minimum,
    Multiply,
    Reduce,
    Select,
    Subtract,
)
from anyshape.dialects.dhlo.reduction import accumulation_dtype
from anyshape.dialects.dtypes import I64, DType
from anyshape.dialects.sizes import dtype_of, rank_of, sizes_of
from anyshape.frontends.torch.builder import GraphBuilder, Value, lowers
from anyshape.frontends.torch.channel_norms import number_at
from anyshape.frontends.torch.indexing import gathered
from anyshape.frontends.torch.reductions import back_to
from anyshape.frontends.torch.unsupported import Unsupported
from anyshape.symbolic import Size, size_max

_HALF_WIDTHS = {"aten._upsample_bilinear2d_aa.default": 1, "aten._upsample_bicubic2d_aa.default": 2}
"""How far each filter reaches where a step of the result is one of x, or less."""
_CUBIC = -0.5
"""The free coefficient of the cubic filter, as Pillow has it."""


@dataclass(frozen=True)
class _Axis:
    """One axis of `size` elements that gets `target`; `scale` is what the caller gave, 0 where it follows from the sizes."""

    builder: GraphBuilder
    size: Size
    target: Size
    align_corners: bool
    scale: float
    half: int
    real: DType

    @property
    def places(self) -> Size:
        """No window has more elements: 2·⌈half·max(r, 1)⌉ + 1, where r is how far a step of the result goes in x."""
        if self.scale:
            return Size.const(2 * math.ceil(self.half * max(1 / self.scale, 1)) + 1)
        less = 1 if self.align_corners else 0
        steps = size_max(self.target - less, 1)
        return 2 * size_max((self.half * (self.size - less) + steps - 1) // steps, self.half) + 1

    def step(self, like: SSAValue) -> SSAValue:
        """r, at every point of a tensor as `like`."""
        emit = self.builder.emit
        if self.scale:
            return number_at(self.builder, 1 / self.scale, like)
        if not self.align_corners:
            return emit(Divide, *(number_at(self.builder, each, like) for each in (self.size, self.target)))
        several = number_at(self.builder, self.target - 1, like)
        one = number_at(self.builder, 1.0, like)
        ratio = emit(Divide, number_at(self.builder, self.size - 1, like), emit(Maximum, several, one))
        return emit(Multiply, ratio, emit(Minimum, several, one))

    def windows(self) -> tuple[SSAValue, SSAValue]:
        """[target, places]: where in x each place of a window is, and its weight, which is 0 behind the window's end.

        Window o goes from ⌊c − s + ½⌋ to ⌊c + s + ½⌋ around c = (o + ½)·r with s = half·max(r, 1); its weights sum to 1.
        """
        builder, emit = self.builder, self.builder.emit
        sizes = (self.target, self.places)
        position, within = (emit(Iota, axis=axis, sizes=sizes) for axis in (0, 1))
        where = builder.convert(position, self.real)
        step, half = self.step(where), number_at(builder, 0.5, where)
        wide = emit(Maximum, step, number_at(builder, 1.0, where))
        center = emit(Multiply, emit(Add, where, half), step)
        reach = emit(Multiply, wide, number_at(builder, float(self.half), where))
        start = builder.convert(emit(Add, emit(Subtract, center, reach), half), I64)
        end = builder.convert(emit(Add, emit(Add, center, reach), half), I64)
        start = emit(Maximum, start, number_at(builder, 0, start))
        end = emit(Minimum, end, number_at(builder, self.size, end))
        index = emit(Add, start, within)
        distance = emit(Add, emit(Subtract, builder.convert(index, self.real), center), half)
        weight = self._filter(emit(Divide, distance, wide))
        inside = emit(Compare, index, end, direction="lt")
        weight = emit(Select, inside, weight, number_at(builder, 0.0, weight))
        total = back_to(builder, emit(Reduce, weight, axes=(1,), kind="sum"), (1,), sizes)
        return emit(Minimum, index, number_at(builder, self.size - 1, index)), emit(Divide, weight, total)

    def _filter(self, x: SSAValue) -> SSAValue:
        """The weight at a distance: 1 − |x| up to 1, or the cubic kernel up to 2."""
        builder, emit = self.builder, self.builder.emit

        def number(value: float) -> SSAValue:
            return number_at(builder, value, x)

        far = emit(Abs, x)
        zero = number(0.0)
        if self.half == 1:
            return emit(Maximum, emit(Subtract, number(1.0), far), zero)
        near = emit(Subtract, emit(Multiply, number(_CUBIC + 2), far), number(_CUBIC + 3))
        near = emit(Add, emit(Multiply, emit(Multiply, near, far), far), number(1.0))
        tail = emit(Add, emit(Multiply, emit(Subtract, far, number(5.0)), far), number(8.0))
        tail = emit(Multiply, emit(Subtract, emit(Multiply, tail, far), number(4.0)), number(_CUBIC))
        tail = emit(Select, emit(Compare, far, number(2.0), direction="lt"), tail, zero)
        return emit(Select, emit(Compare, far, number(1.0), direction="lt"), near, tail)


@lowers(*_HALF_WIDTHS)
def lower_antialiased(
    builder: GraphBuilder, x: SSAValue, _sizes: Value, align_corners: bool, *scales: float | None, **named: Value
) -> SSAValue:
    """The last axis first, then the one before it: Σ weights · x over each window."""
    dtype = dtype_of(x.type)
    if not dtype.is_float:
        raise Unsupported(f"antialiased resizing of {dtype}, which PyTorch rounds at every axis")
    real, targets = accumulation_dtype(dtype), builder.result_sizes[-2:]
    given = [float(scale) if scale and not align_corners else 0.0 for scale in (*scales, *named.values())] or [0.0, 0.0]
    result = builder.convert(x, real)
    for axis in (rank_of(x.type) - 1, rank_of(x.type) - 2):
        size, which = sizes_of(x.type)[axis], axis - rank_of(x.type)
        for each in (size, targets[which]):
            builder.require(Size.const(1).le(each), "resizing")
        half = _HALF_WIDTHS[str(builder.node.target)]
        index, weight = _Axis(builder, size, targets[which], align_corners, given[which], half, real).windows()
        taken = gathered(builder, result, (axis,), [index], axis)
        full = sizes_of(taken.type)
        aligned = builder.reshape(weight, (*sizes_of(weight.type), *(1,) * (len(full) - axis - 2)))
        weighed = builder.emit(Multiply, taken, builder.broadcast(aligned, full))
        result = builder.emit(Reduce, weighed, axes=(axis + 1,), kind="sum")
    return builder.convert(result, dtype)
