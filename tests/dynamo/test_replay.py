"""A failed compilation leaves a folder, and `anyshape replay` fails in the same way."""

from __future__ import annotations

import json
import os
import shlex
import stat
import subprocess
import sys
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import anyshape
from anyshape.cli import main
from anyshape.driver import reproducer
from anyshape.driver.dynamo import backend
from anyshape.driver.remarks import JOURNAL
from anyshape.driver.reproducer import read_crash
from anyshape.frontends.torch.builder import LOWERINGS
from anyshape.frontends.torch.dynamo import functional
from anyshape.frontends.torch.dynamo.graph import GraphLowering
from anyshape.frontends.torch.dynamo.record import lower_again, read_graph, record_graph
from anyshape.frontends.torch.dynamo.traced import trace_again
from anyshape.passes.simplify import SimplifyPass

# PyTorch is typed in part only.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false

BREAK = """
import sys
from anyshape.cli import main
from anyshape.passes.simplify import SimplifyPass

def broken(self, context, module):
    raise RuntimeError("broken on purpose")

SimplifyPass.apply = broken
main(sys.argv[1:])
"""


def broken(_self: SimplifyPass, _context: Any, _module: Any) -> None:
    raise RuntimeError("broken on purpose")


def fail(function: Callable[..., Any], place: Path, *args: torch.Tensor) -> Path:
    """Run with a broken pass; the folder that is left."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SimplifyPass, "apply", broken)
        program = torch.compile(function, backend=backend, dynamic=True, options={"dump": place})
        torch.testing.assert_close(program(*args), function(*args))
    (remark,) = anyshape.report().of_kind("compile")
    assert remark.replay is not None and f"replay it: {remark.replay}" in str(anyshape.report())
    command, verb, folder = shlex.split(remark.replay)
    assert (command, verb) == ("anyshape", "replay")
    return Path(folder)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    model = nn.Sequential(nn.Linear(4, 8), nn.Softmax(-1)).eval()
    return fail(lambda x: model(x) * torch.arange(8), tmp_path / "made here", torch.randn(3, 4))


def test_a_folder_says_what_is_needed_and_no_more(folder: Path) -> None:
    assert folder.parent.name == "crashes" and folder.parent.parent.name == "made here"
    head = json.loads((folder / "crash.json").read_text())
    assert "broken on purpose" in head["error"] and head["location"].startswith(__file__)
    assert head["versions"]["torch"] == metadata.version("torch") and head["options"]["precision"] == "strict"
    assert "broken on purpose" in (folder / "traceback.txt").read_text()
    assert "aten.softmax" in (folder / "fx.txt").read_text()
    text = (folder / "graph.mlir").read_text()
    assert "dhlo.softmax" in text and Path(__file__).name in text, "source lines are kept"
    for path in (folder, *folder.iterdir()):
        assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0, "nobody else may read it"
    assert {path.name for path in folder.iterdir()} == {"crash.json", "graph.mlir", "fx.txt", "traceback.txt"}


def test_the_command_replays_the_failure(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    again = subprocess.run(
        [sys.executable, "-c", BREAK, "replay", str(folder)], capture_output=True, text=True, env=dict(os.environ)
    )
    assert again.returncode == 1, again.stderr
    assert "replayed: the same error" in again.stdout and __file__ in again.stdout
    assert "Traceback" in again.stderr and "broken on purpose" in again.stderr
    with pytest.raises(SystemExit) as ended:
        main(["replay", str(folder)])
    assert ended.value.code == 0 and "the graph compiles" in capsys.readouterr().out


def test_the_same_failure_is_kept_once_and_few_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reproducer, "FOLDERS", 2)
    kept: set[Path] = set()
    for function in (torch.exp, torch.exp, torch.sin, torch.cos):
        torch.compiler.reset()
        JOURNAL.clear()
        kept.add(fail(function, tmp_path, torch.randn(3)))
    assert len(kept) == 3
    assert len(list((tmp_path / "crashes").iterdir())) == 2


def test_strict_errors_name_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SimplifyPass, "apply", broken)
    program = torch.compile(torch.exp, backend=backend, options={"dump": tmp_path, "strict": True})
    with pytest.raises(anyshape.CompileError, match=r"(?s)broken on purpose.*anyshape replay "):
        program(torch.randn(3))


def lowering_that_breaks(*_args: object, **_kwargs: object) -> object:
    raise KeyError("gone")


WEIGHT = nn.Parameter(torch.randn(6, 6))


def many_sizes(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    rows = torch.cat([x, y]).reshape(-1, x.shape[1] * 2)
    chosen, _ = torch.sort(rows.softmax(-1), -1)
    chosen = nn.functional.linear(chosen, WEIGHT)
    return torch.cumsum(chosen.mT.to(torch.float64), 0) * torch.zeros(rows.shape[0] * 2)[: x.shape[0]]


@pytest.fixture
def lowering_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setitem(LOWERINGS, "aten.cumsum.default", lowering_that_breaks)
    x = torch.randn(4, 3)
    program = torch.compile(many_sizes, backend=backend, dynamic=True, options={"dump": tmp_path})
    torch.testing.assert_close(program(x, x), many_sizes(x, x))
    (remark,) = [remark for remark in anyshape.report().of_kind("op") if "KeyError" in remark.reason]
    assert remark.replay is not None
    return Path(shlex.split(remark.replay)[-1])


def test_a_lowering_is_replayed(lowering_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    crash, graph = read_crash(lowering_folder)
    assert crash.error.startswith("KeyError") and crash.location is not None and crash.location.startswith(__file__)
    with pytest.raises(KeyError, match="gone"):
        lower_again(graph)
    with pytest.raises(SystemExit) as ended:
        main(["replay", str(lowering_folder)])
    assert ended.value.code == 1
    monkeypatch.undo()
    lower_again(graph)


def test_a_graph_survives_its_record(lowering_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Read, written again and lowered, it is what it was: nodes, sizes, strides, source lines."""
    monkeypatch.undo()
    monkeypatch.delitem(LOWERINGS, "aten.sort.default", raising=False)
    _, record = read_crash(lowering_folder)
    again = read_graph(record)
    assert record_graph(again) == record
    assert record["hints"] and sum("weight" in node for node in record["nodes"]) == 1
    lowering = GraphLowering(again, stand_ins=True)
    lowering.run()
    assert [op.name for op in lowering.left_ops.values()] == ["aten.sort.default"]
    assert all(op.location and op.location.startswith(__file__) for op in lowering.left_ops.values())


HOSTILE_NODES: dict[str, dict[str, Any]] = {
    "a function of Python's": {"op": "call_function", "target": "os.system", "args": {"tuple": ["true"]}, "kwargs": {}},
    "a hidden one": {"op": "call_function", "target": "aten.__class__.mro", "args": {"tuple": []}, "kwargs": {}},
    "no op": {"op": "call_function", "target": "aten.nothing.default", "args": {"tuple": []}, "kwargs": {}},
    "a method": {"op": "call_method", "target": "cpu", "args": {"tuple": []}, "kwargs": {}},
    "a dtype": {"op": "output", "args": {"tuple": [{"dtype": "load"}]}},
    "no node": {"op": "output", "args": {"tuple": [{"node": "x"}]}},
}


@pytest.mark.parametrize("kind", HOSTILE_NODES)
def test_records_that_are_none(kind: str) -> None:
    with pytest.raises((ValueError, KeyError)):
        read_graph({"hints": {}, "nodes": [{"name": "n", **HOSTILE_NODES[kind]}]})


def edit(folder: Path, name: str, value: object) -> None:
    """Change one field of a folder's head."""
    head = json.loads((folder / "crash.json").read_text())
    (folder / "crash.json").write_text(json.dumps({**head, name: value}))


HOSTILE: dict[str, Callable[[Path], object]] = {
    "no folder": lambda folder: folder.rename(folder.with_name("elsewhere")),
    "not json": lambda folder: (folder / "crash.json").write_text("{"),
    "no object": lambda folder: (folder / "crash.json").write_text("[]"),
    "other format": lambda folder: (folder / "crash.json").write_text('{"format": 99}'),
    "no graph": lambda folder: (folder / "graph.mlir").unlink(),
    "not text": lambda folder: (folder / "graph.mlir").write_bytes(b"\xff\xfe"),
    "not a graph": lambda folder: (folder / "graph.mlir").write_text("func.func @main("),
    "a size below 0": lambda folder: edit(folder, "weights", {"w": ["f32", [-1]]}),
    "unknown dtype": lambda folder: edit(folder, "weights", {"w": ["f33", [1]]}),
    "unknown option": lambda folder: edit(folder, "options", {"precision": "none"}),
    "open to others": lambda folder: folder.chmod(0o755),
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_folders_that_are_none(kind: str, tmp_path: Path) -> None:
    folder = fail(torch.exp, tmp_path, torch.randn(3))
    read_crash(folder)
    HOSTILE[kind](folder)
    with pytest.raises(anyshape.ArtifactError, match="no folder with a failure"):
        read_crash(folder)


def failing(*_: Any, **__: Any) -> Any:
    raise RuntimeError("broken on purpose")


def many_kinds(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Functions, methods, operators, slices, a size, a mode."""
    with torch.autocast("cpu", dtype=torch.bfloat16):
        z = nn.functional.linear(x[:, None, ..., 1:].squeeze(1), WEIGHT[:, :2]) @ WEIGHT
    rows = torch.cat([x, y]).view(-1, 3).to(torch.float64)
    return (rows.softmax(-1)[: x.shape[0]] * x.shape[0]).sum() + torch.einsum("ij,ij->i", z, z).amax()


def folder_of_failing_capture(function: Callable[..., Any], tmp_path: Path, *args: torch.Tensor) -> Path:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(functional, "aot_module_simplified", failing)
        program = torch.compile(function, backend=backend, dynamic=True, options={"dump": tmp_path})
        torch.testing.assert_close(program(*args), function(*args))
    (remark,) = anyshape.report().of_kind("compile")
    assert remark.replay is not None
    return Path(shlex.split(remark.replay)[-1])


def test_failures_to_make_a_graph_functional(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = folder_of_failing_capture(many_kinds, tmp_path, torch.randn(4, 3), torch.randn(5, 3))
    assert {path.name for path in folder.iterdir()} == {"crash.json", "graph.json", "fx.txt", "traceback.txt"}
    with pytest.raises(SystemExit) as ended:
        main(["replay", str(folder)])
    assert ended.value.code == 0 and "the graph compiles" in capsys.readouterr().out
    monkeypatch.setattr(functional, "aot_module_simplified", failing)
    with pytest.raises(SystemExit) as ended:
        main(["replay", str(folder)])
    assert ended.value.code == 1 and "replayed: the same error" in capsys.readouterr().out


@pytest.mark.parametrize("node", [
    {"op": "call_method", "target": "__reduce_ex__x"}, {"op": "call_method", "target": "share_memory_now"},
    {"op": "call_function", "target": "torch.load"}, {"op": "call_function", "target": "os.system"},
    {"op": "call_module", "target": "x"},
])  # fmt: skip
def test_what_is_no_function_of_tensors_is_not_called(node: dict[str, Any]) -> None:
    record = {"traced": True, "hints": {}, "nodes": [{"name": "n", "args": {"tuple": []}, "kwargs": {}, **node}]}
    with pytest.raises(ValueError):
        trace_again(record)


def test_failures_that_are_shown_only(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A graph in an argument cannot be read back without running code."""

    def branches(x: torch.Tensor) -> Any:
        return torch.cond(x.sum() > 0, torch.sin, torch.cos, (x,))

    folder = folder_of_failing_capture(branches, tmp_path, torch.randn(3))
    assert {path.name for path in folder.iterdir()} == {"crash.json", "fx.txt", "traceback.txt"}
    assert "cond" in (folder / "fx.txt").read_text() and "broken on purpose" in (folder / "traceback.txt").read_text()
    with pytest.raises(SystemExit) as ended:
        main(["replay", str(folder)])
    assert ended.value.code == 1 and "before there was a graph of ATen ops" in capsys.readouterr().out
