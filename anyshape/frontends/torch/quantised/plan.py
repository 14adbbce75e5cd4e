"""Which layers of a model are quantised, in which format, and why others are not."""

# PyTorch is typed in part only.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

import torch
from torch import nn

from anyshape.dialects.block_formats import FORMATS, BlockFormat
from anyshape.frontends.torch.quantised.encode import WRITABLE
from anyshape.support.errors import ArgumentError

SHORT_NAMES: Mapping[str, str] = {"int8": "q8_0", "int4": "q4_1"}
"""The format of each number of bits: for 4 bits the one with minima, whose errors are an eighth smaller for a ninth more bytes."""

CONV1D = "transformers.pytorch_utils.Conv1D"
"""A linear layer whose weight is [in, out]."""


@dataclass(frozen=True)
class Choice:
    """What the caller asked for.

    Attributes:
        format: of layers that nothing else is said of.
        layers: patterns of names, each with its format.
        skip: patterns of names of layers that stay.
        embeddings: whether tables that no product uses are quantised too.
    """

    format: BlockFormat
    layers: Mapping[str, BlockFormat]
    skip: Sequence[str]
    embeddings: bool

    def asked(self, names: Iterable[str]) -> BlockFormat | None:
        """The format that was asked for by name; the last pattern that fits counts."""
        found = [format for pattern, format in self.layers.items() if _fits(pattern, names)]
        return found[-1] if found else None

    def skipped(self, names: Iterable[str]) -> bool:
        return any(_fits(pattern, names) for pattern in self.skip)


@dataclass
class Layer:
    """A layer with a matrix, and what becomes of it.

    Attributes:
        names: of the module, as `named_modules` has them.
        matrix: what would be quantised.
        is_table: whether rows are looked up, not multiplied.
        is_turned: whether the matrix is stored [columns, rows].
        format: None where the layer stays as it is.
        reason: why it does.
        asked: whether a format was asked for by name.
    """

    names: list[str]
    module: nn.Module
    matrix: torch.Tensor
    is_table: bool
    is_turned: bool
    format: BlockFormat | None = None
    reason: str | None = None
    asked: bool = False

    @property
    def name(self) -> str:
        return self.names[0]

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and elements of a row."""
        rows, columns = self.matrix.shape[::-1] if self.is_turned else self.matrix.shape
        return rows, columns

    def rows(self) -> torch.Tensor:
        """The matrix as f32 [rows, elements of a row] in CPU memory."""
        plain = self.matrix.detach()
        return (plain.t() if self.is_turned else plain).to("cpu", torch.float32)

    def stays(self, reason: str) -> None:
        """Not quantised. ArgumentError where it was asked for by name."""
        if self.asked:
            raise ArgumentError(
                "a layer that was asked for by name cannot be quantised", where=f"layers: {self.name or 'the model'}",
                got=reason, remedy="leave it out of `layers`, or give it a format that fits",
            )  # fmt: skip
        self.format, self.reason = None, reason


def format_named(name: object, where: str) -> BlockFormat:
    """A format by its name or its number of bits; ArgumentError for what is none that can be written."""
    format = FORMATS.get(SHORT_NAMES.get(name, name)) if isinstance(name, str) else None
    if format is None or format.name not in WRITABLE:
        raise ArgumentError(
            "weights cannot be quantised so", where=where, got=repr(name),
            expected=", ".join(map(repr, (*SHORT_NAMES, *WRITABLE))),
        )  # fmt: skip
    return format


def plan_layers(model: nn.Module, choice: Choice) -> list[Layer]:
    """Every layer with a matrix, in the model's order, with its format or the reason why it has none.

    Raises:
        ArgumentError: a pattern fits no layer with a matrix; a layer that was asked for by name cannot be quantised; layers that
            share their matrix were asked for in different formats.
    """
    layers = _layers_of(model)
    _check_patterns("layers", choice.layers, layers)
    _check_patterns("skip", choice.skip, layers)
    for layer in layers:
        asked = choice.asked(layer.names)
        layer.format, layer.asked = asked or choice.format, asked is not None
        reason = "it was named in `skip`" if choice.skipped(layer.names) else _obstacle(layer)
        if reason is not None:
            layer.stays(reason)
    owners = _owners(model)
    for group in _by_matrix(layers):
        _decide_together(group, owners.get(id(group[0].matrix), set()), choice)
    return layers


def _layers_of(model: nn.Module) -> list[Layer]:
    found: dict[int, Layer] = {}
    for name, module in model.named_modules(remove_duplicate=False):
        if id(module) in found:
            found[id(module)].names.append(name)
        elif isinstance(module, nn.Linear | nn.Embedding) or _is_conv1d(module):
            matrix: torch.Tensor = module.weight  # pyright: ignore[reportAssignmentType] - each of these has one
            is_turned = _is_conv1d(module)
            found[id(module)] = Layer([name], module, matrix, isinstance(module, nn.Embedding), is_turned)
    return list(found.values())


def _is_conv1d(module: nn.Module) -> bool:
    kind = type(module)
    return f"{kind.__module__}.{kind.__qualname__}" == CONV1D


def _obstacle(layer: Layer) -> str | None:
    """Why a layer cannot be replaced, whatever others do."""
    module, matrix, kind = layer.module, layer.matrix, type(layer.module)
    if kind not in (nn.Linear, nn.Embedding) and not _is_conv1d(module):
        return f"{kind.__name__} may do more than its base class"
    if "forward" in vars(module) or module._forward_hooks or module._forward_pre_hooks:  # pyright: ignore[reportPrivateUsage]
        return "its forward was replaced or has hooks, which would be lost"
    if isinstance(module, nn.Embedding) and module.max_norm is not None:
        return "its rows are written at every call (max_norm)"
    if type(matrix) is not nn.Parameter or not matrix.is_floating_point() or matrix.is_meta:
        return f"its weight is no plain tensor of floats: {type(matrix).__name__}, {matrix.dtype}, {matrix.device}"
    assert layer.format is not None
    rows, columns = layer.shape
    if not rows or not columns:
        return "its weight has no elements"
    if columns % layer.format.elements:
        return f"a row of {columns} elements is no whole number of blocks of {layer.format.elements}"
    return None


def _owners(model: nn.Module) -> Mapping[int, set[str]]:
    """By the identity of a parameter, all its names."""
    owners: dict[int, set[str]] = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        owners.setdefault(id(parameter), set()).add(name)
    return owners


def _by_matrix(layers: Iterable[Layer]) -> list[list[Layer]]:
    groups: dict[int, list[Layer]] = {}
    for layer in layers:
        groups.setdefault(id(layer.matrix), []).append(layer)
    return list(groups.values())


def _decide_together(group: Sequence[Layer], owners: set[str], choice: Choice) -> None:
    """Layers that share a matrix are quantised together, in one format, or not at all: a second form would only take memory."""
    chosen = {layer.format.name: layer for layer in group if layer.asked and layer.format is not None}
    if len(chosen) > 1:
        raise ArgumentError(
            "layers that share their matrix were asked for in different formats",
            got=", ".join(f"{layer.name}: {name}" for name, layer in chosen.items()), expected="one format",
        )  # fmt: skip
    own = {f"{name}.weight".removeprefix(".") for layer in group for name in layer.names}
    staying = [f"{layer.name}.weight" for layer in group if layer.format is None]
    others = sorted([*staying, *(owners - own)])
    for layer in group:
        if layer.format is None:
            continue
        if others:
            layer.stays(f"its weight is also {others[0]}, which is not quantised")
        elif layer.is_table and not (choice.embeddings or layer.asked) and all(other.is_table for other in group):
            layer.stays("a table that no product uses; `embeddings=True` quantises it")
        elif chosen:
            (layer.format,) = (other.format for other in chosen.values())


def _check_patterns(argument: str, patterns: Iterable[str], layers: Sequence[Layer]) -> None:
    for pattern in patterns:
        if not any(_fits(pattern, layer.names) for layer in layers):
            names = ", ".join(layer.name for layer in layers[:20])
            raise ArgumentError(
                "a name fits no layer with a weight to quantise", where=argument, got=repr(pattern),
                expected=f"names or patterns such as '*.mlp.*' of: {names}" if names else "the model has no such layer",
            )  # fmt: skip


def _fits(pattern: str, names: Iterable[str]) -> bool:
    return any(fnmatchcase(name, pattern) for name in names)


__all__ = ["SHORT_NAMES", "Choice", "Layer", "format_named", "plan_layers"]
