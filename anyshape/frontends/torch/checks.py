"""What PyTorch rejects by the data of a call: how many elements are wrong has to be 0, or the call is refused."""

from __future__ import annotations

from collections.abc import Mapping

from xdsl.ir import SSAValue

from anyshape.dialects.dhlo import And, Compare, Iota, Reduce, Select, Subtract
from anyshape.dialects.dhlo.checks import Check
from anyshape.dialects.dtypes import I64
from anyshape.dialects.messages import PLACE, places_in, verbatim
from anyshape.dialects.sizes import numel, sizes_of
from anyshape.frontends.torch.builder import GraphBuilder


def require_none(builder: GraphBuilder, wrong: SSAValue, what: str) -> None:
    """The call raises GuardError where an element of the bool tensor `wrong` holds: the data have `what`, in its message.

    `what` has words joined by `_`: "negative_variances".
    """
    row = builder.reshape(builder.convert(wrong, I64), (numel(sizes_of(wrong.type)),))
    count = builder.emit(Reduce, row, axes=(0,), kind="sum")
    message = verbatim(f"the data have {what.replace('_', ' ')}")
    builder.emit(Check, count, count, error="guard", message=message, got=f"{PLACE} of them", expected="none")


FAILURES: Mapping[str, str] = {
    "cholesky_inverse": "The diagonal element %lld is zero, the inversion could not be completed because the input matrix is singular.",
    "inv": "The diagonal element %lld is zero, the inversion could not be completed because the input matrix is singular.",
    "solve": "The solver failed because the input matrix is singular.",
    "cholesky": "The factorization could not be completed because the input is not positive-definite (the leading minor of order %lld "
    "is not positive-definite).",
    "lu_factor": "U[%lld,%lld] is zero and using it on lu_solve would result in a division by zero. If you still want to perform the "
    "factorization, consider calling linalg.lu(A, pivot) or linalg.lu_factor_ex(A, pivot)",
}
"""What PyTorch says where LAPACK's `info` is not 0, by what the name of the function has in it."""


def require_factorised(builder: GraphBuilder, info: SSAValue, function: str) -> None:
    """The call raises SingularMatrix where an element of `info` [..] is not 0; the message names the first such matrix and its `info`."""
    sizes = sizes_of(info.type)
    row = builder.reshape(builder.convert(info, I64), (numel(sizes),))
    text, places = next(text for part, text in FAILURES.items() if part in function), list[SSAValue]()
    if sizes:
        place, row = _first_failure(builder, row)
        text, places = f"(Batch element {PLACE}): {text}", [place]
    failure = builder.reshape(row, ())
    shown = [*places, *[failure] * (places_in(text) - len(places)), failure]
    builder.emit(
        Check,
        failure,
        *shown,
        error="singular",
        message=f"{function}: {text}",
        got=f"info = {PLACE}",
        expected="info = 0, that of a matrix which can be factorised",
        remedy="ask for `info` instead of an error (the functions named `…_ex`), or add a multiple of the identity",
    )


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
