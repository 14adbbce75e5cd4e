"""Example sizes from which the model derives a size of 0 or 1.

Export answers questions about layout (is this contiguous? is that stride free?) by the example. Where a derived size is 1, as that of
`x[::2]` for two elements, the answer fixes the size, which the model never asked for; so it does where a stride happens to be a product of
sizes, as that of `x[:, ::2]` for an even length. Another example gets the general answer, and that includes the special sizes.
"""

# PyTorch and sympy are typed in part only.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import sympy
import torch
from torch.export import ExportedProgram
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch.utils import _pytree as pytree
from torch.utils._sympy import functions as symbolic

from anyshape.frontends.torch.derived import USUAL, Derived
from anyshape.frontends.torch.examples import Axis, split_path
from anyshape.frontends.torch.guards import asked_by_model, is_bound_by_one
from anyshape.frontends.torch.sizes import SizeNames, shape_environment
from anyshape.frontends.torch.unsupported import Unsupported
from anyshape.symbolic import Facts

_SQUEEZES = ("aten.squeeze.default", "aten.squeeze.dim", "aten.squeeze.dims")
_SMALL = (sympy.Integer(0), sympy.Integer(1))


class Traced:
    """An export beside the call that it is for.

    Args:
        program: the export, before decomposition.
        leaves: the caller's flattened example; the export's own may have other sizes.
        structure: how `(args, kwargs)` flatten to them.
        about_strides: identities of guards that say which strides a view or a copy gets.
        derived: symbols for sizes that PyTorch cannot state.
        needless: identities of guards that need not hold.
    """

    def __init__(
        self,
        program: ExportedProgram,
        leaves: Sequence[Any],
        structure: pytree.TreeSpec,
        about_strides: Collection[int] = (),
        derived: Mapping[sympy.Basic, Derived] = MappingProxyType({}),
        needless: Collection[int] = (),
    ) -> None:
        self._program = program
        self._needless = needless
        self._derived = derived
        self._about_strides = about_strides
        self._environment = shape_environment(node.meta.get("val") for node in program.graph.nodes)
        self._leaves = leaves
        self._axes = _axes_of_symbols(self._environment, leaves, structure)

    def narrowed(self) -> frozenset[Axis]:
        """Input axes from which a size is derived that PyTorch's own code has fixed at 0 or 1, or tied to a stride."""
        symbols = {symbol for fixed in self._fixed() for symbol in self._origins(fixed)}
        symbols = symbols - self._given_outright() or symbols
        return frozenset(axis for symbol, axis in self._axes.items() if symbol in symbols)

    def _origins(self, expression: sympy.Basic) -> set[sympy.Basic]:
        """The symbols that an expression is computed from in the end."""
        found: set[sympy.Basic] = set()
        for symbol in expression.free_symbols:
            parts = self._derived[symbol].parts if symbol in self._derived else ()
            found |= {symbol} if not parts else {each for part in parts for each in self._origins(part)}
        return found

    def narrowings(self) -> int:
        """How many derived sizes are so fixed."""
        return len(set(self._fixed()))

    def admits_the_example(self) -> bool:
        """Whether the caller's own sizes meet the equalities of this export and the conditions that the model's code asked for."""
        values = self._example_values()
        if self.kept_ones():
            return False
        for guard in self._guards():
            is_equality = isinstance(guard.expr, sympy.Eq)
            about_one = is_equality and id(guard) in self._about_strides and is_bound_by_one(guard.expr)
            if asked_by_model(guard) or (is_equality and not about_one):
                try:
                    if guard.expr.xreplace(values) == sympy.false:
                        return False
                except ZeroDivisionError:
                    continue
        return True

    def crosses(self, sizes: Mapping[Axis, int]) -> bool:
        """Whether one of the model's conditions is another at these sizes: a graph of theirs would not hold for the caller's."""
        values = self._values(sizes)
        for guard in self._guards():
            if asked_by_model(guard) and id(guard) not in self._about_strides:
                try:
                    if guard.expr.xreplace(values) == sympy.false:
                        return True
                except ZeroDivisionError:
                    continue
        return False

    def kept_ones(self) -> frozenset[Axis]:
        """Input axes of size 1 in the caller's example that the model squeezes, but not the export, whose example has other sizes there."""
        values, symbols = self._example_values(), set[sympy.Basic]()
        for node in self._program.graph.nodes:
            if str(node.target) not in _SQUEEZES:
                continue
            x = node.args[0].meta["val"]
            dims = node.args[1] if len(node.args) > 1 else range(x.dim())
            for dim in [dims] if isinstance(dims, int) else dims:
                size = x.shape[dim] if x.dim() else 1
                if isinstance(size, torch.SymInt) and size.node.expr.xreplace(values) == 1:
                    symbols |= self._origins(size.node.expr)
        return frozenset(axis for symbol, axis in self._axes.items() if symbol in symbols)

    def _example_values(self) -> dict[Any, Any]:
        """The sizes of the caller's example."""
        return self._values({})

    def _values(self, sizes: Mapping[Axis, int]) -> dict[Any, Any]:
        """The sizes of the caller's example with others for some axes."""
        values: dict[Any, Any] = {
            symbol: sympy.Integer(sizes.get((leaf, axis), self._leaves[leaf].shape[axis]))
            for symbol, (leaf, axis) in self._axes.items()
        }
        for symbol, derived in self._derived.items():
            value = derived.value(part.xreplace(values) for part in derived.parts)
            if value is not None:
                values[symbol] = sympy.Integer(value)
        return values

    def _given_outright(self) -> set[sympy.Basic]:
        """The symbols that a guard says are a constant, as those of axes that meet weights: another size is hardly worth a try."""
        return {
            guard.expr.lhs
            for guard in self._guards()
            if isinstance(guard.expr, sympy.Eq) and guard.expr.lhs.is_Symbol and guard.expr.rhs.is_Integer
        }

    def _fixed(self) -> Iterator[sympy.Basic]:
        """e for every condition `e == 0`, `e == 1`, `e < 2` or `e <= 1` on a derived size e, and every equality about strides."""
        for guard in self._guards():
            expression: Any = guard.expr
            if asked_by_model(guard) or not isinstance(expression, sympy.Eq | sympy.Lt | sympy.Le):
                continue
            derived, bound = expression.args
            if isinstance(expression, sympy.Eq) and id(guard) in self._about_strides:
                if not is_bound_by_one(expression) and not self._holds_anyway(expression):
                    yield expression
                continue
            limits = (sympy.Integer(2),) if isinstance(expression, sympy.Lt) else _SMALL
            if bound in limits and (not derived.is_Symbol or derived in self._derived):
                yield derived

    def _holds_anyway(self, expression: sympy.Basic) -> bool:
        """Whether an equality of padded sizes holds at all sizes that export takes for the general case: PyTorch does not find out."""
        if not expression.has(symbolic.Mod, symbolic.PythonMod):
            return False
        names = SizeNames(self._environment, {}, {}, {}, self._derived)
        try:
            relation = names.relation(expression)
        except Unsupported:
            return False
        facts = Facts()
        for symbol in () if relation is None else sorted(relation.symbols):
            facts.declare(symbol, lo=USUAL)
        return relation is not None and facts.prove(relation) is True

    def _guards(self) -> Sequence[Any]:
        guards: Sequence[Any] = self._environment.guards if self._environment is not None else ()
        return [guard for guard in guards if id(guard) not in self._needless]


def _axes_of_symbols(
    environment: ShapeEnv | None, leaves: Sequence[Any], structure: pytree.TreeSpec
) -> Mapping[sympy.Symbol, Axis]:
    """The input axis for which each symbol was made, fixed or not."""
    if environment is None:
        return {}
    tree = pytree.tree_unflatten(list(leaves), structure)
    axes: dict[str, Axis] = {}
    for index, (path, leaf) in enumerate(pytree.tree_flatten_with_path(tree)[0]):
        side, rest = split_path(path)
        for axis in range(leaf.dim() if isinstance(leaf, torch.Tensor) else 0):
            axes[f"L['{side}']{rest}.size()[{axis}]"] = (index, axis)
    return {
        symbol: axes[source.name]
        for symbol, sources in environment.var_to_sources.items()
        for source in sources
        if source.name in axes
    }


__all__ = ["Traced"]
