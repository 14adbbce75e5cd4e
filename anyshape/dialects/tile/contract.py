"""`tile.contract`: a whole product, with what is computed on the way into it and behind it."""

from __future__ import annotations

from typing import ClassVar

from xdsl.dialects.builtin import StringAttr, UnitAttr
from xdsl.ir import Attribute, Block, Region, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    opt_region_def,
    prop_def,
    region_def,
    traits_def,
)
from xdsl.traits import NoTerminator
from xdsl.utils.exceptions import VerifyException

from anyshape.dialects.block_formats import FORMATS
from anyshape.dialects.sizes import DimsAttr
from anyshape.dialects.tile.ops import INDEX, BufferType, ScratchOp, Sizes, StoreOp, YieldOp, buffer_of, dims_attr
from anyshape.dialects.tile.window import WindowAttr
from anyshape.symbolic import Size, SizeLike


def factors_name(lhs: str, rhs: str) -> str:
    """What a product of these element types is called: the one name where they are equal, else `<lhs>x<rhs>`."""
    return lhs if lhs == rhs else f"{lhs}x{rhs}"


@irdl_op_definition
class ContractOp(IRDLOperation):
    """out[g…, i, j] = epilogue(g…, i, j, Σ_k lhs[g…, i, k] · rhs[g…, k, j]): a whole product, claimable by a target.

    `lhs`, `rhs` and `out` are buffers of rank len(batch)+2 in exactly these index orders; their strides say how they lie
    in memory. With `packed`, rhs is a constant in panels, `[ceil(n / panel)][k][panel]`, zero beyond column n, and its
    buffer type has those three axes. With `blocks`, rhs is block-quantised weights of that format, a row of blocks for each column, and
    its buffer is the bytes of their packed form (`dialects.packed_blocks`), [panels, bytes of a panel]; lhs is rounded, see `activations`.
    The region takes the batch indices, i, j and the sum, and yields the value stored; with K = 0 the sum is 0 and the epilogue still runs.

    With `window`, rhs is the image of a convolution, [b, channels, s…], whose windows are the columns, and the one batch axis is b.

    With a prologue, lhs is a scratch of the kernel that only this op reads. The region takes the batch indices and i, and computes
    the row lhs[g…, i, :], like the body of a `parallel`. A target decides which rows it keeps at a time, and may compute a row
    more than once.
    """

    name = "tile.contract"
    lhs = operand_def(BufferType)
    rhs = operand_def(BufferType)
    out = operand_def(BufferType)
    batch = prop_def(DimsAttr)
    extents = prop_def(DimsAttr)
    """(m, n, k)."""
    packed = opt_prop_def(UnitAttr)
    blocks = opt_prop_def(StringAttr)
    activations = opt_prop_def(StringAttr)
    """Integers to which lhs is rounded beside `blocks`: `int16` or `int8`."""
    window = opt_prop_def(WindowAttr)
    epilogue = region_def("single_block")
    prologue = opt_region_def("single_block")
    traits = traits_def(NoTerminator())
    assembly_format = (
        "$lhs `,` $rhs `into` $out `batch` $batch `extents` $extents (`packed` $packed^)? "
        "(`blocks` $blocks^)? (`activations` $activations^)? (`window` $window^)? attr-dict-with-keyword "
        "`:` type($lhs) `,` type($rhs) `,` type($out) $epilogue (`prologue` $prologue^)?"
    )

    PANEL: ClassVar[int] = 64
    """Columns of a packed panel: a property of the packed form, shared by every variant and every row count."""

    def __init__(
        self,
        lhs: SSAValue,
        rhs: SSAValue,
        out: SSAValue,
        batch: Sizes,
        extents: tuple[SizeLike, SizeLike, SizeLike],
        accumulator: Attribute,
        *,
        packed: bool = False,
        prologue: bool = False,
        blocks: str | None = None,
        activations: str | None = None,
        window: WindowAttr | None = None,
    ) -> None:
        rows = [Region(Block(arg_types=[INDEX] * (len(batch) + 1)))] if prologue else []
        super().__init__(
            operands=[lhs, rhs, out],
            properties={
                "batch": dims_attr(batch),
                "extents": dims_attr(extents),
                "packed": UnitAttr() if packed else None,
                "blocks": None if blocks is None else StringAttr(blocks),
                "activations": None if activations is None else StringAttr(activations),
                "window": window,
            },
            regions=[Region(Block(arg_types=[INDEX] * (len(batch) + 2) + [accumulator])), rows],
        )

    @property
    def factors(self) -> str:
        """The factors' element types: one name where they are equal, else `<lhs>x<rhs>`."""
        return factors_name(*(str(buffer_of(side).element_type) for side in (self.lhs, self.rhs)))

    @property
    def rows(self) -> tuple[Size, ...]:
        """The points of the prologue: batch axes and m."""
        return (*self.batch.data, self.extents.data[0])

    def verify_(self) -> None:
        last = self.epilogue.block.last_op
        if not isinstance(last, YieldOp) or len(last.values) != 1:
            raise VerifyException("tile.contract: the epilogue must yield one value")
        if last.values[0].type != buffer_of(self.out).element_type:
            raise VerifyException("tile.contract: the epilogue's value must have the output's element type")
        rank = len(self.batch.data) + 2
        if buffer_of(self.out).rank != rank or buffer_of(self.lhs).rank != rank:
            raise VerifyException(f"tile.contract: lhs and out must have rank {rank}")
        expected = 3 if self.packed is not None else rank
        if self.blocks is not None:
            self._verify_blocks(self.blocks.data)
            expected = 2
        if self.window is not None:
            self._verify_window(self.window)
            expected = 2 + self.window.spatial
        if buffer_of(self.rhs).rank != expected:
            raise VerifyException(
                "tile.contract: rhs must have three axes when packed, two in blocks, those of an image with a window, else those of lhs"
            )
        self._verify_prologue()

    def _verify_blocks(self, format: str) -> None:
        if self.packed is not None or self.batch.data:
            raise VerifyException("tile.contract: a product with blocks has no batch axes and is not packed otherwise")
        if format not in FORMATS:
            raise VerifyException(f"tile.contract: unknown block format {format!r}; known are {', '.join(FORMATS)}")
        if self.activations is None or self.activations.data not in ("int16", "int8"):
            raise VerifyException("tile.contract: beside blocks, activations are int16 or int8")

    def _verify_window(self, window: WindowAttr) -> None:
        if len(self.batch.data) != 1 or self.packed is not None or self.blocks is not None or self.prologue is not None:
            raise VerifyException(
                "tile.contract: with a window there is one batch axis, and nothing packed or computed before"
            )
        if self.extents.data[1] != window.columns:
            raise VerifyException(f"tile.contract: {self.extents.data[1]} columns, but the window has {window.columns}")

    def _verify_prologue(self) -> None:
        is_scratch = isinstance(self.lhs.owner, ScratchOp)
        if self.prologue is None:
            if is_scratch:
                raise VerifyException("tile.contract: lhs is a scratch, and no prologue computes it")
            return
        readers = [use.operation for use in self.lhs.uses if not isinstance(use.operation, StoreOp)]
        if not is_scratch or readers != [self]:
            raise VerifyException("tile.contract: a prologue's rows must be a scratch that nothing else reads")
        if len(self.prologue.block.args) != len(self.batch.data) + 1:
            raise VerifyException("tile.contract: a prologue takes the batch indices and i")


__all__ = ["ContractOp", "factors_name"]
