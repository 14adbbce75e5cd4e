"""Groups with canonical names: equal structure gives equal kernels, whatever the symbols were called in the program."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter

from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, FloatAttr
from xdsl.ir import Attribute, Block, Operation, SSAValue

from anyshape.dialects.dhlo.fusion import FusionOp
from anyshape.dialects.sizes import DimsAttr, Tensor, dtype_of, sizes_of, tensor
from anyshape.symbolic import Size


@dataclass(frozen=True)
class CanonicalGroup:
    """A group whose symbols are s0, s1, …; `symbols` is what the program calls these."""

    kind: str
    block: Block
    symbols: tuple[str, ...]

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


def symbols_in_order(fusion: FusionOp) -> list[str]:
    """The symbols of a group in order of appearance: s0, s1, …"""
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


def canonicalise(fusion: FusionOp, symbols: Sequence[str]) -> CanonicalGroup:
    """The group of `fusion`, with s0, s1, … for its symbols."""
    names = _names_of(symbols)
    block = Block(arg_types=[rename_type(argument.type, names) for argument in fusion.block.args])
    inner: dict[SSAValue, SSAValue] = dict(zip(fusion.block.args, block.args, strict=True))
    for op in fusion.block.ops:
        types: list[Attribute] = [rename_type(result.type, names) for result in op.results]
        copy = recreate(op, [inner[value] for value in op.operands], types)
        copy.attributes = {key: rename(value, names) for key, value in op.attributes.items()}
        block.add_op(copy)
        inner.update(zip(op.results, copy.results, strict=True))
    return CanonicalGroup(fusion.kind.data, block, tuple(symbols))


def structure_of(fusion: FusionOp, symbols: Sequence[str]) -> Hashable:
    """A key that two groups share where `canonicalise` gives the same ops of both: much sooner made than their text."""
    names = _names_of(symbols)
    numbers: dict[SSAValue, int] = {}

    def structure(attribute: Attribute) -> Hashable:
        match attribute:
            case DimsAttr():
                return tuple(size.substitute(names) for size in attribute.data)
            case FloatAttr():  # -0.0 equals 0.0, and is another constant
                return attribute.type, attribute.value.data.hex()
            case ArrayAttr():
                return tuple(map(structure, attribute.data))
            case DictionaryAttr():
                return tuple((key, structure(value)) for key, value in sorted(attribute.data.items()))
            case _ if hasattr(attribute, "encoding"):
                return type_structure(attribute)
            case _:
                return attribute

    def type_structure(type: Attribute) -> Hashable:
        return dtype_of(type).name, tuple(size.substitute(names) for size in sizes_of(type))

    def define(values: Iterable[SSAValue]) -> Hashable:
        """Number values; returns their types."""
        types: list[Hashable] = []
        for value in values:
            numbers[value] = len(numbers)
            types.append(type_structure(value.type))
        return tuple(types)

    rows: list[Hashable] = [fusion.kind.data, define(fusion.block.args)]
    for op in fusion.block.ops:
        operands = tuple(numbers[value] for value in op.operands)
        named = sorted([*op.attributes.items(), *op.properties.items()], key=itemgetter(0))
        rows.append((op.name, operands, tuple((key, structure(value)) for key, value in named), define(op.results)))
    return tuple(rows)


def _names_of(symbols: Sequence[str]) -> Mapping[str, Size]:
    return {symbol: Size.symbol(f"s{number}") for number, symbol in enumerate(symbols)}
