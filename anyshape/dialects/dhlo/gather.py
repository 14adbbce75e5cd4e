"""Reading at positions that are themselves data."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from xdsl.builder import Builder
from xdsl.ir import SSAValue
from xdsl.utils.exceptions import VerifyException

from anyshape.dialects.dhlo.assembly import is_iota_along
from anyshape.dialects.dhlo.base import REQUIRED, Arg, Array, DhloOp, Environment, Oracle, Points, Sample
from anyshape.dialects.dhlo.elementwise import conjunction
from anyshape.dialects.dhlo.laws import Simplified, law
from anyshape.dialects.dhlo.movement import BroadcastInDim, Slice
from anyshape.dialects.dhlo.quantised import Dequantize
from anyshape.dialects.dtypes import DTYPES, F32, I32, I64, U8
from anyshape.dialects.sizes import Tensor, dtype_of, sizes_of, tensor
from anyshape.support.errors import IndexOutOfRange
from anyshape.symbolic import Facts, Size

M, N, K = (Size.symbol(name) for name in "mnk")
ONE = Size.const(1)


class Gather(DhloOp, op="gather"):
    """result[i…] = x[start(i) + offset(i)] with StableHLO's dimension numbers; operands x and integer start indices.

    Result axes `offset_dims` walk through a window of `slice_sizes` in x, without its axes `collapsed_slice_dims` and
    `operand_batching_dims`; the other result axes walk through the indices without their axis `index_vector_dim` (which may
    be their rank: then each index is one number). Component k of an index vector is the start on x's axis `start_index_map[k]`;
    x's axis `operand_batching_dims[k]` follows the indices' axis `start_indices_batching_dims[k]`.

    A window that leaves x is an error when the program runs, never clamped, and nothing outside x is read.
    """

    DEFAULTS: ClassVar = {
        "offset_dims": REQUIRED,
        "collapsed_slice_dims": (),
        "start_index_map": REQUIRED,
        "operand_batching_dims": (),
        "start_indices_batching_dims": (),
        "index_vector_dim": REQUIRED,
        "slice_sizes": REQUIRED,
    }
    SIZE_ATTRIBUTES = ("slice_sizes",)
    SAMPLES = (
        Sample(  # embedding
            ((5, N), (M, K)),
            {"offset_dims": (2,), "collapsed_slice_dims": (0,), "start_index_map": (0,), "index_vector_dim": 2, "slice_sizes": (1, N)},
            dtypes=DTYPES, fixed={1: I64}, values={1: "index:5"},
            oracle=Oracle("aten.embedding.default", (Arg(0), Arg(1))),
        ),
        Sample(  # gather along the last axis
            ((M, 4), (M, N)),
            {
                "offset_dims": (), "collapsed_slice_dims": (1,), "start_index_map": (1,), "operand_batching_dims": (0,),
                "start_indices_batching_dims": (0,), "index_vector_dim": 2, "slice_sizes": (1, 1),
            },
            dtypes=(F32,), fixed={1: I64}, values={1: "index:4"},
            oracle=Oracle("aten.gather.default", (Arg(0), 1, Arg(1))),
        ),
        Sample(  # windows of 2 x n at pairs of indices
            ((5, N + 1), (M, 2)),
            {"offset_dims": (1, 2), "start_index_map": (0, 1), "index_vector_dim": 1, "slice_sizes": (2, N)},
            dtypes=(F32,), fixed={1: I32}, values={1: "index:2"},
        ),
    )  # fmt: skip

    @classmethod
    def infer(cls, operands: Sequence[Tensor], attributes: Mapping[str, Any]) -> Sequence[Tensor]:
        if len(operands) != 2 or not dtype_of(operands[1]).is_integer:
            raise VerifyException(f"{cls.name} takes a tensor and integer indices")
        sizes, indices = sizes_of(operands[0]), list(sizes_of(operands[1]))
        _check_dimension_numbers(cls.name, attributes, sizes, indices)
        vector, offset_dims = attributes["index_vector_dim"], attributes["offset_dims"]
        batch = indices[:vector] + indices[vector + 1 :]
        dropped = (*attributes["collapsed_slice_dims"], *attributes["operand_batching_dims"])
        window = [size for axis, size in enumerate(attributes["slice_sizes"]) if axis not in dropped]
        rank = len(batch) + len(offset_dims)
        if len(window) != len(offset_dims) or any(not 0 <= axis < rank for axis in offset_dims):
            raise VerifyException(
                f"{cls.name}: offset_dims {list(offset_dims)} must name {len(window)} axes of the result's {rank}"
            )
        rest = {True: iter(window), False: iter(batch)}
        return [tensor(dtype_of(operands[0]), [next(rest[axis in offset_dims]) for axis in range(rank)])]

    # What each axis of x is read at: the start's component, the indices' batch axis, the result's offset axis.

    def _batch_axes(self) -> list[int]:
        """The result axes that walk through the indices."""
        return [axis for axis in range(len(self.result_sizes)) if axis not in self.integers("offset_dims")]

    def _batch_axis_of(self, axis: int) -> int | None:
        """The result axis that x's batching axis follows."""
        batching = self.integers("operand_batching_dims")
        if axis not in batching:
            return None
        indices_axis = self.integers("start_indices_batching_dims")[batching.index(axis)]
        return self._batch_axes()[indices_axis - (indices_axis > self.integer("index_vector_dim"))]

    def _offset_axis_of(self, axis: int) -> int | None:
        """The result axis that walks through x's axis."""
        dropped = (*self.integers("collapsed_slice_dims"), *self.integers("operand_batching_dims"))
        if axis in dropped:
            return None
        return self.integers("offset_dims")[sum(other not in dropped for other in range(axis))]

    def _component_of(self, axis: int) -> int | None:
        start_index_map = self.integers("start_index_map")
        return start_index_map.index(axis) if axis in start_index_map else None

    def _bound(self, axis: int) -> Size:
        """Starts on x's axis are in [0, bound)."""
        return self.operand_sizes()[axis] - self.size_list("slice_sizes")[axis] + 1

    def reference(self, *operands: Array, env: Environment) -> Sequence[Array]:
        x, indices = operands
        result = [size.evaluate(env) for size in self.result_sizes]
        vector, batch_axes = self.integer("index_vector_dim"), self._batch_axes()
        if vector == indices.ndim:
            indices = indices[..., None]
        vectors = np.moveaxis(indices, vector, -1).astype(np.int64)
        walk: Sequence[Array] = np.ogrid[tuple(slice(extent) for extent in result)] if result else ()
        position: list[Array] = []
        for axis in range(x.ndim):
            at: Array = np.zeros([1] * len(result), np.int64)
            component, batch, offset = self._component_of(axis), self._batch_axis_of(axis), self._offset_axis_of(axis)
            if component is not None:
                starts = vectors[..., component]
                bound = self._bound(axis).evaluate(env)
                wrong = starts[(starts < 0) | (starts >= bound)]
                if wrong.size and np.prod(result) > 0:
                    raise IndexOutOfRange(
                        f"{self.name}: start index on axis {axis}", got=int(wrong[0]), expected=f"[0, {bound})"
                    )
                at = at + starts.reshape([result[each] if each in batch_axes else 1 for each in range(len(result))])
            for walked in (batch, offset):
                at = at if walked is None else at + walk[walked]
            position.append(at)
        if np.prod(result) == 0:
            return [np.zeros(result, x.dtype)]
        return [np.broadcast_to(x[tuple(position)], result).copy()]

    def element(self, points: Points, at: Sequence[SSAValue]) -> SSAValue:
        scalars = points.scalars
        position: list[SSAValue] = []
        valid: list[SSAValue] = []
        for axis in range(len(self.operand_sizes())):
            component, batch, offset = self._component_of(axis), self._batch_axis_of(axis), self._offset_axis_of(axis)
            terms = [at[walked] for walked in (batch, offset) if walked is not None]
            if component is not None:
                start = self._start(points, at, component)
                valid.append(points.check_index(start, self._bound(axis)))
                # The window has one element on a collapsed axis, and an axis of the whole x starts at 0 when valid.
                terms.append(start)
            index = terms[0] if terms else points.size(0)
            for term in terms[1:]:
                index = scalars.add(index, term)
            position.append(index)
        if not valid:
            return points.operand(0, position)
        with points.guarded(conjunction(scalars, valid)):
            return points.operand(0, position)

    def _start(self, points: Points, at: Sequence[SSAValue], component: int) -> SSAValue:
        """Component `component` of the index vector of the result's point `at`."""
        place = [at[axis] for axis in self._batch_axes()]
        vector, rank = self.integer("index_vector_dim"), len(self.operand_sizes(1))
        if vector < rank:
            place.insert(vector, points.size(component))
        dtype = self.operand_dtype(1)
        index = points.scalars.convert(points.operand(1, place), dtype, I64)
        return points.scalars.to_index(index)

    @law(
        "gather by iota along an axis of equal size -> x, repeated where other axes of the indices ask for it",
        example=lambda g: g(
            Gather, g.input("m", "n"), g(BroadcastInDim, g.iota(0, "m"), dimensions=(1,), sizes=(3, M)),
            offset_dims=(2,), collapsed_slice_dims=(0,), start_index_map=(0,), index_vector_dim=2, slice_sizes=(1, N),
        ),
    )  # fmt: skip
    def by_iota(self, builder: Builder, facts: Facts) -> Simplified:
        return self._by_counting(builder, lambda count, size: count == size)

    @law(
        "gather by iota along the first n of an axis -> x[:n], repeated where other axes of the indices ask for it",
        example=lambda g: g(
            Gather, g.input(7, "n"), g(BroadcastInDim, g.iota(0, 5), dimensions=(1,), sizes=(M, 5)),
            offset_dims=(2,), collapsed_slice_dims=(0,), start_index_map=(0,), index_vector_dim=2, slice_sizes=(1, N),
        ),
    )  # fmt: skip
    def by_leading_iota(self, builder: Builder, facts: Facts) -> Simplified:
        return self._by_counting(builder, lambda count, size: facts.prove(count.le(size)) is True)

    def _by_counting(self, builder: Builder, fits: Callable[[Size, Size], bool]) -> Simplified:
        """x, cut and repeated, where every index counts 0, 1, 2, … along a result axis whose size `fits` the axis of x."""
        dimensions: list[int] = []
        for axis, size in enumerate(self.operand_sizes()):
            component, batch, offset = self._component_of(axis), self._batch_axis_of(axis), self._offset_axis_of(axis)
            if component is not None:
                target = self._iota_axis(component, size, fits) if offset is None else None
            else:
                target = batch if batch is not None else offset
                if target is None or self.result_sizes[target] != size:
                    target = None
            if target is None or target in dimensions:
                return None
            dimensions.append(target)
        if dimensions != sorted(dimensions):
            return None
        x = self.operands[0]
        sizes = tuple(self.result_sizes[target] for target in dimensions)
        if sizes != self.operand_sizes():
            x = Slice.emit(builder, x, starts=(Size.const(0),) * len(sizes), sizes=sizes, strides=(1,) * len(sizes))
        return BroadcastInDim.emit(builder, x, dimensions=tuple(dimensions), sizes=self.result_sizes)

    @law(
        "gather of whole rows of dequantize(x) -> dequantize(gather of those of x)",
        example=lambda g: g(
            Gather, g(Dequantize, g.input(5, 36, dtype=U8), format="q4_0"), g.iota(0, "m"),
            offset_dims=(1,), collapsed_slice_dims=(0,), start_index_map=(0,), index_vector_dim=1, slice_sizes=(1, 64),
        ),
    )  # fmt: skip
    def of_decoded_rows(self, builder: Builder, facts: Facts) -> Simplified:
        decoded = self.operands[0].owner
        axis = len(self.operand_sizes()) - 1
        if not isinstance(decoded, Dequantize) or self._component_of(axis) is not None:
            return None
        window = self.size_list("slice_sizes")
        if window[axis] != self.operand_sizes()[axis] or self._offset_axis_of(axis) != len(self.result_sizes) - 1:
            return None
        rows = decoded.operands[0]
        attributes = {**self.attribute_values, "slice_sizes": (*window[:-1], sizes_of(rows.type)[-1])}
        gathered = Gather.emit(builder, rows, self.operands[1], **attributes)
        return Dequantize.emit(builder, gathered, format=decoded.attribute("format"))

    def _iota_axis(self, component: int, size: Size, fits: Callable[[Size, Size], bool]) -> int | None:
        """The result axis whose position component `component` of every index vector is, and whose size fits `size`."""
        parts, vector = self.operands[1], self.integer("index_vector_dim")
        rank = len(self.operand_sizes(1))
        joined = parts.owner
        if isinstance(joined, DhloOp) and joined.name == "dhlo.concatenate" and joined.integer("axis") == vector:
            if any(sizes_of(part.type)[vector] != ONE for part in joined.operands):
                return None
            parts = joined.operands[component]
        elif vector < rank and self.operand_sizes(1)[vector] != ONE:
            return None
        for number, axis in enumerate(self._batch_axes()):
            indices_axis = number + (vector <= number)
            if fits(self.result_sizes[axis], size) and is_iota_along(parts, indices_axis):
                return axis
        return None


def _check_dimension_numbers(
    name: str, attributes: Mapping[str, Any], sizes: Sequence[Size], indices: Sequence[Size]
) -> None:
    """The constraints of StableHLO's gather that its text lists; VerifyException names the one that is broken."""
    rank = len(sizes)
    vector: int = attributes["index_vector_dim"]
    slice_sizes: tuple[Size, ...] = attributes["slice_sizes"]
    start_map: tuple[int, ...] = attributes["start_index_map"]
    collapsed: tuple[int, ...] = attributes["collapsed_slice_dims"]
    batching: tuple[int, ...] = attributes["operand_batching_dims"]
    dropped = (*collapsed, *batching)
    length = indices[vector] if 0 <= vector < len(indices) else ONE
    rules = [
        (0 <= vector <= len(indices), f"index_vector_dim {vector} is in [0, {len(indices)}]"),
        (len(slice_sizes) == rank, f"slice_sizes has one entry for each of {rank} axes"),
        (
            length == Size.const(len(start_map)),
            f"index vectors have {len(start_map)} components, as start_index_map has",
        ),
        (
            len(set(start_map)) == len(start_map) and all(0 <= axis < rank for axis in start_map),
            "start_index_map names axes once",
        ),
        (list(attributes["offset_dims"]) == sorted(set(attributes["offset_dims"])), "offset_dims increases"),
        (
            len(set(dropped)) == len(dropped) and all(0 <= axis < rank for axis in dropped),
            "collapsed and batching axes differ",
        ),
        (not set(start_map) & set(batching), "no batching axis has a start index"),
        (
            len(batching) == len(attributes["start_indices_batching_dims"]),
            "batching axes of operand and indices pair up",
        ),
    ]
    for holds, rule in rules:
        if not holds:
            raise VerifyException(f"{name}: expected that {rule}")
    for axis in dropped:
        if slice_sizes[axis] != ONE:
            raise VerifyException(
                f"{name}: slice size of collapsed or batching axis {axis} is {slice_sizes[axis]}, expected 1"
            )
    for axis, other in zip(batching, attributes["start_indices_batching_dims"], strict=True):
        if not 0 <= other < len(indices) or other == vector or indices[other] != sizes[axis]:
            raise VerifyException(
                f"{name}: batching axis {axis} of size {sizes[axis]} does not match axis {other} of the indices"
            )


__all__ = ["Gather"]
