"""GGUF files: read as the format's own package reads them, and every attack refused by name."""

import os
import struct
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gguf as reference
import numpy as np
import pytest

from anyshape.llm import gguf
from anyshape.llm.tensor_types import TENSOR_TYPES, TYPE_OF_CODE, UNSUPPORTED
from anyshape.support.errors import FileFormatError
from tests.llm.fuzz_gguf import fuzz
from tests.llm.gguf_bytes import (
    ARRAY,
    BOOL,
    I32,
    TEXT,
    U16,
    U32,
    File,
    array,
    key,
    small,
    tensor,
    text,
    texts,
    u32,
    u64,
)
from tests.llm.models import smollm2


def opened(tmp_path: Path, file: File | bytes) -> gguf.GGUFFile:
    path = tmp_path / "model.gguf"
    path.write_bytes(file if isinstance(file, bytes) else file.bytes())
    return gguf.open(path)


def refused(tmp_path: Path, file: File | bytes, *words: str) -> None:
    """Opening fails with every word in the error, and takes memory in proportion to the file."""
    path = tmp_path / "model.gguf"
    path.write_bytes(file if isinstance(file, bytes) else file.bytes())
    tracemalloc.start()
    try:
        with pytest.raises(FileFormatError) as caught:
            gguf.open(path)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    for word in (str(path), *words):
        assert word in str(caught.value)
    assert peak < 200_000 + 2 * path.stat().st_size


# -- sound files ----------------------------------------------------------------------------------------------------------


def test_the_table_of_types_is_that_of_the_format() -> None:
    sizes = reference.GGML_QUANT_SIZES
    names = {kind.value: kind.name for kind in reference.GGMLQuantizationType}
    for kind in TENSOR_TYPES.values():
        assert names[kind.code] == kind.name
        assert sizes[reference.GGMLQuantizationType(kind.code)] == (kind.block, kind.block_bytes)
    assert {**UNSUPPORTED, **{code: kind.name for code, kind in TYPE_OF_CODE.items()}} == names


def test_values_have_their_types(tmp_path: Path) -> None:
    file = opened(tmp_path, small())
    values = file.metadata
    assert values["large"] == 2**40
    assert values["flag"] is True
    assert values["llama.rope.freq_base"] == 1e4
    assert file.architecture == "llama"
    assert file.block_count == 1
    tokens = values.texts("tokenizer.ggml.tokens")
    assert list(tokens) == ["<s>", "ä", "", "▁the"]
    assert [tokens[index] for index in (0, 1, 2, 3, -1)] == ["<s>", "ä", "", "▁the", "▁the"]
    assert tokens[1:3] == ["ä", ""]
    with pytest.raises(IndexError):
        tokens[4]
    np.testing.assert_array_equal(values.numbers("tokenizer.ggml.scores", "f", 4), [0, -1, -2, -3])


def test_tensors_are_views_of_the_file_that_nobody_can_write(tmp_path: Path) -> None:
    file = opened(tmp_path, small())
    a, b = file.tensor("a"), file.tensor("b")
    np.testing.assert_array_equal(a.dequantized(), np.arange(8, dtype=np.float32).reshape(2, 4))
    assert (b.shape, b.type, b.data.shape) == ((3, 32), "Q8_0", (3, 34))
    assert not a.data.flags.writeable
    assert not a.data.flags.owndata
    with pytest.raises(FileFormatError, match="'c'"):
        file.tensor("c")


def write_all_types(path: Path) -> dict[str, np.ndarray[Any, Any]]:
    """A file by the format's own writer: a tensor of each type, values of every kind."""
    writer = reference.GGUFWriter(path, "llama")
    random = np.random.default_rng(0)
    values: dict[str, np.ndarray[Any, Any]] = {}
    for kind in TENSOR_TYPES.values():
        form = reference.GGMLQuantizationType(kind.code)
        weights = random.standard_normal((3, 512)).astype(np.float32)
        try:
            raw = reference.quants.quantize(weights, form)
        except (
            NotImplementedError
        ):  # the package does not quantise the K types: any bytes with moderate scales are such a block
            raw = random.integers(0, 256, (3, kind.row_bytes(512)), dtype=np.uint8)
            blocks = raw.reshape(3, -1, kind.block_bytes)
            for at in [208] if kind.name == "Q6_K" else [0, 2]:
                blocks[..., at : at + 2] = (
                    random.uniform(0, 1, blocks.shape[:-1]).astype("<f2")[..., None].view(np.uint8)
                )
        values[kind.name] = reference.quants.dequantize(raw, form)
        if kind.name in ("F32", "F16"):
            writer.add_tensor(kind.name, raw)
        else:
            writer.add_tensor(kind.name, raw.view(np.uint8), raw_dtype=form)
    writer.add_tensor("vector", np.arange(5, dtype=np.float32))
    writer.add_tensor("cube", np.arange(24, dtype=np.float32).reshape(2, 3, 4))
    writer.add_array("integers", [1, -2, 3])
    writer.add_array("truths", [True, False])
    writer.add_array("words", ["a", "ß"])
    writer.add_float64("double", 0.1)
    writer.add_int8("byte", -3)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return values


def test_a_file_of_the_formats_writer_is_read_as_by_its_reader(tmp_path: Path) -> None:
    path = tmp_path / "all.gguf"
    values = write_all_types(path)
    file = gguf.open(path)
    for name, expected in values.items():
        np.testing.assert_array_equal(file.tensor(name).dequantized(), expected, err_msg=name)
    assert file.tensor("vector").data.shape == (1, 20)
    np.testing.assert_array_equal(file.tensor("cube").dequantized(), np.arange(24).reshape(2, 3, 4))
    assert list(file.metadata.numbers("integers", "iu")) == [1, -2, 3]
    truths = file.metadata["truths"]
    assert isinstance(truths, np.ndarray)
    assert truths.tolist() == [True, False]
    same_as_reader(path, file)


def same_as_reader(path: Path, file: gguf.GGUFFile) -> None:
    reader = reference.GGUFReader(path)
    expected = {name: each.contents() for name, each in reader.fields.items() if not name.startswith("GGUF.")}
    assert list(file.metadata) == list(expected)
    for name, value in expected.items():
        mine = file.metadata[name]
        assert (list(mine) if isinstance(value, list) else mine) == value, name  # type: ignore[arg-type]
    assert [each.name for each in reader.tensors] == list(file.tensors)
    for each in reader.tensors:
        mine = file.tensors[each.name]
        assert mine.shape == tuple(map(int, each.shape[::-1]))
        assert mine.type == each.tensor_type.name
        np.testing.assert_array_equal(mine.data.ravel(), each.data.view(np.uint8).ravel())


def test_smollm2_is_read_as_by_the_formats_reader() -> None:
    file = gguf.open(smollm2())
    assert (file.architecture, file.block_count, len(file.tensors)) == ("llama", 30, 272)
    same_as_reader(smollm2(), file)


# -- wrong values ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("read", "words"),
    [
        (lambda m: m.integer("llama.rope.freq_base"), ("llama.rope.freq_base", "10000.0", "whole number")),
        (lambda m: m.integer("flag"), ("flag", "True")),
        (lambda m: m.integer("large"), ("1099511627776", "2147483647")),
        (lambda m: m.integer("missing"), ("missing", "no such key")),
        (lambda m: m.number("general.architecture"), ("llama", "number")),
        (lambda m: m.flag("large", False), ("true or false",)),
        (lambda m: m.text("flag"), ("a text",)),
        (lambda m: m.text("missing"), ("no such key",)),
        (lambda m: m.texts("tokenizer.ggml.scores"), ("an array of 4 float32", "array of texts")),
        (lambda m: m.texts("general.architecture"), ("array of texts",)),
        (lambda m: m.numbers("tokenizer.ggml.tokens", "f"), ("an array of 4 texts",)),
        (lambda m: m.numbers("tokenizer.ggml.scores", "iu"), ("whole numbers",)),
        (lambda m: m.numbers("tokenizer.ggml.scores", "f", 5), ("5 elements",)),
    ],
)
def test_a_value_of_another_type_is_named(
    tmp_path: Path, read: Callable[[Any], object], words: tuple[str, ...]
) -> None:
    with pytest.raises(FileFormatError) as caught:
        read(opened(tmp_path, small()).metadata)
    for word in ("model.gguf", *words):
        assert word in str(caught.value)


def test_defaults_stand_in_for_missing_keys(tmp_path: Path) -> None:
    values = opened(tmp_path, small()).metadata
    assert values.integer("missing", 3) == 3
    assert values.number("missing", 0.5) == 0.5
    assert values.flag("missing", True) is True
    assert values.text("missing", "x") == "x"


@pytest.mark.parametrize("count", [0, 3, 1000, 2**32 - 1])
def test_a_block_count_beyond_the_tensors_is_refused(tmp_path: Path, count: int) -> None:
    file = small()
    file.keys[1] = key("llama.block_count", U32, u32(count))
    with pytest.raises(FileFormatError, match="block_count"):
        _ = opened(tmp_path, file).block_count


def test_a_text_that_is_not_utf8_is_named_when_it_is_read(tmp_path: Path) -> None:
    file = File(keys=[texts("tokens", ["a", b"\xff\xfe", "b"])])
    tokens = opened(tmp_path, file).metadata.texts("tokens")
    assert tokens[2] == "b"
    with pytest.raises(FileFormatError, match="'tokens', element 1"):
        tokens[1]
    with pytest.raises(FileFormatError, match="'tokens', element 1"):
        list(tokens)


# -- attacks --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("file", "words"),
    [
        (File(tensor_count=2**64 - 1), ("number of tensors", "18446744073709551615")),
        (File(tensor_count=2**61), ("number of tensors",)),
        (File(key_count=2**63), ("number of keys",)),
        (File(keys=[key("k", U32, u32(1))] * 2), ("twice", "'k'")),
        (File(tensors=[tensor("a", [1], 0, 0)] * 2, data=bytes(64)), ("twice", "'a'")),
        (File(tensors=[tensor("a", [2**42 + 1], 0, 0)], data=bytes(64)), ("past the end", "4398046511105")),
        (File(tensors=[tensor("a", [2**32, 2**32], 0, 0)], data=bytes(64)), ("past the end", "'a'")),
        (File(tensors=[tensor("a", [2**62, 2**62, 4], 0, 0)], data=bytes(64)), ("past the end",)),
        (File(tensors=[tensor("a", [32, 2**59], 8, 0)], data=bytes(64)), ("past the end",)),
        (File(tensors=[tensor("a", [1], 0, 2**64 - 32)], data=bytes(64)), ("past the end",)),
        (File(tensors=[tensor("a", [1], 0, 64)], data=bytes(64)), ("past the end",)),
        (File(tensors=[tensor("a", [0, 4], 0, 0)], data=bytes(64)), ("without elements",)),
        (File(tensors=[tensor("a", [], 0, 0)], data=bytes(64)), ("number of axes", "0")),
        (File(tensors=[tensor("a", [1] * 5, 0, 0)], data=bytes(64)), ("number of axes", "1 to 4")),
        (File(tensors=[tensor("a" * 65, [1], 0, 0)], data=bytes(64)), ("too long", "65 bytes")),
        (File(tensors=[tensor("a", [1], 0, 1)], data=bytes(64)), ("not aligned", "multiple of 32")),
        (File(tensors=[tensor("a", [33, 2], 8, 0)], data=bytes(99)), ("blocks", "33 columns", "multiple of 32")),
        (File(tensors=[tensor("a", [128, 2], 12, 0)], data=bytes(999)), ("blocks", "multiple of 256", "Q4_K")),
        (File(tensors=[tensor("a", [256], 16, 0)], data=bytes(999)), ("IQ2_XXS (16)", "Q4_K, Q5_K, Q6_K")),
        (File(tensors=[tensor("a", [256], 77, 0)], data=bytes(999)), ("77", "F32, F16, BF16, Q8_0")),
        (
            File(tensors=[tensor("a", [16], 0, 0), tensor("b", [8], 0, 32)], data=bytes(64)),
            ("overlap", "'b'", "'a' ends at 64"),
        ),
        (File(keys=[key("general.alignment", U32, u32(0x80000000))]), ("general.alignment", "2147483648", "65536")),
        (File(keys=[key("general.alignment", U32, u32(0))]), ("power of two",)),
        (File(keys=[key("general.alignment", U32, u32(24))]), ("power of two", "24")),
        (File(keys=[key("general.alignment", TEXT, text("32"))]), ("whole number",)),
        (File(keys=[array("tokens", TEXT, 1, u64(2**40) + b"abc")]), ("'tokens'", "past the end", "element 0 of 1")),
        (File(keys=[array("tokens", TEXT, 2, text("ab") + u64(2**64 - 1))]), ("element 1 of 2",)),
        (File(keys=[array("tokens", TEXT, 2**60, b"")]), ("array elements", "1152921504606846976")),
        (File(keys=[array("n", U32, 2**62, bytes(16))]), ("array elements",)),
        (File(keys=[array("n", ARRAY, 1, bytes(32))]), ("arrays",)),
        (File(keys=[array("n", 13, 1, bytes(32))]), ("type 13",)),
        (File(keys=[key("n", 99, bytes(32))]), ("unknown type", "99")),
        (File(keys=[key("n", BOOL, b"\x02")]), ("truth value",)),
        (File(keys=[key("n", TEXT, u64(2**63))]), ("too long",)),
        (File(keys=[key("n", TEXT, u64(1000))]), ("ends early",)),
        (File(keys=[key("n", TEXT, text(b"\xc3("))]), ("not UTF-8",)),
        (File(keys=[key("split.count", U32, u32(3))]), ("split.no", "no such key")),
        (File(keys=[key("split.count", U32, u32(3)), key("split.no", U32, u32(0))]), ("part 1 of 3", "-00001-of-00003.gguf")),
        (File(keys=[key("split.count", U32, u32(2**31))]), ("split.count", "1024")),
        (File(version=1), ("version 1", "2 or 3")),
        (File(version=4), ("version 4",)),
        (File(version=3 << 24), ("version 3 of a big-endian machine",)),
        (File(magic=b"ggjt"), ("GGJT",)),
        (File(magic=b"PK\x03\x04"), ("TorchScript",)),
        (b"\x80\x02}q\x00.", ("a pickle",)),
        (b"GG", ("not a GGUF file",)),
        (b"", ("empty",)),
        (b"GGUF\x03\x00", ("ends early",)),
    ],
)  # fmt: skip
def test_an_attack_is_refused(tmp_path: Path, file: File | bytes, words: tuple[str, ...]) -> None:
    refused(tmp_path, file, *words)


def test_a_file_of_too_many_small_things_is_refused(tmp_path: Path) -> None:
    keys = b"".join(key(f"{index}", BOOL, b"\x00") for index in range(gguf.MOST_KEYS + 1))
    file = File(keys=[keys], key_count=gguf.MOST_KEYS + 1)
    refused(tmp_path, file, "too many keys", "65536")


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", tmp_path):
        with pytest.raises(FileFormatError, match="not a regular file"):
            gguf.open(path)
    with pytest.raises(FileNotFoundError):
        gguf.open(tmp_path / "missing.gguf")


def test_every_cut_of_a_file_is_refused_or_sound(tmp_path: Path) -> None:
    whole = small().bytes()
    for length in range(len(whole)):
        with pytest.raises(FileFormatError):
            opened(tmp_path, whole[:length])


def test_a_value_at_the_very_end_is_read(tmp_path: Path) -> None:
    file = File(keys=[key("last", U32, struct.pack("<I", 7))], alignment=1)
    assert opened(tmp_path, file).metadata["last"] == 7


def test_ten_thousand_mutations_neither_crash_nor_allocate(tmp_path: Path) -> None:
    outcome = fuzz(tmp_path, first=0, count=10_000)
    assert outcome.refused > 5_000
    assert outcome.accepted > 300


# -- models in several parts ----------------------------------------------------------------------------------------------


def part(number: int, count: int, tensors: int | None = None, names: str = "") -> File:
    """A part as `llama-gguf-split` writes it: only the first has the model's keys."""
    keys = [key("split.no", U16, struct.pack("<H", number)), key("split.count", U16, struct.pack("<H", count))]
    if tensors is not None:
        keys.append(key("split.tensors.count", I32, struct.pack("<i", tensors)))
    if number == 0:
        keys.append(key("general.architecture", TEXT, text("llama")))
    data = b"".join(struct.pack("<8f", *range(8 * number, 8 * number + 8)) for _ in names)
    return File(keys, [tensor(name, [8], 0, 32 * place) for place, name in enumerate(names)], data)


def write_parts(folder: Path, *files: File) -> Path:
    for number, file in enumerate(files, 1):
        (folder / f"m-{number:05d}-of-{len(files):05d}.gguf").write_bytes(file.bytes())
    return folder / f"m-00001-of-{len(files):05d}.gguf"


def test_a_model_in_several_parts(tmp_path: Path) -> None:
    """The first part may hold no tensor."""
    path = write_parts(tmp_path, part(0, 3, 3), part(1, 3, 3, "ab"), part(2, 3, 3, "c"))
    file = gguf.open(path)
    assert file.architecture == "llama" and list(file.tensors) == ["a", "b", "c"]
    np.testing.assert_array_equal(file.tensor("c").dequantized(), np.arange(16, 24))


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        ((part(0, 2, 2, "a"), part(1, 2, 2, "a")), ("in two parts", "'a'")),
        ((part(0, 2, 3, "a"), part(1, 2, 3, "b")), ("split.tensors.count", "3", "2, as many")),
        ((part(0, 2, 2, "a"), part(0, 2, 2, "b")), ("split.no", "1, of 2")),
        ((part(0, 2, 2, "a"), part(1, 3, 2, "b")), ("split.no", "1, of 2")),
        ((part(1, 2, 2, "a"), part(1, 2, 2, "b")), ("part 2 of 2", "not its first")),
        ((part(0, 3, 2, "a"), part(1, 3, 2, "b")), ("-00001-of-00003.gguf",)),
        ((part(0, 2, 2, "a"), File(tensors=[tensor("b", [8], 0, 64)], data=bytes(32))), ("past the end",)),
    ],
)  # fmt: skip
def test_parts_that_do_not_fit_are_refused(tmp_path: Path, parts: tuple[File, ...], words: tuple[str, ...]) -> None:
    path = write_parts(tmp_path, *parts)
    with pytest.raises(FileFormatError) as caught:
        gguf.open(path)
    for word in (str(tmp_path), *words):
        assert word in str(caught.value)


def test_a_part_that_is_missing_is_named(tmp_path: Path) -> None:
    path = write_parts(tmp_path, part(0, 2, 2, "a"), part(1, 2, 2, "b"))
    (tmp_path / "m-00002-of-00002.gguf").unlink()
    with pytest.raises(FileFormatError, match=r"(?s)missing.*m-00002-of-00002.gguf"):
        gguf.open(path)
    with pytest.raises(FileFormatError, match="not its first"):
        gguf.open(write_parts(tmp_path, part(1, 2, 2, "a"), part(1, 2, 2, "b")))
