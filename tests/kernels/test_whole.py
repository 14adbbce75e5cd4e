"""Ops that are a kernel by themselves, among others: reference = plans = machine code, and what the kernels are."""

from __future__ import annotations

import pytest
from xdsl.dialects.builtin import ModuleOp
from xdsl.parser import Parser

from anyshape.dialects.context import new_context
from anyshape.dialects.dhlo import Compare, Convert, Gather, Iota, Multiply, Reduce, Tanh
from anyshape.dialects.dhlo.compaction import Compress, ReadSize
from anyshape.dialects.dhlo.graph import FunctionBuilder
from anyshape.dialects.dhlo.scatter import Scatter
from anyshape.dialects.dhlo.sort import ArgSort, TopK
from anyshape.dialects.dhlo.verify import verify_graph
from anyshape.dialects.dtypes import F32, I64
from anyshape.dialects.host import ReadOp
from anyshape.symbolic import Size
from tests.kernels.harness import check

ENVS = [{"m": m, "n": n} for m, n in ((0, 3), (1, 1), (7, 2), (33, 5))]
ROWS = {"offset_dims": (1,), "collapsed_slice_dims": (0,), "start_index_map": (0,), "index_vector_dim": 1}


def test_scatter_between_elementwise_ops() -> None:
    g = FunctionBuilder()
    x, y, index = g.input(3, "n"), g.input("m", "n"), g.input("m", dtype=I64)
    added = g(Scatter, g(Tanh, x), index, g(Multiply, y, y), kind="sum")
    planned = check(g.finish(g(Tanh, added)), ENVS)
    assert sorted(planned.kinds) == ["loop", "loop", "loop", "whole"]


@pytest.mark.parametrize("kind", [ArgSort, TopK])
def test_order_of_what_a_kernel_computes(kind: type[ArgSort | TopK]) -> None:
    g = FunctionBuilder()
    attributes = {"k": (Size.const(1),)} if kind is TopK else {}
    order = g(kind, g(Tanh, g.input("m", "n")), **attributes)
    planned = check(g.finish(g(Convert, order, dtype=F32)), ENVS[1:])
    assert planned.kinds == ["loop", "whole", "loop"]
    for kernel in planned.kernels.values():
        text = str(ModuleOp([kernel.clone()]))
        assert str(Parser(new_context(), text).parse_module()) == text


def test_a_size_that_the_program_reads() -> None:
    """Rows of x where a mask holds; a count of them that nothing but the size connects with the mask."""
    g = FunctionBuilder()
    x, marks = g.input("m", "n"), g.input("m", dtype=I64)
    u = Size.symbol("u")
    mask = g(Compare, marks, g.full(1, "m", dtype=I64), direction="ge")
    count = g(ReadSize, g(Reduce, g(Convert, mask, dtype=I64), axes=(0,), kind="sum"), size=(u,))
    places = g(Compress, mask, count, size=(u,))
    chosen = g(Tanh, g(Gather, x, places, slice_sizes=(1, Size.symbol("n")), **ROWS))
    numbers = g(Multiply, g(Iota, axis=0, dtype=I64, sizes=(u,)), g(Iota, axis=0, dtype=I64, sizes=(u,)))
    function = g.finish(chosen, numbers)
    verify_graph(function)
    planned = check(function, ENVS)
    assert sum(isinstance(op, ReadOp) for op in planned.program.body.block.ops) == 1
