"""Which weights are kept in another form than their own: all that gain from it, none, or the largest within a budget."""

from __future__ import annotations

import math

from xdsl.dialects.func import FuncOp
from xdsl.ir import BlockArgument, SSAValue

from anyshape.dialects.arrays import ArrayType, ConstantStore
from anyshape.dialects.dhlo import DhloOp, DotGeneral, Weight
from anyshape.dialects.dhlo.fusion import FusionOp
from anyshape.dialects.packed_panels import PANEL
from anyshape.fusion.layout import layout_of, matrices_of
from anyshape.support.options import Options

DEPTH = 4
"""What the depth of a packed panel is at most rounded up to a multiple of."""


def limit_copies(func: FuncOp, store: ConstantStore, options: Options) -> None:
    """Of the live weights of a graph, let other forms be kept of those only that the options have room for.

    The right factors of products come first, the largest before the others: packing saves the most there.
    """
    if options.pack_weights and options.pack_budget_bytes is None:
        return
    left = options.pack_budget_bytes if options.pack_weights else 0
    factors = {name for op in func.walk() if isinstance(op, DotGeneral) for name in _names_behind(op.operands[1])}
    order = sorted(store.live, key=lambda name: (name not in factors, -packed_bound(store.type_of(name))))
    forbidden: list[str] = []
    for name in order:
        size = packed_bound(store.type_of(name))
        if left is not None and size <= left:
            left -= size
        else:
            forbidden.append(name)
    store.forbid_copies(forbidden)


def _names_behind(value: SSAValue) -> set[str]:
    """The weights that a value is, but for what is done to one operand at a time."""
    op = value.owner
    while isinstance(op, DhloOp) and len(op.operands) == 1:
        op = op.operands[0].owner
    return {op.attribute("name")} if isinstance(op, Weight) else set()


def packable_weights(func: FuncOp, store: ConstantStore, options: Options) -> frozenset[str]:
    """The weights of an outlined graph that its products may take packed.

    What is derived from live weights comes first, since it needs memory in any case; then the largest.
    """
    forms: dict[str, set[str]] = {}
    for fusion in func.body.block.ops:
        if isinstance(fusion, FusionOp):
            for op in fusion.block.ops:
                if isinstance(op, DotGeneral):
                    _note_form(fusion, op, forms)
    allowed = [name for name in forms if options.pack_weights and store.may_copy(name)]
    if options.pack_budget_bytes is None:
        return frozenset(allowed)
    left = options.pack_budget_bytes
    chosen: set[str] = set()
    for name in sorted(allowed, key=lambda name: (not _is_derived(name, store), -packed_bound(store.type_of(name)))):
        size = packed_bound(store.type_of(name)) * len(forms[name])
        if size <= left:
            left -= size
            chosen.add(name)
    return frozenset(chosen)


def _note_form(fusion: FusionOp, dot: DotGeneral, forms: dict[str, set[str]]) -> None:
    """Note the strides in which a product reads a weight, which each are a packed form of their own."""
    root = layout_of(dot.operands[1]).root
    weight = fusion.inputs[root.index].owner if isinstance(root, BlockArgument) else None
    if isinstance(weight, Weight):
        forms.setdefault(weight.attribute("name"), set()).add(str(matrices_of(dot).rhs))


def _is_derived(name: str, store: ConstantStore) -> bool:
    return store.is_live(name) and name not in store.live


def packed_bound(type: ArrayType) -> int:
    """The most bytes that a packed form of an array has, whichever axes are its columns."""
    bounds = [type.nbytes]
    for axis, size in enumerate(type.shape):
        depth = math.prod(type.shape[:axis] + type.shape[axis + 1 :])
        bounds.append(-(-size // PANEL) * PANEL * -(-depth // DEPTH) * DEPTH * type.dtype.itemsize)
    return max(bounds)


__all__ = ["limit_copies", "packable_weights", "packed_bound"]
