"""What a kind of reduction is on one element type: the op that combines two values, and the value that a fold starts from.

f16 and bf16 have the same combiners as f32; whether they are widened first is the emitter's affair.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TypeAlias

from xdsl.dialects import arith
from xdsl.dialects.builtin import AnyFloat, IntegerType
from xdsl.ir import Attribute, Operation, SSAValue

from anyshape.support.errors import CodegenError

Combiner: TypeAlias = Callable[[SSAValue, SSAValue], Operation]

_ON_BITS: Mapping[str, str] = MappingProxyType(
    {"sum": "or", "max": "or", "umax": "or", "or": "or", "prod": "and", "min": "and", "umin": "and", "and": "and"}
)
_OF_FLOATS: Mapping[str, tuple[Combiner, float]] = MappingProxyType(
    {
        "sum": (arith.AddfOp, 0.0),
        "prod": (arith.MulfOp, 1.0),
        "max": (arith.MaximumfOp, -math.inf),
        "min": (arith.MinimumfOp, math.inf),
    }
)
_OF_INTEGERS: Mapping[str, Combiner] = MappingProxyType(
    {
        "sum": arith.AddiOp,
        "prod": arith.MuliOp,
        "max": arith.MaxSIOp,
        "min": arith.MinSIOp,
        "umax": arith.MaxUIOp,
        "umin": arith.MinUIOp,
        "and": arith.AndIOp,
        "or": arith.OrIOp,
    }
)


def kind_on(kind: str, element: Attribute) -> str:
    """The kind itself; on i1 the conjunction or the disjunction that every kind is there."""
    return _ON_BITS[kind] if element == IntegerType(1) else kind


def identity(kind: str, element: Attribute) -> float | int:
    """e with e ∘ x = x for the combiner ∘ of `kind`: the result over no points; integers as signed numbers."""
    if isinstance(element, AnyFloat):
        return -math.inf if kind == "logaddexp" else _of_floats(kind, element)[1]
    bits = element.bitwidth if isinstance(element, IntegerType) else 64
    if bits == 1:
        return int(_ON_BITS[kind] == "and")
    low = -(1 << (bits - 1))
    return {"sum": 0, "or": 0, "prod": 1, "and": -1, "max": low, "min": -1 - low, "umax": 0, "umin": -1}[kind]


def combiner(kind: str, a: SSAValue, b: SSAValue) -> Operation:
    """A new op that combines two values of one scalar type. CodegenError for a kind that floats do not have."""
    element = a.type
    combine = _of_floats(kind, element)[0] if isinstance(element, AnyFloat) else _OF_INTEGERS[kind_on(kind, element)]
    return combine(a, b)


def _of_floats(kind: str, element: Attribute) -> tuple[Combiner, float]:
    if kind not in _OF_FLOATS:
        raise CodegenError("a reduction does not fit its elements", got=f"{kind} of {element}")
    return _OF_FLOATS[kind]


__all__ = ["combiner", "identity", "kind_on"]
