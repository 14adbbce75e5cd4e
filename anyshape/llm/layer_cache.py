"""The cache of keys and values as a program sees it: inputs that are written where they lie, and attention to them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from anyshape import nn
from anyshape.dialects.dtypes import dtype_of_numpy
from anyshape.llm.key_cache import KeyCache
from anyshape.nn import Graph, Tensor
from anyshape.symbolic import Size

_LARGEST = 127
_SMALLEST = 1e-30
"""A head of zeros has a scale too."""


@dataclass(frozen=True)
class LayerCache:
    """A layer's arrays in a program: as they came in, or updated."""

    form: KeyCache
    arrays: tuple[Tensor, ...]

    def updated(self, key: Tensor, value: Tensor, past: Size) -> LayerCache:
        """With keys and values [b, kv_heads, s, 2, head/2] of the positions from `past` on."""
        parts = [part for new in (key, value) for part in self._stored(new)]
        zero = Size.const(0)
        return LayerCache(
            self.form,
            tuple(
                nn.update(array, part, (zero, zero, past, zero, zero)[: array.rank])
                for array, part in zip(self.arrays, parts, strict=True)
            ),
        )

    def _stored(self, new: Tensor) -> list[Tensor]:
        """What is written for new keys, or values."""
        if not self.form.is_scaled:
            return [nn.convert(new, self.arrays[0].dtype)]
        batch, heads, length, _, _ = new.sizes
        scale = nn.maximum(nn.largest(nn.absolute(new), (3, 4)), _SMALLEST) / _LARGEST
        codes = nn.convert(nn.round_even(new / scale.reshape(batch, heads, length, 1, 1)), "i8")
        return [codes, scale]

    def attended(self, query: Tensor, until: Size, *, scale: float, window: int) -> Tensor:
        """Attention of queries [b, h, s, head], the last of `until` positions, to what is cached of these."""
        form = self.form
        seen = [nn.slice_axis(array, 2, 0, until) for array in self.arrays]
        heads = [each.reshape(*each.sizes[:3], form.head) if each.rank == 5 else each for each in seen]
        keys, values = heads[:: 2 if form.is_scaled else 1]
        scales = dict(zip(("key_scale", "value_scale"), heads[1::2], strict=True)) if form.is_scaled else {}
        return nn.attention(query, keys, values, scale=scale, causal=True, window=window, **scales)


def inputs_of(form: KeyCache, graph: Graph, layer: int, batch: Size, capacity: Size) -> LayerCache:
    """The arrays of a layer's cache as inputs of a program."""
    names = [f"keys of layer {layer}", f"values of layer {layer}"]
    if form.is_scaled:
        names = [each for name in names for each in (name, f"scales of {name}")]
    arrays = [
        graph.input(name, sizes, dtype_of_numpy(dtype))
        for name, (sizes, dtype) in zip(names, form.arrays(batch, capacity), strict=True)
    ]
    return LayerCache(form, tuple(arrays))


def updates_of(before: Sequence[LayerCache], after: Sequence[LayerCache]) -> list[tuple[Tensor, Tensor]]:
    """(updated array, input) for every array, as `Graph.finish` takes them."""
    return [pair for old, new in zip(before, after, strict=True) for pair in zip(new.arrays, old.arrays, strict=True)]


__all__ = ["LayerCache", "inputs_of", "updates_of"]
