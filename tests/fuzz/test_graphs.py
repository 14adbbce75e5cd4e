"""Random PyTorch graphs by Hypothesis, and what the fuzzer does with a failure: it makes it smaller and can run it again."""

from __future__ import annotations

from random import Random

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.fuzz import checking, ops
from tests.fuzz.checking import Failure, Refused, check, reduced
from tests.fuzz.graphs import EXAMPLE, Graph, GraphModule, Step, random_graph, random_sizes, smaller


@settings(max_examples=6, suppress_health_check=list(HealthCheck))
@given(st.randoms(use_true_random=False))
def test_every_way_gives_what_eager_gives(choose: Random) -> None:
    graph = random_graph(choose, choose.randint(1, 4))
    try:
        failure = check(graph, list(random_sizes(choose, 4)), twin=False)
    except Refused:
        return
    assert failure is None, f"{failure}\n{graph}"


def test_graphs_are_drawn_anew_from_their_seed() -> None:
    assert random_graph(Random(3), 5) == random_graph(Random(3), 5) != random_graph(Random(4), 5)
    graph = random_graph(Random(3), 5)
    assert Graph.from_json(graph.to_json()) == graph


def test_smaller_graphs_run() -> None:
    graph = Graph((("m", "n"), ("n",)), (Step("tanh", (0,), ()), Step("add", (2, 1), ()), Step("sum", (3,), ())))
    sizes = [len(each.steps) for each in smaller(graph)]
    assert sizes == [2, 2, 2]
    for each in smaller(graph):
        GraphModule(each)(*each.arguments(EXAMPLE))


def test_a_planted_fault_is_found_and_made_smaller(monkeypatch: pytest.MonkeyPatch) -> None:
    """`sin` that is wrong in f32 alone, so that eager in f64 is another function."""
    wrong = ops.Op(1, lambda x: torch.sin(x) * (1.0 if x.dtype == torch.float64 else 1.01))
    monkeypatch.setattr(ops, "OPS", {**ops.OPS, "sin": wrong})
    monkeypatch.setattr(checking, "_is_fair", lambda narrow, exact: True)
    graph = Graph((("m", "n"), ("n",)), (Step("tanh", (0,), ()), Step("sin", (2,), ()), Step("add", (3, 1), ())))
    failure = check(graph, [], twin=False)
    assert isinstance(failure, Failure) and failure.way == "compiled"
    least, _ = reduced(graph, failure)
    assert [step.op for step in least.steps] == ["sin"]
