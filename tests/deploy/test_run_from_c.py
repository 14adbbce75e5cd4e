"""`examples/run_from_c`: a compiled program linked with RAL into an executable without Python."""

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from xdsl.dialects.builtin import f32

from anyshape.codegen.host import emit_program
from anyshape.codegen.llvm import emit_object, host_target, optimise
from anyshape.codegen.mlir import ModuleBuilder, lower_to_llvm
from anyshape.dialects.host import (
    AllocateOp,
    BindOp,
    ConstantOp,
    DenseOp,
    GuardAxisOp,
    LaunchOp,
    OutputOp,
    ProgramOp,
    ReturnOp,
)
from anyshape.dialects.tile import buffer
from anyshape.runtime.abi import CONSTANT_ALIGNMENT, DType
from anyshape.runtime.loader import include_directory, source_files
from anyshape.symbolic import Size

ROOT = Path(__file__).parents[2]
WEIGHTS = [np.full(5, 9, np.float32), np.array([1, -2, 0.5], np.float32)]


def doubled_product() -> ProgramOp:
    """out[i] = sum over j of 2 x[i, j] w[j] for x of sizes [n, 3]."""
    n = Size.symbol("n")
    program = ProgramOp("doubled_product", [("x", f32, [n, 3])], ["unused", "w"])
    (x,) = program.body.block.args
    dense, doubled = DenseOp(x), AllocateOp(buffer(f32, [n, 3]))
    weight, out = ConstantOp(1, buffer(f32, [3])), OutputOp(0, buffer(f32, [n]))
    twice = LaunchOp("twice", [dense.result, doubled.result], [], extent=3 * n, grain=4, scratch=0, outputs=1)
    buffers = [doubled.result, weight.result, out.result]
    product = LaunchOp("row_dot", buffers, [3], extent=n, grain=4, scratch=0, outputs=1)
    guard = GuardAxisOp(x, 1, 3, "argument 'x' axis 1: got %lld, expected %lld")
    program.body.block.add_ops(
        [BindOp("n", x, 0), guard, dense, doubled, twice, weight, out, product, ReturnOp.build()]
    )
    return program


@pytest.fixture(scope="module")
def executable(tmp_path_factory: pytest.TempPathFactory) -> Path:
    compiler = shutil.which("gcc")
    if compiler is None:
        pytest.skip("gcc is not installed")
    folder = tmp_path_factory.mktemp("run_from_c")
    contents = bytearray()
    spans: list[tuple[int, int]] = []
    for weight in WEIGHTS:
        contents += bytes(-len(contents) % CONSTANT_ALIGNMENT)
        spans.append((weight.nbytes, len(contents)))
        contents += weight.tobytes()
    (folder / "constants.bin").write_bytes(contents)
    module = ModuleBuilder("program")
    with module:
        emit_program(module, doubled_product(), outputs=[(DType.F32, 1)], constants=spans)
    target = host_target()
    code = emit_object(optimise(lower_to_llvm(module.module), target), target)
    (folder / "program.o").write_bytes(code)
    sources = [ROOT / "examples/run_from_c/main.c", ROOT / "tests/codegen/host/kernels.c", *source_files()]
    flags = ["-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror", f"-I{include_directory()}"]
    command = [compiler, *flags, *map(str, sources), str(folder / "program.o"), "-lpthread", "-lm"]
    subprocess.run([*command, "-o", str(folder / "run")], check=True)
    return folder / "run"


def run(executable: Path, *sizes: int, x: np.ndarray) -> subprocess.CompletedProcess[str]:
    command = [str(executable), str(executable.with_name("constants.bin")), *map(str, sizes)]
    return subprocess.run(command, input=" ".join(map(str, x.ravel())), capture_output=True, text=True)


@pytest.mark.parametrize("rows", [1, 2, 17, 0])
def test_prints_the_numbers(executable: Path, rows: int) -> None:
    x = np.arange(3 * rows, dtype=np.float32).reshape(rows, 3) / 4
    done = run(executable, rows, 3, x=x)
    assert (done.returncode, done.stderr) == (0, "")
    np.testing.assert_allclose([float(line) for line in done.stdout.split()], 2 * x @ WEIGHTS[1], rtol=1e-5)


def test_errors_reach_the_user(executable: Path) -> None:
    done = run(executable, 2, 4, x=np.zeros((2, 4)))
    assert (done.returncode, done.stdout, done.stderr) == (1, "", "argument 'x' axis 1: got 4, expected 3\n")
    done = run(executable, 2, x=np.zeros(2))
    assert done.returncode == 1 and "rank" in done.stderr
    executable.with_name("short.bin").write_bytes(b"\0" * 16)
    command = [str(executable), str(executable.with_name("short.bin")), "0", "3"]
    done = subprocess.run(command, capture_output=True, text=True, input="")
    assert done.returncode == 1 and "constant" in done.stderr


def test_the_template_is_short() -> None:
    assert len((ROOT / "examples/run_from_c/main.c").read_text().splitlines()) <= 45
