"""What nodes of ONNX Runtime's domain claim is checked, and inputs may be left out; values are compared in `tests/onnx_files`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import helper

from anyshape.support.errors import FileFormatError
from tests.frontends.onnx.models import (
    FLOAT,
    INT32,
    INT64,
    UINT8,
    assert_close,
    floats,
    imported,
    interpreted,
    model_of,
)

DOMAINS = {"com.microsoft": 1}
X = {"x": (FLOAT, ("n", 32))}


def contrib(
    op: str, inputs: list[str], inputs_of: Any, constants: Any = None, outputs: int = 1, **attributes: Any
) -> Any:
    results = [f"y{number}" for number in range(outputs)]
    node = helper.make_node(op, inputs, results, domain="com.microsoft", **attributes)
    return model_of([node], inputs_of, results, constants, domains=DOMAINS)


WEIGHTS = {"q": np.zeros((16, 1, 16), np.uint8), "s": np.ones((16, 1), np.float32), "z": np.zeros((16, 1), np.uint8)}
SOUND = {"K": 32, "N": 16, "block_size": 32, "bits": 4}


@pytest.mark.parametrize(
    ("changed", "text"),
    [
        ({"block_size": 0}, "at least 1"), ({"N": -1}, "at least 1"), ({"N": 2**40}, "the weights must have"),
        ({"K": 2**62}, "the weights must have"), ({"block_size": 16}, "the scales must have"),
    ],
    ids=str,
)  # fmt: skip
def test_weights_of_few_bits(changed: dict[str, int], text: str) -> None:
    """Nothing is made before the counts agree."""
    with pytest.raises(FileFormatError, match=text):
        imported(contrib("MatMulNBits", ["x", "q", "s", "z"], X, WEIGHTS, **{**SOUND, **changed}))


@pytest.mark.parametrize(
    "groups", [np.zeros(3, np.int32), np.full(32, 7, np.int32), np.full(32, -1, np.int32)], ids=len
)
def test_groups_of_weights(groups: Any) -> None:
    with pytest.raises(FileFormatError, match="the groups of weights"):
        imported(contrib("MatMulNBits", ["x", "q", "s", "z", "g"], X, {**WEIGHTS, "g": groups}, **SOUND))


@pytest.mark.parametrize(
    "wrong", [{"num_heads": 2.5}, {"num_heads": "2"}, {"num_heads": [2]}, {"num_heads": 2, "scale": "x"}], ids=str
)
def test_kinds_of_attributes(wrong: dict[str, Any]) -> None:
    """Ops without a schema: their lowerings say what an attribute is."""
    inputs = dict.fromkeys("qkv", (FLOAT, (1, "s", 8)))
    with pytest.raises(FileFormatError, match="it has to be"):
        imported(contrib("MultiHeadAttention", ["q", "k", "v"], inputs, **wrong))


@pytest.mark.parametrize("inputs", [["q", "q", "q"], ["q", "q", "q", "", "", "", ""]], ids=len)
def test_a_past_may_be_left_out(inputs: list[str]) -> None:
    model = contrib("GroupQueryAttention", inputs, {"q": (FLOAT, ("b", "s", 8))}, num_heads=2, kv_num_heads=2)
    x = floats(1, 1, 8)
    assert_close(interpreted(model, {"q": x})[0], x)  # one key


@pytest.mark.parametrize("rank", [1, 2, 4])
@pytest.mark.parametrize("op", ["MultiHeadAttention", "GroupQueryAttention"])
def test_ranks(op: str, rank: int) -> None:
    inputs = dict.fromkeys("qkv", (FLOAT, (1, 2, 3, 8)[-rank:]))
    attributes = {"num_heads": 2, **({"kv_num_heads": 2} if op == "GroupQueryAttention" else {})}
    with pytest.raises(FileFormatError, match="axes"):
        imported(contrib(op, ["q", "k", "v"], inputs, **attributes))


def test_embeddings_of_inputs_whose_sizes_have_names_of_their_own() -> None:
    tables = {
        "w": floats(9, 4),
        "p": floats(7, 4, seed=1),
        "k": floats(2, 4, seed=2),
        "g": np.ones(4, np.float32),
        "h": floats(4),
    }
    inputs = {"t": (INT64, ("a", "b")), "s": (INT64, ("c", "d")), "m": (INT64, ("e", "f"))}
    names = ["t", "s", "w", "p", "k", "g", "h", "m"]
    model = contrib("EmbedLayerNormalization", names, inputs, tables, outputs=3, epsilon=1e-5)
    tokens, segments = np.array([[1, 8, 0]]), np.array([[0, 1, 1]])
    result, counts, total = interpreted(model, {"t": tokens, "s": segments, "m": np.array([[1, 1, 0]])})
    wanted = tables["w"][tokens] + tables["p"][:3] + tables["k"][segments]
    centred = wanted - wanted.mean(-1, keepdims=True)
    assert_close(total, wanted)
    assert_close(counts, np.array([2], np.int32))
    assert_close(result, centred / np.sqrt(wanted.var(-1, keepdims=True) + 1e-5) + tables["h"])


def test_a_mask_of_ends_and_starts() -> None:
    """All ends, and then all starts."""
    values_alone = {"w": np.concatenate([np.zeros((4, 8)), np.eye(4)], 1).astype(np.float32)}
    inputs = {"x": (FLOAT, (2, "s", 4)), "m": (INT32, (4,))}
    model = contrib("Attention", ["x", "w", "", "m"], inputs, values_alone, num_heads=1)
    x = floats(2, 5, 4)
    (result,) = interpreted(model, {"x": x, "m": np.array([5, 3, 2, 0], np.int32)})
    assert_close(result[0], np.repeat(x[:1, 2:5].mean(1), 5, 0))
    assert_close(result[1], np.repeat(x[1:, 0:3].mean(1), 5, 0))


def test_codes_of_a_softmax_over_several_axes() -> None:
    numbers = {"s": np.float32(0.1), "z": np.uint8(128), "t": np.float32(1 / 256), "u": np.uint8(0)}
    names = ["x", "s", "z", "t", "u"]
    model = contrib("QLinearSoftmax", names, {"x": (UINT8, ("n", 2, "k"))}, numbers, axis=1, opset=12)
    x = np.random.default_rng(0).integers(100, 160, (3, 2, 5)).astype(np.uint8)
    (result,) = interpreted(model, {"x": x})
    real = np.exp((x.astype(np.float32) - 128) * 0.1)
    share = real / real.sum((1, 2), keepdims=True)
    assert np.abs(result.astype(int) - np.clip(np.rint(share * 256), 0, 255)).max() <= 1
