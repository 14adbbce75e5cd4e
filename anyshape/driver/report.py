"""What a compilation did, to be read by people and by tests."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from io import StringIO

from rich.console import Console
from rich.table import Table


@dataclass(frozen=True)
class Report:
    """Figures of one compiled program.

    Attributes:
        compiles: compilations so far; it stays 1 whatever sizes arrive, since nothing is compiled in a call.
        kernels: distinct kernels.
        launches: kernel launches of one call.
        fallbacks: ops left to the framework; 0, since an op that we lack is an error.
        symbols: size symbols, each with the argument and axis that binds it.
        guards: conditions on sizes.
        compile_seconds: from PyTorch's captured graph to loaded machine code, seconds.
        capture_seconds: what the framework took to hand over the graph, seconds.
        stages: seconds of each stage.
        kernel_launches: launches of each kernel in one call.
        constant_bytes: bytes of the constant table, packed weights included.
    """

    compiles: int
    kernels: int
    launches: int
    fallbacks: int
    symbols: Mapping[str, str]
    guards: tuple[str, ...]
    compile_seconds: float
    capture_seconds: float
    stages: Mapping[str, float] = field(default_factory=dict[str, float])
    kernel_launches: Mapping[str, int] = field(default_factory=dict[str, int])
    constant_bytes: int = 0

    def __str__(self) -> str:
        table = Table(title="anyshape report", show_header=False, title_justify="left")
        table.add_column(style="bold")
        table.add_column()
        table.add_row("compilations", str(self.compiles))
        table.add_row("kernels", f"{self.kernels} distinct, {self.launches} launches a call")
        table.add_row("fallbacks", str(self.fallbacks))
        table.add_row("constants", f"{self.constant_bytes / 2**20:.1f} MiB")
        table.add_row("sizes", "\n".join(f"{symbol}: {axis}" for symbol, axis in self.symbols.items()) or "all static")
        table.add_row("guards", "\n".join(self.guards) or "none")
        table.add_row("compile", f"{self.compile_seconds:.2f} s, after {self.capture_seconds:.2f} s of capture")
        table.add_row("stages", "\n".join(f"{name}: {1e3 * seconds:.0f} ms" for name, seconds in self.stages.items()))
        table.add_row("launches", "\n".join(f"{name} × {count}" for name, count in self.kernel_launches.items()))
        text = StringIO()
        Console(width=120, color_system=None, file=text).print(table)
        return text.getvalue()
