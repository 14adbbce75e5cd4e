"""What a user gets wrong, and what breaks inside: PyTorch's answer without `strict`, an error of ours with it, and a model that goes on."""

from __future__ import annotations

import copy
import io
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch
from torch import nn

import anyshape
from anyshape.driver import build, dynamo
from anyshape.driver.dynamo import backend
from anyshape.frontends.torch.dynamo import graph as lowering
from anyshape.frontends.torch.live import WeightWatch

# PyTorch is typed in part only.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false
# pyright: reportUnknownLambdaType=false


def compiled(function: Callable[..., Any], **options: object) -> Callable[..., Any]:
    return torch.compile(function, backend=backend, dynamic=True, options=options)  # pyright: ignore[reportArgumentType, reportCallIssue]


def layers() -> nn.Module:
    return nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.Linear(8, 3), nn.Softmax(-1)).eval()


STAGES: dict[str, tuple[Any, str, type[Exception]]] = {
    "capture": (dynamo, "compile_functional", RuntimeError),
    "lowering": (lowering.GraphLowering, "run", KeyError),
    "passes and code": (dynamo, "build_objects", anyshape.ArgumentError),
    "machine code": (build, "compile_objects", RecursionError),
    "loading": (dynamo, "load_live", MemoryError),
    "finding a program": (dynamo.Instances, "program_of", AssertionError),
}


@pytest.mark.parametrize("stage", STAGES)
def test_a_stage_that_fails(stage: str, monkeypatch: pytest.MonkeyPatch) -> None:
    owner, name, kind = STAGES[stage]

    def broken(*_: object, **__: object) -> object:
        raise kind("broken on purpose")

    model, x = layers(), torch.randn(5, 4)
    with monkeypatch.context() as patch:
        patch.setattr(owner, name, broken)
        program = compiled(model)
        for rows in (x, x[:2], x[:1], x[:0]):
            torch.testing.assert_close(program(rows), model(rows))
        assert {remark.kind for remark in anyshape.report().remarks} == {"compile"}
        assert all("broken on purpose" in remark.reason for remark in anyshape.report().remarks)
        torch.compiler.reset()
        with pytest.raises(anyshape.CompileError, match="broken on purpose"):
            compiled(model, strict=True)(x)
    torch.compiler.reset()
    torch.testing.assert_close(compiled(model, strict=True)(x), model(x))


def test_a_check_of_weights_that_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> object:
        raise RuntimeError("broken on purpose")

    model, x = layers(), torch.randn(5, 4)
    program, strict = compiled(model), compiled(lambda x: model(x), strict=True)
    assert torch.equal(program(x), strict(x))
    with monkeypatch.context() as patch:
        patch.setattr(WeightWatch, "update", broken)
        torch.testing.assert_close(program(x), model(x))
        with pytest.raises(RuntimeError, match="broken on purpose"):
            strict(x)
    torch.testing.assert_close(strict(x), model(x))
    assert [remark.kind for remark in anyshape.report().remarks] == ["run"]


def test_eight_threads_while_one_compilation_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    load, failed = dynamo.load_live, threading.Event()

    def broken_once(*args: Any) -> Any:
        if not failed.is_set():
            failed.set()
            raise RuntimeError("broken on purpose")
        return load(*args)

    monkeypatch.setattr(dynamo, "load_live", broken_once)
    models, start = [layers() for _ in range(2)], threading.Barrier(8)
    programs = [compiled(model) for model in models]

    def work(number: int) -> None:
        start.wait()
        with torch.no_grad():
            for call in range(10):
                x = torch.randn(2 + (number + call) % 5, 4)
                torch.testing.assert_close(programs[number % 2](x), models[number % 2](x))

    with ThreadPoolExecutor(8) as pool:
        for future in [pool.submit(work, number) for number in range(8)]:
            future.result()
    (remark,) = anyshape.report().remarks
    assert remark.kind == "compile" and remark.count == 1


def test_models_copied_and_stored_after_compiling() -> None:
    model, x = layers(), torch.randn(5, 4)
    model.compile(backend=backend, dynamic=True, options={"strict": True})  # pyright: ignore[reportArgumentType]
    expected = model(x)
    twin = copy.deepcopy(model)
    with torch.no_grad():
        twin[0].weight.mul_(2)  # pyright: ignore
    torch.testing.assert_close(twin(x), layers_of(twin)(x))
    torch.testing.assert_close(model(x), expected)
    file = io.BytesIO()
    torch.save(model, file)
    file.seek(0)
    torch.testing.assert_close(torch.load(file, weights_only=False)(x), expected)
    torch.compiler.reset()
    torch.testing.assert_close(model(x), expected)


def layers_of(model: nn.Module) -> nn.Module:
    fresh = layers()
    fresh.load_state_dict(model.state_dict())
    return fresh


MISTAKES: dict[str, tuple[Callable[..., Any], tuple[torch.Tensor, ...]]] = {
    "dtype": (nn.Linear(4, 3), (torch.randn(3, 4).double(),)),
    "dtypes of a product": (torch.mm, (torch.randn(3, 4), torch.ones(4, 3, dtype=torch.int64))),
    "dtypes of products": (torch.bmm, (torch.randn(2, 3, 4), torch.randn(2, 4, 3).half())),
    "size": (nn.Linear(4, 3), (torch.randn(3, 5),)),
    "rank": (torch.mm, (torch.randn(3), torch.randn(3, 3))),
    "index": (lambda x, i: x.gather(1, i), (torch.randn(3, 4), torch.tensor([[7]]))),
    "no elements": (lambda x: x.amax(0), (torch.randn(0, 4),)),
    "a write to memory that is shared": (lambda x: x.add_(1), (torch.zeros(1).expand(5),)),
    "more than there is": (lambda x: x.expand(1 << 30, 1 << 20) + 1, (torch.randn(1),)),
}


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("kind", MISTAKES)
def test_what_eager_refuses_is_refused(kind: str, strict: bool) -> None:
    function, args = MISTAKES[kind]
    with pytest.raises((RuntimeError, IndexError)):
        function(*args)
    with pytest.raises((RuntimeError, IndexError, anyshape.AnyshapeError)):
        compiled(function, strict=strict)(*args)


def test_numbers_that_a_transform_makes_tensors() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        return torch.vmap(lambda y: y.sum() * 2 + 1)(x)

    x = torch.randn(3, 4)
    torch.testing.assert_close(compiled(f, strict=True)(x), f(x))


def test_compiled_functions_call_each_other() -> None:
    inner = compiled(lambda x: x.softmax(-1) * 2)
    outer = torch.compile(lambda x: inner(x + 1) - 1, backend=backend, dynamic=True, fullgraph=True)
    for rows in (3, 1, 5):
        x = torch.randn(rows, 4)
        torch.testing.assert_close(outer(x), (x + 1).softmax(-1) * 2 - 1)
