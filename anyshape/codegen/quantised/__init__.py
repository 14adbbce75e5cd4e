"""Products with block-quantised weights, which are multiplied as they are stored.

| part | what |
|---|---|
| `shape` | the method and the tiles of a format on a machine; how rounded activations lie |
| `activations` | rows of f32 as integers with scales |
| `weights` | packed codes, scales and minima in registers |
| `microkernel` | register tiles, one function for each row count |
| `driver` | rounds the rows of a task and calls the tiles; sizes and strides at run time |
| `pack` | repacks rows of blocks, as files have them |
| `plan` | the kernel of one `tile.contract`: its tasks, its epilogue |

The packed form of weights is `dialects.packed_blocks`; `codegen.microkernels` compiles what no graph changes.
"""

from anyshape.codegen.quantised.driver import emit_driver
from anyshape.codegen.quantised.pack import emit_pack_blocks
from anyshape.codegen.quantised.plan import emit_quantised, quantised_schedule, quantised_time, shape_of
from anyshape.codegen.quantised.shape import Activations, BlockShape, block_shape

__all__ = [
    "Activations",
    "BlockShape",
    "block_shape",
    "emit_driver",
    "emit_pack_blocks",
    "emit_quantised",
    "quantised_schedule",
    "quantised_time",
    "shape_of",
]
