"""Plans of products with block-quantised weights: `quantised_dot` with what follows it, as one claimable `tile.contract`."""

from __future__ import annotations

from collections.abc import Mapping

from xdsl.dialects.builtin import IntegerType
from xdsl.ir import Block, Operation, SSAValue

from anyshape.dialects.dhlo import QuantisedDot
from anyshape.dialects.packed_blocks import PackedBlocks
from anyshape.dialects.sizes import dtype_of
from anyshape.dialects.tile import BufferType, ContractOp, KernelOp, ScratchOp, buffer
from anyshape.fusion.layout import ZERO, layout_of, product_matrices_of
from anyshape.kernels.canonical import CanonicalGroup
from anyshape.kernels.points import PlanPoints
from anyshape.kernels.products import ProductPlan, buffers_of, epilogue_of, fill_epilogue
from anyshape.kernels.prologues import fill_prologue, rows_of

_BYTE = IntegerType(8)


def quantised_dot_of(group: CanonicalGroup) -> QuantisedDot | None:
    """The quantised product that a group is built around, if it is one."""
    return next((op for op in group.block.ops if isinstance(op, QuantisedDot)), None)


def plan_quantised(
    group: CanonicalGroup, dot: QuantisedDot, name: str, activations: str, sites: Mapping[Operation, int]
) -> ProductPlan:
    """The plan of a product: buffers are those of the left factor (or of what computes it), the weights packed, and what follows reads.

    Args:
        dot: the product.
        activations: integers that the left-hand side is rounded to, `int16` or `int8`.
        sites: the error site of ops of the group that check indices.
    """
    block = group.block
    matrices, lhs, weights = product_matrices_of(dot), layout_of(dot.operands[0]), dot.operands[1]
    m, n, k = matrices.m, matrices.n, matrices.k
    rows = None if isinstance(lhs.root.owner, Block) else rows_of(block, lhs.root, matrices, sites)
    packed = PackedBlocks(n.value, k.value, dot.block_format.name)
    position: dict[SSAValue, int] = {argument: index for index, argument in enumerate(block.args)}
    epilogue, others = epilogue_of(block, dot, 0, len(dot.operand_sizes()) - 1)
    (result,) = epilogue.results
    left = buffer(dtype_of(lhs.root.type).scalar, [m, k], matrices.lhs if rows is None else None)
    first: list[BufferType] = [left] if rows is None else buffers_of(rows.collapsed.block.args)
    types: list[BufferType] = [
        *first,
        buffer(_BYTE, packed.shape),
        *buffers_of(epilogue.block.args[1:]),
        buffer(dtype_of(result.type).scalar, [m, n]),
    ]
    kernel = KernelOp(name, group.names, types)
    arguments, right = kernel.body.block.args, len(first)
    scratch = None if rows is None else ScratchOp(left.element_type, left.sizes.data)
    if scratch is not None:
        kernel.body.block.add_op(scratch)
    contract = ContractOp(
        arguments[0] if scratch is None else scratch.result, arguments[right], arguments[-1], [], (m, n, k),
        dtype_of(dot.result.type).scalar, prologue=rows is not None, blocks=packed.format, activations=activations,
    )  # fmt: skip
    kernel.body.block.add_op(contract)
    points = PlanPoints(dict(zip(epilogue.block.args[1:], arguments[right + 1 : -1], strict=True)), {})
    fill_epilogue(points, contract.epilogue.block, epilogue, [m, n])
    if rows is not None:
        fill_prologue(contract, rows, arguments[:right], matrices)
    sources = [*([lhs.root] if rows is None else rows.arguments), weights, *others]
    return ProductPlan(
        kernel,
        tuple(position[value] for value in sources),
        {right: packed},
        {} if lhs.offset == ZERO else {0: lhs.offset},
    )


__all__ = ["plan_quantised", "quantised_dot_of"]
