"""Products of narrow elements as parts of compiled programs: op by op = plans in numpy = machine code."""

from typing import Any

import numpy as np
import pytest
from xdsl.utils.exceptions import VerifyException

from anyshape.codegen.llvm import LoadedCode, host_target, object_symbols
from anyshape.codegen.microkernels import part_object, parts_of
from anyshape.dialects.dhlo import (
    Add,
    BroadcastInDim,
    ConstantStore,
    Convert,
    DotGeneral,
    Gelu,
    Multiply,
    Transpose,
    Weight,
)
from anyshape.dialects.dhlo.graph import FunctionBuilder
from anyshape.dialects.dtypes import BF16, F16, F32, F64, I8, I32, I64, U8, DType
from anyshape.dialects.sizes import sizes_of
from anyshape.support.machine import host_machine
from anyshape.symbolic import Size
from tests.codegen.contract.blocks import random
from tests.kernels.harness import check

M, N, K = (Size.symbol(name) for name in "mnk")
MATRIX = {"lhs_contract": (1,), "rhs_contract": (0,)}
LINEAR = {"lhs_contract": (1,), "rhs_contract": (1,)}
ENVS = [{"m": m, "n": n, "k": k} for m, n, k in ((1, 3, 5), (0, 2, 3), (7, 65, 64), (40, 17, 1), (3, 4, 0))]


def weight(g: FunctionBuilder, store: ConstantStore, shape: tuple[int, ...], dtype: DType) -> Any:
    return g.add(Weight.of_array(random(np.random.default_rng(1), shape, dtype.name), store)).result


@pytest.mark.parametrize("dtype", [BF16, F16], ids=str)
def test_two_layers(dtype: DType) -> None:
    """bias and gelu in the epilogue of the first product; k is odd in the second."""
    g, store = FunctionBuilder(), ConstantStore()
    x = g.input(M, 96, dtype=dtype)
    hidden = g(DotGeneral, x, weight(g, store, (71, 96), dtype), **LINEAR)
    row = g(BroadcastInDim, weight(g, store, (71,), dtype), dimensions=(1,), sizes=sizes_of(hidden.type))
    hidden = g(Gelu, g(Add, hidden, row))
    result = g(DotGeneral, hidden, weight(g, store, (71, 130), dtype), **MATRIX)
    planned = check(g.finish(result), ENVS, store, relative=2e-2 if dtype is BF16 else 2e-3)
    assert planned.kinds == ["contract", "contract"]


@pytest.mark.parametrize("dtype", [BF16, F16], ids=str)
def test_two_values_summed_in_f32(dtype: DType) -> None:
    g = FunctionBuilder()
    lhs = g(Transpose, g.input(K, M, dtype=dtype), permutation=(1, 0))
    result = g(DotGeneral, lhs, g.input(K, N, dtype=dtype), **MATRIX, dtype=F32)
    assert check(g.finish(result), ENVS, relative=1e-5).kinds == ["contract"]


def test_quantised_layer() -> None:
    """i8 · i8 → i32, scaled to f32 in the epilogue; nothing between is in memory."""
    g, store = FunctionBuilder(), ConstantStore()
    sums = g(DotGeneral, g.input(M, 99, dtype=I8), weight(g, store, (70, 99), I8), **LINEAR, dtype=I32)
    scales = g(BroadcastInDim, weight(g, store, (70,), F32), dimensions=(1,), sizes=sizes_of(sums.type))
    planned = check(g.finish(g(Multiply, g(Convert, sums, dtype=F32), scales)), ENVS, store)
    assert planned.kinds == ["contract"]


def test_bytes_that_are_no_constants() -> None:
    g = FunctionBuilder()
    result = g(DotGeneral, g.input(M, K, dtype=I8), g.input(K, N, dtype=I8), **MATRIX, dtype=I32)
    assert check(g.finish(result), ENVS).kinds == ["contract"]


def test_wider_results_in_loops() -> None:
    """No tiles exist for i8 → i64: loops convert each factor."""
    g, store = FunctionBuilder(), ConstantStore()
    result = g(DotGeneral, g.input(M, 99, dtype=I8), weight(g, store, (70, 99), I8), **LINEAR, dtype=I64)
    check(g.finish(result), ENVS, store)


@pytest.mark.parametrize(("operands", "result"), [(F32, BF16), (I32, I8), (I8, F32), (I8, U8), (F64, I64), (BF16, F16)])
def test_results_that_are_not_wider_are_refused(operands: DType, result: DType) -> None:
    g = FunctionBuilder()
    with pytest.raises(VerifyException, match=f"{operands} operands have no {result} result"):
        g(DotGeneral, g.input(M, K, dtype=operands), g.input(K, N, dtype=operands), **MATRIX, dtype=result)


def test_parts_define_each_symbol_once_and_link_together() -> None:
    machine, target = host_machine(), host_target()
    objects = {part: part_object(target, machine, part) for part in parts_of(("f32", "bf16"))}
    assert list(map(str, objects)) == ["contract_f32", "contract_bf16", "attend_f32", "attend_bf16"]
    symbols = [object_symbols(data) for data in objects.values()]
    defined = [name for table in symbols if table is not None for name in table.defined]
    assert len(defined) == len(set(defined))
    LoadedCode(list(objects.values()))
