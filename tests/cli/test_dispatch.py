"""The command: help and version without the compiler, errors as text, exit codes."""

import subprocess
import sys
from types import ModuleType

import pytest

import anyshape
from anyshape.cli import dispatch
from anyshape.cli.dispatch import SUBCOMMANDS, Subcommand, load_subcommand, main
from anyshape.support.errors import GuardError

HEAVY = ("xdsl", "mlir", "llvmlite", "numpy", "torch")


def exit_code(arguments: list[str]) -> int:
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    return int(caught.value.code or 0)


@pytest.fixture
def hello(monkeypatch: pytest.MonkeyPatch) -> None:
    """A subcommand that greets, or fails as the compiler fails."""

    def command(name: str, fail: bool = False) -> None:
        """Greet."""
        if fail:
            raise GuardError("size not allowed", where="input 0, axis 1", got=600)
        print(f"hello {name}")

    module = ModuleType("anyshape_test_hello")
    module.command = command  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setattr(dispatch, "SUBCOMMANDS", {"hello": Subcommand(module.__name__, "Say hello.")})


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code(["--version"]) == 0
    assert capsys.readouterr().out == f"anyshape {anyshape.__version__}\n"


@pytest.mark.parametrize("arguments", [["--help"], ["--version"]])
def test_help_and_version_import_no_compiler_part(arguments: list[str]) -> None:
    program = (
        "import sys, anyshape.cli\n"
        f"try: anyshape.cli.main({arguments!r})\n"
        f"except SystemExit: print('loaded', [m for m in {HEAVY!r} if m in sys.modules])"
    )
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert result.stdout.splitlines()[-1] == "loaded []"


def test_help_lists_every_subcommand_with_its_summary(capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code(["--help"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    for name, row in SUBCOMMANDS.items():
        assert name in text
        assert row.summary in text


@pytest.mark.parametrize("name", SUBCOMMANDS)
def test_every_listed_subcommand_loads_and_has_a_help_page(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert load_subcommand(name).help
    assert exit_code([name, "--help"]) == 0
    assert f"anyshape {name}" in capsys.readouterr().out


@pytest.mark.usefixtures("hello")
def test_a_subcommand_runs_with_its_arguments(capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code(["hello", "world"]) == 0
    assert capsys.readouterr().out == "hello world\n"


@pytest.mark.usefixtures("hello")
def test_an_error_is_text_without_a_traceback_and_exit_1(capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code(["hello", "world", "--fail"]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err == "error: size not allowed\n  where:    input 0, axis 1\n  got:      600\n"


@pytest.mark.usefixtures("hello")
@pytest.mark.parametrize("arguments", [["helo"], ["hello"], ["hello", "--loud", "x"], ["--nothing"]])
def test_a_mistake_in_the_command_line_is_exit_2(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code(arguments) == 2
    assert "Traceback" not in capsys.readouterr().err


def test_info_shows_the_machine_and_the_log_names(capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code(["info"]) == 0
    text = capsys.readouterr().out
    assert "f32 lanes" in text
    assert "ANYSHAPE_DUMP" in text


def test_python_m_anyshape_is_the_command() -> None:
    result = subprocess.run(
        [sys.executable, "-m", "anyshape", "--version"], capture_output=True, text=True, check=True, timeout=60
    )
    assert result.stdout == f"anyshape {anyshape.__version__}\n"
