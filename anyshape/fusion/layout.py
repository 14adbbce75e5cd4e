"""How a value that is only a layout of another lies in that other's memory."""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass, replace

from xdsl.ir import Block, Operation, SSAValue

from anyshape.dialects.dhlo import (
    BroadcastInDim,
    Convolution,
    DotGeneral,
    QuantisedDot,
    Reshape,
    Slice,
    Transpose,
    reshape_groups,
)
from anyshape.dialects.sizes import row_major_strides, sizes_of
from anyshape.symbolic import Size, size_min

ONE = Size.const(1)
ZERO = Size.const(0)


@dataclass(frozen=True)
class Layout:
    """`value[i…]` is `root` memory at offset + Σ i·strides (in elements)."""

    root: SSAValue
    sizes: tuple[Size, ...]
    strides: tuple[Size, ...]
    offset: Size = ZERO

    def merged(self, first: int, last: int) -> tuple[Size, Size] | None:
        """Size and stride of axes [first, last) as one axis, None when memory does not allow it; (1, 0) for none."""
        size, stride = ONE, ZERO
        for axis in reversed(range(first, last)):
            if self.sizes[axis] == ONE:
                continue
            if size == ONE:
                size, stride = self.sizes[axis], self.strides[axis]
            elif self.strides[axis] == stride * size:
                size = size * self.sizes[axis]
            else:
                return None
        return size, stride


def layout_of(value: SSAValue, inside: Container[Operation] | None = None) -> Layout:
    """The layout of a value through transposes, broadcasts, slices and reshapes down to a dense buffer.

    A block argument is a dense buffer, and so is the result of an op that is not `inside`: where None, of any op that is no layout.
    Raises ValueError when some op between is no layout of its operand.
    """
    owner = value.owner
    sizes = sizes_of(value.type)
    if isinstance(owner, Block) or (inside is not None and owner not in inside):
        return Layout(value, sizes, row_major_strides(sizes))
    if not isinstance(owner, Transpose | BroadcastInDim | Slice | Reshape):
        if inside is None:
            return Layout(value, sizes, row_major_strides(sizes))
        raise ValueError(f"{owner.name} is not a layout of its operand")
    source = layout_of(owner.operands[0], inside)
    match owner:
        case Transpose():
            order: tuple[int, ...] = owner.attribute("permutation")
            return replace(source, sizes=sizes, strides=tuple(source.strides[axis] for axis in order))
        case BroadcastInDim():
            return replace(source, sizes=sizes, strides=_broadcast_strides(owner, source))
        case Slice():
            steps = [Size.const(step) for step in owner.attribute("strides")]
            if any(step.value < 0 for step in steps):
                raise ValueError(f"{owner.name} walks backwards")
            starts = zip(owner.size_list("starts"), source.strides, strict=True)
            offset = sum((start * stride for start, stride in starts), source.offset)
            strides = tuple(step * stride for step, stride in zip(steps, source.strides, strict=True))
            return replace(source, sizes=sizes, strides=strides, offset=offset)
        case Reshape():
            return replace(source, sizes=sizes, strides=_reshaped_strides(owner, source))


def axes_of_extents(sizes: Sequence[Size], extents: Sequence[Size]) -> list[list[int]]:
    """For each of the coarser axes `extents` the axes of `sizes` that make it up in order; those of size 1 are in none.

    Raises ValueError where the sizes do not make up the extents.
    """
    rest = [axis for axis, size in enumerate(sizes) if size != ONE]
    runs: list[list[int]] = []
    for extent in extents:
        run: list[int] = []
        total = ONE
        while total != extent:
            if not rest:
                raise ValueError(f"axes {list(map(str, sizes))} do not make up {list(map(str, extents))}")
            run.append(rest.pop(0))
            total = total * sizes[run[-1]]
        runs.append(run)
    if rest:
        raise ValueError(f"axes {list(map(str, sizes))} are more than {list(map(str, extents))}")
    return runs


def _broadcast_strides(op: BroadcastInDim, source: Layout) -> tuple[Size, ...]:
    sizes = op.result_sizes
    strides = [ZERO] * len(sizes)
    for axis, target in enumerate(op.attribute("dimensions")):
        size = source.sizes[axis]
        if size == sizes[target]:
            strides[target] = source.strides[axis]
        elif size != ONE:  # open, 1 or n: the stride is 0 when the size is 1
            strides[target] = source.strides[axis] * size_min(size - 1, 1)
    return tuple(strides)


def _reshaped_strides(op: Reshape, source: Layout) -> tuple[Size, ...]:
    """Strides after a reshape that splits axes, merges axes that are one in memory, or adds and drops axes of size 1."""
    sizes = op.result_sizes
    strides = [ZERO] * len(sizes)
    for sources, targets in reshape_groups(source.sizes, sizes):
        part = Layout(source.root, tuple(source.sizes[a] for a in sources), tuple(source.strides[a] for a in sources))
        merged = part.merged(0, len(sources))
        if merged is None:
            raise ValueError(f"axes {list(sources)} of {op.name}'s operand are not one axis in memory")
        stride = merged[1]
        for axis in reversed(targets):
            strides[axis] = ZERO if sizes[axis] == ONE else stride
            stride = stride * sizes[axis]
    return tuple(strides)


@dataclass(frozen=True)
class Matrices:
    """Both factors as matrices: sizes and (batch…, row, column) strides."""

    batch: tuple[Size, ...]
    m: Size
    n: Size
    k: Size
    lhs: tuple[Size, ...]
    rhs: tuple[Size, ...]


def matrices_of(op: DotGeneral, inside: Container[Operation] | None = None) -> Matrices:
    """Both factors as matrices; ValueError when memory does not allow it."""
    lhs, rhs = (layout_of(operand, inside) for operand in op.operands)
    lhs_batch: tuple[int, ...] = op.attribute("lhs_batch")
    rhs_batch: tuple[int, ...] = op.attribute("rhs_batch")
    m, k, lhs_strides = _matrix(lhs, lhs_batch, op.attribute("lhs_contract"), "left")
    n, _, rhs_strides = _matrix(rhs, rhs_batch, op.attribute("rhs_contract"), "right")
    return Matrices(
        batch=tuple(lhs.sizes[axis] for axis in lhs_batch), m=m, n=n, k=k,
        lhs=(*(lhs.strides[axis] for axis in lhs_batch), *lhs_strides),
        rhs=(*(rhs.strides[axis] for axis in rhs_batch), *reversed(rhs_strides)),
    )  # fmt: skip


def _matrix(
    side: Layout, batch: Sequence[int], contract: Sequence[int], which: str
) -> tuple[Size, Size, tuple[Size, Size]]:
    """Free size, contracted size, and (free, contracted) strides of one factor."""
    free = [axis for axis in range(len(side.sizes)) if axis not in batch and axis not in contract]
    found: list[tuple[Size, Size]] = []
    for axes in (free, list(contract)):
        part = Layout(side.root, tuple(side.sizes[a] for a in axes), tuple(side.strides[a] for a in axes))
        merged = part.merged(0, len(axes))
        if merged is None:
            raise ValueError(f"axes {axes} of the {which} factor are not one axis in memory")
        found.append(merged)
    return found[0][0], found[1][0], (found[0][1], found[1][1])


def left_matrix_of(
    op: QuantisedDot, inside: Container[Operation] | None = None
) -> tuple[Layout, Size, Size, tuple[Size, Size]]:
    """The left factor of a quantised product: its layout, m, k, and the strides of a row and of an element, which is 1.

    Raises ValueError when memory does not allow it.
    """
    lhs = layout_of(op.operands[0], inside)
    last = len(lhs.sizes) - 1
    m, k, (row, element) = _matrix(lhs, (), (last,), "left")
    if element != ONE and k != ONE:
        raise ValueError("the elements of a row of the left factor are not neighbours in memory")
    if layout_of(op.operands[1], inside).root is not op.operands[1]:
        raise ValueError("blocks of weights are read as they lie in memory")
    return lhs, m, k, (row, ONE)


def product_matrices_of(op: DotGeneral | QuantisedDot, inside: Container[Operation] | None = None) -> Matrices:
    """Both factors as matrices; of quantised weights, which lie in blocks, the sizes only. ValueError when memory does not allow it."""
    if isinstance(op, DotGeneral):
        return matrices_of(op, inside)
    _, m, k, strides = left_matrix_of(op, inside)
    return Matrices(batch=(), m=m, n=op.operand_sizes(1)[0], k=k, lhs=strides, rhs=())


def image_of(op: Convolution, inside: Container[Operation] | None = None) -> Layout:
    """How the image of a convolution lies; ValueError when neighbours along its last axis are not neighbours in memory."""
    image = layout_of(op.operands[0], inside)
    if image.strides[-1] != ONE and image.sizes[-1] != ONE:
        raise ValueError("the places of a line of the image are not neighbours in memory")
    return replace(image, strides=(*image.strides[:-1], ONE))


def filters_of(op: Convolution, inside: Container[Operation] | None = None) -> tuple[Layout, Size, Size]:
    """The filters of a convolution: their layout, elements of one, and the stride from one to the next.

    Raises ValueError when the elements of a filter are not neighbours in memory.
    """
    filters = layout_of(op.operands[1], inside)
    merged = filters.merged(1, len(filters.sizes))
    if merged is None or (merged[1] != ONE and merged[0] != ONE):
        raise ValueError("the elements of a filter are not neighbours in memory")
    return filters, merged[0], filters.strides[0]


def can_multiply(op: DotGeneral | QuantisedDot | Convolution, inside: Container[Operation] | None = None) -> str | None:
    """None when both factors are strided matrices over their batch axes, else why not."""
    try:
        if isinstance(op, Convolution):
            image_of(op, inside)
            filters_of(op, inside)
        elif isinstance(op, QuantisedDot):
            left_matrix_of(op, inside)
        else:
            matrices_of(op, inside)
    except ValueError as error:
        return str(error)
    return None
