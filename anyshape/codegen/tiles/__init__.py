"""Register tiles over panels of 64 columns: what products and attention have in common.

| part | what |
|---|---|
| `shape` | tile, depth and row blocks for a machine |
| `product` | one step of a tile for each element type: fma, widening, dot instructions |
| `microkernel` | register tiles, one function for each row count |
| `pack` | panels: of constants (numpy), of other right-hand sides (at run time) |
| `pack_narrow` | the same for bf16, f16 and i8 |
| `dots` | one row times a right-hand side that is not worth packing |
| `schedule` | what a launch needs to know of a kernel |
"""
