"""Vector math: elementary functions built from FMA and bit manipulation, with no library calls.

Each function takes a `Builder` and f32 or f64 scalars or vectors of any width, and appends ops. The stated errors are
in ULP of the result's format and are what the tests measure over the whole range; special values follow C's Annex F.
`VECTOR_MATH` maps the names of MLIR's `math` ops to them. f16 and bf16 operands must be widened to f32 first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from anyshape.codegen.builder import Builder
from anyshape.codegen.mlir import Value
from anyshape.codegen.vector_math.error_function import erf
from anyshape.codegen.vector_math.exponential import exp, exp2, expm1, sigmoid, tanh
from anyshape.codegen.vector_math.hyperbolic import acosh, asinh, atanh, cosh, sinh
from anyshape.codegen.vector_math.inverse_trigonometric import acos, asin, atan, atan2
from anyshape.codegen.vector_math.logarithm import log, log1p, log2, log10
from anyshape.codegen.vector_math.power import powf, rsqrt
from anyshape.codegen.vector_math.trigonometric import cos, sin, tan

VECTOR_MATH: Mapping[str, Callable[..., Value]] = MappingProxyType(
    {
        "math.absf": Builder.absolute,
        "math.acos": acos,
        "math.acosh": acosh,
        "math.asin": asin,
        "math.asinh": asinh,
        "math.atan": atan,
        "math.atan2": atan2,
        "math.atanh": atanh,
        "math.ceil": Builder.ceil,
        "math.copysign": Builder.copysign,
        "math.cos": cos,
        "math.cosh": cosh,
        "math.erf": erf,
        "math.exp": exp,
        "math.exp2": exp2,
        "math.expm1": expm1,
        "math.floor": Builder.floor,
        "math.fma": Builder.fma,
        "math.log": log,
        "math.log10": log10,
        "math.log1p": log1p,
        "math.log2": log2,
        "math.powf": powf,
        "math.roundeven": Builder.round_even,
        "math.rsqrt": rsqrt,
        "math.sin": sin,
        "math.sinh": sinh,
        "math.sqrt": Builder.sqrt,
        "math.tan": tan,
        "math.tanh": tanh,
        "math.trunc": Builder.trunc,
    }
)
"""`VECTOR_MATH[op_name](builder, *operands)` appends the code of that op and returns its result."""

__all__ = [
    "VECTOR_MATH", "acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "cos", "cosh", "erf", "exp", "exp2", "expm1", "log",
    "log1p", "log2", "log10", "powf", "rsqrt", "sigmoid", "sin", "sinh", "tan", "tanh",
]  # fmt: skip
