"""The dialect value that a context loads."""

from importlib import import_module

from xdsl.ir import Dialect

from anyshape.dialects.dhlo.base import DhloOp
from anyshape.dialects.dhlo.fusion import FusionOp, YieldOp
from anyshape.dialects.sizes import DimsAttr, RelationAttr

_FAMILIES = (
    "adaptive",
    "assembly",
    "attention",
    "bags",
    "bessel",
    "binary",
    "bits",
    "border",
    "chunks",
    "checks",
    "compaction",
    "constant",
    "contraction",
    "convolution",
    "ctc",
    "divisors",
    "factorisation",
    "fold",
    "gather",
    "grid_sample",
    "magnitudes",
    "movement",
    "normalization",
    "orthogonal",
    "pool_gradients",
    "pooling",
    "random",
    "recurrence",
    "reduction",
    "resize",
    "scan",
    "scatter",
    "selection",
    "sort",
    "special",
    "strided",
    "suppression",
    "trigonometric",
    "unary",
    "windows",
)
OP_MODULES = tuple(import_module(f"{__package__}.{family}") for family in _FAMILIES)
"""Every module of this package that defines ops: importing them registers the ops."""

Dhlo = Dialect("dhlo", [*DhloOp.OPS.values(), FusionOp, YieldOp], [DimsAttr, RelationAttr])

__all__ = ["OP_MODULES", "Dhlo"]
