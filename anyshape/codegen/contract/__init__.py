"""Matrix products: `tile.contract` claimed by register tiles over packed panels.

| part | what |
|---|---|
| `driver` | the block driver that calls the tiles of `codegen.tiles`; sizes and strides at run time |
| `plan` | the kernel of one `tile.contract`: its tasks, its epilogue |

`codegen.microkernels` compiles what no graph changes.
"""

from anyshape.codegen.contract.plan import can_contract, contract_schedule, contract_time, emit_contract
from anyshape.codegen.tiles.pack import pack_panels
from anyshape.codegen.tiles.schedule import Schedule

__all__ = [
    "Schedule",
    "can_contract",
    "contract_schedule",
    "contract_time",
    "emit_contract",
    "pack_panels",
]
