"""A module as one ATen graph that holds at every size the model allows."""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import torch
from torch import nn
from torch.export import Dim, ExportedProgram
from torch.export.dynamic_shapes import ShapesCollection
from torch.fx.experimental import _config as symbolic_config
from torch.utils import _pytree as pytree

from anyshape.frontends.torch.branches import Branch, record_branches
from anyshape.frontends.torch.examples import Substitution, initial_substitution, path_name, substitute
from anyshape.support.errors import ExportError

DynamicShapes: TypeAlias = Literal["all"] | Mapping[str, Any] | Sequence[Any] | None

KEPT = (
    "aten::layer_norm",
    "aten::linear",
    "aten::log_softmax.int",
    "aten::matmul",
    "aten::rms_norm",
    "aten::scaled_dot_product_attention",
    "aten::silu",
    "aten::softmax.int",
)
"""Overloads that have a `dhlo` op of their own, and so are not decomposed."""

_MAX_ATTEMPTS = 12


@dataclass(frozen=True)
class Capture:
    """An exported graph.

    Attributes:
        program: the graph after decomposition.
        examples: flattened example inputs that it was traced with.
        branches: conditions on sizes that the model's own Python code asked for, with the answers it was given.
        seconds: wall time of export and decomposition.
    """

    program: ExportedProgram
    examples: tuple[Any, ...]
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
        try:
            with record_branches() as branches:
                exported = _export(module, args, kwargs, dynamic_shapes)
        except Exception as error:
            raise _export_error(error, None) from error
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program = exported.run_decompositions(_decompositions())
    return Capture(program, tuple(examples), tuple(branches), time.perf_counter() - begin)


def _decompositions() -> dict[Any, Any]:
    """PyTorch's default table without the composites that are kept whole."""
    table = torch.export.default_decompositions()
    for name in KEPT:
        table.pop(_overload(name), None)
    return table  # pyright: ignore[reportReturnType]


def _overload(name: str) -> Any:
    packet, _, overload = name.removeprefix("aten::").partition(".")
    return getattr(getattr(torch.ops.aten, packet), overload or "default")


def _export(
    module: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any], dynamic_shapes: Any
) -> ExportedProgram:
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.export.export(module, args, dict(kwargs), dynamic_shapes=dynamic_shapes, strict=False)


def _export_all_sizes(
    module: nn.Module, leaves: list[Any], structure: pytree.TreeSpec
) -> tuple[ExportedProgram, list[Any], list[Branch]]:
    """Export with every axis dynamic that the model allows, with substitutes for sizes 0 and 1."""
    substitution = initial_substitution(leaves)
    first_error: Exception | None = None
    for _ in range(_MAX_ATTEMPTS):
        examples = substitute(leaves, substitution.sizes())
        try:
            exported, branches = _export_dynamic(module, examples, structure)
            return exported, examples, branches
        except Exception as error:
            first_error = first_error or error
            refined = substitution.refine(str(error))
            if refined is None:
                break
            substitution = refined
    assert first_error is not None
    raise _export_error(first_error, _small_axes(leaves, structure)) from first_error


def _export_dynamic(
    module: nn.Module, examples: list[Any], structure: pytree.TreeSpec
) -> tuple[ExportedProgram, list[Branch]]:
    """One export with `Dim.AUTO` on every axis; the second try treats sizes as if they might be 0 or 1.

    Most models trace only without that option (it asks for facts that they do not state), some only with it; the error of the
    first try is the one worth reporting.
    """
    args, kwargs = pytree.tree_unflatten(examples, structure)
    shapes = ShapesCollection()
    for leaf in examples:
        if isinstance(leaf, torch.Tensor) and leaf.dim() > 0:
            shapes[leaf] = dict.fromkeys(range(leaf.dim()), Dim.AUTO)
    dynamic_shapes = shapes.dynamic_shapes(module, args, kwargs)
    first_error: Exception | None = None
    for option in (nullcontext(), symbolic_config.patch(backed_size_oblivious=True)):
        try:
            with option, record_branches() as branches:
                return _export(module, args, kwargs, dynamic_shapes), branches
        except Exception as error:
            first_error = first_error or error
    assert first_error is not None
    raise first_error


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


def _export_error(error: Exception, small_axes: str | None) -> ExportError:
    remedy = "see the message of torch.export above; its cause is chained to this error"
    if small_axes is not None:
        remedy = "pass example inputs in which these axes have a size of 2 or more"
    return ExportError(
        "torch.export could not hand over the model as a graph",
        where=small_axes,
        got=f"{type(error).__name__}: {str(error).strip()[:2000]}",
        remedy=remedy,
    )


__all__ = ["Capture", "DynamicShapes", "Substitution", "capture"]
