"""Folders of safetensors: read as the format's own library reads them, and every attack refused by name."""

import json
import pickle
import random
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from anyshape.llm import checkpoint, safetensors
from anyshape.support.errors import FileFormatError

ENTRY = {"dtype": "F32", "shape": [2, 2], "data_offsets": [0, 16]}


def file(path: Path, header: object, data: bytes = bytes(16), *, length: int | None = None) -> Path:
    raw = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes((len(raw) if length is None else length).to_bytes(8, "little") + raw + data)
    return path


def model(folder: Path, **tensors: np.ndarray[Any, Any]) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text('{"model_type": "llama", "hidden_size": 4}')
    if tensors:
        save_file(tensors, folder / "model.safetensors")
    return folder


# -- sound files ----------------------------------------------------------------------------------------------------------


def test_a_file_of_the_library_is_read_as_by_it(tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"
    weights = np.random.default_rng(0).standard_normal((3, 5)).astype(np.float32)
    tensors = {
        "b": weights.astype(ml_dtypes.bfloat16),
        "h": weights.astype(np.float16),
        "f": weights,
        "vector": weights[0],
        "cube": np.arange(24, dtype=np.float32).reshape(2, 3, 4),
        "scalar": np.array(3, np.float32),
    }
    save_file(tensors, path, metadata={"format": "pt"})
    mine, theirs = safetensors.open(path), load_file(path)
    assert set(mine) == set(theirs)
    for name, value in theirs.items():
        assert mine[name].shape == value.shape
        np.testing.assert_array_equal(mine[name].dequantized(), value.astype(np.float32), err_msg=name)
        assert not mine[name].data.flags.writeable
    assert {name: mine[name].type for name in ("b", "h", "f")} == {"b": "BF16", "h": "F16", "f": "F32"}
    assert mine["f"].data.shape == (3, 20)


def test_a_folder(tmp_path: Path) -> None:
    folder = model(tmp_path / "m", w=np.ones((2, 2), np.float32))
    config = {
        "model_type": "gemma3", "rope_scaling": {"factor": 8.0, "type": None}, "eos_token_id": [1, 106], "tie": True,
        "layer_types": ["a", "b"], "mixed": [1, "a"], "big": 10**30, "none": None, "empty": [],
    }  # fmt: skip
    (folder / "config.json").write_text(json.dumps(config))
    opened = checkpoint.open(folder)
    assert opened.architecture == "gemma3"
    assert opened.metadata.number("rope_scaling.factor") == 8.0
    assert opened.metadata.numbers("eos_token_id", "iu").tolist() == [1, 106]
    assert opened.metadata.flag("tie") is True
    assert list(opened.metadata.texts("layer_types")) == ["a", "b"]
    assert not {"mixed", "big", "none", "empty", "rope_scaling.type"} & set(opened.metadata)
    assert opened.tensors["w"].dequantized().tolist() == [[1, 1], [1, 1]]
    assert dict(opened.settings("generation_config.json")) == {}
    with pytest.raises(FileFormatError, match=r"config\.json.*no_such"):
        opened.metadata.integer("no_such")


def sharded(folder: Path) -> Path:
    model(folder)
    save_file({"a": np.ones(2, np.float32)}, folder / "one.safetensors")
    save_file({"b": np.zeros(2, np.float32)}, folder / "two.safetensors")
    write_index(folder, {"a": "one.safetensors", "b": "two.safetensors"})
    return folder


def write_index(folder: Path, files: object) -> None:
    (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": files}))


def test_a_folder_in_parts(tmp_path: Path) -> None:
    opened = checkpoint.open(sharded(tmp_path / "m"))
    assert list(opened.tensors) == ["a", "b"]
    assert opened.tensors["a"].dequantized().tolist() == [1, 1]


def test_a_snapshot_of_the_hubs_cache_links_to_its_blobs(tmp_path: Path) -> None:
    repository = tmp_path / "models--x"
    (repository / "blobs").mkdir(parents=True)
    (repository / "snapshots").mkdir()
    folder = model(repository / "snapshots" / "abc", w=np.ones(2, np.float32))
    (folder / "model.safetensors").rename(repository / "blobs" / "123")
    (folder / "model.safetensors").symlink_to("../../blobs/123")
    assert list(checkpoint.open(folder).tensors) == ["w"]


# -- attacks --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("header", "length", "words"),
    [
        ({}, 2**64 - 1, ("longer than the file", "18446744073709551615")),
        ({}, 2**63, ("longer than the file",)),
        ({}, 10**6, ("longer than the file",)),
        ({"a": ENTRY | {"data_offsets": [0, 2**60]}}, None, ("past the end", "'a'")),
        ({"a": ENTRY | {"data_offsets": [8, 24]}}, None, ("past the end",)),
        ({"a": ENTRY | {"data_offsets": [16, 0]}}, None, ("offsets", "[16, 0]")),
        ({"a": ENTRY | {"data_offsets": [-16, 0]}}, None, ("offsets",)),
        ({"a": ENTRY | {"data_offsets": [0, 16.0]}}, None, ("offsets",)),
        ({"a": ENTRY | {"data_offsets": [False, 16]}}, None, ("offsets",)),
        ({"a": ENTRY | {"data_offsets": [0, 8, 16]}}, None, ("offsets",)),
        ({"a": ENTRY, "b": ENTRY}, None, ("overlaps another", "'b'")),
        (
            {"a": ENTRY | {"data_offsets": [0, 8], "shape": [2]}, "b": ENTRY | {"data_offsets": [4, 16], "shape": [3]}},
            None,
            ("overlaps",),
        ),
        ({"a": ENTRY | {"data_offsets": [4, 16], "shape": [3]}}, None, ("gap",)),
        ({"a": ENTRY | {"data_offsets": [0, 12], "shape": [3]}}, None, ("belong to no tensor", "4 at the end")),
        ({"a": ENTRY | {"shape": [2, 3]}}, None, ("disagree", "16 bytes", "24")),
        ({"a": ENTRY | {"dtype": "F16"}}, None, ("disagree",)),
        ({"a": ENTRY | {"shape": [2**32, 2**32]}}, None, ("disagree",)),
        ({"a": ENTRY | {"shape": [2**62, 2, 2]}}, None, ("disagree",)),
        ({"a": ENTRY | {"shape": [0, 2]}}, None, ("shape",)),
        ({"a": ENTRY | {"shape": [-2, -2]}}, None, ("shape",)),
        ({"a": ENTRY | {"shape": "22"}}, None, ("shape",)),
        ({"a": ENTRY | {"shape": [1] * 9}}, None, ("shape",)),
        ({"a": ENTRY | {"dtype": "Q4_0"}}, None, ("unknown dtype", "Q4_0", "F32, F16, BF16")),
        ({"a": ENTRY | {"dtype": "F8_E4M3"}}, None, ("not read", "F8_E4M3")),
        ({"a": ENTRY | {"dtype": ["F32"]}}, None, ("unknown dtype",)),
        ({"a": ENTRY | {"more": 1}}, None, ("description",)),
        ({"a": {}}, None, ("description",)),
        ({"a": [1]}, None, ("description",)),
        ([1, 2], None, ("not an object",)),
        (b'{"a": 1, "a": 2}', None, ("twice", "'a'")),
        (b'{"a": {"dtype": "F32", "dtype": "F16"}}', None, ("twice", "'dtype'")),
        (b"{", None, ("not valid JSON",)),
        (b"\xff\xfe", None, ("not valid JSON",)),
        (b"[" * 100_000, None, ("not valid JSON",)),
        (b'{"a": ' + b"9" * 10_000 + b"}", None, ("not valid JSON",)),
        (b" " * ((1 << 23) + 1), None, ("header is too long",)),
    ],
)
def test_an_attack_is_refused(tmp_path: Path, header: object, length: int | None, words: tuple[str, ...]) -> None:
    path = file(tmp_path / "x.safetensors", header, length=length)
    tracemalloc.start()
    try:
        with pytest.raises(FileFormatError) as caught:
            safetensors.open(path)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    for word in (str(path), *words):
        assert word in str(caught.value)
    assert peak < 500_000 + 8 * path.stat().st_size


def test_damaged_files_are_refused_or_sound(tmp_path: Path) -> None:
    """2,000 files with random bytes changed, put in or taken out: FileFormatError, or tensors that can be read."""
    entry = {"dtype": "F16", "shape": [4], "data_offsets": [16, 24]}
    path = file(tmp_path / "x.safetensors", {"a": ENTRY, "b": entry}, bytes(24))
    sound, refused = path.read_bytes(), 0
    for seed in range(2000):
        rng = random.Random(seed)
        raw = bytearray(sound)
        for _ in range(rng.randrange(1, 4)):
            at = rng.randrange(len(raw))
            raw[at : at + rng.randrange(3)] = rng.choice(
                (b"", b"9", b"-", b'"', b"\xff", b"[", b"}", bytes([rng.randrange(256)]))
            )
        path.write_bytes(raw)
        try:
            for tensor in safetensors.open(path).values():
                tensor.dequantized()
        except FileFormatError:
            refused += 1
    assert 1000 < refused < 2000


def test_pickles_are_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"
    path.write_bytes(pickle.dumps({"w": [1.0] * 100}))
    with pytest.raises(FileFormatError, match="pickle"):
        safetensors.open(path)
    folder = model(tmp_path / "m")
    (folder / "pytorch_model.bin").write_bytes(b"PK")
    with pytest.raises(FileFormatError, match=r"runs code[^$]*pytorch_model\.bin[^$]*save_pretrained"):
        checkpoint.open(folder)


def test_short_and_missing_files(tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"
    for raw in (b"", b"1234567", bytes(8)):
        path.write_bytes(raw)
        with pytest.raises(FileFormatError):
            safetensors.open(path)
    with pytest.raises(FileFormatError, match=r"config\.json"):
        checkpoint.open(tmp_path)
    with pytest.raises(FileFormatError, match="no weights"):
        checkpoint.open(model(tmp_path / "m"))
    for name in ("a", "b"):
        save_file({"w": np.ones(1, np.float32)}, tmp_path / "m" / f"{name}.safetensors")
    with pytest.raises(FileFormatError, match="without an index"):
        checkpoint.open(tmp_path / "m")


def escape_by_name(folder: Path) -> None:
    write_index(folder, {"a": "../outside.safetensors"})


def escape_by_absolute_name(folder: Path) -> None:
    write_index(folder, {"a": str(folder.parent / "outside.safetensors")})


def escape_by_link(folder: Path) -> None:
    (folder / "one.safetensors").unlink()
    (folder / "one.safetensors").symlink_to("../outside.safetensors")


def escape_by_chain(folder: Path) -> None:
    (folder / "one.safetensors").unlink()
    (folder / "sub").symlink_to("..")
    (folder / "one.safetensors").symlink_to("sub/outside.safetensors")


@pytest.mark.parametrize("escape", [escape_by_name, escape_by_absolute_name, escape_by_link, escape_by_chain])
def test_nothing_leads_out_of_the_folder(tmp_path: Path, escape: Callable[[Path], None]) -> None:
    folder = sharded(tmp_path / "m")
    save_file({"a": np.ones(2, np.float32)}, tmp_path / "outside.safetensors")
    escape(folder)
    with pytest.raises(FileFormatError, match="out of the folder"):
        checkpoint.open(folder)


def test_a_link_within_the_folder_is_none_out_of_it(tmp_path: Path) -> None:
    folder = sharded(tmp_path / "m")
    (folder / "one.safetensors").rename(folder / "real.safetensors")
    (folder / "one.safetensors").symlink_to("real.safetensors")
    assert "a" in checkpoint.open(folder).tensors


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({"a": "two.safetensors", "b": "two.safetensors"}, "does not fit"),
        ({"a": "one.safetensors"}, None),
        ({"a": "one.safetensors", "b": "one.safetensors"}, "does not fit"),
        ({"a": "one.bin"}, "not read"),
        ({"a": 3}, "map of weights"),
        ([], "map of weights"),
    ],
)
def test_an_index_that_does_not_fit_is_refused(tmp_path: Path, files: object, words: str | None) -> None:
    folder = sharded(tmp_path / "m")
    write_index(folder, files)
    if words is None:
        assert list(checkpoint.open(folder).tensors) == ["a"]
        return
    with pytest.raises(FileFormatError, match=words):
        checkpoint.open(folder)


def test_a_missing_part_is_an_error_of_the_system(tmp_path: Path) -> None:
    folder = sharded(tmp_path / "m")
    (folder / "two.safetensors").unlink()
    with pytest.raises(FileNotFoundError):
        checkpoint.open(folder)
