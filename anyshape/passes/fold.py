"""`fold`: what depends on constants only is computed now, by the ops' numpy references."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from xdsl.context import Context
from xdsl.ir import SSAValue
from xdsl.pattern_rewriter import PatternRewriter

from anyshape.dialects.dhlo import (
    Array,
    BroadcastInDim,
    Concatenate,
    Constant,
    ConstantStore,
    Convolution,
    DhloOp,
    DirectConvolution,
    Elementwise,
    Reshape,
    Slice,
    Transpose,
    Weight,
)
from anyshape.dialects.dhlo.recipe import OpRecipe
from anyshape.dialects.sizes import DimsAttr, dtype_of, numel, sizes_of
from anyshape.passes.context import store_of
from anyshape.passes.worklist import Rewrite, RewritePass, Rewritten
from anyshape.symbolic import Facts

INTEGERS = range(-(2**63), 2**63)
"""Values that an integer attribute of a constant holds."""
MOVES = (BroadcastInDim, Reshape, Slice, Transpose)
"""Ops that cost nothing in the kernels that read their results."""


@dataclass(frozen=True)
class FoldPass(RewritePass):
    """Elementwise ops on scalars become constants, other ops on weights and constants of static sizes become weights.

    What is computed now is stored, and the program must not grow by it: a result has at most as many bytes as the weights that
    nothing reads behind it (`_freed_bytes`), or, like all its operands, at most `limit`, where a kernel would cost more than
    the bytes. Filters of convolutions may grow, since they must lie together. Of live weights the store gets the recipe, since
    their values are not known.

    Args:
        limit: bytes.
    """

    name = "fold"
    limit: int = 65536

    def rewrite_with(self, ctx: Context, facts: Facts) -> Rewrite:
        arrays = store_of(ctx)

        def rewrite(op: DhloOp, rewriter: PatternRewriter) -> Rewritten | None:
            if not op.operands or op.has_effect or not all(_is_known(value, arrays) for value in op.operands):
                return None
            if isinstance(op, Elementwise) and all(isinstance(value.owner, Constant) for value in op.operands):
                return _fold_splat(op, rewriter)
            return _fold_arrays(op, rewriter, arrays) if self._is_worth(op) else None

        return rewrite

    def _is_worth(self, op: DhloOp) -> bool:
        if not _is_static(op):
            return False
        added = sum(map(_bytes, op.results))
        is_small = added <= self.limit and all(_bytes(operand) <= self.limit for operand in op.operands)
        return is_small or added <= _freed_bytes(op) or _becomes_filters(op)


def _freed_bytes(op: DhloOp) -> int:
    """Bytes of the weights that nothing reads once an op on them is a weight itself; for a part of a weight, the part's.

    Of other ops none: reductions and products are left to their kernels, and the kernels that read what else moves move it at no cost.
    """
    if isinstance(op, Slice):
        return _bytes(op.result) if _is_reordered(op.operands[0]) else 0
    if not isinstance(op, Elementwise | Concatenate | Reshape):
        return 0
    return sum(_bytes(value) for value in op.operands if isinstance(value.owner, Weight) and value.has_one_use())


def _is_reordered(value: SSAValue) -> bool:
    """Whether a weight is used in parts only, no more of them than it is, which are put together again."""
    parts = [use.operation for use in value.uses]
    if not isinstance(value.owner, Weight) or not all(isinstance(part, Slice) and _is_static(part) for part in parts):
        return False
    joined = all(isinstance(use.operation, Concatenate) for part in parts for use in part.results[0].uses)
    return joined and sum(_bytes(part.results[0]) for part in parts) <= _bytes(value)


def _becomes_filters(op: DhloOp) -> bool:
    """Whether an op moves or takes elements, and all that reads them in the end are convolutions that take them as filters."""
    work, readers = [op], 0
    while work:
        move = work.pop()
        if not isinstance(move, Reshape | Slice | Transpose):
            return False
        for use in move.result.uses:
            user = use.operation
            if isinstance(user, Convolution | DirectConvolution) and use.index == 1:
                readers += 1
            elif isinstance(user, DhloOp):
                work.append(user)
            else:
                return False
    return readers > 0


def _is_known(value: SSAValue, arrays: ConstantStore | None) -> bool:
    owner = value.owner
    if not isinstance(owner, Weight):
        return isinstance(owner, Constant)
    name = owner.attribute("name")
    return arrays is not None and (name in arrays or arrays.is_live(name))


def _is_static(op: DhloOp) -> bool:
    sizes = [size for value in (*op.operands, *op.results) for size in sizes_of(value.type)]
    sizes += [
        size for attribute in op.attributes.values() if isinstance(attribute, DimsAttr) for size in attribute.data
    ]
    return all(size.is_constant for size in sizes)


def _bytes(value: SSAValue) -> int:
    """Bytes of a value of static sizes."""
    return numel(sizes_of(value.type)).value * dtype_of(value.type).numpy.itemsize


def _fold_splat(op: Elementwise, rewriter: PatternRewriter) -> Rewritten | None:
    """f(constant, …) -> constant, for an elementwise f, whatever the sizes."""
    scalars = [np.array(owner.attribute("value"), owner.result_dtype.numpy) for owner in _constants(op)]
    (result,) = op.reference(*scalars, env={})
    constant = _constant(rewriter, result.item(), op.result)
    return None if constant is None else Rewritten("f(constant) -> constant", (constant,))


def _constants(op: DhloOp) -> list[Constant]:
    return [owner for value in op.operands if isinstance(owner := value.owner, Constant)]


def _constant(rewriter: PatternRewriter, value: Any, like: SSAValue) -> SSAValue | None:
    """`value` at every point of a tensor of the type of `like`; None where an attribute cannot hold it."""
    dtype = dtype_of(like.type)
    typed = float(value) if dtype.is_float else int(value)
    if not dtype.is_float and typed not in INTEGERS:
        return None
    return Constant.emit(rewriter, value=typed, dtype=dtype, sizes=sizes_of(like.type))


def _fold_arrays(op: DhloOp, rewriter: PatternRewriter, arrays: ConstantStore | None) -> Rewritten | None:
    """f(weight, constant, …) -> weight, or constant where all elements are the same bits."""
    if arrays is not None and _live_operands(op, arrays):
        return _fold_live(op, rewriter, arrays)
    operands = [_array_of(value, arrays) for value in op.operands]
    values: list[SSAValue] = []
    for array, result in zip(op.reference(*operands, env={}), op.results, strict=True):
        value = _constant(rewriter, array.flat[0].item(), result) if _is_uniform(array) else None
        if value is None:
            if arrays is None:
                return None
            value = rewriter.insert(Weight.of_array(array, arrays)).result
        values.append(value)
    return Rewritten("f(weights) -> weight", values)


def _live_operands(op: DhloOp, arrays: ConstantStore) -> list[str]:
    weights = [value.owner for value in op.operands if isinstance(value.owner, Weight)]
    return [name for weight in weights if arrays.is_live(name := weight.attribute("name"))]


def _fold_live(op: DhloOp, rewriter: PatternRewriter, arrays: ConstantStore) -> Rewritten | None:
    """f(live weight, …) -> a weight that is computed again when they change.

    What only moves elements is left to the kernels that read it, as is all that may not be copied.
    """
    if isinstance(op, MOVES) or not all(map(arrays.may_copy, _live_operands(op, arrays))):
        return None
    values: list[SSAValue] = []
    for index, result in enumerate(op.results):
        recipe = OpRecipe.of(op, index)
        name = arrays.derive(recipe.name, recipe)
        weight = Weight.of(name=name, dtype=dtype_of(result.type), sizes=sizes_of(result.type))
        values.append(rewriter.insert(weight).result)
    return Rewritten("f(live weights) -> live weight", values)


def _is_uniform(array: Array) -> bool:
    return array.size > 0 and array.tobytes() == array.flat[0].tobytes() * array.size


def _array_of(value: SSAValue, arrays: ConstantStore | None) -> Array:
    owner = value.owner
    if isinstance(owner, Weight):
        assert arrays is not None
        return arrays[owner.attribute("name")]
    assert isinstance(owner, Constant)
    (array,) = owner.reference(env={})
    return array
