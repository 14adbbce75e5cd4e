"""Micro-kernels that a process of their own compiles: those that a model calls, and only as an advantage."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection
from pathlib import Path

import pytest

from anyshape.codegen.llvm import host_target, objects_emitted
from anyshape.codegen.microkernels import Part
from anyshape.dialects.arrays import Array
from anyshape.driver.ahead import Ahead, model_parts
from anyshape.driver.graphs import load_graph
from anyshape.driver.machine import calibrated_machine
from anyshape.driver.microkernels import microkernel_object
from anyshape.driver.stored import BuiltObjects
from anyshape.llm import model as models
from anyshape.llm.key_cache import CacheType
from anyshape.runtime import Program
from anyshape.support.options import Options
from bench.random_llama import Sizes, write


@pytest.mark.parametrize("cache", ["f16", "int8"])
def test_they_are_those_of_the_model(cache: CacheType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Told ahead and linked are the same parts."""
    path = tmp_path / "small.gguf"
    write(path, Sizes(width=64, layers=1, heads=2, kv_heads=2, hidden=96, vocabulary=400, context=64))
    told: list[str] = []
    linked: list[str] = []

    def noted(formats: Collection[str], activations: str, element: str) -> list[str]:
        told.extend(model_parts(formats, activations, element))
        return told

    def loaded(built: BuiltObjects, read: Callable[[str], Array], options: Options) -> Program:
        linked.extend(name.removeprefix("microkernels_") for name in built.objects if name.startswith("micro"))
        return load_graph(built, read, options)

    monkeypatch.setattr(models, "model_parts", noted)
    monkeypatch.setattr(models, "load_graph", loaded)
    models.Model.open(path, Options(threads=1, cache=tmp_path / "cache"), cache=cache)
    assert sorted(told) == sorted(linked) == sorted(str(Part.of(name)) for name in told)


def test_what_the_process_made_is_not_made_again(tmp_path: Path) -> None:
    parts = model_parts({"q8_0"}, "int8", "f16")
    with Ahead(parts, tmp_path) as ahead:
        assert ahead.parts == set(parts)
        ahead.wait()
    before = objects_emitted()
    for name in parts:
        microkernel_object(host_target(), calibrated_machine(tmp_path), Part.of(name), tmp_path)
    assert objects_emitted() == before


def test_without_the_process_they_are_made_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "nothing"))
    with Ahead(["contract_f32"], tmp_path) as ahead:
        assert not ahead.parts
        ahead.wait()
    before = objects_emitted()
    assert microkernel_object(host_target(), calibrated_machine(tmp_path), Part.of("contract_f32"), tmp_path)
    assert objects_emitted() == before + 1


def test_a_process_that_is_not_needed_any_more_ends(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError), Ahead(["contract_f32"], tmp_path) as ahead:
        raise RuntimeError
    ahead.wait()
