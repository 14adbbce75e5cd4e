"""`Body`: the statements of a kernel while they are emitted, with names, sizes, masks and memory accesses."""

from __future__ import annotations

import ast
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from xdsl.dialects.builtin import IndexType
from xdsl.ir import Attribute, SSAValue

from anyshape.dialects.tile import buffer_of
from anyshape.symbolic import Size
from anyshape.targets.triton.arithmetic import cast, dtype
from anyshape.targets.triton.sizes import size_expression
from anyshape.targets.triton.syntax import assign, binary, call, conjunction, name, number, statement, tuple_of

Axes = frozenset[int]
UNIFORM: Axes = frozenset()


@dataclass(frozen=True)
class Value:
    """A variable of the kernel; `axes` are the block's axes along which it varies, the others have extent 1 or are absent."""

    name: str
    axes: Axes


@dataclass(frozen=True)
class BlockAxis:
    """An axis of the block that a program works on: the constexpr with its extent, and the mask of points inside."""

    block: str
    mask: str


@dataclass
class Body:
    """Statements, and what they have named so far.

    Attributes:
        pointers: the variable with the pointer to a buffer's first element.
        axes: those of the block open at the current point: none, a row's lanes, or a tile's rows and columns.
    """

    pointers: dict[SSAValue, str]
    statements: list[ast.stmt] = field(default_factory=list[ast.stmt])
    values: dict[SSAValue, Value] = field(default_factory=dict[SSAValue, Value])
    axes: tuple[BlockAxis, ...] = ()
    _counts: dict[str, int] = field(default_factory=dict[str, int])
    _sizes: dict[Size, str] = field(default_factory=dict[Size, str])
    _prologue: list[ast.stmt] = field(default_factory=list[ast.stmt])

    # ---- names ---------------------------------------------------------------------------------------------------

    def fresh(self, prefix: str) -> str:
        count = self._counts.get(prefix, 0)
        self._counts[prefix] = count + 1
        return f"{prefix}{count}"

    def define(self, prefix: str, value: ast.expr) -> str:
        """A fresh variable with this value."""
        variable = self.fresh(prefix)
        self.statements.append(assign(variable, value))
        return variable

    def bind(self, value: SSAValue, expression: ast.expr, axes: Axes, prefix: str = "v") -> Value:
        """Give a value of the plan a variable."""
        self.values[value] = Value(self.define(prefix, expression), axes)
        return self.values[value]

    def name_of(self, value: SSAValue) -> ast.expr:
        return name(self.values[value].name)

    def axes_of(self, values: Sequence[SSAValue]) -> Axes:
        return UNIFORM.union(*(self.values[value].axes for value in values))

    def add(self, value: ast.expr) -> None:
        self.statements.append(statement(value))

    @contextmanager
    def nested(self) -> Generator[list[ast.stmt]]:
        """Statements emitted inside go to the list, which is the body of a loop."""
        outer, self.statements = self.statements, []
        yield self.statements
        self.statements = outer

    # ---- sizes ---------------------------------------------------------------------------------------------------

    def size(self, size: Size) -> ast.expr:
        """A size: a literal, a parameter, or a variable computed once at the kernel's top."""
        if size.is_constant:
            return number(size.value)
        if size not in self._sizes:
            expression = size_expression(size)
            if isinstance(expression, ast.Name):
                self._sizes[size] = expression.id
            else:
                self._sizes[size] = self.fresh("size")
                self._prologue.append(assign(self._sizes[size], expression))
        return name(self._sizes[size])

    @property
    def finished(self) -> list[ast.stmt]:
        return [*self._prologue, *self.statements]

    def program(self) -> ast.expr:
        """The program's number in the grid, as an i64: points times strides may pass 32 bits."""
        return name(self.define("program", cast(call("tl.program_id", number(0)), IndexType())))

    def indices_of(self, linear: ast.expr, extents: Sequence[Size]) -> list[str]:
        """Variables with the index on each axis of a box, given the number of a point in row-major order."""
        indices: list[str] = []
        for size in reversed(extents[1:]):
            indices.insert(0, self.define("i", binary("%", linear, self.size(size))))
            linear = name(self.define("rest", binary("//", linear, self.size(size))))
        return [self.define("i", linear), *indices] if extents else []

    # ---- blocks --------------------------------------------------------------------------------------------------

    @property
    def all_axes(self) -> Axes:
        return frozenset(range(len(self.axes)))

    def shape(self, axes: Axes) -> ast.expr:
        """The shape of a value that varies along these axes; `()` of a uniform one."""
        extents = [name(axis.block) if place in axes else number(1) for place, axis in enumerate(self.axes)]
        return tuple_of(*extents) if axes else tuple_of()

    def mask(self, axes: Axes) -> list[ast.expr]:
        return [name(axis.mask) for place, axis in enumerate(self.axes) if place in axes]

    def filled(self, value: ast.expr, type: Attribute, axes: Axes) -> ast.expr:
        return call("tl.full", self.shape(axes), value, dtype(type))

    # ---- memory --------------------------------------------------------------------------------------------------

    def offset(self, strides: Sequence[Size], indices: Sequence[ast.expr]) -> ast.expr:
        """Σ index · stride, in a block that varies along every index's axes, stride 0 included."""
        terms = [
            index if stride == Size.const(1) else binary("*", index, self.size(stride))
            for index, stride in zip(indices, strides, strict=True)
        ]
        total = terms[0] if terms else number(0)
        for term in terms[1:]:
            total = binary("+", total, term)
        return total

    def _strided(self, buffer: SSAValue, indices: Sequence[SSAValue]) -> list[tuple[Size, SSAValue]]:
        """The indices that matter, with their strides."""
        pairs = zip(buffer_of(buffer).strides.data, indices, strict=True)
        return [(stride, index) for stride, index in pairs if stride != Size.const(0)]

    def address(self, buffer: SSAValue, indices: Sequence[SSAValue], axes: Axes) -> ast.expr:
        """Pointers to elements, in a block that varies along `axes` even where the indices that matter do not."""
        strided = self._strided(buffer, indices)
        offset = self.offset([stride for stride, _ in strided], [self.name_of(index) for _, index in strided])
        if self.axes_of([index for _, index in strided]) != axes:
            offset = binary("+", self.filled(number(0), IndexType(), axes), offset)
        return binary("+", name(self.pointers[buffer]), offset)

    def load(self, buffer: SSAValue, indices: Sequence[SSAValue], guard: SSAValue | None) -> tuple[ast.expr, Axes]:
        """Elements, zero where the guard is false or the point is outside the block's masks; nothing is read there."""
        guards = [] if guard is None else [guard]
        axes = self.axes_of([*(index for _, index in self._strided(buffer, indices)), *guards])
        conditions = [*self.mask(axes), *(self.name_of(each) for each in guards)]
        address = self.address(buffer, indices, axes)
        if not conditions:
            return call("tl.load", address), axes
        return call("tl.load", address, mask=conjunction(conditions), other=number(0)), axes

    def store(self, value: SSAValue, buffer: SSAValue, indices: Sequence[SSAValue]) -> None:
        """Write elements at the points inside the masks of every open axis."""
        address = self.address(buffer, indices, self.all_axes)
        conditions = self.mask(self.all_axes)
        if conditions:
            self.add(call("tl.store", address, self.name_of(value), mask=conjunction(conditions)))
        else:
            self.add(call("tl.store", address, self.name_of(value)))


__all__ = ["UNIFORM", "Axes", "BlockAxis", "Body", "Value"]
