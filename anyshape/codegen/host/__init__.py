"""Host programs to machine code.

    module = ModuleBuilder("program")
    with module:
        emit_program(module, program, outputs=[(DType.F32, 2)], constants=[(4096, 0)])
    object_code = emit_optimised_object(lower_to_llvm(module.module), target)

`emit_program` defines `int32_t anyshape_main(ral_context *, const ral_call *, void *const *)` and the descriptor
`anyshape_program`; kernels are external functions, found when the objects are linked.
"""

from anyshape.codegen.host.lifetimes import ArenaBuffer, arena_buffers
from anyshape.codegen.host.program import MAIN, emit_program

__all__ = ["MAIN", "ArenaBuffer", "arena_buffers", "emit_program"]
