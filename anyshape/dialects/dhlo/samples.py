"""Samples made concrete: an op with its operands, and arrays to run it on. The test matrix is derived from these."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import numpy as np
from xdsl.dialects import func

from anyshape.dialects.dhlo.base import Array, DhloOp, Environment, Sample
from anyshape.dialects.dhlo.graph import FunctionBuilder, size_from
from anyshape.dialects.dtypes import BOOL, DType
from anyshape.dialects.sizes import dtype_of, sizes_of, symbols_of
from anyshape.symbolic import Size

_SPECIALS = (np.nan, np.inf, -np.inf, 0.0, -0.0)


def operand_dtypes(sample: Sample, dtype: DType) -> list[DType]:
    """The dtype of each operand when those that are free have `dtype`."""
    return [sample.fixed.get(index, dtype) for index in range(len(sample.operands))]


def sample_function(cls: type[DhloOp], sample: Sample, dtype: DType) -> func.FuncOp:
    """A function of one op: the sample's call. Symbols that no operand binds are the sizes of further bool arguments."""
    g = FunctionBuilder()
    dtypes = operand_dtypes(sample, dtype)
    operands = [g.input(*sizes, dtype=each) for sizes, each in zip(sample.operands, dtypes, strict=True)]
    op = g.add(cls.of(*operands, **sample.attributes))
    bound = {size for operand in operands for size in sizes_of(operand.type)}
    for symbol in _symbols(op):
        if Size.symbol(symbol) not in bound:
            g.input(symbol, dtype=BOOL)
    return g.finish(op.result)


def sample_op(function: func.FuncOp) -> DhloOp:
    """The op of a `sample_function`."""
    op = function.body.block.first_op
    assert isinstance(op, DhloOp)
    return op


def sample_symbols(function: func.FuncOp) -> tuple[str, ...]:
    """Every size symbol of the function's op, sorted."""
    return _symbols(sample_op(function))


def _symbols(op: DhloOp) -> tuple[str, ...]:
    found = set(symbols_of(operand.type for operand in op.operands))
    for value in op.attribute_values.values():
        if isinstance(value, tuple):
            found.update(*(size.symbols for size in cast("tuple[object, ...]", value) if isinstance(size, Size)))
    return tuple(sorted(found))


def sample_environments(symbols: Sequence[str], sample: Sample, values: Sequence[int]) -> list[dict[str, int]]:
    """For each of `values`, an assignment of symbols that begins with it and goes on with the values after it."""
    environments: list[dict[str, int]] = []
    for start in range(len(values)):
        chosen = {name: values[(start + index) % len(values)] for index, name in enumerate(symbols)}
        environments.append({name: max(value, sample.minimum.get(name, 0)) for name, value in chosen.items()})
    return environments


def sample_inputs(function: func.FuncOp, sample: Sample, env: Environment, rng: np.random.Generator) -> list[Array]:
    """Arrays for the arguments of a `sample_function` at these sizes: the op's operands first."""
    arrays: list[Array] = []
    for index, argument in enumerate(function.args):
        shape = tuple(size.evaluate(env) for size in sizes_of(argument.type))
        arrays.append(_filled(sample.values.get(index, "normal"), dtype_of(argument.type), shape, env, rng))
    return arrays


def _filled(kind: str, dtype: DType, shape: tuple[int, ...], env: Environment, rng: np.random.Generator) -> Array:
    if kind == "true":
        return np.ones(shape, dtype.numpy)
    if kind == "zero":
        return np.zeros(shape, dtype.numpy)
    if kind.startswith("index:"):
        bound = size_from(kind.removeprefix("index:")).evaluate(env)
        return rng.integers(0, max(1, bound), shape).astype(dtype.numpy)
    if kind == "dominant":
        values = rng.uniform(-1, 1, shape)
        diagonal = np.arange(min(shape[-2:]))
        values[..., diagonal, diagonal] += max(shape[-2:])
        return values.astype(dtype.numpy)
    if dtype.is_bool:
        return rng.integers(0, 2, shape).astype(np.bool_)
    return (_floats if dtype.is_float else _integers)(kind, dtype, shape, rng)


def _floats(kind: str, dtype: DType, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
    values = rng.standard_normal(shape) * 3
    match kind:
        case "unit":
            values = rng.uniform(-1, 1, shape)
        case "small":
            values = rng.integers(0, 4, shape).astype(np.float64)
        case "nonzero":
            values = np.where(np.abs(values) < 0.25, 0.5, values)
        case "positive":
            values = np.abs(values) + 0.01
        case "finite":
            pass
        case _:
            _sprinkle(values, _SPECIALS, rng)
    return values.astype(dtype.numpy)


def _integers(kind: str, dtype: DType, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
    limits = np.iinfo(dtype.numpy)
    low, high = {"small": (0, 4), "unit": (-1, 2), "positive": (0, 101)}.get(kind, (-100, 101))
    values = rng.integers(max(low, limits.min), high, shape).astype(dtype.numpy)
    if kind == "nonzero":
        values[values == 0] = 3
    if kind == "normal":
        _sprinkle(values, (limits.min, limits.max, 0), rng)
    return values


def _sprinkle(values: Array, specials: Sequence[float], rng: np.random.Generator) -> None:
    """Put special values at a tenth of the places."""
    flat = values.reshape(-1)
    places = rng.permutation(flat.size)[: -(-flat.size // 10) if flat.size > 1 else 0]
    flat[places] = np.resize(np.array(specials, values.dtype), len(places)) if len(places) else flat[places]


__all__ = [
    "operand_dtypes", "sample_environments", "sample_function", "sample_inputs", "sample_op", "sample_symbols",
]  # fmt: skip
