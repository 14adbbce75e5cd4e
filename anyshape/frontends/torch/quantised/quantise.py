"""`anyshape.quantize`: a model whose layers hold their weights in 8 or 4 bits, with a report of what that costs."""

# PyTorch is typed in part only.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

import numpy as np
import torch
from torch import nn

from anyshape.dialects.block_formats import BlockFormat
from anyshape.frontends.torch.quantised.encode import CHUNK, encode
from anyshape.frontends.torch.quantised.layers import QuantisedEmbedding, QuantisedLinear, QuantisedModule
from anyshape.frontends.torch.quantised.measure import measure
from anyshape.frontends.torch.quantised.plan import Choice, Layer, format_named, plan_layers
from anyshape.frontends.torch.quantised.report import LayerReport, OutputError, QuantisationReport
from anyshape.support.errors import ArgumentError


def quantize(
    model: nn.Module,
    weights: str = "int8",
    *,
    layers: Mapping[str, str] | None = None,
    skip: Sequence[str] = (),
    embeddings: bool = False,
    example: Sequence[Any] | None = None,
    example_kwargs: Mapping[str, Any] | None = None,
) -> nn.Module:
    """A copy of a model in which linear layers hold block-quantised weights: 8.5 or 5 bits each, instead of 32.

    The copy has the classes and methods of the model; what is not quantised is shared with it, not copied. It runs in PyTorch,
    where weights are decoded at every call. Compiled by `anyshape.compile` or `torch.compile(..., backend="anyshape")`, its products
    take the blocks as they are. What they round activations to is a choice made then: `Options.activations`.

    Quantised are `nn.Linear`, the `Conv1D` of transformers, and `nn.Embedding` where the table is also the weight of such a layer.
    Biases stay as they are. A layer whose rows are no whole number of blocks (32 elements) stays too; the report says so.

    Args:
        model: the model.
        weights: `"int8"` (blocks of `q8_0`), `"int4"` (`q4_1`), or a format: `q8_0`, `q5_1`, `q5_0`, `q4_1`, `q4_0`.
        layers: other formats for some layers, by name or pattern: `{"lm_head": "int8", "*.mlp.*": "q4_0"}`. The last one that fits counts.
        skip: names or patterns of layers that stay as they are.
        embeddings: whether tables that no product uses are quantised too.
        example: arguments of a call, by which the errors of outputs are measured.
        example_kwargs: its arguments by name.

    Returns:
        The quantised model. Its attribute `report`, a `QuantisationReport`, has the formats, bytes and errors of all layers.

    Raises:
        ArgumentError: `model` is no module, has an attribute `report` of its own, or has no layer that can be quantised; a format is
            unknown; a name or pattern fits no layer; a layer that `layers` names cannot be quantised, or shares its weight with
            one that it gives another format; an example is given for a model in training mode.
    """
    if not isinstance(model, nn.Module):  # pyright: ignore[reportUnnecessaryIsInstance] - callers may be untyped
        raise ArgumentError(
            "only modules are quantised", where="model", got=type(model).__name__, expected="a torch.nn.Module"
        )
    has_example = example is not None or example_kwargs is not None
    _check_model(model, has_example)
    plan = plan_layers(model, _choice(weights, layers or {}, skip, embeddings))
    with torch.no_grad():
        made = _make_layers(plan)
    if not made:
        reasons = "\n".join(f"{layer.name or 'the model'}: {layer.reason}" for layer in plan)
        raise ArgumentError("the model has no layer that can be quantised", where="model", got=reasons or "no layers")
    quantised = _copy_with(model, {id(each.layer.module): each.module for each in made})
    errors: Sequence[OutputError | None] = [None] * len(made)
    output_error = None
    if has_example:
        pairs = [(each.layer.module, each.module) for each in made]
        errors, output_error = measure(model, quantised, pairs, tuple(example or ()), example_kwargs or {})
    quantised.report = _report(model, quantised, plan, made, errors, output_error)  # pyright: ignore[reportArgumentType]
    return quantised


@dataclass(frozen=True)
class _Made:
    """A quantised layer."""

    layer: Layer
    module: QuantisedModule
    report: LayerReport


def _check_model(model: nn.Module, has_example: bool) -> None:
    if not isinstance(getattr(model, "report", QuantisationReport((), 0, 0)), QuantisationReport):
        raise ArgumentError(
            "the model has an attribute `report`, which would be replaced", where=f"model: {type(model).__name__}",
            remedy="rename it, or quantise a part of the model",
        )  # fmt: skip
    if has_example and model.training:
        raise ArgumentError(
            "an example is run twice, and the model is in training mode", where="example",
            remedy="call model.eval() first, or leave the example out",
        )  # fmt: skip


def _choice(weights: str, layers: Mapping[str, str], skip: Sequence[str], embeddings: bool) -> Choice:
    if isinstance(skip, str):
        raise ArgumentError("`skip` is a sequence of names", where="skip", got=repr(skip), remedy=f"write ({skip!r},)")
    formats = {pattern: format_named(name, f"layers[{pattern!r}]") for pattern, name in layers.items()}
    return Choice(format_named(weights, "weights"), formats, tuple(skip), embeddings)


def _make_layers(plan: Sequence[Layer]) -> list[_Made]:
    """The quantised layers. Those that share a matrix share its blocks; the first of them counts the bytes."""
    made: list[_Made] = []
    encoded: dict[tuple[int, bool], tuple[torch.Tensor, float] | ArgumentError] = {}
    for layer in plan:
        if layer.format is None:
            continue
        key = (id(layer.matrix), layer.is_turned)
        is_first = key not in encoded
        if is_first:
            encoded[key] = _encoded(layer, layer.format)
        blocks = encoded[key]
        if isinstance(blocks, ArgumentError):
            layer.stays(f"{blocks.message}: {blocks.got}" if blocks.got else blocks.message)
            continue
        report = LayerReport(
            layer.name, layer.shape, layer.format.name,
            bytes_before=layer.matrix.nbytes if is_first else 0, bytes_after=blocks[0].nbytes if is_first else 0,
            weight_error=blocks[1],
        )  # fmt: skip
        made.append(_Made(layer, _module(layer, layer.format, blocks[0]), report))
    return made


def _encoded(layer: Layer, format: BlockFormat) -> tuple[torch.Tensor, float] | ArgumentError:
    """The blocks of a layer's matrix with the relative error of its weights; the reason where it has none."""
    rows = layer.rows().numpy()
    try:
        blocks = encode(rows, format)
    except ArgumentError as error:
        return error
    difference = norm = 0.0
    step = max(1, CHUNK // rows.shape[1])
    for first in range(0, len(rows), step):
        exact = rows[first : first + step].astype(np.float64)
        difference += float(np.square(format.decode(blocks[first : first + step]) - exact).sum())
        norm += float(np.square(exact).sum())
    error = (difference / norm) ** 0.5 if norm else 0.0
    return torch.from_numpy(blocks).to(layer.matrix.device), error


def _module(layer: Layer, format: BlockFormat, blocks: torch.Tensor) -> QuantisedModule:
    dtype = layer.matrix.dtype
    if layer.is_table:
        module: QuantisedModule = QuantisedEmbedding(blocks, format, dtype)
    else:
        module = QuantisedLinear(blocks, format, dtype, layer.module.bias)  # pyright: ignore[reportArgumentType]
    return module.train(layer.module.training)


def _copy_with(model: nn.Module, replaced: Mapping[int, nn.Module]) -> nn.Module:
    """The model with other modules in the place of some, wherever it refers to them; its own tensors are shared."""
    kept: dict[int, Any] = {id(tensor): tensor for tensor in chain(model.parameters(), model.buffers())}
    return copy.deepcopy(model, {**kept, **replaced})


def _report(
    model: nn.Module,
    quantised: nn.Module,
    plan: Sequence[Layer],
    made: Sequence[_Made],
    errors: Sequence[OutputError | None],
    output_error: OutputError | None,
) -> QuantisationReport:
    reports = {
        each.layer.name: replace(each.report, output_error=error) for each, error in zip(made, errors, strict=True)
    }
    for layer in plan:
        size = layer.matrix.nbytes
        reports.setdefault(layer.name, LayerReport(layer.name, layer.shape, None, size, size, reason=layer.reason))
    layers = tuple(reports[layer.name] for layer in plan)
    return QuantisationReport(layers, _bytes_of(model), _bytes_of(quantised), output_error)


def _bytes_of(model: nn.Module) -> int:
    """Bytes of all parameters and buffers, each once."""
    return sum({id(tensor): tensor.nbytes for tensor in chain(model.parameters(), model.buffers())}.values())


__all__ = ["quantize"]
