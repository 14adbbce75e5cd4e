"""What `Scalars` appends, run by the scalar interpreter, against Python's own integers and floats."""

import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from xdsl.builder import Builder
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, SSAValue
from xdsl.parser import Parser
from xdsl.rewriter import InsertPoint

from anyshape.dialects.context import new_context
from anyshape.dialects.dtypes import BF16, BOOL, DTYPES, F16, F32, F64, I8, I64, U8, DType
from anyshape.dialects.scalar_interpreter import from_signless, interpret_block, to_signless
from anyshape.dialects.scalars import Scalars, highest, lowest

Function = Callable[..., SSAValue]


def run(
    build: Callable[..., SSAValue], arrays: list[np.ndarray[Any, Any]], dtypes: list[DType]
) -> np.ndarray[Any, Any]:
    """build(scalars, *values) at every element of the arrays."""
    block = Block(arg_types=[dtype.scalar for dtype in dtypes])
    result = build(Scalars(Builder(InsertPoint.at_end(block))), *block.args)
    env: dict[SSAValue, np.ndarray[Any, Any]] = {
        value: to_signless(array) for value, array in zip(block.args, arrays, strict=True)
    }
    interpret_block(block.ops, env)
    for op in block.ops:
        op.verify()
    return env[result]


def all_pairs(dtype: DType) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    values = np.arange(lowest(dtype), highest(dtype) + 1, 5 if dtype != BOOL else 1).astype(dtype.numpy)
    a, b = np.meshgrid(values, values)
    return a.reshape(-1), b.reshape(-1)


def wrapped(value: int, dtype: DType) -> int:
    value %= 256
    return value - 256 if dtype == I8 and value > 127 else value


def truncated(a: int, b: int) -> int:
    return math.trunc(a / b)


@pytest.mark.parametrize("dtype", [I8, U8], ids=str)
@pytest.mark.parametrize(
    ("name", "expected", "divides"),
    [
        ("add", operator.add, False),
        ("sub", operator.sub, False),
        ("mul", operator.mul, False),
        ("trunc_div", truncated, True),
        ("trunc_rem", lambda a, b: a - b * truncated(a, b), True),
        ("maximum", max, False),
        ("minimum", min, False),
        ("logical_and", operator.and_, False),
        ("logical_or", operator.or_, False),
        ("logical_xor", operator.xor, False),
    ],
)
def test_bytes(dtype: DType, name: str, expected: Callable[[int, int], int], divides: bool) -> None:
    a, b = all_pairs(dtype)
    if divides:
        allowed = (b != 0) & ~((b == -1) & (a == -128))
        a, b = a[allowed], b[allowed]
    signed = {} if name in ("add", "sub", "mul") or name.startswith("logical") else {"unsigned": dtype == U8}
    got = from_signless(run(lambda s, x, y: getattr(s, name)(x, y, **signed), [a, b], [dtype, dtype]), dtype)
    assert got.tolist() == [wrapped(expected(x, y), dtype) for x, y in zip(a.tolist(), b.tolist(), strict=True)]


@pytest.mark.parametrize("dtype", [BOOL, I8, U8], ids=str)
@pytest.mark.parametrize("how", ["eq", "ne", "lt", "le", "gt", "ge"])
def test_integer_comparisons(dtype: DType, how: str) -> None:
    a, b = all_pairs(dtype)
    got = run(lambda s, x, y: s.compare(how, x, y, unsigned=dtype == U8), [a, b], [dtype, dtype])
    assert got.tolist() == [getattr(operator, how)(x, y) for x, y in zip(a.tolist(), b.tolist(), strict=True)]


@pytest.mark.parametrize("how", ["eq", "ne", "lt", "le", "gt", "ge"])
def test_float_comparisons_with_nan(how: str) -> None:
    values = [math.nan, -math.inf, -0.0, 0.0, 1.0]
    pairs = [(a, b) for a in values for b in values]
    a, b = (np.array(side, np.float32) for side in zip(*pairs, strict=True))
    got = run(lambda s, x, y: s.compare(how, x, y), [a, b], [F32, F32])
    assert got.tolist() == [getattr(operator, how)(x, y) for x, y in pairs]


@pytest.mark.parametrize("source", DTYPES, ids=str)
@pytest.mark.parametrize("target", DTYPES, ids=str)
def test_conversions(source: DType, target: DType) -> None:
    values = [0, 1] if source.is_bool else [0, 1, 3, 100] if source == U8 else [0, 1, -1, 3, 100, -100]
    array = np.array(values).astype(source.numpy)
    got = from_signless(run(lambda s, x: s.convert(x, source, target), [array], [source]), target)
    expected = [bool(v) for v in values] if target.is_bool else [v % 256 for v in values] if target == U8 else values
    assert got.dtype == target.numpy and got.tolist() == expected


def test_float_to_integer_truncates() -> None:
    array = np.array([2.7, -2.7, 0.5, -0.5])
    assert run(lambda s, x: s.convert(x, F64, I8), [array], [F64]).tolist() == [2, -2, 0, 0]
    assert run(lambda s, x: s.convert(x, F64, BOOL), [array * [1, 1, 0, math.nan]], [F64]).tolist() == [1, 1, 0, 1]


def test_half_formats_meet_in_f32() -> None:
    array = np.array([1.001, 3.14159], np.float16)
    got = run(lambda s, x: s.convert(x, F16, BF16), [array], [F16])
    assert got.tolist() == array.astype(np.float32).astype(BF16.numpy).tolist()


def test_other_functions() -> None:
    x = np.array([0.3, 1.7, 2.5, -1.5])
    assert run(lambda s, a: s.function("exp2", a), [x], [F64]).tolist() == pytest.approx([2**v for v in x])
    assert run(lambda s, a: s.fma(a, a, a), [x], [F64]).tolist() == pytest.approx([v * v + v for v in x])
    assert run(lambda s, a: s.rem(a, s.constant(0.4, a.type)), [x], [F64]).tolist() == [math.fmod(v, 0.4) for v in x]
    assert run(lambda s, a: s.function("roundeven", a), [x], [F64]).tolist() == [round(v) for v in x]
    n = np.array([-2, 5])
    assert run(lambda s, a: s.from_index(s.to_index(a), a.type), [n], [I64]).tolist() == [-2, 5]
    assert run(lambda s, a: s.logical_not(a), [n], [I64]).tolist() == [1, -6]


@pytest.mark.parametrize("name", sorted(Scalars.FUNCTIONS))
def test_every_function_is_known_and_prints(name: str) -> None:
    block = Block(arg_types=[F32.scalar])
    scalars = Scalars(Builder(InsertPoint.at_end(block)))
    value = scalars.rem(scalars.function(name, block.args[0]), block.args[0])
    inside = 1.5 if name == "acosh" else 0.5
    env: dict[SSAValue, np.ndarray[Any, Any]] = {block.args[0]: np.array([inside], np.float32)}
    interpret_block(block.ops, env)
    assert np.isfinite(env[value]).all()


def test_remainder_of_floats_round_trips() -> None:
    module = ModuleOp([])
    scalars = Scalars(Builder(InsertPoint.at_end(module.body.block)))
    one = scalars.constant(1.0, F32.scalar)
    scalars.rem(one, one)
    text = str(module)
    assert "arith.remf" in text and str(Parser(new_context(), text).parse_module()) == text
