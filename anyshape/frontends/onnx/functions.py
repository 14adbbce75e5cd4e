"""The bodies that the standard gives to its composite ops: what serves an op that has no lowering of its own."""

# The schemas of onnx are typed in part only.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

from collections.abc import Mapping, Sequence

from onnx import AttributeProto, FunctionProto, NodeProto, TypeProto, defs

from anyshape.frontends.onnx.dtypes import code_of_dtype
from anyshape.frontends.onnx.refusals import Unsupported
from anyshape.frontends.onnx.values import Anything, Known
from anyshape.nn import Tensor


def function_body(node: NodeProto, version: int, inputs: Sequence[Anything] | None) -> FunctionProto | None:
    """The body of a node's op in this version of its operator set; None where the standard has none.

    Args:
        inputs: the node's inputs, whose types some bodies depend on; None asks only for a body that does not depend on them, or
            whether there is one.
    """
    schema = _schema(node, version)
    if schema is None:
        return None
    plain = [each for each in schema.function_opset_versions if each <= version]
    if schema.has_function and plain:
        return _parsed(schema.get_function_with_opset_version(max(plain)), schema)
    dependent = [each for each in schema.context_dependent_function_opset_versions if each <= version]
    if not schema.has_context_dependent_function or not dependent:
        return None
    if inputs is None:
        return FunctionProto()
    types = [_type_of(each).SerializeToString() for each in inputs]
    body = schema.get_context_dependent_function_with_opset_version(max(dependent), node.SerializeToString(), types)
    return _parsed(body, schema) if body else None


def _schema(node: NodeProto, version: int) -> defs.OpSchema | None:
    try:
        return defs.get_schema(node.op_type, version, node.domain)
    except defs.SchemaError:
        return None


def _parsed(body: bytes | FunctionProto, schema: defs.OpSchema) -> FunctionProto:
    """The body, with the defaults of the op's attributes among its own."""
    function = FunctionProto()
    function.ParseFromString(body if isinstance(body, bytes) else body.SerializeToString())
    function.attribute_proto.extend(_defaults(schema).values())
    return function


def _defaults(schema: defs.OpSchema) -> Mapping[str, AttributeProto]:
    defaults = {name: attribute.default_value for name, attribute in schema.attributes.items()}
    return {name: each for name, each in defaults.items() if each.name}


def _type_of(value: Anything) -> TypeProto:
    """The type of an input as a body's maker is told: the element type and the sizes, those that are not constant by their text."""
    type = TypeProto()
    if isinstance(value, Tensor | Known):
        type.tensor_type.elem_type = code_of_dtype(value.dtype)
        shape = type.tensor_type.shape
        for size in value.sizes:
            dim = shape.dim.add()
            if size.is_constant:
                dim.dim_value = size.value
            else:
                dim.dim_param = str(size)
        if not value.sizes:
            shape.SetInParent()
    elif value is not None:
        raise Unsupported("an op on sequences has no lowering")
    return type


__all__ = ["function_body"]
