"""ONNX's Einsum: products of tensors by an equation over letters that name axes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from anyshape.dialects.dhlo import DotGeneral, Multiply, Reduce
from anyshape.dialects.dhlo.strided import Diagonal
from anyshape.frontends.onnx.builder import ONE, GraphBuilder
from anyshape.frontends.onnx.refusals import Malformed
from anyshape.frontends.onnx.registry import lowers
from anyshape.frontends.onnx.values import Value
from anyshape.nn import Tensor
from anyshape.symbolic import Size

_REST = "..."


@dataclass(frozen=True)
class _Named:
    """A tensor whose axes have names, each once."""

    tensor: Tensor
    names: tuple[str, ...]


@lowers("Einsum")
def lower_einsum(b: GraphBuilder, *operands: Value, equation: str) -> Value:
    """Σ over all axes that the result does not name, of the product of the operands; `...` names axes that are broadcast"""
    left, arrow, right = equation.replace(" ", "").partition("->")
    terms = left.split(",")
    if len(terms) != len(operands):
        raise Malformed(f"equation {equation!r} is for {len(terms)} operands; there are {len(operands)}")
    names = [_names(term, operand.rank) for term, operand in zip(terms, operands, strict=True)]
    rest = max((name for each in names for name in each if name.startswith(_REST)), key=len, default="")
    wanted = _result_names(right, names, len(rest) - len(_REST) if rest else 0) if arrow else _implied_names(names)
    sizes = _sizes(b, operands, names)
    factors = [_Named(*_diagonal(b, x, each, sizes)) for x, each in zip(operands, names, strict=True)]
    product = _summed(b, factors[0], {*wanted, *(name for each in factors[1:] for name in each.names)})
    for number, factor in enumerate(factors[1:], 1):
        later = {*wanted, *(name for each in factors[number + 1 :] for name in each.names)}
        product = _product(b, product, _summed(b, factor, {*later, *product.names}), later)
    if set(product.names) != set(wanted) or len(set(wanted)) != len(wanted):
        raise Malformed(f"equation {equation!r} names axes in its result that no operand has, or one twice")
    return b.transpose(product.tensor, [product.names.index(name) for name in wanted])


def _names(term: str, rank: int) -> list[str]:
    """The name of each axis: its letter, or, for one of those of `...`, dots that count from the last of them."""
    before, dots, after = term.partition(_REST)
    letters = before + after
    if not all(each.isascii() and each.isalpha() for each in letters) or _REST in after:
        raise Malformed(f"{term!r} is no list of letters")
    count = rank - len(letters)
    if count < 0 or (count and not dots):
        raise Malformed(f"{term!r} does not name {rank} axes")
    return [*before, *_rest_names(count), *after]


def _rest_names(count: int) -> list[str]:
    return [_REST + "." * number for number in reversed(range(count))]


def _result_names(term: str, names: Sequence[Sequence[str]], most: int) -> list[str]:
    has_rest = any(name.startswith(_REST) for each in names for name in each)
    count = most + 1 if has_rest and _REST in term else 0
    return _names(term, len(term.replace(_REST, "")) + count)


def _implied_names(names: Sequence[Sequence[str]]) -> list[str]:
    """Those of `...`, then the letters that occur once, in order."""
    every = [name for each in names for name in each]
    rest = sorted({name for name in every if name.startswith(_REST)}, key=len, reverse=True)
    return rest + sorted(name for name in every if not name.startswith(_REST) and every.count(name) == 1)


def _sizes(b: GraphBuilder, operands: Sequence[Value], names: Sequence[Sequence[str]]) -> dict[str, Size]:
    """The size of each name; of two sizes, one may be 1."""
    sizes: dict[str, Size] = {}
    for operand, each in zip(operands, names, strict=True):
        for name, size in zip(each, operand.sizes, strict=True):
            (sizes[name],) = b.common_sizes((sizes.get(name, ONE),), (size,))
    return sizes


def _diagonal(
    b: GraphBuilder, x: Value, names: Sequence[str], sizes: dict[str, Size]
) -> tuple[Tensor, tuple[str, ...]]:
    """x with every axis of its name's size, and with one axis where several have one name: their diagonal."""
    full, left = b.repeated(x, tuple(sizes[name] for name in names)), list(names)
    for name in dict.fromkeys(names):
        while left.count(name) > 1:
            first = left.index(name)
            second = left.index(name, first + 1)
            full = b.emit(Diagonal, full, first=first, second=second, row=0, column=0, length=sizes[name])
            left = [each for axis, each in enumerate(left) if axis not in (first, second)] + [name]
    return full, tuple(left)


def _summed(b: GraphBuilder, x: _Named, kept: Iterable[str]) -> _Named:
    """Summed over the names that are not kept."""
    wanted = set(kept)
    axes = tuple(axis for axis, name in enumerate(x.names) if name not in wanted)
    if not axes:
        return x
    return _Named(b.emit(Reduce, x.tensor, axes=axes, kind="sum"), tuple(name for name in x.names if name in wanted))


def _product(b: GraphBuilder, lhs: _Named, rhs: _Named, kept: Iterable[str]) -> _Named:
    """The product, summed over the common names that are not kept."""
    wanted = set(kept)
    common = [name for name in lhs.names if name in rhs.names]
    batch, contract = [name for name in common if name in wanted], [name for name in common if name not in wanted]
    free = [[name for name in each.names if name not in common] for each in (lhs, rhs)]
    names = (*batch, *free[0], *free[1])
    if not contract:
        return _Named(b.emit(Multiply, *(_laid_out(b, each, names, (lhs, rhs)) for each in (lhs, rhs))), names)
    tensor = b.emit(
        DotGeneral,
        lhs.tensor,
        rhs.tensor,
        lhs_batch=tuple(map(lhs.names.index, batch)),
        rhs_batch=tuple(map(rhs.names.index, batch)),
        lhs_contract=tuple(map(lhs.names.index, contract)),
        rhs_contract=tuple(map(rhs.names.index, contract)),
    )
    return _Named(tensor, names)


def _laid_out(b: GraphBuilder, x: _Named, names: Sequence[str], both: Sequence[_Named]) -> Tensor:
    """x with an axis for each name."""
    size_of = {name: size for each in both for name, size in zip(each.names, each.tensor.sizes, strict=True)}
    moved = b.transpose(x.tensor, [x.names.index(name) for name in names if name in x.names])
    apart = b.reshape(moved, [size_of[name] if name in x.names else ONE for name in names])
    return b.repeated(apart, tuple(size_of[name] for name in names))
