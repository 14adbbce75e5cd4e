"""The runtime: RAL, a thin C layer that compiled programs call, and the Python side that loads and feeds them.

`ral.h` is the interface of RAL, for compiled code and for applications in C; `loader` runs programs from Python;
`torch_adaptor` and `numpy_adaptor` run them on tensors and arrays. Nothing here imports a part of the compiler.
"""

from anyshape.runtime.abi import ABI, Argument, Code, DType
from anyshape.runtime.loader import Program, Runtime, include_directory, runtime, source_files

__all__ = ["ABI", "Argument", "Code", "DType", "Program", "Runtime", "include_directory", "runtime", "source_files"]
