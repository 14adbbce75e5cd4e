"""A lowering with the inputs and attributes of a node, which must be those that its signature names."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, partial
from typing import TYPE_CHECKING, Any

from anyshape.frontends.onnx.refusals import Malformed, Unsupported
from anyshape.frontends.onnx.values import Anything

if TYPE_CHECKING:
    from anyshape.frontends.onnx.builder import GraphBuilder

_KINDS: Mapping[str, Callable[[Any], bool]] = {
    "int": lambda value: isinstance(value, int),
    "float": lambda value: isinstance(value, int | float),
    "str": lambda value: isinstance(value, str),
    "Sequence[int]": lambda value: _are(value, int),
    "Sequence[float]": lambda value: _are(value, float),
    "Sequence[str]": lambda value: _are(value, str),
}
"""What an attribute must be, by the annotation of its parameter; ops without a schema have no other statement of it."""


def _are(value: Any, kind: type) -> bool:
    """Whether a value is a list of this type."""
    return isinstance(value, list | tuple) and all(isinstance(each, kind | int) for each in value)  # pyright: ignore[reportUnknownVariableType]


@cache
def _signature(lowering: Callable[..., Any]) -> inspect.Signature:
    return inspect.signature(lowering)


def applied(
    lowering: Callable[..., Any], inputs: Sequence[Anything], attributes: Mapping[str, Any]
) -> Callable[[GraphBuilder], Any]:
    """The lowering with these arguments, for a builder. Malformed or Unsupported where it does not take them."""
    signature = _signature(lowering)
    parameters = signature.parameters
    takes_all = any(each.kind is inspect.Parameter.VAR_KEYWORD for each in parameters.values())
    unknown = [] if takes_all else [name for name in attributes if name not in parameters]
    if unknown:
        raise Unsupported(f"attribute '{unknown[0]}' is not known")
    for name, value in attributes.items():
        if name in parameters and not _is_of_kind(value, parameters[name]):
            raise Malformed(f"attribute '{name}' is {type(value).__name__}; it has to be {parameters[name].annotation}")
    trimmed = _trimmed(inputs, parameters.values())
    try:
        bound = signature.bind(None, *trimmed, **attributes).arguments
    except TypeError as error:
        raise Malformed(f"it does not have the inputs and attributes of its op: {error}") from error
    _, *given = bound
    missing = [name for name in given if bound[name] is None and not _may_be_none(parameters[name])]
    if missing:
        raise Malformed(f"it leaves out the input '{missing[0]}', which its op needs")
    return partial(_called, lowering, trimmed, attributes)


def _trimmed(inputs: Sequence[Anything], parameters: Iterable[inspect.Parameter]) -> list[Anything]:
    """The inputs without those left out at the end, whose parameters have defaults; None for those that have none."""
    trimmed = list(inputs)
    while trimmed and trimmed[-1] is None:
        trimmed.pop()
    _, *places = (each for each in parameters if each.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD)
    needed = [each for each in places[len(trimmed) :] if each.default is inspect.Parameter.empty]
    return trimmed if not all(map(_may_be_none, needed)) else [*trimmed, *[None] * len(needed)]


def _is_of_kind(value: Any, parameter: inspect.Parameter) -> bool:
    """Whether an attribute is what its parameter says, as far as that is a kind of numbers or texts."""
    said = [each.strip() for each in str(parameter.annotation).split("|")]
    if value is None or not all(each in _KINDS or each == "None" for each in said):
        return True
    return any(_KINDS[each](value) for each in said if each != "None")


def _may_be_none(parameter: inspect.Parameter) -> bool:
    """Whether a node may leave out an input: its parameter has a default, or says so."""
    said = str(parameter.annotation)
    return parameter.default is not inspect.Parameter.empty or "None" in said or "Anything" in said


def _called(
    lowering: Callable[..., Any], inputs: Sequence[Anything], attributes: Mapping[str, Any], builder: GraphBuilder
) -> Any:
    return lowering(builder, *inputs, **attributes)


__all__ = ["applied"]
