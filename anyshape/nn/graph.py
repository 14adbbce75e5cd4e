"""A graph under construction: inputs, weights, conditions on sizes, and the function that they end in."""

from __future__ import annotations

import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from xdsl.builder import Builder
from xdsl.dialects.builtin import FileLineColLoc, IntAttr, LocationAttr, ModuleOp, NameLoc, StringAttr
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Region, SSAValue
from xdsl.rewriter import InsertPoint
from xdsl.utils.exceptions import VerifyException

from anyshape.dialects.dhlo import Array, ArrayType, Constant, ConstantStore, DhloOp, Weight
from anyshape.dialects.dhlo.attributes import AttributeValue
from anyshape.dialects.dhlo.base import function_type
from anyshape.dialects.dhlo.graph import set_facts, set_updates
from anyshape.dialects.dtypes import BY_NAME, F32, U8, DType, dtype_of_numpy
from anyshape.dialects.sizes import tensor
from anyshape.nn.tensor import Tensor
from anyshape.support.errors import ArgumentError
from anyshape.symbolic import Facts, Relation, Size, SizeLike

_PACKAGE = str(Path(__file__).parent)


@dataclass(frozen=True)
class FinishedGraph:
    """A graph that can be compiled.

    Attributes:
        module: `@main`, a function of `dhlo` ops.
        names: its arguments, as errors call them.
        store: the arrays that its weights name.
        sizes: (position among the arguments, symbol) of arguments that only bring a size.
    """

    module: ModuleOp
    names: tuple[str, ...]
    store: ConstantStore
    sizes: tuple[tuple[int, str], ...] = ()


class Graph:
    """Builds the graph of one program, op by op.

    Attributes:
        facts: what is known of sizes; `require` adds to it.
        store: the arrays that weights name.
    """

    def __init__(self) -> None:
        self.facts = Facts()
        self.store = ConstantStore()
        self._block = Block()
        self._builder = Builder(InsertPoint.at_end(self._block))
        self._names: list[str] = []
        self._sizes: list[tuple[int, str]] = []
        self._weights: dict[str, Tensor] = {}
        self._scope: tuple[str, ...] = ()
        self._place: LocationAttr | None = None
        self._locations: dict[tuple[tuple[str, ...], str, int], LocationAttr] = {}

    # -- what comes from outside ------------------------------------------------------------------------------------

    def sizes(self, *names: str) -> tuple[Size, ...]:
        """Size symbols, which are at least 0. Each must be a whole axis of some input, or a `size_input`."""
        for name in names:
            self.facts.declare(name, lo=0)
        return tuple(map(Size.symbol, names))

    def input(self, name: str, sizes: Sequence[SizeLike], dtype: str | DType = F32) -> Tensor:
        """An argument of the program with these sizes; errors call it by its name."""
        if name in self._names:
            raise ArgumentError(
                "an input has this name already", where=name, remedy="give each input a name of its own"
            )
        self._names.append(name)
        type = tensor(_dtype(dtype), [Size.of(size) for size in sizes])
        return Tensor(self, self._block.insert_arg(type, len(self._block.args)))

    def size_input(self, name: str) -> Size:
        """A size symbol that the caller gives as a number: no input has an axis of this size."""
        (size,) = self.sizes(name)
        self._sizes.append((len(self._names), name))
        self.input(name, (size,), U8)
        return size

    def array(self, array: Array) -> Tensor:
        """A constant array."""
        return self._stored(self.store.add(array))

    def weight(self, name: str, type: ArrayType) -> Tensor:
        """An array that the program is compiled without, and bound to by its name when it is loaded.

        Raises:
            ArgumentError: the name stands for an array of another type.
        """
        return self._stored(self.store.add_live(name, type))

    def _stored(self, name: str) -> Tensor:
        if name not in self._weights:
            type = self.store.type_of(name)
            self._weights[name] = self.emit(Weight, name=name, dtype=dtype_of_numpy(type.dtype), sizes=type.shape)
        return self._weights[name]

    def constant(self, value: float | int | bool, sizes: Sequence[SizeLike] = (), dtype: str | DType = F32) -> Tensor:
        """`value` at every point of a tensor of these sizes."""
        return self.emit(Constant, value=value, dtype=_dtype(dtype), sizes=tuple(map(Size.of, sizes)))

    def require(self, relation: Relation) -> None:
        """The program is defined only where `relation` holds: a fact while compiling, checked by every call."""
        if self.facts.prove(relation) is not True:
            self.facts.assume(relation)

    # -- building ---------------------------------------------------------------------------------------------------

    @contextmanager
    def scope(self, name: str) -> Generator[None]:
        """Ops built inside are located under this name: `with g.scope("layer 3"): …`."""
        before = self._scope
        self._scope = (*before, name)
        try:
            yield
        finally:
            self._scope = before

    @contextmanager
    def located(self, place: LocationAttr) -> Generator[None]:
        """Ops built inside are located there, and not at the line of the program that builds them."""
        before, self._place = self._place, place
        try:
            yield
        finally:
            self._place = before

    def emit(self, kind: type[DhloOp], /, *operands: Tensor | SSAValue, **attributes: AttributeValue) -> Tensor:
        """A new op of one result.

        Raises:
            ArgumentError: the op does not take these operands or attributes.
        """
        values = [each.value if isinstance(each, Tensor) else each for each in operands]
        try:
            op = kind.build_from(*values, location=self._location(), **attributes)
        except VerifyException as error:
            where = " › ".join(self._scope) or None
            raise ArgumentError(f"{kind.name} cannot be built: {error}", where=where) from error
        self._builder.insert(op)
        return Tensor(self, op.result)

    def finish(self, *results: Tensor, updates: Sequence[tuple[Tensor, Tensor]] = ()) -> FinishedGraph:
        """The function that returns these tensors. Nothing may be built afterwards.

        Args:
            updates: (tensor made by `update`, input): the tensor is written into the caller's own memory of the input, and is not
                among the results. Nothing may read the input behind the update.
        """
        values = [result.value for result in (*results, *(updated for updated, _ in updates))]
        self._block.add_op(ReturnOp(*values))
        type = function_type([argument.type for argument in self._block.args], [value.type for value in values])
        function = FuncOp("main", type, Region(self._block))
        set_facts(function, self.facts)
        inputs = [self._block.args.index(argument.value) for _, argument in updates]  # pyright: ignore[reportArgumentType]
        set_updates(function, list(enumerate(inputs, len(results))))
        return FinishedGraph(ModuleOp([function]), tuple(self._names), self.store, tuple(self._sizes))

    def _location(self) -> LocationAttr:
        """The scope over the line of the caller's program, unless a place was stated."""
        if self._place is not None:
            return self._place
        frame: Any = sys._getframe(2)  # pyright: ignore[reportPrivateUsage]
        while frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGE):
            frame = frame.f_back
        place = self._scope, frame.f_code.co_filename, frame.f_lineno
        if place not in self._locations:
            self._locations[place] = _location_of(*place)
        return self._locations[place]


def _location_of(scope: tuple[str, ...], file: str, line: int) -> LocationAttr:
    place = FileLineColLoc(StringAttr(file), IntAttr(line), IntAttr(0))
    return NameLoc(StringAttr("/".join(scope)), place) if scope else place


def _dtype(dtype: str | DType) -> DType:
    if isinstance(dtype, DType):
        return dtype
    if dtype not in BY_NAME:
        raise ArgumentError("there is no such dtype", got=repr(dtype), expected=", ".join(BY_NAME))
    return BY_NAME[dtype]


__all__ = ["FinishedGraph", "Graph"]
