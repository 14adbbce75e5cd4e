"""`TritonKernel`: a kernel's syntax tree and what a launch passes to it."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from anyshape.support.errors import CodegenError
from anyshape.symbolic import Size


@dataclass(frozen=True)
class Parameter:
    """A parameter of the kernel.

    Attributes:
        role: a buffer of the plan; scratch that the launcher allocates; a size symbol; a `tl.constexpr`.
        type: as Triton's signatures spell it: `*fp32`, `i64`, `constexpr`.
        elements: of scratch, how many elements all points together need.
    """

    name: str
    role: Literal["buffer", "scratch", "size", "constexpr"]
    type: str
    elements: Size | None = None


@dataclass(frozen=True)
class TritonKernel:
    """A `@triton.jit` function, in a module of its own, with its launch.

    Attributes:
        tiles: the grid has one axis of Π ⌈size / block⌉ programs; each pair is a size with the constexpr that divides it,
            or None where a program is one point.
        rows: the sizes that must not exceed BLOCK, where rows are kept in registers.
    """

    name: str
    module: ast.Module
    parameters: tuple[Parameter, ...]
    tiles: tuple[tuple[Size, str | None], ...]
    rows: tuple[Size, ...] = ()

    @property
    def source(self) -> str:
        """The module as Python text, to be written to a file: Triton reads a kernel's source there."""
        return ast.unparse(self.module) + "\n"

    def signature(self) -> dict[str, str]:
        """Types by parameter, as `triton.compiler.ASTSource` takes them."""
        return {each.name: each.type for each in self.parameters}

    def programs(self, sizes: Mapping[str, int], constants: Mapping[str, int]) -> int:
        """The number of programs of a launch; with 0 there is nothing to launch.

        Raises CodegenError when a row does not fit the block that is to keep it.
        """
        for row in self.rows:
            if row.evaluate(sizes) > constants["BLOCK"]:
                raise CodegenError(
                    "a row does not fit the block that keeps it", where=f"@{self.name}, row of {row}",
                    got=row.evaluate(sizes), expected=f"at most {constants['BLOCK']} elements",
                    remedy="a larger BLOCK, or the kernel emitted with whole_rows=False",
                )  # fmt: skip
        count = 1
        for size, block in self.tiles:
            extent = size.evaluate(sizes)
            count *= extent if block is None else -(-extent // constants[block])
        return count


__all__ = ["Parameter", "TritonKernel"]
