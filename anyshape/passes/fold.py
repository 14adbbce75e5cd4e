"""`fold`: what depends on constants only is computed now, by the ops' numpy references."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from xdsl.context import Context
from xdsl.ir import SSAValue
from xdsl.pattern_rewriter import PatternRewriter

from anyshape.dialects.dhlo import Array, Constant, ConstantStore, DhloOp, Elementwise, Weight
from anyshape.dialects.sizes import DimsAttr, dtype_of, numel, sizes_of
from anyshape.passes.context import store_of
from anyshape.passes.worklist import Rewrite, RewritePass, Rewritten
from anyshape.symbolic import Facts

INTEGERS = range(-(2**63), 2**63)
"""Values that an integer attribute of a constant holds."""


@dataclass(frozen=True)
class FoldPass(RewritePass):
    """Elementwise ops on scalars become constants, other ops on weights and constants of static sizes become weights.

    A result is kept only where the program does not grow: it has at most `limit` bytes, or, for elementwise ops, at most as many as
    the weights that go with it, which nobody else uses. Reductions and products of more than `limit` bytes are left to their kernels.

    Args:
        limit: bytes.
    """

    name = "fold"
    limit: int = 65536

    def rewrite_with(self, ctx: Context, facts: Facts) -> Rewrite:
        store = store_of(ctx)

        def rewrite(op: DhloOp, rewriter: PatternRewriter) -> Rewritten | None:
            if not op.operands or not all(isinstance(value.owner, Constant | Weight) for value in op.operands):
                return None
            folded = _fold_splat(op, rewriter)
            if folded is None and store is not None and self._is_worth(op, store):
                folded = _fold_arrays(op, rewriter, store)
            return folded

        return rewrite

    def _is_worth(self, op: DhloOp, store: ConstantStore) -> bool:
        if not _is_static(op) or any(isinstance(w, Weight) and w.attribute("name") not in store for w in _producers(op)):
            return False
        result_bytes = sum(_bytes(result) for result in op.results)
        if result_bytes <= self.limit and all(_bytes(operand) <= self.limit for operand in op.operands):
            return True
        freed = [value for value in op.operands if isinstance(value.owner, Weight) and value.has_one_use()]
        return isinstance(op, Elementwise) and result_bytes <= sum(map(_bytes, freed))


def _producers(op: DhloOp) -> list[object]:
    return [value.owner for value in op.operands]


def _is_static(op: DhloOp) -> bool:
    sizes = [size for value in (*op.operands, *op.results) for size in sizes_of(value.type)]
    sizes += [size for attribute in op.attributes.values() if isinstance(attribute, DimsAttr) for size in attribute.data]
    return all(size.is_constant for size in sizes)


def _bytes(value: SSAValue) -> int:
    """Bytes of a value of static sizes."""
    return numel(sizes_of(value.type)).value * dtype_of(value.type).numpy.itemsize


def _fold_splat(op: DhloOp, rewriter: PatternRewriter) -> Rewritten | None:
    """f(constant, …) -> constant, for an elementwise f, whatever the sizes."""
    constants = _producers(op)
    if not isinstance(op, Elementwise) or not all(isinstance(each, Constant) for each in constants):
        return None
    scalars = [np.array(each.attribute("value"), each.result_dtype.numpy) for each in constants if isinstance(each, Constant)]
    (result,) = op.reference(*scalars, env={})
    value = result.item()
    value = value if isinstance(value, bool | int | float) else float(value)
    if not op.result_dtype.is_float and int(value) not in INTEGERS:
        return None
    constant = Constant.emit(rewriter, value=value, dtype=op.result_dtype, sizes=op.result_sizes)
    return Rewritten("elementwise on constants -> constant", (constant,))


def _fold_arrays(op: DhloOp, rewriter: PatternRewriter, store: ConstantStore) -> Rewritten:
    operands = [_array_of(value, store) for value in op.operands]
    results = op.reference(*operands, env={})
    return Rewritten("op on weights -> weight", _weights(rewriter, results, store))


def _array_of(value: SSAValue, store: ConstantStore) -> Array:
    owner = value.owner
    if isinstance(owner, Weight):
        return store[owner.attribute("name")]
    assert isinstance(owner, Constant)
    (array,) = owner.reference(env={})
    return array


def _weights(rewriter: PatternRewriter, arrays: Sequence[Array], store: ConstantStore) -> list[SSAValue]:
    return [rewriter.insert(Weight.of_array(array, store)).result for array in arrays]
