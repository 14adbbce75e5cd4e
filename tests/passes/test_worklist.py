"""The driver of rewriting passes: work grows with the program, rules that undo each other are stopped, locations are kept."""

from collections.abc import Callable

import pytest
from xdsl.builder import Builder
from xdsl.dialects.builtin import FileLineColLoc, IntAttr, LocationAttr, ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import SSAValue
from xdsl.pattern_rewriter import PatternRewriter

from anyshape.dialects.dhlo import Abs, Add, DhloOp, Exponential, LayerNorm, Multiply, Reshape, Softmax, Tanh, Transpose
from anyshape.dialects.dhlo.graph import FunctionBuilder
from anyshape.dialects.dhlo.laws import Law
from anyshape.passes.expand import expand_op
from anyshape.passes.simplify import SimplifyPass, apply_law
from anyshape.passes.sink_reshapes import rewrite_reshape
from anyshape.passes.worklist import RewriteBudgetError, Rewritten, rewrite_until_stable
from anyshape.support.errors import VerifyError
from anyshape.symbolic import Facts, Size
from tests.passes.programs import apply

M, N = Size.symbol("m"), Size.symbol("n")
Step = Callable[[FunctionBuilder, SSAValue, int], SSAValue]
Rule = Callable[[DhloOp, PatternRewriter], Rewritten | None]


def laws(op: DhloOp, rewriter: PatternRewriter) -> Rewritten | None:
    return apply_law(op, rewriter, Facts())


CHAINS: dict[str, tuple[Step, Rule]] = {
    "x + x": (lambda g, x, _: g(Add, x, x), laws),
    "reshape": (lambda g, x, i: g(Reshape, x, sizes=(M * N,) if i % 2 else (N, M)), laws),
    "transpose": (lambda g, x, _: g(Transpose, x, permutation=(1, 0)), laws),
    "(x · 1) · (x · 1)": (lambda g, x, _: square(g, g(Multiply, x, g.full(1.0, "m", "n"))), laws),
    "softmax": (lambda g, x, _: g(Softmax, x, axis=1), expand_op),
    "sink": (lambda g, x, _: g(Multiply, x, x), rewrite_reshape),
}


def square(g: FunctionBuilder, x: SSAValue) -> SSAValue:
    return g(Multiply, x, x)


def chain(step: Step, length: int, reshaped: bool) -> FuncOp:
    g = FunctionBuilder()
    x = g.input("m", "n")
    x = g(Reshape, x, sizes=(N, M)) if reshaped else x
    for index in range(length):
        x = step(g, x, index)
    return g.finish(x)


def work(name: str, length: int) -> tuple[int, int]:
    """Rewrites, and ops that were looked at."""
    step, rule = CHAINS[name]
    looks = 0

    def counted(op: DhloOp, rewriter: PatternRewriter) -> Rewritten | None:
        nonlocal looks
        looks += 1
        return rule(op, rewriter)

    return rewrite_until_stable(chain(step, length, name == "sink"), "test", counted).total(), looks


@pytest.mark.parametrize("name", CHAINS)
def test_work_grows_with_the_length_of_a_chain(name: str) -> None:
    short, long = work(name, 13), work(name, 200)
    assert long[0] <= 2 * 200
    for few, many in zip(short, long, strict=True):
        assert many <= 1.2 * (200 / 13) * few + 4


def test_chains_that_should_be_rewritten_are() -> None:
    assert work("x + x", 13)[0] == 0
    assert work("softmax", 13)[0] == 13
    assert work("sink", 13)[0] == 13
    assert work("reshape", 13)[0] >= 12


def test_users_are_visited_again_whenever_an_operand_changed() -> None:
    def rule(op: DhloOp, rewriter: PatternRewriter) -> Rewritten | None:
        match op:
            case Exponential():
                return Rewritten("exp -> tanh", (Tanh.emit(rewriter, op.operands[0]),))
            case Tanh():
                return Rewritten("tanh -> abs", (Abs.emit(rewriter, op.operands[0]),))
            case Add() if isinstance(op.operands[0].owner, Abs):
                return Rewritten("|x| + y -> |x|", (op.operands[0],))
            case _:
                return None

    g = FunctionBuilder()
    x = g(Exponential, g.input("m"))
    function = g.finish(g(Add, x, x))
    rewrite_until_stable(function, "test", rule)
    assert [op.name for op in function.walk() if isinstance(op, DhloOp)] == ["dhlo.abs"]


def test_laws_that_undo_each_other_are_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    def swap(op: Add, builder: Builder, facts: Facts) -> SSAValue:
        return Add.emit(builder, op.operands[1], op.operands[0])

    monkeypatch.setattr(Add, "LAWS", (Law("x + y -> y + x", "swap", swap, lambda g: g.input()),))
    g = FunctionBuilder()
    function = g.finish(g(Add, g.input("m"), g.input("m")))
    with pytest.raises(RewriteBudgetError, match=r"pass simplify does not come to an end(.|\n)*x \+ y -> y \+ x"):
        apply("simplify", ModuleOp([function]))


def test_a_rewrite_to_another_type_is_an_error() -> None:
    g = FunctionBuilder()
    function = g.finish(g(Transpose, g.input("m", "n"), permutation=(1, 0)))
    with pytest.raises(VerifyError, match=r"dhlo.transpose(.|\n)*drop"):
        rewrite_until_stable(function, "test", lambda op, _: Rewritten("drop", (op.operands[0],)))


def test_new_ops_have_the_location_of_what_they_replace() -> None:
    g = FunctionBuilder()
    x = g.input("m", "n")
    lines: list[LocationAttr] = [FileLineColLoc(StringAttr("model.py"), IntAttr(line), IntAttr(0)) for line in (1, 2)]
    first = g.add(Softmax.build_from(x, axis=1, location=lines[0])).result
    second = g.add(LayerNorm.build_from(first, axes=(1,), epsilon=1e-5, location=lines[1])).result
    module = ModuleOp([g.finish(second)])
    apply("expand", module)
    ops = [op for op in module.walk() if isinstance(op, DhloOp)]
    assert [op.location for op in ops] == sorted((op.location for op in ops), key=lines.index)
    assert {op.location for op in ops} == set(lines)


def test_dead_ops_are_erased_on_the_way() -> None:
    g = FunctionBuilder()
    x = g.input("m", "n")
    g(Softmax, g(Softmax, x, axis=1), axis=0)
    module = ModuleOp([g.finish(x)])
    SimplifyPass().apply(None, module)  # type: ignore[arg-type]
    assert not [op for op in module.walk() if isinstance(op, DhloOp)]
