"""A module as one ATen graph that holds at every size the model allows."""

# PyTorch and sympy are typed in part only.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false

from __future__ import annotations

import re
import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import torch
from torch import nn
from torch.export import Dim, ExportedProgram
from torch.export.dynamic_shapes import ShapesCollection
from torch.fx.experimental import _config as symbolic_config
from torch.utils import _pytree as pytree

from anyshape.dialects.dhlo import DhloOp
from anyshape.frontends.torch.branches import Branch, Record, record_branches
from anyshape.frontends.torch.examples import Substitution, initial_substitution, path_name, substitute
from anyshape.support.errors import ExportError

DynamicShapes: TypeAlias = Literal["all"] | Mapping[str, Any] | Sequence[Any] | None

KEPT = (
    "aten.layer_norm.default",
    "aten.linear.default",
    "aten.log_softmax.int",
    "aten.matmul.default",
    "aten.rms_norm.default",
    "aten.scaled_dot_product_attention.default",
    "aten.softmax.int",
)
"""Overloads that are lowered whole, and so are not decomposed; those that elementwise ops name in their headers are kept too."""

_SYMBOL = re.compile(r"\bs\d+\b")

_MESSAGE_LENGTH = 400
"""What of an error's text is read for sizes; further on there are line numbers and graphs."""


@dataclass(frozen=True)
class Capture:
    """An exported graph.

    Attributes:
        program: the graph after decomposition.
        examples: flattened example inputs that it was traced with.
        structure: how `(args, kwargs)` flatten to them.
        branches: conditions on sizes that the model's own Python code asked for, with the answers it was given.
        seconds: wall time of export and decomposition.
    """

    program: ExportedProgram
    examples: tuple[Any, ...]
    structure: pytree.TreeSpec
    branches: tuple[Branch, ...]
    seconds: float


def capture(
    module: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any], dynamic_shapes: DynamicShapes
) -> Capture:
    """Export and decompose `module`; see `import_module` for `dynamic_shapes`. Raises ExportError."""
    begin = time.perf_counter()
    leaves, structure = pytree.tree_flatten((args, dict(kwargs)))
    if dynamic_shapes == "all":
        exported, examples, branches = _export_all_sizes(module, leaves, structure)
    else:
        examples = leaves
        record = Record()
        try:
            with record_branches(record):
                exported = _export(module, args, kwargs, dynamic_shapes)
            branches = record.branches
        except Exception as error:
            raise _export_error(error, _small_axes(leaves, structure)) from error
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program = exported.run_decompositions(_decompositions())
    return Capture(program, tuple(examples), structure, tuple(branches), time.perf_counter() - begin)


def _decompositions() -> dict[Any, Any]:
    """PyTorch's default table without the composites that are kept whole."""
    table = torch.export.default_decompositions()
    for name in (*KEPT, *DhloOp.OVERLOADS):
        table.pop(_overload(name), None)
    return table  # pyright: ignore[reportReturnType]


def _overload(name: str) -> Any:
    packet, overload = name.removeprefix("aten.").split(".")
    return getattr(getattr(torch.ops.aten, packet), overload)


def _export(
    module: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any], dynamic_shapes: Any
) -> ExportedProgram:
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.export.export(module, args, dict(kwargs), dynamic_shapes=dynamic_shapes, strict=False)


def _export_all_sizes(
    module: nn.Module, leaves: list[Any], structure: pytree.TreeSpec
) -> tuple[ExportedProgram, list[Any], list[Branch]]:
    """Export with every axis dynamic that the model allows, with substitutes for sizes 0 and 1.

    The last resort treats sizes as if they might be 0 or 1. A few models trace only so; many do not, because it asks for facts that
    they do not state. The error of the first try is the one worth reporting.
    """
    substitution: Substitution | None = initial_substitution(leaves)
    examples = leaves
    first_error: Exception | None = None
    attempts = 2 * len(substitution.sizes()) + 2
    while substitution is not None and attempts > 0:
        attempts -= 1
        examples = substitute(leaves, substitution.sizes())
        record = Record()
        try:
            return _export_dynamic(module, examples, structure, record), examples, record.branches
        except Exception as error:
            first_error = first_error or error
            substitution = substitution.refine(_with_sizes(str(error)[:_MESSAGE_LENGTH], record))
    record = Record()
    try:
        with symbolic_config.patch(backed_size_oblivious=True):  # pyright: ignore[reportAttributeAccessIssue]
            return _export_dynamic(module, examples, structure, record), examples, record.branches
    except Exception:
        raise _export_error(first_error, _small_axes(leaves, structure)) from first_error


def _with_sizes(message: str, record: Record) -> str:
    """The message with the example's size in place of every symbol."""
    return _SYMBOL.sub(lambda match: str(record.examples.get(match[0], match[0])), message)


class _Call(nn.Module):
    """A call of a module with a tuple and a dict: export does not take sizes for the arguments in `**keywords`."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return self.module(*args, **kwargs)


def _export_dynamic(
    module: nn.Module, examples: list[Any], structure: pytree.TreeSpec, record: Record
) -> ExportedProgram:
    """One export with `Dim.AUTO` on every axis: PyTorch finds the relations and the axes that are fixed."""
    call, (args, kwargs) = _Call(module), pytree.tree_unflatten(examples, structure)
    if not examples:  # export loses empty arguments
        with record_branches(record):
            return _export(module, args, kwargs, None)
    shapes = ShapesCollection()
    for leaf in examples:
        if isinstance(leaf, torch.Tensor) and leaf.dim() > 0:
            shapes[leaf] = dict.fromkeys(range(leaf.dim()), Dim.AUTO)
    dynamic_shapes = shapes.dynamic_shapes(call, (args, kwargs))
    with record_branches(record):
        return _export(call, (args, kwargs), {}, dynamic_shapes)


def _small_axes(leaves: Sequence[Any], structure: pytree.TreeSpec) -> str | None:
    """The input axes of size 0 and 1, one a line."""
    tree = pytree.tree_unflatten(leaves, structure)
    lines = [
        f"{path_name(path)}: axis {axis} has size {size}"
        for path, leaf in pytree.tree_flatten_with_path(tree)[0]
        if isinstance(leaf, torch.Tensor)
        for axis, size in enumerate(leaf.shape)
        if size < 2
    ]
    return "\n".join(lines) or None


def _export_error(error: Exception | None, small_axes: str | None) -> ExportError:
    remedy = "see the message of torch.export above; its cause is chained to this error"
    if small_axes is not None:
        remedy = "pass example inputs in which these axes have a size of 2 or more, or leave them static"
    return ExportError(
        "torch.export could not hand over the model as a graph",
        where=small_axes,
        got=f"{type(error).__name__}: {str(error).strip()[:2000]}",
        remedy=remedy,
    )


__all__ = ["Capture", "DynamicShapes", "capture"]
