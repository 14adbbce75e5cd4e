"""The host program: ops, verifier, interpreter."""

from anyshape.dialects.host.ops import (
    AllocateOp,
    ArgumentType,
    BindOp,
    ConstantOp,
    DenseOp,
    GuardAxisOp,
    GuardOp,
    Host,
    InPlaceOp,
    LaunchOp,
    OutputOp,
    ProgramOp,
    ReadOp,
    ReturnOp,
    ViewOp,
    root_of,
)

__all__ = [
    "AllocateOp",
    "ArgumentType",
    "BindOp",
    "ConstantOp",
    "DenseOp",
    "GuardAxisOp",
    "GuardOp",
    "Host",
    "InPlaceOp",
    "LaunchOp",
    "OutputOp",
    "ProgramOp",
    "ReadOp",
    "ReturnOp",
    "ViewOp",
    "root_of",
]
