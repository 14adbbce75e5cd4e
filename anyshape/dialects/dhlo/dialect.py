"""The dialect value that a context loads."""

from xdsl.ir import Dialect

from anyshape.dialects.dhlo import (
    assembly,
    attention,
    binary,
    chunks,
    constant,
    contraction,
    gather,
    movement,
    normalization,
    reduction,
    selection,
    unary,
)
from anyshape.dialects.dhlo.base import DhloOp
from anyshape.dialects.dhlo.fusion import FusionOp, YieldOp
from anyshape.dialects.sizes import DimsAttr, RelationAttr

OP_MODULES = (
    assembly,
    attention,
    binary,
    chunks,
    constant,
    contraction,
    gather,
    movement,
    normalization,
    reduction,
    selection,
    unary,
)
"""Every module of this package that defines ops: importing them registers the ops."""

Dhlo = Dialect("dhlo", [*DhloOp.OPS.values(), FusionOp, YieldOp], [DimsAttr, RelationAttr])

__all__ = ["OP_MODULES", "Dhlo"]
