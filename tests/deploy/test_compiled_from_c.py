"""Object files that `CompiledModule.write_objects` leaves, linked with the C runtime, give the numbers of the compiled call."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import nn

from anyshape.driver.api import CompiledModule
from anyshape.runtime.loader import include_directory, source_files
from tests.end_to_end.eager import compiled
from tests.end_to_end.test_first_path import SIZES, Perceptron

ROOT = Path(__file__).parents[2]


def softmax() -> tuple[CompiledModule, nn.Module]:
    return compiled(nn.Softmax(-1), torch.randn(2, 3)), nn.Softmax(-1)


def perceptron() -> tuple[CompiledModule, nn.Module]:
    module = Perceptron().eval()
    return compiled(module, torch.randn(2, 33)), module


def link(program: CompiledModule, folder: Path) -> Path:
    compiler = shutil.which("gcc")
    if compiler is None:
        pytest.skip("gcc is not installed")
    objects = program.write_objects(folder)
    assert objects and all(path.read_bytes()[:4] == b"\x7fELF" for path in objects)
    sources = [ROOT / "examples/run_from_c/main.c", *source_files()]
    flags = ["-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror", f"-I{include_directory()}"]
    command = [compiler, *flags, *map(str, [*sources, *objects]), "-lpthread", "-lm", "-o", str(folder / "run")]
    subprocess.run(command, check=True)
    return folder / "run"


def run(executable: Path, x: torch.Tensor) -> subprocess.CompletedProcess[str]:
    command = [str(executable), str(executable.with_name("constants.bin")), *map(str, x.shape)]
    text = " ".join(f"{value:.9g}" for value in x.flatten().tolist())
    return subprocess.run(command, input=text, capture_output=True, text=True)


@pytest.mark.parametrize(("make", "widths"), [(softmax, SIZES), (perceptron, (33,))], ids=["softmax", "perceptron"])
def test_the_executable_prints_the_same_numbers(
    make: Callable[[], tuple[CompiledModule, nn.Module]], widths: tuple[int, ...], tmp_path: Path
) -> None:
    program, module = make()
    executable = link(program, tmp_path)
    for rows in SIZES:
        for width in widths:
            torch.manual_seed(rows + 301 * width)
            x = torch.randn(rows, width)
            done = run(executable, x)
            assert (done.returncode, done.stderr) == (0, "")
            ours = program(x).flatten()
            # The program prints six digits.
            printed = torch.tensor([float(line) for line in done.stdout.split()], dtype=torch.float32)
            torch.testing.assert_close(printed, ours, rtol=6e-6, atol=1e-9)
            torch.testing.assert_close(printed, module(x).detach().flatten(), rtol=1e-5, atol=1e-6)


def test_the_executable_refuses_a_wrong_size(tmp_path: Path) -> None:
    executable = link(perceptron()[0], tmp_path)
    done = run(executable, torch.randn(2, 32))
    assert (done.returncode, done.stdout) == (1, "")
    for word in ("args[0]", "axis 1", "32", "33"):
        assert word in done.stderr


def test_the_same_program_has_the_same_objects(tmp_path: Path) -> None:
    """Objects and constants are a function of the model: nothing of the process is in them."""
    folders = [tmp_path / "a", tmp_path / "b"]
    for folder in folders:
        perceptron()[0].write_objects(folder)
    names = sorted(path.name for path in folders[0].iterdir())
    assert names == sorted(path.name for path in folders[1].iterdir())
    for name in names:
        assert (folders[0] / name).read_bytes() == (folders[1] / name).read_bytes(), name
