"""Composites that normalise over axes: softmax, layer norm, RMS norm. Each expands; f16 and bf16 are computed in f32."""

from __future__ import annotations

from abc import ABC
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from xdsl.builder import Builder
from xdsl.ir import SSAValue
from xdsl.pattern_rewriter import PatternRewriter
from xdsl.utils.exceptions import VerifyException

from anyshape.dialects.dhlo.assembly import check_axis
from anyshape.dialects.dhlo.base import REQUIRED, Arg, Array, DhloOp, Environment, Oracle, Sample, same_dtype
from anyshape.dialects.dhlo.binary import Add, Divide, Multiply, Subtract
from anyshape.dialects.dhlo.constant import Constant
from anyshape.dialects.dhlo.elementwise import rounded, widened
from anyshape.dialects.dhlo.movement import BroadcastInDim, one_operand
from anyshape.dialects.dhlo.reduction import Reduce, check_axes, emit_in_f32, emit_mean, spread
from anyshape.dialects.dhlo.selection import converted
from anyshape.dialects.dhlo.unary import Exponential, Log, Rsqrt
from anyshape.dialects.dtypes import F32, F64
from anyshape.dialects.sizes import Tensor, dtype_of, sizes_of, tensor


class SoftmaxFamily(DhloOp, ABC):
    """A function of x − max x along `axis`, of x's sizes. Floats only."""

    DEFAULTS: ClassVar = {"axis": REQUIRED}

    @classmethod
    def infer(cls, operands: Sequence[Tensor], attributes: Mapping[str, Any]) -> Sequence[Tensor]:
        operand = one_operand(cls.name, operands)
        check_axis(cls.name, attributes["axis"], len(sizes_of(operand)))
        return [tensor(same_dtype(cls.name, operands, lambda dtype: dtype.is_float), sizes_of(operand))]

    def shifted(self, builder: Builder) -> SSAValue:
        """x − max x along the axis."""
        x, axis = emit_in_f32(builder, self.operands[0]), self.integer("axis")
        top = Reduce.emit(builder, x, axes=(axis,), kind="max")
        return Subtract.emit(builder, x, spread(builder, top, (axis,), self.operand_sizes()))

    def total(self, builder: Builder, weights: SSAValue) -> SSAValue:
        return Reduce.emit(builder, weights, axes=(self.integer("axis"),), kind="sum")


def _shifted(x: Array, axis: int) -> Array:
    return x - np.max(x, axis=axis, keepdims=True, initial=-np.inf)


class Softmax(SoftmaxFamily, op="softmax"):
    """result = exp(x − max x) / Σ exp(x − max x) along `axis`; NaN where all of x is −inf, as PyTorch does."""

    SAMPLES = (
        Sample((("m", "n"),), {"axis": 1}, values={0: "finite"}, oracle=Oracle("aten.softmax.int", (Arg(0), 1))),
        Sample((("m", "n"),), {"axis": 0}, dtypes=(F32,), oracle=Oracle("aten.softmax.int", (Arg(0), 0))),
    )

    def reference(self, *operands: Array, env: Environment) -> Sequence[Array]:
        axis = self.integer("axis")
        with np.errstate(all="ignore"):
            weights = np.exp(_shifted(widened(operands[0]), axis))
            return [rounded(weights / weights.sum(axis=axis, keepdims=True), self.result_dtype)]

    def expand(self, rewriter: PatternRewriter) -> Sequence[SSAValue]:
        # One division a row: the sum is in [1, n], so its reciprocal is a normal number; the product is within 2⁻²³ of the quotient.
        weights = Exponential.emit(rewriter, self.shifted(rewriter))
        total = self.total(rewriter, weights)
        one = Constant.emit(rewriter, value=1, dtype=dtype_of(total.type), sizes=sizes_of(total.type))
        part = Divide.emit(rewriter, one, total)
        parts = spread(rewriter, part, (self.integer("axis"),), self.operand_sizes())
        return [converted(rewriter, Multiply.emit(rewriter, weights, parts), self.result_dtype)]


class LogSoftmax(SoftmaxFamily, op="log_softmax"):
    """result = x − max x − ln Σ exp(x − max x) along `axis`."""

    SAMPLES = (
        Sample((("m", "n"),), {"axis": 1}, values={0: "finite"}, oracle=Oracle("aten.log_softmax.int", (Arg(0), 1))),
    )

    def reference(self, *operands: Array, env: Environment) -> Sequence[Array]:
        axis = self.integer("axis")
        with np.errstate(all="ignore"):
            shifted = _shifted(widened(operands[0]), axis)
            return [rounded(shifted - np.log(np.exp(shifted).sum(axis=axis, keepdims=True)), self.result_dtype)]

    def expand(self, rewriter: PatternRewriter) -> Sequence[SSAValue]:
        shifted = self.shifted(rewriter)
        logarithm = Log.emit(rewriter, self.total(rewriter, Exponential.emit(rewriter, shifted)))
        spread_out = spread(rewriter, logarithm, (self.integer("axis"),), self.operand_sizes())
        return [converted(rewriter, Subtract.emit(rewriter, shifted, spread_out), self.result_dtype)]


class Norm(DhloOp, ABC):
    """x normalised over `axes`, times a weight and plus a bias of the sizes of those axes, where given. Floats only."""

    DEFAULTS: ClassVar = {"axes": REQUIRED, "epsilon": REQUIRED}
    MOST_OPERANDS: ClassVar[int]

    @classmethod
    def infer(cls, operands: Sequence[Tensor], attributes: Mapping[str, Any]) -> Sequence[Tensor]:
        if not 1 <= len(operands) <= cls.MOST_OPERANDS:
            raise VerifyException(f"{cls.name} takes 1 to {cls.MOST_OPERANDS} operands, got {len(operands)}")
        dtype, sizes = same_dtype(cls.name, operands, lambda dtype: dtype.is_float), sizes_of(operands[0])
        axes: tuple[int, ...] = attributes["axes"]
        check_axes(cls.name, axes, len(sizes))
        expected = tuple(sizes[axis] for axis in axes)
        for position, operand in enumerate(operands[1:], 1):
            if sizes_of(operand) != expected:
                got = ", ".join(map(str, sizes_of(operand)))
                raise VerifyException(
                    f"{cls.name}: operand {position} has sizes [{got}], expected [{', '.join(map(str, expected))}]"
                )
        return [tensor(dtype, sizes)]

    def affine_reference(self, normal: Array, operands: Sequence[Array]) -> Array:
        """normal · weight + bias."""
        axes = self.integers("axes")
        shape = [extent if axis in axes else 1 for axis, extent in enumerate(normal.shape)]
        for combine, operand in zip((np.multiply, np.add), operands[1:], strict=False):
            normal = combine(normal, widened(operand).reshape(shape))
        return rounded(normal, self.result_dtype)

    def scaled(self, builder: Builder, x: SSAValue) -> SSAValue:
        """x / √(mean x² + epsilon)."""
        axes, sizes = self.integers("axes"), self.operand_sizes()
        variance = emit_mean(builder, Multiply.emit(builder, x, x), axes)
        epsilon = Constant.emit(
            builder, value=self.attribute("epsilon"), dtype=dtype_of(x.type), sizes=sizes_of(variance.type)
        )
        factor = Rsqrt.emit(builder, Add.emit(builder, variance, epsilon))
        return Multiply.emit(builder, x, spread(builder, factor, axes, sizes))

    def affine(self, builder: Builder, normal: SSAValue) -> SSAValue:
        """normal · weight + bias, in the result's dtype."""
        for op, operand in zip((Multiply, Add), self.operands[1:], strict=False):
            parameter = emit_in_f32(builder, operand)
            full = BroadcastInDim.emit(builder, parameter, dimensions=self.integers("axes"), sizes=self.result_sizes)
            normal = op.emit(builder, normal, full)
        return converted(builder, normal, self.result_dtype)


class LayerNorm(Norm, op="layer_norm"):
    """result = (x − mean x) / √(mean (x − mean x)² + epsilon) · weight + bias over `axes` (Ba et al., arXiv:1607.06450).

    Operands x[, weight[, bias]].
    """

    MOST_OPERANDS = 3
    SAMPLES = (
        Sample(
            (("m", "n", 6), (6,), (6,)),
            {"axes": (2,), "epsilon": 1e-5},
            oracle=Oracle("aten.layer_norm.default", (Arg(0), (6,), Arg(1), Arg(2), 1e-5)),
        ),
        Sample((("m", "n"),), {"axes": (1,), "epsilon": 1e-3}, dtypes=(F32, F64)),
    )

    def reference(self, *operands: Array, env: Environment) -> Sequence[Array]:
        x, axes = widened(operands[0]), self.integers("axes")
        count = np.float64(np.prod([x.shape[axis] for axis in axes]))
        with np.errstate(all="ignore"):
            centred = x - x.sum(axis=axes, keepdims=True) / count
            variance = np.square(centred).sum(axis=axes, keepdims=True) / count
            return [self.affine_reference(centred / np.sqrt(variance + self.attribute("epsilon")), operands)]

    def expand(self, rewriter: PatternRewriter) -> Sequence[SSAValue]:
        x, axes = emit_in_f32(rewriter, self.operands[0]), self.integers("axes")
        mean = spread(rewriter, emit_mean(rewriter, x, axes), axes, self.operand_sizes())
        return [self.affine(rewriter, self.scaled(rewriter, Subtract.emit(rewriter, x, mean)))]


class RmsNorm(Norm, op="rms_norm"):
    """result = x / √(mean x² + epsilon) · weight over `axes` (Zhang and Sennrich, arXiv:1910.07467). Operands x[, weight]."""

    MOST_OPERANDS = 2
    SAMPLES = (
        Sample(
            (("m", "n", 6), (6,)),
            {"axes": (2,), "epsilon": 1e-5},
            oracle=Oracle("aten.rms_norm.default", (Arg(0), (6,), Arg(1), 1e-5)),
        ),
        Sample((("m", "n"),), {"axes": (1,), "epsilon": 1e-3}, dtypes=(F32, F64)),
    )

    def reference(self, *operands: Array, env: Environment) -> Sequence[Array]:
        x, axes = widened(operands[0]), self.integers("axes")
        count = np.float64(np.prod([x.shape[axis] for axis in axes]))
        with np.errstate(all="ignore"):
            square = np.square(x).sum(axis=axes, keepdims=True) / count
            return [self.affine_reference(x / np.sqrt(square + self.attribute("epsilon")), operands)]

    def expand(self, rewriter: PatternRewriter) -> Sequence[SSAValue]:
        return [self.affine(rewriter, self.scaled(rewriter, emit_in_f32(rewriter, self.operands[0])))]


__all__ = ["LayerNorm", "LogSoftmax", "Norm", "RmsNorm", "Softmax", "SoftmaxFamily"]
