"""The public face: arrays by position or name, several outputs, the command line, and no PyTorch."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from onnx import TensorProto, helper

import anyshape
from anyshape.cli.dispatch import main
from anyshape.support.errors import ArgumentError, DtypeError, GuardError, RankError
from tests.frontends.onnx.models import FLOAT, floats, model_of


def two_outputs() -> object:
    nodes = [
        helper.make_node("Sub", ["x", "y"], ["d"]),
        helper.make_node("Relu", ["d"], ["r"]),
        helper.make_node("Shape", ["x"], ["s"]),
    ]
    return model_of(nodes, {"x": (FLOAT, ("b", 3)), "y": (FLOAT, ("b", 3))}, ["r", "x", "s", "r"][:3])


def test_calls_by_position_and_by_name() -> None:
    program = anyshape.compile(two_outputs())
    assert (program.input_names, program.output_names) == (("x", "y"), ("r", "x", "s"))
    x, y = floats(5, 3), floats(5, 3, seed=1)
    for result, same, shape in (program(x, y), program(x, y=y), program(y=y, x=x)):
        np.testing.assert_array_equal(result, np.maximum(x - y, 0))
        np.testing.assert_array_equal(same, x)
        assert same is not x
        np.testing.assert_array_equal(shape, [5, 3])


def test_calls_that_do_not_fit() -> None:
    program = anyshape.compile(two_outputs())
    x = floats(5, 3)
    for args, kwargs in (((x,), {}), ((x, x, x), {}), ((x,), {"x": x}), ((x, x), {"z": x})):
        with pytest.raises(ArgumentError, match="small"):
            program(*args, **kwargs)
    with pytest.raises(DtypeError):
        program(x.astype(np.float64), x)
    with pytest.raises(RankError):
        program(x[0], x)
    with pytest.raises(GuardError):
        program(x, floats(4, 3))
    with pytest.raises(ArgumentError, match="example"):
        anyshape.compile(two_outputs(), (x,))
    with pytest.raises(ArgumentError, match="dynamic_shapes"):
        anyshape.compile(two_outputs(), dynamic_shapes=[{0: "b"}])


def test_bfloat16_has_its_own_type() -> None:
    node = helper.make_node("Add", ["x", "x"], ["y"])
    model = model_of([node], {"x": (TensorProto.BFLOAT16, ("b",))}, ["y"])
    result = anyshape.compile(model)(np.arange(5).astype(ml_dtypes.bfloat16))
    assert result.dtype == ml_dtypes.bfloat16
    np.testing.assert_array_equal(result.astype(np.float32), 2.0 * np.arange(5))


def test_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model, x = tmp_path / "m.onnx", floats(4, 3)
    node = helper.make_node("Relu", ["x"], ["y"])
    model.write_bytes(model_of([node], {"x": (FLOAT, (1, 3))}, ["y"]).SerializeToString())
    np.save(tmp_path / "a.npy", x)
    with pytest.raises(SystemExit) as ended:
        main(
            [
                "run",
                str(model),
                "--input",
                f"x={tmp_path / 'a.npy'}",
                "--output",
                str(tmp_path / "y.npy"),
                "--size",
                "x.0=batch",
            ]
        )
    assert ended.value.code in (0, None)
    np.testing.assert_array_equal(np.load(tmp_path / "y.npy"), np.maximum(x, 0))
    assert capsys.readouterr().out == "y: float32[4, 3]\n"
    with pytest.raises(SystemExit) as ended:
        main(["run", str(model), "--input", f"x={tmp_path / 'none.npy'}"])
    assert ended.value.code == 1
    assert "none.npy" in capsys.readouterr().err


PROGRAM = """
import sys
sys.modules["torch"] = sys.modules["sympy"] = None  # an import of them fails
import numpy as np
import anyshape
program = anyshape.compile(sys.argv[1])
np.testing.assert_array_equal(program(np.array([[-1, 2]], np.float32)), [[0, 2]])
assert not [name for name in sys.modules if name.startswith(("torch.", "sympy."))]
"""


def test_pytorch_is_not_imported(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    model = model_of([helper.make_node("Relu", ["x"], ["y"])], {"x": (FLOAT, ("b", 2))}, ["y"])
    path.write_bytes(model.SerializeToString())
    result = subprocess.run([sys.executable, "-c", PROGRAM, str(path)], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr


def test_guards_name_file_and_node(tmp_path: Path) -> None:
    """The same graph under another name is another program, so that its errors name its own file."""
    node = helper.make_node("MatMul", ["x", "w"], ["y"], name="project")
    model = model_of([node], {"x": (FLOAT, ("b", "k"))}, ["y"], {"w": floats(4, 3)}).SerializeToString()
    for name in ("first.onnx", "second.onnx"):
        (tmp_path / name).write_bytes(model)
        program = anyshape.compile(tmp_path / name, options=anyshape.Options(cache=tmp_path / "cache"))
        assert program(floats(2, 4)).shape == (2, 3)
        with pytest.raises(GuardError, match=f"axis 1.*asked for by {name}: node 'project' \\(MatMul\\)"):
            program(floats(2, 5))
