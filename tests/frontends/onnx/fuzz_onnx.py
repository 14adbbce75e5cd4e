"""ONNX files with random damage: imported, they give a graph or a typed error, in little memory.

`python -m tests.frontends.onnx.fuzz_onnx --first 0 --count 5000` runs as many as wanted; `test_fuzz.py` runs a few hundred. Damage is
of two kinds: bytes of the file, as broken transfers leave it, and fields of its messages, as an attacker would set them.
"""

from __future__ import annotations

import argparse
import random
import tempfile
import tracemalloc
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from google.protobuf.message import Message
from onnx import ModelProto, TensorProto, helper

from anyshape.frontends.onnx import import_model, load_model
from anyshape.support.errors import AnyshapeError, CompileError
from tests.frontends.onnx.models import floats, model_of

EXTREMES = (0, 1, 2, -1, -2, 7, 31, 255, 2**16, 2**31 - 1, -(2**31), 2**42 + 1, 2**62, 2**63 - 1, -(2**63))
TEXTS = ("", "x", "y", "w", "Relu", "Reshape", "Conv", "Loop", "If", "../x", "\x00", "N", "é" * 40)
MOST_BYTES = 64 << 20
"""Memory that an import may take: the importer and its tables, and nothing out of proportion to a file of a few KB."""

Damage = Callable[[bytearray, random.Random], None]


@dataclass
class Outcome:
    """What became of the files."""

    refused: int = 0
    imported: int = 0


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


def flip(raw: bytearray, rng: random.Random) -> None:
    raw[rng.randrange(len(raw))] ^= 1 << rng.randrange(8)


def overwrite(raw: bytearray, rng: random.Random) -> None:
    at = rng.randrange(max(1, len(raw) - 8))
    raw[at : at + 8] = (rng.choice(EXTREMES) % 2**64).to_bytes(8, "little")


def cut(raw: bytearray, rng: random.Random) -> None:
    del raw[rng.randrange(16, max(17, len(raw))) :]


def remove(raw: bytearray, rng: random.Random) -> None:
    at = rng.randrange(len(raw))
    del raw[at : at + rng.randrange(1, 16)]


BYTES: tuple[Damage, ...] = (flip, flip, overwrite, cut, remove)


def damage_bytes(model: ModelProto, rng: random.Random) -> bytes:
    """The file with some bytes changed."""
    raw = bytearray(model.SerializeToString())
    for _ in range(rng.choice((1, 1, 2, 3))):
        rng.choice(BYTES)(raw, rng)
    return bytes(raw)


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


def fuzz(folder: Path, first: int, count: int) -> Outcome:
    """Files of `count` seeds from `first` on; anything but a typed error, or too much memory, is an error that names the seed."""
    path, outcome = folder / "damaged.onnx", Outcome()
    models = (image_model(), text_model())
    tracemalloc.start()
    try:
        for seed in range(first, first + count):
            rng = random.Random(seed)
            damage = damage_fields if rng.random() < 0.7 else damage_bytes
            path.write_bytes(damage(rng.choice(models), rng))
            tracemalloc.reset_peak()
            before = tracemalloc.get_traced_memory()[0]
            try:
                import_model(load_model(path))
                outcome.imported += 1
            except CompileError as error:  # what the front end did not foresee
                raise AssertionError(f"seed {seed}: {error}") from error
            except AnyshapeError:
                outcome.refused += 1
            except Exception as error:
                raise AssertionError(f"seed {seed}: {error!r}") from error
            peak = tracemalloc.get_traced_memory()[1] - before
            assert peak < MOST_BYTES, f"seed {seed}: {peak} bytes for a file of {path.stat().st_size}"
    finally:
        tracemalloc.stop()
    return outcome


def main() -> None:
    """Run the seeds that are asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int, default=5000)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        print(fuzz(Path(folder), asked.first, asked.count))


if __name__ == "__main__":
    main()
