"""An imported model: its graph, its constants, and how calls map onto it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import itemgetter
from typing import Any, TypeAlias

import torch
from torch.utils import _pytree as pytree
from xdsl.dialects.builtin import ModuleOp

from anyshape.dialects.dhlo import ConstantStore
from anyshape.dialects.dtypes import I64, DType
from anyshape.frontends.torch.calls import leaves_as_in, signature_text
from anyshape.support.errors import ArgumentError, DtypeError
from anyshape.symbolic import Size, bind_symbols, parse_size


@dataclass(frozen=True)
class InputSpec:
    """One tensor argument of the program.

    Attributes:
        name: the place in the call, `args[0]` or `kwargs['input_ids']`.
        dtype: its element type.
        sizes: a bare symbol is free, anything else is a condition on the caller.
        leaf: its index among the flattened leaves of `(args, kwargs)`.
        is_complex: whether the caller's tensor is complex: then the program's has a last axis (real, imaginary) more.
    """

    name: str
    dtype: DType
    sizes: tuple[Size, ...]
    leaf: int
    is_complex: bool = False

    @property
    def is_seed(self) -> bool:
        """Whether it is no part of the call, but drawn anew for each."""
        return self.leaf == _NO_LEAF


_NO_LEAF = -1
SEED = InputSpec("the seed of the call", I64, (), _NO_LEAF)
"""The argument behind all others of a program that draws random numbers."""


def draw_seed() -> torch.Tensor:
    """The seed of one call's random numbers: a number that PyTorch's default generator draws, so that `torch.manual_seed` makes
    results repeat and each call differs from the one before."""
    return torch.empty((), dtype=torch.int64).random_()


@dataclass(frozen=True)
class FromResult:
    """An output that is result `index` of `@main`."""

    index: int


@dataclass(frozen=True)
class FromComplexResult:
    """An output that is complex: result `index` of `@main`, whose last axis is (real, imaginary)."""

    index: int


@dataclass(frozen=True)
class FromInput:
    """An output that is tensor input `index` itself: the model returned its argument."""

    index: int


@dataclass(frozen=True)
class FromNumber:
    """An output that is the Python number which a tensor without axes holds, as `x.item()` is."""

    tensor: FromResult | FromInput


@dataclass(frozen=True)
class IntoInput:
    """No output: result `index` of `@main` is what the model leaves in tensor input `input`, which it writes to."""

    index: int
    input: int


@dataclass(frozen=True)
class FromSize:
    """An output that is a Python int computed from the sizes of the inputs."""

    size: Size


@dataclass(frozen=True)
class FromConstant:
    """An output that is always the same Python value, None among them."""

    value: object


OutputSource: TypeAlias = FromResult | FromComplexResult | FromInput | FromNumber | IntoInput | FromSize | FromConstant


@dataclass(frozen=True)
class CallAdaptor:
    """Turns a call of the module into tensors for the program, and the program's results into what the module returns.

    Attributes:
        inputs: the tensor arguments, in the order of the program's.
        constants: leaves that are no tensors, by leaf index: a call must pass the same values.
        outputs: where each flattened output comes from.
        parameters: the parameters of the module's `forward`.
    """

    inputs: tuple[InputSpec, ...]
    constants: Mapping[int, object]
    outputs: tuple[OutputSource, ...]
    in_spec: pytree.TreeSpec
    out_spec: pytree.TreeSpec
    signature: inspect.Signature
    leaf_names: tuple[str, ...]

    def flatten(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[torch.Tensor]:
        """The tensors of a call, in the order of `inputs`. Raises ArgumentError that names the argument at fault."""
        if self._takes_all and not kwargs and len(args) == len(self.inputs):
            for arg in args:
                if not isinstance(arg, torch.Tensor) or arg.is_complex():
                    break  # of which below says more
            else:
                return list(args)
        leaves = self._leaves(tuple(args), dict(kwargs))
        for index, expected in self.constants.items():
            if not _same_constant(leaves[index], expected):
                raise ArgumentError(
                    "a value that is no tensor is part of the compiled program and cannot change",
                    where=self.leaf_names[index],
                    got=repr(leaves[index]),
                    expected=repr(expected),
                    remedy="compile the module again with this value",
                )
        tensors: list[torch.Tensor] = []
        for spec in self.inputs:
            if spec.is_seed:
                tensors.append(draw_seed())
                continue
            leaf = leaves[spec.leaf]
            if not isinstance(leaf, torch.Tensor):
                raise ArgumentError(
                    "an argument is no tensor", where=spec.name, got=type(leaf).__name__, expected="a tensor"
                )
            tensors.append(_as_real(leaf, spec))
        for place in self._written:
            self._check_apart(place, tensors)
        return tensors

    @cached_property
    def _takes_all(self) -> bool:
        """Whether the program's inputs are the positional arguments, in order and as they are, and nothing else is asked of a call: most
        calls, which cost a few microseconds less so."""
        plain = self._plain
        takes = plain == (len(self.inputs), ()) and not self.constants and not self._written
        return takes and all(spec.leaf == place and not spec.is_complex for place, spec in enumerate(self.inputs))

    @cached_property
    def _assemble(self) -> Callable[[Sequence[torch.Tensor]], Any] | None:
        """What makes the model's value of the program's results, where it is all of them, in order and not nested: most models, whose
        calls cost a few microseconds less so."""
        if self.outputs != tuple(FromResult(index) for index in range(len(self.outputs))):
            return None
        spec = self.out_spec
        if spec.is_leaf():
            return itemgetter(0)
        node = pytree.SUPPORTED_NODES.get(spec.type)
        if node is None or not all(child.is_leaf() for child in spec.children()):
            return None
        return lambda results: node.unflatten_fn(results, spec.context)

    @cached_property
    def _written(self) -> tuple[int, ...]:
        return tuple(source.input for source in self.outputs if isinstance(source, IntoInput))

    def _check_apart(self, place: int, tensors: Sequence[torch.Tensor]) -> None:
        """ArgumentError where a tensor that the model writes to shares memory with another: the program reads all before it writes."""
        first, last = _bytes_of(tensors[place])
        for other, tensor in enumerate(tensors):
            begin, end = _bytes_of(tensor)
            if other != place and begin < last and first < end:
                raise ArgumentError(
                    "the model writes to an argument that shares memory with another one",
                    where=f"{self.inputs[place].name} and {self.inputs[other].name}",
                    remedy="pass a copy of one of them",
                )

    def unflatten(self, results: Sequence[torch.Tensor], inputs: Sequence[torch.Tensor]) -> Any:
        """What the module returns, from the program's results and the tensors that it was called with."""
        if self._assemble is not None:
            return self._assemble(results)
        leaves: list[Any] = []
        for source in self.outputs:
            match source:
                case FromResult(index):
                    leaves.append(results[index])
                case FromComplexResult(index):
                    leaves.append(torch.view_as_complex(results[index]))
                case FromInput(index):
                    leaves.append(inputs[index])
                case FromNumber(tensor):
                    held = results if isinstance(tensor, FromResult) else inputs
                    leaves.append(held[tensor.index].item())
                case IntoInput(index, argument):
                    with torch.no_grad():
                        inputs[argument].copy_(results[index])
                case FromSize(size):
                    leaves.append(size.evaluate(self.size_values(inputs)))
                case FromConstant(value):
                    leaves.append(value)
        return leaves[0] if self.out_spec.is_leaf() else pytree.tree_unflatten(leaves, self.out_spec)

    def size_values(self, inputs: Sequence[torch.Tensor]) -> dict[str, int]:
        """The value of every size symbol that is an axis of an input."""
        pairs = zip(self.inputs, inputs, strict=True)
        return bind_symbols(axis for spec, tensor in pairs for axis in zip(spec.sizes, tensor.shape, strict=True))

    @cached_property
    def _plain(self) -> tuple[int, tuple[str, ...]] | None:
        """How many positional arguments there are and the names of the others, where none is a container."""
        args, kwargs = self.in_spec.children()
        if not all(child.is_leaf() for child in (*args.children(), *kwargs.children())):
            return None
        return args.num_children, tuple(kwargs.context or ())

    def _leaves(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
        plain = self._plain
        if plain is not None and (len(args), tuple(kwargs)) == plain:  # most calls: nothing to take apart
            return [*args, *kwargs.values()]
        leaves, structure = pytree.tree_flatten((args, kwargs))
        if structure == self.in_spec:
            return leaves
        args, kwargs = self._as_in_example(args, kwargs)
        return leaves_as_in(self.in_spec, (args, kwargs))

    def _as_in_example(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The call with arguments by position and by name where the example had them so."""
        try:
            bound = self.signature.bind(*args, **kwargs)
        except TypeError as error:
            raise ArgumentError(
                f"the arguments do not fit the module's forward: {error}", expected=signature_text(self.signature)
            ) from error
        bound.apply_defaults()
        values = dict(bound.arguments)
        for name, parameter in self.signature.parameters.items():
            if parameter.kind is inspect.Parameter.VAR_KEYWORD:
                values.update(values.pop(name, {}))
        args_spec, kwargs_spec = self.in_spec.children()
        names = [name for name, p in self.signature.parameters.items() if p.kind is not inspect.Parameter.VAR_KEYWORD]
        if any(p.kind is inspect.Parameter.VAR_POSITIONAL for p in self.signature.parameters.values()):
            return args, kwargs
        positional, by_name = names[: args_spec.num_children], list(kwargs_spec.context or ())
        wanted = [*positional, *by_name]
        missing = [name for name in wanted if name not in values]
        unexpected = [name for name in values if name not in wanted and not self._is_default(name, values[name])]
        if missing or unexpected:
            raise ArgumentError(
                "the call passes other arguments than the example call did",
                where=", ".join([f"{n}: missing" for n in missing] + [f"{n}: unexpected" for n in unexpected]),
                expected=", ".join(wanted) or "no argument",
                remedy="compile the module again with the arguments of this call as the example",
            )
        return tuple(values[name] for name in positional), {name: values[name] for name in by_name}

    def _is_default(self, name: str, value: object) -> bool:
        parameter = self.signature.parameters.get(name)
        return value is None or (parameter is not None and parameter.default is value)


def _as_real(leaf: torch.Tensor, spec: InputSpec) -> torch.Tensor:
    """The tensor as the program takes it: a complex one as the floats that it consists of. DtypeError where it is not what is expected."""
    if leaf.is_complex() != spec.is_complex:
        expected = f"a complex tensor of {spec.dtype}" if spec.is_complex else f"a tensor of {spec.dtype}"
        raise DtypeError("an argument has another element type", where=spec.name, got=leaf.dtype, expected=expected)
    return torch.view_as_real(leaf.resolve_conj()) if spec.is_complex else leaf


def _bytes_of(tensor: torch.Tensor) -> tuple[int, int]:
    """Where the memory of a tensor begins and ends; nothing where it has no elements."""
    if not tensor.numel():
        return 0, 0
    span = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True)) + 1
    return tensor.data_ptr(), tensor.data_ptr() + span * tensor.element_size()


def _same_constant(got: object, expected: object) -> bool:
    if isinstance(got, float) and isinstance(expected, float):
        return got.hex() == expected.hex()  # 0.0 is not -0.0, and NaN is NaN
    return type(got) is type(expected) and (got is expected or got == expected)


@dataclass(frozen=True)
class ImportedProgram:
    """A PyTorch module as a `dhlo` graph.

    Attributes:
        module: one `func.func @main` from the tensor inputs to the results; the function's `dhlo.facts` lists what
            must hold of the sizes of a call.
        store: parameters, buffers and constants, by the names that `dhlo.weight` ops use; they share the module's memory.
        inputs: the arguments of `@main`.
        adaptor: between calls of the module and calls of `@main`.
        capture_seconds: wall time that PyTorch took to hand over the graph.
    """

    module: ModuleOp
    store: ConstantStore
    adaptor: CallAdaptor
    capture_seconds: float

    @property
    def inputs(self) -> tuple[InputSpec, ...]:
        return self.adaptor.inputs


def encode_outputs(outputs: Sequence[OutputSource]) -> list[list[Any]] | None:
    """Outputs as JSON values; None where one is a constant that is neither None, a truth value, a number nor a string."""
    encoded: list[list[Any]] = []
    for source in outputs:
        match source:
            case FromResult(index):
                encoded.append(["result", index])
            case FromComplexResult(index):
                encoded.append(["complex", index])
            case FromInput(index):
                encoded.append(["input", index])
            case FromNumber(tensor):
                encoded.append(["number", [isinstance(tensor, FromInput), tensor.index]])
            case IntoInput(index, argument):
                encoded.append(["into", [index, argument]])
            case FromSize(size):
                encoded.append(["size", str(size)])
            case FromConstant(value) if isinstance(value, float):
                encoded.append(["float", value.hex()])
            case FromConstant(value) if value is None or type(value) in (bool, int, str):
                encoded.append(["constant", value])
            case _:
                return None
    return encoded


def decode_outputs(encoded: Sequence[Sequence[Any]]) -> tuple[OutputSource, ...]:
    """The inverse of `encode_outputs`. ValueError for anything else."""
    decoded: list[OutputSource] = []
    for kind, value in encoded:
        match kind:
            case "result":
                decoded.append(FromResult(value))
            case "complex":
                decoded.append(FromComplexResult(value))
            case "input":
                decoded.append(FromInput(value))
            case "number":
                is_input, index = value
                decoded.append(FromNumber(FromInput(index) if is_input else FromResult(index)))
            case "into":
                decoded.append(IntoInput(*value))
            case "size":
                decoded.append(FromSize(parse_size(value)))
            case "float":
                decoded.append(FromConstant(float.fromhex(value)))
            case "constant":
                decoded.append(FromConstant(value))
            case _:
                raise ValueError(f"unknown source of an output: {kind}")
    return tuple(decoded)
