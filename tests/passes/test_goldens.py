"""Every golden file: its pass gives the program that its CHECK lines show, a program that says the same, and is then done."""

import io
from pathlib import Path

import pytest
from filecheck.finput import FInput
from filecheck.matcher import Matcher
from filecheck.options import Options
from filecheck.parser import Parser as CheckParser
from filecheck.parser import pattern_for_opts
from xdsl.dialects.builtin import ModuleOp

from anyshape.driver.pipeline import PASSES
from tests.passes.programs import apply, assert_same, parse, weights_of

FOLDER = Path(__file__).parent
GOLDENS = sorted(FOLDER.glob("*/*.mlir"))
RTOL = {"expand": 1e-5, "hoist-scales": 1e-5, "split-reductions": 1e-5}
"""An expansion rounds in between; `rms_norm` and its like in f16 round the same at the end."""


def program_of(path: Path) -> ModuleOp:
    return parse(path.read_text())


def as_checks(text: str) -> str:
    lines = [line for line in text.splitlines() if line.strip()]
    return "".join(f"// CHECK{'-NEXT' if number else ''}: {line}\n" for number, line in enumerate(lines))


@pytest.mark.parametrize("path", GOLDENS, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_golden(path: Path, update_goldens: bool) -> None:
    source = path.read_text()
    pass_name = path.parent.name
    assert source.startswith(f"// RUN: anyshape opt %s -p {pass_name}\n")
    before, after = program_of(path), program_of(path)
    apply(pass_name, after)
    once = str(after)
    if update_goldens:
        kept = "".join(line for line in source.splitlines(keepends=True) if not line.startswith("// CHECK"))
        path.write_text(f"{kept.rstrip()}\n\n{as_checks(once)}")
    else:
        check(path, once)
    assert_same(before, after, weights_of(before), RTOL.get(pass_name, 0.0))
    apply(pass_name, after)
    assert str(after) == once, "a second run changes the program again"


def check(path: Path, output: str) -> None:
    options = Options(str(path))
    checks = CheckParser(options, io.StringIO(path.read_text()), *pattern_for_opts(options))
    assert Matcher(options, FInput("output", output), checks).run() == 0, f"{path.name} gives\n{output}"


def test_every_pass_that_rewrites_has_goldens() -> None:
    assert {path.parent.name for path in GOLDENS} == set(PASSES) - {"verify", "fuse"}
