"""ATen's embedding bags."""

# PyTorch and sympy are typed in part only.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false

from __future__ import annotations

import operator

from xdsl.ir import SSAValue

from anyshape.dialects.dhlo import Reduce, Slice
from anyshape.dialects.dhlo.bags import MODES, EmbeddingBag
from anyshape.dialects.dhlo.checks import Check
from anyshape.dialects.dtypes import I64
from anyshape.dialects.messages import PLACE, verbatim
from anyshape.dialects.sizes import dtype_of, sizes_of
from anyshape.frontends.torch.builder import GraphBuilder, lowers
from anyshape.frontends.torch.unsupported import Unsupported
from anyshape.symbolic import Size, size_min


def _require_first_at_start(builder: GraphBuilder, offsets: SSAValue) -> None:
    """GuardError in a call whose offsets do not begin with 0; there may be none."""
    (count,) = sizes_of(offsets.type)
    first = builder.emit(
        Slice, builder.convert(offsets, I64), starts=(Size.const(0),), sizes=(size_min(count, 1),), strides=(1,)
    )
    first = builder.emit(Reduce, first, axes=(0,), kind="sum")
    message = "offsets[0] has to be 0, i.e., the first sequence in the mini-batch has to start from position 0"
    builder.emit(Check, first, first, error="guard", message=verbatim(message), got=PLACE, expected="0")


@lowers("aten._embedding_bag.default", "aten._embedding_bag_forward_only.default")
def lower_embedding_bag(
    builder: GraphBuilder,
    table: SSAValue,
    indices: SSAValue,
    offsets: SSAValue,
    _scale_grad_by_freq: bool = False,
    mode: int = 0,
    _sparse: bool = False,
    per_sample_weights: SSAValue | None = None,
    include_last_offset: bool = False,
    padding_idx: int = -1,
) -> tuple[SSAValue, None, None, None]:
    """The bags; what PyTorch keeps beside them for gradients is not computed"""
    others = [user for user in builder.node.users if user.target is not operator.getitem or user.args[1] != 0]
    if any(user.users for user in others):
        raise Unsupported("results of an embedding bag that only its gradient needs")
    factors = [] if per_sample_weights is None else [builder.convert(per_sample_weights, dtype_of(table.type))]
    if include_last_offset:
        builder.require(Size.const(1).le(sizes_of(offsets.type)[0]), "embedding_bag")
    _require_first_at_start(builder, offsets)
    result = builder.emit(
        EmbeddingBag,
        table,
        indices,
        offsets,
        *factors,
        mode=MODES[mode],
        ends_given=include_last_offset,
        padding=padding_idx,
    )
    return result, None, None, None
