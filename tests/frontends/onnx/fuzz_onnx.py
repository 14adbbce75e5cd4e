"""ONNX files with random damage: imported, they give a graph or a typed error, in little memory.

`python -m tests.frontends.onnx.fuzz_onnx --first 0 --count 5000` runs as many as wanted; `test_fuzz.py` runs a few hundred. Damage is
of two kinds: bytes of the file, as broken transfers leave it, and fields of its messages, as an attacker would set them.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from google.protobuf.message import Message
from onnx import ModelProto, TensorProto, helper

from anyshape.frontends.onnx import import_model, load_model
from anyshape.support.errors import AnyshapeError, CompileError
from tests import damage
from tests.frontends.onnx.models import floats, model_of

EXTREMES = (0, 1, 2, -1, -2, 7, 31, 255, 2**16, 2**31 - 1, -(2**31), 2**42 + 1, 2**62, 2**63 - 1, -(2**63))
TEXTS = ("", "x", "y", "w", "Relu", "Reshape", "Conv", "Loop", "If", "../x", "\x00", "N", "é" * 40)
MOST_BYTES = 64 << 20
"""Memory that an import may take: the importer and its tables, and nothing out of proportion to a file of a few KB."""


def image_model() -> ModelProto:
    """Convolution, pool, resizing and a classifier, with its sizes computed from the input's."""
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1], strides=[2, 2]),
        helper.make_node("BatchNormalization", ["c", "g", "g", "g", "v"], ["n"]),
        helper.make_node("MaxPool", ["n"], ["p"], kernel_shape=[2, 2], strides=[2, 2], ceil_mode=1),
        helper.make_node("Resize", ["p", "", "scales"], ["r"], mode="linear"),
        helper.make_node("Shape", ["r"], ["s"]),
        helper.make_node("Gather", ["s", "first"], ["b"]),
        helper.make_node("Concat", ["b", "rest"], ["to"], axis=0),
        helper.make_node("Reshape", ["r", "to"], ["f"]),
        helper.make_node("ReduceMean", ["f", "axes"], ["m"], keepdims=0),
        helper.make_node("TopK", ["m", "k"], ["y", "places"]),
    ]
    constants = {
        "w": floats(4, 3, 3, 3), "g": floats(4), "v": np.abs(floats(4)) + 1, "scales": np.float32([1, 1, 2, 2]),
        "first": np.int64([0]), "rest": np.int64([4, -1]), "axes": np.int64([2]), "k": np.int64([2]),
    }  # fmt: skip
    return model_of(nodes, {"x": (TensorProto.FLOAT, ("N", 3, "H", "W"))}, ["y", "places"], constants)


def text_model() -> ModelProto:
    """A table, a recurrent layer, attention's products and slices."""
    nodes = [
        helper.make_node("Gather", ["table", "ids"], ["e"]),
        helper.make_node("Transpose", ["e"], ["t"], perm=[1, 0, 2]),
        helper.make_node("LSTM", ["t", "W", "R"], ["h"], hidden_size=4, direction="bidirectional"),
        helper.make_node("Squeeze", ["h1", "one"], ["q"]),
        helper.make_node("Slice", ["h", "start", "stop", "axis"], ["h1"]),
        helper.make_node("MatMul", ["q", "u"], ["z"]),
        helper.make_node("Softmax", ["z"], ["a"], axis=-1),
        helper.make_node("Range", ["from", "to", "step"], ["positions"]),
        helper.make_node("ConstantOfShape", ["shape"], ["zeros"]),
        helper.make_node("Tile", ["zeros", "repeats"], ["tiled"]),
        helper.make_node("Pad", ["a", "pads"], ["y"]),
        helper.make_node("Split", ["y"], ["y0", "y1"], axis=2, num_outputs=2),
    ]
    nodes[3], nodes[4] = nodes[4], nodes[3]
    constants = {
        "table": floats(9, 5), "W": floats(2, 16, 5), "R": floats(2, 16, 4), "one": np.int64([1]), "start": np.int64([0]),
        "stop": np.int64([1]), "axis": np.int64([1]), "u": floats(4, 6), "from": np.int64(0), "to": np.int64(9),
        "step": np.int64(2), "shape": np.int64([2, 3]), "repeats": np.int64([2, 2]), "pads": np.int64([0, 0, 0, 0, 0, 2]),
    }  # fmt: skip
    outputs = ["y0", "y1", "positions", "tiled"]
    return model_of(nodes, {"ids": (TensorProto.INT64, ("N", "L"))}, outputs, constants)


def contrib_model() -> ModelProto:
    """Ops of ONNX Runtime's: weights of few bits, norms, attention behind a past, and codes."""
    contrib = {"domain": "com.microsoft"}
    nodes = [
        helper.make_node("MatMulNBits", ["x", "q", "s", "z"], ["a"], K=32, N=16, block_size=32, bits=4, **contrib),
        helper.make_node("SkipLayerNormalization", ["a", "a", "g", "g"], ["n"], epsilon=1e-5, **contrib),
        helper.make_node("Attention", ["n", "w", "", "", "past"], ["t", "present"], num_heads=2, **contrib),
        helper.make_node(
            "GroupQueryAttention", ["t", "t", "t", "", "", "", ""], ["u"], num_heads=2, kv_num_heads=2, **contrib
        ),
        helper.make_node("FusedMatMul", ["u", "g2"], ["m"], alpha=0.5, transB=1, **contrib),
        helper.make_node("QuantizeLinear", ["m", "one", "mid"], ["c"], **contrib),
        helper.make_node("QLinearAdd", ["c", "one", "mid", "c", "one", "mid", "one", "mid"], ["y"], **contrib),
    ]
    constants = {
        "q": np.arange(256, dtype=np.uint8).reshape(16, 1, 16), "s": floats(16, 1), "z": np.zeros((16, 1), np.uint8), "g": floats(16),
        "w": floats(16, 48), "g2": floats(5, 16), "one": np.float32(0.1), "mid": np.uint8(128),
    }  # fmt: skip
    inputs = {"x": (TensorProto.FLOAT, ("N", "L", 32)), "past": (TensorProto.FLOAT, (2, "N", 2, "P", 8))}
    return model_of(nodes, inputs, ["y", "present"], constants, domains={"com.microsoft": 1})


def damage_fields(model: ModelProto, rng: random.Random) -> bytes:
    """The file with some fields set to other values, removed, repeated or out of order."""
    changed = ModelProto()
    changed.CopyFrom(model)
    for _ in range(rng.choice((1, 1, 2, 3))):
        message = rng.choice(list(_messages(changed)))
        fields = message.ListFields()
        if fields:
            field, value = rng.choice(fields)
            _change(message, field, value, rng)
    return changed.SerializeToString()


def _messages(message: Message) -> Iterator[Message]:
    yield message
    for field, value in message.ListFields():
        if field.type == field.TYPE_MESSAGE:
            for each in [value] if isinstance(value, Message) else value:
                yield from _messages(each)


def _change(message: Message, field: Any, value: Any, rng: random.Random) -> None:
    repeated = not isinstance(value, str | bytes | int | float | Message)
    if repeated and rng.random() < 0.5:
        values = list(value)
        choice = rng.randrange(3)
        if choice == 0:
            del values[rng.randrange(len(values))]
        elif choice == 1:
            values.append(rng.choice(values))
        else:
            rng.shuffle(values)
        del value[:]
        value.extend(values)
    elif repeated and field.type != field.TYPE_MESSAGE:
        value[rng.randrange(len(value))] = _other(field, rng)
    elif not repeated and field.type != field.TYPE_MESSAGE:
        setattr(message, field.name, _other(field, rng))
    else:
        message.ClearField(field.name)


def _other(field: Any, rng: random.Random) -> Any:
    match field.type:
        case field.TYPE_STRING:
            return rng.choice(TEXTS)
        case field.TYPE_BYTES:
            return rng.choice(TEXTS).encode()
        case field.TYPE_FLOAT | field.TYPE_DOUBLE:
            return rng.choice((0.0, -1.0, 1e30, float("nan"), float("inf")))
        case field.TYPE_ENUM:
            return rng.choice([each.number for each in field.enum_type.values])
        case field.TYPE_INT32:
            return rng.choice([each for each in EXTREMES if -(2**31) <= each < 2**31])
        case field.TYPE_UINT64:
            return rng.choice(EXTREMES) % 2**64
        case _:
            return rng.choice(EXTREMES)


def fuzz(folder: Path, first: int, count: int) -> damage.Outcome:
    """Files of `count` seeds from `first` on; anything but a typed error, or too much memory, is an error that names the seed."""
    models = (image_model(), text_model(), contrib_model())

    def make(rng: random.Random) -> bytes:
        in_fields, model = rng.random() < 0.7, rng.choice(models)
        return damage_fields(model, rng) if in_fields else damage.damaged(model.SerializeToString(), rng)

    return damage.open_damaged(
        folder / "damaged.onnx",
        range(first, first + count),
        make,
        lambda path: import_model(load_model(path)),
        refusal=AnyshapeError,
        mistake=CompileError,  # what the front end did not foresee
        most_bytes=MOST_BYTES,
    )


if __name__ == "__main__":
    damage.main(__doc__, fuzz, 5000)
