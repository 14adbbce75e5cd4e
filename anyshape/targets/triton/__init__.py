"""Plans in points as Triton kernels: the second emission of `tile`, from the same text as the CPU's.

A look ahead, so that the dialect does not harden in the CPU's shape: rows that are reduced and stitched, columns that are
reduced, and f32 products with their epilogue. What a plan holds beyond that (`check`, `attend`) is refused. Nothing here imports
Triton: a kernel is a Python syntax tree, and what a launch passes stands beside it.
"""

from anyshape.targets.triton.emit import emit_triton
from anyshape.targets.triton.kernel import Parameter, TritonKernel

__all__ = ["Parameter", "TritonKernel", "emit_triton"]
