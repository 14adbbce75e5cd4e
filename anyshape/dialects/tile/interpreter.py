"""The meaning of plans: a kernel run by numpy, all points at once.

The points around an op form an array: one axis for each enclosing `parallel` (its box flattened), `lanes`, `loop` and `dot`. A value is an
array over the leading axes that it may depend on; deeper ones are added on the right as they are entered and a reduction
removes the last. Sums are taken in f64 and rounded once. Accesses outside a buffer raise, so plans are checked for them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from xdsl.ir import Block, Operation, SSAValue

from anyshape.dialects.packed_blocks import PackedBlocks, unpack_panels
from anyshape.dialects.scalar_interpreter import Array, interpret_op, numpy_of_scalar, to_signless
from anyshape.dialects.sizes import dtype_of, sizes_of
from anyshape.dialects.tile.contract import ContractOp
from anyshape.dialects.tile.ops import (
    AttendOp,
    AxisOp,
    CheckOp,
    DotOp,
    KernelOp,
    LanesOp,
    LoadOp,
    ParallelOp,
    ScratchOp,
    SizeOp,
    StoreOp,
    YieldOp,
    buffer_of,
)
from anyshape.dialects.tile.prefix import PrefixOp
from anyshape.dialects.tile.whole import WholeOp
from anyshape.dialects.tile.window import WindowAttr
from anyshape.support.errors import IndexOutOfRange, VerifyError
from anyshape.symbolic import Size


@dataclass(frozen=True)
class IndexFault:
    """A `check` that failed: its site, the first index that was out of range, the bound."""

    site: int
    index: int
    bound: int


def run_kernel(
    kernel: KernelOp,
    buffers: Sequence[Array],
    sizes: Mapping[str, int],
    *,
    begin: int | None = None,
    end: int | None = None,
    errors: list[IndexFault] | None = None,
) -> None:
    """Run a kernel on flat buffers (1-D arrays, bools as bools), in place.

    Args:
        begin, end: the points of the outermost `parallel` or `lanes` to run, all of them unless given; `contract` and
            `attend` always run as a whole.
        errors: receives the checks that failed; VerifyError is raised for the first where it is None.
    """
    faults: list[IndexFault] = []
    run = _Run(dict(zip(kernel.body.block.args, buffers, strict=True)), sizes, faults, (begin, end))
    run.block(kernel.body.block, ())
    if errors is not None:
        errors.extend(faults)
    elif faults:
        raise VerifyError("a checked index is out of range", where=f"site {faults[0].site}", got=faults[0].index,
                          expected=f"0 <= index < {faults[0].bound}")  # fmt: skip


Shape = tuple[int, ...]


@dataclass
class _Run:
    """`memory` holds flat arrays; those of scratch have the axes of the points that own them in front."""

    memory: dict[SSAValue, Array]
    sizes: Mapping[str, int]
    faults: list[IndexFault]
    span: tuple[int | None, int | None]
    values: dict[SSAValue, Array] = field(default_factory=dict[SSAValue, Array])

    def size(self, size: Size) -> int:
        return size.evaluate(self.sizes)

    def value(self, operand: SSAValue, depth: int) -> Array:
        """A value as an array of `depth` axes."""
        array = self.values[operand]
        return array.reshape(array.shape + (1,) * (depth - array.ndim))

    def block(self, block: Block, shape: Shape) -> None:
        """Run the ops of a block at points of that shape."""
        for op in block.ops:
            self.operation(op, shape)

    def operation(self, op: Operation, shape: Shape) -> None:
        match op:
            case YieldOp():
                pass
            case ScratchOp():
                type_ = buffer_of(op.result)
                count = math.prod(self.size(extent) for extent in type_.sizes.data)
                self.memory[op.result] = np.zeros((*shape, count), numpy_of_scalar(type_.element_type))
            case ParallelOp():
                self._parallel(op, shape)
            case AxisOp() | DotOp():
                self._axis(op, shape)
            case StoreOp():
                self._store(op, shape)
            case ContractOp():
                self._contract(op)
            case AttendOp():
                self._attend(op)
            case WholeOp():
                self._apply(op)
            case _:
                self.values[op.results[0]] = self._value(op, shape)

    def _value(self, op: Operation, shape: Shape) -> Array:
        match op:
            case SizeOp():
                return np.asarray(self.size(op.expression))
            case LoadOp():
                return self._load(op, shape)
            case CheckOp():
                return self._check(op)
            case PrefixOp():
                return prefixes_last(op.kind.data, np.broadcast_to(self.value(op.value, len(shape)), shape))
            case _:
                operands = [self.value(operand, len(shape)) for operand in op.operands]
                with np.errstate(all="ignore"):
                    return np.asarray(interpret_op(op, operands), numpy_of_scalar(op.results[0].type))

    # ---- axes --------------------------------------------------------------------------------------------------------

    def _span(self, total: int, outermost: bool) -> tuple[int, int]:
        begin, end = self.span if outermost else (None, None)
        return (0 if begin is None else begin, total if end is None else end)

    def _parallel(self, op: ParallelOp, shape: Shape) -> None:
        extents = [self.size(extent) for extent in op.extents.data]
        self._box(op.body.block, extents, self._span(math.prod(extents), not shape), shape)

    def _box(self, block: Block, extents: Sequence[int], span: tuple[int, int], shape: Shape) -> None:
        """The points of a row-major box whose indices are the block's arguments."""
        begin, end = span
        points = np.arange(begin, max(begin, end))
        for index, extent in reversed(list(zip(block.args, extents, strict=True))):
            self.values[index] = (points % max(extent, 1)).reshape((1,) * len(shape) + points.shape)
            points = points // max(extent, 1)
        self.block(block, (*shape, len(points)))

    def _axis(self, op: AxisOp | DotOp, shape: Shape) -> None:
        begin, end = self._span(self.size(op.size), not shape and isinstance(op, LanesOp))
        inner = (*shape, max(0, end - begin))
        self.values[op.index] = np.arange(begin, max(begin, end)).reshape((1,) * len(shape) + (-1,))
        self.block(op.body.block, inner)
        last = op.body.block.last_op
        assert isinstance(last, YieldOp)
        yields = [np.broadcast_to(self.value(value, len(inner)), inner) for value in last.values]
        if isinstance(op, DotOp):
            product = (
                yields[0].astype(np.float64) * yields[1] if yields[0].dtype.kind not in "iu" else yields[0] * yields[1]
            )
            self.values[op.result] = reduce_last("sum", product).astype(yields[0].dtype)
            return
        for kind, value, result in zip(op.kind_names, yields, op.results, strict=True):
            self.values[result] = reduce_last(kind, value)

    # ---- memory ------------------------------------------------------------------------------------------------------

    def _flat(self, buffer: SSAValue, indices: Sequence[SSAValue], depth: int) -> Array:
        total = np.zeros((1,) * depth, np.int64)
        for index, stride in zip(indices, buffer_of(buffer).strides.data, strict=True):
            total = total + self.value(index, depth) * self.size(stride)
        return total

    def _place(self, buffer: SSAValue, flat: Array, shape: Shape) -> tuple[Array, ...]:
        """The full index of elements of a buffer; VerifyError outside it."""
        memory = self.memory[buffer]
        wrong = (flat < 0) | (flat >= memory.shape[-1])
        if wrong.any():
            raise VerifyError(
                "an access outside its buffer", where=buffer_of(buffer), got=int(flat[wrong][0]),
                expected=f"0 <= element < {memory.shape[-1]}",
            )  # fmt: skip
        # The point that owns a scratch comes first.
        owners = (
            np.arange(shape[axis]).reshape((-1,) + (1,) * (len(shape) - axis - 1)) for axis in range(memory.ndim - 1)
        )
        return (*owners, flat)

    def _load(self, op: LoadOp, shape: Shape) -> Array:
        depth = len(shape)
        flat = self._flat(op.buffer, op.indices, depth)
        if 0 in shape:
            # There is no point, so nothing may be read.
            return np.zeros(shape, numpy_of_scalar(op.result.type))
        if op.guard is None:
            return to_signless(self.memory[op.buffer][self._place(op.buffer, flat, shape)])
        flat, guard = np.broadcast_arrays(flat, self.value(op.guard, depth))
        zero = np.zeros((), numpy_of_scalar(op.result.type))
        if not guard.any():
            return np.broadcast_to(zero, guard.shape)
        # Where nothing is read, any element that is read somewhere stands in.
        place = self._place(op.buffer, np.where(guard, flat, flat[guard][0]), shape)
        return np.where(guard, to_signless(self.memory[op.buffer][place]), zero)

    def _store(self, op: StoreOp, shape: Shape) -> None:
        flat = np.broadcast_to(self._flat(op.buffer, op.indices, len(shape)), shape)
        value = np.broadcast_to(self.value(op.value, len(shape)), shape)
        memory = self.memory[op.buffer]
        if memory.ndim == 1 and np.unique(flat).size != flat.size:
            raise VerifyError("a store writes an element more than once", where=buffer_of(op.buffer))
        memory[self._place(op.buffer, flat, shape)] = value

    def _check(self, op: CheckOp) -> Array:
        index, bound = self.values[op.index], self.size(op.bound.data[0])
        inside = (index >= 0) & (index < bound)
        right = inside if op.guard is None else inside | ~self.values[op.guard].astype(bool)
        if not right.all():
            index, right = np.broadcast_arrays(index, right)
            self.faults.append(IndexFault(op.site.value.data, int(index[~right].ravel()[0]), bound))
        return inside

    # ---- claimable ops -----------------------------------------------------------------------------------------------

    def _whole(self, buffer: SSAValue, extents: Sequence[int]) -> Array:
        """A buffer as an array of these extents."""
        flat = np.zeros((1,) * len(extents), np.int64)
        for axis, (extent, stride) in enumerate(zip(extents, buffer_of(buffer).strides.data, strict=True)):
            flat = flat + np.arange(extent).reshape((-1,) + (1,) * (len(extents) - axis - 1)) * self.size(stride)
        return self.memory[buffer][flat]

    def _contract(self, op: ContractOp) -> None:
        batch = [self.size(extent) for extent in op.batch.data]
        m, n, k = (self.size(extent) for extent in op.extents.data)
        if op.prologue is not None:
            self._box(op.prologue.block, [*batch, m], (0, math.prod(batch) * m), ())
        lhs = self._whole(op.lhs, [*batch, m, k])
        if op.window is not None:
            lhs, rhs = self._windows(op, op.window, lhs)
        elif op.blocks is not None:
            packed = PackedBlocks(n, k, op.blocks.data)
            rhs = unpack_panels(packed, self._whole(op.rhs, packed.shape)).T
        elif op.packed is None:
            rhs = self._whole(op.rhs, [*batch, k, n])
        else:
            panels = self._whole(op.rhs, [-(-n // op.PANEL), k, op.PANEL])
            rhs = panels.transpose(1, 0, 2).reshape(k, -(-n // op.PANEL) * op.PANEL)[:, :n]
        wide = np.int64 if lhs.dtype.kind in "iu" else np.float64
        block, shape = op.epilogue.block, (*batch, m, n)
        for axis, index in enumerate(block.args[:-1]):
            self.values[index] = np.arange(shape[axis]).reshape((1,) * axis + (-1,) + (1,) * (len(shape) - axis - 1))
        sums = (lhs.astype(wide) @ rhs.astype(wide)).reshape(shape)
        self.values[block.args[-1]] = sums.astype(numpy_of_scalar(block.args[-1].type))
        self.block(block, shape)
        last = block.last_op
        assert isinstance(last, YieldOp)
        flat = self._flat(op.out, block.args[:-1], len(shape))
        self.memory[op.out][np.broadcast_to(flat, shape)] = np.broadcast_to(
            self.value(last.values[0], len(shape)), shape
        )

    def _scaled(self, buffer: SSAValue, sizes: list[int], scale: SSAValue | None) -> Array:
        """A whole buffer in f64, each row times its scale where there are any."""
        values = self._whole(buffer, sizes).astype(np.float64)
        return values if scale is None else values * self._whole(scale, sizes[:3])[..., None]

    def _windows(self, op: ContractOp, window: WindowAttr, lhs: Array) -> tuple[Array, Array]:
        """Both factors of a convolution with an axis of groups behind that of the batch."""
        image = self._whole(op.rhs, [self.size(extent) for extent in buffer_of(op.rhs).sizes.data])
        batch, rows, depth = lhs.shape
        groups = window.groups.data
        rhs = window.matrices(image, [self.size(size) for size in window.sizes.data])
        return lhs.reshape(batch, groups, rows // groups, depth), rhs

    def _attend(self, op: AttendOp) -> None:
        b, h, hk, s, t, d, e = (self.size(extent) for extent in op.extents.data)
        query = self._whole(op.query, [b, h, s, d]).astype(np.float64)
        key, value = (
            np.repeat(self._scaled(operand, [b, hk, t, depth], scale), h // max(hk, 1), axis=1)
            for operand, depth, scale in ((op.key, d, op.key_scale), (op.value, e, op.value_scale))
        )
        scores = op.scale.value.data * (query @ key.swapaxes(-1, -2))
        past = 0 if op.after_past is None else t - s
        keep = np.ones((s, t), bool) if op.causal is None else np.tri(s, t, past, dtype=bool)
        if op.window is not None:
            keep &= ~np.tri(s, t, past - op.window.value.data, dtype=bool)
        if op.mask is not None:
            mask = self._whole(op.mask, [b, h, s, t])
            if mask.dtype == np.bool_:
                keep = keep & mask
            else:
                scores = scores + mask.astype(np.float64)
        scores = np.where(keep, scores, -np.inf)
        with np.errstate(all="ignore"):
            weights = np.exp(scores - np.max(scores, axis=-1, keepdims=True, initial=-np.inf))
            weights = np.where(keep, weights / weights.sum(axis=-1, keepdims=True), 0.0)
        flat = np.zeros((1,) * 4, np.int64)
        for axis, (extent, stride) in enumerate(zip((b, h, s, e), buffer_of(op.out).strides.data, strict=True)):
            flat = flat + np.arange(extent).reshape((-1,) + (1,) * (3 - axis)) * self.size(stride)
        self.memory[op.out][flat] = weights @ value

    def _apply(self, op: WholeOp) -> None:
        values = [*op.op.operands, *op.op.results]
        arrays: list[Array] = []
        for each, value in zip(op.buffers, values, strict=True):
            shape = [self.size(size) for size in sizes_of(value.type)]
            arrays.append(self.memory[each].view(dtype_of(value.type).numpy)[: math.prod(shape)].reshape(shape))
        count = len(op.op.operands)
        try:
            results = op.op.reference(*arrays[:count], env=dict(self.sizes))
        except IndexOutOfRange as error:
            assert op.site is not None
            self.faults.append(IndexFault(op.site.value.data, int(str(error.got)), 0))
            return
        for target, result in zip(arrays[count:], results, strict=True):
            target[...] = result


def reduce_last(kind: str, values: Array) -> Array:
    """The last axis folded by one of `KINDS`; over no points the identity. Bools: sum, max are disjunctions, prod, min conjunctions."""
    if values.dtype.kind == "b":
        return np.asarray(values.any(axis=-1) if kind in ("sum", "max", "umax", "or") else values.all(axis=-1))
    if kind in ("umax", "umin"):
        unsigned = values.view(f"u{values.dtype.itemsize}")
        fold, start = (np.max, 0) if kind == "umax" else (np.min, np.iinfo(unsigned.dtype).max)
        extreme = fold(unsigned, axis=-1, initial=start)
        return np.asarray(extreme, unsigned.dtype).view(values.dtype)
    integer = values.dtype.kind == "i"
    wide: Any = values if integer else values.astype(np.float64)
    limits = np.iinfo(values.dtype) if integer else None
    low, high = (limits.min, limits.max) if limits is not None else (-np.inf, np.inf)
    match kind:
        case "sum":
            result = wide.sum(axis=-1, dtype=wide.dtype)
        case "prod":
            result = wide.prod(axis=-1, dtype=wide.dtype)
        case "max":
            result = wide.max(axis=-1, initial=low)
        case "min":
            result = wide.min(axis=-1, initial=high)
        case "and":
            result = np.bitwise_and.reduce(wide, axis=-1)
        case _:
            result = np.bitwise_or.reduce(wide, axis=-1)
    with np.errstate(all="ignore"):
        return np.asarray(result).astype(values.dtype)


def prefixes_last(kind: str, values: Array) -> Array:
    """Every prefix of the last axis folded as `reduce_last` folds the whole, or by ln(eᵃ + eᵇ)."""
    folds = {
        "sum": np.add, "prod": np.multiply, "and": np.bitwise_and, "or": np.bitwise_or, "logaddexp": np.logaddexp,
    }  # fmt: skip
    fold = folds.get(kind, np.maximum if kind.endswith("max") else np.minimum)
    if values.dtype.kind == "b":
        fold = np.logical_and if kind in ("prod", "and") or kind.endswith("min") else np.logical_or
    if kind in ("umax", "umin") and values.dtype.kind != "b":
        return fold.accumulate(values.view(f"u{values.dtype.itemsize}"), axis=-1).view(values.dtype)
    wide = values.astype(np.float64) if values.dtype.kind not in "bi" else values
    with np.errstate(all="ignore"):
        return fold.accumulate(wide, axis=-1, dtype=wide.dtype).astype(values.dtype)


__all__ = ["IndexFault", "prefixes_last", "reduce_last", "run_kernel"]
