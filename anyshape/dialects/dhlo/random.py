"""Random bits by counter: every element is a function of the seed, the stream's number and the element's own position.

So a stream is the same however the graph is cut into kernels and whichever thread computes an element, and no state is written.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, TypeAlias

import numpy as np
from xdsl.ir import SSAValue
from xdsl.utils.exceptions import VerifyException

from anyshape.dialects.dhlo.base import REQUIRED, Array, DhloOp, Environment, Points, Sample
from anyshape.dialects.dtypes import I64
from anyshape.dialects.scalars import Scalars
from anyshape.dialects.sizes import Tensor, dtype_of, sizes_of, tensor
from anyshape.symbolic import Size

_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
_WEYL = (0x9E3779B9, 0xBB67AE85)
_ROUNDS = 10
_LOW = 0xFFFFFFFF

Words: TypeAlias = tuple[Array, Array, Array, Array]
ScalarWords: TypeAlias = tuple[SSAValue, SSAValue, SSAValue, SSAValue]


def philox(counter: Words, key: tuple[Array, Array]) -> Words:
    """Philox 4x32-10: four words of 32 bits out of a counter of four and a key of two, all as u64 arrays.

    Source: J. Salmon, M. Moraes, R. Dror, D. Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011.
    """
    low, shift = np.uint64(_LOW), np.uint64(32)
    c0, c1, c2, c3 = counter
    k0, k1 = key
    for _ in range(_ROUNDS):
        first, second = c0 * np.uint64(_MULTIPLIERS[0]), c2 * np.uint64(_MULTIPLIERS[1])
        c0, c1, c2, c3 = (second >> shift) ^ c1 ^ k0, second & low, (first >> shift) ^ c3 ^ k1, first & low
        k0, k1 = (k0 + np.uint64(_WEYL[0])) & low, (k1 + np.uint64(_WEYL[1])) & low
    return c0, c1, c2, c3


class RngBitGenerator(DhloOp, op="rng_bit_generator"):
    """result[i…] = 64 random bits as i64: words `2·part` (low) and `2·part + 1` of Philox 4x32-10 with the key `seed`, operand 0,
    an i64 of rank 0, at the counter (row-major position of the element, `stream`).

    Streams of a program differ in `stream`; `part` is 0 or 1, for those who need 128 bits an element.
    """

    DEFAULTS: ClassVar = {"stream": REQUIRED, "part": 0, "sizes": REQUIRED}
    SIZE_ATTRIBUTES = ("sizes",)
    SAMPLES = (
        Sample(((),), {"stream": 3, "sizes": (Size.symbol("m"), Size.symbol("n"))}, dtypes=(I64,)),
        Sample(((),), {"stream": 0, "part": 1, "sizes": (2 * Size.symbol("m"), 1, 3)}, dtypes=(I64,)),
    )

    @property
    def cost(self) -> int:
        """Simple operations for one element: two products and four others a round."""
        return 12 * _ROUNDS

    @classmethod
    def infer(cls, operands: Sequence[Tensor], attributes: Mapping[str, Any]) -> Sequence[Tensor]:
        if len(operands) != 1 or dtype_of(operands[0]) != I64 or sizes_of(operands[0]):
            raise VerifyException(f"{cls.name} takes a seed, an i64 of rank 0")
        if attributes["part"] not in (0, 1) or not 0 <= attributes["stream"] <= _LOW:
            raise VerifyException(f"{cls.name}: part must be 0 or 1, stream a number of 32 bits")
        return [tensor(I64, attributes["sizes"])]

    def reference(self, *operands: Array, env: Environment) -> Sequence[Array]:
        shape = [size.evaluate(env) for size in self.result_sizes]
        seed = np.asarray(operands[0]).astype(np.uint64)
        low, shift = np.uint64(_LOW), np.uint64(32)
        position = np.arange(int(np.prod(shape)), dtype=np.uint64).reshape(shape)
        stream, zero = np.uint64(self.integer("stream")), np.uint64(0)
        words = philox((position & low, position >> shift, stream, zero), (seed & low, seed >> shift))  # pyright: ignore[reportArgumentType]
        part = self.integer("part")
        return [np.asarray(words[2 * part] | words[2 * part + 1] << shift).astype(np.int64)]

    def element(self, points: Points, at: Sequence[SSAValue]) -> SSAValue:
        scalars = points.scalars
        seed = points.operand(0, ())
        position = self._position(points, at)
        counter = (
            *_halves(scalars, position), _number(scalars, self.integer("stream")), _number(scalars, 0),
        )  # fmt: skip
        words = _philox(scalars, counter, _halves(scalars, seed))
        part = self.integer("part")
        high = scalars.shift_left(words[2 * part + 1], _number(scalars, 32))
        return scalars.logical_or(words[2 * part], high)

    def _position(self, points: Points, at: Sequence[SSAValue]) -> SSAValue:
        """The row-major position of the element, as an i64."""
        scalars, position = points.scalars, points.size(0)
        for index, size in zip(at, self.result_sizes, strict=True):
            position = scalars.add(scalars.mul(position, points.size(size)), index)
        return scalars.from_index(position, I64.scalar)


def _number(scalars: Scalars, value: int) -> SSAValue:
    return scalars.constant(value, I64.scalar)


def _low_word(scalars: Scalars, x: SSAValue) -> SSAValue:
    return scalars.logical_and(x, _number(scalars, _LOW))


def _high_word(scalars: Scalars, x: SSAValue) -> SSAValue:
    return scalars.shift_right(x, _number(scalars, 32), unsigned=True)


def _halves(scalars: Scalars, x: SSAValue) -> tuple[SSAValue, SSAValue]:
    return _low_word(scalars, x), _high_word(scalars, x)


def _philox(scalars: Scalars, counter: ScalarWords, key: tuple[SSAValue, SSAValue]) -> ScalarWords:
    """`philox` in scalars: words are i64 below 2³², whose products are those of unsigned words."""
    c0, c1, c2, c3 = counter
    k0, k1 = key
    multipliers = [_number(scalars, value) for value in _MULTIPLIERS]
    weyl = [_number(scalars, value) for value in _WEYL]
    for _ in range(_ROUNDS):
        first, second = scalars.mul(c0, multipliers[0]), scalars.mul(c2, multipliers[1])
        upper = scalars.logical_xor(scalars.logical_xor(_high_word(scalars, second), c1), k0)
        lower = scalars.logical_xor(scalars.logical_xor(_high_word(scalars, first), c3), k1)
        c0, c1, c2, c3 = upper, _low_word(scalars, second), lower, _low_word(scalars, first)
        k0, k1 = (_low_word(scalars, scalars.add(k, step)) for k, step in zip((k0, k1), weyl, strict=True))
    return c0, c1, c2, c3


__all__ = ["RngBitGenerator", "philox"]
