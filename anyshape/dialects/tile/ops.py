"""The `tile` dialect: kernel plans written in points.

A kernel is a loop nest over points whose bounds are size expressions; the body of a point is scalar upstream
`arith`/`math`. A plan names no block size, no vector and no mask: a target's emitter chooses them.

| op | meaning |
|---|---|
| `kernel @k symbols {…}` | a function of buffers; its size symbols are the run-time parameters |
| `parallel [e…] {(i…)}` | points that do not depend on one another, in any order, on any thread |
| `lanes [e] {(j)}` | points of one axis meant for vector lanes; yields are reduced over the axis by `kinds` |
| `loop [e] {(k)}` | points of one axis in order; yields are reduced like those of `lanes` |
| `dot [e] {(k)}` | Σ over k of a·b, a and b the two yields |
| `prefix kind v` | v folded over the points of the `lanes` or `loop` directly around it, from the first to this one |
| `load b[i…] (guard c)` | an element, or zero where the guard is false (then nothing is read) |
| `store v, b[i…]` | writes an element |
| `scratch` | a buffer private to one parallel point (a row kept between two `lanes`), written once |
| `size` | a size expression as an index |
| `check i, bound` | i1 `0 <= i < bound`; false makes the launch fail with index, bound and the site's text |
| `contract`, `attend` | claimable: a whole product, a whole attention, with what surrounds it as regions |
| `whole` | claimable: an op of `dhlo` on whole buffers |

Invariants (verified): buffers stored to are not loaded in the same kernel, scratch excepted; inside `parallel` a
store's indices together use every enclosing parallel and lane variable; `lanes` do not nest; every symbol in a size is
one of the kernel's; indices match the buffer's rank; reductions have one yield a kind. A kernel has one outermost op:
`parallel`, `lanes` without reductions, `contract`, `attend` or `whole`; its points are what a launch divides among threads.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from xdsl.dialects.builtin import ArrayAttr, FloatAttr, IndexType, IntegerAttr, IntegerType, StringAttr, UnitAttr, i64
from xdsl.ir import Attribute, Block, ParametrizedAttribute, Region, SSAValue, TypeAttribute
from xdsl.irdl import (
    AttrSizedOperandSegments,
    IRDLOperation,
    irdl_attr_definition,
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    prop_def,
    region_def,
    result_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.traits import IsolatedFromAbove, IsTerminator, NoTerminator, Pure, SymbolOpInterface
from xdsl.utils.exceptions import VerifyException

from anyshape.dialects.sizes import DimsAttr
from anyshape.symbolic import Size, SizeLike

INDEX = IndexType()
I1 = IntegerType(1)
KINDS = ("sum", "prod", "max", "min", "umax", "umin", "and", "or")
"""Reductions: Σ, Π, NaN-propagating (of integers: signed) max and min, unsigned max and min, conjunction, disjunction; over no
points the result is the identity."""
PREFIX_KINDS = (*KINDS, "logaddexp")
"""What prefixes fold by: reductions, and ln(eᵃ + eᵇ) of floats."""

Sizes: TypeAlias = Sequence[SizeLike]


def dims_attr(sizes: Sizes) -> DimsAttr:
    return DimsAttr(tuple(Size.of(size) for size in sizes))


@irdl_attr_definition
class BufferType(ParametrizedAttribute, TypeAttribute):
    """Elements in memory: `!tile.buffer<f32, #dhlo.dims<[b, 384]>, #dhlo.dims<[384, 1]>>`: element type, sizes, strides.

    Strides are in elements. i1 elements take a byte each.
    """

    name = "tile.buffer"
    element_type: Attribute
    sizes: DimsAttr
    strides: DimsAttr

    @property
    def rank(self) -> int:
        return len(self.sizes.data)


def buffer(element: Attribute, sizes: Sizes, strides: Sizes | None = None) -> BufferType:
    """A buffer type, dense row-major unless strides are given."""
    extents = [Size.of(size) for size in sizes]
    if strides is None:
        step = Size.const(1)
        steps: list[Size] = []
        for extent in reversed(extents):
            steps.insert(0, step)
            step = step * extent
        strides = steps
    return BufferType(element, dims_attr(extents), dims_attr(strides))


def buffer_of(value: SSAValue) -> BufferType:
    if not isinstance(value.type, BufferType):
        raise VerifyException(f"expected a tile.buffer, got {value.type}")
    return value.type


@irdl_op_definition
class YieldOp(IRDLOperation):
    """Ends a region with its values."""

    name = "tile.yield"
    values = var_operand_def()
    traits = traits_def(IsTerminator())
    assembly_format = "attr-dict ($values^ `:` type($values))?"

    def __init__(self, *values: SSAValue) -> None:
        super().__init__(operands=[list(values)])


@irdl_op_definition
class KernelOp(IRDLOperation):
    """A kernel plan. The region's arguments are its buffers, in the order in which a launch passes them."""

    name = "tile.kernel"
    sym_name = prop_def(StringAttr)
    symbols = prop_def(ArrayAttr[StringAttr])
    """Size symbols, in the order in which a launch passes their values."""
    body = region_def("single_block")
    traits = traits_def(IsolatedFromAbove(), NoTerminator(), SymbolOpInterface())
    assembly_format = "$sym_name `symbols` $symbols attr-dict-with-keyword $body"

    def __init__(self, name: str, symbols: Sequence[str], buffers: Sequence[Attribute]) -> None:
        super().__init__(
            properties={"sym_name": StringAttr(name), "symbols": ArrayAttr([StringAttr(symbol) for symbol in symbols])},
            regions=[Region(Block(arg_types=buffers))],
        )

    @property
    def symbol_names(self) -> tuple[str, ...]:
        return tuple(symbol.data for symbol in self.symbols.data)


@irdl_op_definition
class ParallelOp(IRDLOperation):
    """Runs its region at every point of the box `extents`, independently."""

    name = "tile.parallel"
    extents = prop_def(DimsAttr)
    body = region_def("single_block")
    traits = traits_def(NoTerminator())
    assembly_format = "$extents attr-dict-with-keyword $body"

    def __init__(self, extents: Sizes) -> None:
        super().__init__(
            properties={"extents": dims_attr(extents)}, regions=[Region(Block(arg_types=[INDEX] * len(extents)))]
        )

    @property
    def indices(self) -> tuple[SSAValue, ...]:
        return tuple(self.body.block.args)


class AxisOp(IRDLOperation):
    """Runs its region along one axis and reduces the yields: result[r] = fold of kinds[r] over the axis."""

    extent = prop_def(DimsAttr)
    kinds = prop_def(ArrayAttr[StringAttr])
    results_ = var_result_def()
    body = region_def("single_block")

    def __init__(self, extent: SizeLike, kinds: Sequence[str] = (), result_types: Sequence[Attribute] = ()) -> None:
        super().__init__(
            properties={"extent": dims_attr([extent]), "kinds": ArrayAttr([StringAttr(kind) for kind in kinds])},
            result_types=[list(result_types)],
            regions=[Region(Block(arg_types=[INDEX]))],
        )

    @property
    def size(self) -> Size:
        return self.extent.data[0]

    @property
    def index(self) -> SSAValue:
        return self.body.block.args[0]

    @property
    def kind_names(self) -> tuple[str, ...]:
        return tuple(kind.data for kind in self.kinds.data)

    @property
    def yielded(self) -> Sequence[SSAValue]:
        last = self.body.block.last_op
        assert isinstance(last, YieldOp)
        return last.values

    def verify_(self) -> None:
        last = self.body.block.last_op
        if not isinstance(last, YieldOp):
            raise VerifyException(f"{self.name} must end with tile.yield")
        unknown = [kind for kind in self.kind_names if kind not in KINDS]
        if unknown:
            raise VerifyException(f"{self.name}: unknown reductions {unknown}; known are {', '.join(KINDS)}")
        if not len(last.values) == len(self.kinds) == len(self.results):
            raise VerifyException(
                f"{self.name}: {len(last.values)} yields, {len(self.kinds)} kinds, {len(self.results)} results must agree"
            )
        for kind, value in zip(self.kind_names, last.values, strict=True):
            if kind in ("umax", "umin") and not isinstance(value.type, IntegerType):
                raise VerifyException(f"{self.name}: {kind} is of integers, not of {value.type}")
        for position, (value, result) in enumerate(zip(last.values, self.results, strict=True)):
            if value.type != result.type:
                raise VerifyException(f"{self.name}: yield {position} is {value.type}, its result {result.type}")


@irdl_op_definition
class LanesOp(AxisOp):
    """An axis meant for vector lanes."""

    name = "tile.lanes"
    assembly_format = "$extent $kinds attr-dict-with-keyword (`->` type($results_)^)? $body"


@irdl_op_definition
class LoopOp(AxisOp):
    """An axis walked in order."""

    name = "tile.loop"
    assembly_format = "$extent $kinds attr-dict-with-keyword (`->` type($results_)^)? $body"


@irdl_op_definition
class DotOp(IRDLOperation):
    """result = Σ over k < extent of a(k)·b(k); a and b are the region's two yields. Products and sums may be fused."""

    name = "tile.dot"
    extent = prop_def(DimsAttr)
    result = result_def()
    body = region_def("single_block")
    assembly_format = "$extent attr-dict-with-keyword `->` type($result) $body"

    def __init__(self, extent: SizeLike, result_type: Attribute) -> None:
        super().__init__(
            properties={"extent": dims_attr([extent])},
            result_types=[result_type],
            regions=[Region(Block(arg_types=[INDEX]))],
        )

    @property
    def size(self) -> Size:
        return self.extent.data[0]

    @property
    def index(self) -> SSAValue:
        return self.body.block.args[0]

    def verify_(self) -> None:
        last = self.body.block.last_op
        if not isinstance(last, YieldOp) or len(last.values) != 2:
            raise VerifyException("tile.dot must yield its two factors")
        if any(value.type != self.result.type for value in last.values):
            raise VerifyException("tile.dot: both factors must have the result's type")


@irdl_op_definition
class LoadOp(IRDLOperation):
    """result = buffer[indices], or zero where `guard` is false."""

    name = "tile.load"
    buffer = operand_def(BufferType)
    indices = var_operand_def(INDEX)
    guard = opt_operand_def(I1)
    result = result_def()
    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    assembly_format = "$buffer `[` $indices `]` (`guard` $guard^)? attr-dict `:` type($buffer) `->` type($result)"

    def __init__(self, buffer: SSAValue, indices: Sequence[SSAValue], guard: SSAValue | None = None) -> None:
        super().__init__(
            operands=[buffer, list(indices), [] if guard is None else [guard]],
            result_types=[buffer_of(buffer).element_type],
        )

    def verify_(self) -> None:
        _check_access(self.name, self.buffer, self.indices, self.result.type)


@irdl_op_definition
class StoreOp(IRDLOperation):
    """buffer[indices] = value."""

    name = "tile.store"
    value = operand_def()
    buffer = operand_def(BufferType)
    indices = var_operand_def(INDEX)
    assembly_format = "$value `,` $buffer `[` $indices `]` attr-dict `:` type($value) `,` type($buffer)"

    def __init__(self, value: SSAValue, buffer: SSAValue, indices: Sequence[SSAValue]) -> None:
        super().__init__(operands=[value, buffer, list(indices)])

    def verify_(self) -> None:
        _check_access(self.name, self.buffer, self.indices, self.value.type)


def _check_access(name: str, target: SSAValue, indices: Sequence[SSAValue], element: Attribute) -> None:
    type = buffer_of(target)
    if len(indices) != type.rank:
        raise VerifyException(f"{name}: {len(indices)} indices for a buffer of rank {type.rank}")
    if element != type.element_type:
        raise VerifyException(f"{name}: element is {element}, the buffer holds {type.element_type}")


@irdl_op_definition
class ScratchOp(IRDLOperation):
    """A buffer private to the enclosing parallel point."""

    name = "tile.scratch"
    result = result_def(BufferType)
    assembly_format = "attr-dict `:` type($result)"

    def __init__(self, element: Attribute, sizes: Sizes) -> None:
        super().__init__(result_types=[buffer(element, sizes)])


@irdl_op_definition
class SizeOp(IRDLOperation):
    """A size expression over the kernel's symbols as an index."""

    name = "tile.size"
    size = prop_def(DimsAttr)
    result = result_def(INDEX)
    traits = traits_def(Pure())
    assembly_format = "$size attr-dict"

    def __init__(self, size: SizeLike) -> None:
        super().__init__(properties={"size": dims_attr([size])}, result_types=[INDEX])

    @property
    def expression(self) -> Size:
        return self.size.data[0]


@irdl_op_definition
class CheckOp(IRDLOperation):
    """result = 0 <= index < bound. Where false, and `guard` is not, the launch fails with RAL_INDEX, `site`, the index and the bound."""

    name = "tile.check"
    index = operand_def(INDEX)
    bound = prop_def(DimsAttr)
    guard = opt_operand_def(I1)
    site = prop_def(IntegerAttr)
    result = result_def(I1)
    assembly_format = "$index `,` $bound (`guard` $guard^)? `site` $site attr-dict"

    def __init__(self, index: SSAValue, bound: SizeLike, site: int, guard: SSAValue | None = None) -> None:
        super().__init__(
            operands=[index, [] if guard is None else [guard]],
            properties={"bound": dims_attr([bound]), "site": IntegerAttr(site, i64)},
            result_types=[I1],
        )


@irdl_op_definition
class AttendOp(IRDLOperation):
    """out[b, h, i, :] = Σ_t softmax_t(scale · q[b,h,i,:]·k[b,h/g,t,:] + mask[b,h,i,t]) · v[b,h/g,t,:], claimable.

    Buffers in index order q [b,h,s,d], k [b,hk,t,d], v [b,hk,t,e], out [b,h,s,e], mask [b,h,s,t] with stride 0 on axes
    of size 1; strides say how they lie in memory. g = h / hk. A bool mask keeps scores where true; a row with none gives
    zeros. k and v may have a type of their own; `scaled` by f32 [b, hk, t] they stand for k·key_scale and v·value_scale.
    `causal` keeps t <= i, or with `after_past` t <= i + (t − s): the queries are the last positions, and with
    `window` w only the last w of those.
    """

    name = "tile.attend"
    query = operand_def(BufferType)
    key = operand_def(BufferType)
    value = operand_def(BufferType)
    out = operand_def(BufferType)
    mask = opt_operand_def(BufferType)
    key_scale = opt_operand_def(BufferType)
    value_scale = opt_operand_def(BufferType)
    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    extents = prop_def(DimsAttr)
    """(b, h, hk, s, t, d, e)."""
    scale = prop_def(FloatAttr)
    causal = opt_prop_def(UnitAttr)
    after_past = opt_prop_def(UnitAttr)
    window = opt_prop_def(IntegerAttr)
    assembly_format = (
        "$query `,` $key `,` $value `into` $out (`mask` $mask^ `:` type($mask))? "
        "(`scaled` $key_scale^ `:` type($key_scale) `,` $value_scale `:` type($value_scale))? `extents` $extents `scale` $scale "
        "(`causal` $causal^)? (`after_past` $after_past^)? (`window` $window^)? attr-dict "
        "`:` type($query) `,` type($key) `,` type($value) `,` type($out)"
    )

    def __init__(
        self,
        query: SSAValue,
        key: SSAValue,
        value: SSAValue,
        out: SSAValue,
        mask: SSAValue | None,
        extents: Sizes,
        scale: float,
        *,
        causal: bool,
        after_past: bool = False,
        window: int = 0,
        scales: Sequence[SSAValue] = (),
    ) -> None:
        super().__init__(
            operands=[query, key, value, out, [] if mask is None else [mask], scales[:1], scales[1:]],
            properties={
                "extents": dims_attr(extents),
                "scale": FloatAttr(scale, 64),
                "causal": UnitAttr() if causal else None,
                "after_past": UnitAttr() if after_past else None,
                "window": IntegerAttr(window, i64) if window else None,
            },
        )

    @property
    def scales(self) -> tuple[SSAValue, ...]:
        """(of keys, of values), or nothing."""
        return tuple(each for each in (self.key_scale, self.value_scale) if each is not None)


__all__ = [
    "KINDS",
    "PREFIX_KINDS",
    "AttendOp",
    "AxisOp",
    "BufferType",
    "CheckOp",
    "DotOp",
    "KernelOp",
    "LanesOp",
    "LoadOp",
    "LoopOp",
    "ParallelOp",
    "ScratchOp",
    "SizeOp",
    "StoreOp",
    "YieldOp",
    "buffer",
    "buffer_of",
    "dims_attr",
]
