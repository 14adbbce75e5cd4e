"""ONNX's backend interface (`onnx.backend.base`) over `anyshape.compile`:

    from anyshape.driver import onnx_backend as backend

    rep = backend.prepare(model)
    (y,) = rep.run([x])

Where a model takes shapes, axes and the like as inputs, of which a program needs to know the values, each set of values that `run` meets
gets a program of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from onnx import (
    ModelProto,
    NodeProto,
    TensorProto,
    ValueInfoProto,
    defs,
    helper,
    numpy_helper,
    shape_inference,
    version_converter,
)
from onnx.backend.base import Backend, BackendRep, Device, DeviceType

from anyshape.driver import api
from anyshape.frontends.onnx.calls import as_array
from anyshape.support.errors import ArgumentError, UnsupportedOps
from anyshape.support.options import Options

OLDEST_OPSET = 7
MOST_BOUND_ELEMENTS = 256
"""Elements of an input up to which its values may be part of a program."""
MOST_PROGRAMS = 32
"""Programs that are kept of one model; the oldest goes."""


class PreparedModel(BackendRep):
    """A model that is ready to run, on inputs in the order of the model's.

    Attributes:
        bound: the inputs whose values were made part of the last program that ran.
    """

    def __init__(self, model: ModelProto, dynamic_shapes: Mapping[str, Any] | None, options: Options | None) -> None:
        self._model = model = _of_known_opset(model)
        self._dynamic_shapes = dynamic_shapes
        self._options = options
        self._programs: dict[Any, Any] = {}
        self._names = [each.name for each in _inputs(model)]
        self._refusal: UnsupportedOps | None = None
        self._needed: tuple[str, ...] = ()
        self.bound: tuple[str, ...] = ()
        try:
            self._programs[()] = self._compiled({})
        except UnsupportedOps as refusal:
            if not all(map(_is_tensor, _inputs(model))) or not any(map(_may_be_bound, _inputs(model))):
                raise
            self._refusal = refusal

    def run(self, inputs: Sequence[Any] | Mapping[str, Any], **_: Any) -> tuple[Any, ...]:
        """The outputs, as numpy arrays.

        Raises:
            UnsupportedOps: ops that anyshape lacks, also where all values are known.
            ArgumentError: another number of inputs than the model has.
        """
        arrays = self._by_name(inputs)
        if self._refusal is None:
            return _outputs(self._programs[()], list(arrays.values()))
        if not self._needed:
            self._needed = self._what_must_be_known(arrays)
        self.bound = self._needed
        program = self._program({name: arrays[name] for name in self.bound})
        return _outputs(program, [array for name, array in arrays.items() if name not in self.bound])

    def _by_name(self, inputs: Sequence[Any] | Mapping[str, Any]) -> dict[str, Any]:
        if isinstance(inputs, Mapping):
            inputs = [inputs[name] for name in self._names]
        if len(inputs) != len(self._names):
            raise ArgumentError("the model has another number of inputs", got=len(inputs), expected=len(self._names))
        return {name: as_array(each, name) for name, each in zip(self._names, inputs, strict=True)}

    def _what_must_be_known(self, arrays: Mapping[str, Any]) -> tuple[str, ...]:
        """The fewest inputs, of small integers first, whose values let the model be compiled. UnsupportedOps where none do."""
        refusal = self._refusal
        for candidates in self._candidates(arrays):
            try:
                self._program({name: arrays[name] for name in candidates})
            except UnsupportedOps as error:
                refusal = error
            else:
                return candidates
        assert refusal is not None
        raise refusal

    def _candidates(self, arrays: Mapping[str, Any]) -> list[tuple[str, ...]]:
        """Sets of inputs, each with those before it: integer vectors, integer numbers, then small tensors of any type."""
        small = [name for name, each in arrays.items() if each.ndim <= 1 and each.size <= MOST_BOUND_ELEMENTS]
        vectors = tuple(name for name in small if arrays[name].dtype.kind == "i" and arrays[name].ndim == 1)
        integers = tuple(name for name in small if arrays[name].dtype.kind == "i")
        behind = tuple(name for name in small if name != self._names[0])
        found = [each for each in (vectors, integers, behind, tuple(small)) if each]
        return list(dict.fromkeys(found))

    def _program(self, values: Mapping[str, Any]) -> Any:
        key = tuple((name, array.dtype.str, array.shape, array.tobytes()) for name, array in values.items())
        if key not in self._programs:
            while len(self._programs) >= MOST_PROGRAMS:
                del self._programs[next(iter(self._programs))]
            self._programs[key] = self._compiled(values)
        return self._programs[key]

    def _compiled(self, values: Mapping[str, Any]) -> Any:
        given = self._dynamic_shapes
        shapes = None if given is None else {name: sizes for name, sizes in given.items() if name not in values}
        return api.compile(with_values(self._model, values), dynamic_shapes=shapes, options=self._options)


def _of_known_opset(model: ModelProto) -> ModelProto:
    """The model, converted to the oldest operator set that is read where it is of an older one."""
    version = next((each.version for each in model.opset_import if each.domain in ("", "ai.onnx")), OLDEST_OPSET)
    if version >= OLDEST_OPSET:
        return model
    return version_converter.convert_version(_with_slopes_of_channels(model), OLDEST_OPSET)


def _with_slopes_of_channels(model: ModelProto) -> ModelProto:
    """A model of before version 7, where a vector of PRelu's slopes is one for each channel, with axes behind the channels.

    The converter of versions leaves that out, so that from 7 on the slopes would be those of the last axis.
    """
    given = (*model.graph.initializer, *shape_inference.infer_shapes(model).graph.value_info)
    ranks = {each.name: _rank(each) for each in (*given, *model.graph.input)}
    changed = ModelProto()
    changed.CopyFrom(model)
    del changed.graph.node[:]
    for node in model.graph.node:
        copy = changed.graph.node.add
        behind = range(1, ranks.get(node.input[0], 0) - 1) if node.op_type == "PRelu" else ()
        if behind and ranks.get(node.input[1]) == 1:
            name = f"{node.input[1]} of the channels of {node.output[0]}"
            copy().CopyFrom(helper.make_node("Unsqueeze", [node.input[1]], [name], axes=list(behind)))
            copy().CopyFrom(helper.make_node("PRelu", [node.input[0], name], list(node.output)))
        else:
            copy().CopyFrom(node)
    return changed


def _rank(value: ValueInfoProto | TensorProto) -> int:
    """How many axes a tensor has; 0 where the file does not say it."""
    return len(value.dims) if isinstance(value, TensorProto) else len(value.type.tensor_type.shape.dim)


def with_values(model: ModelProto, values: Mapping[str, Any]) -> ModelProto:
    """The model with inputs replaced by constants."""
    if not values:
        return model
    bound = ModelProto()
    bound.CopyFrom(model)
    kept = [each for each in bound.graph.input if each.name not in values]
    del bound.graph.input[:]
    bound.graph.input.extend(kept)
    bound.graph.initializer.extend(numpy_helper.from_array(np.asarray(array), name) for name, array in values.items())
    return bound


def _inputs(model: ModelProto) -> list[ValueInfoProto]:
    """The inputs that a caller gives."""
    constants = {each.name for each in model.graph.initializer}
    return [each for each in model.graph.input if each.name not in constants]


def _is_tensor(value: ValueInfoProto) -> bool:
    return value.type.WhichOneof("value") == "tensor_type"


def _may_be_bound(value: ValueInfoProto) -> bool:
    """Whether a tensor is a number or a vector."""
    shape = value.type.tensor_type
    return shape.HasField("shape") and len(shape.shape.dim) <= 1


def _outputs(program: Any, inputs: Sequence[Any]) -> tuple[Any, ...]:
    results: Any = program(*inputs)
    return results if isinstance(results, tuple) else (results,)  # pyright: ignore[reportUnknownVariableType]


class AnyshapeBackend(Backend):
    """`onnx.backend.base.Backend` on the processor, for numeric tensors."""

    @classmethod
    def is_compatible(cls, model: ModelProto, device: str = "CPU", **_: Any) -> bool:
        """Whether the model can be compiled, all of its inputs being given when it runs."""
        try:
            cls.prepare(model, device)
        except UnsupportedOps:
            return False
        return True

    @classmethod
    def prepare(
        cls,
        model: ModelProto,
        device: str = "CPU",
        *,
        dynamic_shapes: Any = None,
        options: Options | None = None,
        **_: Any,
    ) -> PreparedModel:
        """Compile a model.

        Args:
            dynamic_shapes, options: as `anyshape.compile` takes them.

        Raises:
            ArgumentError: there is no such device.
            UnsupportedOps, FileFormatError: as `anyshape.compile` does; unsupported ops of models that have small inputs by `run`.
        """
        if not cls.supports_device(device):
            raise ArgumentError("there is no such device", got=device, expected="CPU")
        return PreparedModel(model, dynamic_shapes, options)

    @classmethod
    def run_model(cls, model: ModelProto, inputs: Any, device: str = "CPU", **kwargs: Any) -> tuple[Any, ...]:
        return cls.prepare(model, device, **kwargs).run(inputs)

    @classmethod
    def run_node(
        cls, node: NodeProto, inputs: Any, device: str = "CPU", outputs_info: Any = None, **kwargs: Any
    ) -> tuple[Any, ...]:
        """Run one node on arrays, of the newest operator set or of `opset_version`."""
        opset = kwargs.pop("opset_version", defs.onnx_opset_version())
        imports = [helper.make_opsetid(node.domain, opset)]
        given = [np.asarray(each) for each in inputs]
        names = [name for name in node.input if name]
        values = [
            helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(each.dtype), each.shape)
            for name, each in zip(names, given, strict=True)
        ]
        results = [helper.make_empty_tensor_value_info(name) for name in node.output if name]
        graph = helper.make_graph([node], "node", values, results)
        return cls.run_model(helper.make_model(graph, opset_imports=imports), given, device, **kwargs)

    @classmethod
    def supports_device(cls, device: str) -> bool:
        return Device(device).type == DeviceType.CPU


is_compatible = AnyshapeBackend.is_compatible
prepare = AnyshapeBackend.prepare
run_model = AnyshapeBackend.run_model
run_node = AnyshapeBackend.run_node
supports_device = AnyshapeBackend.supports_device

__all__ = [
    "AnyshapeBackend", "PreparedModel", "is_compatible", "prepare", "run_model", "run_node", "supports_device", "with_values",
]  # fmt: skip
