"""Runs imported programs by the reference interpreter, and compares them with eager PyTorch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import torch
from torch.utils import _pytree as pytree

from anyshape.dialects.dhlo import Array
from anyshape.dialects.dhlo.interpreter import evaluate
from anyshape.frontends.torch import ImportedProgram
from anyshape.frontends.torch.dtypes import array_of_tensor

TOLERANCES = {torch.float16: 4e-3, torch.bfloat16: 3e-2}


def tensor_of_array(array: Array) -> torch.Tensor:
    """The inverse of `array_of_tensor`; owns its memory, which PyTorch may write."""
    if array.dtype == np.dtype(ml_dtypes.bfloat16):
        return torch.from_numpy(array.view(np.uint16).copy()).view(torch.bfloat16)
    return torch.from_numpy(array.copy())


def run_program(program: ImportedProgram, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """What the module would return, computed by the interpreter."""
    tensors = program.adaptor.flatten(args, kwargs)
    results = evaluate(program.module, [array_of_tensor(tensor) for tensor in tensors], program.store)
    return program.adaptor.unflatten([tensor_of_array(np.asarray(result)) for result in results], tensors)


def assert_same(got: Any, expected: Any, tolerance: float) -> None:
    """Equal structure, sizes and dtypes; values within `tolerance`; the message names the leaf."""
    got_leaves, got_spec = pytree.tree_flatten_with_path(got)
    expected_leaves, expected_spec = pytree.tree_flatten_with_path(expected)
    assert got_spec == expected_spec
    for (path, a), (_, b) in zip(got_leaves, expected_leaves, strict=True):
        if isinstance(b, torch.Tensor):
            limit = max(tolerance, TOLERANCES.get(b.dtype, 0.0))
            torch.testing.assert_close(
                a, b, rtol=limit, atol=limit, equal_nan=True, msg=lambda text, p=path: f"{pytree.keystr(p)}: {text}"
            )
        else:
            assert a == b, pytree.keystr(path)


@pytest.fixture
def run() -> Callable[..., Any]:
    return run_program


@pytest.fixture
def compare() -> Callable[..., None]:
    """compare(program, module, *args, tolerance=…, **kwargs): interpreter = eager on this call."""

    def check(
        program: ImportedProgram, module: torch.nn.Module, *args: Any, tolerance: float = 2e-5, **kwargs: Any
    ) -> None:
        with torch.no_grad():
            expected = module(*args, **kwargs)
        assert_same(run_program(program, args, kwargs), expected, tolerance)

    return check
