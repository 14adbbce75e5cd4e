"""ONNX's BitCast reads the bits of unsigned integers, which programs hold in wider types; and floats from 2^63 on are u64."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

import anyshape
from anyshape.support.errors import UnsupportedOps
from tests.frontends.onnx.models import imported, model_of

WIDTHS = (("b", "B", "?"), ("h", "H"), ("i", "I", "f"), ("q", "Q", "d"))
PAIRS = [(source, target) for same in WIDTHS for source in same for target in same if target != "?"]


def program_of(op: str, source: Any, target: Any, opset: int) -> Any:
    code, to = (helper.np_dtype_to_tensor_dtype(np.dtype(each)) for each in (source, target))
    return model_of([helper.make_node(op, ["x"], ["y"], to=to)], {"x": (code, ("n",))}, ["y"], opset=opset)


@pytest.mark.parametrize("pair", PAIRS, ids="".join)
def test_bits_are_kept(pair: tuple[str, str]) -> None:
    source, target = map(np.dtype, pair)
    numbers = np.array([0, 1, 2**7, 2**15, 2**31, 2**63, 3 * 2**62, 12345678912345678], np.uint64)
    x = (numbers != 0) if source.kind == "b" else numbers.astype(f"u{source.itemsize}").view(source)
    y = anyshape.compile(program_of("BitCast", source, target, 26))(x)
    assert y.dtype == target
    assert y.tobytes() == x.tobytes()


@pytest.mark.parametrize(("source", "target"), [("f2", "u2"), ("i2", "f2")])
def test_bits_that_programs_cannot_read_are_refused(source: str, target: str) -> None:
    with pytest.raises(UnsupportedOps, match="the bits of"):
        imported(program_of("BitCast", source, target, 26))


@pytest.mark.parametrize("source", ["f4", "f8"])
def test_large_floats_as_u64(source: str) -> None:
    x = np.array([0, 1.75, 2**31, 2.0**62, 2.0**63, 1.5 * 2.0**63, 2.0**64 - 2.0**42], source)
    y = anyshape.compile(program_of("Cast", source, np.uint64, 23))(x)
    assert y.dtype == np.uint64
    assert [int(each) for each in y] == [int(each) for each in x]
    assert helper.np_dtype_to_tensor_dtype(y.dtype) == TensorProto.UINT64
