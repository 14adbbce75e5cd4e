"""What happened to the graphs that `torch.compile` handed over in this process, and what stayed with PyTorch: `anyshape.report()`."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from io import StringIO
from threading import Lock
from typing import Literal, TypeAlias, get_args

from rich.console import Console
from rich.table import Table
from rich.text import Text

Kind: TypeAlias = Literal["break", "op", "gradients", "input", "overlap", "compile", "run"]

MEANINGS: Mapping[Kind, str] = {
    "break": "a break between two graphs, because TorchDynamo cannot trace what stands there",
    "op": "an op that PyTorch runs, because anyshape cannot",
    "gradients": "a graph that PyTorch runs, because its results may be differentiated",
    "input": "a graph that PyTorch runs, because of one of its inputs",
    "overlap": "a call that PyTorch ran, because an input that is written shares memory with another",
    "compile": "a graph that PyTorch runs, because compiling it failed",
    "run": "a call that PyTorch ran, because the compiled graph failed",
}
"""What each kind of remark says."""

GRAPHS, REMARKS, TEXT = 256, 1024, 1000
"""How many graphs (the last ones), different remarks and characters of a text are kept."""


@dataclass(frozen=True)
class GraphReport:
    """A graph that `torch.compile` handed over.

    Attributes:
        name: PyTorch's number of the compilation, as in its own logs.
        location: the first line of the user's program in the graph; where PyTorch recorded none, the line that called it.
        parts: compiled parts; 1 where nothing stays with PyTorch, 0 where everything does.
        shared: how many of them run on the program of a graph that came before.
        ops_left: ops that stay with PyTorch.
        kernels: distinct kernels that were compiled for it: for each part, summed.
        launches: launches of these in one call.
        symbols: size symbols, each with the argument and axis that binds it.
        guards: conditions on sizes that are checked at each call, besides those that PyTorch checks.
        packed_bytes: bytes of the forms packed for products that were compiled for it: so many for each set of weights it is called with.
        copied_bytes: bytes of its constants, and of the other forms of weights, that are kept in memory of the program, likewise.
        capture_seconds: what AOTAutograd took to make the graph functional, seconds.
        compile_seconds: from the functional graph to loaded machine code, seconds.
    """

    name: str
    location: str | None = None
    parts: int = 0
    shared: int = 0
    ops_left: int = 0
    kernels: int = 0
    launches: int = 0
    symbols: Mapping[str, str] = field(default_factory=dict[str, str])
    guards: tuple[str, ...] = ()
    packed_bytes: int = 0
    copied_bytes: int = 0
    capture_seconds: float = 0.0
    compile_seconds: float = 0.0


@dataclass(frozen=True)
class Remark:
    """Something that PyTorch ran in our place, and how often that happened.

    Attributes:
        kind: see `MEANINGS`.
        subject: the op, the input, or the graph.
        reason: why.
        location: `file:line` in the user's program, where known.
        count: how often: compilations for `break`, `op`, `gradients`, `input` and `compile`, calls for `overlap` and `run`.
        replay: the command that replays a failure.
    """

    kind: Kind
    subject: str
    reason: str
    location: str | None = None
    count: int = 1
    replay: str | None = None


@dataclass(frozen=True)
class ProcessReport:
    """What `torch.compile(backend="anyshape")` did in this process.

    Attributes:
        graphs: the last graphs, oldest first.
        graph_count: how many there were.
        remarks: in the order in which they were first made.
        dropped: remarks that there was no room for.
    """

    graphs: tuple[GraphReport, ...] = ()
    graph_count: int = 0
    remarks: tuple[Remark, ...] = ()
    dropped: int = 0

    def of_kind(self, kind: Kind) -> tuple[Remark, ...]:
        """The remarks of one kind."""
        return tuple(remark for remark in self.remarks if remark.kind == kind)

    def __str__(self) -> str:
        text = StringIO()
        console = Console(width=120, color_system=None, file=text)
        console.print(self._graph_table() if self.graphs else "anyshape: no graph was handed over by torch.compile")
        if len(self.graphs) < self.graph_count:
            console.print(f"the last {len(self.graphs)} of {self.graph_count} graphs")
        if self.remarks:
            console.print(self._remark_table())
        for remark in self.remarks:
            if remark.replay:
                console.print(f"replay it: {remark.replay}", soft_wrap=True, markup=False, highlight=False)
        if self.dropped:
            console.print(f"and {self.dropped} remarks that there was no room for")
        return text.getvalue()

    def _graph_table(self) -> Table:
        table = Table(title="graphs that torch.compile handed over", title_justify="left")
        table.add_column("graph", overflow="fold")
        for name in ("parts", "ops left", "kernels", "launches"):
            table.add_column(name, justify="right")
        table.add_column("sizes and guards", overflow="fold")
        for name in ("MiB kept", "capture s", "compile s"):
            table.add_column(name, justify="right")
        for graph in self.graphs:
            sizes = [f"{symbol}: {axis}" for symbol, axis in graph.symbols.items()]
            table.add_row(
                Text(graph.name if graph.location is None else f"{graph.name}  {graph.location}"),
                f"{graph.parts} ({graph.shared} shared)" if graph.shared else str(graph.parts),
                *map(str, (graph.ops_left, graph.kernels, graph.launches)),
                Text("\n".join([*sizes, *(f"guard: {guard}" for guard in graph.guards)])),
                f"{(graph.packed_bytes + graph.copied_bytes) / 2**20:.1f}",
                *(f"{seconds:.2f}" for seconds in (graph.capture_seconds, graph.compile_seconds)),
            )
        return table

    def _remark_table(self) -> Table:
        table = Table("times", "what", "why", title="what PyTorch ran instead", title_justify="left")
        table.columns[0].justify = "right"
        for kind in get_args(Kind):
            remarks = self.of_kind(kind)
            if remarks:
                table.add_section()
                table.add_row("", Text(MEANINGS[kind], style="italic"), "")
            for remark in remarks:
                what = remark.subject if remark.location is None else f"{remark.subject}\n  at {remark.location}"
                table.add_row(str(remark.count), Text(what), Text(remark.reason))
        return table


_Key: TypeAlias = tuple[Kind, str, str, str | None]


class Journal:
    """Collects graphs and remarks; any number of threads may write. What it keeps is bounded.

    Args:
        graphs: how many of the last graphs are kept.
        remarks: how many different remarks are.
    """

    def __init__(self, graphs: int = GRAPHS, remarks: int = REMARKS) -> None:
        self._graphs: deque[GraphReport] = deque(maxlen=graphs)
        self._graph_count = 0
        self._limit = remarks
        self._remarks: dict[_Key, int] = {}
        self._replays: dict[_Key, str] = {}
        self._dropped = 0
        self._lock = Lock()

    def add_graph(self, graph: GraphReport) -> None:
        """Note a graph; its texts are shortened."""
        with self._lock:
            self._graphs.append(graph)
            self._graph_count += 1

    def remark(self, kind: Kind, subject: str, reason: str, location: str | None = None) -> bool:
        """Note a remark, or count it once more; returns whether it is new and there was room for it."""
        key = (kind, subject[:TEXT], reason[:TEXT], location)
        with self._lock:
            if key not in self._remarks and len(self._remarks) >= self._limit:
                self._dropped += 1
                return False
            self._remarks[key] = self._remarks.get(key, 0) + 1
            return self._remarks[key] == 1

    def add_replay(self, kind: Kind, subject: str, reason: str, location: str | None, command: str) -> None:
        """Note the command that replays a failure that was remarked upon."""
        with self._lock:
            self._replays[kind, subject[:TEXT], reason[:TEXT], location] = command

    def report(self) -> ProcessReport:
        """What was noted so far."""
        with self._lock:
            remarks = tuple(
                Remark(*key, count, self._replays.get(key)) for key, count in self._remarks.items()
            )  # fmt: skip
            return ProcessReport(tuple(self._graphs), self._graph_count, remarks, self._dropped)

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._graphs.clear()
            self._remarks.clear()
            self._replays.clear()
            self._graph_count = self._dropped = 0


JOURNAL = Journal()
"""The journal of this process: PyTorch calls the back end, so there is nobody to hand one over."""


def report() -> ProcessReport:
    """What `torch.compile(backend="anyshape")` compiled in this process, and what it left to PyTorch, with the reasons.

    A program of `anyshape.compile` has a report of its own: `compiled.report()`.
    """
    return JOURNAL.report()


__all__ = ["JOURNAL", "MEANINGS", "GraphReport", "Journal", "Kind", "ProcessReport", "Remark", "report"]
