"""How calls with numpy arrays map onto the program of an ONNX model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from anyshape.dialects.dhlo import Array
from anyshape.dialects.dtypes import BF16
from anyshape.frontends.onnx.builder import SEED_NAME
from anyshape.frontends.onnx.importer import OutputSpec
from anyshape.frontends.onnx.inputs import InputSpec
from anyshape.frontends.onnx.storage import from_held, to_held
from anyshape.support.errors import ArgumentError, DtypeError

_BF16_BITS = np.dtype(np.uint16)
"""What bfloat16 travels as, numpy itself having none."""


@dataclass(frozen=True)
class CallAdaptor:
    """Turns a call into arrays for the program, and the program's results into what the caller gets.

    Attributes:
        model: what errors call the model.
        inputs: the arguments, in the order of the file.
        outputs: the results, in the order of the file.
        constants: the inputs that have a value in the file.
    """

    model: str
    inputs: tuple[InputSpec, ...]
    outputs: tuple[OutputSpec, ...]
    constants: frozenset[str] = frozenset()

    def flatten(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Array]:
        """The arrays of a call, given by position or by the input's name. ArgumentError where one is missing or too many."""
        names = [spec.name for spec in self.inputs if spec.name != SEED_NAME]
        given = dict(zip(names, args, strict=False))
        unknown = [name for name in kwargs if name not in names]
        twice = [name for name in kwargs if name in given]
        missing = [name for name in names if name not in given and name not in kwargs]
        if unknown or twice or missing or len(args) > len(names):
            problems = [f"{name!r}: no such input" for name in unknown] + [f"{name!r}: given twice" for name in twice]
            problems += [f"{name!r}: missing" for name in missing]
            problems += [f"{len(args)} arguments"] if len(args) > len(names) else []
            expected = ", ".join(
                f"{spec.name}: {spec.dtype}[{', '.join(map(str, spec.sizes))}]"
                for spec in self.inputs
                if spec.name != SEED_NAME
            )
            fixed = [name for name in unknown if name in self.constants]
            remedy = (
                f"{fixed[0]!r} has a value in the file: remove its initialiser to make it an argument"
                if fixed
                else None
            )
            raise ArgumentError(
                "the call does not fit the model",
                where=self.model,
                got=", ".join(problems),
                expected=expected,
                remedy=remedy,
            )
        given.update(kwargs)
        if len(names) < len(self.inputs):
            given[SEED_NAME] = draw_seed()
        return [_as_passed(given[spec.name], spec) for spec in self.inputs]

    def unflatten(self, results: Sequence[Array], _inputs: Sequence[Array]) -> Any:
        """The only output, or a tuple of all."""
        pairs = zip(self.outputs, results, strict=True)
        outputs = [_as_given(array, spec) for spec, array in pairs]
        return outputs[0] if len(outputs) == 1 else tuple(outputs)


def draw_seed() -> Array:
    """The seed of one call's random numbers, drawn from numpy's global generator, so that `numpy.random.seed` makes results repeat."""
    return np.asarray(np.random.randint(-(2**63), 2**63 - 1, dtype=np.int64))


def _as_passed(value: Any, spec: InputSpec) -> Array:
    array = as_array(value, spec.name)
    if spec.numpy is not None:
        if array.dtype != spec.numpy:
            raise DtypeError("an input has another element type", where=spec.name, got=array.dtype, expected=spec.numpy)
        return to_held(array)
    return array.view(_BF16_BITS) if array.dtype == BF16.numpy else array


def as_array(value: Any, name: str) -> Array:
    """What a caller passes as an input. ArgumentError where it is no array: lists of several lengths, say."""
    try:
        return np.asarray(value)
    except (ValueError, TypeError, OverflowError) as error:
        raise ArgumentError("an input is no array", where=name, got=error, expected="a numpy array") from error


def _as_given(array: Array, spec: OutputSpec) -> Array:
    if spec.numpy is not None:
        return from_held(array, spec.numpy)
    return array.view(BF16.numpy) if spec.dtype == BF16 else array


__all__ = ["CallAdaptor", "as_array"]
