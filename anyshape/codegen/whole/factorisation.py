"""Factorisations of matrices and triangular systems: each matrix by one thread, by rows, so that inner loops read whole vectors."""

from __future__ import annotations

from anyshape.codegen.mlir import Value
from anyshape.codegen.tiles.schedule import Schedule
from anyshape.codegen.whole.body import WholeBody
from anyshape.codegen.whole.matrices import Rows, batch_schedule, copied, own_result
from anyshape.dialects.dhlo.factorisation import Cholesky, Lu, LuPivots, PivotOrder, TriangularSolve
from anyshape.dialects.sizes import numel
from anyshape.support.machine import Machine
from anyshape.symbolic import Size


def matrices_schedule(op: Cholesky | Lu | PivotOrder | TriangularSolve, machine: Machine) -> Schedule:
    """One point a matrix, or a row of pivots."""
    return batch_schedule(op, len(op.operand_sizes()) - (1 if isinstance(op, PivotOrder) else 2), Size.const(0))


def pivots_schedule(op: LuPivots, machine: Machine) -> Schedule:
    """One point a matrix, which is eliminated in scratch."""
    sizes = op.operand_sizes()
    return batch_schedule(op, len(sizes) - 2, numel(sizes[-2:]) * op.operand_dtype().bytes)


def _eliminate(a: Rows, k: Value, rows: Value) -> None:
    """Step k: factors below the pivot, and what is left behind it."""
    b = a.body.b
    pivot, behind = a.load(k, k), b.add(k, 1)
    is_zero = b.cmp("oeq", pivot, 0.0)
    with b.for_(behind, rows) as row:
        below = a.load(row.index, k)
        factor = b.select(is_zero, below, b.div(below, pivot))
        a.store(factor, row.index, k)
        a.subtract(a.row(row.index, behind), factor, a.row(k, behind), b.sub(a.columns, behind))


def emit_lu(body: WholeBody) -> None:
    """The code of a `lu`."""
    b, op = body.b, body.op.op
    assert isinstance(op, Lu)
    rows, columns = (body.size(size) for size in op.operand_sizes()[-2:])
    with b.for_(body.begin, body.end) as matrix:
        a = copied(body, op, own_result(body, op, matrix.index), body.inputs[0], matrix.index)
        with b.for_(0, b.minimum(rows, columns)) as step:
            _eliminate(a, step.index, rows)


def emit_lu_pivots(body: WholeBody) -> None:
    """The code of a `lu_pivots`."""
    b, op = body.b, body.op.op
    assert isinstance(op, LuPivots)
    rows, columns = (body.size(size) for size in op.operand_sizes()[-2:])
    steps = b.minimum(rows, columns)
    with b.for_(body.begin, body.end) as matrix:
        a = copied(body, op, body.scratch, body.inputs[0], matrix.index)
        result = b.offset(body.outputs[0], b.i64, b.mul(matrix.index, steps))
        with b.for_(0, steps) as step:
            k = step.index
            largest = b.absolute(a.load(k, k))
            with b.for_(b.add(k, 1), rows, initial=[largest, k]) as search:
                magnitude = b.absolute(a.load(search.index, k))
                is_larger = b.cmp("ogt", magnitude, search.args[0])
                found = zip((magnitude, search.index), search.args, strict=True)
                search.yield_(*(b.select(is_larger, *pair) for pair in found))
            place = search.results[1]
            b.store(place, result, k)
            a.exchange(k, place)
            _eliminate(a, k, rows)


def emit_cholesky(body: WholeBody) -> None:
    """The code of a `cholesky`."""
    b, op = body.b, body.op.op
    assert isinstance(op, Cholesky)
    size = body.size(op.operand_sizes()[-1])
    with b.for_(body.begin, body.end) as matrix:
        a = copied(body, op, own_result(body, op, matrix.index), body.inputs[0], matrix.index)
        zero = b.const(a.element, 0.0)
        with b.for_(1, size) as row:
            body.fill(a.row(row.index), zero, 0, row.index)
        with b.for_(0, size, initial=[b.const(b.i1, 1)]) as step:
            k = step.index
            pivot = a.load(k, k)
            goes_on = b.and_(step.args[0], b.cmp("ogt", pivot, 0.0))
            with b.if_(goes_on).then():
                a.divide(a.row(k, k), b.sqrt(pivot), b.sub(size, k))
                with b.for_(b.add(k, 1), size) as row:
                    count = b.sub(size, row.index)
                    a.subtract(a.row(row.index, row.index), a.load(k, row.index), a.row(k, row.index), count)
            step.yield_(goes_on)


def emit_triangular_solve(body: WholeBody) -> None:
    """The code of a `triangular_solve`."""
    b, op = body.b, body.op.op
    assert isinstance(op, TriangularSolve)
    size, columns = (body.size(each) for each in op.operand_sizes(1)[-2:])
    element, lower = body.element(op.result_dtype), op.attribute("lower")
    square, block = b.mul(size, size), b.mul(size, columns)
    with b.for_(body.begin, body.end) as matrix:
        a = Rows(body, b.offset(body.inputs[0], element, b.mul(matrix.index, square)), size, element)
        x = Rows(body, b.offset(body.outputs[0], element, b.mul(matrix.index, block)), columns, element)
        body.copy(x.memory, b.offset(body.inputs[1], element, b.mul(matrix.index, block)), element, 0, block)
        with b.for_(0, size) as step:
            i = step.index if lower else b.sub(b.sub(size, 1), step.index)
            with b.for_(0, i) if lower else b.for_(b.add(i, 1), size) as solved:
                x.subtract(x.row(i), a.load(i, solved.index), x.row(solved.index), columns)
            if not op.attribute("unit"):
                x.divide(x.row(i), a.load(i, i), columns)


def emit_pivot_order(body: WholeBody) -> None:
    """The code of a `pivot_order`."""
    b, op = body.b, body.op.op
    assert isinstance(op, PivotOrder)
    steps, rows = body.size(op.operand_sizes()[-1]), body.size(op.result_sizes[-1])
    with b.for_(body.begin, body.end) as batch:
        pivots = b.offset(body.inputs[0], b.i64, b.mul(batch.index, steps))
        order = b.offset(body.outputs[0], b.i64, b.mul(batch.index, rows))
        with b.for_(0, rows) as row:
            b.store(row.index, order, row.index)
        with b.for_(0, steps) as step:
            other = b.load(pivots, b.i64, step.index)
            is_row = b.and_(b.cmp("ult", other, rows), b.cmp("slt", step.index, rows))
            body.report(b.not_(is_row), other, rows)
            with b.if_(is_row).then():
                x, y = (b.load(order, b.i64, each) for each in (step.index, other))
                b.store(y, order, step.index)
                b.store(x, order, other)


__all__ = [
    "emit_cholesky", "emit_lu", "emit_lu_pivots", "emit_pivot_order", "emit_triangular_solve", "matrices_schedule",
    "pivots_schedule",
]  # fmt: skip
