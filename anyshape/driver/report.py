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
        kernels: distinct kernels.
        launches: kernel launches of one call.
        symbols: size symbols, each with the argument and axis that binds it.
        guards: conditions on sizes.
        compile_seconds: from PyTorch's captured graph to loaded machine code, seconds.
        capture_seconds: what the framework took to hand over the graph, seconds.
        stages: seconds of each stage.
        kernel_launches: launches of each kernel in one call.
        constant_bytes: bytes of the constant table, packed weights included.
        packed_bytes: bytes of the weights that are kept packed for products.
        copied_bytes: bytes of the weights and constants that are kept unpacked in memory of the program.
    """

    kernels: int
    launches: int
    symbols: Mapping[str, str]
    guards: tuple[str, ...]
    compile_seconds: float
    capture_seconds: float
    stages: Mapping[str, float] = field(default_factory=dict[str, float])
    kernel_launches: Mapping[str, int] = field(default_factory=dict[str, int])
    constant_bytes: int = 0
    packed_bytes: int = 0
    copied_bytes: int = 0

    def __str__(self) -> str:
        table = Table(title="anyshape report", show_header=False, title_justify="left")
        table.add_column(style="bold")
        table.add_column()
        table.add_row("kernels", f"{self.kernels} distinct, {self.launches} launches a call")
        kept = ", ".join(
            f"{size / 2**20:.1f} MiB {what}"
            for what, size in (("packed", self.packed_bytes), ("copied", self.copied_bytes))
        )
        table.add_row("constants", f"{self.constant_bytes / 2**20:.1f} MiB: {kept}")
        table.add_row("sizes", "\n".join(f"{symbol}: {axis}" for symbol, axis in self.symbols.items()) or "all static")
        table.add_row("guards", "\n".join(self.guards) or "none")
        table.add_row("compile", f"{self.compile_seconds:.2f} s, after {self.capture_seconds:.2f} s of capture")
        table.add_row("stages", "\n".join(f"{name}: {1e3 * seconds:.0f} ms" for name, seconds in self.stages.items()))
        table.add_row("launches", "\n".join(f"{name} × {count}" for name, count in self.kernel_launches.items()))
        text = StringIO()
        Console(width=120, color_system=None, file=text).print(table)
        return text.getvalue()
