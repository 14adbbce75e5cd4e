"""The weights of a model as its program takes them: which tensors of the file are joined, in which order of rows, and of which type."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from anyshape.dialects.arrays import Array, ArrayType
from anyshape.dialects.element_types import numpy_type
from anyshape.driver.mapped import drop_pages
from anyshape.support.errors import FileFormatError

PLAIN: Mapping[str, str] = {"F32": "f32", "F16": "f16", "BF16": "bf16"}
"""Types of stored tensors whose elements are numbers of their own, and what a graph calls these."""


_DERIVED = (".attn_rot_embd.weight", ".rotary_emb.inv_freq")
"""Frequencies of rotary embeddings, in old files."""


class Stored(Protocol):
    """A tensor of a file: see `anyshape.llm.gguf.StoredTensor`."""

    @property
    def name(self) -> str: ...
    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def type(self) -> str: ...
    @property
    def data(self) -> Array: ...
    def dequantized(self) -> Array: ...


@dataclass(frozen=True, eq=False)
class Form:
    """A weight of the program: tensors of the file one after another along their first axis.

    Args:
        name: the weight's name in the program.
        parts: the tensors, each with the order of its rows (None: as stored).
        is_vector: whether it is used elementwise, in f32 whatever it is stored as.
    """

    name: str
    parts: tuple[tuple[Stored, Array | None], ...]
    is_vector: bool = False

    @property
    def stored_type(self) -> str:
        return self.parts[0][0].type

    @property
    def shape(self) -> tuple[int, ...]:
        rows = sum(tensor.shape[0] for tensor, _ in self.parts)
        return (rows, *self.parts[0][0].shape[1:])

    @property
    def format(self) -> str | None:
        """The block format of a matrix that is kept as it is stored, u8 [rows, bytes of a row]; None for plain numbers."""
        return None if self.is_vector or self.stored_type in PLAIN else self.stored_type.lower()

    @property
    def type(self) -> ArrayType:
        if self.format is not None:
            return ArrayType(np.dtype(np.uint8), (self.shape[0], self.parts[0][0].data.shape[1]))
        return ArrayType(numpy_type("f32" if self.is_vector else PLAIN[self.stored_type]), self.shape)

    def array(self) -> Array:
        """The values; a view of the file where they lie there as the program takes them, else a copy, for which the file's pages are
        given back: joined tensors are most of a model."""
        arrays = [self._part(tensor, order) for tensor, order in self.parts]
        if len(arrays) == 1 and self.parts[0][1] is None:
            return arrays[0]
        copy = np.concatenate(arrays) if len(arrays) > 1 else arrays[0]
        for tensor, _ in self.parts:  # only now: parts in their own order were views until they were joined
            drop_pages(tensor.data)
        return copy

    def _part(self, tensor: Stored, order: Array | None) -> Array:
        if self.is_vector:
            values = tensor.dequantized()
        elif self.format is not None:
            values = tensor.data
        else:
            values = tensor.data.view(numpy_type(PLAIN[tensor.type])).reshape(tensor.shape)
        return values if order is None else values[order]


@dataclass(frozen=True)
class Projection:
    """A product that gives several results at once: the name of its weight and the widths of the results."""

    name: str
    widths: tuple[int, ...]


class WeightForms:
    """The weights of one model, by name.

    Args:
        tensors: the tensors of the file.
        source: the file, for errors.

    A family declares what it has with `add_vector`, `add_matrix`, `join`; the graph then asks for it.
    """

    def __init__(self, tensors: Mapping[str, Stored], source: str) -> None:
        self._tensors, self._source = tensors, source
        self._forms: dict[str, Form] = {}
        self._read: set[str] = set()
        self._attention: list[list[Projection]] = []
        self._feed_forward: list[list[Projection]] = []

    def __iter__(self) -> Iterator[Form]:
        return iter(self._forms.values())

    def __getitem__(self, name: str) -> Form:
        return self._forms[name]

    def __contains__(self, name: str) -> bool:
        return name in self._forms

    def types(self) -> dict[str, ArrayType]:
        """The types of all weights, by name."""
        return {form.name: form.type for form in self}

    def multiplied_formats(self) -> set[str]:
        """The block formats of the matrices that something is multiplied by: all, but embeddings beside an output matrix."""
        looked_up = "token_embd.weight" if "output.weight" in self else None
        return {form.format for form in self if form.format is not None and form.name != looked_up}

    def text(self) -> str:
        """Names, shapes and stored types of all weights, as JSON: with the configuration, what the graph depends on."""
        forms = [[form.name, list(form.shape), form.stored_type, form.is_vector] for form in self]
        return json.dumps(
            [forms, [[[p.name, *p.widths] for p in each] for each in (*self._attention, *self._feed_forward)]]
        )

    # -- declaring --------------------------------------------------------------------------------------------------

    def has(self, name: str) -> bool:
        """Whether the file has a tensor of that name."""
        return name in self._tensors

    def rows(self, name: str) -> int:
        """Rows of a matrix. Raises FileFormatError where it is missing or is no matrix."""
        tensor = self._tensors.get(name)
        if tensor is None or len(tensor.shape) != 2:
            raise FileFormatError(
                f"the model has no matrix {name}", where=self._source, got=None if tensor is None else list(tensor.shape),
                remedy="get the file again, or convert the model again",
            )  # fmt: skip
        return tensor.shape[0]

    def values(self, name: str, size: int) -> Array | None:
        """The values of a vector that shapes the graph itself; None where the file has none of that name."""
        self._read.add(name)
        return self._tensor(name, (size,)).dequantized() if name in self._tensors else None

    def add_vector(self, name: str, size: int) -> None:
        """A tensor that is used elementwise. Raises FileFormatError where it is missing or has another shape."""
        self._forms[name] = Form(name, ((self._tensor(name, (size,)), None),), is_vector=True)

    def add_matrix(self, name: str, rows: int, columns: int) -> None:
        """The matrix `name.weight` of a product, and its bias where the file has one."""
        self.join([(name, rows, None)], columns)

    def join(self, parts: Sequence[tuple[str, int, Array | None]], columns: int) -> list[Projection]:
        """Matrices (name, rows, order of rows) of the same factor, with biases where the file has them: those stored as one type
        become one product."""
        projections: list[Projection] = []
        run: list[tuple[Stored, Array | None]] = []
        for name, rows, order in parts:
            tensor = self._tensor(f"{name}.weight", (rows, columns))
            if run and run[-1][0].type != tensor.type:
                projections.append(self._add_run(run))
                run = []
            run.append((tensor, order))
        return [*projections, self._add_run(run)]

    def add_attention(self, projections: Sequence[Projection]) -> None:
        """How the next layer computes q, k and v."""
        self._attention.append(list(projections))

    def add_feed_forward(self, projections: Sequence[Projection]) -> None:
        """How the next layer computes gate and up."""
        self._feed_forward.append(list(projections))

    def unused(self) -> list[str]:
        """The tensors of the file that nothing declared uses, without what older converters stored although it follows from the base."""
        used = {tensor.name for form in self for tensor, _ in form.parts} | self._read
        return [name for name in self._tensors if name not in used and not name.endswith(_DERIVED)]

    def _add_run(self, run: Sequence[tuple[Stored, Array | None]]) -> Projection:
        names = [tensor.name.removesuffix(".weight") for tensor, _ in run]
        name = "+".join([names[0], *(each.rsplit(".", 1)[-1] for each in names[1:])])
        self._forms[f"{name}.weight"] = Form(f"{name}.weight", tuple(run))
        if self.has(f"{names[0]}.bias"):
            parts = [
                (self._tensor(f"{each}.bias", (t.shape[0],)), order)
                for each, (t, order) in zip(names, run, strict=True)
            ]
            self._forms[f"{name}.bias"] = Form(f"{name}.bias", tuple(parts), is_vector=True)
        return Projection(name, tuple(tensor.shape[0] for tensor, _ in run))

    def _tensor(self, name: str, shape: tuple[int, ...]) -> Stored:
        tensor = self._tensors.get(name)
        if tensor is None:
            raise FileFormatError(
                "the model lacks a tensor", where=self._source, expected=f"{name} of sizes {list(shape)}",
                remedy="get the file again, or convert the model again",
            )  # fmt: skip
        if tensor.shape != shape:
            raise FileFormatError(
                f"the tensor {name} has other sizes than the model's description says",
                where=self._source, got=list(tensor.shape), expected=list(shape),
                remedy="get the file again, or convert the model again",
            )  # fmt: skip
        return tensor

    # -- declared ---------------------------------------------------------------------------------------------------

    def attention(self, layer: int) -> Sequence[Projection]:
        """How a layer computes q, k and v."""
        return self._attention[layer]

    def feed_forward(self, layer: int) -> Sequence[Projection]:
        """How a layer computes gate and up."""
        return self._feed_forward[layer]


__all__ = ["Form", "Projection", "Stored", "WeightForms"]
