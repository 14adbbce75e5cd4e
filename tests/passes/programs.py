"""Running `dhlo` programs before and after a pass."""

from collections.abc import Iterator, Mapping

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.parser import Parser

from anyshape.dialects.context import new_context
from anyshape.dialects.dhlo import Array, ConstantStore, Weight
from anyshape.dialects.dhlo.graph import facts_of, only_function
from anyshape.dialects.dhlo.interpreter import evaluate
from anyshape.dialects.dtypes import DType
from anyshape.dialects.sizes import dtype_of, sizes_of, symbols_of
from anyshape.driver.pipeline import PASSES
from anyshape.passes.context import GraphContext


def parse(text: str) -> ModuleOp:
    return Parser(new_context(), text).parse_module()


def apply(pass_name: str, module: ModuleOp, store: ConstantStore | None = None) -> None:
    context = new_context() if store is None else GraphContext.of(new_context(), store)
    PASSES[pass_name]().apply(context, module)


def environments(module: ModuleOp, values: range = range(4)) -> Iterator[dict[str, int]]:
    """All symbols equal to each of `values`, then all different, where the facts allow it."""
    function = only_function(module)
    symbols = sorted(symbols_of(function.body.block.arg_types))
    choices = [dict.fromkeys(symbols, value) for value in values]
    choices.append({symbol: 2 + index for index, symbol in enumerate(symbols)})
    for choice in choices:
        if all(relation.evaluate(choice) for relation in facts_of(function).relations()):
            yield choice


def inputs_of(module: ModuleOp, env: Mapping[str, int]) -> list[Array]:
    """Arrays for the arguments: small integers of either sign, so that sums are exact in every order."""
    rng = np.random.default_rng(7)
    arguments = only_function(module).body.block.args
    return [
        _filled(dtype_of(each.type), [size.evaluate(env) for size in sizes_of(each.type)], rng) for each in arguments
    ]


def weights_of(module: ModuleOp) -> dict[str, Array]:
    """An array for every weight of a program that came as text."""
    rng = np.random.default_rng(11)
    weights = [op for op in module.walk() if isinstance(op, Weight)]
    return {
        op.attribute("name"): _filled(op.result_dtype, [size.value for size in op.result_sizes], rng) for op in weights
    }


def _filled(dtype: DType, shape: list[int], rng: np.random.Generator) -> Array:
    return rng.integers(0 if dtype.is_bool or dtype.is_unsigned else -4, 5, shape).astype(dtype.numpy)


def assert_same(before: ModuleOp, after: ModuleOp, store: object = None, rtol: float = 0.0) -> None:
    """Both programs give the same at sizes 0, 1, 2, 3 and at different ones; by bits where `rtol` is 0."""
    count = 0
    for env in environments(before):
        count += 1
        inputs = inputs_of(before, env)
        for expected, got in zip(run(before, inputs, store), run(after, inputs, store), strict=True):
            _assert_equal(got, expected, rtol, str(env))
    assert count >= 3, "too few sizes fit the facts"


def _assert_equal(got: Array, expected: Array, rtol: float, where: str) -> None:
    assert got.dtype == expected.dtype
    if rtol:
        got, expected = got.astype(np.float64), expected.astype(np.float64)
        np.testing.assert_allclose(got, expected, rtol=rtol, atol=rtol, err_msg=where)
        return
    np.testing.assert_array_equal(got, expected, err_msg=where)
    if got.dtype.kind == "f":
        np.testing.assert_array_equal(np.signbit(got), np.signbit(expected), err_msg=where)


def run(module: ModuleOp, inputs: list[Array], store: object) -> list[Array]:
    with np.errstate(all="ignore"):
        return evaluate(module, inputs, store)  # type: ignore[arg-type]
