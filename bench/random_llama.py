"""`python -m bench.random_llama OUT.gguf`: a model of LLaMA-2-7B's shapes with random Q4_0 weights, to measure speed and memory on.

It is written tensor by tensor, so that 4 GB of file want a few dozen MB of memory. The text it gives means nothing.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import gguf
import numpy as np
from numpy.typing import NDArray

BLOCK, BLOCK_BYTES = 32, 18
"""Elements of a Q4_0 block, and its bytes: a scale f16, then 16 bytes of two 4-bit numbers."""
BYTE_TOKENS = 256
UNKNOWN, BOS, EOS = 0, 1, 2


@dataclass(frozen=True)
class Sizes:
    """The sizes of the model, by default those of LLaMA-2-7B; `width` and `hidden` are multiples of 32."""

    width: int = 4096
    layers: int = 32
    heads: int = 32
    kv_heads: int = 32
    hidden: int = 11008
    vocabulary: int = 32000
    context: int = 4096


def matrices(sizes: Sizes) -> Iterator[tuple[str, int, int]]:
    """Name, rows and columns of every matrix, in the order of the file."""
    keys = sizes.width // sizes.heads * sizes.kv_heads
    yield "token_embd", sizes.vocabulary, sizes.width
    for layer in range(sizes.layers):
        block = f"blk.{layer}"
        yield f"{block}.attn_q", sizes.width, sizes.width
        yield f"{block}.attn_k", keys, sizes.width
        yield f"{block}.attn_v", keys, sizes.width
        yield f"{block}.attn_output", sizes.width, sizes.width
        yield f"{block}.ffn_gate", sizes.hidden, sizes.width
        yield f"{block}.ffn_up", sizes.hidden, sizes.width
        yield f"{block}.ffn_down", sizes.width, sizes.hidden
    yield "output", sizes.vocabulary, sizes.width


def vectors(sizes: Sizes) -> Iterator[str]:
    """Names of the weights of all normalisations, `width` each."""
    for layer in range(sizes.layers):
        yield from (f"blk.{layer}.attn_norm", f"blk.{layer}.ffn_norm")
    yield "output_norm"


def random_q4_0(rows: int, columns: int, draw: np.random.Generator) -> NDArray[np.uint8]:
    """Random blocks u8 [rows, bytes of a row]. Elements are uniform on d·{-8, …, 7} with d such that a product with a vector of
    variance 1 has about variance 1: d = 1 / (4.6 · √columns)."""
    blocks = draw.integers(0, 256, (rows, columns // BLOCK, BLOCK_BYTES), np.uint8)
    blocks[:, :, :2] = np.array([1 / (4.6 * columns**0.5)], np.float16).view(np.uint8)
    return blocks.reshape(rows, -1)


def write(path: Path | str, sizes: Sizes, seed: int = 0) -> None:
    """Write the file; at no time is more than one tensor in memory."""
    writer: Any = gguf.GGUFWriter(path, "llama")
    _add_description(writer, sizes)
    _add_vocabulary(writer, sizes.vocabulary)
    q4_0, f32 = gguf.GGMLQuantizationType.Q4_0, np.dtype(np.float32)
    for name in vectors(sizes):
        writer.add_tensor_info(f"{name}.weight", (sizes.width,), f32, 4 * sizes.width)
    for name, rows, columns in matrices(sizes):
        row = columns // BLOCK * BLOCK_BYTES
        writer.add_tensor_info(f"{name}.weight", (rows, row), np.dtype(np.uint8), rows * row, q4_0)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_ti_data_to_file()
    draw = np.random.default_rng(seed)
    for _ in vectors(sizes):
        writer.write_tensor_data(np.ones(sizes.width, np.float32))
    for _, rows, columns in matrices(sizes):
        writer.write_tensor_data(random_q4_0(rows, columns, draw))
    writer.close()


def _add_description(writer: Any, sizes: Sizes) -> None:
    writer.add_name("random weights")
    writer.add_context_length(sizes.context)
    writer.add_embedding_length(sizes.width)
    writer.add_block_count(sizes.layers)
    writer.add_feed_forward_length(sizes.hidden)
    writer.add_head_count(sizes.heads)
    writer.add_head_count_kv(sizes.kv_heads)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_freq_base(10000.0)
    writer.add_rope_dimension_count(sizes.width // sizes.heads)
    writer.add_vocab_size(sizes.vocabulary)
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_Q4_0)


def _add_vocabulary(writer: Any, size: int) -> None:
    """SentencePiece's form: three control tokens, all bytes, then words of letters, none of which a text has by chance."""
    kinds = gguf.TokenType
    tokens = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(BYTE_TOKENS))]
    types = [kinds.UNKNOWN, kinds.CONTROL, kinds.CONTROL, *[kinds.BYTE] * BYTE_TOKENS]
    words = size - len(tokens)
    if words < 0:
        raise ValueError(f"a vocabulary of {size} tokens: {len(tokens)} are needed")
    # Pieces of one character first, so that text is encoded in characters and not in bytes.
    letters = [chr(code) for code in range(ord("!"), ord("~") + 1)]
    tokens += ["▁", *letters, *(f"▁word{number}" for number in range(words))][:words]
    types += [kinds.NORMAL] * words
    writer.add_tokenizer_model("llama")
    writer.add_token_list(tokens)
    writer.add_token_scores([0.0] * (3 + BYTE_TOKENS) + [-float(number) for number in range(words)])
    writer.add_token_types(types)
    writer.add_bos_token_id(BOS)
    writer.add_eos_token_id(EOS)
    writer.add_unk_token_id(UNKNOWN)
    writer.add_add_bos_token(True)
    writer.add_add_space_prefix(True)


def main() -> None:
    """The command line: every size is an option."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.random_llama", description="Write a model of random weights."
    )
    parser.add_argument("output", type=Path, help="the GGUF file to write")
    parser.add_argument("--seed", type=int, default=0, help="of the random weights")
    for field in fields(Sizes):
        parser.add_argument(f"--{field.name.replace('_', '-')}", type=int, default=field.default, help="%(default)s")
    options = parser.parse_args()
    write(options.output, Sizes(**{field.name: getattr(options, field.name) for field in fields(Sizes)}), options.seed)
    print(f"wrote {options.output}, {options.output.stat().st_size / 1e6:.0f} MB")


if __name__ == "__main__":
    main()
