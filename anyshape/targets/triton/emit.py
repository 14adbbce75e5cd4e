"""`emit_triton`: a plan as a Triton kernel."""

from __future__ import annotations

import ast

from xdsl.ir import Operation, SSAValue

from anyshape.dialects.sizes import numel
from anyshape.dialects.tile import AttendOp, ContractOp, KernelOp, LanesOp, ParallelOp, ScratchOp, buffer_of
from anyshape.support.errors import CodegenError
from anyshape.targets.triton.arithmetic import signature_of
from anyshape.targets.triton.body import Body
from anyshape.targets.triton.kernel import Parameter, TritonKernel
from anyshape.targets.triton.points import BLOCK, Points, scratch_elements
from anyshape.targets.triton.products import BLOCK_K, BLOCK_M, BLOCK_N, PRECISION, emit_product
from anyshape.targets.triton.syntax import dotted, jit_function, module


def emit_triton(kernel: KernelOp, *, whole_rows: bool = False) -> TritonKernel:
    """The Triton kernel of a verified plan.

    Args:
        whole_rows: every row of lanes fits one block, so that what is kept of a row stays in registers; otherwise rows
            are walked in blocks and kept in memory that the launcher passes. A product has no rows.

    Raises:
        CodegenError: for an op, a type or a use of scratch that has no emission.
    """
    *_, outermost = (op for op in kernel.body.block.ops if op.regions or isinstance(op, AttendOp))
    buffers: dict[SSAValue, str] = {value: f"b{number}" for number, value in enumerate(kernel.body.block.args)}
    parameters = [
        Parameter(name, "buffer", f"*{signature_of(buffer_of(value).element_type)}") for value, name in buffers.items()
    ]
    body = Body(dict(buffers))
    points = Points(body, whole_rows)
    match outermost:
        case ContractOp() if outermost.window is None:
            _before(kernel, outermost, points)
            tiles = emit_product(outermost, points)
            constants = (BLOCK_M, BLOCK_N, BLOCK_K, PRECISION)
        case ParallelOp() | LanesOp():
            if isinstance(outermost, ParallelOp) and not whole_rows:
                parameters += _scratch(outermost, body)
            _before(kernel, outermost, points)
            tiles = points.outermost(outermost)
            constants = (BLOCK,)
        case _:
            raise CodegenError("a claimed op has no emission for Triton", where=outermost.name, got=kernel.sym_name.data,
                               expected="tile.parallel, tile.lanes or tile.contract")  # fmt: skip
    parameters += [Parameter(symbol, "size", "i64") for symbol in kernel.symbol_names]
    parameters += [Parameter(constant, "constexpr", "constexpr") for constant in constants]
    name = kernel.sym_name.data
    functions = [reduction.function() for reduction in points.combiners.values()]
    function = jit_function(name, [(each.name, _annotation(each)) for each in parameters], body.finished)
    return TritonKernel(name, module([*functions, function]), tuple(parameters), tiles, tuple(points.rows))


def _before(kernel: KernelOp, outermost: Operation, points: Points) -> None:
    """What stands ahead of the outermost op: sizes and constants."""
    for op in kernel.body.block.ops:
        if op is not outermost:
            points.operation(op)


def _scratch(nest: ParallelOp, body: Body) -> list[Parameter]:
    """The scratch of a nest as parameters, each with room for all points; their names become the body's pointers."""
    points = numel(nest.extents.data)
    parameters: list[Parameter] = []
    for op in nest.body.block.ops:
        if isinstance(op, ScratchOp):
            type_ = f"*{signature_of(buffer_of(op.result).element_type)}"
            name = body.pointers[op.result] = f"scratch{len(parameters)}"
            parameters.append(Parameter(name, "scratch", type_, points * scratch_elements(op)))
    return parameters


def _annotation(parameter: Parameter) -> ast.expr | None:
    return dotted("tl.constexpr") if parameter.role == "constexpr" else None


__all__ = ["emit_triton"]
