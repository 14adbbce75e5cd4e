"""Invariants of kernel plans.

| invariant | why |
|---|---|
| one outermost op: `parallel`, `lanes` without reductions, `contract`, `attend` or `whole` | its points are divided among threads |
| a value is used after its definition, inside the regions where it is visible | xDSL does not check dominance |
| a buffer that is stored to is not loaded, scratch excepted | points run in any order |
| a store uses every variable of the axes around it (of scratch: of those inside its point) | points write different elements |
| a store is not inside a `dot`, nor in an epilogue | it runs once a point |
| scratch belongs to a parallel point or a prologue's row, or is a prologue's rows; one store writes it | a row is kept, not updated |
| a prologue stores to its rows only | a target may run it more than once for a row |
| a `prefix` is in a `loop`, or in `lanes` that a launch does not divide | it needs all points before its own, in order |
| `lanes` do not nest and hold no `parallel` | one axis is in vector lanes |
| every symbol of a size is one of the kernel's | a launch passes no other |
| other ops are `arith` or `math` without regions | emitters know no others |
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from xdsl.ir import Block, Operation, SSAValue
from xdsl.utils.exceptions import VerifyException

from anyshape.dialects.sizes import DimsAttr
from anyshape.dialects.tile.contract import ContractOp
from anyshape.dialects.tile.ops import (
    AttendOp,
    AxisOp,
    BufferType,
    CheckOp,
    DotOp,
    KernelOp,
    LanesOp,
    LoadOp,
    LoopOp,
    ParallelOp,
    ScratchOp,
    SizeOp,
    StoreOp,
    YieldOp,
)
from anyshape.dialects.tile.prefix import PrefixOp
from anyshape.dialects.tile.whole import WholeOp, is_inside_whole
from anyshape.support.errors import VerifyError
from anyshape.symbolic import Size

_TILE_OPS = (
    AttendOp,
    AxisOp,
    CheckOp,
    ContractOp,
    DotOp,
    LoadOp,
    ParallelOp,
    PrefixOp,
    ScratchOp,
    SizeOp,
    StoreOp,
    WholeOp,
    YieldOp,
)


def verify_kernel(kernel: KernelOp) -> None:
    """Raise VerifyError, with the op and its kernel, for the first invariant of the module's page that does not hold."""
    try:
        kernel.verify()
    except VerifyException as error:
        raise VerifyError(str(error), where=_name(kernel)) from error
    _verify_outermost(kernel)
    _verify_visible(kernel.body.block, set(kernel.body.block.args), kernel)
    _verify_buffers(kernel)
    symbols = set(kernel.symbol_names)
    for op in kernel.body.walk():
        if not is_inside_whole(op):
            _verify_op(op, kernel)
        for size in _sizes(op):
            if not size.symbols <= symbols:
                raise VerifyError("a size has a symbol that its kernel does not take", where=_where(op, kernel),
                                  got=size, expected=f"symbols among {', '.join(sorted(symbols)) or 'none'}")  # fmt: skip


def _name(kernel: KernelOp) -> str:
    return f"@{kernel.sym_name.data}"


def _where(op: Operation, kernel: KernelOp) -> str:
    return f"{op.name} in {_name(kernel)}"


def _verify_outermost(kernel: KernelOp) -> None:
    outermost = [op for op in kernel.body.block.ops if op.regions or isinstance(op, AttendOp | StoreOp)]
    allowed = len(outermost) == 1 and (
        isinstance(outermost[0], ParallelOp | ContractOp | AttendOp | WholeOp)
        or (isinstance(outermost[0], LanesOp) and not outermost[0].results)
    )
    if not allowed:
        raise VerifyError("a kernel has one outermost op", where=_name(kernel), got=[op.name for op in outermost],
                          expected="one parallel, lanes without reductions, contract, attend or whole")  # fmt: skip
    for op in kernel.body.walk():
        if isinstance(op, ContractOp | AttendOp | WholeOp) and op is not outermost[0]:
            raise VerifyError(
                "a claimable op is inside another op", where=_where(op, kernel), expected="the outermost op"
            )


def _verify_visible(block: Block, visible: set[SSAValue], kernel: KernelOp) -> None:
    visible = visible | set(block.args)
    for op in block.ops:
        for number, operand in enumerate(op.operands):
            if operand not in visible:
                raise VerifyError("an operand is not defined where it is used", where=_where(op, kernel),
                                  got=f"operand {number} of type {operand.type}", expected="an earlier value around the op")  # fmt: skip
        for region in op.regions:
            for inner in region.blocks:
                _verify_visible(inner, visible, kernel)
        visible.update(op.results)


def _verify_buffers(kernel: KernelOp) -> None:
    stores: dict[SSAValue, list[StoreOp]] = {}
    for op in kernel.body.walk():
        if isinstance(op, StoreOp):
            stores.setdefault(op.buffer, []).append(op)
    for op in kernel.body.walk():
        if isinstance(op, LoadOp) and op.buffer in stores and not isinstance(op.buffer.owner, ScratchOp):
            raise VerifyError("a buffer is both loaded and stored to", where=_where(op, kernel), got=op.buffer.type,
                              expected="different buffers, or scratch")  # fmt: skip
        if isinstance(op, ScratchOp) and len(stores.get(op.result, [])) != 1:
            raise VerifyError("a scratch is not written by exactly one store", where=_where(op, kernel),
                              got=f"{len(stores.get(op.result, []))} stores", expected="1")  # fmt: skip


def _verify_op(op: Operation, kernel: KernelOp) -> None:
    if op.dialect_name() == "tile":
        if not isinstance(op, _TILE_OPS):
            raise VerifyError("an op cannot stand inside a kernel", where=_where(op, kernel))
    elif op.dialect_name() not in ("arith", "math") or op.regions or len(op.results) != 1:
        raise VerifyError("an op is no scalar arithmetic", where=_where(op, kernel), expected="arith, math or tile ops")
    around = list(_around(op))
    match op:
        case LanesOp() if any(isinstance(outer, LanesOp) for outer in around):
            raise VerifyError("lanes are nested", where=_where(op, kernel), expected="one lane axis around a point")
        case ParallelOp() if any(isinstance(outer, LanesOp) for outer in around):
            raise VerifyError("parallel points are inside lanes", where=_where(op, kernel), expected="parallel outside")
        case ScratchOp() if not _belongs_to_a_row(op):
            raise VerifyError("a scratch belongs to no parallel point", where=_where(op, kernel),
                              expected="an op directly inside tile.parallel or a prologue, or a prologue's rows")  # fmt: skip
        case PrefixOp() if isinstance(around[0], LanesOp) and len(around) == 1:
            raise VerifyError("a prefix is in lanes that a launch divides", where=_where(op, kernel),
                              expected="lanes inside tile.parallel, or a tile.loop")  # fmt: skip
        case StoreOp():
            _verify_store(op, around, kernel)
        case _:
            pass


def _belongs_to_a_row(op: ScratchOp) -> bool:
    """Whether a scratch is of one parallel point or one row of a prologue, or is the rows of a prologue."""
    match op.parent_op():
        case ParallelOp():
            return True
        case ContractOp() as outer:
            return outer.prologue is not None and op.parent is outer.prologue.block
        case _:
            return any(isinstance(use.operation, ContractOp) for use in op.result.uses)


def _around(op: Operation) -> Iterator[Operation]:
    """The ops around an op inside its kernel, innermost first."""
    outer = op.parent_op()
    while outer is not None and not isinstance(outer, KernelOp):
        yield outer
        outer = outer.parent_op()


def _verify_store(op: StoreOp, around: list[Operation], kernel: KernelOp) -> None:
    prologue = next((outer for outer in around if isinstance(outer, ContractOp) and _in_prologue(op, outer)), None)
    if any(isinstance(outer, DotOp | ContractOp) and outer is not prologue for outer in around):
        raise VerifyError("a store is inside a product", where=_where(op, kernel), expected="a store beside it")
    owner = op.buffer.owner
    if prologue is not None and not isinstance(owner, ScratchOp):
        raise VerifyError("a prologue stores to a buffer of the kernel", where=_where(op, kernel), got=op.buffer.type,
                          expected="a store to scratch")  # fmt: skip
    needed: set[SSAValue] = set()
    for outer in around:
        if outer is owner.parent_op() and isinstance(owner, ScratchOp):
            break
        needed |= _variables(outer)
    missing = needed - _origins(op.indices)
    if missing:
        indices = sorted(f"argument {value.index} of {outer.name}" for outer in around for region in outer.regions
                         for value in region.block.args if value in missing)  # fmt: skip
        raise VerifyError("a store does not use every variable around it, so points would write the same element",
                          where=_where(op, kernel), got=f"no use of {', '.join(indices)}",
                          expected="indices that use all of them")  # fmt: skip


def _in_prologue(op: Operation, product: ContractOp) -> bool:
    return product.prologue is not None and product.prologue.is_ancestor(op)


def _variables(op: Operation) -> set[SSAValue]:
    """Variables of an axis, or of the rows of a prologue, that take more than one value."""
    match op:
        case ParallelOp():
            return {index for index, extent in zip(op.indices, op.extents.data, strict=True) if extent != Size.const(1)}
        case ContractOp() if op.prologue is not None:
            pairs = zip(op.prologue.block.args, op.rows, strict=True)
            return {index for index, extent in pairs if extent != Size.const(1)}
        case LanesOp() | LoopOp() if op.size != Size.const(1):
            return {op.index}
        case _:
            return set()


def _origins(values: Iterable[SSAValue]) -> set[SSAValue]:
    """The block arguments that values are computed from, loads included."""
    found: set[SSAValue] = set()
    pending = list(values)
    seen: set[SSAValue] = set()
    while pending:
        value = pending.pop()
        if value in seen:
            continue
        seen.add(value)
        if isinstance(value.owner, Block):
            found.add(value)
        else:
            pending.extend(value.owner.operands)
    return found


def _sizes(op: Operation) -> Iterator[Size]:
    """Sizes that an op names, in its properties and in the types of its buffers."""
    for attribute in op.properties.values():
        if isinstance(attribute, DimsAttr):
            yield from attribute.data
    for value in (*op.operands, *op.results):
        if isinstance(value.type, BufferType):
            yield from value.type.sizes.data
            yield from value.type.strides.data


__all__ = ["verify_kernel"]
