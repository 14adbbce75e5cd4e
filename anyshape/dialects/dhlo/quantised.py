"""Block-quantised weights in graphs: decoded to f32, and products with them that never are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from xdsl.ir import SSAValue
from xdsl.pattern_rewriter import PatternRewriter
from xdsl.utils.exceptions import VerifyException

from anyshape.dialects.block_formats import FORMATS, BitField, BlockFormat
from anyshape.dialects.dhlo.base import REQUIRED, Array, DhloOp, Environment, Points, Sample
from anyshape.dialects.dhlo.contraction import DotGeneral
from anyshape.dialects.dtypes import F16, F32, I8, I16, I32, U8
from anyshape.dialects.scalars import Scalars
from anyshape.dialects.sizes import Tensor, dtype_of, sizes_of, tensor
from anyshape.symbolic import Size

M = Size.symbol("m")


class Dequantize(DhloOp, op="dequantize"):
    """result[i…, j] = the weight j of row i…, f32, of rows of block-quantised bytes: s·(u − z) + m (see `block_formats`).

    The operand is u8 with rows along its last axis, which is a whole number of blocks of `format`.
    """

    DEFAULTS: ClassVar = {"format": REQUIRED}
    SAMPLES = tuple(
        Sample(((M, 2 * each.bytes),), {"format": name}, dtypes=(U8,), values={0: "positive"})
        for name, each in FORMATS.items()
    )

    @classmethod
    def infer(cls, operands: Sequence[Tensor], attributes: Mapping[str, Any]) -> Sequence[Tensor]:
        if len(operands) != 1:
            raise VerifyException(f"{cls.name} takes 1 operand, got {len(operands)}")
        rows, columns = _quantised_rows(cls.name, operands[0], attributes["format"])
        return [tensor(F32, [*rows, columns])]

    @property
    def block_format(self) -> BlockFormat:
        return FORMATS[self.attribute("format")]

    def reference(self, *operands: Array, env: Environment) -> Sequence[Array]:
        return [self.block_format.decode(operands[0])]

    def element(self, points: Points, at: Sequence[SSAValue]) -> SSAValue:
        return _Element.of(points, self.block_format, at).weight()


class QuantisedDot(DhloOp, op="quantised_dot"):
    """result[i…, j] = Σ_k lhs[i…, k] · w[j, k] with w = dequantize(rhs): the product that kernels take without decoding rhs.

    lhs and the result are f32, rhs is u8 [j, row bytes], a weight. Kernels round lhs to 16 or 8 bits (`Options.activations`), with a
    scale for each 32 or 128 elements of a row; sums over a block are exact, and blocks are added in f32. Passes build it, a front end
    builds `dot_general` of a `dequantize`.
    """

    DEFAULTS: ClassVar = {"format": REQUIRED}
    PLANNED = True
    SAMPLES = tuple(
        Sample(((M, 2 * each.elements), (5, 2 * each.bytes)), {"format": name}, dtypes=(F32,), fixed={1: U8},
               values={0: "unit", 1: "positive"})
        for name, each in FORMATS.items()
    )  # fmt: skip

    @classmethod
    def infer(cls, operands: Sequence[Tensor], attributes: Mapping[str, Any]) -> Sequence[Tensor]:
        if len(operands) != 2:
            raise VerifyException(f"{cls.name} takes 2 operands, got {len(operands)}")
        lhs, (rows, columns) = operands[0], _quantised_rows(cls.name, operands[1], attributes["format"])
        if len(rows) != 1:
            raise VerifyException(f"{cls.name}: operand 1 has rank {len(rows) + 1}, expected a matrix")
        sizes = sizes_of(lhs)
        if dtype_of(lhs) != F32 or not sizes or sizes[-1] != columns:
            raise VerifyException(f"{cls.name}: operand 0 is {lhs}, expected f32 with a last axis of size {columns}")
        return [tensor(F32, [*sizes[:-1], *rows])]

    @property
    def block_format(self) -> BlockFormat:
        return FORMATS[self.attribute("format")]

    @property
    def has_plan(self) -> bool:
        # Bytes that are computed have no packed form.
        return self.operands[1].owner.name == "dhlo.weight" if isinstance(self.operands[1].owner, DhloOp) else False

    def reference(self, *operands: Array, env: Environment) -> Sequence[Array]:
        lhs, rhs = operands
        with np.errstate(all="ignore"):
            return [(lhs.astype(np.float64) @ self.block_format.decode(rhs).astype(np.float64).T).astype(np.float32)]

    def expand(self, rewriter: PatternRewriter) -> Sequence[SSAValue]:
        weights = Dequantize.emit(rewriter, self.operands[1], format=self.attribute("format"))
        last = len(self.operand_sizes()) - 1
        return [DotGeneral.emit(rewriter, self.operands[0], weights, lhs_contract=(last,), rhs_contract=(1,))]


def _quantised_rows(name: str, operand: Tensor, format: str) -> tuple[tuple[Size, ...], Size]:
    """The sizes of all axes but the last, and how many weights a row has; VerifyException for what is no such matrix."""
    found, sizes = FORMATS.get(format), sizes_of(operand)
    if found is None:
        raise VerifyException(f"{name}: unknown format {format!r}; known are {', '.join(FORMATS)}")
    if dtype_of(operand) != U8 or not sizes:
        raise VerifyException(f"{name} takes rows of u8, got {operand}")
    if not sizes[-1].is_constant or sizes[-1].value % found.bytes:
        raise VerifyException(
            f"{name}: rows of {sizes[-1]} bytes are no whole blocks; {format} has {found.bytes} bytes for {found.elements}"
        )
    return sizes[:-1], Size.const(sizes[-1].value // found.bytes * found.elements)


@dataclass(frozen=True)
class _Element:
    """One element being decoded: its place in a block and where the block begins; all index values."""

    points: Points
    scalars: Scalars
    format: BlockFormat
    row: Sequence[SSAValue]
    block: SSAValue
    place: SSAValue

    @staticmethod
    def of(points: Points, format: BlockFormat, at: Sequence[SSAValue]) -> _Element:
        scalars, elements = points.scalars, points.size(format.elements)
        block = scalars.mul(scalars.trunc_div(at[-1], elements, unsigned=True), points.size(format.bytes))
        place = scalars.trunc_rem(at[-1], elements, unsigned=True)
        return _Element(points, scalars, format, tuple(at[:-1]), block, place)

    def weight(self) -> SSAValue:
        scalars, format = self.scalars, self.format
        scale, minimum = self._half(format.scale), None
        if format.minimum is not None:
            minimum = self._half(format.minimum)
        match format.group_scales:
            case "signed_byte":
                byte = self.points.operand(0, [*self.row, self._at(format.group_offset, self._group())])
                scale = scalars.mul(scale, scalars.convert(byte, I8, F32))
            case "six_bit":
                scale, minimum = self._six_bit(scale, minimum)
            case "none":
                pass
        code = scalars.sub(self._code(), scalars.constant(format.zero_point, I32.scalar))
        weight = scalars.mul(scale, scalars.convert(code, I32, F32))
        if minimum is None:
            return weight
        return scalars.add(weight, minimum) if format.minimum_sign > 0 else scalars.sub(weight, minimum)

    def _at(self, offset: int, step: SSAValue | None = None) -> SSAValue:
        place = self.scalars.add(self.block, self.points.size(offset))
        return place if step is None else self.scalars.add(place, step)

    def _byte(self, place: SSAValue) -> SSAValue:
        """An unsigned byte of the row as an i32."""
        return self.scalars.convert(self.points.operand(0, [*self.row, place]), U8, I32)

    def _half(self, offset: int) -> SSAValue:
        """The f16 at a byte of the block, as f32."""
        scalars = self.scalars
        low, high = (self._byte(self._at(offset + byte)) for byte in (0, 1))
        bits = scalars.logical_or(low, scalars.shift_left(high, scalars.constant(8, I32.scalar)))
        return scalars.convert(scalars.bitcast(scalars.convert(bits, I32, I16), F16), F16, F32)

    def _group(self) -> SSAValue:
        return self.scalars.trunc_div(self.place, self.points.size(self.format.group), unsigned=True)

    def _code(self) -> SSAValue:
        code, bits = self._field(self.format.fields[0]), self.format.fields[0].bits
        for field in self.format.fields[1:]:
            high = self.scalars.shift_left(self._field(field), self.scalars.constant(bits, I32.scalar))
            code, bits = self.scalars.logical_or(code, high), bits + field.bits
        return (
            self.scalars.logical_xor(code, self.scalars.constant(0x80, I32.scalar)) if self.format.is_signed else code
        )

    def _field(self, field: BitField) -> SSAValue:
        scalars, size = self.scalars, self.points.size
        run = scalars.trunc_div(self.place, size(field.run), unsigned=True)
        step = scalars.mul(scalars.trunc_div(run, size(field.ways), unsigned=True), size(field.run))
        step = scalars.add(step, scalars.trunc_rem(self.place, size(field.run), unsigned=True))
        byte = self._byte(self._at(field.offset, step))
        if field.ways == 1:
            return byte
        way = scalars.from_index(scalars.trunc_rem(run, size(field.ways), unsigned=True), I32.scalar)
        shift = scalars.mul(way, scalars.constant(field.bits, I32.scalar))
        shifted = scalars.shift_right(byte, shift, unsigned=True)
        return scalars.logical_and(shifted, scalars.constant(field.mask, I32.scalar))

    def _six_bit(self, scale: SSAValue, minimum: SSAValue | None) -> tuple[SSAValue, SSAValue]:
        """d and dmin times the 6-bit scale and minimum of the element's group.

        Of the 12 bytes q, groups 0 to 3 have the low 6 bits of q[g] and q[g + 4]; groups 4 to 7 have the halves of q[g + 4] as their low 4
        bits and the upper 2 bits of q[g − 4] and q[g].
        """
        scalars, group = self.scalars, self._group()
        assert minimum is not None
        own, other, before = (self._byte(self._at(self.format.group_offset + at, group)) for at in (0, 4, -4))
        number = scalars.from_index(group, I32.scalar)
        is_low = scalars.compare("lt", number, scalars.constant(4, I32.scalar))
        four, six, low6, low4 = (scalars.constant(each, I32.scalar) for each in (4, 6, 63, 15))

        def joined(low: SSAValue, high: SSAValue) -> SSAValue:
            upper = scalars.shift_left(scalars.shift_right(high, six, unsigned=True), four)
            return scalars.logical_or(low, upper)

        factor = scalars.select(
            is_low, scalars.logical_and(own, low6), joined(scalars.logical_and(other, low4), before)
        )
        shift = scalars.select(
            is_low, scalars.logical_and(other, low6), joined(scalars.shift_right(other, four, unsigned=True), own)
        )
        return (
            scalars.mul(scale, scalars.convert(factor, I32, F32)),
            scalars.mul(minimum, scalars.convert(shift, I32, F32)),
        )


__all__ = ["Dequantize", "QuantisedDot"]
