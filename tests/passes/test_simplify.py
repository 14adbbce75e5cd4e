"""Sizes in their simplest form: what the facts prove equal is one expression, and what the caller passes stays as it is."""

from xdsl.dialects.builtin import ModuleOp

from anyshape.dialects.dhlo import Add, BroadcastInDim, Concatenate, DhloOp, Exponential, Reshape, Transpose
from anyshape.dialects.dhlo.graph import FunctionBuilder, only_function
from anyshape.dialects.dhlo.verify import verify_graph
from anyshape.dialects.sizes import sizes_of
from anyshape.symbolic import Facts, Size
from tests.passes.programs import apply, assert_same

M, N, K = (Size.symbol(name) for name in "mnk")


def simplified(g: FunctionBuilder, *results: object) -> ModuleOp:
    module = ModuleOp([g.finish(*results)])  # type: ignore[arg-type]
    before = module.clone()
    apply("simplify", module)
    verify_graph(module)
    assert_same(before, module)
    return module


def ops_of(module: ModuleOp) -> list[str]:
    return [op.name.removeprefix("dhlo.") for op in module.walk() if isinstance(op, DhloOp)]


def test_types_follow_downstream_when_an_argument_has_a_simpler_size() -> None:
    facts = Facts()
    facts.assume(N.eq(M))
    g = FunctionBuilder(facts=facts)
    x, y = g.input("m"), g.input("n", 2)
    wide = g(BroadcastInDim, x, dimensions=(0,), sizes=(M, 2))
    turned = g(Transpose, g(Transpose, g(Exponential, y), permutation=(1, 0)), permutation=(1, 0))
    module = simplified(g, g(Add, g(Reshape, turned, sizes=(M, 2)), wide))
    assert ops_of(module).count("reshape") == 1, "only the argument is relabelled"
    assert "transpose" not in ops_of(module)
    function = only_function(module)
    assert [str(size) for each in function.args for size in sizes_of(each.type)] == ["m", "n", "2"]
    assert [str(size) for size in sizes_of(function.function_type.outputs.data[0])] == ["m", "2"]


def test_sizes_that_an_op_computes_stay_consistent() -> None:
    facts = Facts()
    facts.assume(K.eq(M + N))
    g = FunctionBuilder(facts=facts)
    x, y, z = g.input("m"), g.input("n"), g.input("k")
    both = g(Reshape, g(Concatenate, x, y, axis=0), sizes=(K,))
    module = ModuleOp([g.finish(g(Add, both, z))])
    apply("simplify", module)
    verify_graph(module)
    assert ops_of(module) == ["reshape", "concatenate", "add"]


def test_a_second_run_changes_nothing() -> None:
    facts = Facts()
    facts.assume(N.eq(M))
    g = FunctionBuilder(facts=facts)
    module = simplified(g, g(Exponential, g.input("n")), g(Exponential, g.input("m")))
    once = str(module)
    apply("simplify", module)
    assert str(module) == once


def test_no_size_is_written_in_a_symbol_that_nothing_binds() -> None:
    facts = Facts()
    facts.assume(M.eq(2 * K))
    g = FunctionBuilder(facts=facts)
    module = ModuleOp([g.finish(g(Exponential, g.input("m")))])
    apply("simplify", module)
    verify_graph(module)
    assert ops_of(module) == ["exponential"]
