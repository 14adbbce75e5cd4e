"""Plans of ops that are a kernel by themselves: one claimable `tile.whole`."""

from __future__ import annotations

from collections.abc import Mapping

from xdsl.ir import Operation, SSAValue

from anyshape.dialects.dhlo.whole import Whole
from anyshape.dialects.sizes import dtype_of, sizes_of
from anyshape.dialects.tile import KernelOp, buffer
from anyshape.dialects.tile.whole import WholeOp
from anyshape.kernels.canonical import CanonicalGroup


def plan_whole(group: CanonicalGroup, name: str, sites: Mapping[Operation, int]) -> tuple[KernelOp, tuple[int, ...]]:
    """The kernel, and which group input each of its input buffers is."""
    op = group.block.first_op
    assert isinstance(op, Whole), "a group of this kind has one op"
    values: list[SSAValue] = [*op.operands, *op.results]
    kernel = KernelOp(name, group.names, [buffer(dtype_of(each.type).scalar, sizes_of(each.type)) for each in values])
    kernel.body.block.add_op(WholeOp(kernel.body.block.args, op, sites.get(op)))
    arguments: list[SSAValue] = list(group.block.args)
    return kernel, tuple(arguments.index(operand) for operand in op.operands)


__all__ = ["plan_whole"]
