"""Products that compute their left factor themselves: every kind of row, all sizes, the same bytes as when it comes from memory."""

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np
import pytest
from xdsl.ir import SSAValue

from anyshape.dialects.dhlo import (
    Add,
    BroadcastInDim,
    ConstantStore,
    Convert,
    DotGeneral,
    Gather,
    Gelu,
    LayerNorm,
    Multiply,
    Reshape,
    RmsNorm,
    Select,
    Silu,
    Slice,
    Softmax,
    Tanh,
    Weight,
)
from anyshape.dialects.dhlo.graph import FunctionBuilder
from anyshape.dialects.dtypes import BF16, BOOL, F16, F32, F64, I32, I64, DType
from anyshape.dialects.tile import ContractOp, KernelOp
from anyshape.driver import build
from anyshape.fusion import Proposal, decide_fusion
from anyshape.kernels import why_no_prologue
from anyshape.support.machine import Machine
from anyshape.symbolic import Size
from tests.kernels.harness import check, compiled, inputs_of, plan

B, S, N, K, H = (Size.symbol(name) for name in "bsnkh")
ENVIRONMENTS: list[Mapping[str, int]] = [
    dict(zip("bsnkh", sizes, strict=True))
    for sizes in (
        (1, 1, 1, 1, 1), (2, 7, 33, 300, 2), (0, 3, 4, 5, 1), (2, 3, 0, 5, 0), (1, 300, 70, 2, 3), (3, 33, 300, 7, 1),
        (2, 2, 2, 0, 2), (1, 2, 130, 1000, 1), (5, 100, 200, 65, 1),
    )
]  # fmt: skip
Rows = Callable[[FunctionBuilder], SSAValue]


def times_weights(g: FunctionBuilder, rows: SSAValue, depth: Size = K, dtype: DType = F32) -> SSAValue:
    return g(DotGeneral, rows, g.input(N, depth, dtype=dtype), lhs_contract=(2,), rhs_contract=(1,))


def rms_norm(g: FunctionBuilder) -> SSAValue:
    return times_weights(g, g(RmsNorm, g.input(B, S, K), g.input(K), axes=(2,), epsilon=1e-5))


def layer_norm_and_what_follows(g: FunctionBuilder) -> SSAValue:
    x = g.input(B, S, K)
    out = times_weights(g, g(LayerNorm, x, g.input(K), g.input(K), axes=(2,), epsilon=1e-5))
    bias = g(BroadcastInDim, g.input(N), dimensions=(2,), sizes=(B, S, N))
    return g(Add, g(Gelu, g(Add, out, bias)), g.input(B, S, N))


def flattened_rows(g: FunctionBuilder) -> SSAValue:
    """The product reads the tokens of all batches as one axis, as `addmm` does."""
    rows = g(RmsNorm, g.input(B, S, K), axes=(2,), epsilon=1e-5)
    flat = g(Reshape, rows, sizes=(B * S, K))
    return g(Tanh, g(DotGeneral, flat, g.input(K, N), lhs_contract=(1,), rhs_contract=(0,)))


def gated(g: FunctionBuilder) -> SSAValue:
    return times_weights(g, g(Multiply, g(Silu, g.input(B, S, K)), g.input(B, S, K)))


def halves_of_a_row(g: FunctionBuilder) -> SSAValue:
    both = g.input(B, S, 2 * K)
    left, right = (
        g(Slice, both, starts=(0, 0, start), sizes=(B, S, K), strides=(1, 1, 1)) for start in (Size.const(0), K)
    )
    return times_weights(g, g(Multiply, g(Gelu, left), right))


def converted(g: FunctionBuilder) -> SSAValue:
    return times_weights(g, g(Convert, g.input(B, S, K, dtype=F16), dtype=F32))


def narrow(g: FunctionBuilder) -> SSAValue:
    rows = g(Multiply, g.input(B, S, K, dtype=BF16), g.input(B, S, K, dtype=BF16))
    return times_weights(g, rows, dtype=BF16)


def wide(g: FunctionBuilder) -> SSAValue:
    return times_weights(g, g(RmsNorm, g.input(B, S, K, dtype=F64), axes=(2,), epsilon=1e-9), dtype=F64)


def gathered(g: FunctionBuilder) -> SSAValue:
    table, chosen = (
        g.input(7, K),
        g(Select, g.input(B, S, dtype=BOOL), g.full(3, B, S, dtype=I64), g.full(6, B, S, dtype=I64)),
    )
    rows = g(
        Gather, table, chosen, offset_dims=(2,), collapsed_slice_dims=(0,), start_index_map=(0,), index_vector_dim=2,
        slice_sizes=(Size.const(1), K),
    )  # fmt: skip
    return times_weights(g, g(Multiply, rows, g.full(0.5, B, S, K)))


def weights_of_scores(g: FunctionBuilder) -> SSAValue:
    """softmax(scores + mask) · values for each batch and head: rows of a product with batch axes."""
    mask = g(BroadcastInDim, g.input(B, K), dimensions=(0, 3), sizes=(B, H, S, K))
    weights = g(Softmax, g(Add, g.input(B, H, S, K), mask), axis=3)
    return g(
        DotGeneral,
        weights,
        g.input(B, H, K, N),
        lhs_batch=(0, 1),
        rhs_batch=(0, 1),
        lhs_contract=(3,),
        rhs_contract=(2,),
    )


def two_axes_along_a_row(g: FunctionBuilder) -> SSAValue:
    """Σ over h and k: a row is two axes, and each element of one of them has its own scale."""
    scale = g(BroadcastInDim, g.input(H), dimensions=(2,), sizes=(B, S, H, K))
    rows = g(Multiply, g.input(B, S, H, K), scale)
    return g(DotGeneral, rows, g.input(N, H, K), lhs_contract=(2, 3), rhs_contract=(1, 2))


ALL: tuple[Rows, ...] = (
    rms_norm, layer_norm_and_what_follows, flattened_rows, gated, halves_of_a_row, converted, narrow, wide, gathered,
    weights_of_scores, two_axes_along_a_row,
)  # fmt: skip


@pytest.mark.parametrize("rows", ALL, ids=lambda rows: rows.__name__)
def test_rows(rows: Rows) -> None:
    g = FunctionBuilder()
    planned = check(g.finish(rows(g)), ENVIRONMENTS, relative=3e-2 if rows is narrow else 2e-4)
    assert planned.kinds == ["contract"]
    assert all(prologue_of(kernel) is not None for kernel in planned.kernels.values())


def prologue_of(kernel: KernelOp) -> object:
    product = kernel.body.block.last_op
    assert isinstance(product, ContractOp)
    return product.prologue


def test_packed_weights_and_the_same_input_behind_the_product() -> None:
    """x + W·norm(x): x is read by the prologue and by the epilogue."""
    g, store = FunctionBuilder(), ConstantStore()
    rng = np.random.default_rng(5)
    x = g.input(B, S, 96)
    weight = g.add(Weight.of_array(rng.standard_normal((96, 96)).astype(np.float32), store)).result
    gain = g.add(Weight.of_array(rng.standard_normal(96).astype(np.float32), store)).result
    rows = g(RmsNorm, x, gain, axes=(2,), epsilon=1e-5)
    out = g(Add, g(DotGeneral, rows, weight, lhs_contract=(2,), rhs_contract=(1,)), x)
    planned = check(g.finish(out), ENVIRONMENTS, store)
    assert planned.kinds == ["contract"] and "packed" in str(next(iter(planned.kernels.values())))


@pytest.mark.parametrize("rows", [rms_norm, weights_of_scores, narrow], ids=lambda rows: rows.__name__)
def test_the_bytes_of_a_result_do_not_depend_on_the_prologue(rows: Rows, monkeypatch: pytest.MonkeyPatch) -> None:
    g = FunctionBuilder()
    func = g.finish(rows(g))
    inputs = [inputs_of(func, env, number) for number, env in enumerate(ENVIRONMENTS)]
    monkeypatch.setattr(build, "why_no_prologue", lambda *_: None)
    fused = [compiled(func)(each) for each in inputs]
    monkeypatch.setattr(build, "why_no_prologue", lambda *_: "no")
    apart = [compiled(func)(each) for each in inputs]
    for one, other in zip(fused, apart, strict=True):
        assert [each.tobytes() for each in one] == [each.tobytes() for each in other]


def two_results(g: FunctionBuilder) -> list[SSAValue]:
    rows = g(Gelu, g.input(B, S, K))
    return [times_weights(g, rows), g(Tanh, rows)]


def two_products(g: FunctionBuilder) -> list[SSAValue]:
    rows = g(Softmax, g.input(B, S, K), axis=2)
    return [times_weights(g, rows), times_weights(g, rows)]


def reduced_along_a_part(g: FunctionBuilder) -> list[SSAValue]:
    rows = g(Softmax, g.input(B, S, H, K), axis=3)
    return [g(DotGeneral, rows, g.input(N, H, K), lhs_contract=(2, 3), rhs_contract=(1, 2))]


def columns(g: FunctionBuilder) -> list[SSAValue]:
    rows = g(Softmax, g.input(B, K, S), axis=2)
    return [g(DotGeneral, rows, g.input(N, K), lhs_contract=(1,), rhs_contract=(1,))]


def both_sides(g: FunctionBuilder) -> list[SSAValue]:
    rows = g(Gelu, g.input(S, K))
    return [g(DotGeneral, rows, rows, lhs_contract=(1,), rhs_contract=(1,))]


@pytest.mark.parametrize(
    ("graph", "reason"),
    [
        (two_results, "its kernel has other results too"), (two_products, "it has other users beside the product"),
        (reduced_along_a_part, "its reduction is not along the row"), (columns, "in another order"),
        (both_sides, "it has other users beside the product"),
    ],
)  # fmt: skip
def test_what_stays_apart(graph: Callable[[FunctionBuilder], list[SSAValue]], reason: str) -> None:
    g = FunctionBuilder()
    planned = plan(g.finish(*graph(g)))
    assert all(prologue_of(kernel) is None for name, kernel in planned.kernels.items() if name.endswith("contract"))
    assert any(reason in edge.reason for edge in planned.decision.edges), planned.decision.edges


def test_elements_without_tiles_stay_apart() -> None:
    g = FunctionBuilder()
    rows = g(Multiply, g.input(B, S, K, dtype=I32), g.input(B, S, K, dtype=I32))
    planned = plan(g.finish(times_weights(g, rows, dtype=I32)))
    assert planned.kinds == ["loop", "contract"]
    assert any("no register tiles" in edge.reason for edge in planned.decision.edges)


def test_many_threads_over_few_columns_pay_for_a_cheap_row_only() -> None:
    """64 columns are one thread's; with more, what each of 64 threads computes again must be little beside what it multiplies."""
    machine = Machine(vector_bits=512, threads=64, cores=64)
    seen: dict[tuple[int, str], str | None] = {}

    def judge(columns: int, name: str, make: Callable[[FunctionBuilder, SSAValue], SSAValue]) -> None:
        g = FunctionBuilder()
        rows = make(g, g.input(B, S, K))
        func = g.finish(g(DotGeneral, rows, g.input(columns, K), lhs_contract=(2,), rhs_contract=(1,)))

        def note(proposal: Proposal) -> str | None:
            seen[columns, name] = why_no_prologue(proposal, machine)
            assert why_no_prologue(proposal, replace(machine, threads=1, cores=1)) is None
            return seen[columns, name]

        decide_fusion(func, note)

    for columns in (64, 512, 65536):
        judge(columns, "scale", lambda g, x: g(Multiply, x, x))
        judge(columns, "gelu", lambda g, x: g(Gelu, x))
    assert seen[64, "gelu"] is None and seen[65536, "scale"] is None
    reason = seen[512, "gelu"]
    assert reason is not None and "threads would each compute a row" in reason
