"""Which code a kernel has for which sizes: what its function decides at each launch.

Every kernel is one function. Where the best code depends on sizes that are known at a call only, the function holds all of it and
branches; this page says so in words, for reports.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from xdsl.dialects import arith
from xdsl.ir import Operation, SSAValue

from anyshape.codegen.attend import reads_in_place
from anyshape.codegen.attend.driver import DIRECT_QUERIES
from anyshape.codegen.contract.driver import DIRECT_ROWS
from anyshape.codegen.points.schedule import Schedule, invariant_ops, nested_ops
from anyshape.codegen.points.versions import open_axes
from anyshape.codegen.quantised import BlockShape, shape_of
from anyshape.codegen.tiles.shape import MAX_ROWS, tile_shape
from anyshape.dialects.packed_blocks import PANEL_ROWS
from anyshape.dialects.packed_panels import PANEL
from anyshape.dialects.tile import AttendOp, ContractOp, KernelOp, LanesOp, SizeOp, WholeOp, buffer_of
from anyshape.support.machine import Machine
from anyshape.symbolic import Size

ALWAYS = "at any size"
OTHERWISE = "otherwise"

_SIGNS = dict(enumerate(("==", "!=", "<", "<=", ">", ">=", "<", "<=", ">", ">=")))
"""Signs of `arith.cmpi`, by its numbers."""
_OPPOSITES = {"==": "!=", "!=": "==", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}


@dataclass(frozen=True)
class Variant:
    """A part of a kernel's code.

    Attributes:
        predicate: the sizes that it is for; the first that holds decides.
        code: what it does.
    """

    predicate: str
    code: str


def variants_of(kernel: KernelOp, machine: Machine, names: Mapping[str, Size]) -> list[Variant]:
    """The variants of a kernel, in the order in which they are tried.

    Args:
        kernel: the plan.
        machine: what its code is made for.
        names: what the kernel's size symbols are called.
    """
    outermost = kernel.body.block.last_op
    if isinstance(outermost, ContractOp):
        return _of_product(outermost, machine, names)
    if isinstance(outermost, AttendOp):
        return _of_attention(outermost, names)
    if isinstance(outermost, WholeOp):
        return [Variant(ALWAYS, f"the kernel of {outermost.op.name}")]
    return _of_loops(kernel, machine, names)


def _of_product(op: ContractOp, machine: Machine, names: Mapping[str, Size]) -> list[Variant]:
    rows = op.extents.data[0].substitute(names)
    if op.blocks is not None:
        return _of_blocks(shape_of(op, machine))
    shape = tile_shape(op.factors, machine)
    tiles = f"register tiles of up to {MAX_ROWS} rows × {shape.columns(MAX_ROWS)} columns"
    if op.packed is not None:
        return [Variant(ALWAYS, f"{tiles}, over panels that were packed with the weights")]
    if op.window is not None:
        return [Variant(ALWAYS, f"gathers panels of {PANEL} windows, then {tiles}")]
    packing = f"packs panels of {PANEL} columns of the right-hand side, then {tiles}"
    if not shape.is_wide:
        return [Variant(ALWAYS, packing)]
    depth_stride, column_stride = (stride.constant_or(None) for stride in buffer_of(op.rhs).strides.data[-2:])
    found: list[Variant] = []
    if column_stride == 1:
        found.append(
            Variant(f"{rows} <= {DIRECT_ROWS}", f"{tiles}; full panels of the right-hand side are read where they lie")
        )
    if depth_stride == 1:
        found.append(Variant(f"{rows} == 1", "dot products along adjacent elements"))
    found = [variant for variant in found if _may_hold(rows, variant)]
    return [*found, Variant(OTHERWISE if found else ALWAYS, packing)]


def _of_blocks(shape: BlockShape) -> list[Variant]:
    rounded = f"rows rounded to {shape.activations} ({shape.method})"
    tiles = f"register tiles of up to {shape.max_rows} rows × {PANEL_ROWS} columns over blocks of {shape.layout.format}"
    return [Variant(ALWAYS, f"{rounded}, then {tiles}")]


def _may_hold(rows: Size, variant: Variant) -> bool:
    return not rows.is_constant or rows.value <= (1 if "==" in variant.predicate else DIRECT_ROWS)


def _of_attention(op: AttendOp, names: Mapping[str, Size]) -> list[Variant]:
    queries = op.extents.data[3].substitute(names)
    packing = Variant(
        OTHERWISE, "packs keys and values in panels, chunk by chunk, with an online softmax between chunks"
    )
    if not reads_in_place(op):
        return [Variant(ALWAYS, packing.code)]
    return [Variant(f"{queries} <= {DIRECT_QUERIES}", "reads keys and values where they lie"), packing]


def _of_loops(kernel: KernelOp, machine: Machine, names: Mapping[str, Size]) -> list[Variant]:
    lanes = [op for op in nested_ops(kernel.body.block) if isinstance(op, LanesOp)]
    conditions: dict[str, None] = {}
    for op in lanes:
        block = op.body.block
        for axis in open_axes(block, op.index, invariant_ops(block, (op.index,))):
            conditions[_condition_text(axis.select.cond, names, holds=axis.lane_if_true)] = None
    width = max((Schedule(machine).width(list(nested_ops(op.body.block))) for op in lanes), default=1)
    code = f"vectors of {width} lanes, the last ones masked" if lanes else "one point at a time"
    if not conditions:
        return [Variant(ALWAYS, code)]
    return [
        Variant(" and ".join(conditions), f"{code}; every operand is read along the axis"),
        Variant(OTHERWISE, f"{code}; operands of size 1 are read once"),
    ]


def _condition_text(condition: SSAValue, names: Mapping[str, Size], *, holds: bool) -> str:
    """The condition, or its opposite, in words."""
    owner = condition.owner
    if isinstance(owner, arith.CmpiOp):
        sides = [_number_text(side.owner, names) for side in (owner.lhs, owner.rhs)]
        if all(sides):
            sign = _SIGNS[owner.predicate.value.data]
            return f"{sides[0]} {sign if holds else _OPPOSITES[sign]} {sides[1]}"
    return "axes that may be 1 are longer"


def _number_text(owner: object, names: Mapping[str, Size]) -> str:
    match owner:
        case SizeOp():
            return str(owner.expression.substitute(names))
        case Operation() if isinstance(owner, arith.ConstantOp):
            return str(owner.value).partition(" ")[0]
        case _:
            return ""


__all__ = ["ALWAYS", "OTHERWISE", "Variant", "variants_of"]
