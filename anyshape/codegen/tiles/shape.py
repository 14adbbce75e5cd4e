"""How a 64-column panel of the right-hand side is walked: register tiles, depth blocks, row blocks.

A register tile is R rows by `columns(R)` columns: R·V accumulators, V vectors of the right-hand side and one broadcast of
the left-hand side must fit the register file. Wider machines take the whole panel at once, narrower ones in several passes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from anyshape.codegen.tiles.choose import MAX_ROWS, MAX_STEPS, Candidates, choose_block, choose_block_rows, choose_tiles
from anyshape.dialects.packed_panels import PANEL, packed_depth
from anyshape.kernels.cost import CacheBlock, RegisterTile
from anyshape.support.errors import CodegenError
from anyshape.support.machine import Machine
from anyshape.symbolic import Size

LINE = 64
"""Bytes between what is prefetched; shorter than a machine's cache lines costs instructions only."""
Method = Literal["fma", "dpbf16", "vnni", "sdot", "pairs", "widened"]
"""How a step of a tile multiplies; see `product`."""
SUM_ELEMENTS = {
    "f32": "f32", "f64": "f64", "bf16": "f32", "f16": "f32", "i8": "i32", "f32xbf16": "f32", "f32xf16": "f32",
    "f32xi8": "f32",
}  # fmt: skip
"""Element types of the factors (`ContractOp.factors`) -> element type of their sums."""
_BYTES = {"i8": 1, "i16": 2, "f16": 2, "bf16": 2, "i32": 4, "f32": 4, "f64": 8}
_GROUPS: dict[Method, int] = {"fma": 1, "dpbf16": 2, "vnni": 4, "sdot": 4, "pairs": 2, "widened": 1}
_LHS_ELEMENTS: dict[Method, str] = {"dpbf16": "bf16", "vnni": "i8", "sdot": "i8", "pairs": "i16", "widened": "i32"}


@dataclass(frozen=True)
class TileShape:
    """Tile sizes for one element type on one machine.

    Args:
        element: the factors' element types in memory, a key of `SUM_ELEMENTS`: one name, or `<lhs>x<rhs>` where they differ.
        lanes: sums of a vector register.
        registers: vector registers.
        machine: whose caches decide the blocks.
        method: how a step multiplies.
        depth: elements of a depth block; longer sums go on from what the block before has stored. See `choose`.
        widths: vectors in the rows of a tile, by its number of rows; see `choose`.
    """

    element: str
    lanes: int
    registers: int
    machine: Machine
    method: Method
    depth: int = 0
    widths: tuple[int, ...] = ()

    @property
    def lhs_memory(self) -> str:
        """The element type of the left-hand side in memory."""
        return self.element.partition("x")[0]

    @property
    def rhs_memory(self) -> str:
        """The element type of the right-hand side in memory, packed or not."""
        return self.element.rpartition("x")[-1]

    @property
    def lhs_memory_bytes(self) -> int:
        """Bytes of an element of the left-hand side in memory."""
        return _BYTES[self.lhs_memory]

    @property
    def element_bytes(self) -> int:
        """Bytes of an element of the right-hand side in memory."""
        return _BYTES[self.rhs_memory]

    @property
    def sum_element(self) -> str:
        """The element type of sums, of what they start from and of where they are stored."""
        return SUM_ELEMENTS[self.element]

    @property
    def sum_bytes(self) -> int:
        """Bytes of a sum."""
        return _BYTES[self.sum_element]

    @property
    def is_wide(self) -> bool:
        """Factors are summed in their own type; the right-hand sides of others are always packed."""
        return self.element == self.sum_element

    @property
    def reads_lhs(self) -> bool:
        """Tiles take the left-hand side as it lies, if its k are adjacent and whole groups; otherwise it is copied."""
        return self.lhs_element == self.lhs_memory and not self.row_header

    @property
    def is_interleaved(self) -> bool:
        """Two vectors of the right-hand side come out of one of a panel: widened bf16, see `product`."""
        return self.rhs_memory == "bf16" and self.group == 1

    @property
    def lhs_element(self) -> str:
        """The element type in which a tile reads the left-hand side."""
        return _LHS_ELEMENTS.get(self.method, self.sum_element)

    @property
    def lhs_bytes(self) -> int:
        """Bytes of an element of the left-hand side as a tile reads it."""
        return _BYTES[self.lhs_element]

    @property
    def group(self) -> int:
        """Products of a sum that one step adds: as many k as lie together in a packed panel, and in a row of the left-hand side."""
        return _GROUPS[self.method]

    @property
    def row_header(self) -> int:
        """Elements in front of a copied row of the left-hand side: with `vnni` the i32 from which the row's sums start."""
        return 4 if self.method == "vnni" else 0

    @property
    def step_bytes(self) -> int:
        """Bytes of a packed panel that one step reads."""
        return PANEL * self.group * self.element_bytes

    @property
    def largest_tile(self) -> RegisterTile:
        """The tile that most of many rows meet."""
        return RegisterTile(MAX_ROWS, self.vectors(MAX_ROWS), PANEL // self.columns(MAX_ROWS))

    @property
    def crowding(self) -> int:
        """Elements, a power of two: rows of the left-hand side that lie a multiple of them apart leave cache sets between their depth
        blocks empty, since sets repeat at a power of two; all of them then share the rest."""
        return 1 << self.depth.bit_length()

    def cache_block(self, steps: int) -> CacheBlock:
        """A block of so many steps, as the cost model sees it."""
        return CacheBlock(MAX_ROWS, steps, self.group * self.lhs_bytes, self.step_bytes, PANEL * self.sum_bytes)

    def vectors(self, rows: int) -> int:
        """Vectors in one row of a tile of `rows` rows."""
        return self.widths[rows - 1]

    def columns(self, rows: int) -> int:
        """Columns of a tile of `rows` rows; divides `PANEL`."""
        return self.vectors(rows) * self.lanes

    def block_rows(self, depth: Size) -> int:
        """Rows of a row block, at most."""
        block_depth = max(1, min(self.depth, depth.constant_or(self.depth)))
        return choose_block_rows(self.largest_tile, self.cache_block(-(-block_depth // self.group)), self.machine)

    def copied_depth(self, depth: int) -> int:
        """Elements from one copied row of the left-hand side to the next."""
        return packed_depth(self.element, depth) + self.row_header


def tile_shape(element: str, machine: Machine) -> TileShape:
    """Tile sizes for factors of that element type, a key of `SUM_ELEMENTS`; raises `CodegenError` for others."""
    sum_element = SUM_ELEMENTS.get(element)
    if sum_element is None:
        raise CodegenError(
            "no register tiles for this element type", where="tile_shape", got=element, expected=", ".join(SUM_ELEMENTS)
        )
    lanes = min(PANEL // 2, machine.lanes(8 * _BYTES[sum_element]))
    shape = TileShape(element, lanes, max(machine.registers, 8), machine, _method(element, machine))
    fewest = 2 if shape.is_interleaved else 1
    candidates = Candidates(machine, PANEL // lanes, fewest, shape.registers, shape.step_bytes)
    shape = replace(shape, widths=tuple(tile.vectors for tile in choose_tiles(candidates)))
    block = choose_block(shape.largest_tile, shape.cache_block(MAX_STEPS), machine)
    return replace(shape, depth=block.steps * shape.group)


def _method(element: str, machine: Machine) -> Method:
    """The instructions that a machine has for products of these elements."""
    has = machine.features.__contains__
    if element == "bf16" and machine.vector_bits == 512 and has("avx512bf16"):
        return "dpbf16"
    if element != "i8":
        return "fma"
    if machine.architecture == "x86_64":
        if machine.vector_bits == 512 and has("avx512vnni"):
            return "vnni"
        if has({512: "avx512bw", 256: "avx2"}.get(machine.vector_bits, "")):
            return "pairs"
    if machine.architecture == "aarch64" and machine.vector_bits == 128 and has("dotprod"):
        return "sdot"
    return "widened"
