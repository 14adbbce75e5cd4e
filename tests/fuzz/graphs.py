"""Random PyTorch graphs as data: drawn from a seed, run as modules, made smaller, kept as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from random import Random
from typing import Any

import torch
from torch import Tensor, nn

from tests.fuzz.ops import OPS, apply

SIZES = (0, 1, 2, 3, 7, 8, 9, 63, 64, 65)
EXAMPLE = {"m": 5, "n": 11, "k": 6}
"""Sizes at which graphs are drawn: no two axes agree unless they are one symbol."""
SHAPES = (
    ("m", "n"),
    ("n",),
    ("m", "1"),
    ("m", "n", "k"),
    ("1", "n"),
    ("k", "12"),
    ("m", "4", "k"),
    ("m", "2", "n", "k"),
    (),
)
MOST_RANK = 4
MOST_ELEMENTS = 40_000
"""Of a value at `EXAMPLE`: at the largest sizes it is about a thousand times as large."""

Sizes = Mapping[str, int]


@dataclass(frozen=True)
class Step:
    """One op on the values at `operands`: the graph's inputs first, then the results of its steps."""

    op: str
    operands: tuple[int, ...]
    attributes: tuple[int, ...]


@dataclass(frozen=True)
class Graph:
    """Inputs, of sizes that are symbols or numbers, and steps; its results are the values that no step uses."""

    inputs: tuple[tuple[str, ...], ...]
    steps: tuple[Step, ...]

    @property
    def results(self) -> list[int]:
        used = {place for step in self.steps for place in step.operands}
        return [place for place in range(len(self.inputs), len(self.inputs) + len(self.steps)) if place not in used]

    def arguments(self, sizes: Sizes, seed: int = 0) -> tuple[Tensor, ...]:
        """Normal numbers of these sizes."""
        generator = torch.Generator().manual_seed(seed)
        return tuple(torch.randn(shape_of(shape, sizes), generator=generator) for shape in self.inputs)

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Graph:
        loaded: Any = json.loads(text)
        steps = (Step(s["op"], tuple(s["operands"]), tuple(s["attributes"])) for s in loaded["steps"])
        return cls(tuple(tuple(shape) for shape in loaded["inputs"]), tuple(steps))

    def __str__(self) -> str:
        lines = [f"v{place} = input[{', '.join(shape)}]" for place, shape in enumerate(self.inputs)]
        for place, step in enumerate(self.steps, len(self.inputs)):
            arguments = [*(f"v{operand}" for operand in step.operands), *map(str, step.attributes)]
            lines.append(f"v{place} = {step.op}({', '.join(arguments)})")
        return "\n".join([*lines, "return " + ", ".join(f"v{place}" for place in self.results)])


def shape_of(shape: tuple[str, ...], sizes: Sizes) -> tuple[int, ...]:
    """The shape at these sizes."""
    return tuple(int(size) if size.isdigit() else sizes[size] for size in shape)


class GraphModule(nn.Module):
    """A graph as a module."""

    def __init__(self, graph: Graph) -> None:
        super().__init__()
        self.graph = graph

    def forward(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        values = list(inputs)
        for step in self.graph.steps:
            values.append(apply(step.op, [values[place] for place in step.operands], step.attributes))
        return tuple(values[place] for place in self.graph.results)


def random_graph(choose: Random, steps: int) -> Graph:
    """A graph that PyTorch runs at `EXAMPLE`."""
    shapes = tuple(choose.sample(SHAPES, choose.randint(1, 3)))
    values = list(Graph(shapes, ()).arguments(EXAMPLE))
    found: list[Step] = []
    for _ in range(50 * steps):
        if len(found) == steps:
            break
        name = choose.choice(tuple(OPS))
        op = OPS[name]
        recent = range(max(0, len(values) - 3), len(values))
        first = choose.choice(recent) if choose.random() < 0.7 else choose.randrange(len(values))
        operands = (first, *(choose.randrange(len(values)) for _ in range(op.arity - 1)))
        attributes = op.draw(choose, values[first].dim())
        try:
            value = apply(name, [values[place] for place in operands], attributes)
        except (RuntimeError, IndexError, ValueError, TypeError):
            continue
        if value.dim() <= MOST_RANK and value.numel() <= MOST_ELEMENTS:
            found.append(Step(name, operands, attributes))
            values.append(value)
    return Graph(shapes, tuple(found))


def random_sizes(choose: Random, count: int) -> Iterator[Sizes]:
    """Sizes for the symbols; large ones for one of them at a time, or products of several take long."""
    for _ in range(count):
        sizes = {symbol: choose.choice(SIZES[:7]) for symbol in EXAMPLE}
        sizes[choose.choice(tuple(EXAMPLE))] = choose.choice(SIZES)
        yield sizes


def smaller(graph: Graph) -> Iterator[Graph]:
    """Graphs with one step less: it is left out, or its first operand stands in its place; then those with an input less."""
    count = len(graph.inputs)
    for index in reversed(range(len(graph.steps))):
        place, operand = count + index, graph.steps[index].operands[0]

        def moved(old: int, place: int = place, operand: int = operand) -> int:
            return operand if old == place else old - (old > place)

        rest = (*graph.steps[:index], *graph.steps[index + 1 :])
        yield Graph(graph.inputs, tuple(Step(s.op, tuple(map(moved, s.operands)), s.attributes) for s in rest))
    used = {place for step in graph.steps for place in step.operands}
    for index in reversed(range(count)):
        if index not in used and count > 1:
            rest = tuple(Step(s.op, tuple(p - (p > index) for p in s.operands), s.attributes) for s in graph.steps)
            yield Graph((*graph.inputs[:index], *graph.inputs[index + 1 :]), rest)
