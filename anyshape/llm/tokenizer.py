"""Text to tokens and back: what every tokenizer offers, and a stream that gives text as soon as it is complete."""

import codecs
from abc import ABC, abstractmethod
from collections.abc import Iterable


class TextStream:
    """The text of tokens that come one by one. A character whose bytes are several tokens is given with its last one.

    Bytes that are not UTF-8 become U+FFFD, as in `Tokenizer.decode`.
    """

    def __init__(self, tokenizer: "Tokenizer", *, control: bool = False) -> None:
        self._tokenizer = tokenizer
        self._control = control
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")

    def push(self, token: int) -> str:
        """The text that the token completes; often a word, sometimes nothing."""
        return self._decoder.decode(self._tokenizer.token_bytes(token, control=self._control))

    def flush(self) -> str:
        """What is left of a character that never became complete: U+FFFD or nothing."""
        return self._decoder.decode(b"", final=True)


class Tokenizer(ABC):
    """Text to tokens and back.

    `size` is the number of tokens; `bos` and `eos` begin and end a text, where the model has them; generation ends at any of `ends`.
    """

    size: int
    bos: int | None
    eos: int | None
    ends: frozenset[int]

    @abstractmethod
    def encode(self, text: str, *, special: bool = True, control: bool = True) -> list[int]:
        """The tokens of a text.

        Args:
            text: any text; lone surrogates become `?`.
            special: add BOS and EOS where the model wants them; a BOS that the text begins with is not added again.
            control: control tokens written in the text, such as `<|im_end|>`, become those tokens; else they are text like any other.
        """

    @abstractmethod
    def token_bytes(self, token: int, *, control: bool = False) -> bytes:
        """What a token adds to a text, in UTF-8, perhaps a part of a character.

        Control tokens add nothing, or their names where `control` asks for them. IndexError where there is no such token.
        """

    @abstractmethod
    def token_text(self, token: int) -> str:
        """The token as the vocabulary writes it."""

    @abstractmethod
    def token_id(self, text: str) -> int | None:
        """The token that the vocabulary writes so."""

    @property
    def strips_space(self) -> bool:
        """Whether `encode` puts a space before a text, which `decode` takes away again."""
        return False

    def decode(self, tokens: Iterable[int], *, control: bool = False) -> str:
        """The text of tokens from its beginning on. Bytes that are not UTF-8 become U+FFFD, one for each maximal part."""
        raw = b"".join([self.token_bytes(token, control=control) for token in tokens])
        text = raw.decode(errors="replace")
        return text[1:] if self.strips_space and text.startswith(" ") else text

    def stream(self, *, control: bool = False) -> TextStream:
        """A stream for tokens that go on after others, as generated ones do."""
        return TextStream(self, control=control)
