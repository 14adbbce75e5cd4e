"""The emitted syntax trees, no Triton needed; `make test-gpu-lookahead` runs and compiles them."""

import ast
import subprocess
import sys
from dataclasses import dataclass

import pytest
from xdsl.builder import Builder
from xdsl.rewriter import InsertPoint

from anyshape.dialects.tile import (
    CheckOp,
    KernelOp,
    LanesOp,
    LoadOp,
    StoreOp,
    YieldOp,
    buffer,
)
from anyshape.dialects.tile.verify import verify_kernel
from anyshape.support.errors import CodegenError
from anyshape.symbolic import parse_size
from anyshape.targets.triton import emit_triton
from anyshape.targets.triton.sizes import size_expression
from tests.targets.triton.plans import EMITTED, GRAPHS, emitted, golden, kernel_of, parse_kernel
from tests.targets.triton.small_plans import F32, N, reversed_row, scalar_plan


@pytest.mark.parametrize("name", EMITTED)
def test_golden(name: str) -> None:
    assert emitted(name).source == golden(name, "py.txt").read_text()


@pytest.mark.parametrize("name", GRAPHS)
def test_the_compilers_plan_has_the_goldens_launch(name: str) -> None:
    """The plan of today's compiler, printed and parsed, emits a module that Python takes, with the golden's parameters."""
    fresh, known = emit_triton(kernel_of(name)), emitted(name)
    compile(fresh.module, name, "exec")
    launch = sorted((each.role, each.type, str(each.elements)) for each in fresh.parameters)
    assert launch == sorted((each.role, each.type, str(each.elements)) for each in known.parameters)
    assert fresh.tiles == known.tiles


def test_a_weight_in_panels_is_read_by_panel() -> None:
    kernel = emit_triton(kernel_of("product_packed", weights=frozenset({1})))
    loads = [line for line in kernel.source.splitlines() if "rhs0 = tl.load" in line]
    assert loads == [
        "        rhs0 = tl.load(b1 + (j0 // 64 * 2112 + k1 * 64 + j0 % 64), mask=(k1 < 33) & mask1, other=0)"
    ]


def test_programs() -> None:
    rows, columns, product = emitted("softmax_whole_rows"), emitted("column_sum"), emitted("product")
    assert rows.programs({"s0": 5, "s1": 64}, {"BLOCK": 64}) == 5
    assert columns.programs({"s0": 5, "s1": 65}, {"BLOCK": 64}) == 2
    assert columns.programs({"s0": 5, "s1": 0}, {"BLOCK": 64}) == 0
    sizes = {str(extent): size for (extent, _), size in zip(product.tiles, (33, 16), strict=True)}
    assert product.programs(sizes, {"BLOCK_M": 16, "BLOCK_N": 16}) == 3
    with pytest.raises(CodegenError, match="does not fit the block"):
        rows.programs({"s0": 5, "s1": 65}, {"BLOCK": 64})


def test_rows_that_do_not_fit_a_block_are_kept_in_the_launchers_memory() -> None:
    sizes = {"s0": 3, "s1": 7}
    scratch = [each.elements for each in emitted("softmax").parameters if each.role == "scratch"]
    assert [each.evaluate(sizes) for each in scratch if each is not None] == [21, 21]
    assert not any(each.role == "scratch" for each in emitted("softmax_whole_rows").parameters)


# ---- sizes -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Int:
    """An integer whose division rounds to zero, as Triton's does."""

    value: int

    def __add__(self, other: "Int | int") -> "Int":
        return Int(self.value + _value(other))

    def __sub__(self, other: "Int | int") -> "Int":
        return Int(self.value - _value(other))

    def __mul__(self, other: "Int | int") -> "Int":
        return Int(self.value * _value(other))

    def __floordiv__(self, other: "Int | int") -> "Int":
        return Int(int(self.value / _value(other)))

    def __mod__(self, other: "Int | int") -> "Int":
        return self - self // other * _value(other)

    def __rmul__(self, other: int) -> "Int":
        return self * other

    __radd__ = __add__


def _value(number: Int | int) -> int:
    return number.value if isinstance(number, Int) else number


class Language:
    """The two functions of `tl` that sizes use."""

    @staticmethod
    def minimum(a: Int | int, b: Int | int) -> Int:
        return Int(min(_value(a), _value(b)))

    @staticmethod
    def maximum(a: Int | int, b: Int | int) -> Int:
        return Int(max(_value(a), _value(b)))


@pytest.mark.parametrize(
    "text",
    [
        "m",
        "3*m*n + 2",
        "(m - 7) floordiv 4",
        "(m - 7) mod 4",
        "(m*n) floordiv (n + 1)",
        "min(m, 2*n)",
        "max(m - 3, n mod 3)",
    ],
)
def test_sizes_mean_the_same_in_triton(text: str) -> None:
    size = parse_size(text)
    code = compile(ast.fix_missing_locations(ast.Expression(size_expression(size))), text, "eval")
    for m in range(10):
        for n in range(4):
            env = {"m": Int(m), "n": Int(n), "tl": Language}
            assert _value(eval(code, env)) == size.evaluate({"m": m, "n": n}), (m, n)


# ---- what is refused -------------------------------------------------------------------------------------------------


def test_ops_without_an_emission_are_refused() -> None:
    with pytest.raises(CodegenError, match=r"math\.tanh"):
        emit_triton(scalar_plan(F32, lambda s, x: s.function("tanh", x[0])))


def test_checks_are_refused() -> None:
    kernel = KernelOp("checked", ["n"], [buffer(F32, [N]), buffer(F32, [N])])
    x, out = kernel.body.block.args
    lanes = Builder(InsertPoint.at_end(kernel.body.block)).insert(LanesOp(N))
    inner = Builder(InsertPoint.at_end(lanes.body.block))
    guard = inner.insert(CheckOp(lanes.index, N, 0)).result
    inner.insert(StoreOp(inner.insert(LoadOp(x, [lanes.index], guard)).result, out, [lanes.index]))
    inner.insert(YieldOp())
    verify_kernel(kernel)
    with pytest.raises(CodegenError, match=r"tile\.check"):
        emit_triton(kernel)


def test_a_row_read_at_another_lane_cannot_live_in_registers() -> None:
    with pytest.raises(CodegenError, match="not accessed at the lane itself"):
        emit_triton(reversed_row(), whole_rows=True)
    source = emit_triton(reversed_row()).source
    assert source.index("tl.store(row0") < source.index("tl.debug_barrier()") < source.index("tl.load(row0")


def test_products_in_other_precisions_are_refused() -> None:
    text = golden("product", "mlir").read_text().replace("f32", "f64")
    with pytest.raises(CodegenError, match="f32 only"):
        emit_triton(parse_kernel(text))


def test_emission_needs_neither_triton_nor_a_code_generator() -> None:
    script = (
        "import sys, anyshape.targets.triton; "
        "print(sorted({'triton', 'mlir', 'llvmlite', 'torch'} & {name.split('.')[0] for name in sys.modules}))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
