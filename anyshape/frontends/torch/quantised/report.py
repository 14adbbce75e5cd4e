"""What quantising a model did to each layer, and how far the results moved."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from io import StringIO

from rich.console import Console
from rich.table import Table
from rich.text import Text


@dataclass(frozen=True)
class OutputError:
    """Relative errors ‖y − ŷ‖ / ‖y‖ of outputs y over a run, in the Euclidean norm over all elements; 0 where both are 0.

    Attributes:
        exact: with activations as they are: what quantised weights alone cost, and what `Options.activations="int16"` gives.
        int8: with activations rounded to 8 bits in each 32 elements of a row, as `Options.activations="int8"` rounds them.
    """

    exact: float
    int8: float


@dataclass(frozen=True)
class LayerReport:
    """One layer.

    Attributes:
        name: as `named_modules` has it; empty for the model itself.
        shape: of its matrix: rows, each quantised on its own, and elements of a row.
        format: of its blocks; None where it was skipped.
        bytes_before: of its matrix.
        bytes_after: the same, quantised. 0 for a matrix that an earlier layer has already.
        weight_error: ‖w − ŵ‖ / ‖w‖ over the matrix.
        output_error: of the layer alone, fed with what the original model fed it; None where it was not run.
        reason: why it was skipped.
    """

    name: str
    shape: tuple[int, int]
    format: str | None
    bytes_before: int
    bytes_after: int
    weight_error: float = 0.0
    output_error: OutputError | None = None
    reason: str | None = None


@dataclass(frozen=True)
class QuantisationReport:
    """A quantised model.

    Attributes:
        layers: layers with a matrix, skipped ones too, in the model's order.
        bytes_before: of all parameters and buffers, each memory once.
        bytes_after: the same of the quantised model.
        output_error: of the model's results; None where no example was given.
    """

    layers: tuple[LayerReport, ...]
    bytes_before: int
    bytes_after: int
    output_error: OutputError | None = None

    @property
    def quantised(self) -> tuple[LayerReport, ...]:
        """The layers that were quantised."""
        return tuple(layer for layer in self.layers if layer.format is not None)

    @property
    def skipped(self) -> tuple[LayerReport, ...]:
        """The layers that were not, each with its reason."""
        return tuple(layer for layer in self.layers if layer.format is None)

    def __str__(self) -> str:
        text = StringIO()
        console = Console(width=120, color_system=None, file=text)
        console.print(_table("quantised layers", self.quantised, with_outputs=self.output_error is not None))
        if self.skipped:
            console.print(_skipped_table(self.skipped))
        console.print(f"model: {self.bytes_before / 1024:,.1f} KiB before, {self.bytes_after / 1024:,.1f} after")
        if self.output_error is not None:
            exact, int8 = _percent(self.output_error.exact), _percent(self.output_error.int8)
            console.print(f"error of the model's results: {exact}; with activations in int8: {int8}")
        return text.getvalue()


def _table(title: str, layers: Sequence[LayerReport], *, with_outputs: bool) -> Table:
    table = Table(title=title, title_justify="left")
    table.add_column("layer", overflow="fold")
    for name in ("matrix", "format", "KiB before", "after", "error: weights"):
        table.add_column(name, justify="right")
    if with_outputs:
        table.add_column("outputs", justify="right")
        table.add_column("int8 activations", justify="right")
    for layer in layers:
        error = layer.output_error
        outputs = ("not run", "") if error is None else (_percent(error.exact), _percent(error.int8))
        table.add_row(
            Text(layer.name or "the model"), f"{layer.shape[0]}×{layer.shape[1]}", layer.format,
            f"{layer.bytes_before / 1024:.1f}", f"{layer.bytes_after / 1024:.1f}", _percent(layer.weight_error),
            *(outputs if with_outputs else ()),
        )  # fmt: skip
    return table


def _skipped_table(layers: Sequence[LayerReport]) -> Table:
    table = Table("layer", "matrix", "why", title="layers that were not quantised", title_justify="left")
    for layer in layers:
        table.add_row(Text(layer.name or "the model"), f"{layer.shape[0]}×{layer.shape[1]}", Text(layer.reason or ""))
    return table


def _percent(error: float) -> str:
    return f"{100 * error:.3g} %"


__all__ = ["LayerReport", "OutputError", "QuantisationReport"]
