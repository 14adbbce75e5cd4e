"""Sizes in a host program: each distinct one computed once, with a record of overflow."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from anyshape.codegen.builder import Builder
from anyshape.codegen.mlir import Operand, Value, llvm
from anyshape.codegen.sizes import SizeCode
from anyshape.support.errors import CodegenError
from anyshape.symbolic import Size
from anyshape.symbolic.expr import Atom
from anyshape.symbolic.fold import fold_size


@dataclass(frozen=True)
class _CheckedCode(SizeCode):
    """`SizeCode` whose sums and products report an i1 that is true when they leave 64 bits."""

    report: Callable[[Value], None]

    def add(self, lhs: Operand, rhs: Operand, /) -> Operand:
        return self._checked(llvm.intr_sadd_with_overflow, lhs, rhs)

    def mul(self, lhs: Operand, rhs: Operand, /) -> Operand:
        return self._checked(llvm.intr_smul_with_overflow, lhs, rhs)

    def _checked(self, operation: Callable[..., Value], lhs: Operand, rhs: Operand) -> Value:
        b = self.builder
        both = llvm.StructType.get_literal([b.i64, b.i1])
        pair = operation(both, *(b.const(b.i64, x) if isinstance(x, int) else x for x in (lhs, rhs)))
        self.report(llvm.extractvalue(b.i1, pair, [1]))
        return llvm.extractvalue(b.i64, pair, [0])


class HostSizes:
    """The values of sizes in straight-line code: a size asked for twice is computed once.

    Attributes:
        overflowed: an i1, true when a sum or product computed so far does not fit 64 bits.
    """

    def __init__(self, b: Builder) -> None:
        self._b = b
        self._symbols: dict[str, Value] = {}
        self._atoms: dict[Atom, Operand] = {}
        self._values: dict[Size, Value] = {}
        self.overflowed: Value = b.const(b.i1, 0)
        self._code = _CheckedCode(b, self._symbol, self._report)

    def bind(self, name: str, value: Value) -> None:
        """Gives a symbol its value."""
        self._symbols[name] = value

    def __getitem__(self, size: Size) -> Value:
        """The i64 value of the size; CodegenError when one of its symbols has no value."""
        if size not in self._values:
            value = fold_size(size, self._code, self._atoms)
            self._values[size] = self._b.const(self._b.i64, value) if isinstance(value, int) else value
        return self._values[size]

    def _symbol(self, name: str) -> Value:
        if name not in self._symbols:
            raise CodegenError(
                "a size uses a symbol that the host program does not bind",
                got=name,
                expected=", ".join(sorted(self._symbols)) or "no symbol",
            )
        return self._symbols[name]

    def _report(self, overflowed: Value) -> None:
        self.overflowed = self._b.or_(self.overflowed, overflowed)
