"""Small random models: compiled once from a small example, right at all sizes at which eager is, refused at few of them.

The interpreter runs them. A model has one control path, so a size that eager takes and the program refuses is one that capture has
fixed: that happens where axes agree in the example and the model adds them, which is counted here, so that it gets no worse.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from anyshape.frontends.torch import import_module
from anyshape.support.errors import GuardError

SEEDS = range(24)
CALLS = 8
REFUSED_MODELS = 3
"""Models of these seeds that refuse a size which eager takes: (n)+(1) asks that the second be 1 or n, (n)+(n) that both agree."""

Sizes = tuple[int, ...]

OF_ONE: Sequence[Callable[[Tensor, int], Tensor]] = (
    lambda x, axis: x.narrow(axis, 0, x.shape[axis] // 2),
    lambda x, axis: x.index_select(axis, torch.arange(x.shape[axis])).flip(axis),
    lambda x, axis: _cut(x, axis, slice(1, None)) - _cut(x, axis, slice(None, -1)),
    lambda x, axis: _cut(x, axis, slice(-2, None)),
    lambda x, axis: _cut(x, axis, slice(None, 3)),
    lambda x, axis: _cut(x, axis, slice(None, None, 2)),
    lambda x, axis: x.sum(axis),
    lambda x, axis: x.logsumexp(axis, keepdim=True),
    lambda x, axis: x - x.sum(axis, keepdim=True),
    lambda x, axis: x.softmax(axis),
    lambda x, axis: x.unsqueeze(axis),
    lambda x, axis: x.transpose(axis, -1),
    lambda x, axis: x.flatten(axis),
    lambda x, axis: x.reshape(*reversed(x.shape)),
    lambda x, axis: x.unsqueeze(0).expand(2, *x.shape),
    lambda x, axis: F.pad(x, (1, 0)),
    lambda x, axis: x.roll(1, axis),
)
OF_TWO: Sequence[Callable[[Tensor, Tensor, int], Tensor]] = (
    lambda x, y, axis: x + y,
    lambda x, y, axis: torch.where(y > 0, x, y),
    lambda x, y, axis: torch.cat([x, y], axis),
    lambda x, y, axis: torch.stack([x, y], axis),
    lambda x, y, axis: x @ y.transpose(-1, -2),
    lambda x, y, axis: x.expand(y.shape),
)


def _cut(x: Tensor, axis: int, part: slice) -> Tensor:
    return x[(slice(None),) * axis + (part,)]


@dataclass(frozen=True)
class Step:
    """`function` of the values at these places, and an axis."""

    function: Callable[..., Tensor]
    places: tuple[int, ...]
    axis: int

    def __call__(self, values: Sequence[Tensor]) -> Tensor:
        return self.function(*(values[place] for place in self.places), self.axis)


class Model(nn.Module):
    """Steps one after the other; returns what no other step uses."""

    def __init__(self, steps: Sequence[Step], inputs: int) -> None:
        super().__init__()
        self.steps = steps
        used = {place for step in steps for place in step.places}
        self.results = [place for place in range(inputs, inputs + len(steps)) if place not in used]

    def forward(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        values = list(inputs)
        for step in self.steps:
            values.append(step(values))
        return tuple(values[place] for place in self.results)


def random_model(choose: random.Random) -> tuple[Model, tuple[Sizes, ...]]:
    """A model of up to four steps and the sizes of an example that it takes."""
    shapes = [tuple(choose.choice((0, 1, 1, 2, 3)) for _ in range(choose.choice((1, 2, 2, 3))))]
    for _ in range(choose.choice((0, 1, 1))):
        shapes.append(tuple(1 if choose.random() < 0.3 else size for size in shapes[0]))
    values, steps = [torch.randn(shape) for shape in shapes], list[Step]()
    wanted = choose.randint(1, 4)
    while len(steps) < wanted:
        count = choose.choice((1, 1, 2))
        places = tuple(choose.randrange(len(values)) for _ in range(count))
        rank = values[places[0]].dim()
        step = Step(choose.choice(OF_ONE if count == 1 else OF_TWO), places, choose.randrange(max(rank, 1)))
        try:
            values.append(step(values))
        except (RuntimeError, IndexError, ValueError):
            continue
        if values[-1].numel() > 1000 or rank > 3:
            values.pop()
        else:
            steps.append(step)
    return Model(steps, len(shapes)), tuple(shapes)


def accepted_calls(choose: random.Random, model: Model, shapes: Sequence[Sizes]) -> Iterator[tuple[Tensor, ...]]:
    """Arguments of other sizes that eager takes: a size for each one of the example, here and there a 1."""
    for _ in range(60):
        size = {
            known: choose.choice((0, 1, 2, 3, 5)) for known in sorted({known for shape in shapes for known in shape})
        }
        ones = choose.choice((0.0, 0.3))
        args = tuple(torch.randn([1 if choose.random() < ones else size[known] for known in shape]) for shape in shapes)
        try:
            model(*args)
        except (RuntimeError, IndexError, ValueError):
            continue
        yield args


def test_one_import_serves_the_sizes_that_eager_takes(compare: Callable[..., None]) -> None:
    calls, refused = 0, dict[int, Any]()
    for seed in SEEDS:
        choose = random.Random(seed)
        torch.manual_seed(seed)
        model, shapes = random_model(choose)
        program = import_module(model, tuple(torch.randn(shape) for shape in shapes))
        compare(program, model, *(torch.randn(shape) for shape in shapes))
        for _, args in zip(range(CALLS), accepted_calls(choose, model, shapes), strict=False):
            calls += 1
            try:
                compare(program, model, *args)
            except GuardError as error:
                refused.setdefault(seed, ([tuple(arg.shape) for arg in args], str(error)))
    assert calls > 4 * len(SEEDS)
    assert len(refused) <= REFUSED_MODELS, refused
