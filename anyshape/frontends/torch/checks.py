"""What PyTorch rejects by the data of a call: how many elements are wrong is a size that has to be 0, or the call is refused."""

from __future__ import annotations

from xdsl.dialects.builtin import StringAttr
from xdsl.ir import SSAValue

from anyshape.dialects.dhlo import Reduce
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


__all__ = ["require_none"]
