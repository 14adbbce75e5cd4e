"""PyTorch dtypes as `DType`, and tensors as numpy arrays without a copy."""

# PyTorch and sympy are typed in part only.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false

from __future__ import annotations

from collections.abc import Mapping

import ml_dtypes
import numpy as np
import torch

from anyshape.dialects import dtypes
from anyshape.dialects.dhlo.base import Array
from anyshape.dialects.dtypes import DType
from anyshape.support.errors import DtypeError

_BY_TORCH: Mapping[torch.dtype, DType] = {
    torch.bool: dtypes.BOOL,
    torch.int8: dtypes.I8,
    torch.uint8: dtypes.U8,
    torch.int16: dtypes.I16,
    torch.int32: dtypes.I32,
    torch.int64: dtypes.I64,
    torch.float16: dtypes.F16,
    torch.bfloat16: dtypes.BF16,
    torch.float32: dtypes.F32,
    torch.float64: dtypes.F64,
}


def dtype_of_torch(dtype: torch.dtype) -> DType:
    """Raises DtypeError for a dtype that tensors cannot have here (complex, quantised, float8)."""
    found = _BY_TORCH.get(dtype)
    if found is None:
        raise DtypeError(
            "tensors cannot have this element type", got=dtype, expected=", ".join(str(key) for key in _BY_TORCH)
        )
    return found


def array_of_tensor(tensor: torch.Tensor) -> Array:
    """The tensor's elements as a numpy array; shares its memory when it is dense and on the CPU."""
    return array_of_memory(tensor.cpu().resolve_neg().contiguous())


def array_of_memory(tensor: torch.Tensor) -> Array:
    """The memory of a tensor on the CPU as a numpy array with its strides.

    It must be neither negated nor conjugated when it is read. DLPack hands it over: after PyTorch's own `numpy()` a storage can never
    be resized again, and weights are the user's.
    """
    plain = tensor.detach()
    if plain.dtype == torch.bfloat16:
        return np.from_dlpack(plain.view(torch.uint16)).view(ml_dtypes.bfloat16)
    return np.from_dlpack(plain)
