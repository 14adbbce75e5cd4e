"""How text is cut into words before byte-pair encoding, and how bytes are written as letters in its vocabularies.

The cuts are regular expressions that belong to a family's tokenizer; GGUF files name them in `tokenizer.ggml.pre`, and the
names are llama.cpp's (`src/llama-vocab.cpp`). A cut is applied to the pieces that the one before it left.
"""

from dataclasses import dataclass

from tokenizers import Regex
from tokenizers.pre_tokenizers import PreTokenizer, Sequence, Split


@dataclass(frozen=True)
class Cut:
    """The rules of one family.

    Args:
        patterns: regular expressions; what one matches becomes a piece, and so does what is between.
        whole_words: a word that is in the vocabulary is one token, whatever merges say.
        adds_bos: whether a text begins with BOS where the file does not say.
    """

    patterns: tuple[str, ...]
    whole_words: bool = False
    adds_bos: bool = False

    def words(self) -> PreTokenizer:
        """The cut, ready to use; its `pre_tokenize_str` gives pieces."""
        splits: list[PreTokenizer] = [Split(Regex(pattern), "isolated") for pattern in self.patterns]
        return splits[0] if len(splits) == 1 else Sequence(splits)


_GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
_SUFFIX = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_TAIL = r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
_CASES = (
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+@|"
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*@|"
    r"\p{N}# ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)

_LLAMA3 = Cut((rf"{_SUFFIX}|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|\p{{N}}{{1,3}}|{_TAIL}",), whole_words=True, adds_bos=True)
_LIKE_LLAMA3 = Cut(_LLAMA3.patterns)
_QWEN2 = Cut((rf"{_SUFFIX}|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|\p{{N}}|{_TAIL}",))
_QWEN35 = Cut(
    (rf"{_SUFFIX}|[^\r\n\p{{L}}\p{{N}}]?[\p{{L}}\p{{M}}]+|\p{{N}}| ?[^\s\p{{L}}\p{{M}}\p{{N}}]+[\r\n]*|{_TAIL}",)
)
_DIGITS = Cut((r"\p{N}", _GPT2))
_PLAIN = Cut((_GPT2,))
_TEKKEN = Cut((_CASES.replace("@", "").replace("#", "|"),), whole_words=True, adds_bos=True)
_GPT4O = Cut((_CASES.replace("@", f"{_SUFFIX}?").replace("#", "{1,3}|"),))
_DEFAULT = Cut((r"[\p{P}\$\+<=>\^~\|]+", _GPT2, r"\p{N}+", r"[0-9][0-9][0-9]"))

CUTS = {
    "default": _DEFAULT,
    "llama3": _LLAMA3,
    "llama-v3": _LLAMA3,
    "llama-bpe": _LLAMA3,
    "falcon3": _LLAMA3,
    "pixtral": _LLAMA3,
    "dbrx": _LIKE_LLAMA3,
    "smaug-bpe": _LIKE_LLAMA3,
    "chatglm-bpe": _LIKE_LLAMA3,
    "qwen2": _QWEN2,
    "deepseek-r1-qwen": _QWEN2,
    "megrez": _QWEN2,
    "stablelm2": _QWEN2,
    "qwen35": _QWEN35,
    "smollm": _DIGITS,
    "starcoder": _DIGITS,
    "refact": _DIGITS,
    "command-r": _DIGITS,
    "codeshell": _DIGITS,
    "exaone": _DIGITS,
    "minerva-7b": _DIGITS,
    "gpt-2": _PLAIN,
    "phi-2": _PLAIN,
    "mpt": _PLAIN,
    "olmo": _PLAIN,
    "jais": _PLAIN,
    "trillion": _PLAIN,
    "tekken": _TEKKEN,
    "gpt-4o": _GPT4O,
    "llama4": _GPT4O,
}
"""Name in the file -> cut."""


def _letters() -> str:
    """The letter of each byte: itself where it is a visible Latin-1 character, else the next unused one from U+0100 on (GPT-2)."""
    visible = {*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)}
    others = iter(range(0x100, 0x200))
    return "".join(chr(byte if byte in visible else next(others)) for byte in range(256))


_LETTERS = _letters()
_TO_LETTER = dict(enumerate(_LETTERS))
_TO_BYTE = {letter: byte for byte, letter in enumerate(_LETTERS)}


def to_letters(text: str) -> str:
    """The UTF-8 bytes of a text as letters of a byte-level vocabulary."""
    return text.encode(errors="replace").decode("latin-1").translate(_TO_LETTER)


def to_bytes(token: str) -> bytes:
    """The bytes of a token of a byte-level vocabulary; characters that stand for no byte are themselves."""
    try:
        return bytes([_TO_BYTE[letter] for letter in token])
    except KeyError:
        return token.encode(errors="replace")
