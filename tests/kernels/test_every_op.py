"""The compiled half of the matrix derived from the ops: op × sample × dtype at sizes 0, 1, 7 and 33, machine code = reference."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from xdsl.dialects.func import FuncOp

from anyshape.dialects.dhlo import Array, DhloOp, Sample, Weight
from anyshape.dialects.dhlo.checks import Check
from anyshape.dialects.dhlo.compaction import ReadSize
from anyshape.dialects.dhlo.graph import FunctionBuilder
from anyshape.dialects.dhlo.interpreter import run_op
from anyshape.dialects.dhlo.resize import Resize
from anyshape.dialects.dhlo.samples import (
    operand_dtypes,
    sample_function,
    sample_inputs,
    sample_op,
    sample_symbols,
)
from anyshape.dialects.dtypes import BOOL, F32, DType
from tests.dialects.dhlo.test_samples import is_pointwise
from tests.kernels.harness import compiled
from tests.op_matrix import environments
from tests.tolerances import COMPUTED, EXACT, Tolerance, assert_close

OPS = [cls for cls in DhloOp.OPS.values() if cls not in (Weight, ReadSize, Check)]


@dataclass(frozen=True)
class Case:
    """One call of an op, as a function of its own."""

    sample: Sample
    dtype: DType
    function: FuncOp

    @property
    def op(self) -> DhloOp:
        return sample_op(self.function)

    def operands(self, env: dict[str, int], rng: np.random.Generator) -> list[Array]:
        return sample_inputs(self.function, self.sample, env, rng)[: len(self.op.operands)]


def cases_of(cls: type[DhloOp]) -> list[Case]:
    return [
        Case(sample, dtype, sample_function(cls, sample, dtype))
        for sample in cls.SAMPLES
        for dtype in (sample.dtypes if sample.operands else (F32,))
    ]


def together(cls: type[DhloOp], cases: list[Case], symbols: list[str]) -> FuncOp:
    """All calls as one function, since a compilation costs more than an op: operands of each, then what binds the symbols."""
    g = FunctionBuilder()
    results = []
    for case in cases:
        dtypes = operand_dtypes(case.sample, case.dtype)
        operands = [g.input(*sizes, dtype=each) for sizes, each in zip(case.sample.operands, dtypes, strict=True)]
        results.append(g.add(cls.of(*operands, **case.sample.attributes)).result)
    for symbol in symbols:
        g.input(symbol, dtype=BOOL)
    return g.finish(*results)


def tolerance_of(op: DhloOp, expected: Array) -> Tolerance:
    """That of the dtype; of an op that sums or weighs, relative to the tensor's scale: sums are folded in any order and cancel, and weights
    come from positions, whose error grows with the position.
    """
    tolerance = COMPUTED.get(op.result_dtype, EXACT)
    if (is_pointwise(type(op)) and not isinstance(op, Resize)) or not op.result_dtype.is_float:
        return tolerance
    finite = np.abs(expected.astype(np.float64))[np.isfinite(expected)]
    return Tolerance(tolerance.relative, tolerance.absolute + tolerance.relative * float(finite.max(initial=0)))


@pytest.mark.parametrize("cls", OPS, ids=[cls.name.removeprefix("dhlo.") for cls in OPS])
def test_machine_code_equals_reference(cls: type[DhloOp]) -> None:
    cases = cases_of(cls)
    symbols = sorted({symbol for case in cases for symbol in sample_symbols(case.function)})
    run = compiled(together(cls, cases, symbols))
    least: dict[str, int] = {}
    for case in cases:
        for symbol, size in case.sample.minimum.items():
            least[symbol] = max(size, least.get(symbol, 0))
    rng = np.random.default_rng(11)
    for env in environments(symbols, Sample((), minimum=least)):
        operands = [case.operands(env, rng) for case in cases]
        binders = [np.zeros(env[symbol], np.bool_) for symbol in symbols]
        got = run([*(array for each in operands for array in each), *binders])
        for case, inputs, result in zip(cases, operands, got, strict=True):
            (expected,) = run_op(case.op, inputs, env)
            tolerance = tolerance_of(case.op, expected)
            assert_close(result, expected, tolerance, f"{case.op.name} of {case.dtype} at {env}")
