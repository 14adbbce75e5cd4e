"""Groups with canonical names: equal structure gives equal text, whatever the symbols were called in the program."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from io import StringIO

from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.printer import Printer

from anyshape.dialects.dhlo.fusion import FusionOp
from anyshape.dialects.sizes import DimsAttr, Tensor, dtype_of, sizes_of, tensor
from anyshape.symbolic import Size


@dataclass(frozen=True)
class CanonicalGroup:
    """A group whose symbols are s0, s1, …: `key` is its text; `symbols` what the program calls s0, s1, …"""

    kind: str
    block: Block
    symbols: tuple[str, ...]
    key: str

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(f"s{number}" for number in range(len(self.symbols)))


def rename(attribute: Attribute, names: Mapping[str, Size]) -> Attribute:
    """An attribute or tensor type with symbols replaced."""
    match attribute:
        case DimsAttr():
            return DimsAttr(tuple(size.substitute(names) for size in attribute.data))
        case _ if hasattr(attribute, "encoding"):
            return rename_type(attribute, names)
        case _:
            return attribute


def rename_type(type: Attribute, names: Mapping[str, Size]) -> Tensor:
    return tensor(dtype_of(type), [size.substitute(names) for size in sizes_of(type)])


def _symbols_in_order(fusion: FusionOp) -> list[str]:
    found: dict[str, None] = {}

    def note(sizes: Iterable[Size]) -> None:
        for size in sizes:
            found.update(dict.fromkeys(sorted(size.symbols)))

    for value in (*fusion.inputs, *fusion.results):
        note(sizes_of(value.type))
    for op in fusion.block.ops:
        for attribute in op.attributes.values():
            note(attribute.data if isinstance(attribute, DimsAttr) else ())
        for result in op.results:
            note(sizes_of(result.type))
    return list(found)


def recreate(op: Operation, operands: list[SSAValue], result_types: list[Attribute]) -> Operation:
    """A copy of `op` with other operands and result types; attributes and location stay."""
    copy = type(op).create(
        operands=operands,
        result_types=result_types,
        properties=dict(op.properties),
        attributes=dict(op.attributes),
    )
    copy.location = op.location
    return copy


def canonicalise(fusion: FusionOp) -> CanonicalGroup:
    """The group of `fusion` with symbols s0, s1, … in order of appearance."""
    symbols = _symbols_in_order(fusion)
    names = {symbol: Size.symbol(f"s{number}") for number, symbol in enumerate(symbols)}
    block = Block(arg_types=[rename_type(argument.type, names) for argument in fusion.block.args])
    inner: dict[SSAValue, SSAValue] = dict(zip(fusion.block.args, block.args, strict=True))
    for op in fusion.block.ops:
        types: list[Attribute] = [rename_type(result.type, names) for result in op.results]
        copy = recreate(op, [inner[value] for value in op.operands], types)
        copy.attributes = {key: rename(value, names) for key, value in op.attributes.items()}
        block.add_op(copy)
        inner.update(zip(op.results, copy.results, strict=True))
    return CanonicalGroup(fusion.kind.data, block, tuple(symbols), f"{fusion.kind.data}\n{text_of(block)}")


def text_of(block: Block) -> str:
    """The block as text, SSA names canonical."""
    stream = StringIO()
    Printer(stream=stream, print_generic_format=False).print_region(_cloned(block))
    return stream.getvalue()


def _cloned(block: Block) -> Region:
    """A region with a copy of the block, since a block belongs to one region only."""
    region = Region(Block(arg_types=block.arg_types))
    mapper: dict[SSAValue, SSAValue] = dict(zip(block.args, region.block.args, strict=True))
    for op in block.ops:
        region.block.add_op(op.clone(mapper))
    return region
