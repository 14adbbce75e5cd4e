"""Tokenizers made of a GGUF file's metadata, with the same tokens as llama.cpp makes of it.

`gpt2` is byte-pair encoding on bytes: text is cut into words, and the merges of the file are applied to each. `llama` is
SentencePiece's BPE: a space is `▁`, and neighbours are joined in the order of the scores of what they give; it is not Unigram,
which looks for the best sum of scores. What has no token becomes byte tokens. Source: llama.cpp, `src/llama-vocab.cpp`.
"""

import re
from abc import abstractmethod
from functools import lru_cache

import numpy as np

from anyshape.llm.gguf import TextArray
from anyshape.llm.merging import merge
from anyshape.llm.metadata import Metadata
from anyshape.llm.pretokenizers import CUTS, Cut, to_bytes, to_letters
from anyshape.llm.tokenizer import Tokenizer
from anyshape.llm.vocabulary import PREFIX, Vocabulary, read_vocabulary

MODELS = ("gpt2", "llama")
SPACE = "▁"
_WORDS_KEPT = 1 << 14


def from_metadata(metadata: Metadata) -> Tokenizer:
    """The tokenizer of a GGUF file. Raises FileFormatError for a model or a pre-tokenizer that is not read, and lists those that are."""
    key = f"{PREFIX}model"
    model = metadata.text(key)
    if model not in MODELS:
        raise metadata.wrong(key, model, f"one of {', '.join(MODELS)}")
    return SentencePieceTokenizer(metadata) if model == "llama" else BytePairTokenizer(metadata)


class StoredTokenizer(Tokenizer):
    """What both kinds share: cutting a text at special tokens, BOS and EOS."""

    def __init__(self, metadata: Metadata, vocabulary: Vocabulary, *, adds_bos: bool, adds_space: bool) -> None:
        self.vocabulary = vocabulary
        self.size = len(vocabulary.texts)
        self.bos, self.eos, self.ends = vocabulary.bos, vocabulary.eos, vocabulary.ends
        self._prefix = _added(metadata, "bos", vocabulary.bos, default=adds_bos)
        self._suffix = _added(metadata, "eos", vocabulary.eos, default=False)
        self._adds_space = metadata.flag(f"{PREFIX}add_space_prefix", adds_space)
        self._user_defined = _Marks(vocabulary, vocabulary.user_defined)
        self._marks = _Marks(vocabulary, vocabulary.user_defined | vocabulary.control)
        self._strips_behind = _strip_behind(metadata, vocabulary)

    def encode(self, text: str, *, special: bool = True, control: bool = True) -> list[int]:
        tokens: list[int] = []
        behind_mark = True
        for part in (self._marks if control else self._user_defined).cut(text):
            if isinstance(part, int):
                tokens.append(part)
                behind_mark = True
                continue
            if tokens and tokens[-1] in self._strips_behind:
                part = part.lstrip()
            if part:
                tokens.extend(self._encode_text(f" {part}" if self._adds_space and behind_mark else part))
            behind_mark = False
        if not special:
            return tokens
        prefix = [] if tokens[:1] == self._prefix else self._prefix
        return [*prefix, *tokens, *self._suffix]

    def token_bytes(self, token: int, *, control: bool = False) -> bytes:
        if not 0 <= token < self.size:
            raise IndexError(f"token {token} of a vocabulary of {self.size}")
        text = self.vocabulary.texts[token]
        if token in self.vocabulary.control:
            return text.encode() if control else b""
        return text.encode() if token in self.vocabulary.user_defined else self._plain_bytes(token, text)

    def token_text(self, token: int) -> str:
        return self.vocabulary.texts[token]

    def token_id(self, text: str) -> int | None:
        return self.vocabulary.ids.get(text)

    @property
    def strips_space(self) -> bool:
        return self._adds_space

    @abstractmethod
    def _encode_text(self, text: str) -> list[int]:
        """The tokens of a text without special tokens."""

    @abstractmethod
    def _plain_bytes(self, token: int, text: str) -> bytes:
        """What a token that is part of the text adds to it."""


class BytePairTokenizer(StoredTokenizer):
    """Byte-pair encoding on the bytes of words."""

    def __init__(self, metadata: Metadata) -> None:
        key = f"{PREFIX}pre"
        cut = CUTS.get(metadata.text(key, "default"))
        if cut is None:
            raise metadata.wrong(key, metadata.text(key), f"one of {', '.join(CUTS)}")
        super().__init__(
            metadata, read_vocabulary(metadata, sentencepiece=False), adds_bos=cut.adds_bos, adds_space=False
        )
        self._cut: Cut = cut
        self._words = cut.words()
        found = metadata.texts(f"{PREFIX}merges")
        merges = found.all() if isinstance(found, TextArray) else list(found)
        # "left right" -> rank; of a pair that is there twice the first counts.
        self._ranks = dict(zip(reversed(merges), range(len(merges) - 1, -1, -1), strict=True))
        self._tokens_of_word = lru_cache(_WORDS_KEPT)(self._encode_word)

    def _encode_text(self, text: str) -> list[int]:
        text = text.encode(errors="replace").decode()
        return [token for word, _ in self._words.pre_tokenize_str(text) for token in self._tokens_of_word(word)]

    def _encode_word(self, word: str) -> tuple[int, ...]:
        ids, letters = self.vocabulary.ids, to_letters(word)
        if self._cut.whole_words and letters in ids:
            return (ids[letters],)
        pieces = merge(letters, self._rank)
        # A merge may give what is no token: then its bytes are the tokens, and a byte without a token is lost.
        found = (token for piece in pieces for token in ([ids[piece]] if piece in ids else map(ids.get, piece)))
        return tuple(token for token in found if token is not None)

    def _rank(self, left: str, right: str) -> int | None:
        return self._ranks.get(f"{left} {right}")

    def _plain_bytes(self, token: int, text: str) -> bytes:
        return to_bytes(text)


class SentencePieceTokenizer(StoredTokenizer):
    """SentencePiece's BPE, with bytes for what has no token."""

    def __init__(self, metadata: Metadata) -> None:
        vocabulary = read_vocabulary(metadata, sentencepiece=True)
        super().__init__(metadata, vocabulary, adds_bos=True, adds_space=True)
        scores = metadata.numbers(f"{PREFIX}scores", "fiu", self.size)
        if not np.isfinite(scores).all():
            raise metadata.wrong(f"{PREFIX}scores", "not all are finite", "finite scores")
        self._orders: list[float] = (-scores.astype(np.float64)).tolist()
        self._byte_tokens = {byte: token for token, byte in vocabulary.bytes_of.items()}

    def _encode_text(self, text: str) -> list[int]:
        text = text.encode(errors="replace").decode().replace(" ", SPACE)
        ids = self.vocabulary.ids
        tokens: list[int] = []
        for piece in merge(text, self._order):
            token = ids.get(piece)
            if token is None:
                tokens.extend(self._byte_fallback(piece))
            else:
                tokens.append(token)
        return tokens

    def _order(self, left: str, right: str) -> float | None:
        token = self.vocabulary.ids.get(left + right)
        return None if token is None else self._orders[token]

    def _byte_fallback(self, piece: str) -> list[int]:
        found = [self._byte_tokens.get(byte, self.vocabulary.unknown) for byte in piece.encode()]
        return [token for token in found if token is not None]

    def _plain_bytes(self, token: int, text: str) -> bytes:
        byte = self.vocabulary.bytes_of.get(token)
        return text.replace(SPACE, " ").encode() if byte is None else bytes([byte])


class _Marks:
    """Tokens at which a text is cut: at each place the longest one, from left to right."""

    def __init__(self, vocabulary: Vocabulary, tokens: frozenset[int]) -> None:
        self._ids = {vocabulary.texts[token]: token for token in tokens}
        lengths: dict[str, set[int]] = {}
        for text in self._ids:
            lengths.setdefault(text[0], set()).add(len(text))
        self._lengths = {first: sorted(each, reverse=True) for first, each in lengths.items()}
        self._first = re.compile(f"[{re.escape(''.join(lengths))}]") if lengths else None

    def cut(self, text: str) -> list[str | int]:
        """Texts without marks, none of them empty, and the tokens between them."""
        parts: list[str | int] = []
        end = 0
        for start in (match.start() for match in self._first.finditer(text)) if self._first else ():
            if start < end:
                continue
            mark = next(
                (text[start : start + n] for n in self._lengths[text[start]] if text[start : start + n] in self._ids),
                None,
            )
            if mark is not None:
                parts += [text[end:start], self._ids[mark]]
                end = start + len(mark)
        return [part for part in (*parts, text[end:]) if part != ""]


def _added(metadata: Metadata, name: str, token: int | None, *, default: bool) -> list[int]:
    """BOS or EOS as a list, empty where the file does not want it added."""
    key = f"{PREFIX}add_{name}_token"
    if not metadata.flag(key, default):
        return []
    if token is None:
        raise metadata.wrong(key, True, f"the key {PREFIX}{name}_token_id, which says which token")
    return [token]


def _strip_behind(metadata: Metadata, vocabulary: Vocabulary) -> frozenset[int]:
    """Phi-3 takes no white space behind its control tokens, which no key of the file says."""
    name = metadata.text("general.name", "").lower()
    if "phi-3" not in name and "phi3" not in name:
        return frozenset()
    kept = {vocabulary.ids.get(text) for text in ("<unk>", "<s>", "<|endoftext|>")}
    return (vocabulary.control | vocabulary.user_defined) - kept
