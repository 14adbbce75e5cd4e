"""A model as a folder, as `transformers` saves it: `config.json`, safetensors files, and the tokenizer's files."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from anyshape.llm import safetensors, strict_json
from anyshape.llm.gguf import StoredTensor
from anyshape.llm.mapped import map_inside
from anyshape.llm.metadata import Metadata, Value
from anyshape.support.errors import FileFormatError

INDEX = "model.safetensors.index.json"
WHOLE = "model.safetensors"
LARGEST_JSON = 1 << 26
_PICKLES = frozenset({".bin", ".pt", ".pth", ".pkl", ".pickle", ".ckpt"})


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """An open folder.

    Args:
        path: the folder.
        metadata: `config.json`, objects within objects under dotted names such as `rope_scaling.factor`; null is left out.
        tensors: all tensors by the names that `transformers` gives them, views of the mapped files.
    """

    path: Path
    metadata: Metadata
    tensors: Mapping[str, StoredTensor]

    @property
    def architecture(self) -> str:
        """The family that the folder names, such as `llama`."""
        return self.metadata.text("model_type")

    def has(self, name: str) -> bool:
        """Whether the folder has a file of that name."""
        return (self.path / name).exists()

    def json(self, name: str) -> object:
        """A file of JSON in the folder."""
        return _json(self.path, name)

    def settings(self, name: str) -> Metadata:
        """A file of JSON in the folder, such as `generation_config.json`, read as `config.json` is; empty where there is none."""
        return _settings(self.path, name) if self.has(name) else Metadata(str(self.path / name), {})

    def content(self, name: str) -> bytes:
        """The bytes of a file in the folder."""
        return _content(self.path, name)


def open(path: str | Path) -> Checkpoint:
    """Map the files of a folder and read what they say.

    Raises FileFormatError where the folder has no `config.json` or no sound safetensors, or has a pickle instead; where its
    index names files outside of it; and as `safetensors.open`.
    """
    folder = Path(path)
    if not (folder / "config.json").exists():
        raise FileFormatError(
            "not the folder of a model", where=folder, expected="a folder with config.json, or a GGUF file"
        )
    return Checkpoint(folder, _settings(folder, "config.json"), MappingProxyType(_tensors(folder)))


def _tensors(folder: Path) -> dict[str, StoredTensor]:
    if (folder / INDEX).exists():
        return _sharded(folder)
    names = sorted(each.name for each in folder.iterdir() if each.suffix == ".safetensors")
    if WHOLE in names:
        names = [WHOLE]
    if len(names) == 1:
        return dict(_shard(folder, names[0]))
    if names:
        raise FileFormatError(
            "several safetensors files without an index", where=folder, got=", ".join(names[:8]), expected=INDEX
        )
    pickles = sorted(each.name for each in folder.iterdir() if each.suffix in _PICKLES)
    raise FileFormatError(
        "a pickle is not read: loading one runs code" if pickles else "the folder has no weights",
        where=folder, got=", ".join(pickles[:8]) or "no safetensors file", expected=WHOLE,
        remedy="save the model with safetensors: `model.save_pretrained(folder)`",
    )  # fmt: skip


def _sharded(folder: Path) -> dict[str, StoredTensor]:
    """The tensors of several files, each in the file that the index names for it."""
    where = folder / INDEX
    index = _json(folder, INDEX)
    files = index.get("weight_map") if strict_json.is_object(index) else None
    if not strict_json.is_object(files) or not all(isinstance(name, str) for name in files.values()):
        raise FileFormatError("the index has no map of weights", where=where, expected="weight_map: tensor to file")
    file_of: dict[str, str] = files
    for name in file_of.values():
        if Path(name).suffix != ".safetensors":
            raise FileFormatError(
                "the index names a file that is not read", where=where, got=repr(name[:80]), expected="safetensors"
            )
    shards = {name: _shard(folder, name) for name in sorted(set(file_of.values()))}
    found = {(tensor, name) for name, shard in shards.items() for tensor in shard}
    if found != set(file_of.items()):
        tensor, name = min(found ^ set(file_of.items()))
        raise FileFormatError("the index does not fit its files", where=where, got=f"tensor {tensor!r} in {name}")
    return {tensor: shards[name][tensor] for tensor, name in file_of.items()}


def _shard(folder: Path, name: str) -> Mapping[str, StoredTensor]:
    return safetensors.read(folder / name, map_inside(folder, name, "a safetensors file"))


def _content(folder: Path, name: str) -> bytes:
    file = map_inside(folder, name, name)
    if len(file) > LARGEST_JSON:
        raise FileFormatError(
            "the file is too long", where=folder / name, got=f"{len(file)} bytes", expected=f"at most {LARGEST_JSON}"
        )
    return file[:]


def _json(folder: Path, name: str) -> object:
    return strict_json.parse(folder / name, _content(folder, name))


def _settings(folder: Path, name: str) -> Metadata:
    values: dict[str, Value] = {}
    tree = _json(folder, name)
    if not strict_json.is_object(tree):
        raise FileFormatError("not an object", where=folder / name, got=type(tree).__name__, expected="a JSON object")
    _flatten(tree, "", values)
    return Metadata(str(folder / name), values)


def _flatten(tree: dict[str, Any], prefix: str, values: dict[str, Value]) -> None:
    """Put what `Metadata` can hold in `values`; lists that mix kinds have no meaning for a reader of settings and are left out."""
    for name, value in tree.items():
        key = prefix + name
        if strict_json.is_object(value):
            _flatten(value, f"{key}.", values)
        elif isinstance(value, bool | str | float) or (isinstance(value, int) and abs(value) < 2**63):
            values[key] = value
        elif strict_json.is_array(value):
            kinds = set[type[object]](map(type, value))
            if kinds == {str}:
                values[key] = tuple(value)
            elif kinds and kinds <= {int, float} and all(abs(item) < 2**63 for item in value):
                values[key] = np.array(value)
