"""Plans of products with block-quantised weights: `quantised_dot` with what follows it, as one claimable `tile.contract`."""

from __future__ import annotations

from collections.abc import Mapping

from xdsl.dialects.builtin import IntegerType
from xdsl.ir import SSAValue

from anyshape.dialects.dhlo import QuantisedDot
from anyshape.dialects.packed_blocks import PackedBlocks
from anyshape.dialects.sizes import dtype_of, sizes_of
from anyshape.dialects.tile import BufferType, ContractOp, KernelOp, buffer
from anyshape.fusion.layout import ZERO, left_matrix_of
from anyshape.kernels.canonical import CanonicalGroup
from anyshape.kernels.points import PlanPoints
from anyshape.kernels.products import epilogue_of, fill_epilogue
from anyshape.symbolic import Size

_BYTE = IntegerType(8)


def quantised_dot_of(group: CanonicalGroup) -> QuantisedDot | None:
    """The quantised product that a group is built around, if it is one."""
    return next((op for op in group.block.ops if isinstance(op, QuantisedDot)), None)


def plan_quantised(
    group: CanonicalGroup, dot: QuantisedDot, name: str, activations: str
) -> tuple[KernelOp, Mapping[int, PackedBlocks], tuple[int, ...], dict[int, Size]]:
    """The kernel of a product with its epilogue, the input buffer that it takes packed, which group input each of its input
    buffers is, and at which element of it the left-hand side starts where that is a part.

    Args:
        dot: the product.
        activations: integers that the left-hand side is rounded to, `int16` or `int8`.
    """
    block = group.block
    lhs, m, k, strides = left_matrix_of(dot)
    (n, _), weights = dot.operand_sizes(1), dot.operands[1]
    packed = PackedBlocks(n.value, k.value, dot.block_format.name)
    position: dict[SSAValue, int] = {argument: index for index, argument in enumerate(block.args)}
    epilogue, others = epilogue_of(block, dot, 0, len(dot.operand_sizes()) - 1)
    (result,) = epilogue.results
    types: list[BufferType] = [
        buffer(dtype_of(lhs.root.type).scalar, [m, k], strides),
        buffer(_BYTE, packed.shape),
        *(buffer(dtype_of(value.type).scalar, sizes_of(value.type)) for value in epilogue.block.args[1:]),
        buffer(dtype_of(result.type).scalar, [m, n]),
    ]
    kernel = KernelOp(name, group.names, types)
    arguments = kernel.body.block.args
    contract = ContractOp(
        arguments[0], arguments[1], arguments[-1], [], (m, n, k), dtype_of(dot.result.type).scalar,
        blocks=packed.format, activations=activations,
    )  # fmt: skip
    kernel.body.block.add_op(contract)
    points = PlanPoints(dict(zip(epilogue.block.args[1:], arguments[2:-1], strict=True)), {})
    fill_epilogue(points, contract.epilogue.block, epilogue, [m, n])
    order = (position[lhs.root], position[weights], *(position[value] for value in others))
    return kernel, {1: packed}, order, {} if lhs.offset == ZERO else {0: lhs.offset}


__all__ = ["plan_quantised", "quantised_dot_of"]
