"""One random graph run in every way: eager in f64, with no optimisation, compiled for every size, and compiled for one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

import anyshape
from anyshape.dialects.dhlo.interpreter import evaluate
from anyshape.driver.api import CompiledModule
from anyshape.frontends.torch import import_module
from anyshape.frontends.torch.dtypes import array_of_tensor
from anyshape.support.errors import ExportError, GuardError, UnsupportedOps
from tests.fuzz.graphs import EXAMPLE, Graph, GraphModule, Sizes, smaller

OPTIONS = anyshape.Options(threads=1, verify=True)
RELATIVE = 2e-4
"""Of the largest number in a result: sums are folded in any order, and steps follow each other."""

Run = Callable[..., Sequence[Tensor]]


@dataclass(frozen=True)
class Failure:
    """A way to run the graph gave something else than eager at these sizes, or an error."""

    way: str
    sizes: Sizes
    message: str

    def __str__(self) -> str:
        return f"{self.way} at {dict(self.sizes)}: {self.message}"


class Refused(Exception):
    """The graph has ops that are not compiled, or PyTorch cannot capture it."""


def check(graph: Graph, all_sizes: Iterable[Sizes], *, twin: bool = True) -> Failure | None:
    """The first difference, if there is any. Raises Refused."""
    module = GraphModule(graph).eval()
    example = graph.arguments(EXAMPLE)
    try:
        program = anyshape.compile(module, example, options=OPTIONS)
        plain = _without_optimisation(module, example)
    except (UnsupportedOps, ExportError) as error:
        raise Refused(str(error)) from error
    except Exception as error:
        return Failure("compiling", EXAMPLE, f"{type(error).__name__}: {error}")
    for number, sizes in enumerate([EXAMPLE, *all_sizes]):
        arguments = graph.arguments(sizes, number)
        expected = _exact(module, arguments)
        if expected is None:
            continue
        ways: dict[str, Run] = {"compiled": program, "unoptimised": plain}
        if twin and number == 1:
            ways["static twin"] = _static(module, arguments)
        for way, run in ways.items():
            message = _difference(run, arguments, expected)
            if message is not None:
                return Failure(way, sizes, message)
    return None


def _without_optimisation(module: GraphModule, example: Sequence[Tensor]) -> Run:
    """Op by op by numpy, as the graph was imported: no pass, no fusion, no machine code."""
    imported = import_module(module, tuple(example))

    def run(*arguments: Tensor) -> Sequence[Tensor]:
        tensors = imported.adaptor.flatten(arguments, {})
        results = evaluate(imported.module, [array_of_tensor(tensor) for tensor in tensors], imported.store)
        return imported.adaptor.unflatten([torch.from_numpy(result.copy()) for result in results], tensors)

    return run


def _static(module: GraphModule, arguments: Sequence[Tensor]) -> Run:
    def run(*same: Tensor) -> Sequence[Tensor]:
        program: CompiledModule = anyshape.compile(module, tuple(arguments), dynamic_shapes=None, options=OPTIONS)
        return program(*same)

    return run


def _exact(module: GraphModule, arguments: Sequence[Tensor]) -> list[Tensor] | None:
    """Eager in f64, None where PyTorch refuses these sizes or eager in f32 is itself far from it."""
    try:
        with torch.no_grad():
            exact = list(module(*(argument.double() for argument in arguments)))
            narrow = module(*arguments)
    except (RuntimeError, IndexError, ValueError):
        return None
    return exact if _is_fair(narrow, exact) else None


def _is_fair(narrow: Sequence[Tensor], exact: Sequence[Tensor]) -> bool:
    """Whether the graph can be computed in f32 at all."""
    return next(differences(narrow, exact), None) is None


def _difference(run: Run, arguments: Sequence[Tensor], expected: Sequence[Tensor]) -> str | None:
    try:
        got = run(*arguments)
    except GuardError:
        return None  # axes that agree in the example: a contract, never a wrong value
    except (UnsupportedOps, ExportError):
        return None  # with sizes of 0 and 1 PyTorch captures another graph
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return next(differences(got, expected), None)


def differences(got: Sequence[Tensor], expected: Sequence[Tensor]) -> Iterator[str]:
    """What is too far from the expected results."""
    for number, (a, b) in enumerate(zip(got, expected, strict=True)):
        message = _off(a, b)
        if message is not None:
            yield f"result {number}: {message}"


def _off(value: Tensor, exact: Tensor) -> str | None:
    """How a result differs from the exact one beyond `RELATIVE` of its largest number."""
    if value.shape != exact.shape:
        return f"shape {list(value.shape)} instead of {list(exact.shape)}"
    if not exact.is_floating_point():
        return None if torch.equal(value, exact) else "other integers or truth values"
    wide = value.double()
    finite = exact.isfinite()
    same = torch.where(finite, wide.isfinite(), (wide == exact) | (wide.isnan() & exact.isnan()))
    if not bool(same.all()):
        return "NaN or infinity in other places"
    scale = max(1.0, float(exact[finite].abs().max())) if bool(finite.any()) else 1.0
    off = float((wide - exact)[finite].abs().max()) if bool(finite.any()) else 0.0
    return f"off by {off:.3g} where numbers reach {scale:.3g}" if off > RELATIVE * scale else None


def reduced(graph: Graph, failure: Failure, attempts: int = 60) -> tuple[Graph, Failure]:
    """A graph with fewer steps that still fails, in any way, at the same sizes."""
    left = attempts
    shrinking = True
    while shrinking:
        shrinking = False
        for candidate in smaller(graph):
            left -= 1
            if left < 0:
                return graph, failure
            if not candidate.steps:
                continue
            try:
                found = check(candidate, [failure.sizes])
            except (Refused, IndexError, RuntimeError, ValueError, AssertionError):
                continue
            if found is not None and found.way == failure.way:
                graph, failure, shrinking = candidate, found, True
                break
    return graph, failure


__all__ = ["OPTIONS", "Failure", "Refused", "check", "differences", "reduced"]
