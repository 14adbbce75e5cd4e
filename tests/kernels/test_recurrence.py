"""Recurrent layers whose units are shared by threads within a step: as the reference, the same bits with any threads."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from xdsl.dialects.func import FuncOp
from xdsl.ir import SSAValue

from anyshape.codegen.whole.units import is_shared, shared_bytes, shares_units
from anyshape.dialects.dhlo.cells import CELLS
from anyshape.dialects.dhlo.graph import FunctionBuilder
from anyshape.dialects.dhlo.recurrence import Recurrence
from anyshape.dialects.dtypes import F32, F64, DType
from anyshape.driver.build import build_objects, load_program
from anyshape.runtime import numpy_adaptor
from anyshape.support.machine import Machine, Rates
from anyshape.support.trace import Trace
from tests.kernels.harness import OPTIONS, ConstantStore, check, inputs_of, module_of

RATES = Rates(fma=117, l1=234, l2=110, l3=80, memory=32, simple=0.14, transcendental=4, region=700)
MACHINE = Machine("x86_64", 512, 32, l2=1 << 20, cores=2, threads=2, measured=RATES)


def layer(cell: str, units: int, directions: tuple[int, ...], dtype: DType = F32) -> tuple[FunctionBuilder, SSAValue]:
    """The layer of x [s, b, …]: the graph, and its result."""
    g = FunctionBuilder()
    gates, d = CELLS[cell].gates * units, len(directions)
    operands = [
        g.input("s", "b", d * gates, dtype=dtype),
        g.input(d, gates, units, dtype=dtype),
        g.input(d, gates, dtype=dtype),
        *(g.input(d, "b", units, dtype=dtype) for _ in range(CELLS[cell].states)),
    ]
    return g, g(Recurrence, *operands, cell=cell, reversed=directions)


def graph(cell: str, units: int, directions: tuple[int, ...], dtype: DType = F32) -> FuncOp:
    g, result = layer(cell, units, directions, dtype)
    return g.finish(result)


@pytest.mark.parametrize(
    ("cell", "units", "directions", "dtype"),
    [("lstm", 200, (0,), F32), ("gru", 130, (0, 1), F32), ("rnn", 320, (1,), F64)],
    ids=str,
)
def test_as_the_reference(cell: str, units: int, directions: tuple[int, ...], dtype: DType) -> None:
    """Units that end in the middle of a block; rows of one and of several blocks, steps too few, none, no rows."""
    sizes = ((5, 1), (4, 3), (3, 2), (0, 1), (4, 0), (4, 30))
    check(graph(cell, units, directions, dtype), [{"s": s, "b": b} for s, b in sizes])


def test_bits_do_not_depend_on_threads() -> None:
    func = graph("lstm", 200, (0, 1))
    built = build_objects(
        module_of(func), [f"x{i}" for i in range(5)], ConstantStore(), OPTIONS, Trace.from_options(OPTIONS)
    )
    for rows in (1, 3):
        inputs = inputs_of(func, {"s": 6, "b": rows})
        results = [numpy_adaptor.run(load_program(built, threads), inputs)[0] for threads in (1, 2, 5)]
        for other in results[1:]:
            np.testing.assert_array_equal(results[0], other)


def recurrence(cell: str, units: int, directions: tuple[int, ...] = (0,)) -> Recurrence:
    _, result = layer(cell, units, directions)
    assert isinstance(result.owner, Recurrence)
    return result.owner


def test_what_is_shared() -> None:
    """One row wherever a step is long; all rows up to some hundred where a thread's cache could not keep the weights."""
    small, middle, large = (recurrence("lstm", units) for units in (64, 160, 512))
    assert [shares_units(op, MACHINE) for op in (small, middle, large)] == [False, True, True]
    assert not shares_units(large, replace(MACHINE, threads=1))
    few = [is_shared(middle, MACHINE).evaluate({"b": rows, "s": 9}) for rows in (1, 2, 100)]
    many = [is_shared(large, MACHINE).evaluate({"b": rows, "s": 9}) for rows in (1, 100, 1000)]
    assert few == [1, 0, 0] and many == [1, 1, 0]
    assert shared_bytes(large, MACHINE).evaluate({"b": 1, "s": 9}) >= 4 * 4 * 512 * 512
