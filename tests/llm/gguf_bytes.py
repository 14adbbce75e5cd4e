"""GGUF files made byte by byte, so that a test can make wrong ones."""

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field

U16, U32, I32, F32, BOOL, TEXT, ARRAY, U64 = 2, 4, 5, 6, 7, 8, 9, 10


def u32(value: int) -> bytes:
    return struct.pack("<I", value)


def u64(value: int) -> bytes:
    return struct.pack("<Q", value)


def text(value: str | bytes) -> bytes:
    raw = value.encode() if isinstance(value, str) else value
    return u64(len(raw)) + raw


def key(name: str, kind: int, value: bytes) -> bytes:
    return text(name) + u32(kind) + value


def array(name: str, kind: int, count: int, elements: bytes) -> bytes:
    return key(name, ARRAY, u32(kind) + u64(count) + elements)


def texts(name: str, values: Sequence[str | bytes]) -> bytes:
    return array(name, TEXT, len(values), b"".join(map(text, values)))


def tensor(name: str, sizes: Sequence[int], kind: int, offset: int) -> bytes:
    """`sizes` in the file's order, the fastest axis first."""
    return text(name) + u32(len(sizes)) + b"".join(map(u64, sizes)) + u32(kind) + u64(offset)


@dataclass
class File:
    """The parts of a file; what is not given is derived."""

    keys: list[bytes] = field(default_factory=list)
    tensors: list[bytes] = field(default_factory=list)
    data: bytes = b""
    alignment: int = 32
    magic: bytes = b"GGUF"
    version: int = 3
    key_count: int | None = None
    tensor_count: int | None = None

    def bytes(self) -> bytes:
        keys = len(self.keys) if self.key_count is None else self.key_count
        tensors = len(self.tensors) if self.tensor_count is None else self.tensor_count
        head = self.magic + u32(self.version) + u64(tensors) + u64(keys) + b"".join(self.keys) + b"".join(self.tensors)
        return head + bytes(-len(head) % self.alignment) + self.data


def small() -> File:
    """A sound file with a value of most kinds and two tensors, F32 [2, 4] and Q8_0 [3, 32]."""
    return File(
        keys=[
            key("general.architecture", TEXT, text("llama")),
            key("llama.block_count", U32, u32(1)),
            key("llama.rope.freq_base", F32, struct.pack("<f", 1e4)),
            key("flag", BOOL, b"\x01"),
            key("large", U64, u64(2**40)),
            texts("tokenizer.ggml.tokens", ["<s>", "ä", "", "▁the"]),
            array("tokenizer.ggml.scores", F32, 4, struct.pack("<4f", 0, -1, -2, -3)),
            array("tokenizer.ggml.token_type", I32, 4, struct.pack("<4i", 3, 1, 1, 4)),
            key("tokenizer.ggml.bos_token_id", U32, u32(0)),
            key("tokenizer.ggml.model", TEXT, text("llama")),
        ],
        tensors=[tensor("a", [4, 2], 0, 0), tensor("b", [32, 3], 8, 32)],
        data=struct.pack("<8f", *range(8)) + bytes(range(3 * 34)),
    )
