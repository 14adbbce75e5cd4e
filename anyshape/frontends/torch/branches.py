"""Conditions on sizes that the model's own Python code asks for while it is exported.

Export assumes that sizes are at least 2 and answers a question such as `x.shape[0] == 1` from that, without a guard. In PyTorch's
own code this is harmless (it asks in order to check or to go faster), in the model's it may choose another computation: those questions are
recorded here, and answered for sizes 0 and 1 by `probes`.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

import sympy
from torch.fx.experimental import symbolic_shapes
from torch.fx.experimental.sym_node import SymNode
from torch.fx.experimental.symbolic_shapes import ShapeEnv

from anyshape.dialects.locations import Origin
from anyshape.frontends.torch.askers import RECORDING, asking, asking_line, is_about_strides, is_compared_in_python
from anyshape.frontends.torch.replacing import replaced


@dataclass(frozen=True)
class Branch:
    """`condition` is the form that held; `location` is the `file:line` that asked."""

    condition: sympy.Basic
    location: str


@dataclass
class Record:
    """What was seen of one export.

    Attributes:
        branches: the model's branches.
        examples: the example's size behind each symbol that was asked for.
        about_strides: identities of the guards that say which strides a view or a copy gets.
        origins: who asked, by the identities of guards.
    """

    branches: list[Branch] = field(default_factory=list[Branch])
    examples: dict[str, int] = field(default_factory=dict[str, int])
    about_strides: set[int] = field(default_factory=set[int])
    origins: dict[int, Origin] = field(default_factory=dict[int, Origin])

    def clear(self) -> None:
        """Forget an export that failed."""
        for seen in (self.branches, self.examples, self.about_strides, self.origins):
            seen.clear()


@contextmanager
def record_branches(record: Record) -> Generator[None]:
    """Fills `record` while a model is exported inside."""
    evaluate = ShapeEnv.evaluate_expr
    comparisons = {name: _noting(getattr(SymNode, name), name, record) for name in _COMPARISONS}
    # PyTorch names guards by the innermost frame outside these files, which must not be one of ours.
    uninteresting = symbolic_shapes.uninteresting_files() | RECORDING

    def recording(env: ShapeEnv, expression: Any, *args: Any, **kwargs: Any) -> Any:
        for symbol in getattr(expression, "free_symbols", ()):
            if symbol in env.backed_var_to_val:
                record.examples[str(symbol)] = int(env.backed_var_to_val[symbol])
        known, ranges = len(env.guards), _ranges_of(env, expression)
        result = evaluate(env, expression, *args, **kwargs)
        new = env.guards[known:]
        origin = asking() if new else None
        if origin is not None:
            record.origins.update(dict.fromkeys(map(id, new), origin))
        if new and is_about_strides(expression):
            record.about_strides.update(map(id, new))
            _restore_ranges(env, ranges)
        if getattr(expression, "is_Relational", False):
            location = asking_line(env)
            if location is not None:
                record.branches.append(Branch(expression if result else sympy.Not(expression), location))
        return result

    with ExitStack() as stack:
        stack.enter_context(replaced(ShapeEnv, "evaluate_expr", recording))
        stack.enter_context(replaced(symbolic_shapes, "uninteresting_files", lambda: uninteresting))
        for name, comparison in comparisons.items():
            stack.enter_context(replaced(SymNode, name, comparison))
        yield


def _ranges_of(env: ShapeEnv, expression: Any) -> Mapping[sympy.Symbol, Any]:
    symbols = getattr(expression, "free_symbols", ())
    return {symbol: env.var_to_range[symbol] for symbol in symbols if symbol in env.var_to_range}


def _restore_ranges(env: ShapeEnv, ranges: Mapping[sympy.Symbol, Any]) -> None:
    """The ranges of sizes as they were: PyTorch narrows them to what an answer says, but one about strides says nothing of values."""
    if any(env.var_to_range[symbol] != before for symbol, before in ranges.items()):
        env.var_to_range.update(ranges)
        env._maybe_evaluate_static.cache_clear()  # pyright: ignore[reportPrivateUsage]


_COMPARISONS: Mapping[str, tuple[Any, Any]] = {
    "eq": (sympy.Eq, sympy.Ne),
    "ne": (sympy.Ne, sympy.Eq),
    "gt": (sympy.Gt, sympy.Le),
    "ge": (sympy.Ge, sympy.Lt),
    "lt": (sympy.Lt, sympy.Ge),
    "le": (sympy.Le, sympy.Gt),
}
"""Comparisons of sizes by PyTorch's names, with what holds where they do and where they do not."""


def _noting(compare: Callable[[SymNode, SymNode], SymNode], name: str, record: Record) -> Callable[..., SymNode]:
    """The comparison; as a branch is noted what sympy knows at once, since every size is positive to it: nobody evaluates that.

    Only Python's: what the C++ code of an op asks is no business of the model, whose frame is the innermost there too.
    """

    def noting(a: SymNode, b: SymNode) -> SymNode:
        result = compare(a, b)
        known: Any = result.expr
        environment: Any = a.shape_env
        if known in (sympy.true, sympy.false) and (a.expr.free_symbols or b.expr.free_symbols):
            location = asking_line(environment) if is_compared_in_python() else None
            if location is not None:
                holds = _COMPARISONS[name][0 if known == sympy.true else 1]
                record.branches.append(Branch(holds(a.expr, b.expr, evaluate=False), location))
        return result

    return noting
