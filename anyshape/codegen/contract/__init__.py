"""Matrix products: `tile.contract` claimed by register tiles over packed panels.

| part | what |
|---|---|
| `tile_shape` | tile, depth and row blocks for a machine |
| `microkernel` | register tiles, one function for each row count |
| `pack` | panels: of constants (numpy), of other right-hand sides (at run time) |
| `driver` | the block driver that calls them; sizes and strides at run time |
| `plan` | the kernel of one `tile.contract`: its tasks, its epilogue |
| `shared` | tiles and drivers as one object, the same for every graph |
"""

from anyshape.codegen.contract.pack import pack_panels
from anyshape.codegen.contract.plan import Schedule, can_contract, contract_schedule, emit_contract
from anyshape.codegen.contract.shared import emit_microkernels, shared_objects

__all__ = [
    "Schedule",
    "can_contract",
    "contract_schedule",
    "emit_contract",
    "emit_microkernels",
    "pack_panels",
    "shared_objects",
]
