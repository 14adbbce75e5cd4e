"""`anyshape opt`: passes by name on text, one program or several, errors as text."""

from collections.abc import Callable
from pathlib import Path

import pytest

from anyshape.cli.dispatch import main

SIZES = "#dhlo.dims<[m]>"
Opt = Callable[..., tuple[int, str, str]]
TENSOR = f"tensor<?xf32, {SIZES}>"


def program(*lines: str) -> str:
    body = "\n  ".join(lines)
    return f"func.func @main(%x: {TENSOR}) -> {TENSOR} {{\n  {body}\n}}\n"


TWICE = program(
    f"%a = dhlo.exponential %x : ({TENSOR}) -> {TENSOR}",
    f"%b = dhlo.exponential %x : ({TENSOR}) -> {TENSOR}",
    f"%c = dhlo.add %a, %b : ({TENSOR}, {TENSOR}) -> {TENSOR}",
    f"func.return %c : {TENSOR}",
)
WRONG = program(f"%a = dhlo.exponential %x : ({TENSOR}) -> tensor<3xf32>", f"func.return %x : {TENSOR}")


@pytest.fixture
def opt(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Opt:
    """Runs the command on a text; gives its exit code, output and errors."""

    def run(text: str, *arguments: str) -> tuple[int, str, str]:
        file = tmp_path / "program.mlir"
        file.write_text(text)
        with pytest.raises(SystemExit) as caught:
            main(["opt", str(file), *arguments])
        captured = capsys.readouterr()
        return int(caught.value.code or 0), captured.out, captured.err

    return run


def test_without_passes_the_program_is_printed(opt: Opt) -> None:
    code, out, _ = opt(TWICE)
    assert code == 0
    assert out.count("dhlo.exponential") == 2
    assert opt(out)[1] == out


def test_passes_run_in_order(opt: Opt) -> None:
    code, out, _ = opt(TWICE, "-p", "simplify,cse,fuse")
    assert code == 0
    assert out.count("dhlo.exponential") == 1
    assert out.count("dhlo.fusion") == 1


def test_an_unknown_pass_lists_all(opt: Opt) -> None:
    code, _, err = opt(TWICE, "-p", "cse,simplifi")
    assert code == 1
    assert "simplifi\n" in err
    assert "canonicalise-products, cse, dce" in err


def test_options_of_a_pass(opt: Opt) -> None:
    assert opt(TWICE, "-p", "fold{limit=16}")[0] == 0
    code, _, err = opt(TWICE, "-p", "fold{most=16}")
    assert code == 1
    assert "wrong option of a pass" in err


def test_programs_in_one_file(opt: Opt) -> None:
    code, out, _ = opt(f"{TWICE}// -----\n{TWICE}", "--split-input-file", "-p", "cse")
    assert code == 0
    assert out.count("builtin.module") == 2
    assert "// -----" in out


def test_diagnostics_in_place_of_a_program(opt: Opt) -> None:
    code, out, err = opt(f"{WRONG}// -----\n{TWICE}", "--split-input-file", "--verify-diagnostics")
    assert code == 0
    assert "result types should be" in out
    assert out.count("builtin.module") == 1
    assert err == ""
    code, _, err = opt(WRONG)
    assert code == 1
    assert "result types should be" in err


def test_text_that_does_not_parse(opt: Opt) -> None:
    code, _, err = opt("func.func @main( {")
    assert code == 1
    assert "does not parse" in err


def test_programs_between_passes(opt: Opt) -> None:
    _, out, _ = opt(TWICE, "-p", "verify,cse,dce", "--print-between-passes")
    assert [line for line in out.splitlines() if line.startswith("//")] == ["// after verify", "// after cse"]


def test_a_file_that_is_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["opt", "/nowhere/program.mlir"])
    assert "cannot read the program" in capsys.readouterr().err
