"""`anyshape explain`: why the program of a model is what it is."""

import json
import sys
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, cast

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from anyshape.driver import api
from anyshape.driver.explain import (
    EdgeExplanation,
    Explanation,
    GroupExplanation,
    GuardExplanation,
    KernelExplanation,
    ProgramExplanation,
    SourceLine,
    SourceOp,
    SymbolExplanation,
    explain,
)
from anyshape.driver.remarks import MEANINGS, GraphReport, Remark
from anyshape.driver.script import loaded_function, users_errors
from anyshape.support.errors import ArgumentError
from anyshape.support.options import LOG_NAMES, Options, changed_environment

_HOW = "return (module, args) or (module, args, kwargs), or call a model of torch.compile(…, backend='anyshape') inside"

_SHOWN = 8
"""Guards of one kind that are listed; JSON has all."""


def command(
    target: Annotated[
        str, typer.Argument(metavar="SCRIPT.py:FUNCTION", help="A function that takes no arguments; see below.")
    ],
    log: Annotated[str, typer.Option("--log", help=f"Log meanwhile, to standard error: {', '.join(LOG_NAMES)}.")] = "",
    as_json: Annotated[bool, typer.Option("--json", help="Print the same as JSON.")] = False,
) -> None:
    """Compile a model and say why its program is what it is.

    FUNCTION returns (module, args) or (module, args, kwargs), which anyshape.compile compiles then, or it compiles and calls models
    itself, with anyshape.compile or torch.compile(…, backend="anyshape"): everything that is compiled meanwhile is explained.

    Shown are the size symbols and the axes that bind them, what is known of them, guards with the lines of your model that force them,
    fusion groups, the reason for each edge that was not fused, kernels with their variants, times, and what stayed with PyTorch. Every
    program is compiled anew, whatever the cache holds. What the script prints goes to standard error.
    """
    with _logging(log), redirect_stdout(sys.stderr), loaded_function(target) as function:
        explanation = explain(lambda: _run(function, target))
    if not explanation.programs and not explanation.graphs:
        raise ArgumentError("nothing was compiled", where=target, expected=_HOW)
    if as_json:
        print(json.dumps(asdict(explanation), indent=1, default=str))
    else:
        _print(Console(width=None if sys.stdout.isatty() else 120), explanation)


@contextmanager
def _logging(names: str) -> Generator[None]:
    """Logs for whatever is compiled inside: the user's function takes its options from the environment."""
    with changed_environment({"ANYSHAPE_LOG": names} if names else {}):
        Options.from_environment()  # a mistake is reported before the script runs
        yield


def _run(function: Callable[[], Any], target: str) -> None:
    with users_errors(target):
        returned = function()
    if not isinstance(returned, tuple):
        return
    module, args, kwargs = _model_of(cast("tuple[Any, ...]", returned), target)
    with users_errors(f"compiling what {target} returns"):
        if hasattr(module, "_orig_mod"):  # torch.compile has wrapped it: it is compiled at its first call
            from anyshape.frontends.torch.calls import call_without_gradients

            call_without_gradients(module, args, kwargs)
        else:
            api.compile(module, args, kwargs)


def _model_of(returned: tuple[Any, ...], target: str) -> tuple[Any, Any, Mapping[str, Any]]:
    """Module, arguments and keywords."""
    if len(returned) not in (2, 3) or not isinstance(returned[1], tuple | list):
        raise ArgumentError(
            "the function returns no model with its arguments", where=target,
            got=f"a tuple of {', '.join(type(each).__name__ for each in returned) or 'nothing'}", expected=_HOW,
        )  # fmt: skip
    module, args = cast("tuple[Any, Any]", returned[:2])
    return module, args, returned[2] if len(returned) == 3 else {}


# -- printing -------------------------------------------------------------------------------------------------------


def _print(console: Console, explanation: Explanation) -> None:
    for number, program in enumerate(explanation.programs, 1):
        console.rule(f"program {number} of {len(explanation.programs)}", align="left")
        for table in _tables(program):
            if table.row_count:
                console.print(table, "")
    if explanation.graphs:
        console.rule("torch.compile", align="left")
        console.print(_graphs(explanation.graphs), "")
    if explanation.remarks:
        console.print(_remarks(explanation.remarks), "")
    console.print(f"{explanation.seconds:.2f} s in all")


def _tables(program: ProgramExplanation) -> list[Table]:
    return [
        _table("sizes", ("symbol", "bound by", "known"), map(_symbol_row, program.symbols)),
        _table("guards", ("condition", "forced by", "at"), _guard_rows(program.guards)),
        _table("groups", ("kernel", "ops", "at"), (row for group in program.groups for row in _group_rows(group))),
        _table("edges not fused", ("from", "to", "because"), map(_edge_row, program.edges)),
        _table("kernels", ("kernel", "loops", "variants", "weights"), map(_kernel_row, program.kernels)),
        _table("host program", ("", ""), _host_rows(program)),
        _table("seconds", ("stage", ""), ((_stage(path), f"{each:.3f}") for path, each in program.seconds.items())),
    ]


def _table(title: str, columns: Sequence[str], rows: Any) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold", box=None, padding=(0, 2, 0, 0))
    table.show_header = any(columns)
    for column in columns:
        table.add_column(column, header_style="dim", overflow="fold")
    for row in rows:
        table.add_row(*map(Text, row))
    return table


def _symbol_row(symbol: SymbolExplanation) -> tuple[str, ...]:
    known = f"{symbol.least or 0} or more" if symbol.most is None else f"from {symbol.least or 0} to {symbol.most}"
    if symbol.multiple_of > 1:
        known += f", a multiple of {symbol.multiple_of}"
    return symbol.name, "\n".join(symbol.axes), known


def _guard_rows(guards: Sequence[GuardExplanation]) -> list[tuple[str, ...]]:
    """A row for each guard that somebody forced, and one for all the others."""
    rows = [(each.condition, each.asker, _line(each.line)) for each in guards if each.asker is not None]
    others = [each.condition for each in guards if each.asker is None]
    if len(others) > _SHOWN:
        others = [*others[:_SHOWN], f"and {len(others) - _SHOWN} more"]
    return [*rows, ("\n".join(others), "PyTorch: sizes that it captured as fixed", "")] if others else rows


def _group_rows(group: GroupExplanation) -> list[tuple[str, ...]]:
    """One row for each line of the user's program, in the order of the ops."""
    lines: dict[str, list[str]] = {}
    for op in group.ops:
        lines.setdefault(_line(op.line), []).append(op.name)
    if not lines:
        return [(group.kernel, "a copy", "")]
    names = [group.kernel, *[""] * (len(lines) - 1)]
    return [(name, ", ".join(ops), line) for name, (line, ops) in zip(names, lines.items(), strict=True)]


def _edge_row(edge: EdgeExplanation) -> tuple[str, ...]:
    return _end(edge.producer, edge.producer_kernel), _end(edge.consumer, edge.consumer_kernel), edge.reason


def _end(op: SourceOp, kernel: str) -> str:
    return f"{op.name} in {kernel or 'no kernel'}\n{_place(op.line)}"


def _kernel_row(kernel: KernelExplanation) -> tuple[str, ...]:
    count = f"{kernel.name}\n{kernel.launches} launch{'es' if kernel.launches > 1 else ''} a call"
    variants = "\n".join(f"{each.predicate}: {each.code}" for each in kernel.variants)
    sizes = [f"{size} B {what}" for size, what in _weights(kernel) if size]
    return count, "\n".join(kernel.nest), variants, "\n".join(sizes)


def _weights(kernel: KernelExplanation) -> tuple[tuple[int, str], ...]:
    return (kernel.packed_bytes, "packed"), (kernel.constant_bytes, "as they are")


def _host_rows(program: ProgramExplanation) -> list[tuple[str, str]]:
    host = program.host
    return [
        ("launches a call", str(host.launches)),
        ("results", str(host.outputs)),
        ("arena", f"{host.arena_buffers} buffers, {host.arena_bytes} bytes before they share memory"),
    ]


def _stage(path: str) -> str:
    return "  " * path.count("/") + path.rpartition("/")[2]


def _line(line: SourceLine | None) -> str:
    return "" if line is None else f"{_place(line)}  {line.text}"


def _place(line: SourceLine | None) -> str:
    return "" if line is None else f"{_short(line.file)}:{line.line}"


def _short(file: str) -> str:
    """A path below the working directory from there."""
    here = Path.cwd()
    path = Path(file)
    return str(path.relative_to(here)) if path.is_relative_to(here) else file


def _graphs(graphs: Sequence[GraphReport]) -> Table:
    rows = (
        (graph.name, graph.location or "", *map(str, (graph.parts, graph.shared, graph.ops_left, graph.kernels)))
        for graph in graphs
    )
    columns = ("graph", "first line", "parts", "of a program before", "ops left to PyTorch", "kernels")
    return _table("graphs", columns, rows)


def _remarks(remarks: Sequence[Remark]) -> Table:
    rows = (
        (
            remark.subject,
            MEANINGS[remark.kind],
            "\n".join(filter(None, (remark.reason, remark.replay))),
            remark.location or "",
        )
        for remark in remarks
    )
    return _table("what PyTorch runs", ("what", "kind", "because", "at"), rows)
