"""ATen's embedding bags."""

# PyTorch and sympy are typed in part only.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false

from __future__ import annotations

import operator

from xdsl.ir import SSAValue

from anyshape.dialects.dhlo.bags import MODES, EmbeddingBag
from anyshape.dialects.sizes import dtype_of, sizes_of
from anyshape.frontends.torch.builder import GraphBuilder, lowers
from anyshape.frontends.torch.unsupported import Unsupported
from anyshape.symbolic import Size


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
