/* RAL, the runtime abstraction layer: everything that a compiled anyshape program needs while it runs.
 *
 * A compiled program is one object with kernels (`ral_kernel`), a host function (`ral_program.main`) and a descriptor
 * (`ral_program`). The host function reads sizes, checks guards, lays out memory and launches kernels through the
 * services declared here. RAL is C11 and POSIX threads, nothing else; link `ral.c`, `ral_plan.c` and `ral_pool.c`.
 * `ral_watch.c` serves callers in Python only.
 *
 * Conventions
 *   - Functions that return `int32_t` return RAL_OK (0) or an error code; the message is then in the context.
 *   - Sizes and strides are in elements, `bytes` in bytes, lifetimes in launch numbers.
 *   - A context stands for the device cpu:0 and its one queue, which is synchronous: a launch has ended when it returns.
 *   - A context serves one call at a time. Distinct contexts may be used by distinct threads at once and share the
 *     pool. A context holds no thread-local state, so it may move from one thread to another between calls.
 *   - The floating-point mode of the process and of the workers is never touched.
 */
#ifndef RAL_H
#define RAL_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
#define RAL_ATOMIC(type) type
extern "C" {
#else
#define RAL_ATOMIC(type) _Atomic type
#endif

#if defined(__GNUC__)
#define RAL_API __attribute__((visibility("default")))
#else
#define RAL_API
#endif

/* Version of every layout and signature below. A program whose `abi` differs is refused with RAL_ABI_MISMATCH. */
#define RAL_ABI 1

enum ral_code {
    RAL_OK = 0,
    RAL_INDEX = 1,        /* an index met by a kernel is out of range */
    RAL_GUARD = 2,        /* a size that the program was not compiled for */
    RAL_DTYPE = 3,        /* an input has the wrong dtype */
    RAL_RANK = 4,         /* an input has the wrong rank */
    RAL_ARGUMENT = 5,     /* any other misuse: input count, null pointer, unreadable or short constants file */
    RAL_MEMORY = 6,       /* an allocation failed or a size overflows */
    RAL_ABI_MISMATCH = 7, /* the program was compiled for another RAL_ABI */
    RAL_SINGULAR = 8      /* a matrix of the data cannot be factorised */
};

enum ral_dtype {
    RAL_BOOL = 0, RAL_I8, RAL_U8, RAL_I16, RAL_I32, RAL_I64, RAL_F16, RAL_BF16, RAL_F32, RAL_F64, RAL_C64
};

/* State of one stream of calls: threads, arena, scratch of the calling thread, error. */
typedef struct ral_context ral_context;

/* A strided view. `data` points at element (0, ..., 0); strides are in elements and may be 0 or negative. */
typedef struct {
    void *data;
    const int64_t *sizes;
    const int64_t *strides;
    int32_t rank;
    int32_t dtype;
} ral_tensor;

/* Allocates output `index` on behalf of the caller of the program and returns its data. `sizes` and `strides` have
 * `rank` entries, are row-major and valid during the call only. NULL means failure unless the output has no elements. */
typedef void *(*ral_allocate_output)(void *user, int32_t index, int32_t dtype, int32_t rank, const int64_t *sizes,
                                     const int64_t *strides);

/* One call of a program. `user` is handed to `allocate` untouched. */
typedef struct {
    const ral_tensor *inputs;
    int32_t input_count;
    ral_allocate_output allocate;
    void *user;
} ral_call;

/* Outputs that the caller allocated before the call, because it expects their sizes. With `ral_place_output` and one of these as
 * `allocate` and `user` of a call, an output with the expected dtype, sizes and strides lies where `outputs` says; of any other, and of
 * those from `output_count` on, `otherwise` is asked, which writes to `*data`, NULL before, what a `ral_allocate_output` returns: a
 * callback into an interpreter that a signal interrupts has no defined result. Where `is_alive` says 0, which it does once the interpreter
 * has ended, the process is ending: the call waits for that. */
typedef struct {
    const ral_tensor *outputs;
    int32_t output_count;
    void (*otherwise)(void **data, int32_t index, int32_t dtype, int32_t rank, const int64_t *sizes, const int64_t *strides);
    int (*is_alive)(void);
} ral_prepared;

/* First error met by the workers of one launch. `code` is an `enum ral_code`; `site` numbers `ral_program.sites`. The
 * thread that moves `code` away from 0 owns the other fields, which are read once the launch has ended. */
typedef struct {
    RAL_ATOMIC(int64_t) code;
    int64_t site, index, bound;
    ral_context *context; /* whose launch it is */
} ral_error_cell;

/* A compiled kernel: works on the points [begin, end) of its outermost parallel axis. `scratch` belongs to the executing
 * worker during this call, is 64-byte aligned, has undefined contents, and is NULL when no scratch was asked for. */
typedef void (*ral_kernel)(void *const *buffers, const int64_t *sizes, int64_t begin, int64_t end, void *scratch,
                           ral_error_cell *error);

/* ---- services called by kernels ---------------------------------------------------------------------------------- */

/* Records that `index` is outside [0, bound) at `site`. Thread safe; the first report wins. */
RAL_API void ral_report_index(ral_error_cell *error, int64_t site, int64_t index, int64_t bound);

/* Runs `kernel` over [0, extent) in the middle of another, cut as by `ral_launch`, and returns when all of it is done. Its
 * points have no scratch; what they share is in `buffers`. Where the calling kernel is a launch of one chunk, all threads take
 * part, which costs about a microsecond where they are awake; else its caller runs all chunks. */
RAL_API void ral_run_parts(ral_error_cell *error, ral_kernel kernel, void *const *buffers, const int64_t *sizes,
                           int64_t extent, int64_t grain);

/* The bf16 nearest to x, the even one of two; a NaN stays one. A routine of compiler-rt's, which LLVM calls where a target has no instruction for it
 * and which libgcc has from release 13 only. A bf16 is returned as the low half of the register that a float is returned in. */
RAL_API float __truncsfbf2(float x);

/* ---- services called by host programs ---------------------------------------------------------------------------- */

/* Runs `kernel` over [0, extent) and returns when all of it is done.
 * The range is cut into contiguous chunks of whole grains (the last one may be short). The cuts depend on `extent`,
 * `grain` and the context's thread count only, so results do not depend on which worker ran what. One chunk, when
 * extent <= grain or the context has one thread, runs on the caller without any synchronisation. When another context
 * is using the pool, the caller runs all chunks, with the same cuts. extent <= 0 returns RAL_OK without calling.
 * A grain should be worth some microseconds: that is what it costs to wake a worker that sleeps.
 * After a kernel reports an error, chunks that have not started are skipped; the error becomes the context's. */
RAL_API int32_t ral_launch(ral_context *context, ral_kernel kernel, void *const *buffers, const int64_t *sizes,
                           int64_t extent, int64_t grain, int64_t scratch_bytes);

/* The context's arena, at least `bytes` long and 64-byte aligned. It only grows; growing loses its contents and
 * invalidates the earlier address. NULL, with RAL_MEMORY in the context, when bytes < 0 or memory is short. */
RAL_API void *ral_arena(ral_context *context, int64_t bytes);

/* Further memory of the context beside the arena, part `part` from 1 on: what a program needs whose size it learns while it runs.
 * Each part only grows; growing one loses its contents and leaves the others as they are. NULL as ral_arena. */
RAL_API void *ral_arena_part(ral_context *context, int32_t part, int64_t bytes);

/* Offsets (multiples of 64) for `count` buffers such that buffers whose closed lifetimes [first, last] meet do not share a
 * byte, and the arena size `total`. Empty buffers get offset 0. The last plan is remembered by the context.
 * RAL_MEMORY when a size is negative or the sum overflows, RAL_ARGUMENT when a lifetime ends before it begins. */
RAL_API int32_t ral_plan_arena(ral_context *context, int32_t count, const int64_t *bytes, const int32_t *first,
                               const int32_t *last, int64_t *offsets, int64_t *total);

/* Copies a strided tensor to `dest` in row-major order. Any rank, any strides; `dest` must not overlap the input. */
RAL_API int32_t ral_contiguous(ral_context *context, const ral_tensor *in, int64_t element_bytes, void *dest);

/* 1 when the elements lie in row-major order without gaps. Strides of axes of size 1 do not count, and a tensor without
 * elements is contiguous. */
RAL_API int32_t ral_is_contiguous(const ral_tensor *tensor);

/* Sets the context's error and returns `code`. `format` is text in which each %lld (or %ld) stands for the next of a, b,
 * c, d, and %% for a percent sign; anything else is copied as it is. Long messages are cut. */
RAL_API int32_t ral_fail(ral_context *context, int32_t code, const char *format, int64_t a, int64_t b, int64_t c,
                         int64_t d);

/* ---- the program descriptor, a constant in every compiled object -------------------------------------------------- */

typedef struct {
    const char *name;
    int32_t dtype;
    int32_t rank;
} ral_argument;

/* A constant in the constants file: `bytes` bytes from `offset`, a multiple of 64. */
typedef struct {
    int64_t bytes;
    int64_t offset;
} ral_constant;

typedef struct {
    int32_t abi; /* RAL_ABI */
    int32_t input_count, output_count, constant_count;
    const ral_argument *inputs, *outputs;
    const ral_constant *constants;
    int32_t (*main)(ral_context *context, const ral_call *call, void *const *constants);
    int32_t site_count;
    const char *const *sites; /* text of each error site; its two %lld are the index and the bound */
} ral_program;

/* ---- the interface of applications ------------------------------------------------------------------------------- */

/* The RAL_ABI that this library was built with. */
RAL_API int32_t ral_abi(void);

/* A context whose launches use up to `threads` threads, the caller among them; 0 means one for each online processor.
 * NULL when `threads` is negative or memory is short. No thread starts before the first launch that needs it. */
RAL_API ral_context *ral_context_create(int32_t threads);
RAL_API void ral_context_destroy(ral_context *context);

/* Message ("" when none) and code of the last failure. ral_run clears both. */
RAL_API const char *ral_error(const ral_context *context);
RAL_API int32_t ral_error_code(const ral_context *context);

/* Checks the call against the descriptor (abi, input count, dtype, rank, sizes), then runs the program. `constants` has
 * `constant_count` addresses. */
RAL_API int32_t ral_run(ral_context *context, const ral_program *program, void *const *constants, const ral_call *call);

/* A `ral_allocate_output` whose `user` is a `ral_prepared`. */
RAL_API void *ral_place_output(void *prepared, int32_t index, int32_t dtype, int32_t rank, const int64_t *sizes,
                               const int64_t *strides);

/* Maps a constants file read-only and writes the address of each constant to `table`. Every span is checked against
 * the length of the file. `*mapping` and `*mapped` go to ral_unmap_constants when the table is no longer used. The file
 * must not be shortened while it is mapped. */
RAL_API int32_t ral_map_constants(ral_context *context, const char *path, const ral_program *program, void **table,
                                  void **mapping, size_t *mapped);
RAL_API void ral_unmap_constants(void *mapping, size_t mapped);

/* ---- weights that may change between calls (ral_watch.c) ----------------------------------------------------------- */

/* How PyTorch's Python objects are read as tensors: functions that take the address `handle_offset` bytes into an object. Five
 * have the signatures of aoti_torch_get_data_ptr, _dim, _sizes, _strides and _dtype of its C interface and return 0.
 * `version` is torch::autograd::impl::version_counter: it returns the address of a pointer to an object with a 32-bit counter of
 * writes at `version_offset`, NULL for a tensor that has none.
 *
 * The handle is a pointer to the tensor's own object. A tensor of at most `inline_rank` axes whose 8-byte words from offset
 * `first` to before `last` are as they were has the storage, layout and counter that it had: the pointer to the storage is the
 * first of them, and at `memory_offset` of that is the address of its memory; at `counter_offset` is the pointer to the
 * counter. Where none of that is known, `first` equals `last`. */
typedef struct {
    int64_t handle_offset, version_offset;
    int64_t first, last, memory_offset, counter_offset, inline_rank;
    int32_t (*data)(void *handle, void **data);
    int32_t (*rank)(void *handle, int64_t *rank);
    int32_t (*sizes)(void *handle, int64_t **sizes);
    int32_t (*strides)(void *handle, int64_t **strides);
    int32_t (*dtype)(void *handle, int32_t *dtype);
    const void *(*version)(const void *handle);
} ral_tensor_reader;

enum { RAL_WATCH_ROUNDS = 64 };

/* A tensor as it was when it was noted. */
typedef struct {
    const void *type;                /* of the Python object */
    const char *data;                /* the first byte */
    uint64_t layout;                 /* hash of dtype, sizes and strides */
    int64_t version;                 /* -1 where it has none */
    int64_t bytes;                   /* what is sampled; 0 where contents are not watched */
    uint64_t words;                  /* hash of the words of its object; 0 where they do not tell all */
    const void *memory;              /* of its storage */
    const char *tensor, *storage, *counter; /* where they were, to ask for their lines early */
} ral_watched;

/* Notes `count` tensors in CPU memory; the objects must be tensors. items[i] are the bytes of an element of tensor i, 0 where its
 * contents are not to be watched. `sums` has `count` checksums of a cache line for each of RAL_WATCH_ROUNDS rounds, another line
 * in each. Call this and ral_watch_check with the interpreter's lock held. -1 where an object cannot be read. */
RAL_API int32_t ral_watch_note(const ral_tensor_reader *reader, void *const *objects, int64_t count,
                               const uint8_t *items, ral_watched *watched, uint64_t *sums);

/* 0 where every tensor lies where it was noted, in the same layout, and has, where contents are watched, the version that it had
 * and the checksum of this round (0 to RAL_WATCH_ROUNDS - 1); else 1 + the first tensor that does not, or -1 as above. A tensor that moved is not read. */
RAL_API int64_t ral_watch_check(const ral_tensor_reader *reader, void *const *objects, int64_t count,
                                const ral_watched *watched, const uint64_t *sums, int32_t round);

#ifdef __cplusplus
}
#endif

#endif
