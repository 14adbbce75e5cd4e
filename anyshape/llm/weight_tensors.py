"""The weights of a model in its graph."""

from __future__ import annotations

from collections.abc import Sequence

from anyshape import nn
from anyshape.llm.weights import Projection, WeightForms
from anyshape.nn import Graph, Tensor


class WeightTensors:
    """The weights that were declared, as tensors of one graph: what its layers multiply by.

    Args:
        graph: where they are bound by name.
        forms: the weights.
    """

    def __init__(self, graph: Graph, forms: WeightForms) -> None:
        self._graph, self._forms = graph, forms

    def attention(self, layer: int) -> Sequence[Projection]:
        """How a layer computes q, k and v."""
        return self._forms.attention(layer)

    def feed_forward(self, layer: int) -> Sequence[Projection]:
        """How a layer computes gate and up."""
        return self._forms.feed_forward(layer)

    def vector(self, name: str) -> Tensor:
        """A weight that is used elementwise, f32."""
        return self._graph.weight(name, self._forms[name].type)

    def product(self, x: Tensor, name: str) -> Tensor:
        """x · weightᵀ + bias, where there is one."""
        form = self._forms[f"{name}.weight"]
        weight = self._graph.weight(form.name, form.type)
        if form.format is not None:
            weight = nn.dequantize(weight, form.format)
        bias = self.vector(f"{name}.bias") if f"{name}.bias" in self._forms else None
        return nn.linear(x, weight, bias)

    def embedding(self, tokens: Tensor) -> Tensor:
        """The rows of the tokens, f32 [b, s, width]."""
        form = self._forms["token_embd.weight"]
        rows = nn.embedding(tokens, self._graph.weight(form.name, form.type))
        return nn.convert(rows, "f32") if form.format is None else nn.dequantize(rows, form.format)

    def head(self, x: Tensor) -> Tensor:
        """Logits by the output matrix, or by the embeddings where both are one."""
        return self.product(x, "output" if "output.weight" in self._forms else "token_embd")


__all__ = ["WeightTensors"]
