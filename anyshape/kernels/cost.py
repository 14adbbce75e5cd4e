"""The cost model: how long one core works on a kernel at given sizes, out of the machine's numbers.

Times are size expressions in ticks of 1/1024 ns, so that the host program can evaluate them at each call in a few integer operations;
`nanoseconds` evaluates one for a report. The model is a roofline (S. Williams, A. Waterman, D. Patterson, 2009):

- memory-bound kernels: max(vector operations, bytes moved / bandwidth of the level that holds them);
- products: max(multiply-adds, panels read + rows read and written);
- attention: max(multiply-adds, keys and values read or packed) + exponentials;
- register tiles and cache blocks, which are chosen when code is made: `panel_step_time` and `block_time`, whose times are plain numbers.

The *grain* of a launch follows from it: the least number of points whose time is `WORTH` parallel regions. Grains are for data in the
second-level cache, whatever a launch's size: what fits in the first is done before a thread is awake, and what does not fit in the
second is cut into as many chunks as there may be with a somewhat smaller grain, too. So a grain is a small expression, often a number.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from anyshape.dialects.sizes import numel
from anyshape.dialects.tile import AttendOp, ContractOp
from anyshape.support.machine import Machine
from anyshape.symbolic import Size, SizeLike, size_max, size_min

TICKS = 1024
"""Ticks of a nanosecond."""
WORTH = 2
"""A region of two threads pays from twice its own price on: T/2 + region < T."""
_KIB = 1024
_PANEL = ContractOp.PANEL
_PACKING = 3
"""Packing reads, writes, and reads again."""
_EXPOSED = 1 / 8
"""The part of a block's fetches that multiply-adds do not hide, by measurement (`python -m bench --only model`)."""
_TILE_START = 25.0
"""Nanoseconds of a register tile's pass beside its steps, by measurement: the call, sums taken up and put down, a loop that ends."""
_SOFTMAX_OPERATIONS = 6
"""Vector operations of a score beside its exponential: scale, mask, maximum, difference, sum, store."""


def nanoseconds(time: Size, sizes: Mapping[str, int] | None = None) -> float:
    """A time at the given values of its symbols."""
    return time.evaluate(sizes or {}) / TICKS


def grain_of(point: Size, machine: Machine, *, multiple: int = 1) -> Size:
    """The least number of points, at least 1, that take `WORTH` regions.

    Args:
        point: ticks of `multiple` points.
        machine: whose region counts.
        multiple: the grain is a multiple of this.
    """
    worth = round(WORTH * machine.rates.region * TICKS)
    return (worth + size_max(1, point) - 1) // size_max(1, point) * multiple


def operation_ticks(count: Size, nanoseconds_each: float, *, scale: int = 64) -> Size:
    """`count` operations of that time; `scale` of them are rounded together, so that a fraction of a tick is not lost."""
    return count * max(1, round(scale * nanoseconds_each * TICKS)) // scale


def transfer_time(moved: SizeLike, footprint: SizeLike, machine: Machine) -> Size:
    """Ticks for loading `moved` bytes out of the level that holds `footprint` bytes."""
    moved, footprint = Size.of(moved), Size.of(footprint)
    rates = machine.rates
    levels = [(0, rates.l1), (machine.l1, rates.l2), (machine.l2, rates.l3 if machine.l3 else rates.memory)]
    if machine.l3:
        levels.append((machine.l3, rates.memory))
    per_kib, slowest = Size.const(0), 0
    for bytes_, rate in levels:
        ticks = max(slowest, round(TICKS * _KIB / rate))
        # 1 from the first byte on that the level before has no room for.
        beyond = Size.const(1) if bytes_ == 0 else size_max(0, size_min(1, footprint - bytes_))
        per_kib += (ticks - slowest) * beyond
        slowest = ticks
    return moved * per_kib // _KIB


@dataclass(frozen=True)
class RegisterTile:
    """How a register tile goes through a panel: `rows` × `vectors` sums at a time, in so many passes that all columns are covered.

    A step multiplies `rows` numbers of the left-hand side with `vectors` vectors of the right-hand side, each loaded once.
    """

    rows: int
    vectors: int
    passes: int

    @property
    def registers(self) -> int:
        """Sums, vectors of the right-hand side (a lone row takes them from memory), and one number of the left-hand side."""
        return self.rows * self.vectors + (self.vectors if self.rows > 1 else 0) + 1

    @property
    def multiply_adds(self) -> int:
        """Of a step, all passes together."""
        return self.passes * self.rows * self.vectors

    @property
    def loads(self) -> int:
        """Of a step, all passes together."""
        return self.passes * (self.rows + self.vectors)


def panel_step_time(tiles: Sequence[RegisterTile], step_bytes: int, machine: Machine, *, rate: float) -> float:
    """Nanoseconds that one step of a panel costs tiles which go through the panel one after another.

    The slowest of four things that overlap: multiply-adds, loads from the first level, for each tile the panel from the second level to the
    first, and once the panel from afar. The left-hand side is in the first level.

    Args:
        step_bytes: of the panel, that a step reads.
        rate: bytes in a nanosecond that come from the level in which the panel lies. A first tile of several passes gets that part of it:
            each pass takes a part of every row, while machines fetch ahead for those who read whole runs of lines.
    """
    rates, vector_bytes = machine.rates, machine.vector_bits // 8
    multiply = sum(tile.multiply_adds for tile in tiles) * 2 * machine.f32_lanes / rates.fma
    load = sum(tile.loads for tile in tiles) * vector_bytes / rates.l1
    # No level is slower than those behind it, whatever a disturbed measurement says.
    second = max(rates.l2, rates.l3, rates.memory)
    return max(multiply, load, len(tiles) * step_bytes / second, tiles[0].passes * step_bytes / rate)


@dataclass(frozen=True)
class CacheBlock:
    """What the block driver multiplies before it goes on to the next panel or depth block.

    Args:
        rows: of the left-hand side.
        steps: of a depth block, those of the packed panel.
        lhs_bytes: of one row of the left-hand side, that a step reads.
        panel_bytes: of a panel, that a step reads.
        sum_bytes: of one row's sums in a panel.
    """

    rows: int
    steps: int
    lhs_bytes: int
    panel_bytes: int
    sum_bytes: int

    @property
    def footprint(self) -> int:
        """Bytes that are read again and again, the rows and the panel, and the sums beside them. The lines of the panel that is fetched
        meanwhile take the place of the one before."""
        return self.steps * (self.rows * self.lhs_bytes + self.panel_bytes) + self.rows * self.sum_bytes


def block_time(tile: RegisterTile, block: CacheBlock, machine: Machine) -> float:
    """Nanoseconds of one panel's depth block times one row block, both out of the second-level cache if that holds them.

    Each tile walks the panel (`panel_step_time`), reads its rows, and takes up and puts down its sums once. The panel comes from
    memory once for all tiles, at a core's part of its rate. A block that the second level does not hold comes from the third each time.
    Multiply-adds hide all but `_EXPOSED` of what is fetched, if they take longer.
    """
    rates = machine.rates
    tiles = -(-block.rows // tile.rows)
    fits = block.footprint <= machine.l2
    third = max(rates.l3, rates.memory)
    near = max(rates.l2, third) if fits else third
    walked = block.steps * panel_step_time([tile] * tiles, block.panel_bytes, machine, rate=math.inf)
    walked += tiles * tile.passes * _TILE_START
    panels = block.panel_bytes * (machine.cores / rates.memory + (0 if fits else tiles / third))
    fetched = block.steps * (panels + block.rows * block.lhs_bytes / near)
    fetched += 2 * block.rows * block.sum_bytes / rates.l2
    return max(walked, fetched) + _EXPOSED * min(walked, fetched)


@dataclass(frozen=True)
class ProductWork:
    """A product as the schedule carries it out.

    Args:
        batch, rows, columns, depth: its sizes.
        blocks: row blocks, each of which reads all panels of the right-hand side.
        element_bytes: of the left-hand and the right-hand side, in memory.
        sum_bytes: of the sums.
        speed: multiply-adds in the time of one f32 multiply-add.
        packed: whether the right-hand side comes in panels; otherwise each task packs its own.
    """

    batch: Size
    rows: Size
    columns: Size
    depth: Size
    blocks: Size
    element_bytes: tuple[int, int] = (4, 4)
    sum_bytes: int = 4
    speed: float = 1.0
    packed: bool = True

    @staticmethod
    def of(op: ContractOp, blocks: Size, element_bytes: tuple[int, int], sum_bytes: int, speed: float) -> ProductWork:
        """The work of a `tile.contract`."""
        rows, columns, depth = op.extents.data
        packed = op.packed is not None
        return ProductWork(numel(op.batch.data), rows, columns, depth, blocks, element_bytes, sum_bytes, speed, packed)

    @property
    def task(self) -> ProductWork:
        """One row block of one panel of one batch point."""
        one = Size.const(1)
        blocks = size_max(1, self.blocks)
        rows = (self.rows + (blocks - 1)) // blocks
        return replace(self, batch=one, rows=rows, columns=Size.const(_PANEL), blocks=one)


def product_time(work: ProductWork, machine: Machine, *, footprint: int | None = None) -> Size:
    """Ticks of a product on one core; columns count in whole panels.

    Args:
        footprint: bytes whose level all operands are taken to lie in; by default each lies where it fits.
    """
    panels = (work.columns + (_PANEL - 1)) // _PANEL
    steps = work.batch * panels * work.depth
    multiply = operation_ticks(work.rows * steps, 2 * _PANEL / (machine.rates.fma * work.speed), scale=1)
    lhs_bytes, rhs_bytes = work.element_bytes
    panel_bytes = steps * (_PANEL * rhs_bytes)
    passes = work.blocks * (1 if work.packed else _PACKING)
    read = transfer_time(panel_bytes * passes, panel_bytes if footprint is None else footprint, machine)
    row_bytes = work.batch * work.rows * (work.depth * lhs_bytes + work.columns * work.sum_bytes)
    read += transfer_time(row_bytes, row_bytes if footprint is None else footprint, machine)
    return size_max(multiply, read)


@dataclass(frozen=True)
class AttentionWork:
    """An attention as the schedule carries it out.

    Args:
        batch, heads, key_heads, queries, keys, head, value_head: its sizes.
        element_bytes: of keys and values in memory.
        sum_bytes: 4 or 8, of what all is computed in.
        direct_queries: up to so many queries read keys and values as they lie; more have them packed first.
    """

    batch: Size
    heads: Size
    key_heads: Size
    queries: Size
    keys: Size
    head: Size
    value_head: Size
    element_bytes: int = 4
    sum_bytes: int = 4
    direct_queries: int = 0

    @staticmethod
    def of(op: AttendOp, element_bytes: int, sum_bytes: int, direct_queries: int) -> AttentionWork:
        """The work of a `tile.attend`."""
        return AttentionWork(
            *op.extents.data, element_bytes=element_bytes, sum_bytes=sum_bytes, direct_queries=direct_queries
        )

    def task(self, rows: int) -> AttentionWork:
        """One block of up to that many queries of one head; it reads all keys."""
        one = Size.const(1)
        return replace(self, batch=one, heads=one, key_heads=one, queries=size_min(self.queries, rows))


def attention_time(work: AttentionWork, machine: Machine, *, footprint: int | None = None) -> Size:
    """Ticks of an attention on one core; keys are multiplied in whole panels. A causal one is taken for a whole one.

    Args:
        footprint: bytes whose level keys and values are taken to lie in; by default they lie where they fit.
    """
    rates, slower = machine.rates, work.sum_bytes // 4
    scores = work.batch * work.heads * work.queries * work.keys
    widths = work.head + work.value_head
    padded = work.batch * work.heads * work.queries * ((work.keys + (_PANEL - 1)) // _PANEL)
    multiply = operation_ticks(padded * widths, 2 * _PANEL * slower / rates.fma, scale=1)
    key_bytes = work.batch * work.key_heads * work.keys * widths * work.element_bytes
    packs = size_max(0, size_min(1, work.queries - work.direct_queries))
    read = transfer_time(
        key_bytes * (1 + (_PACKING - 1) * packs), key_bytes if footprint is None else footprint, machine
    )
    each = (rates.transcendental + _SOFTMAX_OPERATIONS * rates.simple) * slower / machine.f32_lanes
    return size_max(multiply, read) + operation_ticks(scores, each)
