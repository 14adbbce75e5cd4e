"""What becomes one kernel, what must not, and that every value in memory has its reason."""

from itertools import pairwise
from random import Random

import numpy as np
import pytest
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue

from anyshape.dialects.dhlo import (
    Abs,
    Add,
    Array,
    Attention,
    BroadcastInDim,
    ConstantStore,
    DotGeneral,
    Gather,
    Gelu,
    LayerNorm,
    Multiply,
    Negate,
    Reduce,
    Reshape,
    Select,
    Slice,
    Softmax,
    Subtract,
    Tanh,
    Transpose,
    Weight,
)
from anyshape.dialects.dhlo.fusion import FusionOp
from anyshape.dialects.dhlo.graph import FunctionBuilder
from anyshape.dialects.dtypes import BOOL, I64
from anyshape.dialects.sizes import sizes_of
from anyshape.fusion import Decision, decide_fusion
from anyshape.symbolic import Size
from tests.kernels.graphs import random_function
from tests.kernels.harness import Planned, check, plan, prepared

B, H, S, M, N, K = (Size.symbol(name) for name in ("b", "h", "s", "m", "n", "k"))
SIZES = [{"m": 5, "n": 7, "k": 3}, {"m": 1, "n": 2, "k": 1}, {"m": 0, "n": 1, "k": 2}]


def reasons(planned: Planned) -> set[str]:
    return {edge.reason for edge in planned.decision.edges}


def unexplained(func: FuncOp, decision: Decision) -> list[tuple[Operation, Operation]]:
    """Edges whose value goes through memory for no reason given."""
    known = {(edge.producer, edge.consumer) for edge in decision.edges}
    found: list[tuple[Operation, Operation]] = []
    for op in func.body.block.ops:
        for user in (use.operation for result in op.results for use in result.uses):
            homes = decision.homes_of(user)
            if decision.homes_of(op) and homes and not set(homes) <= set(decision.homes_of(op)):
                found += [] if (op, user) in known else [(op, user)]
    return found


# -- one kernel -----------------------------------------------------------------------------------------------------


def test_softmax_is_one_kernel() -> None:
    g = FunctionBuilder()
    assert plan(g.finish(g(Softmax, g.input(M, N), axis=1))).kinds == ["reduce"]


def test_masked_scaled_softmax_is_one_kernel() -> None:
    g = FunctionBuilder()
    x, mask = g.input(B, H, S, S), g.input(B, 1, S, S, dtype=BOOL)
    sizes = (B, H, S, S)
    scaled = g(Multiply, x, g.full(0.125, *sizes))
    wide = g(BroadcastInDim, mask, dimensions=(0, 1, 2, 3), sizes=sizes)
    func = g.finish(g(Softmax, g(Select, wide, scaled, g.full(-1e9, *sizes)), axis=3))
    assert plan(func).kinds == ["reduce"]


def test_layer_norm_with_residual_is_one_kernel() -> None:
    g = FunctionBuilder()
    x, y, scale, shift = g.input(M, S, 384), g.input(M, S, 384), g.input(384), g.input(384)
    total = g(Add, x, y)
    norm = g(LayerNorm, total, scale, shift, axes=(2,), epsilon=1e-5)
    assert plan(g.finish(norm, total)).kinds == ["reduce"]


def layer(g: FunctionBuilder, x: SSAValue, store: ConstantStore, seed: int) -> SSAValue:
    """gelu(x · W + b), W and b constants."""
    numbers = [[Random(seed + row * 8 + column).random() for column in range(8)] for row in range(8)]
    weight, bias = (g.add(Weight.of_array(_array(part), store)).result for part in (numbers, numbers[0]))
    product = g(DotGeneral, x, weight, lhs_contract=(1,), rhs_contract=(0,))
    return g(Gelu, g(Add, product, g(BroadcastInDim, bias, dimensions=(1,), sizes=sizes_of(x.type))))


def _array(numbers: object) -> Array:
    return np.array(numbers, np.float32)


def test_bias_and_gelu_are_part_of_the_product() -> None:
    g, store = FunctionBuilder(), ConstantStore()
    assert plan(g.finish(layer(g, g.input(M, 8), store, 0)), store).kinds == ["contract"]


def test_six_equal_layers_have_the_kernels_of_one() -> None:
    g, store = FunctionBuilder(), ConstantStore()
    x = g.input(M, 8)
    scale, shift = (g.add(Weight.of_array(_array([value] * 8), store)).result for value in (1.0, 0.5))
    for number in range(6):
        x = g(LayerNorm, g(Add, x, layer(g, x, store, 100 * number)), scale, shift, axes=(1,), epsilon=1e-5)
    planned = plan(g.finish(x), store)
    assert planned.kinds == ["contract", "reduce"] * 6
    assert len(planned.kernels) == 2


def test_symbols_do_not_make_kernels() -> None:
    """The same group over other symbols is the same kernel."""
    g = FunctionBuilder()
    planned = plan(g.finish(g(Softmax, g.input(M, N), axis=1), g(Softmax, g.input(N, K), axis=1)))
    assert len(planned.fusions) == 2
    assert len(planned.kernels) == 1 + 3, "one of the first form, three of the second"


def test_attention_takes_the_transposes_around_it() -> None:
    g = FunctionBuilder()
    heads = [g(Transpose, g.input(B, S, 4, 16), permutation=(0, 2, 1, 3)) for _ in range(3)]
    out = g(Transpose, g(Attention, *heads, scale=0.25), permutation=(0, 2, 1, 3))
    assert plan(g.finish(g(Reshape, out, sizes=(B, S, 64)))).kinds == ["attend"]


# -- not one kernel -------------------------------------------------------------------------------------------------


def test_a_cycle_through_another_kernel_is_refused() -> None:
    """x is used by a softmax and by the product that takes the softmax: written by the first, or by itself."""
    g = FunctionBuilder()
    x = g(Tanh, g.input(N, N))
    soft = g(Softmax, x, axis=1)
    product = g(DotGeneral, soft, x, lhs_contract=(1,), rhs_contract=(0,))
    check(g.finish(g(Add, product, x)), SIZES)


def test_a_cycle_through_a_repeated_broadcast_is_refused() -> None:
    """A value whose broadcast is copied into two kernels, the second of which depends on the first."""
    g = FunctionBuilder()
    row = g(Tanh, g.input(N))
    wide = g(BroadcastInDim, row, dimensions=(1,), sizes=(N, N))
    first = g(Add, wide, g.input(N, N))
    product = g(DotGeneral, first, first, lhs_contract=(1,), rhs_contract=(0,))
    last = g(Add, g(Reduce, g(Add, product, wide), axes=(1,)), row)
    check(g.finish(last, g(Negate, row)), SIZES)


def test_a_product_that_others_use_too_is_a_kernel_of_its_own() -> None:
    g = FunctionBuilder()
    product = g(DotGeneral, g.input(M, K), g.input(K, N), lhs_contract=(1,), rhs_contract=(0,))
    planned = check(g.finish(g(Tanh, product), product), SIZES)
    assert planned.kinds == ["contract", "loop"]


def test_a_chain_of_detours() -> None:
    """Every value is used at once and again after a product, so that any careless choice of outputs makes a cycle."""
    g = FunctionBuilder()
    values = [g.input(N, N)]
    for number in range(6):
        x = g(Tanh, values[-1])
        detour = g(DotGeneral, x, values[number // 2], lhs_contract=(1,), rhs_contract=(number % 2,))
        values.append(g(Add, g(Tanh, detour), g(Transpose, x, permutation=(1, 0)) if number % 2 else x))
    check(g.finish(values[-1], values[3]), SIZES)


def test_a_square_is_not_its_transpose() -> None:
    """x[i, j] + Σ_k x[j, k]: the sum belongs to another row than the one it is added to."""
    g = FunctionBuilder()
    x = g.input(N, N)
    spread = g(BroadcastInDim, g(Reduce, x, axes=(1,)), dimensions=(1,), sizes=(N, N))
    planned = plan(g.finish(g(Add, x, spread)))
    assert len(planned.fusions) == 2
    assert "dhlo.broadcast_in_dim would reduce the same row again for every element" in reasons(planned)


def test_a_transposed_softmax_is_in_memory() -> None:
    g = FunctionBuilder()
    soft = g(Softmax, g.input(N, N), axis=1)
    planned = plan(g.finish(g(Add, soft, g(Transpose, soft, permutation=(1, 0)))))
    assert planned.kinds == ["reduce", "loop"]


def test_a_column_sum_writes_no_whole_tensor() -> None:
    g = FunctionBuilder()
    t = g(Tanh, g.input(M, N))
    planned = plan(g.finish(g(Reduce, t, axes=(0,)), t))
    assert planned.kinds == ["loop", "reduce", "reduce"], "the chunks, then what they gave"
    assert "it has other users and runs over other points" in reasons(planned)


def test_a_dear_op_is_not_computed_for_every_element_of_a_broadcast() -> None:
    g = FunctionBuilder()
    row, x = g.input(N), g.input(M, N)
    wide = [g(BroadcastInDim, g(cls, row), dimensions=(1,), sizes=(M, N)) for cls in (Gelu, Abs)]
    planned = plan(g.finish(g(Add, g(Add, x, wide[0]), wide[1])))
    assert planned.kinds == ["loop", "loop"], "gelu goes through memory, abs does not"
    assert "a broadcast would compute it again for every element" in reasons(planned)


def test_a_dear_row_is_not_computed_for_every_element_of_its_transpose() -> None:
    g = FunctionBuilder()
    column, x = g.input(M), g.input(M, N)
    wide = g(BroadcastInDim, g(Gelu, column), dimensions=(0,), sizes=(M, N))
    assert plan(g.finish(g(Add, x, wide))).kinds == ["loop"], "once a row"
    g = FunctionBuilder()
    column, x = g.input(M), g.input(N, M)
    wide = g(BroadcastInDim, g(Gelu, column), dimensions=(0,), sizes=(M, N))
    planned = plan(g.finish(g(Add, x, g(Transpose, g(Tanh, wide), permutation=(1, 0)))))
    assert planned.kinds == ["loop", "loop"], "every lane has another row"


def test_a_table_is_in_memory() -> None:
    g = FunctionBuilder()
    table, indices = g(Tanh, g.input(N, K)), g.input(M, dtype=I64)
    rows = g(
        Gather, table, indices, offset_dims=(1,), collapsed_slice_dims=(0,), start_index_map=(0,), index_vector_dim=1,
        slice_sizes=(1, K),
    )  # fmt: skip
    planned = plan(g.finish(g(Negate, rows)))
    assert planned.kinds == ["loop", "loop"]
    assert reasons(planned) == {"dhlo.gather reads it at points known only at run time"}


@pytest.mark.parametrize("seed", range(12))
def test_every_edge_has_a_reason(seed: int) -> None:
    func, store = random_function(seed, steps=14)
    main = prepared(func, store)
    assert unexplained(main, decide_fusion(main)) == []


def test_fusions_are_in_order() -> None:
    """Every fusion comes after what it reads."""
    func, store = random_function(5, steps=20)
    seen: set[Operation] = set()
    for op in plan(func, store).func.body.block.ops:
        assert all(value.owner in seen for value in op.operands if isinstance(value.owner, Operation))
        seen.add(op)


# -- size -----------------------------------------------------------------------------------------------------------


def shifted(g: FunctionBuilder, x: SSAValue) -> SSAValue:
    """x[i + 1], the last element left out."""
    (size,) = sizes_of(x.type)
    return g(Slice, x, starts=(1,), sizes=(size - 1,), strides=(1,))


def test_shifts_are_not_computed_again_and_again() -> None:
    """y = x[:-1] + x[1:], 12 times: in one kernel x would be read at 2¹² points for each element."""
    g = FunctionBuilder()
    whole = x = g.input(64)
    for _ in range(12):
        (size,) = sizes_of(x.type)
        x = g(Add, g(Slice, x, starts=(0,), sizes=(size - 1,), strides=(1,)), shifted(g, x))
    planned = check(g.finish(x, whole), [{}])
    assert 2 <= len(planned.fusions) <= 8
    assert max(sum(1 for _ in kernel.walk()) for kernel in planned.kernels.values()) < 200


def test_many_inputs_are_several_kernels() -> None:
    g = FunctionBuilder()
    inputs = [g.input(N) for _ in range(80)]
    total = inputs[0]
    for value in inputs[1:]:
        total = g(Add, total, value)
    planned = check(g.finish(total), [{"n": 3}], compile=False)
    assert all(len(fusion.inputs) <= 32 for fusion in planned.fusions)
    assert len(planned.fusions) == 3


def chain(length: int) -> FuncOp:
    """x = tanh(x) + x, again and again."""
    g = FunctionBuilder()
    x = g.input(N)
    for _ in range(length):
        x = g(Add, g(Tanh, x), x)
    return g.finish(x)


def test_a_chain_is_planned_in_linear_size() -> None:
    sizes = [
        sum(1 for _ in kernel.walk()) for length in (100, 200, 400) for kernel in plan(chain(length)).kernels.values()
    ]
    steps = [after - before for before, after in pairwise(sizes)]
    assert steps[1] == 2 * steps[0], f"ops of the plans: {sizes}"


def test_groups_of_a_large_graph_are_found_without_a_search_for_each() -> None:
    """3,000 ops with detours: users asked for while deciding grow no faster than the square of the graph, and far slower here."""
    g = FunctionBuilder()
    x = g.input(N, N)
    for number in range(500):
        y = g(Subtract, g(Tanh, x), g(BroadcastInDim, g(Reduce, x, axes=(1,)), dimensions=(0,), sizes=(N, N)))
        x = g(Add, y, x) if number % 5 else g(DotGeneral, y, x, lhs_contract=(1,), rhs_contract=(0,))
    func = g.finish(x)
    decision = decide_fusion(func)
    assert 100 <= len(decision.groups) < 1500
    assert not any(isinstance(op, FusionOp) for op in func.body.block.ops), "nothing is rewritten"
