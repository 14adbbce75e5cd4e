/* Contexts, errors, memory, launches, strided copies, constants and the checked entry of a program. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "ral_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    HUGE_PAGE = 2 << 20,
    CHUNKS_PER_THREAD = 4, /* so that a thread that is held up delays the launch by a part of its share only */
    COPY_TILE = 16,        /* a 16 x 16 tile of 4-byte elements touches 16 cache lines on either side */
    COPY_GRAIN = 1 << 16,  /* bytes worth handing to another thread */
    MAX_COPY_AXES = 64     /* axes longer than 1 of a tensor with less than 2^63 elements */
};

int32_t ral_abi(void) { return RAL_ABI; }

/* ---- errors ------------------------------------------------------------------------------------------------------ */

const char *ral_error(const ral_context *context) { return context->message; }
int32_t ral_error_code(const ral_context *context) { return context->code; }

__attribute__((format(printf, 3, 4)))
static int32_t fail(ral_context *context, int32_t code, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(context->message, sizeof context->message, format, arguments);
    va_end(arguments);
    return context->code = code;
}

/* `format` comes from compiled objects, so it never reaches printf: only integers are substituted, only four of them. */
int32_t ral_fail(ral_context *context, int32_t code, const char *format, int64_t a, int64_t b, int64_t c, int64_t d) {
    const int64_t values[] = {a, b, c, d};
    size_t next = 0, used = 0;
    while (*format != '\0' && used < sizeof context->message - 1) {
        const size_t directive = strncmp(format, "%lld", 4) == 0 ? 4 : strncmp(format, "%ld", 3) == 0 ? 3 : 0;
        if (directive != 0 && next < 4) {
            const size_t room = sizeof context->message - used;
            const size_t length = (size_t)snprintf(context->message + used, room, "%" PRId64, values[next++]);
            used += length < room ? length : room - 1;
            format += directive;
            continue;
        }
        if (format[0] == '%' && format[1] == '%') format++;
        context->message[used++] = *format++;
    }
    context->message[used] = '\0';
    return context->code = code;
}

float __truncsfbf2(float x) {
    uint32_t bits, half;
    memcpy(&bits, &x, sizeof bits);
    half = x == x ? (bits + 0x7FFF + (bits >> 16 & 1)) >> 16 : bits >> 16 | 0x40;
    memcpy(&x, &half, sizeof half);
    return x;
}

void ral_report_index(ral_error_cell *error, int64_t site, int64_t index, int64_t bound) {
    int64_t expected = RAL_OK;
    if (!atomic_compare_exchange_strong(&error->code, &expected, RAL_INDEX)) return;
    error->site = site;
    error->index = index;
    error->bound = bound;
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */

void *ral_block_reserve(ral_block *block, int64_t bytes) {
    if (bytes >= 0 && bytes <= block->capacity && block->data != NULL) return block->data;
    free(block->data);
    const int64_t grown = block->capacity + block->capacity / 4; /* a size that creeps up must not allocate each time */
    *block = (ral_block){0};
    if (bytes < 0 || bytes > INT64_MAX / 2) return NULL;
    for (int64_t wanted = bytes > grown ? bytes : grown;; wanted = bytes) {
        const int64_t unit = wanted >= HUGE_PAGE ? HUGE_PAGE : RAL_ALIGNMENT;
        const int64_t capacity = wanted == 0 ? unit : (wanted + unit - 1) / unit * unit;
        void *data = aligned_alloc((size_t)unit, (size_t)capacity);
        if (data == NULL && wanted > bytes) continue;
        if (data == NULL) return NULL;
#ifdef MADV_HUGEPAGE
        if (unit == HUGE_PAGE) madvise(data, (size_t)capacity, MADV_HUGEPAGE);
#endif
        *block = (ral_block){data, capacity};
        return data;
    }
}

void *ral_arena(ral_context *context, int64_t bytes) {
    void *data = ral_block_reserve(&context->arena, bytes);
    if (data == NULL) fail(context, RAL_MEMORY, "cannot allocate an arena of %" PRId64 " bytes", bytes);
    return data;
}

void *ral_arena_part(ral_context *context, int32_t part, int64_t bytes) {
    if (part < 1) {
        fail(context, RAL_ARGUMENT, "the arena has no part %" PRId32, part);
        return NULL;
    }
    if (part > context->part_count) {
        ral_block *parts = realloc(context->parts, (size_t)part * sizeof *parts);
        if (parts == NULL) {
            fail(context, RAL_MEMORY, "cannot allocate part %" PRId32 " of the arena", part);
            return NULL;
        }
        memset(parts + context->part_count, 0, (size_t)(part - context->part_count) * sizeof *parts);
        context->parts = parts;
        context->part_count = part;
    }
    void *data = ral_block_reserve(&context->parts[part - 1], bytes);
    if (data == NULL) fail(context, RAL_MEMORY, "cannot allocate part %" PRId32 " of the arena, %" PRId64 " bytes", part, bytes);
    return data;
}

ral_context *ral_context_create(int32_t threads) {
    if (threads < 0) return NULL;
    if (threads == 0) {
        const long online = sysconf(_SC_NPROCESSORS_ONLN);
        threads = online < 1 ? 1 : online > RAL_MAX_THREADS ? RAL_MAX_THREADS : (int32_t)online;
    }
    if (threads > RAL_MAX_THREADS) threads = RAL_MAX_THREADS;
    ral_context *context = calloc(1, sizeof *context);
    if (context == NULL) return NULL;
    context->threads = threads;
    if (threads > 1 && (context->pool = ral_pool_shared(threads)) == NULL) {
        free(context);
        return NULL;
    }
    return context;
}

void ral_context_destroy(ral_context *context) {
    if (context == NULL) return;
    free(context->arena.data);
    for (int32_t i = 0; i < context->part_count; i++) free(context->parts[i].data);
    free(context->parts);
    free(context->scratch.data);
    free(context->workspace.data);
    free(context->conflicts.data);
    free(context->memo.memory.data);
    free(context);
}

/* ---- launches ---------------------------------------------------------------------------------------------------- */

static int32_t report_launch_error(ral_context *context, const ral_error_cell *error, int64_t scratch_bytes) {
    const int32_t code = (int32_t)error->code;
    if (code == RAL_MEMORY)
        return fail(context, code, "cannot allocate %" PRId64 " bytes of scratch for a worker", scratch_bytes);
    if (code != RAL_INDEX) return fail(context, code, "a kernel failed with code %" PRId32, code);
    const ral_program *program = context->program;
    if (program != NULL && error->site >= 0 && error->site < program->site_count)
        return ral_fail(context, code, program->sites[error->site], error->index, error->bound, 0, 0);
    return fail(context, code, "site %" PRId64 ": index %" PRId64 " out of range [0, %" PRId64 ")", error->site,
                error->index, error->bound);
}

/* Cuts a job of one or more points into chunks and runs them. */
static void run_job(ral_context *context, ral_job *job, ral_block *scratch) {
    if (job->extent <= job->grain || context->threads == 1) {
        ral_run_chunk(job, 0, scratch);
        return;
    }
    const int64_t grains = (job->extent - 1) / job->grain + 1, most = (int64_t)context->threads * CHUNKS_PER_THREAD;
    job->chunks = grains < most ? grains : most;
    job->base = grains / job->chunks;
    job->extra = grains % job->chunks;
    ral_pool_run(context->pool, job, scratch);
}

int32_t ral_launch(ral_context *context, ral_kernel kernel, void *const *buffers, const int64_t *sizes, int64_t extent,
                   int64_t grain, int64_t scratch_bytes) {
    if (extent <= 0) return RAL_OK;
    ral_error_cell error = {.context = context};
    ral_job job = {kernel, buffers, sizes, extent, grain < 1 ? 1 : grain, 1, 1, 0, scratch_bytes, &error};
    run_job(context, &job, &context->scratch);
    return error.code == RAL_OK ? RAL_OK : report_launch_error(context, &error, scratch_bytes);
}

void ral_run_parts(ral_error_cell *error, ral_kernel kernel, void *const *buffers, const int64_t *sizes, int64_t extent,
                   int64_t grain) {
    if (extent <= 0) return;
    ral_job job = {kernel, buffers, sizes, extent, grain < 1 ? 1 : grain, 1, 1, 0, 0, error};
    run_job(error->context, &job, NULL);
}

/* ---- strided copies ---------------------------------------------------------------------------------------------- */

int32_t ral_is_contiguous(const ral_tensor *tensor) {
    int64_t expected = 1;
    int32_t contiguous = 1;
    for (int32_t axis = tensor->rank - 1; axis >= 0; axis--) {
        const int64_t size = tensor->sizes[axis];
        if (size == 0) return 1;
        if (size != 1 && tensor->strides[axis] != expected) contiguous = 0;
        if (contiguous) expected *= size;
    }
    return contiguous;
}

/* A copy in bytes. Axis `count - 1` is innermost; `minor` is the axis with the smallest step in the source. */
typedef struct {
    const char *source;
    char *dest;
    int64_t sizes[MAX_COPY_AXES], source_steps[MAX_COPY_AXES], dest_steps[MAX_COPY_AXES];
    int64_t element;
    int32_t count, minor;
} ral_copy;

/* Copies the rows [0, rows) of the minor axis by the innermost axis, tile by tile so that lines on both sides are reused.
 * Inlined with a constant `element`, each element is one load and one store. */
static inline __attribute__((always_inline)) void copy_plane_of(const ral_copy *copy, char *dest, const char *source,
                                                                int64_t rows, int64_t element) {
    const int32_t inner = copy->count - 1, minor = copy->minor;
    const int64_t columns = copy->sizes[inner], source_column = copy->source_steps[inner];
    if (minor == inner) { /* the source's fastest axis is the result's: one row */
        for (int64_t j = 0; j < columns; j++)
            memcpy(dest + j * element, source + j * source_column, (size_t)element);
        return;
    }
    const int64_t source_row = copy->source_steps[minor], dest_row = copy->dest_steps[minor];
    for (int64_t i0 = 0; i0 < rows; i0 += COPY_TILE)
        for (int64_t j0 = 0; j0 < columns; j0 += COPY_TILE)
            for (int64_t i = i0; i < rows && i < i0 + COPY_TILE; i++)
                for (int64_t j = j0; j < columns && j < j0 + COPY_TILE; j++)
                    memcpy(dest + i * dest_row + j * element, source + i * source_row + j * source_column,
                           (size_t)element);
}

static void copy_plane(const ral_copy *copy, char *dest, const char *source, int64_t rows) {
    const int32_t inner = copy->count - 1;
    if (copy->minor == inner && copy->source_steps[inner] == copy->element) {
        memcpy(dest, source, (size_t)(copy->sizes[inner] * copy->element));
        return;
    }
    switch (copy->element) {
    case 1: copy_plane_of(copy, dest, source, rows, 1); break;
    case 2: copy_plane_of(copy, dest, source, rows, 2); break;
    case 4: copy_plane_of(copy, dest, source, rows, 4); break;
    case 8: copy_plane_of(copy, dest, source, rows, 8); break;
    default: copy_plane_of(copy, dest, source, rows, copy->element);
    }
}

/* Kernel over the outermost axis; buffers[0] is the ral_copy. */
static void copy_points(void *const *buffers, const int64_t *sizes, int64_t begin, int64_t end, void *scratch,
                        ral_error_cell *error) {
    (void)sizes, (void)scratch, (void)error;
    ral_copy copy = *(const ral_copy *)buffers[0];
    copy.source += begin * copy.source_steps[0];
    copy.dest += begin * copy.dest_steps[0];
    copy.sizes[0] = end - begin;
    int64_t position[MAX_COPY_AXES] = {0};
    const char *source = copy.source;
    char *dest = copy.dest;
    for (;;) {
        copy_plane(&copy, dest, source, copy.sizes[copy.minor]);
        int32_t axis = copy.count - 2;
        for (; axis >= 0; axis--) { /* next position of the axes that copy_plane does not cover */
            if (axis == copy.minor) continue;
            source += copy.source_steps[axis];
            dest += copy.dest_steps[axis];
            if (++position[axis] < copy.sizes[axis]) break;
            source -= copy.sizes[axis] * copy.source_steps[axis];
            dest -= copy.sizes[axis] * copy.dest_steps[axis];
            position[axis] = 0;
        }
        if (axis < 0) return;
    }
}

/* Drops axes of size 1 and joins axes that one step walks through. Every kept axis is at least 2 long and the element
 * count fits in 63 bits, hence at most 62 axes. */
static void plan_copy(ral_copy *copy, const ral_tensor *in) {
    for (int32_t axis = 0; axis < in->rank; axis++) {
        const int64_t size = in->sizes[axis], step = in->strides[axis] * copy->element;
        const int32_t outer = copy->count - 1;
        if (size == 1) continue;
        if (outer >= 0 && copy->source_steps[outer] == size * step) {
            copy->sizes[outer] *= size;
            copy->source_steps[outer] = step;
            continue;
        }
        copy->sizes[copy->count] = size;
        copy->source_steps[copy->count++] = step;
    }
    if (copy->count == 0) {
        copy->sizes[0] = 1;
        copy->source_steps[copy->count++] = copy->element;
    }
    int64_t step = copy->element;
    copy->minor = copy->count - 1;
    for (int32_t axis = copy->count - 1; axis >= 0; axis--) {
        copy->dest_steps[axis] = step;
        step *= copy->sizes[axis];
        const int64_t here = llabs(copy->source_steps[axis]), best = llabs(copy->source_steps[copy->minor]);
        if (here != 0 && here < best) copy->minor = axis;
    }
}

int32_t ral_contiguous(ral_context *context, const ral_tensor *in, int64_t element_bytes, void *dest) {
    if (element_bytes < 1) return fail(context, RAL_ARGUMENT, "an element of %" PRId64 " bytes", element_bytes);
    int64_t bytes = element_bytes;
    for (int32_t axis = 0; axis < in->rank; axis++)
        if (in->sizes[axis] == 0) return RAL_OK;
    for (int32_t axis = 0; axis < in->rank; axis++)
        if (in->sizes[axis] < 0 || __builtin_mul_overflow(bytes, in->sizes[axis], &bytes))
            return fail(context, RAL_MEMORY, "cannot copy a tensor: axis %" PRId32 " has size %" PRId64, axis,
                        in->sizes[axis]);
    ral_copy copy = {.source = in->data, .dest = dest, .element = element_bytes};
    plan_copy(&copy, in);
    void *const buffers[] = {&copy};
    const int64_t grain = COPY_GRAIN / copy.dest_steps[0] + 1;
    return ral_launch(context, copy_points, buffers, NULL, copy.sizes[0], grain, 0);
}

/* ---- constants --------------------------------------------------------------------------------------------------- */

static int32_t check_constants(ral_context *context, const char *path, const ral_program *program, int64_t length) {
    for (int32_t i = 0; i < program->constant_count; i++) {
        const ral_constant *constant = &program->constants[i];
        if (constant->bytes < 0 || constant->offset < 0 || constant->offset % RAL_ALIGNMENT != 0)
            return fail(context, RAL_ARGUMENT,
                        "%s: constant %" PRId32 " has offset %" PRId64 " and %" PRId64
                        " bytes; both must be >= 0 and the offset a multiple of 64",
                        path, i, constant->offset, constant->bytes);
        if (constant->offset > length || constant->bytes > length - constant->offset)
            return fail(context, RAL_ARGUMENT,
                        "%s: constant %" PRId32 " needs %" PRId64 " bytes from offset %" PRId64 ", the file has %" PRId64
                        " bytes; it is damaged or belongs to another program",
                        path, i, constant->bytes, constant->offset, length);
    }
    return RAL_OK;
}

int32_t ral_map_constants(ral_context *context, const char *path, const ral_program *program, void **table,
                          void **mapping, size_t *mapped) {
    struct stat status;
    *mapping = NULL;
    *mapped = 0;
    const int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) return fail(context, RAL_ARGUMENT, "%s: cannot open: %s", path, strerror(errno));
    int32_t code = RAL_OK;
    char *data = NULL;
    if (fstat(file, &status) != 0 || !S_ISREG(status.st_mode))
        code = fail(context, RAL_ARGUMENT, "%s: not a regular file", path);
    else if ((code = check_constants(context, path, program, (int64_t)status.st_size)) == RAL_OK && status.st_size > 0) {
        void *address = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_PRIVATE, file, 0);
        if (address == MAP_FAILED)
            code = fail(context, RAL_MEMORY, "%s: cannot map: %s", path, strerror(errno));
        else
            data = address;
    }
    close(file);
    if (code != RAL_OK) return code;
    for (int32_t i = 0; i < program->constant_count; i++)
        table[i] = data == NULL ? NULL : data + program->constants[i].offset;
    *mapping = data;
    *mapped = data == NULL ? 0 : (size_t)status.st_size;
    return RAL_OK;
}

void ral_unmap_constants(void *mapping, size_t mapped) {
    if (mapping != NULL) munmap(mapping, mapped);
}

/* ---- the entry of a program -------------------------------------------------------------------------------------- */

static const char *dtype_name(int32_t dtype) {
    static const char *const names[] = {"bool", "i8", "u8", "i16", "i32", "i64", "f16", "bf16", "f32", "f64", "c64"};
    return dtype >= RAL_BOOL && dtype <= RAL_C64 ? names[dtype] : "an unknown dtype";
}

static int32_t check_input(ral_context *context, int32_t i, const ral_argument *expected, const ral_tensor *got) {
    if (got->dtype != expected->dtype)
        return fail(context, RAL_DTYPE, "input %" PRId32 " ('%s'): got dtype %s, expected %s", i, expected->name,
                    dtype_name(got->dtype), dtype_name(expected->dtype));
    if (got->rank != expected->rank)
        return fail(context, RAL_RANK, "input %" PRId32 " ('%s'): got rank %" PRId32 ", expected %" PRId32, i,
                    expected->name, got->rank, expected->rank);
    int32_t empty = 0;
    for (int32_t axis = 0; axis < got->rank; axis++) {
        if (got->sizes[axis] < 0)
            return fail(context, RAL_ARGUMENT, "input %" PRId32 " ('%s'), axis %" PRId32 ": negative size %" PRId64, i,
                        expected->name, axis, got->sizes[axis]);
        empty |= got->sizes[axis] == 0;
    }
    if (got->data == NULL && !empty)
        return fail(context, RAL_ARGUMENT, "input %" PRId32 " ('%s'): got a null pointer, expected data", i,
                    expected->name);
    return RAL_OK;
}

static int32_t check_call(ral_context *context, const ral_program *program, const ral_call *call) {
    if (program->abi != RAL_ABI)
        return fail(context, RAL_ABI_MISMATCH,
                    "the program was compiled for runtime ABI %" PRId32 ", this runtime has %d; compile it again",
                    program->abi, RAL_ABI);
    if (call->input_count != program->input_count)
        return fail(context, RAL_ARGUMENT, "got %" PRId32 " inputs, expected %" PRId32, call->input_count,
                    program->input_count);
    if (call->allocate == NULL && program->output_count > 0)
        return fail(context, RAL_ARGUMENT, "the call has no function that allocates outputs");
    for (int32_t i = 0; i < call->input_count; i++) {
        const int32_t code = check_input(context, i, &program->inputs[i], &call->inputs[i]);
        if (code != RAL_OK) return code;
    }
    return RAL_OK;
}

int32_t ral_run(ral_context *context, const ral_program *program, void *const *constants, const ral_call *call) {
    context->code = RAL_OK;
    context->message[0] = '\0';
    int32_t code = check_call(context, program, call);
    if (code != RAL_OK) return code;
    context->program = program;
    code = program->main(context, call, constants);
    context->program = NULL;
    if (code != RAL_OK && context->code == RAL_OK) fail(context, code, "the program failed with code %" PRId32, code);
    return code == RAL_OK ? RAL_OK : context->code;
}

void *ral_place_output(void *prepared, int32_t index, int32_t dtype, int32_t rank, const int64_t *sizes,
                       const int64_t *strides) {
    const ral_prepared *of = prepared;
    if (index < of->output_count) {
        const ral_tensor *output = &of->outputs[index];
        const size_t bytes = (size_t)rank * sizeof *sizes;
        if (output->dtype == dtype && output->rank == rank && memcmp(output->sizes, sizes, bytes) == 0 &&
            memcmp(output->strides, strides, bytes) == 0)
            return output->data;
    }
    while (!of->is_alive()) pause();
    void *data = NULL;
    of->otherwise(&data, index, dtype, rank, sizes, strides);
    return data;
}
