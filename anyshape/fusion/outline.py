"""Outline decided groups into isolated `dhlo.fusion` ops, in an order in which every operand comes first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from anyshape.dialects.dhlo import DhloOp
from anyshape.dialects.dhlo.compaction import ReadSize
from anyshape.dialects.dhlo.fusion import FusionOp, YieldOp
from anyshape.fusion.decide import Decision, Group
from anyshape.fusion.groups import symbols_used


def outline_groups(func: FuncOp, decision: Decision) -> list[FusionOp]:
    """Replace the ops of every group in `func` by one `dhlo.fusion` each; returns these in program order."""
    block = func.body.block
    order = _ordered(block, decision)
    replaced: dict[SSAValue, SSAValue] = {}
    fusions: list[FusionOp] = []
    last = block.last_op
    assert last is not None
    for item in order:
        if isinstance(item, Group):
            fusion = _outline(item, replaced)
            Rewriter.insert_op(fusion, InsertPoint.before(last))
            replaced.update(zip(item.outputs, fusion.results, strict=True))
            fusions.append(fusion)
            decision.fusions[item] = fusion
            continue
        item.operands = [replaced.get(value, value) for value in item.operands]
        if item is not last:
            item.detach()
            Rewriter.insert_op(item, InsertPoint.before(last))
    for op in reversed([op for op in block.ops if decision.homes_of(op)]):
        op.detach()
        op.erase(safe_erase=False)
    return fusions


def _ordered(block: Block, decision: Decision) -> list[Group | Operation]:
    """Groups and ungrouped ops, each after whatever it depends on (depth first, so the order follows the program)."""
    order: dict[Group | Operation, None] = {}
    producers = {value: group for group in decision.groups for value in group.outputs}
    readers = {op.symbol: op for op in block.ops if isinstance(op, ReadSize)}

    for op in block.ops:
        homes = [group for group in decision.homes_of(op) if any(value in group.outputs for value in op.results)]
        roots: list[Group | Operation] = list(homes) if decision.homes_of(op) else [op]
        work = [(root, False) for root in roots]
        while work:
            item, ready = work.pop()
            if item in order:
                continue
            if ready:
                order[item] = None
                continue
            work.append((item, True))
            work.extend((read, False) for read in _reads_before(item, readers) if read not in order)
            for value in _operands(item):
                needed = producers.get(value)
                if needed is not None and needed not in order:
                    work.append((needed, False))
                elif needed is None and isinstance(value.owner, Operation) and value.owner not in order:
                    work.append((value.owner, False))
    return list(order)


def _reads_before(item: Group | Operation, readers: Mapping[str, ReadSize]) -> list[ReadSize]:
    """The ops that give size symbols their values which an item uses."""
    if not readers:
        return []
    ops = item.ops if isinstance(item, Group) else [item]
    symbols = sorted(frozenset[str]().union(*(symbols_used(op) for op in ops if isinstance(op, DhloOp))))
    return [readers[symbol] for symbol in symbols if symbol in readers and readers[symbol] is not item]


def _operands(item: Group | Operation) -> Sequence[SSAValue]:
    if isinstance(item, Operation):
        return list(item.operands)
    return _inputs(item)


def _inputs(group: Group) -> list[SSAValue]:
    """Values that the group reads from memory, each once, in order of first use."""
    read = (value for op in _by_structure(group) for value in op.operands if value.owner not in group.ops)
    return list(dict.fromkeys(read))


def _by_structure(group: Group) -> list[Operation]:
    """The group's ops, operands first, in an order that depends on the group alone and not on where the program has its ops."""
    order: dict[Operation, None] = {}
    work = [(value.owner, False) for value in reversed(group.outputs)]
    while work:
        op, ready = work.pop()
        if not isinstance(op, Operation) or op not in group.ops or op in order:
            continue
        if ready:
            order[op] = None
        else:
            work.append((op, True))
            work.extend((value.owner, False) for value in reversed(op.operands))
    return list(order)


def _outline(group: Group, replaced: dict[SSAValue, SSAValue]) -> FusionOp:
    inputs = _inputs(group)
    block = Block(arg_types=[value.type for value in inputs])
    inner: dict[SSAValue, SSAValue] = dict(zip(inputs, block.args, strict=True))
    for op in _by_structure(group):
        copy = op.clone(inner)
        copy.location = op.location
        block.add_op(copy)
        inner.update(zip(op.results, copy.results, strict=True))
    block.add_op(YieldOp(*(inner[value] for value in group.outputs)))
    fusion = FusionOp(
        group.kind,
        [replaced.get(value, value) for value in inputs],
        [value.type for value in group.outputs],
        Region(block),
    )
    anchor = group.anchor or next(iter(group.ops))
    fusion.location = anchor.location
    return fusion
