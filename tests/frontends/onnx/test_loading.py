"""Files that are broken or hostile: each a typed error that says where, and nothing outside the folder is read."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import ModelProto, TensorProto, helper

import anyshape
from anyshape.frontends.onnx import import_model, load_model
from anyshape.support.errors import ArgumentError, FileFormatError, UnsupportedOps
from tests.frontends.onnx.models import FLOAT, floats, model_of

WEIGHT = floats(4, 3)


def external_model(entries: dict[str, str], dims: tuple[int, ...] = (4, 3)) -> ModelProto:
    """x · w with w in a file."""
    model = model_of([helper.make_node("MatMul", ["x", "w"], ["y"])], {"x": (FLOAT, ("b", 4))}, ["y"])
    tensor = model.graph.initializer.add()
    tensor.name, tensor.data_type, tensor.data_location = "w", TensorProto.FLOAT, TensorProto.EXTERNAL
    tensor.dims.extend(dims)
    for key, value in entries.items():
        entry = tensor.external_data.add()
        entry.key, entry.value = key, value
    return model


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """model/w.bin with the weight behind 16 bytes, model/sub/w.bin without, and secret.bin outside."""
    model = tmp_path / "model"
    (model / "sub").mkdir(parents=True)
    (model / "w.bin").write_bytes(b"\xff" * 16 + WEIGHT.tobytes())
    (model / "sub" / "w.bin").write_bytes(WEIGHT.tobytes())
    (tmp_path / "secret.bin").write_bytes(WEIGHT.tobytes())
    (model / "link.bin").symlink_to(tmp_path / "secret.bin")
    (model / "linked").symlink_to(tmp_path)
    (model / "inner.bin").symlink_to("w.bin")
    os.mkfifo(model / "pipe.bin")
    (model / "empty.bin").write_bytes(b"")
    return model


def load_external(folder: Path, entries: dict[str, str], dims: tuple[int, ...] = (4, 3)) -> Any:
    path = folder / "m.onnx"
    path.write_bytes(external_model(entries, dims).SerializeToString())
    return import_model(load_model(path))


@pytest.mark.parametrize(
    "entries",
    [
        {"location": "w.bin", "offset": "16", "length": "48"},
        {"location": "w.bin", "offset": "16"},
        {"location": "sub/w.bin"},
        {"location": "w.bin", "offset": "16", "length": "48", "checksum": "0" * 40},
    ],
    ids=str,
)
def test_external_data_are_read(folder: Path, entries: dict[str, str]) -> None:
    imported = load_external(folder, entries)
    (array,) = imported.store.values()
    np.testing.assert_array_equal(array, WEIGHT)


def test_a_model_with_external_data_runs(folder: Path) -> None:
    load_external(folder, {"location": "w.bin", "offset": "16"})
    program = anyshape.compile(folder / "m.onnx")
    for rows in (0, 1, 5):
        np.testing.assert_allclose(program(floats(rows, 4)), floats(rows, 4) @ WEIGHT, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    "location",
    [
        "../secret.bin", "sub/../../secret.bin", "/etc/passwd", "link.bin", "linked/secret.bin", "inner.bin", "missing.bin", "sub",
        "pipe.bin", "", ".", "..", "./w.bin", "sub//w.bin", "sub\\..\\..\\secret.bin", "w.bin\0", "/dev/zero", "w.bin/",
    ],
)  # fmt: skip
def test_data_outside_the_folder_are_not_read(folder: Path, location: str) -> None:
    with pytest.raises(FileFormatError, match="tensor 'w'"):
        load_external(folder, {"location": location})


@pytest.mark.parametrize(
    "entries",
    [
        {"offset": "32", "length": "48"}, {"offset": "0", "length": "65"}, {"offset": "999999999999999999"}, {"offset": "-16"},
        {"offset": "16", "length": "44"}, {"offset": "16", "length": "-1"}, {"offset": "0x10"}, {"offset": "9" * 60}, {"offset": "١٦"},
        {"length": "99999999999999999999999"}, {"mode": "r"}, {"basepath": "/"}, {"Location": "w.bin"}, {"offset": "20"},
    ],
    ids=str,
)  # fmt: skip
def test_extents_are_checked(folder: Path, entries: dict[str, str]) -> None:
    with pytest.raises(FileFormatError, match="tensor 'w'"):
        load_external(folder, {"location": "w.bin", **entries})


def test_no_location_and_twice(folder: Path) -> None:
    with pytest.raises(FileFormatError, match="no location"):
        load_external(folder, {"offset": "0"})
    model = external_model({"location": "w.bin"})
    again = model.graph.initializer[0].external_data.add()
    again.key, again.value = "location", "../secret.bin"
    (folder / "m.onnx").write_bytes(model.SerializeToString())
    with pytest.raises(FileFormatError, match="twice"):
        import_model(load_model(folder / "m.onnx"))


def test_sizes_of_external_data_are_checked(folder: Path) -> None:
    for dims in ((2**40, 2**40), (2**62, 4), (-4, 3), (6, 3)):
        with pytest.raises(FileFormatError, match="tensor 'w'"):
            load_external(folder, {"location": "w.bin"}, dims)
    with pytest.raises(FileFormatError):
        load_external(folder, {"location": "empty.bin"})


def test_a_path_that_changes_is_not_followed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between any check and the opening, the file becomes a link: it is the opening itself that refuses."""
    opening = os.open

    def swapped(path: Any, flags: int, *args: Any, **kwargs: Any) -> int:
        if path == "w.bin":
            (folder / "w.bin").unlink()
            (folder / "w.bin").symlink_to(folder.parent / "secret.bin")
        return opening(path, flags, *args, **kwargs)

    monkeypatch.setattr(os, "open", swapped)
    with pytest.raises(FileFormatError, match="cannot be opened"):
        load_external(folder, {"location": "w.bin", "offset": "0", "length": "48"})


def test_external_data_need_a_folder() -> None:
    with pytest.raises(FileFormatError, match="not known"):
        import_model(load_model(external_model({"location": "w.bin"})))


# -- broken files ----------------------------------------------------------------------------------------------------


def good() -> ModelProto:
    nodes = [
        helper.make_node("Relu", ["x"], ["h"], name="first"),
        helper.make_node("Add", ["h", "w"], ["y"], name="second"),
    ]
    return model_of(nodes, {"x": (FLOAT, ("b", 3))}, ["y"], {"w": floats(3)})


def broken(change: Callable[[ModelProto], Any]) -> ModelProto:
    model = good()
    change(model)
    return model


def duplicate_initializer(m: ModelProto) -> None:
    m.graph.initializer.add().CopyFrom(m.graph.initializer[0])


def duplicate_output(m: ModelProto) -> None:
    m.graph.node.add().CopyFrom(m.graph.node[0])


def short_data(m: ModelProto) -> None:
    m.graph.initializer[0].raw_data = b"\0" * 8


def cycle(m: ModelProto) -> None:
    m.graph.node[0].input[0] = "y"


BROKEN: dict[str, tuple[Callable[[ModelProto], Any], str]] = {
    "missing initialiser": (lambda m: m.graph.initializer.pop(), "'second' (Add)"),
    "cycle": (cycle, "'first' (Relu)"),
    "out of order": (lambda m: m.graph.node.reverse(), "not in order"),
    "duplicate initialiser": (duplicate_initializer, "defined twice"),
    "duplicate output": (duplicate_output, "defined twice"),
    "no such output": (lambda m: setattr(m.graph.output[0], "name", "z"), "made by no node"),
    "short data": (short_data, "8 bytes"),
    "huge dims": (lambda m: m.graph.initializer[0].dims.extend([2**40]), "tensor 'w'"),
    "negative dims": (lambda m: m.graph.initializer[0].dims.__setitem__(0, -3), "negative"),
    "no element type": (lambda m: setattr(m.graph.initializer[0], "data_type", 0), "element type"),
    "unknown element type": (lambda m: setattr(m.graph.initializer[0], "data_type", 999), "element type"),
    "negative input size": (
        lambda m: setattr(m.graph.input[0].type.tensor_type.shape.dim[1], "dim_value", -2),
        "negative",
    ),
    "no rank": (lambda m: m.graph.input[0].type.tensor_type.ClearField("shape"), "how many axes"),
    "op without a name": (lambda m: setattr(m.graph.node[0], "op_type", ""), "has no op"),
    "old operator set": (lambda m: setattr(m.opset_import[0], "version", 6), "version"),
    "future operator set": (lambda m: setattr(m.opset_import[0], "version", 999), "version"),
    "operator set twice": (lambda m: m.opset_import.add().CopyFrom(m.opset_import[0]), "twice"),
    "no operator set": (lambda m: m.opset_import.pop(), "version"),
    "too many inputs": (lambda m: m.graph.node[0].input.append("w"), "'first' (Relu)"),
    "too few inputs": (lambda m: m.graph.node[1].input.pop(), "'second' (Add)"),
    "sizes that do not fit": (
        lambda m: m.graph.initializer[0].CopyFrom(helper.make_tensor("w", FLOAT, [4], [1.0] * 4)),
        "'second' (Add)",
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken_models(name: str) -> None:
    change, message = BROKEN[name]
    import_model(load_model(good()))
    with pytest.raises(FileFormatError, match=re.escape(message)):
        import_model(load_model(broken(change)))


@pytest.mark.parametrize(
    "data", [b"", b"not a model", b"\x00" * 64, b"\x08\x07", os.urandom(256), b"PK\x03\x04pickle"], ids=len
)
def test_files_that_are_no_models(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(data)
    with pytest.raises(FileFormatError):
        import_model(load_model(path))


def test_truncated_files(tmp_path: Path) -> None:
    """Whatever is cut off, there is a typed error or a model."""
    data = good().SerializeToString()
    path = tmp_path / "m.onnx"
    for length in range(0, len(data), 7):
        path.write_bytes(data[:length])
        with pytest.raises((FileFormatError, UnsupportedOps)):
            import_model(load_model(path))


def test_flipped_bytes(tmp_path: Path) -> None:
    """Whatever byte is another one, there is a typed error or a model."""
    data = good().SerializeToString()
    path = tmp_path / "m.onnx"
    for place in range(0, len(data), 3):
        path.write_bytes(data[:place] + bytes([data[place] ^ 0x55]) + data[place + 1 :])
        with contextlib.suppress(FileFormatError, UnsupportedOps):
            import_model(load_model(path))


def test_texts_that_are_no_text(tmp_path: Path) -> None:
    """protobuf gives what is no UTF-8 as bytes, wherever a text stands."""
    data = good().SerializeToString()
    path = tmp_path / "m.onnx"
    for text in (b"Relu", b"first", b"Add"):
        assert text in data
        path.write_bytes(data.replace(text, b"\xff" * len(text)))
        with pytest.raises(FileFormatError):
            load_model(path)


def test_missing_file_and_wrong_type(tmp_path: Path) -> None:
    with pytest.raises(FileFormatError, match="cannot be read"):
        anyshape.compile(tmp_path / "none.onnx")
    with pytest.raises(ArgumentError):
        load_model(3)  # pyright: ignore[reportArgumentType]


def test_functions_that_call_themselves() -> None:
    call = helper.make_node("Twice", ["a"], ["b"], domain="own")
    function = helper.make_function("own", "Twice", ["a"], ["b"], [call], [helper.make_opsetid("own", 1)])
    model = model_of(
        [helper.make_node("Twice", ["x"], ["y"], domain="own")],
        {"x": (FLOAT, (3,))},
        ["y"],
        functions=[function],
        domains={"own": 1},
    )
    with pytest.raises(FileFormatError, match="calls itself"):
        load_model(model)


def test_all_unknown_ops_are_listed() -> None:
    nodes = [
        helper.make_node("Strange", ["x"], ["a"], name="one", domain="com.example"),
        helper.make_node("Odd", ["a"], ["b"], name="two", domain="com.example"),
        helper.make_node("Relu", ["b"], ["c"], name="three"),
        helper.make_node("Optional", ["x"], ["d"], name="four"),
        helper.make_node("Strange", ["c"], ["y"], name="five", domain="com.example"),
    ]
    model = model_of(nodes, {"x": (FLOAT, (3,))}, ["y", "d"], domains={"com.example": 1})
    with pytest.raises(UnsupportedOps) as caught:
        import_model(load_model(model))
    listed = [(op.name, op.location) for op in caught.value.ops]
    assert listed == [
        ("com.example::Strange", "small: node 'one' (com.example.Strange)"),
        ("com.example::Odd", "small: node 'two' (com.example.Odd)"),
        ("Optional", "small: node 'four' (Optional)"),
        ("com.example::Strange", "small: node 'five' (com.example.Strange)"),
    ]


def test_unknown_attribute_names_its_node() -> None:
    model = model_of([helper.make_node("Relu", ["x"], ["y"], name="r", slope=2.0)], {"x": (FLOAT, (3,))}, ["y"])
    with pytest.raises(UnsupportedOps, match="node 'r' \\(Relu\\)"):
        import_model(load_model(model))


def test_a_model_without_a_graph_and_bytes_are_refused() -> None:
    with pytest.raises(FileFormatError, match="no graph"):
        anyshape.compile(ModelProto())
    with pytest.raises(ArgumentError, match="a path or a ModelProto"):
        anyshape.compile(b"model")
