"""What the bodies of kernels that call a driver have in common: sizes and buffers as values, and the slots of the driver's task record."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum

from xdsl.ir import BlockArgument, SSAValue

from anyshape.codegen.builder import Builder
from anyshape.codegen.mlir import Type, Value
from anyshape.codegen.sizes import emit_size
from anyshape.symbolic import Size


def symbols_of(b: Builder, sizes: Value, names: Sequence[str]) -> Mapping[str, Value]:
    """The size symbols of a kernel, from its table."""
    return {name: b.load(sizes, b.i64, number) for number, name in enumerate(names)}


def set_slot(b: Builder, record: Value, slot: IntEnum, value: Value) -> None:
    """Store an 8-byte slot of a record."""
    b.store(value, b.offset(record, b.i64, slot.value))


@dataclass(frozen=True)
class ResultSlots:
    """Where a driver's record says which columns of the result a task has, where its sums go, and what they start from."""

    first_column: IntEnum
    columns: IntEnum
    out: IntEnum
    init: IntEnum


class KernelBody:
    """The body of a kernel under construction.

    Attributes:
        b: appends machine-level code.
        args: the kernel's arguments: buffers, sizes, begin, end, scratch, error.
        symbols: its size symbols.
    """

    b: Builder
    args: list[Value]
    symbols: Mapping[str, Value]

    def size(self, size: Size) -> Value:
        """The value of a size over the kernel's symbols."""
        return emit_size(self.b, size, self.symbols)

    def buffer(self, buffer: SSAValue) -> Value:
        """The address of a buffer of the kernel."""
        assert isinstance(buffer, BlockArgument)
        return self.b.load(self.b.offset(self.args[0], self.b.i64, buffer.index), self.b.ptr)


class DriverCaller(KernelBody):
    """The body of a kernel that hands tasks to a driver.

    Attributes:
        task: the record of 8-byte slots that the driver reads.
    """

    task: Value

    def set(self, slot: IntEnum, value: Value | Size | int) -> None:
        """Store a slot of the task record."""
        if isinstance(value, int):
            value = self.b.const(self.b.i64, value)
        elif isinstance(value, Size):
            value = self.size(value)
        set_slot(self.b, self.task, slot, value)

    def set_result(
        self, slots: ResultSlots, column: Value, columns: Value, out: Value, bias: tuple[Value, Type] | None = None
    ) -> None:
        """The columns [column, column + columns) of the result: where their sums go, and the bias that they start from, if any."""
        self.set(slots.first_column, column)
        self.set(slots.columns, columns)
        self.set(slots.out, out)
        if bias is None:
            self.set(slots.init, 0)
        else:
            first, element = bias
            self.set(slots.init, self.b.offset(first, element, column))


__all__ = ["DriverCaller", "KernelBody", "ResultSlots", "set_slot", "symbols_of"]
