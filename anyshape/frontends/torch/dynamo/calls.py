"""Calls of a compiled graph, as the code around it makes them: flat arguments in, flat results out."""

# PyTorch is typed in part only.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from threading import Lock
from typing import Any

import torch
from torch.autograd.graph import increment_version

from anyshape.frontends.torch.dynamo.graph import GraphProgram
from anyshape.frontends.torch.dynamo.strides import Permuted, Strided
from anyshape.frontends.torch.program import (
    FromComplexResult,
    FromConstant,
    FromInput,
    FromNumber,
    FromResult,
    FromSize,
    IntoInput,
)
from anyshape.support.errors import ArgumentError, IndexOutOfRange
from anyshape.symbolic import bind_symbols

Run = Callable[[Sequence[torch.Tensor], Sequence[torch.Tensor]], list[torch.Tensor]]
"""(tensors of the inputs, weights) -> results."""

Failed = Callable[[Exception, Sequence[Any]], Any]


class GraphCall:
    """A compiled graph as a function of the fx graph's arguments.

    Args:
        program: the graph.
        run: runs it on the tensors of its inputs and its weights.
        failed: gives the results in another way, after `run` raised an error; without it the error is raised.

    Raises:
        IndexOutOfRange: an index is out of range; PyTorch would raise too.
    """

    def __init__(self, program: GraphProgram, run: Run, failed: Failed | None = None) -> None:
        self._inputs = inputs = program.inputs
        self._positions = tuple(spec.position for spec in inputs if not spec.is_size)
        self._sizes = tuple((index, spec) for index, spec in enumerate(inputs) if spec.is_size)
        self._weights = program.weights
        self._written = program.written
        self._outputs = outputs = program.outputs
        self._is_single = program.is_single
        self._run = run
        self._failed = failed
        self._in_order = list(outputs) == [(FromResult(index), None) for index in range(len(outputs))]

    def __call__(self, *args: Any) -> Any:
        __tracebackhide__ = True
        tensors = [args[position] for position in self._positions]
        try:
            for index, spec in self._sizes:
                tensors.insert(index, _of_length(int(args[spec.position]) if spec.length is None else spec.length))
            results = self._run(tensors, [args[position] for position in self._weights])
            for index in self._written:
                if not tensors[index].is_inference():  # whose writes PyTorch does not count either
                    increment_version(tensors[index])
            values = results if self._in_order else list(self._values(tensors, results))
        except IndexOutOfRange as error:
            raise error.with_traceback(None) from None  # the user's program is at fault: our frames say nothing
        except Exception as error:
            if self._failed is None:
                raise
            return self._failed(error, args)
        return values[0] if self._is_single else tuple(values)

    def _values(self, tensors: Sequence[torch.Tensor], results: Sequence[torch.Tensor]) -> Iterator[Any]:
        pairs = zip(self._inputs, tensors, strict=True)
        sizes = bind_symbols(axis for spec, tensor in pairs for axis in zip(spec.sizes, tensor.shape, strict=True))
        for source, layout in self._outputs:
            match source, layout:
                case FromConstant(value), _:
                    yield value
                case FromSize(size), _:
                    yield size.evaluate(sizes)
                case FromInput(index), Strided():
                    yield layout.placed(tensors[index], sizes)
                case FromInput(index), _:
                    yield tensors[index]
                case FromResult(index), Permuted():
                    yield results[index].permute(layout.inverse)
                case FromResult(index), Strided():
                    yield layout.placed(results[index], sizes)
                case FromResult(index), _:
                    yield results[index]
                case FromComplexResult(index), _:
                    yield torch.view_as_complex(results[index])
                case FromNumber(tensor), _:
                    held = results if isinstance(tensor, FromResult) else tensors
                    yield held[tensor.index].item()
                case IntoInput(), _:
                    raise AssertionError("AOTAutograd's graphs write to nothing: what they would write is a result")


@dataclass(frozen=True)
class Place:
    """Where the arguments of a call say what a size is: an axis of one, or the number that one is."""

    position: int
    axis: int | None

    def size_in(self, args: Sequence[Any]) -> int:
        argument = args[self.position]
        return int(argument) if self.axis is None else argument.shape[self.axis]


class CallWhere:
    """One function for calls in which sizes are equal, and another, made when it is first needed, for all others.

    Args:
        equal: places of sizes that must be equal.
        call: the function where they are.
        otherwise: makes the other one.
    """

    def __init__(
        self,
        equal: Sequence[tuple[Place, Place]],
        call: Callable[..., Any],
        otherwise: Callable[[], Callable[..., Any]],
    ) -> None:
        self._equal = tuple(equal)
        self._call = call
        self._make = otherwise
        self._other: Callable[..., Any] | None = None
        self._lock = Lock()

    def __call__(self, *args: Any) -> Any:
        __tracebackhide__ = True
        if all(one.size_in(args) == other.size_in(args) for one, other in self._equal):
            return self._call(*args)
        if self._other is None:
            with self._lock:
                self._other = self._other or self._make()
        return self._other(*args)


_BYTE = torch.zeros(1, dtype=torch.uint8)


def _of_length(size: int) -> torch.Tensor:
    """A tensor with `size` elements and one byte of memory: the program reads only its length.

    Raises:
        ArgumentError: the size, which may be an element of a tensor, is negative.
    """
    if size < 0:
        raise ArgumentError(
            "elements are replaced at a position that is negative", got=size, expected="0 or more",
            remedy="count positions from the start, or compile without `strict`",
        )  # fmt: skip
    return _BYTE.as_strided((size,), (0,))


def overlaps(written: Sequence[torch.Tensor], tensors: Sequence[Any]) -> bool:
    """Whether memory that is written belongs to more than one of the tensors; spans count, as if every gap were part of them."""
    unique = {id(tensor): tensor for tensor in tensors if isinstance(tensor, torch.Tensor)}
    targets = {id(tensor) for tensor in written}
    spans = sorted((*_span(tensor), number in targets) for number, tensor in unique.items() if tensor.numel())
    last = last_written = 0  # where the spans that began so far end, all and those that are written
    for begin, end, is_written in spans:
        if begin < (last if is_written else last_written):
            return True
        last = max(last, end)
        last_written = max(last_written, end if is_written else 0)
    return False


def _span(tensor: torch.Tensor) -> tuple[int, int]:
    """The addresses from the first to after the last element of a tensor that has any."""
    last = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    return tensor.data_ptr(), tensor.data_ptr() + (last + 1) * tensor.element_size()


__all__ = ["CallWhere", "GraphCall", "Place", "overlaps"]
