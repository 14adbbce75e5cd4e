"""A module as one ATen graph that holds at every size the model allows."""

# PyTorch and sympy are typed in part only.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false

from __future__ import annotations

import threading
import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partialmethod
from typing import Any, Literal, TypeAlias

import torch
from torch import nn
from torch.export import ExportedProgram
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode
from torch.utils import _pytree as pytree

from anyshape.dialects.dhlo import DhloOp
from anyshape.dialects.locations import Origin
from anyshape.frontends.torch.arithmetic import exact_arithmetic
from anyshape.frontends.torch.askers import raised_at
from anyshape.frontends.torch.boundaries import Needless
from anyshape.frontends.torch.branches import Branch, Record, record_branches
from anyshape.frontends.torch.derived import DerivedSizes
from anyshape.frontends.torch.effects import keep_checks
from anyshape.frontends.torch.examples import path_name
from anyshape.frontends.torch.exports import Export, export_as_given, export_every_size
from anyshape.frontends.torch.openings import Broadcasts, Opening
from anyshape.frontends.torch.replacing import replaced
from anyshape.frontends.torch.resampling import RESAMPLED
from anyshape.frontends.torch.reshaping import reshapes_free
from anyshape.frontends.torch.sizes_only import SIZED, sizes_only
from anyshape.frontends.torch.slices import slices_clamp
from anyshape.support.errors import ExportError

DynamicShapes: TypeAlias = Literal["all"] | Mapping[str, Any] | Sequence[Any] | None

KEPT = (
    "aten._chunk_cat.default",
    "aten.embedding_dense_backward.default",
    "aten.index_add.default",
    "aten.layer_norm.default",
    "aten.linear.default",
    "aten.linspace.Scalar_Tensor",
    "aten.linspace.Tensor_Scalar",
    "aten.linspace.Tensor_Tensor",
    "aten.linspace.default",
    "aten.log_softmax.int",
    "aten.logsumexp.default",
    "aten.matmul.default",
    "aten.max_pool1d.default",
    "aten.rms_norm.default",
    "aten.scaled_dot_product_attention.default",
    "aten.select_scatter.default",
    "aten.softmax.int",
    "aten.std.correction",
    "aten.std_mean.correction",
    "aten.take.default",
    "aten.unfold_copy.default",
    *RESAMPLED,
    *SIZED,
)
"""Overloads that are lowered whole, and so are not decomposed; those that elementwise ops name in their headers are kept too."""


@dataclass(frozen=True)
class Capture:
    """An exported graph.

    Attributes:
        program: the graph after decomposition.
        examples: flattened example inputs that it was traced with.
        structure: how `(args, kwargs)` flatten to them.
        branches: conditions on sizes that the model's own Python code asked for, with the answers it was given.
        openings: input axes that are 1 or another size.
        derived: symbols for sizes that PyTorch cannot state.
        about_strides: identities of the environment's guards that say which strides a view or a copy gets.
        origins: who asked for guards, by their identities.
        needless: conditions of the model's that need not hold.
        seconds: wall time of export and decomposition.
    """

    program: ExportedProgram
    examples: tuple[Any, ...]
    structure: pytree.TreeSpec
    branches: tuple[Branch, ...]
    openings: tuple[Opening, ...]
    derived: DerivedSizes
    about_strides: frozenset[int]
    origins: Mapping[int, Origin]
    needless: Needless
    seconds: float


def capture(
    module: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any], dynamic_shapes: DynamicShapes
) -> Capture:
    """Export and decompose `module`; see `import_module` for `dynamic_shapes`. Raises ExportError."""
    keep_checks()
    with _TRACING, sizes_only():
        return _capture(module, args, kwargs, dynamic_shapes)


_TRACING = threading.RLock()
"""PyTorch's tracing modes, and what is replaced in PyTorch meanwhile, are the process's: one thread captures at a time."""


def _capture(
    module: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any], dynamic_shapes: DynamicShapes
) -> Capture:
    begin = time.perf_counter()
    leaves, structure = pytree.tree_flatten((args, dict(kwargs)))
    try:
        if dynamic_shapes == "all":
            export = export_every_size(module, leaves, structure)
        else:
            export = export_as_given(module, args, kwargs, dynamic_shapes)
        program, decomposing = _decomposed(export)
    except Exception as error:
        raise _export_error(error, _small_axes(leaves, structure)) from error
    seconds = time.perf_counter() - begin
    branches = tuple(export.record.branches)
    about_strides = frozenset(export.record.about_strides | decomposing.about_strides)
    origins = {**decomposing.origins, **export.record.origins}
    return Capture(
        program,
        export.examples,
        structure,
        branches,
        export.openings,
        export.derived,
        about_strides,
        origins,
        export.needless,
        seconds,
    )


def _decomposed(export: Export) -> tuple[ExportedProgram, Record]:
    """The graph in the ops that have lowerings, and what was seen meanwhile."""
    stand_ins = {opening.stand_in for opening in export.openings}
    record = Record()
    with (
        warnings.catch_warnings(),
        record_branches(record),
        export.derived.kept(),
        slices_clamp(export.derived),
        exact_arithmetic(export.derived),
        Broadcasts(stand_ins, export.derived, export.meeting).open(),
        reshapes_free(),
        replaced(ExportedProgram, "module", partialmethod(ExportedProgram.module, check_guards=False)),
    ):  # the check would ask for all conditions of the first trace again, those about strides too
        warnings.simplefilter("ignore")
        program = export.program.run_decompositions(decompositions())
    return program, record


def decompositions() -> dict[Any, Any]:
    """PyTorch's default table without the composites that are kept whole."""
    table = torch.export.default_decompositions()
    for name in (*KEPT, *DhloOp.OVERLOADS):
        table.pop(_overload(name), None)
    return table  # pyright: ignore[reportReturnType]


def _overload(name: str) -> Any:
    packet, overload = name.removeprefix("aten.").split(".")
    return getattr(getattr(torch.ops.aten, packet), overload)


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
    got = f"{type(error).__name__}: {str(error).strip()[:2000]}"
    place = None if error is None else raised_at(error)
    if isinstance(error, GuardOnDataDependentSymNode) and place is not None:
        return ExportError(
            "the model's Python code asks for a value that only the data of a call say",
            where=place,
            got=got.splitlines()[0],
            expected="branches on sizes; numbers of the data are results, parts of arithmetic and sizes",
            remedy="choose with torch.where or torch.cond; what such a value has to be can be said with torch._check",
        )
    remedy = "see the message of torch.export above; its cause is chained to this error"
    if small_axes is not None:
        remedy = "pass example inputs in which these axes have a size of 2 or more, or leave them static"
    return ExportError(
        "torch.export could not hand over the model as a graph",
        where=small_axes,
        got=got,
        remedy=remedy,
    )


__all__ = ["Capture", "DynamicShapes", "capture", "decompositions"]
