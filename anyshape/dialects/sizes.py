"""Symbolic sizes as attributes: on tensor types, on ops, and the one maker of tensor types."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from typing import TypeAlias, cast

from xdsl.dialects.builtin import DYNAMIC_INDEX, NoneAttr, TensorType
from xdsl.ir import Attribute, Data
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.utils.exceptions import ParseError, VerifyException
from xdsl.utils.mlir_lexer import MLIRTokenKind

from anyshape.dialects.dtypes import DType, dtype_of_type
from anyshape.symbolic import Relation, Size, SizeLike, parse_relation, parse_size

Tensor: TypeAlias = TensorType[Attribute]

_OPENING = {MLIRTokenKind.L_PAREN, MLIRTokenKind.L_SQUARE}
_CLOSING = {MLIRTokenKind.R_PAREN, MLIRTokenKind.R_SQUARE}


def _text_until_closing(parser: AttrParser) -> list[str]:
    """Source text of comma separated expressions up to the bracket that closes the list, which is left unread."""
    texts: list[str] = [""]
    depth = 0
    while True:
        token = parser._current_token  # pyright: ignore[reportPrivateUsage]
        if token.kind == MLIRTokenKind.EOF:
            raise ParseError(token.span, "size list is not closed")
        if depth == 0 and token.kind in _CLOSING:
            break
        depth += (token.kind in _OPENING) - (token.kind in _CLOSING)
        if depth == 0 and token.kind == MLIRTokenKind.COMMA:
            texts.append("")
        else:
            texts[-1] += f" {token.text}"
        parser._consume_token()  # pyright: ignore[reportPrivateUsage]
    return [text.strip() for text in texts if text.strip()]


def _parse_list(parser: AttrParser) -> list[str]:
    with parser.in_angle_brackets():
        parser.parse_punctuation("[")
        texts = _text_until_closing(parser)
        parser.parse_punctuation("]")
    return texts


@irdl_attr_definition
class DimsAttr(Data[tuple[Size, ...]]):
    """A list of size expressions: `#dhlo.dims<[b, 2*s]>`."""

    name = "dhlo.dims"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> tuple[Size, ...]:
        return tuple(parse_size(text) for text in _parse_list(parser))

    def print_parameter(self, printer: Printer) -> None:
        printer.print_string("<[" + ", ".join(str(size) for size in self.data) + "]>")


@irdl_attr_definition
class RelationAttr(Data[Relation]):
    """A relation between sizes: `#dhlo.relation<"s <= 512">`; quoted, since comparison signs do not lex in attributes."""

    name = "dhlo.relation"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> Relation:
        with parser.in_angle_brackets():
            return parse_relation(parser.parse_str_literal())

    def print_parameter(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_string_literal(str(self.data))


def dims(*sizes: SizeLike) -> DimsAttr:
    """A `dhlo.dims` attribute of these sizes."""
    return DimsAttr(tuple(Size.of(size) for size in sizes))


@cache
def _tensor(sizes: tuple[Size, ...], dtype: DType) -> Tensor:
    shape = [size.value if size.is_constant else DYNAMIC_INDEX for size in sizes]
    dynamic = tuple(size for size in sizes if not size.is_constant)
    encoding = DimsAttr(dynamic) if dynamic else NoneAttr()
    return TensorType(dtype.type, shape, encoding)


def tensor(dtype: DType, sizes: Iterable[SizeLike]) -> Tensor:
    """The interned tensor type of this element type and these sizes.

    Constant sizes stand in the shape; each `?` has its expression in the encoding, in order:
    `tensor<?x?x384xf32, #dhlo.dims<[b, 2*s]>>`.
    """
    return _tensor(tuple(Size.of(size) for size in sizes), dtype)


@cache
def sizes_of(type: Attribute) -> tuple[Size, ...]:
    """The size of every axis of a tensor type, constants included.

    Raises VerifyException when the encoding does not give one expression for each dynamic axis.
    """
    if not isinstance(type, TensorType):
        raise VerifyException(f"expected a tensor type, got {type}")
    shape = type.get_shape()
    encoding = type.encoding
    expressions = encoding.data if isinstance(encoding, DimsAttr) else ()
    if sum(extent == DYNAMIC_INDEX for extent in shape) != len(expressions):
        raise VerifyException(f"{type} must carry one size expression for each '?', got {len(expressions)}")
    rest = iter(expressions)
    return tuple(next(rest) if extent == DYNAMIC_INDEX else Size.const(extent) for extent in shape)


def rank_of(type: Attribute) -> int:
    return len(sizes_of(type))


def dtype_of(type: Attribute) -> DType:
    """The element type of a tensor type."""
    if not isinstance(type, TensorType):
        raise VerifyException(f"expected a tensor type, got {type}")
    return dtype_of_type(cast("Tensor", type).element_type)


def numel(sizes: Sequence[Size]) -> Size:
    """The number of elements: the product of the sizes."""
    total = Size.const(1)
    for size in sizes:
        total = total * size
    return total


def without_ones(sizes: Iterable[Size]) -> tuple[Size, ...]:
    """The sizes that are not the constant 1: what is left tells where elements lie in row-major memory."""
    return tuple(size for size in sizes if size != Size.const(1))


def symbols_of(types: Iterable[Attribute]) -> frozenset[str]:
    """Every size symbol that occurs in these tensor types."""
    found: frozenset[str] = frozenset()
    for type in types:
        for size in sizes_of(type):
            found |= size.symbols
    return found


def row_major_strides(sizes: Sequence[Size]) -> tuple[Size, ...]:
    """Strides in elements of a dense row-major tensor: stride[i] = product of sizes[i+1:]."""
    strides: list[Size] = []
    step = Size.const(1)
    for size in reversed(sizes):
        strides.append(step)
        step = step * size
    return tuple(reversed(strides))


__all__ = [
    "DimsAttr",
    "RelationAttr",
    "Tensor",
    "dims",
    "dtype_of",
    "numel",
    "rank_of",
    "row_major_strides",
    "sizes_of",
    "symbols_of",
    "tensor",
    "without_ones",
]
