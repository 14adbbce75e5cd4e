"""The tokenizer of a folder: `tokenizer.json`, by the `tokenizers` library, which wrote it."""

from typing import Any

from tokenizers import Tokenizer as Library

from anyshape.llm import strict_json
from anyshape.llm.checkpoint import Checkpoint
from anyshape.llm.pretokenizers import to_bytes
from anyshape.llm.tokenizer import Tokenizer
from anyshape.llm.vocabulary import ENDS
from anyshape.support.errors import FileFormatError

NAME = "tokenizer.json"
SPACE = "▁"


def from_checkpoint(checkpoint: Checkpoint) -> Tokenizer:
    """The tokenizer of a folder, with BOS and EOS out of `tokenizer_config.json`, `config.json` and `generation_config.json`.

    Raises FileFormatError where there is no `tokenizer.json`, or it is not sound, or its decoder is neither byte-level nor
    SentencePiece's.
    """
    where = checkpoint.path / NAME
    if not checkpoint.has(NAME):
        remedy = "save it with `AutoTokenizer.from_pretrained(…).save_pretrained(folder)`"
        raise FileFormatError("the folder has no tokenizer", where=checkpoint.path, expected=NAME, remedy=remedy)
    try:
        library = Library.from_buffer(checkpoint.content(NAME))
    except FileFormatError:
        raise
    except Exception as error:  # the library raises nothing more specific
        raise FileFormatError(
            "the tokenizer is not sound", where=where, got=str(error)[:200], expected="tokenizer.json"
        ) from error
    # A pickled decoder is its part of the file; there is no other way to ask it.
    kinds = _decoder_kinds(strict_json.parse(where, library.decoder.__getstate__()) if library.decoder else None)
    if not kinds & {"ByteLevel", "ByteFallback", "Metaspace"}:
        got = ", ".join(sorted(kinds)) or "none"
        raise FileFormatError(
            "a decoder that is not read", where=where, got=got, expected="ByteLevel, ByteFallback or Metaspace"
        )
    named = checkpoint.settings("tokenizer_config.json")
    bos, eos = (library.token_to_id(_content(named, name)) for name in ("bos", "eos"))
    return JsonTokenizer(library, bos, eos, _ends(checkpoint, library, eos), kinds)


class JsonTokenizer(Tokenizer):
    """A tokenizer of the library. `kinds` are those of its decoder's parts."""

    def __init__(
        self, library: Library, bos: int | None, eos: int | None, ends: frozenset[int], kinds: frozenset[str]
    ) -> None:
        self._library = library
        self._plain: Library | None = None
        self.size = library.get_vocab_size(with_added_tokens=True)
        self.bos, self.eos, self.ends = bos, eos, ends
        self._is_byte_level = "ByteLevel" in kinds
        self._strips_space = bool(kinds & {"Strip", "Metaspace"})
        added = library.get_added_tokens_decoder()
        self._special = frozenset(token for token, each in added.items() if each.special)
        self._added = {token: each.content for token, each in added.items()}

    def encode(self, text: str, *, special: bool = True, control: bool = True) -> list[int]:
        text = text.encode(errors="replace").decode()
        tokens = self._chosen(control).encode(text, add_special_tokens=special).ids
        return tokens[1:] if special and tokens[:2] == [self.bos] * 2 else tokens

    def token_bytes(self, token: int, *, control: bool = False) -> bytes:
        if token in self._special:
            return self._added[token].encode() if control else b""
        text = self._added.get(token)
        if text is not None:
            return text.encode()
        text = self.token_text(token)
        if self._is_byte_level:
            return to_bytes(text)
        if len(text) == 6 and text.startswith("<0x") and text.endswith(">"):
            return bytes.fromhex(text[3:5])
        return text.replace(SPACE, " ").encode()

    def token_text(self, token: int) -> str:
        text = self._library.id_to_token(token) if token >= 0 else None
        if text is None:
            raise IndexError(f"token {token} of a vocabulary of {self.size}")
        return text

    def token_id(self, text: str) -> int | None:
        return self._library.token_to_id(text)

    @property
    def strips_space(self) -> bool:
        return self._strips_space

    def _chosen(self, control: bool) -> Library:
        """The library's tokenizer, or a copy of it that takes special tokens for text."""
        if control:
            return self._library
        if self._plain is None:
            self._plain = Library.from_str(self._library.to_str())
            self._plain.encode_special_tokens = True
        return self._plain


def _decoder_kinds(decoder: object) -> frozenset[str]:
    """The kinds of a decoder's parts."""
    if not strict_json.is_object(decoder):
        return frozenset()
    parts: Any = decoder.get("decoders") or [decoder]
    return frozenset(str(part.get("type")) for part in parts if strict_json.is_object(part))


def _content(named: Any, name: str) -> str:
    """The text of BOS or EOS, written as it is or as an object; empty where there is none."""
    key = f"{name}_token"
    return named.text(key, "") if key in named else named.text(f"{key}.content", "")


def _ends(checkpoint: Checkpoint, library: Library, eos: int | None) -> frozenset[int]:
    ends = {eos, *(library.token_to_id(text) for text in ENDS)}
    for settings in (checkpoint.metadata, checkpoint.settings("generation_config.json")):
        value = settings.get("eos_token_id")
        if isinstance(value, int):
            ends.add(value)
        elif value is not None:
            ends.update(settings.numbers("eos_token_id", "iu").tolist())
    return frozenset(end for end in ends if end is not None)
