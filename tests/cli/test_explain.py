"""`anyshape explain`: what it says of a script's model is true, with the very lines; mistakes in the script are the user's to see."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from anyshape.cli.dispatch import main
from anyshape.driver.recording import is_recording

SCRIPT = """
import torch
import anyshape

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(8, 16)

    def forward(self, x, y):
        h = self.linear(x)
        if x.shape[0] > 4:  # a condition
            h = h * 2
        h = h.view(-1, 3, 16)  # a view
        p = h.softmax(-1)
        return p.sum(1), self.linear.weight @ torch.tanh(x + y).t()

class Spectrum(torch.nn.Module):
    def forward(self, x):
        return torch.igammac(x.exp() + 1, x.exp())

def exported():
    print("the script prints")
    return Model().eval(), (torch.randn(6, 8),), {"y": torch.randn(6, 8)}

def wrapped():
    return torch.compile(Spectrum(), backend="anyshape"), (torch.randn(6, 8),)

def itself():
    anyshape.compile(torch.nn.Tanh(), (torch.randn(2),))
    anyshape.compile(torch.nn.Sigmoid(), (torch.randn(2),))

def dynamo():
    def double(x):
        if x.shape[0] > 4:  # Dynamo is asked
            return x + x
        return x
    with torch.no_grad():
        torch.compile(double, backend="anyshape", dynamic=True)(torch.randn(6, 8))

def raises():
    return [1, 2][5]

def misfits():
    return Model().eval(), (torch.randn(6, 8), torch.randn(6, 5))

def number():
    return 3

def pair():
    return Model(), torch.randn(6, 8)

if __name__ == "__main__":
    raise SystemExit("this part must not run")
"""


def line_of(text: str) -> int:
    """The number of the only line of the script that contains `text`."""
    (number,) = (number for number, line in enumerate(SCRIPT.splitlines(), 1) if text in line)
    return number


@pytest.fixture(scope="module")
def script(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("scripts") / "the_users_script.py"
    file.write_text(SCRIPT)
    return file


Explain = Callable[..., tuple[int, str, str]]


@pytest.fixture
def explain(script: Path, capsys: pytest.CaptureFixture[str]) -> Explain:
    """Runs the command on a function of the script; gives its exit code, output and errors."""

    def run(function: str, *arguments: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as caught:
            main(["explain", f"{script}:{function}", *arguments])
        captured = capsys.readouterr()
        assert not is_recording() and "the_users_script" not in sys.modules and str(script.parent) not in sys.path
        return int(caught.value.code or 0), captured.out, captured.err

    return run


def test_every_part_of_an_exported_program(explain: Explain, script: Path) -> None:
    code, out, err = explain("exported", "--json", "--log", "guards")
    assert code == 0 and "the script prints" in err and "[guards] " in err
    (program,) = json.loads(out)["programs"]

    (symbol,) = program["symbols"]
    assert symbol["axes"] == ["args[0], axis 0", "kwargs['y'], axis 0"] and symbol["least"] == 5

    guards = {guard["condition"]: guard for guard in program["guards"]}
    name = symbol["name"]
    forced = {
        f"{name} > 4": ("a condition in Python", "# a condition"),
        f"{name} is a multiple of 3": ("aten.view.default", "# a view"),
        "args[0], axis 1 is 8": ("aten.linear.default", "self.linear(x)"),
        f"kwargs['y'], axis 0 is {name}": ("aten.add.Tensor", "x + y"),
    }
    for condition, (asker, text) in forced.items():
        line = guards[condition]["line"]
        assert (guards[condition]["asker"], line["file"], line["line"]) == (asker, str(script), line_of(text))
        assert text in line["text"]

    kernels = {kernel["name"]: kernel for kernel in program["kernels"]}
    assert {group["kernel"] for group in program["groups"]} == set(kernels)
    assert (
        program["host"]["launches"] == sum(kernel["launches"] for kernel in kernels.values()) == len(program["groups"])
    )
    assert program["host"]["outputs"] == 2
    lines = {op["line"]["line"] for group in program["groups"] for op in group["ops"] if op["name"] == "tanh"}
    assert lines == {line_of("torch.tanh")}
    product = next(kernel for kernel in kernels.values() if kernel["kind"] == "contract")
    assert product["packed_bytes"] == 64 * 8 * 4, "one panel of 64 columns, 8 deep"
    assert f"{name} × 16 × 8" in product["nest"][0] and product["variants"][0]["predicate"] == "at any size"
    assert {"import", "passes", "passes/fold", "fuse", "emit kernels", "load"} <= program["seconds"].keys()


def test_an_edge_that_is_not_fused_has_its_reason_and_lines(explain: Explain) -> None:
    code, out, _ = explain("exported", "--json")
    assert code == 0
    (program,) = json.loads(out)["programs"]
    edges = {(edge["producer"]["name"], edge["consumer"]["name"]): edge for edge in program["edges"]}
    edge = next(edge for (producer, _), edge in edges.items() if producer == "tanh")
    assert "reads it many times" in edge["reason"] and "dhlo." not in edge["reason"]
    assert edge["producer"]["line"]["line"] == edge["consumer"]["line"]["line"] == line_of("torch.tanh")
    kernel_of = {op["name"]: group["kernel"] for group in program["groups"] for op in group["ops"]}
    assert edge["producer_kernel"] == kernel_of["tanh"] != edge["consumer_kernel"]


def test_what_stays_with_pytorch_is_named_with_its_line(explain: Explain, script: Path) -> None:
    code, out, _ = explain("wrapped", "--json")
    assert code == 0
    found = json.loads(out)
    (graph,) = found["graphs"]
    assert graph["parts"] == len(found["programs"]) == 1
    remarks = {remark["subject"]: remark for remark in found["remarks"]}
    left = remarks["aten.igammac.default"]
    assert left["location"] == f"{script}:{line_of('torch.igammac')}" and "no lowering" in left["reason"]


def test_guards_inside_torch_compile_have_lines_too(explain: Explain, script: Path) -> None:
    code, out, _ = explain("dynamo", "--json")
    assert code == 0
    (program,) = json.loads(out)["programs"]
    (guard,) = (guard for guard in program["guards"] if "> 4" in guard["condition"])
    assert guard["asker"] == "a condition in Python"
    assert (guard["line"]["file"], guard["line"]["line"]) == (str(script), line_of("# Dynamo is asked"))


def test_everything_that_a_function_compiles_itself(explain: Explain) -> None:
    code, out, _ = explain("itself")
    assert code == 0
    assert "program 2 of 2" in out and "tanh" in out and "logistic" in out
    for title in ("sizes", "groups", "kernels", "host program", "seconds"):
        assert title in out.splitlines() or any(line.strip() == title for line in out.splitlines()), title


@pytest.mark.parametrize(
    ("function", "shown", "hidden"),
    [
        ("raises", ("IndexError", "in raises", "return [1, 2][5]", "to do:"), "anyshape/"),
        ("misfits", ("ExportError", "x + y"), "anyshape/"),
        ("number", ("nothing was compiled", "return (module, args)"), "Traceback"),
        ("pair", ("returns no model with its arguments", "Model, Tensor"), "Traceback"),
        ("absent", ("no such function", "exported, wrapped"), "Traceback"),
    ],
)
def test_mistakes_of_the_script(explain: Explain, function: str, shown: tuple[str, ...], hidden: str) -> None:
    code, out, err = explain(function)
    assert code == 1 and not out
    assert all(text in err for text in shown), err
    assert hidden not in err


@pytest.mark.parametrize("target", ["absent.py:main", "script.py", "script.py:"])
def test_mistakes_of_the_command_line(target: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["explain", target])
    assert caught.value.code == 1
    err = capsys.readouterr().err
    assert "SCRIPT.py:FUNCTION" in err and target.rpartition(":")[0] in err


def test_an_unknown_log_name_lists_them_all(explain: Explain) -> None:
    code, _, err = explain("exported", "--log", "nope")
    assert code == 1 and "'nope'" in err and "fusion" in err


def test_origins_are_no_part_of_texts_or_keys() -> None:
    from anyshape.dialects.dhlo import Tanh
    from anyshape.dialects.dhlo.graph import FunctionBuilder
    from anyshape.dialects.locations import Origin, location_of_origins, origins_in

    origins = {"d0 <= 4": Origin("aten.view.default", "model.py", 12), "args[0], axis 1": Origin("an unknown asker")}
    g = FunctionBuilder()
    function: Any = g.finish(g(Tanh, g.input("b")))
    before = str(function)
    function.location = location_of_origins(origins)
    assert str(function) == before and origins_in(function.clone().location) == origins
