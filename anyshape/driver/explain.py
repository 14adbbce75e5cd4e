"""Why a program is what it is: sizes, guards and who forced them, groups, edges not fused, kernels, variants, times, remarks."""

from __future__ import annotations

import linecache
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from xdsl.ir import Attribute, Operation

from anyshape.codegen.attend import elements_name
from anyshape.codegen.variants import Variant, variants_of
from anyshape.dialects.dhlo.fusion import FusionOp, YieldOp
from anyshape.dialects.dhlo.graph import facts_of
from anyshape.dialects.dtypes import BY_NAME
from anyshape.dialects.host import AllocateOp, BindOp, ConstantOp, GuardAxisOp, GuardOp, LaunchOp, OutputOp, root_of
from anyshape.dialects.locations import Origin, file_and_line, node_name, origins_in
from anyshape.dialects.sizes import numel
from anyshape.dialects.tile import AttendOp, AxisOp, ContractOp, DotOp, KernelOp, ParallelOp, buffer_of
from anyshape.driver.recording import Compilation, recorded
from anyshape.driver.remarks import GraphReport, ProcessReport, Remark, report
from anyshape.fusion import Edge
from anyshape.symbolic import Facts, Size, describe_relation


@dataclass(frozen=True)
class SourceLine:
    """A line of the user's program, with what stands there where the file can be read."""

    file: str
    line: int
    text: str

    @staticmethod
    def at(file: str | None, line: int | None) -> SourceLine | None:
        """That line, where both are known."""
        return None if file is None or line is None else SourceLine(file, line, linecache.getline(file, line).strip())


@dataclass(frozen=True)
class SourceOp:
    """An op: its name in `dhlo`, the node of the framework's graph that it comes from, and the line of that."""

    name: str
    node: str
    line: SourceLine | None


@dataclass(frozen=True)
class SymbolExplanation:
    """A size symbol.

    Attributes:
        axes: the argument's axis that binds it, then all others that are guarded to be it.
        least, most: its range; None is no limit.
        multiple_of: a divisor that it is known to have.
    """

    name: str
    axes: tuple[str, ...]
    least: int | None
    most: int | None
    multiple_of: int


@dataclass(frozen=True)
class GuardExplanation:
    """A condition that is checked at each call.

    Attributes:
        condition: in words.
        asker: the op or the Python condition that forced it; None where nothing was recorded: the example has that size.
        line: where in the user's program.
    """

    condition: str
    asker: str | None
    line: SourceLine | None


@dataclass(frozen=True)
class GroupExplanation:
    """Ops that became one launch of a kernel."""

    kernel: str
    kind: str
    ops: tuple[SourceOp, ...]


@dataclass(frozen=True)
class EdgeExplanation:
    """A value that one kernel writes and another reads: why they are not one."""

    producer: SourceOp
    consumer: SourceOp
    producer_kernel: str
    consumer_kernel: str
    reason: str


@dataclass(frozen=True)
class KernelExplanation:
    """A kernel.

    Attributes:
        launches: in one call.
        nest: its loops, indented, over the sizes of its first launch.
        extent, grain: points of the first launch, and how few of them are worth another thread.
        variants: what its code decides by sizes.
        constant_bytes, packed_bytes: of the weights that its launches read as they are, and packed.
    """

    name: str
    kind: str
    launches: int
    nest: tuple[str, ...]
    extent: str
    grain: str
    variants: tuple[Variant, ...]
    constant_bytes: int
    packed_bytes: int


@dataclass(frozen=True)
class HostExplanation:
    """The host program: launches, arena buffers and the bytes of all of them before they share memory, results."""

    launches: int
    arena_buffers: int
    arena_bytes: str
    outputs: int


@dataclass(frozen=True)
class ProgramExplanation:
    """One compiled program.

    Attributes:
        arguments: as errors call them.
        facts: what the compiler knew of sizes.
        seconds: of each stage, by its path.
    """

    arguments: tuple[str, ...]
    symbols: tuple[SymbolExplanation, ...]
    facts: tuple[str, ...]
    guards: tuple[GuardExplanation, ...]
    groups: tuple[GroupExplanation, ...]
    edges: tuple[EdgeExplanation, ...]
    kernels: tuple[KernelExplanation, ...]
    host: HostExplanation
    seconds: Mapping[str, float]


@dataclass(frozen=True)
class Explanation:
    """What was compiled meanwhile.

    Attributes:
        programs: in the order in which they were compiled.
        graphs: what `torch.compile` handed over.
        remarks: what stayed with PyTorch, why, where.
        seconds: of the whole, the model's own code included.
    """

    programs: tuple[ProgramExplanation, ...]
    graphs: tuple[GraphReport, ...]
    remarks: tuple[Remark, ...]
    seconds: float


def explain(run: Callable[[], Any]) -> Explanation:
    """Call `run` and explain every program that is compiled meanwhile; what it raises is passed on."""
    before = report()
    start = time.perf_counter()
    with recorded() as compilations:
        run()
    seconds = time.perf_counter() - start
    graphs, remarks = _news(before, report())
    return Explanation(tuple(map(explain_program, compilations)), graphs, remarks, seconds)


def _news(before: ProcessReport, after: ProcessReport) -> tuple[tuple[GraphReport, ...], tuple[Remark, ...]]:
    """The graphs and remarks that were added."""
    added = after.graph_count - before.graph_count
    known = {(remark.kind, remark.subject, remark.reason, remark.location): remark.count for remark in before.remarks}
    remarks = tuple(
        remark
        for remark in after.remarks
        if remark.count > known.get((remark.kind, remark.subject, remark.reason, remark.location), 0)
    )
    return after.graphs[len(after.graphs) - added :] if added else (), remarks


def explain_program(compilation: Compilation) -> ProgramExplanation:
    """What the compilation of one program shows."""
    facts = facts_of(compilation.graph)
    return ProgramExplanation(
        arguments=compilation.names,
        symbols=tuple(_symbols(compilation, facts)),
        facts=tuple(dict.fromkeys(describe_relation(relation) for relation in facts.relations())),
        guards=tuple(dict.fromkeys(_guards(compilation))),
        groups=tuple(_group(fusion, _kernel_of(fusion, compilation)) for fusion in compilation.launches),
        edges=tuple(_edges(compilation)),
        kernels=tuple(_kernels(compilation)),
        host=_host(compilation),
        seconds={name: stage.seconds for name, stage in compilation.trace.stages.items()},
    )


def _arguments(compilation: Compilation) -> dict[object, str]:
    return dict(zip(compilation.program.body.block.args, compilation.names, strict=True))


def _symbols(compilation: Compilation, facts: Facts) -> list[SymbolExplanation]:
    names = _arguments(compilation)
    axes: dict[str, list[str]] = {}
    for op in compilation.program.body.block.ops:
        match op:
            case BindOp():
                axes.setdefault(op.symbol.data, []).append(f"{names[op.argument]}, axis {op.axis.value.data}")
            case GuardAxisOp():
                symbol = op.size.data[0].as_symbol()
                if symbol is not None:
                    axes.setdefault(symbol, []).append(f"{names[op.argument]}, axis {op.axis.value.data}")
            case _:
                pass
    return [
        SymbolExplanation(
            name, tuple(places), *facts.range_of(Size.symbol(name)), facts.multiple_of(Size.symbol(name))
        )
        for name, places in axes.items()
    ]  # fmt: skip


def _guards(compilation: Compilation) -> list[GuardExplanation]:
    names, origins = _arguments(compilation), origins_in(compilation.graph.location)
    found: list[GuardExplanation] = []
    for op in compilation.program.body.block.ops:
        match op:
            case GuardOp():
                origin = origins.get(str(op.relation.data))
                found.append(_guard(describe_relation(op.relation.data), origin))
            case GuardAxisOp():
                axis = f"{names[op.argument]}, axis {op.axis.value.data}"
                found.append(_guard(f"{axis} is {op.size.data[0]}", origins.get(axis)))
            case _:
                pass
    return found


def _guard(condition: str, origin: Origin | None) -> GuardExplanation:
    if origin is None:
        return GuardExplanation(condition, None, None)
    return GuardExplanation(condition, origin.asker, SourceLine.at(origin.file, origin.line))


def _source_op(op: Operation) -> SourceOp:
    location: Attribute = op.location
    return SourceOp(op.name.removeprefix("dhlo."), node_name(location), SourceLine.at(*file_and_line(location)))


def _kernel_of(fusion: FusionOp, compilation: Compilation) -> str:
    return compilation.launches[fusion].plan.kernel.sym_name.data


def _group(fusion: FusionOp, kernel: str) -> GroupExplanation:
    ops = tuple(_source_op(op) for op in fusion.block.ops if not isinstance(op, YieldOp))
    return GroupExplanation(kernel, fusion.kind.data, ops)


def _edges(compilation: Compilation) -> list[EdgeExplanation]:
    """Each edge once, in program order: fusion goes from the results to the arguments."""
    found = {
        EdgeExplanation(
            _source_op(edge.producer),
            _source_op(edge.consumer),
            _kernels_with(edge.producer, compilation),
            _kernels_with(edge.consumer, compilation),
            _readable(edge),
        ): None
        for edge in reversed(compilation.decision.edges)
    }
    return list(found)


def _kernels_with(op: Operation, compilation: Compilation) -> str:
    """The kernels that compute an op; empty for a view, which is in none."""
    decision = compilation.decision
    fusions = [decision.fusions[group] for group in decision.homes_of(op) if group in decision.fusions]
    return ", ".join(dict.fromkeys(_kernel_of(each, compilation) for each in fusions if each in compilation.launches))


def _readable(edge: Edge) -> str:
    return edge.reason.replace("dhlo.", "")


def _kernels(compilation: Compilation) -> list[KernelExplanation]:
    launches: dict[str, list[LaunchOp]] = {}
    for op in compilation.program.body.block.ops:
        if isinstance(op, LaunchOp):
            launches.setdefault(op.kernel_name, []).append(op)
    return [_kernel(compilation, name, ops) for name, ops in launches.items()]


def _kernel(compilation: Compilation, name: str, launches: Sequence[LaunchOp]) -> KernelExplanation:
    kernel, first = compilation.kernels[name], launches[0]
    names = dict(zip(kernel.symbol_names, first.sizes.data, strict=True))
    plain, packed = _constant_bytes(compilation, launches)
    return KernelExplanation(
        name=name,
        kind=name.partition("_")[2],
        launches=len(launches),
        nest=tuple(_nest(kernel, names)),
        extent=str(first.extent.data[0]),
        grain=str(first.grain.data[0]),
        variants=(*_form(first), *variants_of(kernel, compilation.machine, names)),
        constant_bytes=plain,
        packed_bytes=packed,
    )


def _form(launch: LaunchOp) -> list[Variant]:
    """When a kernel runs that computes one of two forms of its results."""
    return [] if launch.when is None else [Variant(f"{launch.condition} = 1", "runs at all")]


def _constant_bytes(compilation: Compilation, launches: Sequence[LaunchOp]) -> tuple[int, int]:
    """Bytes of the constants that launches read, each once: as they are, and packed."""
    owners = (root_of(buffer).owner for launch in launches for buffer in launch.read)
    indices = dict.fromkeys(owner.index.value.data for owner in owners if isinstance(owner, ConstantOp))
    total = Counter[bool]()
    for index in indices:
        entry = compilation.constants.entries[index]
        total[entry.packed is not None] += compilation.constants.bytes_of(entry)
    return total[False], total[True]


def _nest(kernel: KernelOp, names: Mapping[str, Size]) -> list[str]:
    """The loops of a kernel, one a line."""
    lines: list[str] = []

    def visit(op: Operation, depth: int) -> None:
        text = _loop_text(op, names)
        if text:
            lines.append("  " * depth + text)
        for region in op.regions:
            for inner in region.block.ops:
                visit(inner, depth + bool(text))

    for op in kernel.body.block.ops:
        visit(op, 0)
    return lines


def _loop_text(op: Operation, names: Mapping[str, Size]) -> str:
    def text(sizes: Sequence[Size], by: str = " × ") -> str:
        return by.join(str(size.substitute(names)) for size in sizes)

    match op:
        case ParallelOp():
            return f"parallel {text(op.extents.data)}"
        case AxisOp():
            kinds = ", ".join(op.kind_names)
            return f"{op.name.removeprefix('tile.')} {text([op.size])}" + (f" → {kinds}" if kinds else "")
        case DotOp():
            return f"dot {text([op.size])}"
        case ContractOp():
            batch = f"{text(op.batch.data)} of " if op.batch.data else ""
            factors = op.factors if op.blocks is None else f"blocks of {op.blocks.data}"
            kind = "product" if op.window is None else "convolution"
            return f"{kind} {batch}m × n × k = {text(op.extents.data)} ({factors}{', packed' if op.packed else ''})"
        case AttendOp():
            causal = ", causal" if op.causal is not None else ""
            element = elements_name(op)
            return f"attention b, h, hk, s, t, d, e = {text(op.extents.data, ', ')} ({element}{causal})"
        case _:
            return ""


def _host(compilation: Compilation) -> HostExplanation:
    ops = list(compilation.program.body.block.ops)
    buffers = [buffer_of(op.result) for op in ops if isinstance(op, AllocateOp)]
    total = Size.const(0)
    for each in buffers:
        total = total + numel(each.sizes.data) * _element_bytes(each.element_type)
    count = Counter(type(op) for op in ops)
    return HostExplanation(count[LaunchOp], len(buffers), str(total), count[OutputOp])


def _element_bytes(element: Attribute) -> int:
    dtype = next(each for each in BY_NAME.values() if element in (each.type, each.scalar))
    return dtype.bytes


__all__ = [
    "EdgeExplanation",
    "Explanation",
    "GroupExplanation",
    "GuardExplanation",
    "HostExplanation",
    "KernelExplanation",
    "ProgramExplanation",
    "SourceLine",
    "SourceOp",
    "SymbolExplanation",
    "explain",
    "explain_program",
]
