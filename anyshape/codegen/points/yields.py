"""What the points of an axis contribute to its reductions."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects import arith
from xdsl.ir import Operation, SSAValue

from anyshape.codegen.points.reduce import Fold
from anyshape.dialects.tile import AxisOp, DotOp, YieldOp


@dataclass(frozen=True)
class Yields:
    """What an axis folds: its folds, and for each the value or the two factors that a point contributes."""

    folds: tuple[Fold, ...]
    values: tuple[tuple[SSAValue, ...], ...]
    skipped: frozenset[Operation]
    """Products that are fused into their sum."""


def yields_of(op: AxisOp | DotOp, *, fuse: bool) -> Yields:
    """The folds of an axis; a sum of a product that nothing else uses is a fold of two factors."""
    block = op.body.block
    last = block.last_op
    assert isinstance(last, YieldOp)
    if isinstance(op, DotOp):
        return Yields((Fold("sum", op.result.type, product=True),), (tuple(last.values),), frozenset())
    folds: list[Fold] = []
    values: list[tuple[SSAValue, ...]] = []
    skipped: set[Operation] = set()
    for kind, value in zip(op.kind_names, last.values, strict=True):
        owner = value.owner
        product = fuse and kind == "sum" and isinstance(owner, arith.MulfOp) and owner.parent is block
        if product and isinstance(owner, arith.MulfOp) and value.has_one_use():
            skipped.add(owner)
            folds.append(Fold(kind, value.type, product=True))
            values.append(tuple(owner.operands))
        else:
            folds.append(Fold(kind, value.type))
            values.append((value,))
    return Yields(tuple(folds), tuple(values), frozenset(skipped))


__all__ = ["Yields", "yields_of"]
