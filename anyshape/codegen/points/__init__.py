"""Plans in points to vector MLIR: one function for each `tile.kernel`.

    module = ModuleBuilder("kernels", function_attributes={"prefer-vector-width": "512"})
    with module:
        kernel = emit_kernel(module, plan, machine, claims={ContractOp: emit_contract, AttendOp: emit_attend})
    # kernel.name: the function's symbol; kernel.scratch_bytes: a size, bytes of scratch for each worker

The function has the signature of `ral_kernel` (runtime/ral.h): `void k(void *const *buffers, const int64_t *sizes, int64_t begin,
int64_t end, void *scratch, ral_error_cell *error)`; `buffers` in the order of the plan's block arguments, `sizes` in the order of its
`symbols`. `[begin, end)` counts the points of the outermost `parallel` (row-major product of its extents) or of an outermost `lanes`.

Claims
    A plan whose outermost op has an entry in `claims` is emitted by that function instead:

        claim(module: ModuleBuilder, kernel: KernelOp, op: Operation, machine: Machine) -> EmittedKernel

    It defines a function named `kernel.sym_name.data` of the signature above and says what `[begin, end)` counts.

Rectangles: what surrounds a claimed op
    `emit_rectangle(module, kernel, op.epilogue, op.out, machine, name)` defines an internal function

        void name(void *const *buffers, const int64_t *sizes, ral_error_cell *error, int64_t g0, …, int64_t i0, int64_t i1, int64_t j0,
                  int64_t j1, const T *tile, int64_t row_stride)

    with one `g` for each batch axis (none when `batch` is empty). For every i in [i0, i1) and j in [j0, j1) it runs the region on (g…,
    i, j, tile[(i − i0) · row_stride + (j − j0)]) and stores what the region yields to `out[g…, i, j]`. T is the type of the region's
    last argument (f32 for f16 and bf16); the tile need not be aligned, `row_stride` is in elements of T and nothing is
    read outside the rectangle. j runs in vector lanes, so a tile should be some vectors wide. Call it with
    `Builder.call(name, [buffers, sizes, error, *g, i0, i1, j0, j1, tile, row_stride])`.

Numbers
    f16 and bf16 are computed in f32: loads widen, stores, casts (`arith.truncf`) and the results of reductions round. Sums fold in
    an order that depends on the extent only, not on threads, begin or end. A product that is summed at once is fused (fma).
"""

from anyshape.codegen.points.kernel import Claim, EmittedKernel, emit_kernel, emit_rectangle, scratch_bytes_of

__all__ = ["Claim", "EmittedKernel", "emit_kernel", "emit_rectangle", "scratch_bytes_of"]
