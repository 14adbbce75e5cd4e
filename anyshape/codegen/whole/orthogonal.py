"""Householder reflectors, and rotations of rows: each matrix by one thread, in whole rows."""

from __future__ import annotations

from anyshape.codegen.mlir import Value
from anyshape.codegen.tiles.schedule import Schedule
from anyshape.codegen.whole.body import WholeBody
from anyshape.codegen.whole.matrices import Rows, batch_schedule
from anyshape.dialects.dhlo.orthogonal import SWEEPS, ApplyReflectors, HouseholderQr, OrthogonalRows
from anyshape.dialects.sizes import numel
from anyshape.support.machine import Machine

_EPSILON = 2.0**-52


def reflectors_schedule(op: HouseholderQr | ApplyReflectors, machine: Machine) -> Schedule:
    """One point a matrix; scratch for a row of it, the products of a reflector with columns."""
    of_row = op.operand_sizes(0 if isinstance(op, HouseholderQr) else 2)[-1]
    return batch_schedule(op, len(op.operand_sizes()) - 2, of_row * op.result_dtype.bytes)


def rotations_schedule(op: OrthogonalRows, machine: Machine) -> Schedule:
    """One point a matrix; scratch for the squared norms of its rows."""
    return batch_schedule(op, len(op.operand_sizes()) - 2, op.operand_sizes()[-2] * 8)


def _reflect(v: Rows, tau: Value, a: Rows, k: Value, rows: Value, first: Value) -> None:
    """Rows k … of a, from column `first` on, less τ·v_k·(v_kᵀ·a): v_k has a one at k and column k of v below it."""
    body, b = a.body, a.body.b
    count, behind = b.sub(a.columns, first), b.add(k, 1)
    products = body.scratch
    body.copy(products, a.row(k, first), a.element, 0, count)
    with b.for_(behind, rows) as row:
        a.subtract(products, b.neg(v.load(row.index, k)), a.row(row.index, first), count)
    a.subtract(a.row(k, first), tau, products, count)
    with b.for_(behind, rows) as row:
        a.subtract(a.row(row.index, first), b.mul(tau, v.load(row.index, k)), products, count)


def emit_householder_qr(body: WholeBody) -> None:
    """The code of a `householder_qr`."""
    b, op = body.b, body.op.op
    assert isinstance(op, HouseholderQr)
    rows, columns = (body.size(size) for size in op.operand_sizes()[-2:])
    element, given, room = body.element(op.result_dtype), b.mul(rows, columns), body.size(numel(op.result_sizes[-2:]))
    with b.for_(body.begin, body.end) as matrix:
        a = Rows(body, b.offset(body.outputs[0], element, b.mul(matrix.index, room)), columns, element)
        body.copy(a.memory, b.offset(body.inputs[0], element, b.mul(matrix.index, given)), element, 0, given)
        body.fill(a.row(rows), b.const(element, 0.0), 0, columns)
        with b.for_(0, b.minimum(rows, columns)) as step:
            k, behind = step.index, b.add(step.index, 1)
            with b.for_(behind, rows, initial=[b.const(element, 0.0)]) as below:
                x = a.load(below.index, k)
                below.yield_(b.fma(x, x, below.args[0]))
            squares = below.results[0]
            with b.if_(b.cmp("une", squares, 0.0)).then():
                alpha = a.load(k, k)
                norm = b.sqrt(b.fma(alpha, alpha, squares))
                beta = b.neg(b.copysign(norm, alpha))
                tau, scale = b.div(b.sub(beta, alpha), beta), b.sub(alpha, beta)
                with b.for_(behind, rows) as row:
                    a.store(b.div(a.load(row.index, k), scale), row.index, k)
                _reflect(a, tau, a, k, rows, behind)
                a.store(beta, k, k)
                a.store(tau, rows, k)


def emit_apply_reflectors(body: WholeBody) -> None:
    """The code of a `apply_reflectors`."""
    b, op = body.b, body.op.op
    assert isinstance(op, ApplyReflectors)
    (rows, width), columns = (body.size(size) for size in op.operand_sizes()[-2:]), body.size(op.result_sizes[-1])
    factors, element = body.size(op.operand_sizes(1)[-1]), body.element(op.result_dtype)
    steps = b.minimum(factors, rows)
    with b.for_(body.begin, body.end) as matrix:
        v = Rows(body, b.offset(body.inputs[0], element, b.mul(matrix.index, b.mul(rows, width))), width, element)
        taus = b.offset(body.inputs[1], element, b.mul(matrix.index, factors))
        first = b.mul(matrix.index, b.mul(rows, columns))
        c = Rows(body, b.offset(body.outputs[0], element, first), columns, element)
        body.copy(c.memory, b.offset(body.inputs[2], element, first), element, 0, b.mul(rows, columns))
        with b.for_(0, steps) as step:
            k = step.index if op.attribute("transpose") else b.sub(b.sub(steps, 1), step.index)
            _reflect(v, b.load(taus, element, k), c, k, rows, b.const(b.i64, 0))


def emit_orthogonal_rows(body: WholeBody) -> None:
    """The code of an `orthogonal_rows`."""
    b, op = body.b, body.op.op
    assert isinstance(op, OrthogonalRows)
    rows, columns = (body.size(size) for size in op.operand_sizes()[-2:])
    width, given = body.size(op.result_sizes[-1]), b.mul(rows, columns)
    with b.for_(body.begin, body.end) as matrix:
        a = Rows(body, b.offset(body.outputs[0], b.f64, b.mul(matrix.index, b.mul(rows, width))), width, b.f64)
        source = Rows(body, b.offset(body.inputs[0], b.f64, b.mul(matrix.index, given)), columns, b.f64)
        with b.for_(0, rows) as row:
            body.copy(a.row(row.index), source.row(row.index), b.f64, 0, columns)
            body.fill(a.row(row.index), b.const(b.f64, 0.0), columns, rows)
            a.store(b.const(b.f64, 1.0), row.index, b.add(columns, row.index))
        with b.for_(0, SWEEPS, initial=[b.const(b.i1, 1)]) as sweep:
            branch = b.if_(sweep.args[0], [b.i1])
            with branch.then():
                branch.yield_(_sweep(a, rows, columns))
            with branch.otherwise():
                branch.yield_(b.const(b.i1, 0))
            sweep.yield_(branch.results[0])
        _order(a, rows, columns)


def _sweep(a: Rows, rows: Value, columns: Value) -> Value:
    """Rotates each pair of rows that is not orthogonal; whether there was one."""
    b = a.body.b
    with b.for_(0, rows, initial=[b.const(b.i1, 0)]) as first:
        i = first.index
        with b.for_(b.add(i, 1), rows, initial=[first.args[0]]) as second:
            j = second.index
            alpha, beta, gamma = (_dot(a, *pair, columns) for pair in ((i, i), (j, j), (i, j)))
            bound = b.mul(b.mul(b.sqrt(alpha), b.sqrt(beta)), _EPSILON)
            is_open = b.cmp("ogt", b.absolute(gamma), bound)
            with b.if_(is_open).then():
                zeta = b.div(b.sub(beta, alpha), b.mul(gamma, 2.0))
                steep = b.add(b.absolute(zeta), b.sqrt(b.add(b.mul(zeta, zeta), 1.0)))
                tangent = b.copysign(b.div(b.const(b.f64, 1.0), steep), zeta)
                cosine = b.div(b.const(b.f64, 1.0), b.sqrt(b.add(b.mul(tangent, tangent), 1.0)))
                _rotate(a, i, j, cosine, b.mul(cosine, tangent))
            second.yield_(b.or_(second.args[0], is_open))
        first.yield_(second.results[0])
    return first.results[0]


def _dot(a: Rows, row: Value, other: Value, columns: Value) -> Value:
    b = a.body.b
    with b.for_(0, columns, initial=[b.const(a.element, 0.0)]) as column:
        x, y = (a.load(each, column.index) for each in (row, other))
        column.yield_(b.add(b.mul(x, y), column.args[0]))
    return column.results[0]


def _rotate(a: Rows, row: Value, other: Value, cosine: Value, sine: Value) -> None:
    """(row, other) = (cosine·row − sine·other, sine·row + cosine·other)"""
    b = a.body.b
    first, second = a.row(row), a.row(other)

    def step(at: Value, width: int, mask: Value | None) -> None:
        x, y = (b.load(each, a.element, at, width=width, mask=mask) for each in (first, second))
        c, s = (b.broadcast(each, width) for each in (cosine, sine))
        b.store(b.sub(b.mul(c, x), b.mul(s, y)), first, at, mask=mask)
        b.store(b.add(b.mul(s, x), b.mul(c, y)), second, at, mask=mask)

    a.body.vectors(a.columns, a.element, step)


def _order(a: Rows, rows: Value, columns: Value) -> None:
    """Rows by the norms of their first part, the largest first."""
    b, norms = a.body.b, a.body.scratch
    with b.for_(0, rows) as row:
        b.store(_dot(a, row.index, row.index, columns), norms, row.index)
    with b.for_(0, rows) as row:
        i = row.index
        own = b.load(norms, b.f64, i)
        with b.for_(b.add(i, 1), rows, initial=[own, i]) as search:
            norm = b.load(norms, b.f64, search.index)
            is_larger = b.cmp("ogt", norm, search.args[0])
            pairs = zip((norm, search.index), search.args, strict=True)
            search.yield_(*(b.select(is_larger, *pair) for pair in pairs))
        largest, place = search.results
        b.store(own, norms, place)
        b.store(largest, norms, i)
        a.exchange(i, place)


__all__ = [
    "emit_apply_reflectors", "emit_householder_qr", "emit_orthogonal_rows", "reflectors_schedule", "rotations_schedule",
]  # fmt: skip
