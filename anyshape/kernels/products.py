"""Plans of products: `dot_general` with what surrounds it, as one claimable `tile.contract`.

The product is brought to out[g…, i, j] = Σ_k lhs[g…, i, k] · rhs[g…, k, j]: free axes of each side are merged into one, batch
axes stay. A constant right-hand side is handed over packed in panels.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from xdsl.ir import Block, Operation, SSAValue

from anyshape.dialects import tile
from anyshape.dialects.dhlo import DhloOp, DotGeneral
from anyshape.dialects.dhlo.fusion import YieldOp
from anyshape.dialects.dhlo.movement import delinearise
from anyshape.dialects.dtypes import BF16, F16, F32, F64, I8, I32
from anyshape.dialects.packed_blocks import PackedBlocks
from anyshape.dialects.packed_panels import PackedOperand
from anyshape.dialects.sizes import dtype_of, sizes_of
from anyshape.dialects.tile import BufferType, ContractOp, KernelOp, ScratchOp, buffer, factors_name
from anyshape.fusion.layout import (
    ZERO,
    Layout,
    Matrices,
    axes_of_extents,
    can_multiply,
    layout_of,
    matrices_of,
)
from anyshape.kernels.canonical import CanonicalGroup
from anyshape.kernels.collapse import Axis, Collapsed, collapse
from anyshape.kernels.points import At, PlanPoints
from anyshape.kernels.prologues import fill_prologue, rows_of
from anyshape.symbolic import Size

TILED = (F32, F64, F16, BF16)
"""Element types of factors that targets have register tiles for, beside i8 with sums in i32."""
MIXED = ((F32, BF16, F32), (F32, F16, F32), (F32, I8, F32))
"""(lhs, rhs, result) that differ and have register tiles."""


def has_product_kernel(group: CanonicalGroup) -> bool:
    """Whether targets have register tiles for the product's element type; others are loops of `tile.dot`."""
    dot = next(op for op in group.block.ops if isinstance(op, DotGeneral))
    return can_multiply(dot) is None and is_tiled(dot)


def is_tiled(dot: DotGeneral) -> bool:
    """Whether targets have register tiles for products of these elements."""
    lhs, rhs, result = dot.operand_dtype(0), dot.operand_dtype(1), dot.result_dtype
    return (lhs == rhs and (lhs in TILED or (lhs, result) == (I8, I32))) or (lhs, rhs, result) in MIXED


@dataclass(frozen=True)
class ProductPlan:
    """The kernel of a product with what surrounds it.

    Args:
        inputs: which group input each input buffer of the kernel is.
        packed: the input buffer that it takes packed.
        offsets: at which element of an input those start that are a part.
    """

    kernel: KernelOp
    inputs: tuple[int, ...]
    packed: Mapping[int, PackedOperand | PackedBlocks]
    offsets: Mapping[int, Size]


def plan_product(
    group: CanonicalGroup, name: str, constant_inputs: frozenset[int], sites: Mapping[Operation, int]
) -> ProductPlan:
    """The plan of a product: buffers are those of the left factor (or of what computes it), the right one, and what follows reads."""
    block = group.block
    dot = next(op for op in block.ops if isinstance(op, DotGeneral))
    matrices = matrices_of(dot)
    lhs, rhs = (layout_of(operand) for operand in dot.operands)
    rows = None if isinstance(lhs.root.owner, Block) else rows_of(block, lhs.root, matrices, sites)
    factors = factors_name(*(str(dtype_of(side.root.type).scalar) for side in (lhs, rhs)))
    position: dict[SSAValue, int] = {argument: index for index, argument in enumerate(block.args)}
    packed = _packed(matrices, factors, position[rhs.root] in constant_inputs and rhs.offset == ZERO)
    batch = len(matrices.batch)
    free = len(dot.operand_sizes(0)) - batch - len(dot.attribute("lhs_contract"))
    epilogue, others = epilogue_of(block, dot, batch, free)

    (result,) = epilogue.results
    left = _left_buffer(lhs, matrices)
    rhs_sizes = _panel_sizes(packed) if packed else [*matrices.batch, matrices.k, matrices.n]
    first: list[BufferType] = [left] if rows is None else buffers_of(rows.collapsed.block.args)
    types: list[BufferType] = [
        *first,
        buffer(dtype_of(rhs.root.type).scalar, rhs_sizes, None if packed else matrices.rhs),
        *buffers_of(epilogue.block.args[1:]),
        buffer(dtype_of(result.type).scalar, [*matrices.batch, matrices.m, matrices.n]),
    ]
    kernel = KernelOp(name, group.names, types)
    arguments = kernel.body.block.args
    right = len(first)
    if rows is not None:
        kernel.body.block.add_op(ScratchOp(left.element_type, left.sizes.data))
    contract = ContractOp(
        arguments[0] if kernel.body.block.last_op is None else kernel.body.block.last_op.results[0],
        arguments[right],
        arguments[-1],
        matrices.batch,
        (matrices.m, matrices.n, matrices.k),
        dtype_of(dot.result.type).scalar,
        packed=packed is not None,
        prologue=rows is not None,
    )
    kernel.body.block.add_op(contract)
    points = PlanPoints(dict(zip(epilogue.block.args[1:], arguments[right + 1 : -1], strict=True)), {})
    fill_epilogue(points, contract.epilogue.block, epilogue, [*matrices.batch, matrices.m, matrices.n])
    if rows is not None:
        fill_prologue(contract, rows, arguments[:right], matrices)
    sources = [*([lhs.root] if rows is None else rows.arguments), rhs.root, *others]
    offsets = {index: side.offset for index, side in ((0, lhs), (right, rhs)) if side.offset != ZERO}
    return ProductPlan(
        kernel, tuple(position[value] for value in sources), {} if packed is None else {right: packed}, offsets
    )


def _left_buffer(lhs: Layout, matrices: Matrices) -> BufferType:
    element = dtype_of(lhs.root.type).scalar
    sizes = [*matrices.batch, matrices.m, matrices.k]
    return buffer(element, sizes, matrices.lhs if isinstance(lhs.root.owner, Block) else None)


def buffers_of(values: Sequence[SSAValue]) -> list[BufferType]:
    """A row-major buffer for each value."""
    return [buffer(dtype_of(value.type).scalar, sizes_of(value.type)) for value in values]


def _packed(matrices: Matrices, factors: str, constant: bool) -> PackedOperand | None:
    """The packing of a constant right-hand side; None when it is no constant, or one for each batch point."""
    numbers = (matrices.k, matrices.n, matrices.rhs[-2], matrices.rhs[-1])
    if not constant or matrices.batch or not all(number.is_constant for number in numbers):
        return None
    k, n, k_stride, n_stride = (number.value for number in numbers)
    return PackedOperand(k, n, k_stride, n_stride, factors)


def _panel_sizes(packed: PackedOperand) -> list[int]:
    return [-(-packed.n // ContractOp.PANEL), packed.k, ContractOp.PANEL]


def epilogue_of(block: Block, dot: DhloOp, batch: int, rows: int) -> tuple[Collapsed, list[SSAValue]]:
    """What follows the product, as a block whose first argument is the product, with the other arguments it reads.

    The product has `batch` batch axes, then `rows` axes of rows, then those of columns.
    """
    needed = _operations_after(block, dot)
    others = list(
        dict.fromkeys(
            value for op in block.ops if op in needed for value in op.operands if isinstance(value.owner, Block)
        )
    )
    after = Block(arg_types=[dot.result.type, *(value.type for value in others)])
    inner: dict[SSAValue, SSAValue] = dict(zip([dot.result, *others], after.args, strict=True))
    for op in block.ops:
        if op in needed:
            after.add_op(op.clone(inner))
            assert after.last_op is not None
            inner.update(zip(op.results, after.last_op.results, strict=True))
    after.add_op(YieldOp(*(inner[value] for value in Collapsed(block).results)))
    labels = [*range(2, 2 + batch), *[0] * rows, *[1] * (len(dot.result_sizes) - batch - rows)]
    apart: dict[Axis, int] = {(after.args[0], axis): label for axis, label in enumerate(labels)}
    return collapse(after, apart), others


def _operations_after(block: Block, dot: DhloOp) -> set[Operation]:
    """What the results are computed by, the product and what it is computed by left out."""
    needed: set[Operation] = set()
    work = [value.owner for value in Collapsed(block).results]
    while work:
        op = work.pop()
        if isinstance(op, Operation) and op is not dot and op not in needed:
            needed.add(op)
            work.extend(value.owner for value in op.operands)
    return needed


def fill_epilogue(points: PlanPoints, block: Block, epilogue: Collapsed, extents: list[Size]) -> None:
    """Build the region: the result's element at the batch indices, i and j (axes of these extents), given the product's."""
    *indices, accumulator = block.args
    (result,) = epilogue.results
    with points.scope(block):
        points.given[epilogue.block.args[0]] = accumulator
        at = _spread(points, list(indices), extents, sizes_of(result.type))
        points.append(tile.YieldOp(points.evaluate(result, points.with_ones(result, at))))


def _spread(points: PlanPoints, indices: list[SSAValue], extents: list[Size], sizes: tuple[Size, ...]) -> At:
    """Index values of axes `sizes` from those of the coarser axes `extents`, both covering the same points in order."""
    at: list[SSAValue] = []
    for index, run in zip(indices, axes_of_extents(sizes, extents), strict=True):
        at.extend(delinearise(points, index, [sizes[axis] for axis in run]) if run else [])
    return tuple(at)
