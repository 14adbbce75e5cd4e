"""Constants: one scalar everywhere in the text, arrays by content hash in a store beside it."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, Self

import numpy as np
from xdsl.builder import Builder
from xdsl.ir import SSAValue
from xdsl.utils.exceptions import VerifyException

from anyshape.dialects.dhlo.base import REQUIRED, Array, AttributeValue, DhloOp, Environment, Points, Sample
from anyshape.dialects.dhlo.laws import Simplified, law
from anyshape.dialects.dtypes import BY_NAME, I64, DType, dtype_of_numpy, dtype_of_type
from anyshape.dialects.sizes import Tensor, tensor
from anyshape.support.errors import ArgumentError
from anyshape.symbolic import Facts, Size

_NAME_DIGITS = 32


def content_name(dense: Array) -> str:
    """A digest of dtype, shape and elements of a dense array."""
    # SHA-256 is the fastest safe digest of large arrays: processors have instructions for it.
    digest = hashlib.sha256(f"{dtype_of_numpy(dense.dtype)}{dense.shape}".encode())
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


class Constant(DhloOp, op="constant"):
    """result[i…] = value: one scalar `value` at every point of a tensor with these `sizes`."""

    DEFAULTS: ClassVar = {"value": REQUIRED, "dtype": REQUIRED, "sizes": ()}
    SIZE_ATTRIBUTES = ("sizes",)
    SAMPLES = (Sample((), {"value": 2.5, "dtype": BY_NAME["f32"], "sizes": (Size.symbol("m"), 3)}),)

    @classmethod
    def infer(cls, operands: Sequence[Tensor], attributes: Mapping[str, Any]) -> Sequence[Tensor]:
        if operands:
            raise VerifyException("dhlo.constant takes no operands")
        return [tensor(attributes["dtype"], attributes["sizes"])]

    @classmethod
    def canonical(cls, attributes: Mapping[str, AttributeValue]) -> Mapping[str, AttributeValue]:
        """`value` is stored as a float for float dtypes and as an integer for the others."""
        value, dtype = attributes["value"], attributes["dtype"]
        if isinstance(value, int | float):
            element = dtype if isinstance(dtype, DType) else dtype_of_type(dtype)  # pyright: ignore[reportArgumentType]
            value = float(value) if element.is_float else int(value)
        return super().canonical({**attributes, "value": value})

    def reference(self, *operands: Array, env: Environment) -> Sequence[Array]:
        sizes = [size.evaluate(env) for size in self.result_sizes]
        return [np.full(sizes, self.attribute("value"), self.result_dtype.numpy)]

    def element(self, points: Points, at: Sequence[SSAValue]) -> SSAValue:
        return points.scalars.constant(self.attribute("value"), self.result_dtype.scalar)


class Weight(DhloOp, op="weight"):
    """result = the array called `name` in the program's `ConstantStore`, of this dtype and these static `sizes`."""

    DEFAULTS: ClassVar = {"name": REQUIRED, "dtype": REQUIRED, "sizes": REQUIRED}
    SIZE_ATTRIBUTES = ("sizes",)
    PLANNED = True
    SAMPLES = (Sample((), {"name": "example", "dtype": BY_NAME["f32"], "sizes": (2, 3)}),)

    @classmethod
    def infer(cls, operands: Sequence[Tensor], attributes: Mapping[str, Any]) -> Sequence[Tensor]:
        if operands:
            raise VerifyException("dhlo.weight takes no operands")
        if not all(size.is_constant for size in attributes["sizes"]):
            raise VerifyException("dhlo.weight must have static sizes")
        return [tensor(attributes["dtype"], attributes["sizes"])]

    @classmethod
    def of_array(cls, array: Array, store: ConstantStore) -> Self:
        """Put `array` in the store and refer to it."""
        return cls.of(name=store.add(array), dtype=dtype_of_numpy(array.dtype), sizes=tuple(array.shape))

    def reference(self, *operands: Array, env: Environment) -> Sequence[Array]:
        raise VerifyException("a weight's value is read from the store by the interpreter")


class SizeOf(DhloOp, op="size"):
    """result = the value of the size expression `size`, an i64 of rank 0."""

    DEFAULTS: ClassVar = {"size": REQUIRED}
    SIZE_ATTRIBUTES = ("size",)
    SAMPLES = (Sample((), {"size": 2 * Size.symbol("m") + 1}),)

    @classmethod
    def infer(cls, operands: Sequence[Tensor], attributes: Mapping[str, Any]) -> Sequence[Tensor]:
        if operands or len(attributes["size"]) != 1:
            raise VerifyException("dhlo.size takes one size expression and no operands")
        return [tensor(I64, ())]

    @property
    def size(self) -> Size:
        (only,) = self.size_list("size")
        return only

    def reference(self, *operands: Array, env: Environment) -> Sequence[Array]:
        return [np.array(self.size.evaluate(env), np.int64)]

    def element(self, points: Points, at: Sequence[SSAValue]) -> SSAValue:
        return points.scalars.from_index(points.size(self.size), I64.scalar)

    @law("size of a constant -> constant", example=lambda g: g(SizeOf, size=7))
    def fold(self, builder: Builder, facts: Facts) -> Simplified:
        size = facts.simplify(self.size)
        return Constant.emit(builder, value=size.value, dtype=I64) if size.is_constant else None


def constant_value(value: SSAValue) -> float | int | None:
    """The scalar that every element of `value` is, where a `Constant` (also behind a broadcast) says so."""
    op = value.owner
    while isinstance(op, DhloOp) and op.name == "dhlo.broadcast_in_dim":
        op = op.operands[0].owner
    return op.attribute("value") if isinstance(op, Constant) else None
