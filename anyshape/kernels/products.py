"""Plans of products: `dot_general` with what surrounds it, as one claimable `tile.contract`.

The product is brought to out[g…, i, j] = Σ_k lhs[g…, i, k] · rhs[g…, k, j]: free axes of each side are merged into one, batch
axes stay. A constant right-hand side is handed over packed in panels.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from xdsl.ir import Block, Operation, SSAValue

from anyshape.dialects import tile
from anyshape.dialects.dhlo import DotGeneral
from anyshape.dialects.dhlo.fusion import YieldOp
from anyshape.dialects.dhlo.movement import delinearise
from anyshape.dialects.dtypes import BF16, F16, F32, F64, I8, I32
from anyshape.dialects.sizes import dtype_of, numel, sizes_of
from anyshape.dialects.tile import BufferType, ContractOp, KernelOp, buffer, factors_name
from anyshape.fusion.layout import ZERO, Matrices, can_multiply, layout_of, matrices_of
from anyshape.kernels.canonical import CanonicalGroup
from anyshape.kernels.collapse import Axis, Collapsed, collapse
from anyshape.kernels.points import At, PlanPoints
from anyshape.symbolic import Size

TILED = (F32, F64, F16, BF16)
"""Element types of factors that targets have register tiles for, beside i8 with sums in i32."""
MIXED = ((F32, BF16, F32), (F32, F16, F32))
"""(lhs, rhs, result) that differ and have register tiles."""


@dataclass(frozen=True)
class PackedOperand:
    """A constant right-hand side as a k × n matrix: strides in elements of the array as it was.

    `factors` (`ContractOp.factors`) are the element types of the product, which say in what form its panels are.
    """

    k: int
    n: int
    k_stride: int
    n_stride: int
    factors: str


def has_product_kernel(group: CanonicalGroup) -> bool:
    """Whether targets have register tiles for the product's element type; others are loops of `tile.dot`."""
    dot = next(op for op in group.block.ops if isinstance(op, DotGeneral))
    lhs, rhs, result = dot.operand_dtype(0), dot.operand_dtype(1), dot.result_dtype
    tiled = lhs == rhs and (lhs in TILED or (lhs, result) == (I8, I32))
    return can_multiply(dot) is None and (tiled or (lhs, rhs, result) in MIXED)


def plan_product(
    group: CanonicalGroup, name: str, constant_inputs: frozenset[int]
) -> tuple[KernelOp, Mapping[int, PackedOperand], tuple[int, ...], dict[int, Size]]:
    """The kernel of a product with its epilogue, the input buffer that it takes packed, which group input each of its
    input buffers is, and at which element of it those start that are a part.
    """
    block = group.block
    dot = next(op for op in block.ops if isinstance(op, DotGeneral))
    matrices = matrices_of(dot)
    lhs, rhs = layout_of(dot.operands[0]), layout_of(dot.operands[1])
    position: dict[SSAValue, int] = {argument: index for index, argument in enumerate(block.args)}
    factors = factors_name(*(str(dtype_of(side.root.type).scalar) for side in (lhs, rhs)))
    packed = _packed(matrices, factors, position[rhs.root] in constant_inputs and rhs.offset == ZERO)
    epilogue, others = _epilogue_of(block, dot)

    (result,) = epilogue.results
    rhs_sizes = _panel_sizes(packed) if packed else [*matrices.batch, matrices.k, matrices.n]
    types: list[BufferType] = [
        buffer(dtype_of(lhs.root.type).scalar, [*matrices.batch, matrices.m, matrices.k], matrices.lhs),
        buffer(dtype_of(rhs.root.type).scalar, rhs_sizes, None if packed else matrices.rhs),
        *(buffer(dtype_of(value.type).scalar, sizes_of(value.type)) for value in epilogue.block.args[1:]),
        buffer(dtype_of(result.type).scalar, [*matrices.batch, matrices.m, matrices.n]),
    ]
    kernel = KernelOp(name, group.names, types)
    arguments = kernel.body.block.args
    contract = ContractOp(
        arguments[0],
        arguments[1],
        arguments[-1],
        matrices.batch,
        (matrices.m, matrices.n, matrices.k),
        dtype_of(dot.result.type).scalar,
        packed=packed is not None,
    )
    kernel.body.block.add_op(contract)
    points = PlanPoints(dict(zip(epilogue.block.args[1:], arguments[2:-1], strict=True)), {})
    _fill_epilogue(points, contract, epilogue, matrices)
    order = (position[lhs.root], position[rhs.root], *(position[value] for value in others))
    offsets = {index: side.offset for index, side in enumerate((lhs, rhs)) if side.offset != ZERO}
    return kernel, {} if packed is None else {1: packed}, order, offsets


def _packed(matrices: Matrices, factors: str, constant: bool) -> PackedOperand | None:
    """The packing of a constant right-hand side; None when it is no constant, or one for each batch point."""
    numbers = (matrices.k, matrices.n, matrices.rhs[-2], matrices.rhs[-1])
    if not constant or matrices.batch or not all(number.is_constant for number in numbers):
        return None
    k, n, k_stride, n_stride = (number.value for number in numbers)
    return PackedOperand(k, n, k_stride, n_stride, factors)


def _panel_sizes(packed: PackedOperand) -> list[int]:
    return [-(-packed.n // ContractOp.PANEL), packed.k, ContractOp.PANEL]


def _epilogue_of(block: Block, dot: DotGeneral) -> tuple[Collapsed, list[SSAValue]]:
    """What follows the product, as a block whose first argument is the product, with the other arguments it reads."""
    needed: dict[Operation, None] = {}
    work = [value.owner for value in Collapsed(block).results]
    while work:
        op = work.pop()
        if isinstance(op, Operation) and op is not dot and op not in needed:
            needed[op] = None
            work.extend(value.owner for value in op.operands)
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
    batch = len(dot.attribute("lhs_batch"))
    rows = len(dot.operand_sizes(0)) - batch - len(dot.attribute("lhs_contract"))
    labels = [*range(2, 2 + batch), *[0] * rows, *[1] * (len(dot.result_sizes) - batch - rows)]
    apart: dict[Axis, int] = {(after.args[0], axis): label for axis, label in enumerate(labels)}
    return collapse(after, apart), others


def _fill_epilogue(points: PlanPoints, contract: ContractOp, epilogue: Collapsed, matrices: Matrices) -> None:
    """Build the region: the result's element at the batch indices, i and j, given the product's."""
    block = contract.epilogue.block
    *indices, accumulator = block.args
    (result,) = epilogue.results
    with points.scope(block):
        points.given[epilogue.block.args[0]] = accumulator
        at = _spread(points, list(indices), [*matrices.batch, matrices.m, matrices.n], sizes_of(result.type))
        points.append(tile.YieldOp(points.evaluate(result, at)))


def _spread(points: PlanPoints, indices: list[SSAValue], extents: list[Size], sizes: tuple[Size, ...]) -> At:
    """Index values of axes `sizes` from those of the coarser axes `extents`, both covering the same points in order."""
    at: list[SSAValue] = []
    rest = list(sizes)
    for index, extent in zip(indices, extents, strict=True):
        if extent == Size.const(1):
            continue
        run: list[Size] = []
        while numel(run) != extent:
            if not rest:
                raise ValueError(f"axes {list(map(str, sizes))} do not make up {list(map(str, extents))}")
            run.append(rest.pop(0))
        at.extend(delinearise(points, index, run))
    return tuple(at)
