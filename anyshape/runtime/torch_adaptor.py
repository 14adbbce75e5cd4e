"""Runs programs on PyTorch tensors, without copying."""

from collections.abc import Sequence
from typing import Any

import torch
from torch._C import (
    DisableTorchFunction,
    _DisableFuncTorch,  # pyright: ignore[reportAttributeAccessIssue, reportPrivateUsage, reportUnknownVariableType]
    _DisableTorchDispatch,  # pyright: ignore[reportPrivateUsage]
    _is_torch_function_mode_enabled,  # pyright: ignore[reportPrivateUsage]
    _len_torch_dispatch_stack,  # pyright: ignore[reportPrivateUsage]
)
from torch._C._functorch import maybe_current_level

from anyshape.runtime.abi import DType
from anyshape.runtime.loader import Program, TensorView
from anyshape.support.errors import ArgumentError, DtypeError, SingularMatrix

TORCH_DTYPES: dict[int, torch.dtype] = {
    DType.BOOL: torch.bool,
    DType.I8: torch.int8,
    DType.U8: torch.uint8,
    DType.I16: torch.int16,
    DType.I32: torch.int32,
    DType.I64: torch.int64,
    DType.F16: torch.float16,
    DType.BF16: torch.bfloat16,
    DType.F32: torch.float32,
    DType.F64: torch.float64,
    DType.C64: torch.complex64,
}

_CPU = torch.device("cpu")

_CODES = {dtype: int(code) for code, dtype in TORCH_DTYPES.items()}


class LinearAlgebraError(SingularMatrix, torch.linalg.LinAlgError):  # pyright: ignore[reportUnknownMemberType, reportUntypedBaseClass, reportPrivateImportUsage]
    """What PyTorch raises where a matrix cannot be factorised."""


def run(program: Program, tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """The outputs of the program for these inputs.

    Inputs are read in place with whatever strides they have. Autograd does not see the call: inputs that require
    gradients are taken as if detached, outputs require none. Nor do modes and function transforms: outputs are plain tensors.

    Raises:
        ArgumentError: an input is not a strided tensor in CPU memory.
        DtypeError: an input has a dtype that programs do not take.
        LinearAlgebraError: a matrix of the data cannot be factorised.
        AnyshapeError: as `Program.run`.
    """
    if _is_torch_function_mode_enabled() or _len_torch_dispatch_stack() or maybe_current_level() is not None:
        # They may give other tensors than those asked for, and a program writes as many bytes as it has asked for.
        with _DisableTorchDispatch(), DisableTorchFunction(), _DisableFuncTorch():
            return _run(program, tensors)
    return _run(program, tensors)


def _run(program: Program, tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    views: list[TensorView] = []
    resolved: list[torch.Tensor] = []  # copies live until the program has read them
    for index, tensor in enumerate(tensors):
        if not tensor.is_cpu or tensor.layout is not torch.strided:
            raise ArgumentError(
                "an input is not a strided tensor in CPU memory",
                where=_name(program, index),
                got=f"device {tensor.device}, layout {tensor.layout}",
                expected="device cpu, layout torch.strided",
                remedy="convert it with `.cpu()` or `.to_dense()`",
            )
        if tensor.is_conj() or tensor.is_neg():  # a view that says "negate when you read"
            tensor = tensor.detach().resolve_conj().resolve_neg()
            resolved.append(tensor)
        code = _CODES.get(tensor.dtype)
        if code is None:
            raise DtypeError(
                "programs do not take this dtype",
                where=_name(program, index),
                got=tensor.dtype,
                expected=", ".join(str(dtype) for dtype in TORCH_DTYPES.values()),
            )
        try:
            views.append((tensor.data_ptr(), tensor.shape, tensor.stride(), code))
        except RuntimeError as error:  # nested tensors, and those that function transforms such as vmap pass around
            raise ArgumentError(
                "an input has no memory of its own", where=_name(program, index), got=error, expected="a plain tensor"
            ) from error
    outputs: list[Any] = [None] * len(program.outputs)

    def allocate(index: int, dtype: int, sizes: list[int], strides: list[int]) -> int:
        # Row-major as `strides` are, but as PyTorch writes it where a size is 0, which it counts as 1 in strides. Sizes are
        # arguments one by one: PyTorch takes longer to read a list.
        kind = TORCH_DTYPES[dtype]
        output = torch.empty(*sizes, dtype=kind, device=_CPU) if sizes else torch.empty((), dtype=kind, device=_CPU)
        outputs[index] = output
        return output.data_ptr()

    try:
        program.run(views, allocate)
    except SingularMatrix as error:
        raise LinearAlgebraError(
            error.message, where=error.where, got=error.got, expected=error.expected, remedy=error.remedy
        ) from None
    return outputs


def _name(program: Program, index: int) -> str:
    name = f" ('{program.inputs[index].name}')" if index < len(program.inputs) else ""
    return f"input {index}{name}"
