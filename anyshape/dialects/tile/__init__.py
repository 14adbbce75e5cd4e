"""Kernel plans in points: ops, verifier, numpy interpreter."""

from anyshape.dialects.tile.contract import ContractOp, factors_name
from anyshape.dialects.tile.dialect import Tile
from anyshape.dialects.tile.ops import (
    KINDS,
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
    buffer,
    buffer_of,
    dims_attr,
)
from anyshape.dialects.tile.prefix import PrefixOp
from anyshape.dialects.tile.whole import WholeOp

__all__ = [
    "KINDS",
    "AttendOp",
    "AxisOp",
    "BufferType",
    "CheckOp",
    "ContractOp",
    "DotOp",
    "KernelOp",
    "LanesOp",
    "LoadOp",
    "LoopOp",
    "ParallelOp",
    "PrefixOp",
    "ScratchOp",
    "SizeOp",
    "StoreOp",
    "Tile",
    "WholeOp",
    "YieldOp",
    "buffer",
    "buffer_of",
    "dims_attr",
    "factors_name",
]
