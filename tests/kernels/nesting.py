"""A plan must not visit more points than its graph asks for: recomputation inside lanes is counted here."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from xdsl.ir import Block

from anyshape.dialects.dhlo import DotGeneral
from anyshape.dialects.dhlo.fusion import FusionOp
from anyshape.dialects.sizes import numel, sizes_of
from anyshape.dialects.tile import DotOp, KernelOp, LanesOp, LoopOp, ParallelOp
from anyshape.kernels import Launch
from anyshape.symbolic import Size


def nests(block: Block, around: tuple[Size, ...] = ()) -> Iterator[tuple[Size, ...]]:
    """The extents around every innermost loop of a block, outermost first."""
    innermost = True
    for op in block.ops:
        match op:
            case ParallelOp():
                innermost = False
                yield from nests(op.body.block, (*around, *op.extents.data))
            case LanesOp() | LoopOp() | DotOp():
                innermost = False
                yield from nests(op.body.block, (*around, op.size))
            case _:
                pass
    if innermost:
        yield around


def points_asked(fusion: FusionOp, env: Mapping[str, int]) -> int:
    """The most points that one op of the group has to visit: its operands' and result's elements, m·n·k of a product."""
    most = 1
    for op in fusion.block.ops:
        most = max([most, *(numel(sizes_of(value.type)).evaluate(env) for value in (*op.operands, *op.results))])
        if isinstance(op, DotGeneral):
            depth = numel([op.operand_sizes(0)[axis] for axis in op.attribute("lhs_contract")])
            most = max(most, (numel(op.result_sizes) * depth).evaluate(env))
    return most


def check_nesting(launch: Launch) -> None:
    """Assert that no nest of the launched kernel visits more points than the group's largest op has.

    All symbols of the program get large, different values, so that a product of the wrong sizes cannot hide.
    """
    fusion, kernel = launch.fusion, launch.plan.kernel
    env = {symbol: 1009 + 10 * number for number, symbol in enumerate(launch.symbols)}
    named = {f"s{number}": env[symbol] for number, symbol in enumerate(launch.symbols)}
    asked = points_asked(fusion, env)
    for nest in nests(kernel.body.block):
        got = numel(nest).evaluate(named)
        assert got <= asked, (
            f"{_nest_text(nest)} visits {got} points, the group asks for {asked}:\n{fusion!s}\n{kernel!s}"
        )


def _nest_text(nest: tuple[Size, ...]) -> str:
    return " × ".join(map(str, nest)) or "a single point"


def count_ops(kernel: KernelOp) -> int:
    """Ops of a plan: what one point of every nest evaluates."""
    return sum(1 for _ in kernel.walk())
