"""A host program of every op, and kernels for it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pytest
from xdsl.dialects.builtin import f32
from xdsl.ir import Operation

from anyshape.dialects.host import (
    AllocateOp,
    BindOp,
    ConstantOp,
    DenseOp,
    GuardAxisOp,
    GuardOp,
    LaunchOp,
    OutputOp,
    ProgramOp,
    ReturnOp,
    ViewOp,
)
from anyshape.dialects.tile import KernelOp, buffer
from anyshape.symbolic import Size


@dataclass
class Sample:
    """out = kernel(2 x viewed as one axis, w): `program` and its ops by what they do."""

    program: ProgramOp
    ops: dict[str, Operation]
    kernels: Mapping[str, KernelOp]


@pytest.fixture
def sample() -> Sample:
    n, m = Size.symbol("n"), Size.symbol("m")
    program = ProgramOp("sample", [("x", f32, [n, 4]), ("scale", f32, [m])], ["w"], ["line 1: %lld of %lld"])
    x, scale = program.body.block.args
    ops: dict[str, Any] = {}
    ops["bind"] = BindOp("n", x, 0)
    ops["bind m"] = BindOp("m", scale, 0)
    ops["guard axis"] = GuardAxisOp(x, 1, 4, "argument 'x' axis 1: got %lld, expected %lld")
    ops["guard"] = GuardOp(n.le(512), "argument 'x' axis 0: got %lld, allowed at most 512 of 100%%", [n])
    ops["dense"] = DenseOp(x)
    ops["constant"] = ConstantOp(0, buffer(f32, [4]))
    ops["allocate"] = AllocateOp(buffer(f32, [n, 4]))
    arguments = [ops["dense"].result, ops["allocate"].result]
    ops["double"] = LaunchOp("double", arguments, [n], extent=n, grain=16, scratch=0, outputs=1)
    ops["view"] = ViewOp(ops["allocate"].result, buffer(f32, [4 * n]))
    ops["output"] = OutputOp(0, buffer(f32, [n, 2, 2]))
    arguments = [ops["view"].result, ops["constant"].result, ops["output"].result]
    ops["shift"] = LaunchOp("shift", arguments, [n, n // 2], extent=4 * n, grain=64, scratch=16 * n, outputs=1)
    ops["return"] = ReturnOp.build()
    program.body.block.add_ops(ops.values())
    some = buffer(f32, [])
    kernels = {
        "double": KernelOp("double", ["rows"], [some, some]),
        "shift": KernelOp("shift", ["rows", "half"], [some, some, some]),
    }
    return Sample(program, ops, kernels)
