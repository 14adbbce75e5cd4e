"""Graphs and recommendations: scatter, gather, bags of embeddings."""

from __future__ import annotations

import itertools

import torch
from torch import nn

from bench.zoo.entry import Entry, Inputs


class GraphNetwork(nn.Module):
    """Layers of h ← relu(W·h + U·mean of the neighbours' h), then the mean of each graph's nodes.

    (x [n, features], edges [2, e], graph [n], graphs: one row for each graph [g]) -> [g, classes].
    Source: Hamilton et al., Inductive Representation Learning on Large Graphs, 2017.
    """

    def __init__(self, features: int, width: int, layers: int) -> None:
        super().__init__()
        widths = [features, *[width] * layers]
        self.own = nn.ModuleList(nn.Linear(a, b) for a, b in itertools.pairwise(widths))
        self.others = nn.ModuleList(nn.Linear(a, b, bias=False) for a, b in itertools.pairwise(widths))
        self.classes = nn.Linear(width, 5)

    def forward(self, x: torch.Tensor, edges: torch.Tensor, graph: torch.Tensor, graphs: torch.Tensor) -> torch.Tensor:
        sources, targets = edges[0], edges[1]
        ones = torch.ones_like(targets, dtype=x.dtype)
        degree = torch.zeros(x.shape[0], dtype=x.dtype).index_add(0, targets, ones).clamp(min=1)
        for own, others in zip(self.own, self.others, strict=True):
            summed = torch.zeros_like(x).index_add(0, targets, x[sources])
            x = torch.relu(own(x) + others(summed / degree[:, None]))
        pooled = torch.zeros(graphs.shape[0], x.shape[1]).scatter_reduce(
            0, graph[:, None].expand_as(x), x, "mean", include_self=False
        )
        return self.classes(pooled)


def random_graphs(module: nn.Module, batch: int, nodes: int) -> Inputs:
    """`batch` graphs of `nodes` nodes with about four edges a node."""
    total, edges = batch * nodes, 4 * batch * nodes + 1
    graph = torch.arange(batch).repeat_interleave(nodes)
    return {
        "x": torch.randn(total, module.own[0].in_features),  # type: ignore[index,union-attr,arg-type]
        "edges": torch.randint(0, total, (2, edges)),
        "graph": graph,
        "graphs": torch.zeros(batch),
    }


class Recommender(nn.Module):
    """DLRM's shape: dense features through layers, bags of embeddings, products of all pairs, layers to one number.

    (dense [b, d], items [n], starts [b] a table) -> chance [b]. Source: Naumov et al., Deep Learning Recommendation Model, 2019.
    """

    def __init__(self, dense: int, rows: int, tables: int, width: int) -> None:
        super().__init__()
        self.bottom = nn.Sequential(nn.Linear(dense, 2 * width), nn.ReLU(), nn.Linear(2 * width, width), nn.ReLU())
        self.tables = nn.ModuleList(nn.EmbeddingBag(rows, width, mode="sum") for _ in range(tables))
        pairs = (tables + 1) * tables // 2
        self.top = nn.Sequential(nn.Linear(width + pairs, 2 * width), nn.ReLU(), nn.Linear(2 * width, 1))

    def forward(self, dense: torch.Tensor, items: torch.Tensor, starts: torch.Tensor) -> torch.Tensor:
        x = self.bottom(dense)
        vectors = torch.stack([x, *[table(items[i], starts[i]) for i, table in enumerate(self.tables)]], 1)
        products = vectors @ vectors.transpose(1, 2)
        rows, columns = torch.tril_indices(vectors.shape[1], vectors.shape[1], -1)
        return self.top(torch.cat([x, products[:, rows, columns]], 1)).sigmoid()[:, 0]


def clicks(module: nn.Module, batch: int, items: int) -> Inputs:
    """Bags of `items` items on average, some of them empty."""
    tables = len(module.tables)  # type: ignore[arg-type]
    rows = module.tables[0].num_embeddings  # type: ignore[index,union-attr]
    starts = torch.randint(0, batch * items + 1, (tables, batch)).sort(1).values
    starts[:, 0] = 0
    return {
        "dense": torch.randn(batch, module.bottom[0].in_features),  # type: ignore[index,union-attr,arg-type]
        "items": torch.randint(0, rows, (tables, batch * items)),  # type: ignore[call-overload]
        "starts": starts,
    }


ENTRIES = (
    Entry(
        "Graph network",
        lambda: GraphNetwork(8, 16, 2),
        lambda: GraphNetwork(64, 128, 3),
        random_graphs,
        size="nodes",
        real_size=500,
    ),
    Entry(
        "Recommender",
        lambda: Recommender(13, 50, 3, 8),
        lambda: Recommender(13, 100_000, 8, 64),
        clicks,
        size="items",
        real_size=20,
    ),
)

__all__ = ["ENTRIES"]
