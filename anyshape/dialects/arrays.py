"""The arrays of a program, which live outside its text: types, a store by name, and the entries of the constant table."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

import numpy as np

from anyshape.dialects.element_types import element_name
from anyshape.dialects.packed_blocks import PackedBlocks
from anyshape.dialects.packed_panels import PackedOperand
from anyshape.support.errors import ArgumentError

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]
_NAME_DIGITS = 32


def content_name(dense: Array) -> str:
    """A digest of dtype, shape and elements of a dense array."""
    # SHA-256 is the fastest safe digest of large arrays: processors have instructions for it.
    digest = hashlib.sha256(f"{element_name(dense.dtype)}{dense.shape}".encode())
    digest.update(dense.reshape(-1).view(np.uint8).data if dense.size else b"")
    return digest.hexdigest()[:_NAME_DIGITS]


@dataclass(frozen=True)
class ArrayType:
    """What is known of an array before its values are."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]

    @classmethod
    def of(cls, array: Array) -> ArrayType:
        return cls(array.dtype, array.shape)

    @property
    def nbytes(self) -> int:
        return math.prod(self.shape) * self.dtype.itemsize


class Recipe(Protocol):
    """How an array is computed from others of the store, which `operands` names."""

    @property
    def operands(self) -> tuple[str, ...]: ...

    @property
    def type(self) -> ArrayType: ...

    def compute(self, *arrays: Array) -> Array: ...


class ConstantStore(Mapping[str, Array]):
    """The arrays that `dhlo.weight` ops name.

    Constants are named by content: dtype, shape and bytes decide the name, so equal ones are one entry. As a mapping the store
    holds these. *Live* arrays belong to somebody else, who may write to them at any time: they are named by identity and the store
    knows their types only, so that no pass can look at their values. What is derived from live arrays is kept as a recipe, and
    is live too.
    """

    def __init__(self) -> None:
        self._arrays: dict[str, Array] = {}
        self._live: dict[str, ArrayType] = {}
        self._recipes: dict[str, Recipe] = {}
        self._uncopied: set[str] = set()

    def add(self, array: Array) -> str:
        """Keep a dense read-only view of `array` and return its name."""
        dense = np.ascontiguousarray(array).reshape(np.shape(array))
        name = content_name(dense)
        self.put(name, dense)
        return name

    def put(self, name: str, dense: Array) -> None:
        """Keep a read-only view of a dense array under its `content_name`, which was found before."""
        if name not in self._arrays:
            view = dense.view()
            view.flags.writeable = False
            self._arrays[name] = view

    def add_live(self, name: str, array: Array | ArrayType) -> str:
        """Note a live array by a name that is its owner's; returns its name in the store. Of `array`, only the type is used.

        Raises:
            ArgumentError: the name stands for an array of another type already.
        """
        live, type = f"live:{name}", array if isinstance(array, ArrayType) else ArrayType.of(array)
        if self._live.setdefault(live, type) != type:
            raise ArgumentError(
                "a live array has one type", where=name, got=type, expected=self._live[live],
                remedy="use another name for another array",
            )  # fmt: skip
        return live

    def derive(self, name: str, recipe: Recipe) -> str:
        """Note an array that is computed from live ones; `name` says how. Returns its name in the store."""
        derived = f"derived:{name}"
        self._recipes[derived] = recipe
        return derived

    @property
    def live(self) -> Mapping[str, ArrayType]:
        """The live arrays that were added, in order."""
        return self._live

    def is_live(self, name: str) -> bool:
        """Whether an array is live or derived from live ones."""
        return name in self._live or name in self._recipes

    def type_of(self, name: str) -> ArrayType:
        """Dtype and shape of any array of the store. Raises KeyError."""
        if name in self._live:
            return self._live[name]
        return self._recipes[name].type if name in self._recipes else ArrayType.of(self._arrays[name])

    def sources_of(self, name: str) -> frozenset[str]:
        """The live arrays that an array is, or is computed from; none for a constant."""
        if name in self._recipes:
            return frozenset[str]().union(*map(self.sources_of, self._recipes[name].operands))
        return frozenset({name} & self._live.keys())

    def value_of(self, name: str, read: Callable[[str], Array]) -> Array:
        """The values of any array of the store, given how live ones are read."""
        if name in self._recipes:
            recipe = self._recipes[name]
            return recipe.compute(*(self.value_of(operand, read) for operand in recipe.operands))
        return read(name) if name in self._live else self._arrays[name]

    def with_values(self, live: Mapping[str, Array]) -> ConstantStore:
        """A store in which all arrays are constants, live ones with these values: what the interpreter can run on."""
        store = ConstantStore()
        for name in (*self._arrays, *self._live, *self._recipes):
            value = self.value_of(name, live.__getitem__)
            store.put(name, np.ascontiguousarray(value).reshape(value.shape))
        return store

    def forbid_copies(self, names: Iterable[str]) -> None:
        """These live arrays are read where they are: nothing is derived from them and they are not packed."""
        self._uncopied.update(names)

    def may_copy(self, name: str) -> bool:
        """Whether other forms of an array may be kept."""
        return self.sources_of(name).isdisjoint(self._uncopied)

    def __getitem__(self, name: str) -> Array:
        return self._arrays[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._arrays)

    def __len__(self) -> int:
        return len(self._arrays)


@dataclass(frozen=True)
class ConstantEntry:
    """An entry of the constant table: a weight as it is, or packed."""

    weight: str
    packed: PackedOperand | PackedBlocks | None = None

    @property
    def name(self) -> str:
        if self.packed is None:
            return self.weight
        p = self.packed
        if isinstance(p, PackedBlocks):
            return f"{self.weight}:blocks[{p.k},{p.n},{p.format}]"
        return f"{self.weight}:panels[{p.k},{p.n},{p.k_stride},{p.n_stride},{p.factors}]"
