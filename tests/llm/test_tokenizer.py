"""Tokenizers: golden tokens, libraries as oracles, text to tokens and back, and streams."""

import random
import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import regex
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer as Library
from tokenizers import decoders, models, pre_tokenizers

from anyshape.llm import checkpoint, gguf, gguf_tokenizer, json_tokenizer
from anyshape.llm.gguf_tokenizer import BytePairTokenizer, SentencePieceTokenizer, StoredTokenizer
from anyshape.llm.merging import merge
from anyshape.llm.metadata import Metadata, Value
from anyshape.llm.pretokenizers import CUTS, to_bytes, to_letters
from anyshape.llm.tokenizer import Tokenizer
from anyshape.support.errors import FileFormatError
from tests.llm.models import smollm2

LETTERS = {byte: letter for letter in map(chr, range(0x180)) if len(raw := to_bytes(letter)) == 1 for byte in raw}

TEXTS = [
    "Hello, world! It's 1234 o'clock\n\n  ok",
    "  two  spaces and\ttabs\t\t\n \n",
    "äöü ß 日本語 한국어 עברית 🦙🦙👩‍👩‍👧 \u200b\u00a0\u3000e\u0301",
    "def f(x):\n    return x**2  # comment\r\n\r\n\tif x != 3.14159:\n",
    "I'LL we'Ve THEY'RE it'S don't 'tis HTTPServer camelCase snake_case",
    "١٢٣ ½ ²  9.99€ 100,000 ǅ",
    "",
    " ",
    "a",
    "ab" * 300,
]


@pytest.fixture(scope="module")
def smol() -> Tokenizer:
    return gguf_tokenizer.from_metadata(gguf.open(smollm2()).metadata)


# -- SmolLM2: byte pairs --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        (
            "Hello, world! It's 1234 o'clock\n\n  ok",
            [19556, 28, 905, 17, 657, 506, 216, 33, 34, 35, 36, 263, 23, 17466, 8866, 10907],
        ),
        ("<|im_start|>user\nHi<|im_end|>", [1, 4093, 198, 26843, 2]),
        (
            "äöü 日本語 🦙🦙",
            [9023, 7466, 7170, 17097, 241, 115, 40993, 179, 120, 248, 15107, 116, 243, 10813, 116, 243],
        ),
        ("", []),
    ],
)
def test_golden_tokens_of_smollm2(smol: Tokenizer, text: str, tokens: list[int]) -> None:
    """Recorded once; `test_smollm2_is_the_same_by_the_library` derives such tokens independently."""
    assert smol.encode(text) == tokens
    assert smol.decode(tokens, control=True) == text


def test_special_tokens_of_smollm2(smol: Tokenizer) -> None:
    assert (smol.size, smol.bos, smol.eos, smol.ends) == (49152, 1, 2, {0, 2})
    assert smol.token_text(2) == "<|im_end|>"
    assert smol.token_id("<|im_end|>") == 2
    assert smol.token_id("no such token") is None
    assert smol.decode([1, 4093, 2]) == "user"
    assert 2 not in smol.encode("<|im_end|>", control=False)
    assert smol.decode(smol.encode("<|im_end|>", control=False)) == "<|im_end|>"
    for token in (-1, 49152):
        with pytest.raises(IndexError):
            smol.token_bytes(token)


def library_of(metadata: Metadata) -> Library:
    """The library's own byte pairs on the file's vocabulary, cut as SmolLM2's `tokenizer.json` says."""
    vocabulary = {text: token for token, text in enumerate(metadata.texts("tokenizer.ggml.tokens"))}
    merges = [tuple(each.split(" ")) for each in metadata.texts("tokenizer.ggml.merges")]
    library = Library(models.BPE(vocabulary, merges))  # type: ignore[arg-type]
    digits = pre_tokenizers.Digits(individual_digits=True)
    library.pre_tokenizer = pre_tokenizers.Sequence([digits, pre_tokenizers.ByteLevel(add_prefix_space=False)])  # type: ignore[assignment]
    library.decoder = decoders.ByteLevel()  # type: ignore[assignment]
    return library


def random_texts(count: int) -> list[str]:
    rng = random.Random(0)
    letters = "abcdefghij klmnop  qrstuvwxyz ,.'!\n\t\r0123456789ÄéßλЖ日本🦙\u0301"
    made = ["".join(rng.choices(letters, k=rng.randrange(60))) for _ in range(count)]
    words = Path(__file__).read_text().split()
    return made + [" ".join(rng.choices(words, k=rng.randrange(20))) for _ in range(count)]


def test_smollm2_is_the_same_by_the_library(smol: Tokenizer) -> None:
    library = library_of(gguf.open(smollm2()).metadata)
    for text in [*TEXTS, *random_texts(300), Path(__file__).read_text()]:
        tokens = smol.encode(text, control=False)
        assert tokens == library.encode(text).ids, text
        assert smol.decode(tokens) == text


@given(st.text())
def test_any_text_comes_back_but_for_bytes_without_a_token(smol: Tokenizer, text: str) -> None:
    """As in llama.cpp: SmolLM2 has no tokens for some control characters, and no unknown token for byte pairs."""
    raw = bytes(byte for byte in text.encode() if smol.token_id(LETTERS[byte]) is not None)
    for control in (False, True):
        assert smol.decode(smol.encode(text, control=control), control=True) == raw.decode(errors="replace")


def test_lone_surrogates_are_question_marks(smol: Tokenizer) -> None:
    assert smol.decode(smol.encode("a\ud800b")) == "a?b"


def test_letters_of_bytes() -> None:
    every = [bytes([byte]) for byte in range(256)]
    assert [to_bytes(to_letters(chr(byte))) for byte in range(128)] == every[:128]
    assert to_letters(" \n!é") == "ĠĊ!Ã©"
    assert to_bytes("日") == "日".encode()


# -- cuts -----------------------------------------------------------------------------------------------------------------

# As the families' tokenizer.json write them.
SUFFIX = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
UPPER, LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
FAMILIES = {
    "gpt-2": r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
    "llama-bpe": SUFFIX + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    "qwen2": SUFFIX + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    "tekken": (
        rf"[^\r\n\p{{L}}\p{{N}}]?{UPPER}*{LOWER}+|[^\r\n\p{{L}}\p{{N}}]?{UPPER}+{LOWER}*"
        r"|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
    ),
    "gpt-4o": (
        rf"[^\r\n\p{{L}}\p{{N}}]?{UPPER}*{LOWER}+{SUFFIX}?|[^\r\n\p{{L}}\p{{N}}]?{UPPER}+{LOWER}*{SUFFIX}?"
        r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
    ),
}


@pytest.mark.parametrize("family", FAMILIES)
def test_a_cut_is_that_of_the_family(family: str) -> None:
    words = CUTS[family].words()
    for text in [*TEXTS, *random_texts(200)]:
        assert [word for word, _ in words.pre_tokenize_str(text)] == regex.findall(FAMILIES[family], text), text


@pytest.mark.parametrize("name", sorted(CUTS))
def test_no_cut_loses_text(name: str) -> None:
    words = CUTS[name].words()
    for text in TEXTS:
        assert "".join(word for word, _ in words.pre_tokenize_str(text)) == text


# -- SentencePiece --------------------------------------------------------------------------------------------------------


def vocabulary(pieces: dict[str, float], **more: Value) -> Metadata:
    """A SentencePiece vocabulary: unknown, BOS, EOS, 256 bytes, then the pieces with their scores."""
    texts = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), *pieces]
    kinds = [2, 3, 3] + [6] * 256 + [1] * len(pieces)
    values: dict[str, Value] = {
        "tokenizer.ggml.model": "llama",
        "tokenizer.ggml.tokens": tuple(texts),
        "tokenizer.ggml.scores": np.array([0.0] * 259 + list(pieces.values()), np.float32),
        "tokenizer.ggml.token_type": np.array(kinds, np.int32),
    }
    return Metadata("file", values | {f"tokenizer.ggml.{name}": value for name, value in more.items()})


PIECES = {
    "▁": -9.0,
    "a": -1.0,
    "b": -2.0,
    "c": -3.0,
    "ab": -5.0,
    "bc": -4.0,
    "▁a": -6.0,
    "abc": -7.0,
    "▁abc": -8.0,
    "é": -9.5,
    "aa": -4.5,
}


def pieces_of(tokenizer: Tokenizer, text: str, **options: bool) -> list[str]:
    return [tokenizer.token_text(token) for token in tokenizer.encode(text, **options)]


def test_the_best_score_is_joined_first_not_the_best_sum() -> None:
    tokenizer = gguf_tokenizer.from_metadata(vocabulary(PIECES))
    assert isinstance(tokenizer, SentencePieceTokenizer)
    # bc (−4) before ab (−5), then a+bc gives abc (−7), then ▁+abc; Unigram would take ▁a (−6) and bc, of the larger sum.
    assert pieces_of(tokenizer, "abc") == ["<s>", "▁abc"]
    assert pieces_of(tokenizer, "abab") == ["<s>", "▁", "ab", "ab"]
    assert pieces_of(tokenizer, "ab c") == ["<s>", "▁", "ab", "▁", "c"]


def test_equal_scores_are_joined_from_the_left() -> None:
    tokenizer = gguf_tokenizer.from_metadata(vocabulary(PIECES, add_space_prefix=False))
    assert pieces_of(tokenizer, "aaa", special=False) == ["aa", "a"]
    assert pieces_of(tokenizer, "aaaaa", special=False) == ["aa", "aa", "a"]


def test_what_has_no_piece_becomes_bytes() -> None:
    tokenizer = gguf_tokenizer.from_metadata(vocabulary(PIECES))
    assert pieces_of(tokenizer, "é日") == ["<s>", "▁", "é", "<0xE6>", "<0x97>", "<0xA5>"]
    for text in ["é日 a  b\n", " abc", "", "  "]:
        assert tokenizer.decode(tokenizer.encode(text)) == text


def test_without_bytes_it_becomes_the_unknown_token() -> None:
    values = dict(vocabulary(PIECES))
    values["tokenizer.ggml.token_type"] = np.ones(259 + len(PIECES), np.int32)
    tokenizer = gguf_tokenizer.from_metadata(Metadata("file", values))
    assert tokenizer.encode("é日", special=False)[-3:] == [0, 0, 0]


def test_special_tokens_are_cut_out_the_longest_first() -> None:
    more = {**PIECES, "<x>": 0.0, "<x><y>": 0.0}
    values = dict(vocabulary(more))
    kinds = np.array(values["tokenizer.ggml.token_type"])
    kinds[-2:] = [4, 3]
    tokenizer = gguf_tokenizer.from_metadata(Metadata("file", {**values, "tokenizer.ggml.token_type": kinds}))
    assert pieces_of(tokenizer, "a<x><y>a<x>a") == ["<s>", "▁a", "<x><y>", "▁a", "<x>", "▁a"]
    # A user-defined token is one wherever it is written; a control token is only where it is asked for.
    assert pieces_of(tokenizer, "a<x>a</s>", control=False)[:4] == ["<s>", "▁a", "<x>", "▁a"]
    assert "</s>" not in pieces_of(tokenizer, "a<x>a</s>", control=False)
    assert tokenizer.decode(tokenizer.encode("<x>a"), control=False) == "<x> a"


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ({}, ["<s>", "▁a"]),
        ({"add_bos_token": False}, ["▁a"]),
        ({"add_eos_token": True}, ["<s>", "▁a", "</s>"]),
        ({"add_space_prefix": False}, ["<s>", "a"]),
        ({"bos_token_id": 2}, ["</s>", "▁a"]),
    ],
)
def test_begin_and_end_are_the_files(more: dict[str, Value], expected: list[str]) -> None:
    tokenizer = gguf_tokenizer.from_metadata(vocabulary(PIECES, **more))
    assert pieces_of(tokenizer, "a") == expected
    assert [piece for piece in expected if "a" in piece] == pieces_of(tokenizer, "a", special=False)


def test_a_text_that_begins_with_bos_gets_no_second_one() -> None:
    tokenizer = gguf_tokenizer.from_metadata(vocabulary(PIECES))
    assert pieces_of(tokenizer, "<s>a") == ["<s>", "▁a"]
    assert pieces_of(tokenizer, "") == ["<s>"]


def test_phi3_takes_no_space_behind_control_tokens() -> None:
    values = {**vocabulary(PIECES, add_space_prefix=False), "general.name": "Phi 3 Mini phi-3"}
    tokenizer = gguf_tokenizer.from_metadata(Metadata("file", values))
    assert pieces_of(tokenizer, "</s>\n a<s> a", special=False) == ["</s>", "a", "<s>", "▁a"]


def test_merging_is_the_slow_one() -> None:
    """The best pair, the leftmost of equals, until there is none: by looking at all pairs every time."""
    rng = random.Random(0)
    for _ in range(500):
        order = {"".join(rng.choices("ab", k=rng.randrange(2, 6))): rng.randrange(4) for _ in range(12)}
        text = "".join(rng.choices("ab", k=rng.randrange(12)))
        slow = list(text)
        while pairs := [(order[a + b], at) for at, (a, b) in enumerate(pairwise(slow)) if a + b in order]:
            at = min(pairs)[1]
            slow[at : at + 2] = [slow[at] + slow[at + 1]]
        assert merge(text, lambda a, b: order.get(a + b)) == slow  # noqa: B023


# -- streams --------------------------------------------------------------------------------------------------------------


def test_a_stream_gives_whole_characters(smol: Tokenizer) -> None:
    for text in TEXTS:
        stream = smol.stream()
        pieces = [stream.push(token) for token in smol.encode(text, control=False)]
        assert "".join(pieces) == text
        assert stream.flush() == ""
        assert not any("\ufffd" in piece for piece in pieces)


def test_a_stream_holds_what_is_not_complete(smol: Tokenizer) -> None:
    stream = smol.stream()
    tokens = smol.encode("🦙")
    assert len(tokens) > 1
    assert [stream.push(token) for token in tokens[:-1]] == [""] * (len(tokens) - 1)
    assert stream.push(tokens[-1]) == "🦙"
    stream.push(tokens[0])
    assert stream.push(smol.encode("a")[0]) == "\ufffda"
    stream.push(tokens[0])
    assert stream.flush() == "\ufffd"


# -- attacks --------------------------------------------------------------------------------------------------------------


def byte_pairs(**more: Value) -> Metadata:
    values: dict[str, Value] = {"model": "gpt2", "pre": "gpt-2", "tokens": ("a", "b", "ab"), "merges": ("a b",)}
    return Metadata("file", {f"tokenizer.ggml.{name}": value for name, value in (values | more).items()})


def test_merges_that_lead_nowhere_lose_nothing() -> None:
    tokenizer = gguf_tokenizer.from_metadata(byte_pairs(merges=("b b", "a b", "nonsense", "")))
    assert isinstance(tokenizer, BytePairTokenizer)
    assert pieces_of(tokenizer, "abbb") == ["a", "b", "b", "b"]
    assert pieces_of(tokenizer, "aab") == ["a", "ab"]
    assert pieces_of(tokenizer, "ac") == ["a"]


def test_a_whole_word_is_a_token_where_the_family_says_so() -> None:
    """Llama 3 takes a word of the vocabulary whatever merges say; Qwen 2 has merges alone."""
    tokens = ("a", "b", "ab", "aba", "<bos>")
    for family, expected in (("llama-bpe", ["<bos>", "aba"]), ("qwen2", ["ab", "a"])):
        tokenizer = gguf_tokenizer.from_metadata(byte_pairs(pre=family, tokens=tokens, bos_token_id=4))
        assert pieces_of(tokenizer, "aba") == expected


@pytest.mark.parametrize(
    ("metadata", "words"),
    [
        (byte_pairs(model="bert"), ("tokenizer.ggml.model", "'bert'", "gpt2, llama")),
        (byte_pairs(model=3), ("tokenizer.ggml.model", "3")),
        (byte_pairs(pre="martian"), ("'martian'", "llama-bpe")),
        (byte_pairs(tokens=np.arange(3)), ("tokenizer.ggml.tokens", "an array of 3 int64")),
        (byte_pairs(tokens=()), ("at least one token",)),
        (byte_pairs(tokens=("a", "b", "a")), ("'a'", "once")),
        (byte_pairs(tokens=("a" * 70_000,)), ("too long",)),
        (byte_pairs(merges="a b"), ("tokenizer.ggml.merges",)),
        (byte_pairs(token_type=np.zeros(5, np.int32)), ("token_type", "3 elements")),
        (byte_pairs(token_type=np.zeros(3, np.float32)), ("token_type", "whole numbers")),
        (byte_pairs(bos_token_id=3), ("bos_token_id", "from 0 to 2")),
        (byte_pairs(eos_token_id=-1), ("eos_token_id",)),
        (byte_pairs(add_bos_token=True), ("add_bos_token", "bos_token_id")),
        (byte_pairs(add_bos_token=1), ("add_bos_token", "true or false")),
        (vocabulary({"a": float("nan")}), ("scores", "finite")),
        (vocabulary({"a": float("inf")}), ("scores", "finite")),
        (Metadata("file", {}), ("tokenizer.ggml.model", "no such key")),
    ],
)
def test_a_wrong_vocabulary_is_refused(metadata: Metadata, words: tuple[str, ...]) -> None:
    with pytest.raises(FileFormatError) as caught:
        gguf_tokenizer.from_metadata(metadata)
    for word in words:
        assert word in str(caught.value)


@pytest.mark.parametrize("text", ["<0x-1>", "<0x1>", "<0xGG>", "<0x100>", "0x0A", "<0x0a>", "<0x 1>"])
def test_a_byte_token_that_is_no_byte_is_refused(text: str) -> None:
    values = dict(vocabulary(PIECES))
    texts = list(gguf_tokenizer.from_metadata(vocabulary(PIECES)).vocabulary.texts)  # type: ignore[attr-defined]
    texts[10] = text
    with pytest.raises(FileFormatError, match=re.escape(text)):
        gguf_tokenizer.from_metadata(Metadata("file", {**values, "tokenizer.ggml.tokens": tuple(texts)}))


def test_a_long_word_takes_no_square_of_time() -> None:
    tokenizer = gguf_tokenizer.from_metadata(byte_pairs())
    assert len(tokenizer.encode("ab" * 100_000)) == 100_000


# -- tokenizer.json -------------------------------------------------------------------------------------------------------


def folder(tmp_path: Path, library: Library | str, config: str = "{}") -> checkpoint.Checkpoint:
    (tmp_path / "tokenizer.json").write_text(library if isinstance(library, str) else library.to_str())
    (tmp_path / "tokenizer_config.json").write_text(config)
    return checkpoint.Checkpoint(tmp_path, Metadata("config.json", {"eos_token_id": np.array([2, 0])}), {})


def test_a_folders_tokenizer_is_the_files(tmp_path: Path, smol: Tokenizer) -> None:
    library = library_of(gguf.open(smollm2()).metadata)
    assert isinstance(smol, StoredTokenizer)
    library.add_special_tokens([smol.token_text(token) for token in sorted(smol.vocabulary.control)])
    config = '{"bos_token": "<|im_start|>", "eos_token": {"content": "<|im_end|>"}}'
    tokenizer = json_tokenizer.from_checkpoint(folder(tmp_path, library, config))
    assert (tokenizer.size, tokenizer.bos, tokenizer.eos, tokenizer.ends) == (49152, 1, 2, {0, 2})
    for text in [*TEXTS, "<|im_start|>user\nHi<|im_end|>"]:
        for control in (True, False):
            tokens = smol.encode(text, control=control)
            assert tokenizer.encode(text, control=control) == tokens
            assert tokenizer.decode(tokens) == smol.decode(tokens)
    with pytest.raises(IndexError):
        tokenizer.token_bytes(49152)


def test_a_sentencepiece_folder(tmp_path: Path) -> None:
    pieces: dict[str, Any] = {text: token for token, text in enumerate(["<unk>", "▁", "a", "▁a", "<0xC3>", "<0xA9>"])}
    library = Library(models.BPE(pieces, [("▁", "a")], byte_fallback=True, unk_token="<unk>"))
    library.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=False)  # type: ignore[assignment]
    parts = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    library.decoder = decoders.Sequence(parts)  # type: ignore[assignment]
    tokenizer = json_tokenizer.from_checkpoint(folder(tmp_path, library))
    assert tokenizer.encode("aé a") == [3, 4, 5, 3]
    assert tokenizer.decode([3, 4, 5, 3]) == "aé a"


def test_a_unigram_folder_takes_the_best_sum(tmp_path: Path) -> None:
    pieces = [("<unk>", 0.0), ("▁", -2.0), ("a", -3.0), ("b", -3.0), ("▁a", -4.0), ("ab", -3.5), ("<s>", 0.0)]
    library = Library(models.Unigram(pieces, unk_id=0))
    library.pre_tokenizer = pre_tokenizers.Metaspace()  # type: ignore[assignment]
    library.decoder = decoders.Metaspace()  # type: ignore[assignment]
    tokenizer = json_tokenizer.from_checkpoint(folder(tmp_path, library, '{"bos_token": "<s>"}'))
    assert tokenizer.bos == 6
    assert [tokenizer.token_text(token) for token in tokenizer.encode("ab b")] == ["▁", "ab", "▁", "b"]
    assert tokenizer.decode(tokenizer.encode("ab b")) == "ab b"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", ("not sound",)),
        ("{}", ("not sound",)),
        ('{"model": 1, "model": 2}', ("not sound",)),
        ("[" * 100_000, ("not sound",)),
        (Library(models.BPE({"a": 0}, [])).to_str(), ("decoder", "none")),
    ],
)
def test_a_wrong_tokenizer_json_is_refused(tmp_path: Path, text: str, words: tuple[str, ...]) -> None:
    with pytest.raises(FileFormatError) as caught:
        json_tokenizer.from_checkpoint(folder(tmp_path, text))
    for word in ("tokenizer.json", *words):
        assert word in str(caught.value)
