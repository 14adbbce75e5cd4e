"""Elements that are known while importing as a tensor of the program."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from anyshape.dialects.dhlo import Array, Compare, Concatenate, Divide, SizeOf
from anyshape.dialects.dtypes import F64, DType
from anyshape.frontends.onnx.ratios import Ratio
from anyshape.frontends.onnx.values import Known
from anyshape.nn import Tensor
from anyshape.symbolic import Relation, Size
from anyshape.symbolic.relation import RelationOp

if TYPE_CHECKING:
    from anyshape.frontends.onnx.builder import GraphBuilder

_DIRECTIONS: dict[RelationOp, str] = {"==": "eq", "!=": "ne", "<=": "le", "<": "lt"}


def tensor_of(b: GraphBuilder, known: Known) -> Tensor:
    """A constant of numbers; of expressions over sizes what each call computes. Unsupported where programs have no such elements."""
    dtype = known.dtype
    if known.is_literal:
        if known.elements.size and (known.rank == 0 or known.elements.size > 1) and _is_uniform(known.elements):
            return b.constant(known.elements.flat[0].item(), dtype, known.sizes)
        return b.graph.array(known.elements)
    scalars = [_scalar(b, each, dtype) for each in known.elements.flat]
    if known.rank == 0:
        return scalars[0]
    row = [b.reshape(each, (1,)) for each in scalars]
    return b.reshape(row[0] if len(row) == 1 else b.emit(Concatenate, *row, axis=0), known.sizes)


def _scalar(b: GraphBuilder, element: Size | Relation | Ratio | float | bool, dtype: DType) -> Tensor:
    if isinstance(element, Ratio):
        size = b.convert(b.emit(SizeOf, size=element.size), F64)
        return b.convert(b.binary(Divide, size, element.divisor), dtype)
    if isinstance(element, float | bool):
        return b.constant(element, dtype)
    if isinstance(element, Relation):
        sides = (b.emit(SizeOf, size=side) for side in (element.lhs, element.rhs))
        return b.emit(Compare, *sides, direction=_DIRECTIONS[element.op])
    return b.convert(b.emit(SizeOf, size=Size.of(element)), dtype)


def _is_uniform(elements: Array) -> bool:
    """Whether all elements are the same bits."""
    if elements.dtype.kind not in "biuf" or elements.flat[0] != elements.flat[-1]:
        return False
    first = elements.flat[0]
    return bool((elements == first).all()) and (bool(first) or not np.signbit(elements).any())


__all__ = ["tensor_of"]
