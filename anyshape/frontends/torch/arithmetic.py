"""Python's arithmetic on sizes in a model, exact at every size: PyTorch's own holds for sizes of 2 and more, and divides by anything.

Sympy takes every size for positive, so `max(n, 1)` and `abs(n - 1)` are n and n - 1 to PyTorch, `k % (k + n)` is k, and a nested
`n // 2 // -3` becomes `n // -6`. Such a result is a derived size instead, whose definition is Python's; where it may be negative, which no
size is, that both agree is a condition. And Python divides by no zero: that a divisor is none is a condition too.

Only the model's own code is meant. What PyTorch's asks of sizes has a case of its own where they are 0.
"""

# PyTorch and sympy are typed in part only.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import sympy
import torch
from torch.fx.experimental import proxy_tensor
from torch.fx.experimental.sym_node import SymNode
from torch.utils._sympy import functions as symbolic
from torch.utils._sympy.symbol import SymT, symbol_is_type

from anyshape.dialects.locations import Origin
from anyshape.frontends.torch.askers import A_GRAPH, computing
from anyshape.frontends.torch.derived import DerivedSizes, Required
from anyshape.frontends.torch.origins import CONDITION, DIVISION, origin_at
from anyshape.frontends.torch.ratios import is_never_negative
from anyshape.frontends.torch.replacing import replaced
from anyshape.frontends.torch.sizes import SizeNames, size_magnitude
from anyshape.frontends.torch.unsupported import Unsupported
from anyshape.symbolic import Facts, Relation, Size, SizeError, size_max, size_min

_EXACT: Mapping[str, Callable[..., Size]] = {
    "int_floordiv": Size.__floordiv__,
    "mod": Size.__mod__,
    "sym_max": size_max,
    "sym_min": size_min,
    "abs": size_magnitude,
}
"""What Python computes, by PyTorch's names."""

_DIVISIONS = frozenset({"int_floordiv", "mod", "int_truediv", "float_truediv"})
_POWERS = frozenset({"float_pow"})
_PRODUCT = "mul"
_NEVER_NEGATIVE = frozenset({"abs"})

_ELSEWHERE = "PyTorch's own code"


@dataclass(frozen=True)
class Arithmetic:
    """A function of sizes as Python computes it: a `Rule`."""

    name: str

    def size(self, parts: Sequence[Size]) -> Size:
        return _EXACT[self.name](*parts)


class _Watch:
    """Looks at each result of PyTorch's arithmetic on symbols while a model is exported and its graph decomposed."""

    def __init__(self, derived: DerivedSizes) -> None:
        self._derived = derived
        self._place: str | None = None
        self._names: dict[int, SizeNames] = {}

    def watched(self, name: str, compute: Callable[..., SymNode]) -> Callable[..., SymNode]:
        """`compute`, PyTorch's method `name` of symbols, with a result that is exact where the model asks."""

        def computed(*operands: Any) -> SymNode:
            if proxy_tensor.get_proxy_mode() is not None:  # comes back here without it, from files of PyTorch
                before, self._place = self._place, self._place or computing() or _ELSEWHERE
                try:
                    return compute(*operands)
                finally:
                    self._place = before
            result = compute(*operands)
            if name == _PRODUCT:
                return _in_order(operands, result)
            place = self._place or computing()
            if place in (None, _ELSEWHERE) or any(map(_is_of_data, operands)):
                return result
            if place != A_GRAPH:
                self._note_divisor(name, operands, place)
            return self._exact(name, operands, result, place) if name in _EXACT else result

        return computed

    def _note_divisor(self, name: str, operands: Sequence[Any], place: str) -> None:
        divisor = _divisor(name, operands)
        if divisor is not None and not divisor.is_number:
            self._derived.required.setdefault(Required((divisor,)), place)

    def _exact(self, name: str, operands: Sequence[Any], result: SymNode, place: str) -> SymNode:
        """A derived size where PyTorch's result is another at some sizes; a condition where that may be negative."""
        rule, parts = Arithmetic(name), tuple(operand.expr for operand in operands)
        known = self._derived.found(rule, parts)
        if known is None and place != A_GRAPH:
            exact = self._differs(rule, parts, result)
            if exact is not None:
                hint, environment = result.hint, result.shape_env
                if (
                    environment is not None
                    and hint is not None
                    and (name in _NEVER_NEGATIVE or is_never_negative(exact))
                ):
                    known = self._derived.symbol(environment, rule, parts, int(hint))
                else:
                    self._derived.required.setdefault(Required(parts, rule, result.expr), place)
        return result if known is None else known.node

    def _differs(self, rule: Arithmetic, parts: Sequence[Any], result: SymNode) -> Size | None:
        """What Python computes, where PyTorch's result is not known to be that."""
        environment = result.shape_env
        names = self._names.get(id(environment))
        if names is None:
            names = SizeNames(environment, {}, {}, {}, self._derived.known)
            self._names[id(environment)] = names
        try:
            sizes = [names.expression(part) for part in parts]
            if rule.name in _DIVISIONS:
                names.never_zero.add(sizes[1])
            exact, got = rule.size(sizes), names.expression(result.expr)
        except (Unsupported, SizeError):  # has no exact form as a size: whoever uses it says so
            return None
        return None if exact == got or Facts().prove(exact.eq(got)) is True else exact


def _divisor(name: str, operands: Sequence[Any]) -> Any:
    """What must not be zero, without factors that are not; None where there is nothing."""
    if name in _DIVISIONS:
        divisor = operands[1].expr
    elif name in _POWERS and operands[1].expr.is_number and operands[1].expr < 0:
        divisor = operands[0].expr
    else:
        return None
    while isinstance(divisor, symbolic.ToFloat):
        divisor = divisor.args[0]
    return divisor if divisor.is_integer else None


def _in_order(operands: Sequence[Any], result: SymNode) -> SymNode:
    """A product of floats that rounds where Python's does: (n·0.1)·10 is not n·1, which sympy makes of it."""
    if result.pytype is not float or not isinstance(result.expr, sympy.Mul):
        return result
    apart = [_held(operand.expr) for operand in operands]
    if apart == [operand.expr for operand in operands]:
        return result
    return SymNode(sympy.Mul(*apart), result.shape_env, float, result.hint, fx_node=result.fx_node)


def _held(factor: Any) -> Any:
    is_rounded = isinstance(factor, sympy.Mul) and factor.has(sympy.Float)
    return symbolic.Identity(factor) if is_rounded else factor


def _is_of_data(operand: Any) -> bool:
    return any(not symbol_is_type(symbol, SymT.SIZE) for symbol in operand.expr.free_symbols)


@contextmanager
def exact_arithmetic(derived: DerivedSizes) -> Generator[None]:
    """While inside, what the model computes from sizes is what Python computes; what that takes is noted in `derived`."""
    watch = _Watch(derived)
    with ExitStack() as stack:
        for name in sorted({*_EXACT, *_DIVISIONS, *_POWERS, _PRODUCT}):
            stack.enter_context(replaced(SymNode, name, watch.watched(name, getattr(SymNode, name))))
        for name, method in _MISSING.items():
            if not hasattr(torch.SymInt, name):
                setattr(torch.SymInt, name, method)
                stack.callback(delattr, torch.SymInt, name)
        yield


def _divmod(a: Any, b: Any) -> tuple[Any, Any]:
    return a // b, a % b


def _reflected_divmod(b: Any, a: Any) -> tuple[Any, Any]:
    return a // b, a % b


def _invert(a: Any) -> Any:
    return -a - 1


_MISSING: Mapping[str, Callable[..., Any]] = {
    "__divmod__": _divmod,
    "__rdivmod__": _reflected_divmod,
    "__invert__": _invert,
}
"""Python's operators on integers that PyTorch's sizes do not have."""


def know_divisors(derived: DerivedSizes, names: SizeNames) -> None:
    """Tells `names` which divisors conditions keep from zero; a divisor comes behind those that it is computed from."""
    for required in derived.required:
        if required.rule is None:
            try:
                names.never_zero.add(names.expression(required.parts[0]))
            except Unsupported:
                continue


def required_relations(derived: DerivedSizes, names: SizeNames) -> Iterator[tuple[Relation, Origin]]:
    """The conditions under which the model's arithmetic is what the graph computes."""
    for required, place in derived.required.items():
        sizes = [names.expression(part) for part in required.parts]
        origin = origin_at(CONDITION if required.rule is not None else DIVISION, place)
        if required.rule is None or required.result is None:
            relation = sizes[0].ne(0)
        else:
            relation = required.rule.size(sizes).eq(names.expression(required.result))
        if relation.symbols:
            yield relation, origin


__all__ = ["Arithmetic", "exact_arithmetic", "know_divisors", "required_relations"]
