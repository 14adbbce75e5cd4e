"""The vocabulary in a GGUF file: the text and the kind of every token, and which of them begin, end or stand for what is unknown."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from anyshape.llm.gguf import TextArray
from anyshape.llm.metadata import Metadata

PREFIX = "tokenizer.ggml."
LARGEST_TOKEN = 1 << 16
ENDS = frozenset(
    [
        *(
            "<|eot_id|>",
            "<|im_end|>",
            "<|end|>",
            "<|return|>",
            "<|call|>",
            "<end_of_turn>",
            "<|endoftext|>",
            "<|eom_id|>",
        ),
        *("<EOT>", "_<EOT>", "[EOT]", "[EOS]", "<|end_of_text|>", "<end_of_utterance>", "<eos>"),
    ]
)
"""Tokens after which a model of some family has nothing more to say; files name only one of them."""
_BYTE = re.compile("<0x([0-9A-F]{2})>")


class Kind(IntEnum):
    """What a token is, in the numbers of `tokenizer.ggml.token_type`."""

    NORMAL = 1
    UNKNOWN = 2
    CONTROL = 3
    USER_DEFINED = 4
    UNUSED = 5
    BYTE = 6


@dataclass(frozen=True)
class Vocabulary:
    """Tokens and their part in a text.

    Args:
        texts: of each token, as in the file: `▁` or letters of a byte-level vocabulary stand for what they mean.
        ids: text -> token.
        control: tokens that are never part of the text itself; written in a text they stand for themselves only where asked.
        user_defined: tokens that a text is cut at wherever it contains them.
        bytes_of: byte tokens, such as `<0x0A>`, and what they are.
        bos, eos, unknown: tokens that begin a text, end it, or stand for what has no token.
        ends: tokens that end a generation.
    """

    texts: list[str]
    ids: dict[str, int]
    control: frozenset[int]
    user_defined: frozenset[int]
    bytes_of: dict[int, int]
    bos: int | None
    eos: int | None
    unknown: int | None
    ends: frozenset[int]


def read_vocabulary(metadata: Metadata, *, sentencepiece: bool) -> Vocabulary:
    """The vocabulary of a file; FileFormatError where an entry is not what the others rely on.

    `sentencepiece`: tokens of kind BYTE are bytes, and 1, 2, 0 are BOS, EOS and unknown where the file does not say.
    """
    texts = _texts(metadata)
    ids = {text: token for token, text in enumerate(texts)}
    if len(ids) != len(texts):
        twice = next(text for token, text in enumerate(texts) if ids[text] != token)
        raise metadata.wrong(f"{PREFIX}tokens", twice, "every token once")
    of_kind = _kinds(metadata, len(texts))
    ended = {ids[text] for text in ENDS & ids.keys()}
    defaults = (1, 2, 0) if sentencepiece else (None, None, None)
    bos, eos, unknown, eot, eom = (
        _special(metadata, name, len(texts), default)
        for name, default in zip(("bos", "eos", "unknown", "eot", "eom"), (*defaults, None, None), strict=True)
    )
    ends = frozenset(ended | ({eos, eot, eom} - {None}))
    hidden = of_kind[Kind.CONTROL] | of_kind[Kind.UNKNOWN] | ended
    bytes_of = _bytes_of(metadata, texts, of_kind[Kind.BYTE]) if sentencepiece else {}
    return Vocabulary(
        texts, ids, frozenset(hidden), frozenset(of_kind[Kind.USER_DEFINED] - hidden), bytes_of, bos, eos, unknown,
        frozenset(end for end in ends if end is not None),
    )  # fmt: skip


def _texts(metadata: Metadata) -> list[str]:
    key = f"{PREFIX}tokens"
    found = metadata.texts(key)
    texts = found.all() if isinstance(found, TextArray) else list(found)
    if not texts:
        raise metadata.wrong(key, found, "at least one token")
    if max(map(len, texts)) > LARGEST_TOKEN:
        raise metadata.wrong(key, "a token is too long", f"at most {LARGEST_TOKEN} characters")
    if "" in texts:
        texts = [text or f"[EMPTY_{token}]" for token, text in enumerate(texts)]
    return texts


def _kinds(metadata: Metadata, count: int) -> dict[Kind, set[int]]:
    """The tokens of each kind but NORMAL and UNUSED, which few files have many of."""
    key = f"{PREFIX}token_type"
    kinds = metadata.numbers(key, "iu", count) if key in metadata else np.empty(0, np.int32)
    listed = (Kind.UNKNOWN, Kind.CONTROL, Kind.USER_DEFINED, Kind.BYTE)
    return {kind: set[int](np.flatnonzero(kinds == kind).tolist()) for kind in listed}


def _special(metadata: Metadata, name: str, count: int, default: int | None) -> int | None:
    key = f"{PREFIX}{name}_token_id"
    if key in metadata:
        return metadata.integer(key, maximum=count - 1)
    return default if default is not None and default < count else None


def _bytes_of(metadata: Metadata, texts: list[str], tokens: Iterable[int]) -> dict[int, int]:
    bytes_of: dict[int, int] = {}
    for token in tokens:
        match = _BYTE.fullmatch(texts[token])
        if match is None:
            raise metadata.wrong(
                f"{PREFIX}tokens", texts[token], f"a byte such as <0x0A>, as token {token} is of kind BYTE"
            )
        bytes_of[token] = int(match[1], 16)
    return bytes_of
