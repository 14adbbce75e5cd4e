"""What stays with PyTorch is told, with `strict` it is an error, and no mistake of ours makes a model unusable."""

from __future__ import annotations

import inspect
import pickle
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils import _pytree as pytree

import anyshape
from anyshape.driver import dynamo
from anyshape.driver.dynamo import backend
from anyshape.driver.remarks import GraphReport, Journal
from anyshape.frontends.torch.builder import LOWERINGS
from anyshape.passes.simplify import SimplifyPass

# PyTorch is typed in part only.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false
# pyright: reportUnknownLambdaType=false, reportUnknownParameterType=false, reportMissingParameterType=false


def compiled(function: Callable[..., Any], **options: object) -> Callable[..., Any]:
    return torch.compile(function, backend=backend, dynamic=True, options=options)


def line_of(function: Callable[..., Any], text: str) -> str:
    """`file:line` of the line of a function that contains `text`."""
    lines, first = inspect.getsourcelines(function)
    return f"{__file__}:{first + next(i for i, line in enumerate(lines) if text in line)}"


def incomplete_gammas(x: torch.Tensor) -> torch.Tensor:
    y = torch.igammac((x * 2).softmax(-1), x.exp())
    return torch.igamma(y.abs() + 1, x.abs())


def test_ops_that_stay_with_pytorch_are_remarked_upon() -> None:
    program = compiled(incomplete_gammas)
    x = torch.randn(3, 4)
    torch.testing.assert_close(program(x), incomplete_gammas(x))
    report = anyshape.report()
    (graph,) = report.graphs
    assert graph.parts == 2 and graph.ops_left == len(report.of_kind("op")) == 2
    assert graph.kernels >= 2 and graph.launches >= 2 and graph.compile_seconds > 0
    assert graph.location == line_of(incomplete_gammas, "torch.igammac(")
    lines = {remark.subject: remark.location for remark in report.of_kind("op")}
    assert lines["aten.igammac.default"] == line_of(incomplete_gammas, "torch.igammac(")
    assert lines["aten.igamma.default"] == line_of(incomplete_gammas, "torch.igamma(")
    compiled(lambda x: incomplete_gammas(x))(x)
    assert {remark.count for remark in anyshape.report().of_kind("op")} == {2}
    again = anyshape.report().graphs[-1]
    assert (again.parts, again.shared, again.kernels) == (2, 2, 0), "nothing was compiled again"
    text = str(anyshape.report())
    assert "aten.igammac.default" in text and Path(__file__).name in text


def test_a_journal_is_bounded() -> None:
    journal = Journal(graphs=2, remarks=2)
    for number in range(4):
        journal.add_graph(GraphReport(str(number)))
        journal.remark("op", str(number), "no" * 10_000)
    assert not journal.remark("op", "0", "no" * 10_000)
    report = journal.report()
    assert [graph.name for graph in report.graphs] == ["2", "3"] and report.graph_count == 4
    assert [(remark.subject, remark.count) for remark in report.remarks] == [("0", 2), ("1", 1)]
    assert report.dropped == 2 and len(report.remarks[0].reason) <= 1000
    assert "the last 2 of 4" in str(report) and "2 remarks" in str(report)


def test_strict_lists_everything_at_once() -> None:
    with pytest.raises(anyshape.UnsupportedOps) as caught:
        compiled(incomplete_gammas, strict=True)(torch.randn(3, 4))
    ops = {op.name: op.location for op in caught.value.ops}
    assert ops["aten.igammac.default"] == line_of(incomplete_gammas, "torch.igammac(")
    assert ops["aten.igamma.default"] == line_of(incomplete_gammas, "torch.igamma(")
    text = "".join(traceback.format_exception(caught.value))
    assert text.count("/anyshape/") == 1, "frames of the compiler are hidden"
    assert "anyshape.UnsupportedOps: " in text and "BackendCompilerFailed" not in text
    assert type(pickle.loads(pickle.dumps(caught.value))) is anyshape.UnsupportedOps


def test_strict_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANYSHAPE_STRICT", "1")
    with pytest.raises(anyshape.UnsupportedOps):
        compiled(incomplete_gammas)(torch.randn(3, 4))
    torch.compiler.reset()
    assert compiled(incomplete_gammas, strict=False)(torch.randn(3, 4)).shape == (3, 4)


def test_strict_takes_what_is_compiled_whole() -> None:
    def f(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        x += 1
        return x.softmax(-1), x[1:]

    x = torch.zeros(3, 4)
    result, view = compiled(f, strict=True)(x)
    assert torch.equal(result, torch.full((3, 4), 0.25)) and torch.equal(x, torch.ones(3, 4))
    assert view.data_ptr() == x[1:].data_ptr()
    assert not anyshape.report().remarks


def test_unknown_options_are_refused_with_those_that_there_are() -> None:
    with pytest.raises(anyshape.OptionError, match="strickt") as caught:
        compiled(incomplete_gammas, strickt=True)(torch.randn(3, 4))
    assert "strict" in str(caught.value.expected).split(", ")
    with pytest.raises(anyshape.OptionError, match=r"Options\.threads"):
        compiled(incomplete_gammas, threads=-1)(torch.randn(3, 4))


def test_graphs_with_gradients_are_pytorchs() -> None:
    model = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.5), nn.BatchNorm1d(8), nn.Linear(8, 2)).train()
    program = compiled(model)
    x = torch.randn(6, 4)
    gradients: list[list[torch.Tensor]] = []
    with torch.enable_grad():
        for each in (model, program):
            torch.manual_seed(0)
            loss = each(x).square().sum()
            gradients.append(list(torch.autograd.grad(loss, list(model.parameters()))))
    for mine, eager in zip(*gradients, strict=True):
        torch.testing.assert_close(mine, eager)
    (remark,) = anyshape.report().remarks
    assert remark.kind == "gradients" and remark.count == 1 and "no_grad" in remark.reason
    with torch.enable_grad(), pytest.raises(anyshape.UnsupportedOps, match="differentiated"):
        torch.compiler.reset()
        compiled(model, strict=True)(x)


def test_a_graph_without_lines_of_the_user_is_told_by_its_call() -> None:
    program = compiled(nn.ReLU())
    program(torch.randn(3))
    (graph,) = anyshape.report().graphs
    assert graph.location == line_of(test_a_graph_without_lines_of_the_user_is_told_by_its_call, "program(torch")


def test_dropout_while_training_without_gradients() -> None:
    program = compiled(nn.Dropout(0.25).train())
    dropped = program(torch.ones(100, 100))
    assert set(dropped.unique().tolist()) == {0.0, torch.tensor(1 / 0.75).item()}
    assert 0.22 < (dropped == 0).float().mean().item() < 0.28
    assert not torch.equal(dropped, program(torch.ones(100, 100)))


def test_the_mode_for_gradients_may_change_within_a_graph() -> None:
    weight = nn.Parameter(torch.randn(4, 4))

    def without(x: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            return x @ weight

    def within(x: torch.Tensor) -> torch.Tensor:
        with torch.enable_grad():
            return (x @ weight).sum()

    x = torch.randn(3, 4)
    with torch.enable_grad():
        result = compiled(without)(x)
    torch.testing.assert_close(result, x @ weight)
    assert not result.requires_grad and not anyshape.report().remarks
    (gradient,) = torch.autograd.grad(compiled(within)(x), weight)
    torch.testing.assert_close(gradient, x.sum(0)[:, None].expand(4, 4))
    assert [remark.kind for remark in anyshape.report().remarks] == ["gradients"]


def test_inputs_that_overlap_are_remarked_upon() -> None:
    def f(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        x *= 2
        return x + y

    program = compiled(f)
    program(torch.ones(4), torch.ones(4))
    for count in (1, 2):
        memory = torch.ones(8)
        assert program(memory[:4], memory[2:6]).tolist() == [4, 4, 3, 3]
        (remark,) = anyshape.report().remarks
        assert remark.kind == "overlap" and remark.count == count and remark.location == line_of(f, "x *= 2")
    torch.compiler.reset()
    strict = compiled(f, strict=True)
    strict(torch.ones(4), torch.ones(4))
    with pytest.raises(anyshape.ArgumentError, match="shares memory"):
        strict(memory[:4], memory[2:6])


def test_inputs_that_overlap_at_the_first_call() -> None:
    def f(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        x *= 2
        return x + y

    program = compiled(f)
    for _ in range(2):
        memory = torch.ones(8)
        assert program(memory[:4], memory[2:6]).tolist() == [4, 4, 3, 3]
        assert memory.tolist() == [2, 2, 2, 2, 1, 1, 1, 1]
    assert [remark.kind for remark in anyshape.report().remarks] == ["overlap"]
    x = torch.ones(4)
    assert program(x, torch.ones(4)).tolist() == [3, 3, 3, 3] and x.tolist() == [2, 2, 2, 2]
    assert anyshape.report().graphs[-1].parts == 1, "inputs apart are compiled anew"


def with_constants(x: torch.Tensor) -> torch.Tensor:
    x = x.clone()
    x[0] = 1
    return x.index_put((torch.tensor([1]),), torch.tensor(2.0)) + torch.tensor([3.0, 4.0, 5.0])


ODD: dict[str, Callable[[torch.Tensor], object]] = {
    "constants": with_constants,
    "sizes that depend on data": lambda x: ((x[x > 0] * 2).sum(), torch.nonzero(x > 0) + 1),
    "numbers that depend on data": lambda x: torch.zeros((x > 0).sum().item() + 1) + x.sum(),
    "control flow": lambda x: torch.cond(x.sum() > 0, lambda y: y * 2, lambda y: y - 1, (x.exp(),)),
    "several results of an op": lambda x: (torch.topk(x * 2, 2, -1), (x + 1).split([1, x.shape[0] - 1]), None, 1.5),
    "low precision": lambda x: x.to(torch.float8_e4m3fn).to(torch.float32) * 2,
}


@pytest.mark.parametrize("kind", ODD)
def test_odd_programs_give_what_eager_gives(kind: str) -> None:
    x = torch.linspace(-2, 3, 12).reshape(4, 3)
    config = torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True, capture_scalar_outputs=True)  # pyright: ignore
    with config:
        results, expected = compiled(ODD[kind])(x), ODD[kind](x)
    for mine, eager in zip(pytree.tree_leaves(results), pytree.tree_leaves(expected), strict=True):
        assert type(mine) is type(eager)
        torch.testing.assert_close(mine, eager)
    assert not anyshape.report().of_kind("compile")


UNUSABLE: dict[str, Callable[[], torch.Tensor]] = {
    "device": lambda: torch.empty(3, 4, device="meta"),
    "sparse": lambda: torch.eye(3).to_sparse_csr(),
    "quantised": lambda: torch.quantize_per_tensor(torch.randn(3, 4), 0.1, 0, torch.qint8),
    "nested": lambda: torch.nested.nested_tensor([torch.ones(2, 3), torch.ones(4, 3)], layout=torch.jagged),
    "complex": lambda: torch.randn(3, 4, dtype=torch.complex64),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", UNUSABLE)
def test_tensors_that_are_pytorchs(kind: str) -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        return x.clone()

    x = UNUSABLE[kind]()
    got, expected = compiled(f)(x), f(x)
    assert type(got) is type(expected) and got.layout is expected.layout and got.device == expected.device
    if kind == "complex":
        assert torch.equal(got, expected)
    report = anyshape.report()
    assert report.remarks or not report.graphs, "where Dynamo hands a graph over, it is said why nothing was compiled"
    assert all(graph.parts == 0 for graph in report.graphs)


def test_a_model_on_another_device_is_one_remark() -> None:
    model = nn.Linear(4, 3, device="meta")
    assert compiled(model)(torch.empty(2, 4, device="meta")).shape == (2, 3)
    (remark,) = anyshape.report().remarks
    assert remark.kind == "input" and "meta" in remark.reason
    with pytest.raises(anyshape.UnsupportedOps, match="meta"):
        torch.compiler.reset()
        compiled(model, strict=True)(torch.empty(2, 4, device="meta"))


def test_a_lowering_that_breaks_costs_one_op(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_args: object, **_kwargs: object) -> object:
        raise KeyError("gone")

    def f(x: torch.Tensor) -> torch.Tensor:
        y = x.exp() + 1
        return torch.cumsum(y, 0) * 2

    monkeypatch.setitem(LOWERINGS, "aten.cumsum.default", broken)
    x = torch.randn(3, 4)
    torch.testing.assert_close(compiled(f)(x), f(x))
    (remark,) = anyshape.report().remarks
    assert (remark.subject, remark.location) == ("aten.cumsum.default", line_of(f, "cumsum"))
    assert "KeyError" in remark.reason and anyshape.report().graphs[0].parts == 2
    torch.compiler.reset()
    with pytest.raises(anyshape.CompileError, match="KeyError") as caught:
        compiled(f, strict=True)(x)
    assert isinstance(caught.value, anyshape.CompileError)


def test_a_part_that_cannot_be_compiled_leaves_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    apply = SimplifyPass.apply

    def broken(self: SimplifyPass, context: Any, module: Any) -> None:
        if "dhlo.softmax" in str(module):
            raise RuntimeError("broken on purpose")
        apply(self, context, module)

    monkeypatch.setattr(SimplifyPass, "apply", broken)
    x = torch.randn(3, 4)
    torch.testing.assert_close(compiled(incomplete_gammas)(x), incomplete_gammas(x))
    (graph,), (remark,) = anyshape.report().graphs, anyshape.report().of_kind("compile")
    assert graph.parts == 1 and "broken on purpose" in remark.reason and remark.replay is None
    assert remark.location == line_of(incomplete_gammas, "torch.igammac(")

    torch.compiler.reset()
    with pytest.raises(anyshape.CompileError, match="broken on purpose"):
        compiled(lambda x: x.softmax(-1), strict=True)(x)


@pytest.mark.parametrize("stage", ["compile_functional", "split"])
def test_whatever_breaks_before_the_parts(stage: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_args: object, **_kwargs: object) -> object:
        raise AssertionError("broken on purpose")

    monkeypatch.setattr(dynamo, stage, broken)
    for rows in (3, 5):
        x = torch.randn(rows, 4)
        torch.testing.assert_close(compiled(incomplete_gammas)(x), incomplete_gammas(x))
    (remark,) = anyshape.report().of_kind("compile")
    assert "broken on purpose" in remark.reason


def test_a_call_that_fails_is_pytorchs(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_args: object) -> object:
        raise anyshape.MemoryLimit("no memory", got="7 bytes")

    program, strict = compiled(incomplete_gammas), compiled(lambda x: x.exp(), strict=True)
    x = torch.randn(3, 4)
    program(x), strict(x)
    with monkeypatch.context() as patch:
        patch.setattr(dynamo.torch_adaptor, "run", full)
        torch.testing.assert_close(program(x), incomplete_gammas(x))
        (remark,) = anyshape.report().of_kind("run")
        assert remark.count == 2 and remark.reason == "MemoryLimit: no memory", "both parts failed"
        with pytest.raises(anyshape.MemoryLimit):
            strict(x)
    program(x)
    assert anyshape.report().of_kind("run")[0].count == 2


def test_an_index_out_of_range_is_the_users_mistake() -> None:
    table = torch.randn(5, 3)

    def f(x: torch.Tensor) -> torch.Tensor:
        return nn.functional.embedding(x, table)

    program = compiled(f)
    for error in (IndexError, RuntimeError, anyshape.IndexOutOfRange):  # PyTorch raises one or the other
        with pytest.raises(error) as caught:
            program(torch.tensor([1, 7]))
    text = "".join(traceback.format_exception(caught.value))
    assert Path(__file__).name in str(caught.value) and text.count("/anyshape/") == 1
    assert torch.equal(program(torch.tensor([1, 4])), table[[1, 4]])
    assert not anyshape.report().remarks


def test_breaks_between_graphs() -> None:
    """How many graphs there are, and why there are several, with the line that is the cause."""

    def talkative(x: torch.Tensor) -> torch.Tensor:
        y = x.sin()
        print(end="")
        y = y * 2
        return y + 1 if y.sum() > 0 else y - 1

    program = torch.compile(talkative, backend=backend, dynamic=True)
    x = torch.ones(5)
    torch.testing.assert_close(program(x), talkative(x))
    torch.testing.assert_close(program(-x), talkative(-x))
    report = anyshape.report()
    first = talkative.__code__.co_firstlineno
    assert [remark.location for remark in report.of_kind("break")] == [
        f"{__file__}:{first + 2}",
        f"{__file__}:{first + 4}",
    ]
    assert "print" in report.of_kind("break")[0].reason
    assert report.graph_count == 4 and len(report.remarks) == 2
    assert "TorchDynamo cannot trace" in str(report)
