"""The dialect value that a context loads."""

from importlib import import_module

from xdsl.ir import Dialect

from anyshape.dialects.dhlo.base import DhloOp
from anyshape.dialects.dhlo.fusion import FusionOp, YieldOp
from anyshape.dialects.sizes import DimsAttr, RelationAttr

_FAMILIES = (
    "assembly",
    "attention",
    "binary",
    "chunks",
    "constant",
    "contraction",
    "gather",
    "movement",
    "normalization",
    "reduction",
    "scan",
    "selection",
    "unary",
)
OP_MODULES = tuple(import_module(f"{__package__}.{family}") for family in _FAMILIES)
"""Every module of this package that defines ops: importing them registers the ops."""

Dhlo = Dialect("dhlo", [*DhloOp.OPS.values(), FusionOp, YieldOp], [DimsAttr, RelationAttr])

__all__ = ["OP_MODULES", "Dhlo"]
