"""One axis of a tensor resized: where positions of the result lie in it, and how the elements around them are weighed.

All positions and weights are f64 vectors, as in ONNX's reference.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from anyshape.dialects.dhlo import (
    Abs,
    Add,
    Ceil,
    Divide,
    Floor,
    Maximum,
    Minimum,
    Multiply,
    Or,
    Reduce,
    Subtract,
)
from anyshape.dialects.dtypes import F64, I64
from anyshape.frontends.onnx.builder import GraphBuilder
from anyshape.frontends.onnx.places import along, gathered, iota, size_as
from anyshape.frontends.onnx.refusals import Malformed
from anyshape.nn import Tensor
from anyshape.symbolic import Size, size_max

_COORDINATES = frozenset({
    "align_corners", "asymmetric", "half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "tf_crop_and_resize",
    "tf_half_pixel_for_nn",
})  # fmt: skip
_NEAREST = frozenset({"round_prefer_floor", "round_prefer_ceil", "floor", "ceil", "simple"})
_HALF_WIDTHS = {"linear": 1, "cubic": 2}
"""How far each filter reaches."""


@dataclass(frozen=True)
class Rules:
    """The attributes of a Resize.

    Attributes:
        coordinates: to which place of x a position o of the result corresponds.
        nearest: which of two neighbours is the nearest; `simple` is that before, or that behind where scales are below 1.
        cubic: the free coefficient of the cubic kernel.
        antialias: filters are as wide as a step of the result in x, where that is more than 1.
        exclude_outside: elements outside of x have weight 0 instead of being those at its ends.
        extrapolation: the elements of results whose place is outside, with `tf_crop_and_resize`.
    """

    mode: str
    coordinates: str
    nearest: str = "floor"
    cubic: float = -0.75
    antialias: bool = False
    exclude_outside: bool = False
    extrapolation: float = 0.0

    @property
    def is_crop(self) -> bool:
        return self.coordinates == "tf_crop_and_resize"

    def check(self) -> None:
        """Malformed where an attribute is none of its words."""
        if self.mode not in ("nearest", *_HALF_WIDTHS):
            raise Malformed(f"the mode is {self.mode!r}; expected nearest, linear or cubic")
        if self.coordinates not in _COORDINATES:
            raise Malformed(f"coordinate_transformation_mode is {self.coordinates!r}")
        if self.nearest not in _NEAREST:
            raise Malformed(f"nearest_mode is {self.nearest!r}")
        if self.antialias and self.mode == "nearest":
            raise Malformed("the nearest element has no filter to be widened")


@dataclass(frozen=True)
class ResizedAxis:
    """An axis of `size` elements that gets `target`.

    Attributes:
        scale: how much larger it becomes: a number of the model, an f64 of rank 0 that the program computes, or None, target / size.
        region: with `tf_crop_and_resize`, where the part that is read begins and ends, in units of the length.
    """

    axis: int
    size: Size
    target: Size
    scale: float | Tensor | None
    region: tuple[Tensor, Tensor] | None = None

    @property
    def is_identity(self) -> bool:
        """Whether every element stays where it is."""
        return self.scale == 1.0 or (self.scale is None and self.size == self.target)


def resampled(b: GraphBuilder, x: Tensor, axis: ResizedAxis, rules: Rules) -> Tensor:
    """x with one axis resized."""
    return _Resampling(b, axis, rules).apply(x)


def simple_fraction(scale: float) -> Fraction | None:
    """The simple fraction that a scale in f32 stands for, if there is one: 1.3 is 13/10."""
    simple = Fraction(scale).limit_denominator(1 << 12)
    return simple if simple and np.float32(float(simple)) == np.float32(scale) else None


class _Resampling:
    def __init__(self, b: GraphBuilder, axis: ResizedAxis, rules: Rules) -> None:
        self.b, self.axis, self.rules = b, axis, rules
        self.size, self.target = size_as(b, axis.size, F64), size_as(b, axis.target, F64)
        if axis.scale is None:
            self.scale = b.binary(Divide, self.target, self.size)
        else:
            self.scale = b.constant(axis.scale, F64) if isinstance(axis.scale, float) else axis.scale

    def apply(self, x: Tensor) -> Tensor:
        b, at = self.b, self.axis.axis
        position = self._positions()
        if self.rules.mode == "nearest":
            result = gathered(b, x, (at,), [self._inside(self._nearest(position))], at)
        elif self.rules.antialias:
            result = self._filtered(x, position)
        else:
            result = self._weighed(x, position)
        if not self.rules.is_crop:
            return result
        outside = b.binary(
            Or, b.compare("lt", position, 0), b.compare("gt", position, b.binary(Subtract, self.size, 1))
        )
        return b.select(along(b, outside, at, result.sizes), self.rules.extrapolation, result)

    def _over_scale(self, value: Tensor) -> Tensor:
        """value / scale, exact wherever it is a whole number: there `floor` and `ceil` decide by the last bit."""
        b, scale = self.b, self.axis.scale
        if scale is None:
            return b.binary(Divide, b.binary(Multiply, value, self.size), self.target)
        if not isinstance(scale, float):
            return b.binary(Divide, value, scale)
        fraction = simple_fraction(scale)
        if fraction is None:
            return b.binary(Divide, value, self.scale)
        return b.binary(Divide, b.binary(Multiply, value, float(fraction.denominator)), float(fraction.numerator))

    # -- positions ------------------------------------------------------------------------------------------------

    def _positions(self) -> Tensor:
        """[target]: the place in x of each position of the result."""
        b = self.b
        o = iota(b, (self.axis.target,), 0, F64)
        centers = b.binary(Subtract, self._over_scale(b.binary(Add, o, 0.5)), 0.5)
        last = b.binary(Subtract, self.size, 1)
        match self.rules.coordinates:
            case "asymmetric":
                return self._over_scale(o)
            case "half_pixel":
                return centers
            case "pytorch_half_pixel":
                return b.select(b.compare("eq", self.target, 1), b.constant(0, F64), centers)
            case "tf_half_pixel_for_nn":
                return self._over_scale(b.binary(Add, o, 0.5))
            case "half_pixel_symmetric":
                adjustment = b.binary(Divide, self.target, self._length())
                offset = b.binary(Multiply, b.binary(Multiply, self.size, 0.5), b.binary(Subtract, 1, adjustment))
                return b.binary(Add, offset, centers)
            case "align_corners":
                return self._spread(o, last, b.constant(0, F64))
            case _:
                assert self.axis.region is not None
                start, end = self.axis.region
                reach = b.binary(Multiply, b.binary(Subtract, end, start), last)
                middle = b.binary(Multiply, reach, 0.5)
                return b.binary(Add, self._spread(o, reach, middle), b.binary(Multiply, start, last))

    def _length(self) -> Tensor:
        """The length of the result, which is no whole number where a scale says it."""
        return self.target if self.axis.scale is None else self.b.binary(Multiply, self.scale, self.size)

    def _spread(self, o: Tensor, reach: Tensor, single: Tensor) -> Tensor:
        """o · reach / (length − 1), or `single` where the length is 1."""
        b, length = self.b, self._length()
        is_one = b.compare("eq", length, 1)
        steps = b.select(is_one, 1.0, b.binary(Subtract, length, 1))
        return b.select(is_one, single, b.binary(Divide, b.binary(Multiply, o, reach), steps))

    # -- elements -------------------------------------------------------------------------------------------------

    def _nearest(self, x: Tensor) -> Tensor:
        b = self.b
        match self.rules.nearest:
            case "round_prefer_floor":
                place = b.emit(Ceil, b.binary(Subtract, x, 0.5))
            case "round_prefer_ceil":
                place = b.emit(Floor, b.binary(Add, x, 0.5))
            case "floor":
                place = b.emit(Floor, x)
            case "ceil":
                place = b.emit(Ceil, x)
            case _:
                place = b.select(b.compare("lt", self.scale, 1), b.emit(Ceil, x), b.emit(Floor, x))
        return place

    def _inside(self, place: Tensor) -> Tensor:
        """Places as indices, those outside of x at its ends."""
        b = self.b
        last = b.binary(Subtract, self.size, 1)
        return b.convert(b.binary(Minimum, b.binary(Maximum, place, 0), last), I64)

    def _weighed(self, x: Tensor, position: Tensor) -> Tensor:
        """Σ weights · x over the two or four elements around each position."""
        b, at, half = self.b, self.axis.axis, _HALF_WIDTHS[self.rules.mode]
        base = b.emit(Floor, position)
        taps = [b.binary(Add, base, offset) for offset in range(1 - half, half + 1)]
        weights = [self._weight(b.binary(Subtract, tap, position)) for tap in taps]
        if self.rules.exclude_outside:
            weights = [self._kept(tap, weight) for tap, weight in zip(taps, weights, strict=True)]
            total = weights[0]
            for weight in weights[1:]:
                total = b.emit(Add, total, weight)
            weights = [b.emit(Divide, weight, self._nonzero(total)) for weight in weights]
        result: Tensor | None = None
        for tap, weight in zip(taps, weights, strict=True):
            element = gathered(b, x, (at,), [self._inside(tap)], at)
            term = b.emit(Multiply, element, along(b, b.convert(weight, x.dtype), at, element.sizes))
            result = term if result is None else b.emit(Add, result, term)
        assert result is not None
        return result

    def _filtered(self, x: Tensor, position: Tensor) -> Tensor:
        """Σ weights · x over all elements under a filter that is widened where the result is smaller; the weights sum to 1."""
        b, at, half = self.b, self.axis.axis, _HALF_WIDTHS[self.rules.mode]
        narrow = b.binary(Minimum, self.scale, 1)
        reach = self._reach(half)
        sizes = (self.axis.target, 2 * reach)
        center = along(b, position, 0, sizes)
        offset = b.binary(Subtract, iota(b, sizes, 1, F64), size_as(b, reach - 1, F64))
        tap = b.binary(Add, b.emit(Floor, center), offset)
        weight = self._weight(b.binary(Multiply, b.binary(Subtract, tap, center), narrow))
        if self.rules.exclude_outside:
            weight = self._kept(tap, weight)
        total = self._nonzero(b.emit(Reduce, weight, axes=(1,), kind="sum"))
        weight = b.emit(Divide, weight, along(b, total, 0, sizes))
        elements = gathered(b, x, (at,), [self._inside(tap)], at)
        factors = b.reshape(b.convert(weight, x.dtype), (*sizes, *[1] * (x.rank - at - 1)))
        return b.emit(
            Reduce, b.emit(Multiply, elements, b.repeated(factors, elements.sizes)), axes=(at + 1,), kind="sum"
        )

    def _reach(self, half: int) -> Size:
        """⌈half / min(scale, 1)⌉: how far a filter goes to each side."""
        scale = self.axis.scale
        if isinstance(scale, float):
            return Size.const(-int(-half / min(scale, 1.0) // 1))
        # Where several axes have one scale, size · scale is target − ½ at least.
        twice = 2 * self.axis.target if scale is None else 2 * self.axis.target - 1
        by = size_max(twice, 1)
        return size_max((2 * half * self.axis.size + by - 1) // by, half)

    def _weight(self, distance: Tensor) -> Tensor:
        b = self.b
        far = b.emit(Abs, distance)
        if self.rules.mode == "linear":
            return b.binary(Maximum, b.binary(Subtract, 1, far), 0)
        a = self.rules.cubic

        def polynomial(*coefficients: float) -> Tensor:
            """By Horner's rule, the highest power first."""
            value = b.constant(coefficients[0], F64, far.sizes)
            for each in coefficients[1:]:
                value = b.binary(Add, b.emit(Multiply, value, far), each)
            return value

        outer = b.select(b.compare("lt", far, 2), polynomial(a, -5 * a, 8 * a, -4 * a), 0.0)
        return b.select(b.compare("le", far, 1), polynomial(a + 2, -(a + 3), 0.0, 1.0), outer)

    def _kept(self, tap: Tensor, weight: Tensor) -> Tensor:
        """The weight, 0 outside of x."""
        b = self.b
        outside = b.binary(Or, b.compare("lt", tap, 0), b.compare("ge", tap, self.size))
        return b.select(outside, 0.0, weight)

    def _nonzero(self, total: Tensor) -> Tensor:
        return self.b.select(self.b.compare("eq", total, 0), 1.0, total)


__all__ = ["ResizedAxis", "Rules", "resampled"]
