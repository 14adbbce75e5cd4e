"""Functions: facts, size binding, evaluation, verification, and what an incomplete op class gives."""

from typing import Any

import numpy as np
import pytest
from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Region
from xdsl.parser import Parser
from xdsl.utils.exceptions import VerifyException

from anyshape.dialects.context import new_context
from anyshape.dialects.dhlo import (
    Add,
    BroadcastInDim,
    Constant,
    ConstantStore,
    DhloOp,
    FloatUnary,
    Reshape,
    SizeOf,
    Tanh,
    Weight,
)
from anyshape.dialects.dhlo.graph import FACTS, FunctionBuilder, facts_of, only_function, set_facts
from anyshape.dialects.dhlo.interpreter import bind_sizes, evaluate
from anyshape.dialects.dhlo.verify import verify_graph
from anyshape.dialects.dtypes import F32
from anyshape.dialects.sizes import tensor
from anyshape.support.errors import DtypeError, GuardError, RankError, VerifyError
from anyshape.symbolic import Facts, Size, parse_size

M, N = Size.symbol("m"), Size.symbol("n")


def zeros(*sizes: int) -> np.ndarray[Any, Any]:
    return np.zeros(sizes, np.float32)


def example(facts: Facts | None = None) -> func.FuncOp:
    """tanh(x + 1) of x[m, n]."""
    g = FunctionBuilder(facts=facts)
    x = g.input("m", "n")
    return g.finish(g(Tanh, g(Add, x, g.full(1.0, "m", "n"))))


def test_facts_are_kept_in_text() -> None:
    facts = Facts()
    facts.declare("m", lo=1, hi=512, multiple_of=8)
    facts.assume(parse_size("m*n").le(4096))
    module = ModuleOp([example(facts)])
    parsed = Parser(new_context(), str(module)).parse_module()
    assert str(parsed) == str(module) and FACTS in str(module)
    read = facts_of(only_function(parsed))
    assert read.prove(M.le(512)) and read.is_multiple(M, 8) and read.prove((M * N).le(4096))
    set_facts(only_function(parsed), Facts())
    assert FACTS not in str(parsed)


def test_evaluate() -> None:
    x = np.random.default_rng(0).standard_normal((2, 3)).astype(np.float32)
    (got,) = evaluate(ModuleOp([example()]), [x])
    np.testing.assert_allclose(got, np.tanh(x + 1), rtol=1e-6)


def test_evaluate_checks_its_inputs() -> None:
    facts = Facts()
    facts.assume(M.le(4))
    function = example(facts)
    with pytest.raises(GuardError, match="m <= 4"):
        evaluate(function, [zeros(5, 2)])
    with pytest.raises(RankError):
        evaluate(function, [zeros(2)])
    with pytest.raises(DtypeError):
        evaluate(function, [zeros(2, 2).astype(np.int32)])


def test_symbols_are_bound_where_they_stand_alone_or_can_be_solved() -> None:
    types = [tensor(F32, (2 * M + 1, N)), tensor(F32, (N * 3,))]
    assert bind_sizes(types, [zeros(7, 5), zeros(15)]) == {"m": 3, "n": 5}
    with pytest.raises(GuardError, match="input 1, axis 0"):
        bind_sizes(types, [zeros(7, 5), zeros(14)])
    with pytest.raises(GuardError, match="axis 1"):
        bind_sizes([tensor(F32, (M, M))], [zeros(2, 3)])


def test_weights_come_from_the_store() -> None:
    store = ConstantStore()
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    g = FunctionBuilder()
    function = g.finish(g.add(Weight.of_array(array, store)).result)
    np.testing.assert_array_equal(evaluate(function, [], store)[0], array)
    assert store.add(array.copy()) == store.add(array) and len(store) == 1
    assert store.add(array.reshape(3, 2)) != store.add(array)
    with pytest.raises(VerifyError, match="store"):
        evaluate(function, [])


def test_equal_constants_have_equal_text() -> None:
    assert str(Constant.of(value=1, dtype=F32, sizes=(2,))) == str(
        Constant.of(value=1.0, dtype=F32, sizes=(Size.const(2),))
    )
    assert SizeOf.of(size=M + 1).size == M + 1


def test_verifier_shows_the_ops_around_an_unbound_symbol() -> None:
    g = FunctionBuilder()
    x = g.input("m")
    function = g.finish(g(BroadcastInDim, x, dimensions=(1,), sizes=(N, M)))
    with pytest.raises(VerifyError, match="nothing binds") as caught:
        verify_graph(function)
    assert "-> " in str(caught.value) and "func.return" in str(caught.value)
    assert caught.value.got == "n"


def test_verifier_finds_a_use_before_its_definition() -> None:
    function = example()
    ops = list(function.body.block.ops)
    ops[1].detach()
    function.body.block.insert_op_before(ops[1], ops[0])
    with pytest.raises(VerifyError, match=r"operand 1 of dhlo\.add is not defined before it"):
        verify_graph(function)


def test_verifier_compares_result_types_with_the_rule() -> None:
    function = example()
    op = function.body.block.first_op
    assert isinstance(op, DhloOp)
    op.attributes["sizes"] = Constant.of(value=0, dtype=F32, sizes=(M, M)).attributes["sizes"]
    with pytest.raises(VerifyError, match="result types should be"):
        verify_graph(function)


def test_verifier_checks_the_return() -> None:
    block = Block(arg_types=[tensor(F32, (M,))])
    block.add_op(func.ReturnOp(block.args[0]))
    function = func.FuncOp("main", ([tensor(F32, (M,))], [tensor(F32, (N,))]), Region(block))
    with pytest.raises(VerifyError, match="function output types"):
        verify_graph(function)


def test_reshape_refuses_another_number_of_elements() -> None:
    with pytest.raises(VerifyException, match="7 elements"):
        Reshape.of(FunctionBuilder().input(2, 3), sizes=(7,))


@pytest.mark.parametrize("missing", ["infer", "reference", "SAMPLES", "docstring", "computation"])
def test_an_incomplete_op_is_rejected(missing: str) -> None:
    members: dict[str, Any] = {
        "__doc__": "result = tanh x.",
        "__module__": __name__,
        "infer": classmethod(Tanh.infer.__func__),  # type: ignore[attr-defined]
        "reference": Tanh.reference,
        "scalar": Tanh.scalar,
        "SAMPLES": Tanh.SAMPLES,
    }
    del members[{"docstring": "__doc__", "computation": "scalar"}.get(missing, missing)]
    with pytest.raises(TypeError, match={"computation": "in no way"}.get(missing, missing)):
        type("Incomplete", (DhloOp,), members, op="incomplete")
    assert "dhlo.incomplete" not in DhloOp.OPS


@pytest.mark.parametrize(
    ("base", "op", "aten", "message"),
    [
        (FloatUnary, "tanh", [], "a name that another op has"),
        (FloatUnary, "tanh_too", ["aten.tanh.default"], "names aten.tanh.default, as dhlo.tanh does"),
        (Tanh, "tanh_too", [], "derives from the op Tanh"),
        (DhloOp, "composite", ["aten.mean.dim"], "only elementwise ops can"),
    ],
)
def test_an_op_that_clashes_with_another_is_rejected(
    base: type[DhloOp], op: str, aten: list[str], message: str
) -> None:
    names = ("numpy_function", "infer", "reference", "scalar")
    members: dict[str, Any] = {name: Tanh.__dict__[name] for name in names if name in Tanh.__dict__}
    members |= {"__doc__": "result = tanh x.", "__module__": __name__, "SAMPLES": Tanh.SAMPLES}
    before = dict(DhloOp.OPS)
    with pytest.raises(TypeError, match=message):
        type("Another", (base,), members, op=op, aten=aten)
    assert before == DhloOp.OPS
