"""Element types of arrays by name, without the types that they are in a program: what loading a compiled program needs.

bfloat16 is a package's type, which is imported when it is first asked for.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import import_module
from typing import Any

import numpy as np

_NUMPY_NAMES: Mapping[str, str] = {
    "bool": "bool", "i8": "int8", "u8": "uint8", "i16": "int16", "i32": "int32", "i64": "int64",
    "f16": "float16", "bf16": "bfloat16", "f32": "float32", "f64": "float64",
}  # fmt: skip
"""The spelling in a program's text -> numpy's."""
_NAMES: Mapping[str, str] = {numpy_name: name for name, numpy_name in _NUMPY_NAMES.items()}


@cache
def numpy_type(name: str) -> np.dtype[Any]:
    """The numpy dtype of elements that a program's text calls so, in native byte order. Raises KeyError for other names."""
    if name == "bf16":
        return np.dtype(import_module("ml_dtypes").bfloat16)
    return np.dtype(_NUMPY_NAMES[name])


def element_name(dtype: np.dtype[Any]) -> str:
    """How a program's text calls the elements of an array; raises ValueError naming the known ones."""
    name = _NAMES.get(np.dtype(dtype).name)
    if name is None or numpy_type(name) != dtype:
        raise ValueError(f"numpy dtype {dtype} is not known; known are {', '.join(_NUMPY_NAMES)}")
    return name
