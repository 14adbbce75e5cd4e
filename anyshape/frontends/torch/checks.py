"""What PyTorch rejects by the data of a call: how many elements are wrong is a size that has to be 0, or the call is refused."""

from __future__ import annotations

from collections.abc import Mapping

from xdsl.dialects.builtin import StringAttr
from xdsl.ir import SSAValue

from anyshape.dialects.dhlo import And, Compare, Iota, Reduce, Select, Subtract
from anyshape.dialects.dhlo.compaction import ReadSize
from anyshape.dialects.dtypes import I64
from anyshape.dialects.locations import NameLoc, location_at
from anyshape.dialects.sizes import numel, sizes_of
from anyshape.frontends.torch.builder import GraphBuilder
from anyshape.frontends.torch.origins import origin_of_node
from anyshape.symbolic import Size


def require_none(builder: GraphBuilder, wrong: SSAValue, what: str) -> None:
    """The call raises GuardError where an element of the bool tensor `wrong` holds: the data have `what`, in its message.

    `what` has words joined by `_`, since it names a size: "negative_variances".
    """
    row = builder.reshape(builder.convert(wrong, I64), (numel(sizes_of(wrong.type)),))
    count = builder.emit(Reduce, row, axes=(0,), kind="sum")
    size = Size.symbol(f"{what}_{len(builder.read_sizes)}")
    read, message = builder.emit(ReadSize, count, size=(size,)), f"the data have {what.replace('_', ' ')}"
    place = origin_of_node(builder.node)
    assert isinstance(read.owner, ReadSize)
    read.owner.location = NameLoc(StringAttr(message), location_at(place.file, place.line))
    builder.read_sizes[size] = read
    builder.require(size.le(0), message)


FAILURES: Mapping[str, str] = {
    "cholesky_inverse": "The diagonal element {} is zero, the inversion could not be completed because the input matrix is singular.",
    "inv": "The diagonal element {} is zero, the inversion could not be completed because the input matrix is singular.",
    "solve": "The solver failed because the input matrix is singular.",
    "cholesky": "The factorization could not be completed because the input is not positive-definite (the leading minor of order {} "
    "is not positive-definite).",
    "lu_factor": "U[{},{}] is zero and using it on lu_solve would result in a division by zero. If you still want to perform the "
    "factorization, consider calling linalg.lu(A, pivot) or linalg.lu_factor_ex(A, pivot)",
}
"""What PyTorch says where LAPACK's `info` is not 0, by what the name of the function has in it."""


def require_factorised(builder: GraphBuilder, info: SSAValue, function: str) -> None:
    """The call raises SingularMatrix where an element of `info` [..] is not 0; the message names the first such matrix and its `info`."""
    sizes, number = sizes_of(info.type), len(builder.read_sizes)
    row = builder.reshape(builder.convert(info, I64), (numel(sizes),))
    text, shown = next(text for part, text in FAILURES.items() if part in function), ()
    if sizes:
        place, row = _first_failure(builder, row)
        element = Size.symbol(f"failed_matrix_{number}")
        text, shown = "(Batch element {}): " + text, (element,)
        builder.read_sizes[element] = builder.emit(ReadSize, place, size=(element,))
    failure = Size.symbol(f"failed_pivot_{number}")
    value = builder.emit(
        ReadSize, builder.reshape(row, ()), size=(failure,), singular=f"{function}: {text}", shown=shown
    )
    builder.read_sizes[failure] = value
    builder.require(failure.le(0), function)


def _first_failure(builder: GraphBuilder, row: SSAValue) -> tuple[SSAValue, SSAValue]:
    """Of a row of numbers the place of the first that is not 0, and this number; 0 and 0 where there is none."""
    (length,) = sizes = sizes_of(row.type)
    zero, places = builder.constant(0, I64, sizes), builder.emit(Iota, axis=0, dtype=I64, sizes=sizes)
    wrong = builder.emit(Compare, row, zero, direction="ne")
    from_end = builder.emit(Subtract, builder.broadcast(builder.operand(length, I64), sizes), places)
    first = builder.emit(Reduce, builder.emit(Select, wrong, from_end, zero), axes=(0,), kind="max")
    is_first = builder.emit(
        And, wrong, builder.emit(Compare, from_end, builder.broadcast(first, sizes), direction="eq")
    )
    there = (builder.emit(Select, is_first, each, zero) for each in (places, row))
    place, number = (builder.emit(Reduce, each, axes=(0,), kind="sum") for each in there)
    return place, number


__all__ = ["require_factorised", "require_none"]
