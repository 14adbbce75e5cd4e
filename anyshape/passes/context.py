"""What a pass gets besides the module: the registered dialects, and the program's constants."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Self

from xdsl.context import Context

from anyshape.dialects.dhlo import ConstantStore


@dataclass
class GraphContext(Context):
    """An xDSL context that also holds the arrays that `dhlo.weight` ops name."""

    store: ConstantStore = field(default_factory=ConstantStore)

    @classmethod
    def of(cls, context: Context, store: ConstantStore) -> Self:
        """The dialects of `context`, shared with it, and this store."""
        return cls(**{each.name: getattr(context, each.name) for each in fields(Context)}, store=store)

    def clone(self) -> GraphContext:
        """A context that can register more dialects; the store is the same one."""
        return GraphContext.of(super().clone(), self.store)


def store_of(context: Context) -> ConstantStore | None:
    """The store that passes may read and add to; None where the program came as text, without its arrays."""
    return context.store if isinstance(context, GraphContext) else None
