"""Control flow: branches that constants and sizes decide, or that are both computed."""

from __future__ import annotations

from onnx import GraphProto

from anyshape.dialects.dhlo import And, Not
from anyshape.frontends.onnx.builder import GraphBuilder
from anyshape.frontends.onnx.refusals import Malformed, Unsupported
from anyshape.frontends.onnx.registry import lowers
from anyshape.frontends.onnx.values import Known, Value, as_objects
from anyshape.nn import Tensor
from anyshape.support.errors import FileFormatError
from anyshape.symbolic import Relation


@lowers("If")
def lower_if(b: GraphBuilder, condition: Value, *, then_branch: GraphProto, else_branch: GraphProto) -> list[Value]:
    """The outputs of one of two graphs.

    An equation of sizes that is not decided, such as `x.shape[0] == 1` around a Squeeze, is taken as the general case, in which sizes
    are not equal; that becomes a condition on calls. Where else calls decide, both graphs are computed and their outputs chosen from.
    """
    is_taken = None if isinstance(condition, Tensor) else _decided(b, condition)
    if is_taken is None:
        return _chosen(b, condition, then_branch, else_branch)
    return b.lower_graph(then_branch if is_taken else else_branch)


def _decided(b: GraphBuilder, condition: Known) -> bool | None:
    elements = list(as_objects(condition).flat)
    if len(elements) != 1:
        raise Malformed(f"the condition must be one truth value; here it is a tensor of {len(elements)}")
    (element,) = elements
    if not isinstance(element, Relation):
        return bool(element)
    proved = b.prove(element)
    if proved is not None or element.op not in ("==", "!="):
        return proved
    b.require(Relation(element.lhs, "!=", element.rhs), "the branch for sizes that differ")
    return element.op == "!="


def _chosen(b: GraphBuilder, condition: Value, then_branch: GraphProto, else_branch: GraphProto) -> list[Value]:
    """Both graphs are computed. Unsupported where the one that is not taken could make a call fail, or their outputs differ in sizes."""
    before = b.graph.facts.relations(), b.may_fail
    holds = b.reshape(condition, ())
    try:
        yes = _lowered_where(b, holds, then_branch)
        no = _lowered_where(b, b.emit(Not, holds), else_branch)
        pairs = list(zip(yes, no, strict=True))
    except FileFormatError as error:
        raise Unsupported(
            "the program computes the condition, and one branch does not fit the sizes: " + str(error)
        ) from error
    except ValueError as error:
        raise Malformed("the branches have different numbers of outputs") from error
    if (b.graph.facts.relations(), b.may_fail) != before:
        raise Unsupported(
            "the program computes the condition, and a branch that is not taken could make the call fail: it asks something of "
            "sizes, or writes at indices"
        )
    return [_choice(b, holds, yes, no) for yes, no in pairs]


def _lowered_where(b: GraphBuilder, taken: Tensor, graph: GraphProto) -> list[Value]:
    """The outputs of a branch, whose indices need to be right only where it is taken."""
    around = b.taken
    b.taken = taken if around is None else b.emit(And, around, taken)
    try:
        return b.lower_graph(graph)
    finally:
        b.taken = around


def _choice(b: GraphBuilder, condition: Tensor, yes: Value, no: Value) -> Value:
    agree = yes.dtype == no.dtype and yes.rank == no.rank
    if not agree or not all(b.prove(x.eq(y)) is True for x, y in zip(yes.sizes, no.sizes, strict=True)):
        raise Unsupported(f"the program computes the condition, and the branches give {yes} and {no}")
    return b.select(condition, yes, no)


def _loop_reason(op: str) -> str:
    return f"{op} repeats a graph as often as the program computes; unroll it, or compile the body alone"


@lowers("Loop")
def lower_loop(b: GraphBuilder, *_: Value | None, body: GraphProto) -> Value:
    raise Unsupported(_loop_reason("Loop"))


@lowers("Scan")
def lower_scan(b: GraphBuilder, *_: Value | None, **__: object) -> Value:
    raise Unsupported(_loop_reason("Scan"))
