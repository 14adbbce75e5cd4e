"""The plans of well-known groups as text: `goldens/NAME.mlir`, rewritten by `pytest tests/kernels --update-goldens`."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue
from xdsl.parser import Parser

from anyshape.dialects.context import new_context
from anyshape.dialects.dhlo import (
    Add,
    Attention,
    BroadcastInDim,
    ConstantStore,
    Convert,
    Convolution,
    DotGeneral,
    Gelu,
    LayerNorm,
    Multiply,
    Reduce,
    Relu,
    Select,
    Softmax,
    Subtract,
    Transpose,
    Weight,
)
from anyshape.dialects.dhlo.graph import FunctionBuilder
from anyshape.dialects.dtypes import BOOL, F32, I64
from anyshape.symbolic import Size
from tests.kernels.harness import plan

GOLDENS = Path(__file__).with_name("goldens")
B, M, N, S = (Size.symbol(name) for name in ("b", "m", "n", "s"))
Graph = Callable[[FunctionBuilder, ConstantStore], SSAValue]


def softmax(g: FunctionBuilder, store: ConstantStore) -> SSAValue:
    return g(Softmax, g.input(M, N), axis=1)


def layer_norm_with_residual(g: FunctionBuilder, store: ConstantStore) -> SSAValue:
    total = g(Add, g.input(B, S, 384), g.input(B, S, 384))
    return g(LayerNorm, total, g.input(384), g.input(384), axes=(2,), epsilon=1e-5)


def product_with_bias_and_gelu(g: FunctionBuilder, store: ConstantStore) -> SSAValue:
    weight = g.add(Weight.of_array(np.arange(384 * 96, dtype=np.float32).reshape(96, 384), store)).result
    product = g(DotGeneral, g.input(B, S, 384), weight, lhs_contract=(2,), rhs_contract=(1,))
    return g(Gelu, g(Add, product, g(BroadcastInDim, g.input(96), dimensions=(2,), sizes=(B, S, 96))))


def convolution_with_bias_and_relu(g: FunctionBuilder, store: ConstantStore) -> SSAValue:
    filters = g.add(Weight.of_array(np.arange(8 * 4 * 9, dtype=np.float32).reshape(8, 4, 3, 3), store)).result
    halves = ((M + 1) // 2, (N + 1) // 2)
    places = {
        "window_strides": (2, 2),
        "padding": (1, 1),
        "lhs_dilation": (1, 1),
        "rhs_dilation": (1, 1),
        "sizes": halves,
    }
    sums = g(Convolution, g.input(B, 8, M, N), filters, **places, feature_group_count=2)
    bias = g(BroadcastInDim, g.input(8), dimensions=(1,), sizes=(B, 8, *halves))
    return g(Relu, g(Add, sums, bias))


def product_of_normalised_rows(g: FunctionBuilder, store: ConstantStore) -> SSAValue:
    weight = g.add(Weight.of_array(np.arange(384 * 96, dtype=np.float32).reshape(96, 384), store)).result
    rows = g(LayerNorm, g.input(B, S, 384), g.input(384), g.input(384), axes=(2,), epsilon=1e-5)
    return g(DotGeneral, rows, weight, lhs_contract=(2,), rhs_contract=(1,))


def column_sum(g: FunctionBuilder, store: ConstantStore) -> SSAValue:
    return g(Reduce, g.input(M, N), axes=(0,))


def attention_with_transposes(g: FunctionBuilder, store: ConstantStore) -> SSAValue:
    heads = [g(Transpose, g.input(B, S, 12, 32), permutation=(0, 2, 1, 3)) for _ in range(3)]
    return g(Transpose, g(Attention, *heads, g.input(B, 1, 1, S), scale=0.125), permutation=(0, 2, 1, 3))


def mask_broadcast(g: FunctionBuilder, store: ConstantStore) -> SSAValue:
    """scores + (1 − mask) · −10⁹, from the mask of tokens [b, s] to scores [b, 1, s, s]; the mask may have a batch of 1."""
    mask = g(Convert, g.input("o", S, dtype=I64), dtype=F32)
    wide = g(BroadcastInDim, mask, dimensions=(0, 3), sizes=(B, 1, S, S))
    hidden = g(Multiply, g(Subtract, g.full(1.0, B, 1, S, S), wide), g.full(-1e9, B, 1, S, S))
    return g(Add, g.input(B, 1, S, S), hidden)


def masked_scaled_softmax(g: FunctionBuilder, store: ConstantStore) -> SSAValue:
    sizes = (B, 12, S, S)
    scaled = g(Multiply, g.input(*sizes), g.full(0.125, *sizes))
    mask = g(BroadcastInDim, g.input(B, 1, 1, S, dtype=BOOL), dimensions=(0, 1, 2, 3), sizes=sizes)
    return g(Softmax, g(Select, mask, scaled, g.full(-1e9, *sizes)), axis=3)


GRAPHS: tuple[Graph, ...] = (
    softmax, layer_norm_with_residual, product_with_bias_and_gelu, product_of_normalised_rows, column_sum,
    attention_with_transposes, mask_broadcast,
    masked_scaled_softmax, convolution_with_bias_and_relu,
)  # fmt: skip


@pytest.mark.parametrize("graph", GRAPHS, ids=lambda graph: graph.__name__)
def test_plan(graph: Graph, update_goldens: bool) -> None:
    """Kernels whose text is the golden file's and is read back."""
    g, store = FunctionBuilder(), ConstantStore()
    kernels = plan(g.finish(graph(g, store)), store).kernels.values()
    text = str(ModuleOp([kernel.clone() for kernel in kernels])) + "\n"
    golden = GOLDENS / f"{graph.__name__}.mlir"
    if update_goldens:
        golden.write_text(text, encoding="utf-8")
    assert text == golden.read_text(encoding="utf-8")
    assert str(Parser(new_context(), text).parse_module()) + "\n" == text
