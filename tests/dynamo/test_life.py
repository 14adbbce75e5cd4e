"""What happens to a model of `torch.compile` in the life of its process: threads, forks, modes, models that come and go."""

from __future__ import annotations

import gc
import os
import struct
import subprocess
import sys
import textwrap
import threading
import time
import tomllib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import anyshape
from anyshape.driver.dynamo import backend
from anyshape.runtime.loader import Program

# PyTorch is typed in part only.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false
# pyright: reportUnknownLambdaType=false, reportUnknownParameterType=false, reportMissingParameterType=false

ROOT = Path(__file__).parents[2]


def compiled(function: Callable[..., Any], **options: object) -> Callable[..., Any]:
    return torch.compile(function, backend=backend, dynamic=True, options=options)


def perceptron(width: int = 8) -> nn.Module:
    return nn.Sequential(nn.Linear(width, 32), nn.GELU(), nn.LayerNorm(32), nn.Linear(32, 4), nn.Softmax(-1)).eval()


THREADS = 8


def test_eight_threads_from_the_first_call_on() -> None:
    """Each thread has sizes of its own, 0 and 1 among them, so some of the first calls compile at the same time."""
    shared, own = perceptron(), [perceptron(8 + number) for number in range(4)]
    program = compiled(shared, threads=2)
    start = threading.Barrier(THREADS)

    def work(number: int) -> None:
        own_model = own[number % len(own)]  # PyTorch compiles one function for 8 kinds of arguments, and these share it
        mine = compiled(own_model)
        start.wait()
        with torch.no_grad():  # a mode of the thread
            for call in range(20):
                rows = (number * 7 + call) % 23
                x = torch.randn(rows, 8)
                torch.testing.assert_close(program(x), shared(x), rtol=2e-5, atol=2e-5)
                if call % 10 == 0:
                    x = torch.randn(rows + 2, 8 + number % len(own))
                    torch.testing.assert_close(mine(x), own_model(x), rtol=2e-5, atol=2e-5)

    with ThreadPoolExecutor(THREADS) as pool:
        for future in [pool.submit(work, number) for number in range(THREADS)]:
            future.result()
    assert not anyshape.report().remarks


def in_child(work: Callable[[], object]) -> str:
    """What is wrong with `work` in a forked child: empty where it returns. The child is killed after a minute."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        said = "died"
        try:
            work()
            said = ""
        except BaseException as error:
            said = f"{type(error).__name__}: {error}"
        finally:
            os.write(writer, said.encode())
            os._exit(0)  # nothing of the parent's is torn down twice
    os.close(writer)
    deadline = time.monotonic() + 60
    while os.waitpid(child, os.WNOHANG) == (0, 0):
        if time.monotonic() > deadline:
            os.kill(child, 9)
            os.waitpid(child, 0)
            return "it hangs"
        time.sleep(0.01)
    with os.fdopen(reader, "rb") as pipe:
        return pipe.read().decode()


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_after_a_fork() -> None:
    """The child has the parent's program, without the threads of its pool, and compiles what is new to it."""
    model, other = perceptron(), perceptron(5)
    program, later = compiled(model, threads=2), compiled(other, threads=2)
    many, few, wide = torch.randn(4096, 8), torch.randn(3, 8), torch.randn(7, 5)
    torch.testing.assert_close(program(many), model(many))  # the pool's threads exist from here on
    # What PyTorch itself runs in parallel hangs in a child, so the child is given what to expect.
    expected = {id(x): m(x) for m, x in ((model, many), (model, few), (other, wide))}

    def child() -> None:
        for f, x in ((program, few), (program, many), (later, wide)):
            assert torch.allclose(f(x), expected[id(x)], rtol=2e-5, atol=2e-5)
        assert not anyshape.report().remarks
        assert in_child(grandchild) == ""

    def grandchild() -> None:
        assert torch.allclose(program(many), expected[id(many)], rtol=2e-5, atol=2e-5)

    assert in_child(child) == ""
    assert in_child(child) == ""
    torch.testing.assert_close(program(many), expected[id(many)])


class Scaled(nn.Module):
    def __init__(self, scale: int) -> None:
        super().__init__()
        self.scale = scale  # a constant of the graph, so that no two of these are one program

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.scale + x.sum()


def test_models_that_come_and_go() -> None:
    """Programs and their machine code go with the last models; what is kept for sizes 0 and 1 is bounded."""

    def compile_and_drop(number: int) -> None:
        model, x = Scaled(number + 2), torch.randn(3, 4)
        torch.testing.assert_close(compiled(model)(x), model(x))
        torch.compiler.reset()

    def programs() -> int:
        gc.collect()
        return sum(issubclass(type(each), Program) for each in gc.get_objects())

    before, levels = programs(), []
    for number in range(50):
        compile_and_drop(number)
        if number % 10 == 9:
            levels.append(programs() - before)
    assert len({*levels[1:]}) == 1 and levels[-1] <= 16, levels
    assert len(anyshape.report().graphs) == 50 and not any(graph.shared for graph in anyshape.report().graphs)


RESIDENT = """
import sys, gc, torch
from anyshape.driver.dynamo import backend

class Scaled(torch.nn.Module):
    def __init__(self, scale):
        super().__init__()
        self.scale = scale

    def forward(self, x):
        return x * self.scale + x.sum()

def growth(backend, first, count):
    for number in range(first, first + count):
        if number == first + 5:
            before = resident()
        torch.compile(Scaled(number), backend=backend, dynamic=True)(torch.ones(3, 4))
        torch.compiler.reset()
    return (resident() - before) / (count - 5)

def resident():
    gc.collect()
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096

with torch.no_grad():
    print(growth("aot_eager", 2, 35), growth(backend, 100, 50))
"""


def test_resident_memory_is_level() -> None:
    """What a model leaves behind in the process is PyTorch's own (a tenth of a megabyte), as the system counts it."""
    paths = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-c", RESIDENT], capture_output=True, text=True, env={**os.environ, "PYTHONPATH": paths}
    )
    assert done.returncode == 0, done.stderr
    pytorch, ours = map(float, done.stdout.split())
    assert ours - pytorch < 80_000, (ours, pytorch)  # bytes a model


DENORMAL = 5e-324


def floating_point_mode() -> tuple[float, float, int]:
    """Differs where this thread rounds another way, or takes or leaves denormals as 0."""
    denormal, third = 1e-310 * float("1"), float("1") / float("3")
    return denormal, third, struct.unpack("<q", struct.pack("<d", DENORMAL * float("1")))[0]


def test_the_floating_point_mode_stays() -> None:
    expected = floating_point_mode()
    assert expected == (1e-310, 1 / 3, 1)
    tiny = torch.full((1000,), 1e-40)
    program = compiled(lambda x: x * 1.0 + 0.0, threads=2)
    stop = threading.Event()

    def watch() -> set[tuple[float, float, int]]:
        seen = {floating_point_mode()}
        while not stop.is_set():
            seen.add(floating_point_mode())
        return seen

    with ThreadPoolExecutor(1) as pool:
        watching = pool.submit(watch)
        try:
            for _ in range(50):
                assert torch.equal(program(tiny), tiny)
        finally:
            stop.set()
        assert watching.result() == {expected}
    assert floating_point_mode() == expected
    assert torch.set_flush_denormal(True)
    try:
        program(tiny)
        assert floating_point_mode()[0] == 0, "a mode that the user set stays too"
    finally:
        torch.set_flush_denormal(False)


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_modes_without_gradients(mode: Callable[[], Any]) -> None:
    model = perceptron()
    program = compiled(model, strict=True)
    with torch.enable_grad(), mode():
        x = torch.randn(3, 8)
        for rows in (x, torch.randn(9, 8), torch.ones(1, 8)):
            got = program(rows)
            torch.testing.assert_close(got, model(rows))
            assert not got.requires_grad
            assert got.is_inference() == model(rows).is_inference()


def test_gradients_stay_with_pytorch() -> None:
    model = perceptron()
    program = compiled(model)
    with torch.enable_grad():
        x = torch.randn(3, 8, requires_grad=True)
        program(x).sum().backward()
        assert x.grad is not None
        torch.testing.assert_close(x.grad, torch.autograd.grad(model(x).sum(), x)[0])
    assert anyshape.report().of_kind("gradients")
    x = torch.randn(3, 8)
    torch.testing.assert_close(program(x), model(x))
    assert anyshape.report().graphs[-1].parts == 1


def test_autocast() -> None:
    """What PyTorch would run in bf16 has results of that dtype, as near to the exact ones as PyTorch's."""
    model, exact = perceptron(64), perceptron(64).double()
    exact.load_state_dict(model.state_dict())
    program = compiled(model)
    for rows in (5, 33, 1):
        x = torch.randn(rows, 64)
        with torch.autocast("cpu", torch.bfloat16):
            got, eager = program(x), model(x)
        assert got.dtype == eager.dtype
        want = exact(x.double())
        assert (got - want).abs().max() <= 2 * (eager - want).abs().max() + 2**-9
    torch.testing.assert_close(program(x), model(x))


def test_found_by_its_name(tmp_path: Path) -> None:
    """A process that never imports anyshape has the back end by its entry point, as an installation registers it."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    group = "torch_dynamo_backends"
    metadata = tmp_path / "anyshape-0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: anyshape\nVersion: 0\n")
    lines = [f"{name} = {value}" for name, value in project["entry-points"][group].items()]
    (metadata / "entry_points.txt").write_text("\n".join([f"[{group}]", *lines]))
    script = """
        import sys, torch
        assert "anyshape" in torch._dynamo.list_backends()
        assert "anyshape" not in sys.modules
        with torch.no_grad():
            x = torch.randn(3, 4)
            got = torch.compile(lambda x: x * 2 + 1, backend="anyshape", options={"strict": True})(x)
        torch.testing.assert_close(got, x * 2 + 1)
        assert len(sys.modules["anyshape"].report().graphs) == 1
    """
    paths = os.pathsep.join([str(tmp_path), str(ROOT)])
    command = [sys.executable, "-c", textwrap.dedent(script)]
    done = subprocess.run(
        command, cwd=tmp_path, env={**os.environ, "PYTHONPATH": paths}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
