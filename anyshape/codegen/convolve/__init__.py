"""Convolutions: `tile.contract` with a window, as a product whose right-hand side is nowhere in memory.

| part | what |
|---|---|
| `runs` | where the 64 columns of a panel lie in the image: runs of elements that a vector loads at once, and masks of those outside |
| `gather` | a depth block of a panel, loaded run by run: what the block driver of `codegen.contract` asks for |
| `plan` | the kernel: its tasks, its scratch, its epilogue |
"""

from anyshape.codegen.convolve.plan import convolve_schedule, convolve_time, emit_convolution

__all__ = ["convolve_schedule", "convolve_time", "emit_convolution"]
