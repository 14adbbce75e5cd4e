"""The pipeline: the same results from every op, and aids when something goes wrong."""

import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from xdsl.builder import Builder
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue
from xdsl.passes import ModulePass

from anyshape.cli.dispatch import main
from anyshape.dialects.dhlo import Add, ConstantStore, DhloOp, Exponential, Softmax, Weight
from anyshape.dialects.dhlo.dialect import OP_MODULES
from anyshape.dialects.dhlo.graph import FunctionBuilder
from anyshape.dialects.dhlo.interpreter import evaluate
from anyshape.dialects.dhlo.laws import Law
from anyshape.dialects.dhlo.samples import sample_environments, sample_function, sample_inputs, sample_symbols
from anyshape.driver.pipeline import GRAPH_PASSES, PASSES, PassError, run_graph_passes
from anyshape.passes.expand import is_composite
from anyshape.support.options import Options
from anyshape.support.trace import Trace
from anyshape.symbolic import Facts

SAMPLES = [
    pytest.param(cls, sample, id=f"{cls.name.removeprefix('dhlo.')}-{number}")
    for cls in DhloOp.OPS.values()
    if cls.__module__ in {module.__name__ for module in OP_MODULES} and cls is not Weight
    for number, sample in enumerate(cls.SAMPLES)
]


def softmax_module() -> ModuleOp:
    g = FunctionBuilder()
    return ModuleOp([g.finish(g(Softmax, g.input("m", "n"), axis=1))])


@pytest.mark.parametrize(("cls", "sample"), SAMPLES)
def test_every_op_says_the_same_after_the_pipeline(cls: type[DhloOp], sample: object) -> None:
    function = sample_function(cls, sample, sample.dtypes[0])  # type: ignore[attr-defined, arg-type]
    environments = sample_environments(sample_symbols(function), sample, (0, 1, 2, 3))  # type: ignore[arg-type]
    inputs = [sample_inputs(function, sample, env, np.random.default_rng(3)) for env in environments]  # type: ignore[arg-type]
    module = ModuleOp([function])
    with np.errstate(all="ignore"):
        expected = [evaluate(module, each) for each in inputs]
        run_graph_passes(module, ConstantStore(), Trace(), Options(verify=True))
        got = [evaluate(module, each) for each in inputs]
    assert not [op for op in module.walk() if isinstance(op, DhloOp) and is_composite(op)]
    for before, after in zip(expected, got, strict=True):
        for x, y in zip(before, after, strict=True):
            tolerance = 4e-3 if x.dtype.itemsize == 2 else 1e-5
            np.testing.assert_allclose(np.asarray(y, float), np.asarray(x, float), rtol=tolerance, atol=tolerance)


def test_the_pipeline_is_done_after_one_run() -> None:
    module = softmax_module()
    run_graph_passes(module, ConstantStore(), Trace(), Options())
    once = str(module)
    run_graph_passes(module, ConstantStore(), Trace(), Options())
    assert str(module) == once


def test_every_pass_is_timed_and_dumped(tmp_path: Path) -> None:
    options = Options(dump=tmp_path)
    trace = Trace.from_options(options)
    run_graph_passes(softmax_module(), ConstantStore(), trace, options)
    assert set(trace.stages) == {"passes", *(f"passes/{each.name}" for each in GRAPH_PASSES)}
    assert [path.name for path in sorted(tmp_path.iterdir())] == [
        f"{number:02d}-{each.name.replace('-', '_')}.mlir" for number, each in enumerate(GRAPH_PASSES)
    ]


def test_changes_are_logged(capsys: pytest.CaptureFixture[str]) -> None:
    run_graph_passes(softmax_module(), ConstantStore(), Trace(log=("passes",)), Options())
    (line,) = (line for line in capsys.readouterr().err.splitlines() if "expand" in line)
    assert re.search(r"expand: \d+ -> \d+ ops .*reduce 0 -> 2, softmax 1 -> 0", line)


def test_a_failure_leaves_a_reproducer_that_fails_too(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def loop(op: Exponential, builder: Builder, facts: Facts) -> SSAValue:
        return Exponential.emit(builder, op.operands[0])

    monkeypatch.setattr(Exponential, "LAWS", (Law("exp(x) -> exp(x)", "loop", loop, lambda g: g.input()),))
    with pytest.raises(PassError, match="pass simplify failed: pass simplify does not come to an end") as caught:
        run_graph_passes(softmax_module(), ConstantStore(), Trace(), Options(dump=tmp_path))
    (path,) = tmp_path.glob("reproduce-simplify-*.mlir")
    command = f"anyshape opt {path} -p 'simplify'"
    assert command in str(caught.value)
    text = path.read_text()
    assert text.startswith(f"// {command}\n")
    assert "dhlo.exponential" in text, "the graph is that before the failing pass: expanded already"
    with pytest.raises(SystemExit) as exit:
        main(["opt", str(path), "-p", "simplify"])
    assert exit.value.code == 1
    assert "does not come to an end" in capsys.readouterr().err


@dataclass(frozen=True)
class _LastFirst(ModulePass):
    """Breaks the order of definitions."""

    name = "last-first"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        block = next(iter(op.body.block.ops)).regions[0].block  # type: ignore[union-attr]
        last = block.last_op.prev_op  # type: ignore[union-attr]
        last.detach()  # type: ignore[union-attr]
        block.insert_op_before(last, block.first_op)  # type: ignore[arg-type]


def test_a_pass_that_breaks_an_invariant_is_found_when_asked(tmp_path: Path) -> None:
    g = FunctionBuilder()
    x = g.input("m")
    module = ModuleOp([g.finish(g(Add, g(Exponential, x), x))])
    with pytest.raises(PassError, match=r"pass last-first failed: operand 0 of dhlo\.add is not defined"):
        run_graph_passes(module, ConstantStore(), Trace(), Options(verify=True, dump=tmp_path), passes=[_LastFirst()])


def test_pass_names_are_those_of_their_files() -> None:
    for name, kind in PASSES.items():
        assert kind.__module__.rpartition(".")[2] == name.replace("-", "_")
