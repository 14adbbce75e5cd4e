"""The bits of a tensor read as another element type."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from xdsl.builder import Builder
from xdsl.ir import SSAValue
from xdsl.utils.exceptions import VerifyException

from anyshape.dialects.dhlo.base import REQUIRED, Arg, Array, Elementwise, Environment, Oracle, Sample, same_sizes
from anyshape.dialects.dhlo.laws import Simplified, law
from anyshape.dialects.dtypes import F32, F64, I8, I32, I64, U8, DType
from anyshape.dialects.scalars import Scalars
from anyshape.dialects.sizes import Tensor, dtype_of, tensor
from anyshape.symbolic import Facts

_WORDS = ({F32, I32}, {F64, I64}, {I8, U8})
"""Element types whose bits may be read as each other's."""


class BitcastConvert(Elementwise, op="bitcast_convert"):
    """result = the bits of x as `dtype`, which has as many: f32 and i32, f64 and i64, i8 and u8 (StableHLO bitcast_convert)."""

    DEFAULTS: ClassVar = {"dtype": REQUIRED}
    SAMPLES = (
        *(
            Sample(
                (("m", "n"),), {"dtype": target}, dtypes=(source,), oracle=Oracle("aten.view.dtype", (Arg(0), target))
            )
            for source, target in ((F64, I64), (I64, F64), (U8, I8), (I32, F32))
        ),
        Sample((("m", "n"),), {"dtype": I32}, dtypes=(F32,)),
    )

    @classmethod
    def infer(cls, operands: Sequence[Tensor], attributes: Mapping[str, Any]) -> Sequence[Tensor]:
        if len(operands) != 1:
            raise VerifyException(f"{cls.name} takes 1 operand, got {len(operands)}")
        source, target = dtype_of(operands[0]), attributes["dtype"]
        if not can_read_bits(source, target):
            raise VerifyException(f"{cls.name} does not read the bits of {source} as {target}")
        return [tensor(target, same_sizes(cls.name, operands))]

    def reference(self, *operands: Array, env: Environment) -> Sequence[Array]:
        return [np.ascontiguousarray(operands[0]).view(self.result_dtype.numpy).reshape(operands[0].shape)]

    def scalar(self, scalars: Scalars, *operands: SSAValue) -> SSAValue:
        (x,) = operands
        source, target = self.operand_dtype(), self.result_dtype
        return x if source.scalar == target.scalar else scalars.bitcast(x, target)

    @law(
        "bitcast_convert to the same dtype -> x",
        example=lambda g: g(BitcastConvert, g.input("m"), dtype=F32),
    )
    def same(self, builder: Builder, facts: Facts) -> Simplified:
        return self.operands[0] if self.operand_dtype() == self.result_dtype else None


def can_read_bits(source: DType, target: DType) -> bool:
    """Whether `BitcastConvert` takes these element types."""
    return source == target or any({source, target} <= words for words in _WORDS)


__all__ = ["BitcastConvert", "can_read_bits"]
