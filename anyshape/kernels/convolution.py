"""Plans of convolutions: `convolution` with what follows it, as one claimable `tile.contract` whose right-hand side is the image.

out[b, o, y…] = Σ_k filters[o, k] · windows[b, k, y…], k = (channel, window point): rows are filters, columns are places of the result.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.ir import SSAValue

from anyshape.dialects.dhlo import Convolution
from anyshape.dialects.dhlo.windows import fits
from anyshape.dialects.sizes import dtype_of, numel, sizes_of
from anyshape.dialects.tile import BufferType, ContractOp, KernelOp, buffer
from anyshape.dialects.tile.window import WindowAttr
from anyshape.fusion.layout import ZERO, Layout, filters_of, image_of
from anyshape.kernels.canonical import CanonicalGroup
from anyshape.kernels.points import PlanPoints
from anyshape.kernels.products import epilogue_of, fill_epilogue
from anyshape.symbolic import Size


def convolution_of(group: CanonicalGroup) -> Convolution | None:
    """The convolution that a group is built around, if it is one."""
    return next((op for op in group.block.ops if isinstance(op, Convolution)), None)


def plan_convolution(
    group: CanonicalGroup, op: Convolution, name: str
) -> tuple[KernelOp, tuple[int, ...], dict[int, Size]]:
    """The kernel of a convolution with its epilogue, which group input each of its input buffers is, and at which element of
    it those start that are parts."""
    block = group.block
    image, (filters, depth, row) = image_of(op), filters_of(op)
    position: dict[SSAValue, int] = {argument: index for index, argument in enumerate(block.args)}
    epilogue, others = epilogue_of(block, op, 1, 1)
    (result,) = epilogue.results
    batch, rows = op.result_sizes[:2]
    windows = _windows_of(op, image)
    columns = numel(op.result_sizes[2:])
    types: list[BufferType] = [
        buffer(dtype_of(filters.root.type).scalar, [batch, rows, depth], [ZERO, row, Size.const(1)]),
        buffer(dtype_of(image.root.type).scalar, windows.image.sizes, windows.image.strides),
        *(buffer(dtype_of(value.type).scalar, sizes_of(value.type)) for value in epilogue.block.args[1:]),
        buffer(dtype_of(result.type).scalar, [batch, rows, columns]),
    ]
    kernel = KernelOp(name, group.names, types)
    arguments = kernel.body.block.args
    contract = ContractOp(
        arguments[0], arguments[1], arguments[-1], [batch], (rows, columns, depth), dtype_of(op.result.type).scalar,
        window=windows.window,
    )  # fmt: skip
    kernel.body.block.add_op(contract)
    points = PlanPoints(dict(zip(epilogue.block.args[1:], arguments[2:-1], strict=True)), {})
    fill_epilogue(points, contract.epilogue.block, epilogue, [batch, rows, columns])
    offsets = {index: side.offset for index, side in enumerate((filters, image)) if side.offset != ZERO}
    return kernel, (position[filters.root], position[image.root], *(position[value] for value in others)), offsets


@dataclass(frozen=True)
class _Windows:
    """The image and its windows, with as few spatial axes as possible."""

    image: Layout
    window: WindowAttr


def _windows_of(op: Convolution, image: Layout) -> _Windows:
    """Windows of one point that meet every place of an image whose places are neighbours need one spatial axis only."""
    extents = [size.value for size in op.window_sizes]
    strides, dilation = op.integers("window_strides"), op.integers("rhs_dilation")
    padding = [size.value for size in op.size_list("padding")]
    sizes, spatial = op.result_sizes[2:], op.spatial
    merged = image.merged(2, 2 + spatial)
    is_plain = {*extents, *strides} == {1} and not any(padding) and tuple(sizes) == image.sizes[2:]
    if is_plain and merged is not None:
        size, _ = merged
        image = Layout(image.root, (*image.sizes[:2], size), (*image.strides[:2], Size.const(1)), image.offset)
        return _Windows(image, WindowAttr.of([1], [1], [0], [1], [size], groups=op.groups, is_inside=True))
    is_inside = not any(padding) and all(
        fits(size, count, Size.const(extent), stride, step)
        for size, count, extent, stride, step in zip(image.sizes[2:], sizes, extents, strides, dilation, strict=True)
    )
    window = WindowAttr.of(extents, strides, padding, dilation, sizes, groups=op.groups, is_inside=is_inside)
    return _Windows(image, window)


__all__ = ["convolution_of", "plan_convolution"]
