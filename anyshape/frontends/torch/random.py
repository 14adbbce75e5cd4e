"""ATen's random ops: each draws from a stream of its own, numbered in the order of the program, of Philox keyed by the call's seed.

The distributions are PyTorch's; the values are not those of its own generators, which differ between its devices too.
"""

# PyTorch is typed in part only.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from torch import fx
from torch._ops import OpOverload
from xdsl.ir import SSAValue

from anyshape.dialects.dhlo import (
    Add,
    And,
    Ceil,
    Compare,
    Convert,
    Cosine,
    Divide,
    Exponential,
    IsFinite,
    Log,
    LogPlusOne,
    Maximum,
    Multiply,
    Negate,
    Not,
    Reduce,
    Remainder,
    Scan,
    Select,
    ShiftRightArithmetic,
    Sqrt,
)
from anyshape.dialects.dhlo.random import RngBitGenerator
from anyshape.dialects.dhlo.sort import ArgSort, SearchSorted, TopK
from anyshape.dialects.dhlo.trigonometric import Tan
from anyshape.dialects.dtypes import BF16, BOOL, F16, F32, F64, I64, DType
from anyshape.dialects.sizes import dtype_of, rank_of, sizes_of
from anyshape.frontends.torch.builder import GraphBuilder, Lowering, Value, lowers
from anyshape.frontends.torch.checks import require_none
from anyshape.frontends.torch.movement import sliced
from anyshape.frontends.torch.unsupported import Unsupported
from anyshape.symbolic import Size

_PRECISION = {F16: 11, BF16: 8, F32: 24, F64: 53}
"""Bits of a uniform number in [0, 1), so that each is a multiple of the same power of two: as many as the format's mantissa has."""


RANDOM: set[str] = set()
"""The overloads that draw random numbers."""
_MODES = ("train", "training")


def draws(*overloads: str) -> Callable[[Lowering], Lowering]:
    """Registers a function as the lowering of overloads that draw random numbers."""
    RANDOM.update(overloads)
    return lowers(*overloads)


def is_random(node: fx.Node) -> bool:
    """Whether a node needs the seed of a call: dropout does not, where it is not training."""
    target = node.target
    if not isinstance(target, OpOverload) or str(target) not in RANDOM:
        return False
    for position, argument in enumerate(target._schema.arguments):  # pyright: ignore[reportPrivateUsage]
        if argument.name in _MODES:
            by_name = node.kwargs.get(argument.name, argument.default_value)
            return (node.args[position] if position < len(node.args) else by_name) is not False
    return True


class Stream:
    """The random bits of one op: a new stream of the program.

    Args:
        builder: the graph, whose next stream this is.
        sizes: of the tensors that are drawn.
    """

    def __init__(self, builder: GraphBuilder, sizes: Sequence[Size]) -> None:
        self._builder = builder
        self._sizes = tuple(sizes)
        self._number = builder.next_stream()

    def bits(self, count: int, part: int = 0, skip: int = 0) -> SSAValue:
        """`count` < 64 random bits as a nonnegative i64, the lowest of the others' `skip` left out."""
        builder = self._builder
        word = builder.emit(RngBitGenerator, builder.seed(), stream=self._number, part=part, sizes=self._sizes)
        if skip:
            word = builder.emit(ShiftRightArithmetic, word, builder.constant(skip, I64, self._sizes))
        return builder.emit(And, word, builder.constant((1 << count) - 1, I64, self._sizes))

    def uniform(self, dtype: DType, *, part: int = 0, skip: int = 0, open_at_zero: bool = False) -> SSAValue:
        """Uniform in [0, 1), or in (0, 1], in multiples of 2^−p, p the bits of the dtype's mantissa."""
        return self._fraction(_PRECISION[dtype], dtype, part=part, skip=skip, open_at_zero=open_at_zero)

    def _fraction(
        self, precision: int, dtype: DType, *, part: int = 0, skip: int = 0, open_at_zero: bool = False
    ) -> SSAValue:
        """`precision` random bits as a fraction."""
        builder = self._builder
        wide = F32 if dtype in (F16, BF16) else dtype
        bits = self.bits(precision, part, skip)
        if open_at_zero:
            bits = builder.emit(Add, bits, builder.constant(1, I64, self._sizes))
        unit = builder.constant(2.0**-precision, wide, self._sizes)
        return builder.convert(builder.emit(Multiply, builder.emit(Convert, bits, dtype=wide), unit), dtype)

    def normal(self, dtype: DType) -> SSAValue:
        """Normal with mean 0 and deviation 1: √(−2·ln u)·cos(2π·v) (Box and Muller, 1958), in f32 where the dtype is narrower."""
        builder, wide = self._builder, F32 if dtype in (F16, BF16) else dtype
        # Small numbers make large radii, so f32, which can hold them, has more bits here than in [0, 1).
        radius = self._fraction(32 if wide == F32 else 53, wide, open_at_zero=True)
        angle = self.uniform(wide, skip=32) if wide == F32 else self.uniform(wide, part=1)
        logarithm = builder.emit(Multiply, builder.emit(Log, radius), builder.constant(-2.0, wide, self._sizes))
        turned = builder.emit(Multiply, angle, builder.constant(2.0 * math.pi, wide, self._sizes))
        product = builder.emit(Multiply, builder.emit(Sqrt, logarithm), builder.emit(Cosine, turned))
        return builder.convert(product, dtype)


def _stream(builder: GraphBuilder) -> Stream:
    return Stream(builder, builder.result_sizes)


def _spread(builder: GraphBuilder, value: Value, dtype: DType, sizes: Sequence[Size]) -> SSAValue:
    return builder.broadcast(builder.operand(value, dtype, sizes), sizes)


def _scaled(builder: GraphBuilder, x: SSAValue, scale: Value, offset: Value) -> SSAValue:
    """offset + scale·x"""
    dtype, sizes = dtype_of(x.type), sizes_of(x.type)
    product = builder.emit(Multiply, x, _spread(builder, scale, dtype, sizes))
    return builder.emit(Add, product, _spread(builder, offset, dtype, sizes))


# -- continuous ------------------------------------------------------------------------------------------------------


@draws("aten.rand.default", "aten.rand_like.default")
def lower_rand(builder: GraphBuilder, *_: Value, **__: Value) -> SSAValue:
    return _stream(builder).uniform(builder.result_dtype)


@draws("aten.randn.default", "aten.randn_like.default")
def lower_randn(builder: GraphBuilder, *_: Value, **__: Value) -> SSAValue:
    return _stream(builder).normal(builder.result_dtype)


@draws("aten.uniform.default")
def lower_uniform(builder: GraphBuilder, _like: SSAValue, low: float = 0.0, high: float = 1.0, **_: Value) -> SSAValue:
    return _scaled(builder, _stream(builder).uniform(builder.result_dtype), high - low, low)


@draws("aten.normal_functional.default")
def lower_normal_functional(
    builder: GraphBuilder, _like: SSAValue, mean: float = 0.0, std: float = 1.0, **_: Value
) -> SSAValue:
    return _scaled(builder, _stream(builder).normal(builder.result_dtype), std, mean)


@draws("aten.normal.Tensor_Tensor", "aten.normal.Tensor_float", "aten.normal.float_Tensor", "aten.normal.float_float")
def lower_normal(builder: GraphBuilder, mean: Value = 0.0, std: Value = 1.0, *_: Value, **__: Value) -> SSAValue:
    return _scaled(builder, _stream(builder).normal(builder.result_dtype), std, mean)


def _exponential(builder: GraphBuilder, dtype: DType) -> SSAValue:
    """−ln u, u uniform in (0, 1]"""
    return builder.emit(Negate, builder.emit(Log, _stream(builder).uniform(dtype, open_at_zero=True)))


@draws("aten.exponential.default")
def lower_exponential(builder: GraphBuilder, _like: SSAValue, rate: float = 1.0, **_: Value) -> SSAValue:
    return _scaled(builder, _exponential(builder, builder.result_dtype), 1.0 / rate, 0.0)


@draws("aten.log_normal.default")
def lower_log_normal(
    builder: GraphBuilder, _like: SSAValue, mean: float = 1.0, std: float = 2.0, **_: Value
) -> SSAValue:
    return builder.emit(Exponential, _scaled(builder, _stream(builder).normal(builder.result_dtype), std, mean))


@draws("aten.cauchy.default")
def lower_cauchy(
    builder: GraphBuilder, _like: SSAValue, median: float = 0.0, sigma: float = 1.0, **_: Value
) -> SSAValue:
    """median + sigma·tan(π·(u − ½))"""
    angle = _scaled(builder, _stream(builder).uniform(builder.result_dtype), math.pi, -0.5 * math.pi)
    return _scaled(builder, builder.emit(Tan, angle), sigma, median)


# -- discrete --------------------------------------------------------------------------------------------------------


def _between(builder: GraphBuilder, low: Value, high: Value) -> SSAValue:
    """low + (63 random bits) mod (high − low): as PyTorch's, biased by less than (high − low)/2⁶³"""
    sizes = builder.result_sizes
    count = Size.of(high) - low if isinstance(high, Size) or isinstance(low, Size) else high - low
    remainder = builder.emit(Remainder, _stream(builder).bits(63, skip=1), _spread(builder, count, I64, sizes))
    number = builder.emit(Add, remainder, _spread(builder, low, I64, sizes))
    return builder.convert(number, builder.result_dtype)


@draws("aten.randint.default")
def lower_randint(builder: GraphBuilder, high: Value, *_: Value, **__: Value) -> SSAValue:
    return _between(builder, 0, high)


@draws("aten.randint.low")
def lower_randint_low(builder: GraphBuilder, low: Value, high: Value, *_: Value, **__: Value) -> SSAValue:
    return _between(builder, low, high)


@draws("aten.randint_like.default")
def lower_randint_like(builder: GraphBuilder, _like: SSAValue, high: Value, *_: Value, **__: Value) -> SSAValue:
    return _between(builder, 0, high)


@draws("aten.randint_like.low_dtype")
def lower_randint_like_low(
    builder: GraphBuilder, _like: SSAValue, low: Value, high: Value, *_: Value, **__: Value
) -> SSAValue:
    return _between(builder, low, high)


def _happens(builder: GraphBuilder, probability: Value) -> SSAValue:
    """bool: u < probability, u uniform in [0, 1) in f32, or in f64 where the probability is"""
    sizes = builder.result_sizes
    wide = isinstance(probability, SSAValue) and dtype_of(probability.type) == F64
    dtype = F64 if wide else F32
    drawn = Stream(builder, sizes).uniform(dtype)
    return builder.emit(Compare, drawn, _spread(builder, probability, dtype, sizes), direction="lt")


@draws("aten.bernoulli.default")
def lower_bernoulli(builder: GraphBuilder, probability: SSAValue, **_: Value) -> SSAValue:
    return builder.convert(_happens(builder, probability), builder.result_dtype)


@draws("aten.bernoulli.p", "aten.bernoulli.Tensor")
def lower_bernoulli_p(builder: GraphBuilder, _like: SSAValue, probability: Value = 0.5, **_: Value) -> SSAValue:
    return builder.convert(_happens(builder, probability), builder.result_dtype)


@draws("aten.geometric.default")
def lower_geometric(builder: GraphBuilder, _like: SSAValue, probability: float, **_: Value) -> SSAValue:
    """⌈ln u / ln(1 − p)⌉, the number of trials until the first success, u uniform in (0, 1)"""
    dtype, sizes = builder.result_dtype, builder.result_sizes
    wide = dtype if dtype == F64 else F32
    logarithm = builder.emit(Log, _stream(builder).uniform(wide, open_at_zero=True))
    failure = builder.emit(LogPlusOne, builder.constant(-probability, wide, sizes))
    trials = builder.emit(Ceil, builder.emit(Divide, logarithm, failure))
    one = builder.constant(1.0, wide, sizes)
    at_least_one = builder.emit(Select, builder.emit(Compare, trials, one, direction="lt"), one, trials)
    return builder.convert(at_least_one, dtype)


@draws("aten.randperm.default")
def lower_randperm(builder: GraphBuilder, _count: Value, **_: Value) -> SSAValue:
    """The order of random keys of 63 bits, two of which are equal with a probability below n²/2⁶⁴"""
    order = builder.emit(ArgSort, _stream(builder).bits(63, skip=1))
    return builder.convert(order, builder.result_dtype)


@draws("aten.multinomial.default")
def lower_multinomial(
    builder: GraphBuilder, weights: SSAValue, count: Value, replacement: bool = False, **_: Value
) -> SSAValue:
    """Indices in proportion to weights. With replacement, where u·Σw falls among the cumulative weights; without, the largest
    w/e with e exponential: the order in which clocks of rates w ring (Efraimidis and Spirakis, 2006)."""
    dtype, sizes, axis = dtype_of(weights.type), sizes_of(weights.type), rank_of(weights.type) - 1
    if not dtype.is_float or (isinstance(count, int) and count < 1):
        raise Unsupported(f"{count} indices in proportion to {dtype}, which PyTorch refuses too")
    builder.require(sizes[axis].le(_MOST_CATEGORIES), "multinomial")
    _check_weights(builder, weights)
    if replacement:
        cumulative = builder.emit(Scan, builder.convert(weights, F64), axis=axis, kind="sum")
        total = sliced(builder, cumulative, axis, sizes[axis] - 1, 1)
        drawn = Stream(builder, builder.result_sizes).uniform(F64)
        places = builder.emit(Multiply, drawn, builder.broadcast(total, builder.result_sizes))
        return builder.emit(SearchSorted, cumulative, places, right=True)
    builder.require(Size.of(count).le(sizes[axis]), "multinomial without replacement")
    wide = F64 if dtype == F64 else F32
    uniform = Stream(builder, sizes).uniform(wide, open_at_zero=True)
    clock = builder.emit(Negate, builder.emit(Log, uniform))
    smallest = builder.constant(2.0**-126, wide, sizes)
    keys = builder.emit(Divide, builder.convert(weights, wide), builder.emit(Maximum, clock, smallest))
    return builder.emit(TopK, keys, k=(Size.of(count),), largest=True)


_MOST_CATEGORIES = 1 << 24
"""How many weights PyTorch draws from."""


def _check_weights(builder: GraphBuilder, weights: SSAValue) -> None:
    """Weights are finite and not negative, and no row of them is 0 throughout."""
    dtype, sizes = dtype_of(weights.type), sizes_of(weights.type)
    zero = builder.constant(0, dtype, sizes)
    usable = builder.emit(Compare, weights, zero, direction="ge")
    usable = builder.emit(And, usable, builder.emit(IsFinite, weights))
    positive = builder.emit(Compare, weights, zero, direction="gt")
    axis = len(sizes) - 1
    rows = (builder.emit(Reduce, each, axes=(axis,), kind=kind) for each, kind in ((usable, "and"), (positive, "or")))
    require_none(builder, builder.emit(Not, builder.emit(And, *rows)), "wrong_weights")


# -- dropout ---------------------------------------------------------------------------------------------------------


def _dropped(
    builder: GraphBuilder, x: SSAValue, probability: float, sizes: Sequence[Size]
) -> tuple[SSAValue, SSAValue]:
    """x/(1 − p) where it is kept, else 0, and where it is kept"""
    dtype = dtype_of(x.type)
    drawn = Stream(builder, sizes).uniform(F32)
    kept = builder.emit(Compare, drawn, builder.constant(probability, F32, sizes), direction="ge")
    scale = 0.0 if probability == 1.0 else 1.0 / (1.0 - probability)
    zero = builder.constant(0.0, dtype, sizes)
    scaled = builder.emit(Multiply, x, builder.constant(scale, dtype, sizes))
    return builder.emit(Select, kept, scaled, zero), kept


@draws("aten.dropout.default")
def lower_dropout(builder: GraphBuilder, x: SSAValue, probability: float, train: bool) -> SSAValue:
    return _dropped(builder, x, probability, builder.result_sizes)[0] if train and probability > 0.0 else x


@draws("aten.native_dropout.default")
def lower_native_dropout(
    builder: GraphBuilder, x: SSAValue, probability: float, train: bool | None
) -> tuple[SSAValue, SSAValue]:
    """PyTorch drops out where `train` is None too."""
    sizes = sizes_of(x.type)
    if train is False:
        return x, builder.constant(True, BOOL, sizes)
    return _dropped(builder, x, probability, sizes)


@draws("aten.rrelu_with_noise_functional.default")
def lower_rrelu(
    builder: GraphBuilder,
    x: SSAValue,
    _noise: SSAValue,
    lower: float = 0.125,
    upper: float = 1.0 / 3.0,
    training: bool = False,
    **_: Value,
) -> tuple[SSAValue, SSAValue]:
    """x, below 0 times a slope: uniform in [lower, upper) in training, else their mean; and the slopes, 1 where x > 0"""
    dtype, sizes = dtype_of(x.type), sizes_of(x.type)
    one = builder.constant(1.0, dtype, sizes)
    if training:
        drawn = Stream(builder, sizes).uniform(dtype)
        slope = _scaled(builder, drawn, upper - lower, lower)
    else:
        slope = builder.constant((lower + upper) / 2, dtype, sizes)
    above = builder.emit(Compare, x, builder.constant(0.0, dtype, sizes), direction="gt")
    noise = builder.emit(Select, above, one, slope)
    return builder.emit(Multiply, x, noise), noise
