"""Programs over live arrays. Oracle: numpy, and the interpreter on the graph before any pass."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

from anyshape.dialects.dhlo import (
    Add,
    ArrayType,
    BroadcastInDim,
    Concatenate,
    ConstantStore,
    DotGeneral,
    Multiply,
    Weight,
)
from anyshape.dialects.dhlo.graph import FunctionBuilder
from anyshape.dialects.dhlo.interpreter import evaluate
from anyshape.dialects.dtypes import F32
from anyshape.dialects.sizes import sizes_of
from anyshape.driver.build import build_objects, write_objects
from anyshape.driver.live import LiveProgram, load_live
from anyshape.driver.packing import packed_bound
from anyshape.driver.pipeline import run_graph_passes
from anyshape.passes.context import GraphContext
from anyshape.passes.fold import FoldPass
from anyshape.runtime.numpy_adaptor import run
from anyshape.support.errors import ArgumentError, VerifyError
from anyshape.support.options import Options
from anyshape.support.trace import Trace

RNG = np.random.default_rng(0)
OPTIONS = Options(threads=2, verify=True)


def random(*shape: int) -> np.ndarray[Any, Any]:
    return RNG.standard_normal(shape, np.float32)


@dataclass
class Graph:
    """x·[u; v]ᵀ + (2·b) over live u, v, b: a recipe each for the factor and for the row that is added."""

    store: ConstantStore
    module: ModuleOp

    @classmethod
    def make(cls, rows: int = 40, columns: int = 24) -> Graph:
        store, g = ConstantStore(), FunctionBuilder()
        x = g.input("m", columns)

        def live(name: str, *shape: int) -> Any:
            stored = store.add_live(name, ArrayType(np.dtype(np.float32), shape))
            return g(Weight, name=stored, dtype=F32, sizes=shape)

        factor = g(Concatenate, live("u", rows, columns), live("v", rows, columns), axis=0)
        product = g(DotGeneral, x, factor, lhs_contract=(1,), rhs_contract=(1,))
        two = g(Weight, name=store.add(np.full(2 * rows, 2, np.float32) + np.eye(2 * rows, dtype=np.float32)[0]),
                dtype=F32, sizes=(2 * rows,))  # fmt: skip
        row = g(Multiply, live("b", 2 * rows), two)
        spread = g(BroadcastInDim, row, dimensions=(1,), sizes=sizes_of(product.type))
        return cls(store, ModuleOp([g.finish(g(Add, product, spread))]))

    def load(self, options: Options = OPTIONS) -> LiveProgram:
        built = build_objects(self.module, ["x"], self.store, options, Trace.from_options(options))
        return load_live(built, 2)


def expected(x: np.ndarray[Any, Any], arrays: Mapping[str, np.ndarray[Any, Any]]) -> np.ndarray[Any, Any]:
    u, v, b = (arrays[f"live:{name}"].astype(np.float64) for name in "uvb")
    two = np.full(len(b), 2.0)
    two[0] = 3
    return x @ np.concatenate([u, v]).T + two * b


def check(live: LiveProgram, arrays: Mapping[str, np.ndarray[Any, Any]]) -> None:
    for rows in (0, 1, 7):
        x = random(rows, arrays["live:u"].shape[1])
        np.testing.assert_allclose(run(live.program, [x])[0], expected(x, arrays), rtol=1e-4, atol=1e-4)


def weights(rows: int = 40, columns: int = 24) -> dict[str, np.ndarray[Any, Any]]:
    return {"live:u": random(rows, columns), "live:v": random(rows, columns), "live:b": random(2 * rows)}


def test_forms_follow_what_they_are_made_of() -> None:
    live, arrays = Graph.make().load(), weights()
    with pytest.raises(ArgumentError, match="no weights yet"):
        _ = live.program
    live.refresh(arrays)
    check(live, arrays)
    arrays["live:v"][:] = random(40, 24)
    live.refresh({"live:v": arrays["live:v"]})
    check(live, arrays)
    arrays["live:u"] = random(40, 24)
    arrays["live:b"] = random(80)
    live.refresh({name: arrays[name] for name in ("live:u", "live:b")})
    check(live, arrays)
    assert live.packed_bytes == (2 * 64 * 24 + 80) * 4


def test_arrays_may_have_any_strides() -> None:
    live, arrays = Graph.make().load(), weights()
    arrays["live:u"] = random(24, 40).T
    arrays["live:v"] = random(80, 48)[::2, ::2]
    arrays["live:b"] = random(80)[::-1]
    live.refresh(arrays)
    check(live, arrays)


def test_large_forms_are_made_by_threads() -> None:
    live, arrays = Graph.make(700, 600).load(), weights(700, 600)
    live.refresh(arrays)
    check(live, arrays)
    arrays["live:u"] *= 2
    live.refresh({"live:u": arrays["live:u"]})
    check(live, arrays)


def test_what_is_neither_packed_nor_derived_is_the_owners_memory() -> None:
    live, arrays = Graph.make().load(Options(threads=2, pack_weights=False)), weights()
    assert live.packed_bytes == 0
    live.refresh(arrays)
    assert live.bind(arrays.__getitem__, None, set(arrays)).copied == frozenset()
    arrays["live:u"][3, 4] = 100
    arrays["live:b"][0] = 50
    check(live, arrays)
    dense = random(40, 48)
    arrays["live:u"] = dense[:, ::2]
    live.refresh({"live:u": arrays["live:u"]})
    check(live, arrays)


def test_a_budget_leaves_out_what_does_not_fit() -> None:
    size = packed_bound(ArrayType(np.dtype(np.float32), (40, 24)))
    for budget, expected_bytes in ((0, 0), (size, 0), (2 * size, 2 * 64 * 24 * 4)):
        live, arrays = Graph.make().load(Options(threads=2, pack_budget_bytes=budget)), weights()
        assert live.packed_bytes == expected_bytes
        live.refresh(arrays)
        check(live, arrays)


def test_bindings_share_forms_of_arrays_that_did_not_move() -> None:
    live, arrays = Graph.make().load(), weights()
    first = live.bind(arrays.__getitem__, None, set(arrays))
    first.refresh(set(arrays), arrays.__getitem__)
    others = {**arrays, "live:b": random(80)}
    second = live.bind(others.__getitem__, first, {"live:b"})
    second.refresh({"live:b"}, others.__getitem__)
    shared = [a is b for a, b in zip(first.forms, second.forms, strict=True) if a is not None]
    assert sorted(shared) == [False, True]
    x = random(5, 24)
    for binding, held in ((first, arrays), (second, others)):
        np.testing.assert_allclose(run(binding.program, [x])[0], expected(x, held), rtol=1e-4, atol=1e-4)


def test_equal_types_are_not_equal_weights_and_passes_see_no_values() -> None:
    graph = Graph.make()
    assert graph.store.live.keys() == {"live:u", "live:v", "live:b"} and not set(graph.store) & graph.store.live.keys()
    arrays, x = weights(), random(3, 24)
    with pytest.raises(VerifyError, match="not in the constant store"):
        evaluate(graph.module, [x], graph.store)
    (before,) = evaluate(graph.module, [x], graph.store.with_values(arrays))
    run_graph_passes(graph.module, graph.store, Trace(), OPTIONS)
    (after,) = evaluate(graph.module, [x], graph.store.with_values(arrays))
    np.testing.assert_allclose(after, before, rtol=1e-5, atol=1e-5)
    names = {op.attribute("name") for op in graph.module.walk() if isinstance(op, Weight)}
    assert names.isdisjoint(graph.store.live) and all(map(graph.store.is_live, names))
    assert {graph.store.sources_of(name) for name in names} == {
        frozenset({"live:u", "live:v"}), frozenset({"live:b"})
    }  # fmt: skip


def test_equal_recipes_are_one() -> None:
    store, g = ConstantStore(), FunctionBuilder()
    name = store.add_live("w", random(4))
    w = g(Weight, name=name, dtype=F32, sizes=(4,))
    first, second = g(Add, w, w), g(Add, w, w)
    module = ModuleOp([g.finish(first, second)])
    context = GraphContext(store=store)
    FoldPass().apply(context, module)
    derived = {op.attribute("name") for op in module.walk() if isinstance(op, Weight)} - {name}
    assert len(derived) == 1
    np.testing.assert_array_equal(
        store.value_of(derived.pop(), lambda _: np.arange(4.0, dtype=np.float32)), [0, 2, 4, 6]
    )


def test_wrong_arrays_are_refused(tmp_path: Path) -> None:
    graph = Graph.make()
    with pytest.raises(ArgumentError, match="one type"):
        graph.store.add_live("u", random(3))
    built = build_objects(graph.module, ["x"], graph.store, OPTIONS, Trace.from_options(OPTIONS))
    with pytest.raises(ArgumentError, match="live weights"):
        write_objects(built, tmp_path)
    live, arrays = load_live(built, 1), weights()
    with pytest.raises(ArgumentError, match="never given"):
        live.refresh({"live:u": arrays["live:u"]})
    with pytest.raises(ArgumentError, match="another type"):
        live.refresh({**arrays, "live:b": random(3)})
    live.refresh(arrays)
    check(live, arrays)
