"""Calls against what they must fit: an example call against the module's `forward`, later calls against the example's nesting."""

from __future__ import annotations

import inspect
from collections import OrderedDict, defaultdict, deque, namedtuple
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch.utils import _pytree as pytree

from anyshape.frontends.torch.examples import path_name
from anyshape.support.errors import ArgumentError

_DICTS = (dict, OrderedDict, defaultdict)


def signature_text(signature: inspect.Signature) -> str:
    """`forward(x, mask=None)`: names and defaults, without annotations."""
    bare = [each.replace(annotation=inspect.Parameter.empty) for each in signature.parameters.values()]
    return f"forward{signature.replace(parameters=bare, return_annotation=inspect.Signature.empty)}"


def example_misfit(
    signature: inspect.Signature, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> ArgumentError | None:
    """What is wrong with an example call that `forward` does not take, and one that it would; None where it takes it."""
    try:
        given = signature.bind_partial(*args, **kwargs).arguments
    except TypeError as error:
        problem = f"the example call does not fit the module's forward: {error}"
    else:
        missing = [name for name, each in signature.parameters.items() if _required(each) and name not in given]
        if not missing:
            return None
        problem = f"the example call lacks arguments of the module's forward: {', '.join(missing)}"
    return ArgumentError(
        problem,
        got=_counted(args, kwargs),
        expected=signature_text(signature),
        remedy=f"write {_example_call(signature)}, with tensors of any one size",
    )


def _required(parameter: inspect.Parameter) -> bool:
    variable = parameter.kind in (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return parameter.default is inspect.Parameter.empty and not variable


def _counted(args: Sequence[Any], kwargs: Mapping[str, Any]) -> str:
    parts = [f"{len(args)} by position"] if args else []
    parts += [f"by name {', '.join(kwargs)}"] if kwargs else []
    return ", ".join(parts) or "no arguments"


def _example_call(signature: inspect.Signature) -> str:
    """`anyshape.compile(module, (x,), {'mask': mask})`: every argument that has no default."""
    required = [parameter for parameter in signature.parameters.values() if _required(parameter)]
    by_name = [parameter.name for parameter in required if parameter.kind is inspect.Parameter.KEYWORD_ONLY]
    names = [parameter.name for parameter in required if parameter.name not in by_name]
    args = f"({', '.join(names)}{',' if len(names) == 1 else ''})"
    kwargs = f", {{{', '.join(f'{name!r}: {name}' for name in by_name)}}}" if by_name else ""
    return f"anyshape.compile(module, {args}{kwargs})"


def leaves_as_in(example: pytree.TreeSpec, call: Any) -> list[Any]:
    """The leaves of `call`, which is `(args, kwargs)`, in the order of the example's; a container in the place of a leaf stays whole.

    Keys of a dict may come in another order. Raises ArgumentError that names the first place that is nested otherwise.
    """
    leaves: list[Any] = []
    _collect(example, call, (), leaves)
    return leaves


def _collect(example: pytree.TreeSpec, node: Any, path: pytree.KeyPath, leaves: list[Any]) -> None:
    if example.is_leaf():
        leaves.append(node)
        return
    children, found = pytree.tree_flatten_with_path(node, is_leaf=lambda inner: inner is not node)
    if not _same_container(example, found):
        got, expected = _described(found, node), _described(example)
        raise ArgumentError(
            "an argument is nested differently from that of the example call",
            where=path_name(path),
            got=got,
            expected=expected if got != expected else f"one with {example.context!r}, not {found.context!r}",
            remedy="pass the same tuples, lists and dicts with the same keys",
        )
    if example.type in _DICTS:
        place = {key: position for position, key in enumerate(_keys(found))}
        children = [children[place[key]] for key in _keys(example)]
    for inner, (step, child) in zip(example.children(), children, strict=True):
        _collect(inner, child, (*path, *step), leaves)


def _same_container(example: pytree.TreeSpec, found: pytree.TreeSpec) -> bool:
    if example.type in _DICTS and found.type in _DICTS:
        return set(_keys(example)) == set(_keys(found))
    same = example.type is found.type and example.num_children == found.num_children
    return same and (example.type is deque or example.context == found.context)


def _keys(spec: pytree.TreeSpec) -> list[Any]:
    """The keys of a dict in the order of its children; of a defaultdict, the factory comes before them."""
    return spec.context[1] if spec.type is defaultdict else spec.context


def _described(spec: pytree.TreeSpec, value: object = None) -> str:
    """`a list of 2`, `a dict with the keys 'a', 'b'`; what is no container by the type of its value."""
    if spec.is_leaf():
        return "None" if value is None else f"a {type(value).__name__}"
    if spec.type in _DICTS:
        return f"a dict with the keys {', '.join(map(repr, _keys(spec)))}" if spec.num_children else "an empty dict"
    container = spec.context if spec.type is namedtuple else spec.type
    return f"a {container.__name__} of {spec.num_children}"


def call_without_gradients(module: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """The module called for inference; a model that `torch.compile` has wrapped is compiled by that."""
    with torch.no_grad():
        return module(*args, **kwargs)


__all__ = ["call_without_gradients", "example_misfit", "leaves_as_in", "signature_text"]
