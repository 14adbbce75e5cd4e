"""What an import costs: the package is light, and PyTorch is needed in PyTorch's own rooms only."""

import ast
import re
import subprocess
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

import anyshape

PACKAGE = Path(anyshape.__file__).parent
HEAVY = ("xdsl", "mlir", "llvmlite", "numpy", "torch", "sympy", "rich", "typer")
TORCH_ROOMS = (
    "anyshape.frontends.torch",
    "anyshape.runtime.torch_adaptor",
    "anyshape.driver.dynamo",
    "anyshape.driver.instances",
    "anyshape.cli.demo",
    "anyshape.cli.minilm",
)


def run_python(program: str) -> str:
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=120)
    assert result.returncode == 0, result.stderr
    return result.stdout


def module_names() -> list[str]:
    names: list[str] = []
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
        names.append(".".join(parts[:-1] if parts[-1] == "__init__" else parts))
    return names


def is_torch_room(name: str) -> bool:
    return any(name == room or name.startswith(f"{room}.") for room in TORCH_ROOMS)


@pytest.mark.parametrize(
    "statement",
    ["import anyshape", "import anyshape; anyshape.Options; anyshape.GuardError; anyshape.__version__; dir(anyshape)"],
)
def test_import_is_light(statement: str) -> None:
    loaded = run_python(f"import sys; {statement}; print([m for m in {HEAVY!r} if m in sys.modules])")
    assert loaded.strip() == "[]"


def test_public_names() -> None:
    assert set(anyshape.__all__) <= set(dir(anyshape))
    assert anyshape.GuardError is sys.modules["anyshape.support.errors"].GuardError
    with pytest.raises(AttributeError, match="no attribute 'compiel'"):
        anyshape.compiel  # noqa: B018


def test_every_module_outside_pytorchs_rooms_imports_without_pytorch() -> None:
    names = [name for name in module_names() if not is_torch_room(name)]
    assert "anyshape.support.options" in names
    run_python(
        "import sys, importlib\n"
        "sys.modules['torch'] = None  # an import of it now raises ImportError\n"
        f"for name in {names!r}:\n"
        "    importlib.import_module(name)\n"
    )


def imported_packages() -> set[str]:
    """The top-level names that some module of the package imports, the standard library's and our own left out."""
    names: set[str] = set()
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                names |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                names.add(node.module.partition(".")[0])
    return names - sys.stdlib_module_names - {"anyshape"}


def test_every_imported_package_is_a_declared_dependency() -> None:
    project = tomllib.loads((PACKAGE.parent / "pyproject.toml").read_text())["project"]
    users_extras = {name: needs for name, needs in project["optional-dependencies"].items() if name != "test"}
    requirements = [*project["dependencies"], *(need for needs in users_extras.values() for need in needs)]
    declared = {normal_name(re.split(r"[\s<>=!~\[;]", requirement)[0]) for requirement in requirements}
    providers = packages_distributions()
    undeclared = {
        name for name in imported_packages() if declared.isdisjoint(map(normal_name, providers.get(name, [name])))
    }
    assert not undeclared


def normal_name(distribution: str) -> str:
    """A distribution's name as PyPI compares it."""
    return re.sub(r"[-_.]+", "-", distribution).lower()


def test_the_package_is_marked_as_typed() -> None:
    assert (PACKAGE / "py.typed").exists()
