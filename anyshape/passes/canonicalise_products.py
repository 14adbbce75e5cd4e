"""`canonicalise-products`: every factor of a product becomes a matrix in memory, free axes together and summed axes together.

A weight of 16 bits or of signed bytes is a factor as it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from xdsl.builder import Builder
from xdsl.context import Context
from xdsl.ir import SSAValue
from xdsl.pattern_rewriter import PatternRewriter

from anyshape.dialects.dhlo import (
    ConstantStore,
    Convert,
    Dequantize,
    DhloOp,
    DotGeneral,
    QuantisedDot,
    Reshape,
    Transpose,
    Weight,
)
from anyshape.dialects.dtypes import BF16, F16, F32, I8
from anyshape.dialects.sizes import sizes_of
from anyshape.passes.context import store_of
from anyshape.passes.worklist import Rewrite, RewritePass, Rewritten
from anyshape.symbolic import Facts, Size

ONE = Size.const(1)


@dataclass(frozen=True)
class CanonicaliseProductsPass(RewritePass):
    """Transposes factors of `dot_general` whose free axes, or whose contracted axes, are not neighbours in order.

    lhs[i, k, j] · rhs[k] over k  ->  transpose(lhs, [i, j, k]) · rhs over k. Contracted axes are a set of pairs, so their order is
    first chosen such that nothing need move. Batch axes may lie anywhere: kernels step along each of them alone.

    lhs · convert(weight)  ->  lhs · weight, where the weight has 16 bits or signed bytes and both lhs and the conversion are f32: kernels
    widen it in registers, and its panels take half or a quarter of the memory.

    lhs · dequantize(weight)ᵀ  ->  quantised_dot(lhs, weight), over the last axis of lhs: kernels multiply blocks as they are stored. Live
    weights of which no packed form may be kept are decoded.
    """

    name = "canonicalise-products"

    def rewrite_with(self, ctx: Context, facts: Facts) -> Rewrite:
        store = store_of(ctx)

        def rewrite(op: DhloOp, rewriter: PatternRewriter) -> Rewritten | None:
            quantised = _quantised_product(op, store, rewriter) if isinstance(op, DotGeneral) else None
            if quantised is not None:
                return Rewritten("product of quantised weights", (quantised,))
            return canonicalise_product(op, rewriter)

        return rewrite


@dataclass(frozen=True)
class _Factor:
    value: SSAValue
    batch: tuple[int, ...]
    free: tuple[int, ...]
    contract: tuple[int, ...]

    def is_matrix(self) -> bool:
        return self.is_run(self.free) and self.is_run(self.contract)

    def is_run(self, axes: Sequence[int]) -> bool:
        """Whether these axes, but those of size 1, are neighbours in this order."""
        real = [axis for axis, size in enumerate(sizes_of(self.value.type)) if size != ONE]
        positions = [real.index(axis) for axis in axes if axis in real]
        return all(after == before + 1 for before, after in pairwise(positions))

    def contracted_in(self, order: Sequence[int]) -> _Factor:
        return _Factor(self.value, self.batch, self.free, tuple(self.contract[pair] for pair in order))

    def as_matrix(self, builder: Builder) -> _Factor:
        """The factor with axes [batch…, free…, contract…] where it is no matrix as it stands."""
        if self.is_matrix():
            return self
        value = Transpose.emit(builder, self.value, permutation=(*self.batch, *self.free, *self.contract))
        ends = (0, len(self.batch), len(self.batch) + len(self.free), len(sizes_of(self.value.type)))
        batch, free, contract = (tuple(range(a, b)) for a, b in pairwise(ends))
        return _Factor(value, batch, free, contract)


def canonicalise_product(op: DhloOp, rewriter: PatternRewriter) -> Rewritten | None:
    """The same product of matrices; None where both factors are matrices already."""
    if not isinstance(op, DotGeneral):
        return None
    narrow = None if op.operand_dtype(0) != F32 else narrow_weight(op.operands[1], rewriter)
    if narrow is not None:
        lhs, rhs = _factor(op, 0, "lhs"), replace(_factor(op, 1, "rhs"), value=narrow)
        return Rewritten("product of a narrow weight", (_product(op, lhs, rhs, rewriter),))
    factors = [_factor(op, index, side) for index, side in enumerate(("lhs", "rhs"))]
    if all(factor.is_matrix() for factor in factors):
        return None
    order = _best_order(factors)
    lhs, rhs = (factor.contracted_in(order).as_matrix(rewriter) for factor in factors)
    return Rewritten("product of strided matrices", (_product(op, lhs, rhs, rewriter),))


def _product(op: DotGeneral, lhs: _Factor, rhs: _Factor, builder: Builder) -> SSAValue:
    return DotGeneral.emit(
        builder, lhs.value, rhs.value,
        lhs_batch=lhs.batch, rhs_batch=rhs.batch, lhs_contract=lhs.contract, rhs_contract=rhs.contract,
        dtype=op.attribute("dtype"),
    )  # fmt: skip


def narrow_weight(value: SSAValue, builder: Builder) -> SSAValue | None:
    """A weight of 16 bits or signed bytes whose conversion to f32 is `value`, through transposes and reshapes, then of the weight."""
    op = value.owner
    match op:
        case Convert() if isinstance(op.operands[0].owner, Weight) and op.operand_dtype() in (BF16, F16, I8):
            return op.operands[0] if op.result_dtype == F32 else None
        case Transpose():
            source = narrow_weight(op.operands[0], builder)
            return None if source is None else Transpose.emit(builder, source, permutation=op.attribute("permutation"))
        case Reshape():
            source = narrow_weight(op.operands[0], builder)
            return None if source is None else Reshape.emit(builder, source, sizes=op.result_sizes)
        case _:
            return None


def _quantised_product(op: DotGeneral, store: ConstantStore | None, builder: Builder) -> SSAValue | None:
    """The product as one with blocks, where the right factor is decoded rows of a weight and each is multiplied as a whole."""
    rhs, contract = op.operands[1], op.integers("rhs_contract")
    if op.integers("lhs_batch") or len(contract) != 1:
        return None
    axis, turned = contract[0], rhs.owner
    if isinstance(turned, Transpose):
        rhs, axis = turned.operands[0], turned.integers("permutation")[axis]
    decoded = rhs.owner
    if not isinstance(decoded, Dequantize) or not isinstance(decoded.operands[0].owner, Weight):
        return None
    rank = len(op.operand_sizes())
    is_plain = len(decoded.operand_sizes()) == 2 and axis == 1 and op.integers("lhs_contract") == (rank - 1,)
    name = decoded.operands[0].owner.attribute("name")
    if (
        not is_plain
        or op.result_dtype != F32
        or op.operand_dtype(0) != F32
        or not (store is None or store.may_copy(name))
    ):
        return None
    return QuantisedDot.emit(builder, op.operands[0], decoded.operands[0], format=decoded.attribute("format"))


def _factor(op: DotGeneral, index: int, side: str) -> _Factor:
    return _Factor(
        op.operands[index], op.attribute(f"{side}_batch"), op.free_axes(index), op.attribute(f"{side}_contract")
    )


def _best_order(factors: Sequence[_Factor]) -> list[int]:
    """The order of the contracted pairs in which the fewest factors must be transposed: as written, or as they lie in one factor."""
    pairs = range(len(factors[0].contract))
    orders = [list(pairs), *(sorted(pairs, key=factor.contract.__getitem__) for factor in factors)]
    return min(orders, key=lambda order: sum(not factor.contracted_in(order).is_matrix() for factor in factors))
