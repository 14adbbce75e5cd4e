"""Ops as errors show them."""

from __future__ import annotations

from collections.abc import Sequence
from io import StringIO

from xdsl.ir import Operation
from xdsl.printer import Printer


def op_with_neighbours(ops: Sequence[Operation], position: int, neighbours: int) -> str:
    """The op at `position` of a block marked `-> `, between as many as `neighbours` before and after it.

    Ops are printed from the block's first, so that values have the names that they have in the whole.
    """
    stream = StringIO()
    printer = Printer(stream)
    texts: list[str] = []
    for op in ops[: position + neighbours + 1]:
        stream.seek(0)
        stream.truncate()
        printer.print_op(op)
        texts.append(stream.getvalue())
    first = max(0, position - neighbours)
    return "\n".join(f"{'-> ' if at == position else '   '}{text}" for at, text in enumerate(texts[first:], first))


__all__ = ["op_with_neighbours"]
