"""The dialect itself: every op and type of kernel plans."""

from __future__ import annotations

from xdsl.ir import Dialect

from anyshape.dialects.tile.contract import ContractOp
from anyshape.dialects.tile.ops import (
    AttendOp,
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
from anyshape.dialects.tile.whole import WholeOp
from anyshape.dialects.tile.window import WindowAttr

Tile = Dialect(
    "tile",
    [
        YieldOp,
        KernelOp,
        ParallelOp,
        LanesOp,
        LoopOp,
        DotOp,
        PrefixOp,
        LoadOp,
        StoreOp,
        ScratchOp,
        SizeOp,
        CheckOp,
        ContractOp,
        AttendOp,
        WholeOp,
    ],
    [BufferType, WindowAttr],
)

__all__ = ["Tile"]
