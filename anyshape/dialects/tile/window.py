"""How the right-hand side of a `tile.contract` is read out of an image: the windows of a convolution."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np
from xdsl.dialects.builtin import DenseArrayBase, IntAttr, IntegerType, i64
from xdsl.ir import ParametrizedAttribute
from xdsl.irdl import irdl_attr_definition

from anyshape.dialects.scalar_interpreter import Array
from anyshape.dialects.sizes import DimsAttr, numel
from anyshape.symbolic import Size

Numbers = DenseArrayBase[IntegerType]


@irdl_attr_definition
class WindowAttr(ParametrizedAttribute):
    """rhs[b, k, j] of group g is the image at batch point b, channel g·C + c, places y·strides + t·dilation − padding, or 0 outside it.

    k counts (c, t…): a channel of the group, then the window points t of `extents`; j counts the points y… of `sizes`. The rows of the
    product are `groups` equal runs, one a group. `is_inside`: no place is outside the image.
    """

    name = "tile.window"
    extents: Numbers
    strides: Numbers
    padding: Numbers
    dilation: Numbers
    groups: IntAttr
    is_inside: IntAttr
    sizes: DimsAttr

    @staticmethod
    def of(
        extents: Sequence[int],
        strides: Sequence[int],
        padding: Sequence[int],
        dilation: Sequence[int],
        sizes: Sequence[Size],
        *,
        groups: int,
        is_inside: bool,
    ) -> WindowAttr:
        """One number of each for every spatial axis."""
        windows, steps, before, apart = (
            DenseArrayBase.from_list(i64, list(numbers)) for numbers in (extents, strides, padding, dilation)
        )
        counts = IntAttr(groups), IntAttr(int(is_inside))
        return WindowAttr(windows, steps, before, apart, counts[0], counts[1], DimsAttr(tuple(sizes)))

    @property
    def spatial(self) -> int:
        return len(self.sizes.data)

    @property
    def points(self) -> int:
        """Points of a window."""
        return prod(self.extents.get_values())

    @property
    def columns(self) -> Size:
        """Columns of a batch point."""
        return numel(self.sizes.data)

    def matrices(self, image: Array, sizes: Sequence[int]) -> Array:
        """[b, g, k, j] of an image [b, channels, s…], `sizes` being the values of the attribute's, by numpy."""
        batch, channels, *extents = image.shape
        taken: list[Array] = []
        inside: Array = np.ones((1,) * (2 * self.spatial), np.bool_)
        windows, strides, padding, dilations = (
            tuple[int, ...](each.get_values()) for each in (self.extents, self.strides, self.padding, self.dilation)
        )
        for axis in range(self.spatial):
            window, stride, before, dilation = windows[axis], strides[axis], padding[axis], dilations[axis]
            place: Array = np.arange(window)[:, None] * dilation + np.arange(sizes[axis]) * stride - before
            shape = [1] * (2 * self.spatial)
            shape[axis], shape[self.spatial + axis] = place.shape
            is_there: Array = (place >= 0) & (place < extents[axis])
            inside = inside & is_there.reshape(shape)
            taken.append(np.where(is_there, place, 0).reshape(shape))
        groups = self.groups.data
        depth = channels // max(1, groups) * self.points
        if 0 in extents:
            return np.zeros((batch, groups, depth, prod(sizes)), image.dtype)
        patches = np.where(inside, image[(slice(None), slice(None), *taken)], np.zeros((), image.dtype))
        return patches.reshape(batch, groups, depth, prod(sizes))


__all__ = ["WindowAttr"]
