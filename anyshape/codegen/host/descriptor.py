"""The descriptor of a compiled program: the constant `anyshape_program` of type `ral_program` (runtime/ral.h)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from anyshape.codegen.builder import Builder
from anyshape.codegen.mlir import ModuleBuilder, Type, Value, ir, llvm
from anyshape.codegen.symbols import DESCRIPTOR
from anyshape.runtime.abi import ABI, CONSTANT_ALIGNMENT
from anyshape.support.errors import CodegenError


@dataclass(frozen=True)
class ArgumentEntry:
    """A `ral_argument`: `dtype` is a code of `enum ral_dtype`."""

    name: str
    dtype: int
    rank: int


@dataclass(frozen=True)
class ProgramEntry:
    """The fields of a `ral_program`; `constants` are (bytes, offset in the constants file)."""

    inputs: Sequence[ArgumentEntry]
    outputs: Sequence[ArgumentEntry]
    constants: Sequence[tuple[int, int]]
    sites: Sequence[str]


def emit_descriptor(
    module: ModuleBuilder, entry: ProgramEntry, main: str, arguments: Sequence[Type], result: Type
) -> None:
    """Defines the descriptor and its tables.

    Args:
        main: the symbol of the host function.
        arguments: the types of its arguments.
        result: the type of its result.

    Raises:
        CodegenError: a constant's offset is not aligned.
    """
    for index, (size, offset) in enumerate(entry.constants):
        if size < 0 or offset < 0 or offset % CONSTANT_ALIGNMENT:
            raise CodegenError(
                "a constant does not lie where the runtime can map it",
                where=f"constant {index}",
                got=f"{size} bytes at offset {offset}",
                expected=f"an offset that is a multiple of {CONSTANT_ALIGNMENT}",
            )
    tables = _Tables(module)
    b = tables.b
    inputs = tables.arguments(f"{DESCRIPTOR}.inputs", entry.inputs)
    outputs = tables.arguments(f"{DESCRIPTOR}.outputs", entry.outputs)
    constants = tables.constants(f"{DESCRIPTOR}.constants", entry.constants)
    sites = tables.texts(f"{DESCRIPTOR}.sites", entry.sites)
    numbers = (ABI, len(entry.inputs), len(entry.outputs), len(entry.constants))
    type_ = _struct(*[b.i32] * 4, *[b.ptr] * 4, b.i32, b.ptr)

    def fields() -> list[Value]:
        return [
            *(b.const(b.i32, number) for number in numbers),
            tables.address(inputs),
            tables.address(outputs),
            tables.address(constants),
            b.function_address(main, arguments, [result]),
            b.const(b.i32, len(entry.sites)),
            tables.address(sites),
        ]

    tables.define(DESCRIPTOR, type_, lambda: _aggregate(type_, fields()), linkage="external")


class _Tables:
    """Constant arrays of structs as globals of a module; an empty one is a null pointer."""

    def __init__(self, module: ModuleBuilder) -> None:
        self._module = module
        self.b = Builder()

    def arguments(self, symbol: str, entries: Sequence[ArgumentEntry]) -> str | None:
        b = self.b
        names = [self._module.constant_string(entry.name) for entry in entries]

        def rows() -> Iterator[list[Value]]:
            for name, entry in zip(names, entries, strict=True):
                yield [b.address_of(name), b.const(b.i32, entry.dtype), b.const(b.i32, entry.rank)]

        return self._array(symbol, _struct(b.ptr, b.i32, b.i32), len(entries), rows)

    def constants(self, symbol: str, entries: Sequence[tuple[int, int]]) -> str | None:
        b = self.b

        def rows() -> Iterator[list[Value]]:
            for size, offset in entries:
                yield [b.const(b.i64, size), b.const(b.i64, offset)]

        return self._array(symbol, _struct(b.i64, b.i64), len(entries), rows)

    def texts(self, symbol: str, texts: Sequence[str]) -> str | None:
        names = [self._module.constant_string(text) for text in texts]
        return self._array(
            symbol, _struct(self.b.ptr), len(texts), lambda: ([self.b.address_of(name)] for name in names)
        )

    def address(self, symbol: str | None) -> Value:
        return llvm.mlir_zero(self.b.ptr) if symbol is None else self.b.address_of(symbol)

    def _array(self, symbol: str, row: Type, count: int, rows: Callable[[], Iterator[list[Value]]]) -> str | None:
        if not count:
            return None
        type_ = ir.Type.parse(f"!llvm.array<{count} x {row}>")
        self.define(symbol, type_, lambda: _aggregate(type_, [_aggregate(row, fields) for fields in rows()]))
        return symbol

    def define(self, symbol: str, type_: Type, initialiser: Callable[[], Value], *, linkage: str = "private") -> None:
        """A constant whose value `initialiser` builds in the global's own region."""
        with ir.InsertionPoint(self._module.module.body):
            operation = llvm.mlir_global(
                ir.TypeAttr.get(type_),
                symbol,
                ir.Attribute.parse(f"#llvm.linkage<{linkage}>"),
                constant=True,
                alignment=8,
            )
        with ir.InsertionPoint(operation.initializer.blocks.append()):
            llvm.return_(arg=initialiser())


def _struct(*fields: Type) -> Type:
    return llvm.StructType.get_literal(list(fields))


def _aggregate(type_: Type, fields: Sequence[Value]) -> Value:
    value = llvm.mlir_poison(type_)
    for position, field in enumerate(fields):
        value = llvm.insertvalue(value, field, [position])
    return value
