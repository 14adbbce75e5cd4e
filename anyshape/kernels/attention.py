"""Plans of attention: one claimable `tile.attend` whose buffers lie as the transposes around it say."""

from __future__ import annotations

from xdsl.dialects.builtin import FloatAttr
from xdsl.ir import SSAValue

from anyshape.dialects.dhlo import Attention, Transpose
from anyshape.dialects.sizes import dtype_of, row_major_strides, sizes_of
from anyshape.dialects.tile import AttendOp, BufferType, KernelOp, buffer
from anyshape.fusion.layout import ONE, ZERO, layout_of
from anyshape.kernels.canonical import CanonicalGroup
from anyshape.kernels.collapse import Collapsed
from anyshape.symbolic import Size, size_min


def plan_attention(group: CanonicalGroup, name: str) -> tuple[KernelOp, tuple[int, ...], dict[int, Size]]:
    """The kernel, which group input each of its input buffers is, and at which element of it those start that are a part."""
    block = group.block
    attention = next(op for op in block.ops if isinstance(op, Attention))
    (result,) = Collapsed(block).results
    position: dict[SSAValue, int] = {argument: index for index, argument in enumerate(block.args)}
    layouts = [layout_of(operand) for operand in attention.operands]
    (b, h, s, d), (_, hk, t, _), (*_, e) = (layout.sizes for layout in layouts[:3])
    types: list[BufferType] = [
        buffer(dtype_of(layout.root.type).scalar, layout.sizes, layout.strides) for layout in layouts[:3]
    ]
    if attention.mask is not None:
        mask = layouts[3]
        strides = [
            stride if have == want else ZERO if have == ONE else stride * size_min(have - 1, 1)
            for have, want, stride in zip(mask.sizes, (b, h, s, t), mask.strides, strict=True)
        ]
        types.append(buffer(dtype_of(mask.root.type).scalar, [b, h, s, t], strides))
    scales = layouts[3:] if attention.is_scaled else []
    types += [buffer(dtype_of(scale.root.type).scalar, scale.sizes, scale.strides) for scale in scales]
    types.append(buffer(dtype_of(result.type).scalar, [b, h, s, e], _output_strides(result)))
    kernel = KernelOp(name, group.names, types)
    query, key, value, *others, out = kernel.body.block.args
    scale = attention.attributes["scale"]
    assert isinstance(scale, FloatAttr)
    kernel.body.block.add_op(
        AttendOp(
            query,
            key,
            value,
            out,
            None if attention.mask is None else others[0],
            (b, h, hk, s, t, d, e),
            scale.value.data,
            causal=bool(attention.attribute("causal")),
            after_past=bool(attention.attribute("after_past")),
            window=attention.integer("window"),
            scales=others if attention.is_scaled else (),
        )
    )
    offsets = {index: layout.offset for index, layout in enumerate(layouts) if layout.offset != ZERO}
    return kernel, tuple(position[layout.root] for layout in layouts), offsets


def _output_strides(result: SSAValue) -> list[Size]:
    """Strides of the attention's result in the memory of the group's result, a transpose of it."""
    order = list(range(4))
    value = result
    while isinstance(value.owner, Transpose):
        permutation = value.owner.attribute("permutation")
        order = [permutation[axis] for axis in order]
        value = value.owner.operands[0]
    strides = row_major_strides(sizes_of(result.type))
    return [strides[order.index(axis)] for axis in range(4)]
