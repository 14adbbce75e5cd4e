"""`tile.whole`: ops that are a kernel by themselves, each with a schedule and an emitter.

| part | what |
|---|---|
| `body` | buffers, sizes, points and errors of the kernel under construction |
| `bags` | rows of a table combined bag by bag |
| `compaction` | places where a mask holds |
| `ctc` | likelihoods of sequences of labels |
| `factorisation` | matrices factorised and triangular systems solved, each by one thread |
| `matrices` | what emitters of ops on matrices share |
| `orthogonal` | reflectors and rotations of matrices, each by one thread |
| `recurrence` | steps of recurrent cells, rows of the batch in parallel |
| `scatter` | rows updated at indices, each by the thread that owns it |
| `items` | keys with positions, and the sort of them |
| `sorting` | rows in order, and the first ones of rows |
| `rows` | rows in lexicographic order |
| `searching` | places of values in sorted rows |
| `suppression` | boxes that no better one overlaps |
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, cast

from xdsl.ir import Operation

from anyshape.codegen.builder import Builder
from anyshape.codegen.microkernels import Part
from anyshape.codegen.mlir import ModuleBuilder
from anyshape.codegen.points import EmittedKernel
from anyshape.codegen.tiles.schedule import Schedule
from anyshape.codegen.whole.bags import bags_schedule, emit_bags
from anyshape.codegen.whole.body import WholeBody
from anyshape.codegen.whole.compaction import compress_schedule, emit_compress
from anyshape.codegen.whole.ctc import ctc_schedule, emit_ctc
from anyshape.codegen.whole.factorisation import (
    emit_cholesky,
    emit_lu,
    emit_lu_pivots,
    emit_pivot_order,
    emit_triangular_solve,
    matrices_schedule,
    pivots_schedule,
)
from anyshape.codegen.whole.orthogonal import (
    emit_apply_reflectors,
    emit_householder_qr,
    emit_orthogonal_rows,
    reflectors_schedule,
    rotations_schedule,
)
from anyshape.codegen.whole.recurrence import emit_recurrence, recurrence_schedule
from anyshape.codegen.whole.rows import emit_rows, rows_schedule
from anyshape.codegen.whole.scatter import emit_scatter, scatter_schedule
from anyshape.codegen.whole.searching import emit_search, search_schedule
from anyshape.codegen.whole.sorting import argsort_schedule, emit_argsort, emit_top_k, top_k_schedule
from anyshape.codegen.whole.suppression import emit_suppression, suppression_schedule
from anyshape.dialects.dhlo.bags import EmbeddingBag
from anyshape.dialects.dhlo.compaction import Compress
from anyshape.dialects.dhlo.ctc import CtcLoss
from anyshape.dialects.dhlo.factorisation import Cholesky, Lu, LuPivots, PivotOrder, TriangularSolve
from anyshape.dialects.dhlo.orthogonal import ApplyReflectors, HouseholderQr, OrthogonalRows
from anyshape.dialects.dhlo.recurrence import Recurrence
from anyshape.dialects.dhlo.scatter import Scatter
from anyshape.dialects.dhlo.sort import ArgSort, RowOrder, SearchSorted, TopK
from anyshape.dialects.dhlo.suppression import SuppressOverlaps
from anyshape.dialects.dhlo.whole import Whole
from anyshape.dialects.tile import KernelOp, WholeOp
from anyshape.support.errors import CodegenError
from anyshape.support.machine import Machine


@dataclass(frozen=True)
class _Emitter:
    schedule: Callable[[Any, Machine], Schedule]
    emit: Callable[[WholeBody], None]


_EMITTERS: Mapping[type[Whole], _Emitter] = {
    Compress: _Emitter(compress_schedule, emit_compress),
    CtcLoss: _Emitter(ctc_schedule, emit_ctc),
    Cholesky: _Emitter(matrices_schedule, emit_cholesky),
    Lu: _Emitter(matrices_schedule, emit_lu),
    LuPivots: _Emitter(pivots_schedule, emit_lu_pivots),
    PivotOrder: _Emitter(matrices_schedule, emit_pivot_order),
    TriangularSolve: _Emitter(matrices_schedule, emit_triangular_solve),
    HouseholderQr: _Emitter(reflectors_schedule, emit_householder_qr),
    ApplyReflectors: _Emitter(reflectors_schedule, emit_apply_reflectors),
    OrthogonalRows: _Emitter(rotations_schedule, emit_orthogonal_rows),
    Recurrence: _Emitter(recurrence_schedule, emit_recurrence),
    Scatter: _Emitter(scatter_schedule, emit_scatter),
    ArgSort: _Emitter(argsort_schedule, emit_argsort),
    TopK: _Emitter(top_k_schedule, emit_top_k),
    RowOrder: _Emitter(rows_schedule, emit_rows),
    SearchSorted: _Emitter(search_schedule, emit_search),
    EmbeddingBag: _Emitter(bags_schedule, emit_bags),
    SuppressOverlaps: _Emitter(suppression_schedule, emit_suppression),
}


def whole_schedule(op: WholeOp, machine: Machine) -> Schedule:
    """How a whole op is launched; sizes over the kernel's symbols."""
    return _emitter_of(op).schedule(op.op, machine)


def whole_parts(op: WholeOp) -> tuple[Part, ...]:
    """The micro-kernels that a whole op calls."""
    return (Part("contract", str(op.op.operand_dtype())),) if isinstance(op.op, Recurrence) else ()


def emit_whole(module: ModuleBuilder, kernel: KernelOp, op: Operation, machine: Machine) -> EmittedKernel:
    """Define the kernel of a whole op."""
    whole = cast(WholeOp, op)
    b = Builder(machine.features)
    name = kernel.sym_name.data
    with module.function(name, [b.ptr, b.ptr, b.i64, b.i64, b.ptr, b.ptr]) as function:
        _emitter_of(whole).emit(WholeBody(b, module, kernel, whole, function, machine))
    return EmittedKernel(name, whole_schedule(whole, machine).scratch_bytes)


def _emitter_of(op: WholeOp) -> _Emitter:
    found = _EMITTERS.get(type(op.op))
    if found is None:
        raise CodegenError("an op has no kernel", where=op.op.name, expected=", ".join(kind.name for kind in _EMITTERS))
    return found


__all__ = ["emit_whole", "whole_parts", "whole_schedule"]
