"""The matrix derived from the ops: op × sample × dtype, each at sizes 0, 1, 7 and 33."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch
from xdsl.dialects.builtin import ModuleOp
from xdsl.parser import Parser
from xdsl.pattern_rewriter import PatternRewriter

from anyshape.dialects.context import new_context
from anyshape.dialects.dhlo import Arg, ConstantStore, DhloOp, Sample, Sym, Weight
from anyshape.dialects.dhlo.interpreter import evaluate, run_op
from anyshape.dialects.dhlo.pointwise import evaluate_pointwise
from anyshape.dialects.dhlo.samples import (
    sample_function,
    sample_inputs,
    sample_op,
    sample_symbols,
)
from anyshape.dialects.dhlo.verify import verify_graph
from anyshape.dialects.dtypes import BF16, BY_NAME, F16, F32, DType, dtype_of_numpy
from anyshape.symbolic import parse_size
from tests.op_matrix import environments
from tests.tolerances import COMPUTED, EXACT, REFERENCE, assert_close

TORCH = {
    "bool": torch.bool, "i8": torch.int8, "u8": torch.uint8, "i16": torch.int16, "i32": torch.int32, "i64": torch.int64,
    "f16": torch.float16, "bf16": torch.bfloat16, "f32": torch.float32, "f64": torch.float64,
}  # fmt: skip

CASES = [
    pytest.param(cls, sample, dtype, id=f"{name.removeprefix('dhlo.')}-{number}-{dtype}")
    for name, cls in DhloOp.OPS.items()
    for number, sample in enumerate(cls.SAMPLES)
    for dtype in (sample.dtypes if sample.operands else (F32,))
]


def is_pointwise(cls: type[DhloOp]) -> bool:
    return cls.scalar is not DhloOp.scalar or cls.element is not DhloOp.element


def is_composite(cls: type[DhloOp]) -> bool:
    return cls.expand is not DhloOp.expand


def from_torch(result: torch.Tensor, dtype: DType) -> np.ndarray[Any, Any]:
    if dtype == BF16:
        return result.to(torch.float64).numpy().astype(dtype.numpy)
    return result.numpy().astype(dtype.numpy) if dtype.is_float else result.to(TORCH[dtype.name]).numpy()


def by_torch(sample: Sample, inputs: Sequence[np.ndarray[Any, Any]], env: dict[str, int]) -> torch.Tensor:
    """The oracle's result, floats in f64."""
    assert sample.oracle is not None
    packet, overload = sample.oracle.target.removeprefix("aten.").rsplit(".", 1)
    target = getattr(getattr(torch.ops.aten, packet), overload)

    def argument(value: Any) -> Any:
        match value:
            case Arg(index):
                array = inputs[index]
                is_float = dtype_of_numpy(array.dtype).is_float
                return torch.from_numpy(np.array(array.astype(np.float64) if is_float else array))
            case Sym(text):
                return parse_size(text).evaluate(env)
            case DType():
                return TORCH[value.name]
            case list() | tuple():
                return [argument(item) for item in value]
            case _:
                return value

    keywords = {k: argument(v) for k, v in sample.oracle.keywords.items()}
    result = target(*argument(sample.oracle.arguments), **keywords)
    return result[sample.oracle.result] if isinstance(result, tuple) else result


@pytest.mark.parametrize(("cls", "sample", "dtype"), CASES)
def test_text_and_rules(cls: type[DhloOp], sample: Sample, dtype: DType) -> None:
    """Built ops verify; print → parse → print is identical."""
    function = sample_function(cls, sample, dtype)
    module = ModuleOp([function])
    verify_graph(function)
    text = str(module)
    parsed = Parser(new_context(), text).parse_module()
    parsed.verify()
    assert str(parsed) == text
    assert parsed.is_structurally_equivalent(module)


@pytest.mark.parametrize(("cls", "sample", "dtype"), [case for case in CASES if case.values[0] is not Weight])
def test_reference(cls: type[DhloOp], sample: Sample, dtype: DType) -> None:
    """reference = PyTorch in f64; element = reference; expand = reference."""
    function = sample_function(cls, sample, dtype)
    op = sample_op(function)
    expanded = expansion(cls, sample, dtype) if is_composite(cls) else None
    rng = np.random.default_rng(7)
    for env in environments(sample_symbols(function), sample):
        arguments = sample_inputs(function, sample, env, rng)
        inputs = arguments[: len(op.operands)]
        (reference,) = run_op(op, inputs, env)
        result = op.result_dtype
        if sample.oracle is not None:
            expected = from_torch(by_torch(sample, inputs, env), result)
            assert_close(reference, expected, REFERENCE.get(result, EXACT), f"reference, {env}")
        computed = COMPUTED.get(result, EXACT)
        if is_pointwise(cls):
            assert_close(evaluate_pointwise(op, inputs, env), reference, computed, f"element, {env}")
        if expanded is not None:
            (value,) = evaluate(expanded, arguments, ConstantStore())
            assert_close(value, reference, computed, f"expand, {env}")


def expansion(cls: type[DhloOp], sample: Sample, dtype: DType) -> Any:
    """The sample's function with its op expanded."""
    function = sample_function(cls, sample, dtype)
    op = sample_op(function)
    rewriter = PatternRewriter(op)
    rewriter.replace(op, [], list(op.expand(rewriter)))
    verify_graph(function)
    assert not any(isinstance(each, cls) for each in function.body.block.ops)
    return function


def test_every_op_has_a_sample_of_each_kind() -> None:
    assert len(DhloOp.OPS) >= 65
    without_oracle = [name for name, cls in DhloOp.OPS.items() if not any(sample.oracle for sample in cls.SAMPLES)]
    # PyTorch has no block-quantised weights: those are compared with the package `gguf` in test_block_formats.
    blocks = {"dhlo.dequantize", "dhlo.quantised_dot"}
    bits = {"dhlo.rng_bit_generator"}  # compared with its authors' known answers in test_random
    data = {
        "dhlo.check",
        "dhlo.compress",
        "dhlo.read_size",
        "dhlo.row_order",
    }  # compared with PyTorch's `nonzero`, `unique` and errors in test_data_sizes and bugs/test_singular_matrices
    data |= {"dhlo.suppress_overlaps"}  # compared with ONNX's evaluator in frontends/onnx/test_sorting
    # Compared with PyTorch in end_to_end/test_pooling: it computes the gradients from other arguments.
    windows = {"dhlo.adaptive_avg_pool_gradient", "dhlo.adaptive_windows", "dhlo.avg_pool_gradient"}
    windows |= {"dhlo.folded_windows", "dhlo.max_pool_gradient"}
    layers = {
        "dhlo.recurrence"
    }  # compared with PyTorch's layers in end_to_end/test_recurrent: it has no cell without the inputs' product
    # Parts of factorisations, compared with PyTorch's whole ones in end_to_end/test_linear_algebra; signs of vectors are free.
    matrices = {"dhlo.lu", "dhlo.lu_pivots", "dhlo.pivot_order"}
    matrices |= {"dhlo.apply_reflectors", "dhlo.householder_qr", "dhlo.orthogonal_rows"}
    assert (
        set(without_oracle) - windows - layers - matrices
        <= data | {"dhlo.chunk", "dhlo.constant", "dhlo.weight", "dhlo.size", "dhlo.iota"} | blocks | bits
    )
    assert {str(case.values[2]) for case in CASES} == set(BY_NAME)
    assert F16 in REFERENCE
