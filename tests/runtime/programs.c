/* Kernels and programs as the compiler would emit them, for the tests of RAL. */
#include <ral.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>

/* ---- kernels ----------------------------------------------------------------------------------------------------- */

/* buffers[0][i] = the begin of the chunk that i lies in. */
void mark_chunks(void *const *buffers, const int64_t *sizes, int64_t begin, int64_t end, void *scratch,
                 ral_error_cell *error) {
    (void)sizes, (void)scratch, (void)error;
    int64_t *out = buffers[0];
    for (int64_t i = begin; i < end; i++) out[i] = begin;
}

static void add_one(void *const *buffers, const int64_t *sizes, int64_t begin, int64_t end, void *scratch,
                    ral_error_cell *error) {
    (void)scratch;
    for (int64_t i = begin; i < end; i++) {
        atomic_fetch_add((_Atomic int64_t *)buffers[0] + i, 1);
        if (i == sizes[2]) ral_report_index(error, 1, i, sizes[0]);
    }
}

/* buffers[0][i] += 1 for all i < sizes[0], in parts of sizes[1], in the middle of each point; sizes[2] is reported where it comes. */
void run_parts(void *const *buffers, const int64_t *sizes, int64_t begin, int64_t end, void *scratch,
               ral_error_cell *error) {
    memset(scratch, 1, 64);
    for (int64_t i = begin; i < end; i++) ral_run_parts(error, add_one, buffers, sizes, sizes[0], sizes[1]);
    for (int byte = 0; byte < 64; byte++)
        if (((char *)scratch)[byte] != 1) ral_report_index(error, 1, byte, 0);
}

/* buffers[0][i] = who runs point i, buffers[1][i] = its turn, counted from 1 in buffers[1][sizes[0]]. */
void note_order(void *const *buffers, const int64_t *sizes, int64_t begin, int64_t end, void *scratch,
                ral_error_cell *error) {
    static _Thread_local char here;
    (void)scratch, (void)error;
    int64_t *who = buffers[0], *turn = buffers[1];
    for (int64_t i = begin; i < end; i++) {
        who[i] = (int64_t)(intptr_t)&here;
        turn[i] = 1 + atomic_fetch_add((_Atomic int64_t *)&turn[sizes[0]], 1);
    }
}

/* buffers[0][i] += 1, by way of `sizes[0]` bytes of scratch; buffers[1][i] = scratch alignment remainder. */
void count_through_scratch(void *const *buffers, const int64_t *sizes, int64_t begin, int64_t end, void *scratch,
                           ral_error_cell *error) {
    (void)error;
    int64_t *out = buffers[0], *remainder = buffers[1];
    for (int64_t i = begin; i < end; i++) {
        memset(scratch, (int)(i & 127), (size_t)sizes[0]);
        remainder[i] = (int64_t)((uintptr_t)scratch % 64) + (((char *)scratch)[sizes[0] - 1] != (char)(i & 127));
        out[i] += 1;
    }
}

/* buffers[1][i] = table[index[i]], reporting an index outside [0, sizes[0]) at site 1. */
void gather(void *const *buffers, const int64_t *sizes, int64_t begin, int64_t end, void *scratch,
            ral_error_cell *error) {
    (void)scratch;
    const float *table = buffers[0];
    const int64_t *index = buffers[1];
    float *out = buffers[2];
    for (int64_t i = begin; i < end; i++) {
        if (index[i] < 0 || index[i] >= sizes[0]) {
            ral_report_index(error, 1, index[i], sizes[0]);
            return;
        }
        out[i] = table[index[i]];
    }
}

/* buffers[1][i] = buffers[0][i] * 1: zero for denormals when the thread flushes them. */
void multiply_by_one(void *const *buffers, const int64_t *sizes, int64_t begin, int64_t end, void *scratch,
                     ral_error_cell *error) {
    (void)sizes, (void)scratch, (void)error;
    const volatile double one = 1.0;
    const double *in = buffers[0];
    double *out = buffers[1];
    for (int64_t i = begin; i < end; i++) out[i] = in[i] * one;
}

/* A launch of mark_chunks from inside a kernel: the pool is in use then. buffers[0] = context, buffers[1] = result,
 * sizes = {extent, grain}. */
void launch_within(void *const *buffers, const int64_t *sizes, int64_t begin, int64_t end, void *scratch,
                   ral_error_cell *error) {
    (void)scratch, (void)end;
    if (begin != 0) return;
    if (ral_launch(buffers[0], mark_chunks, &buffers[1], NULL, sizes[0], sizes[1], 0) != RAL_OK)
        ral_report_index(error, 0, 0, 0);
}

/* ---- program: out[i, j] = (x[i, j] + table[index[i]]) * scale, table and scale constants ---------------------------- */

static void add_rows(void *const *buffers, const int64_t *sizes, int64_t begin, int64_t end, void *scratch,
                     ral_error_cell *error) {
    (void)scratch, (void)error;
    const float *x = buffers[0], *picked = buffers[1], *scale = buffers[2];
    float *out = buffers[3];
    for (int64_t i = begin; i < end; i++)
        for (int64_t j = 0; j < sizes[0]; j++) out[i * sizes[0] + j] = (x[i * sizes[0] + j] + picked[i]) * scale[0];
}

static const ral_argument inputs[] = {{"x", RAL_F32, 2}, {"index", RAL_I64, 1}};
static const ral_argument outputs[] = {{"y", RAL_F32, 2}};
static const ral_constant constants[] = {{5 * sizeof(float), 0}, {sizeof(float), 64}};
static const char *const sites[] = {"unused", "aten.embedding at model.py:12: index %lld out of range [0, %lld)"};

static int32_t run_model(ral_context *context, const ral_call *call, void *const *table) {
    const ral_tensor *x = &call->inputs[0], *index = &call->inputs[1];
    const int64_t rows = x->sizes[0], columns = x->sizes[1];
    if (index->sizes[0] != rows)
        return ral_fail(context, RAL_GUARD, "input 'index', axis 0: got size %lld, expected %lld", index->sizes[0], rows,
                        0, 0);
    const int64_t bytes[] = {rows * columns * 4, rows * 8, rows * 4};
    const int32_t first[] = {0, 0, 1}, last[] = {2, 1, 2};
    int64_t offsets[3], total;
    int32_t code = ral_plan_arena(context, 3, bytes, first, last, offsets, &total);
    if (code != RAL_OK) return code;
    char *arena = ral_arena(context, total);
    if (arena == NULL) return RAL_MEMORY;
    float *dense = (float *)(arena + offsets[0]), *picked = (float *)(arena + offsets[2]);
    int64_t *positions = (int64_t *)(arena + offsets[1]);
    if ((code = ral_contiguous(context, x, 4, dense)) != RAL_OK) return code;
    if ((code = ral_contiguous(context, index, 8, positions)) != RAL_OK) return code;
    void *const gathered[] = {table[0], positions, picked};
    const int64_t table_size = 5;
    if ((code = ral_launch(context, gather, gathered, &table_size, rows, 4, 0)) != RAL_OK) return code;
    const int64_t sizes[] = {rows, columns}, strides[] = {columns, 1};
    void *out = call->allocate(call->user, 0, RAL_F32, 2, sizes, strides);
    if (out == NULL && rows * columns != 0)
        return ral_fail(context, RAL_MEMORY, "output 0 could not be allocated", 0, 0, 0, 0);
    void *const added[] = {dense, picked, table[1], out};
    return ral_launch(context, add_rows, added, &columns, rows, 4, 0);
}

const ral_program model = {RAL_ABI, 2, 1, 2, inputs, outputs, constants, run_model, 2, sites};
const ral_program model_of_another_abi = {RAL_ABI + 1, 2, 1, 2, inputs, outputs, constants, run_model, 2, sites};

/* ---- program: one output of every dtype, each a copy of its input -------------------------------------------------- */

#define EVERY_DTYPE(name)                                                                                             \
    {{name, RAL_BOOL, 1}, {name, RAL_I8, 1}, {name, RAL_U8, 1}, {name, RAL_I16, 1}, {name, RAL_I32, 1},                \
     {name, RAL_I64, 1}, {name, RAL_F16, 1}, {name, RAL_BF16, 1}, {name, RAL_F32, 1}, {name, RAL_F64, 1},              \
     {name, RAL_C64, 1}}

static const ral_argument copy_inputs[] = EVERY_DTYPE("in"), copy_outputs[] = EVERY_DTYPE("out");

static int32_t run_copies(ral_context *context, const ral_call *call, void *const *table) {
    static const int64_t element_bytes[] = {1, 1, 1, 2, 4, 8, 2, 2, 4, 8, 8};
    (void)table;
    for (int32_t i = 0; i < call->input_count; i++) {
        const int64_t stride = 1;
        const ral_tensor *in = &call->inputs[i];
        void *out = call->allocate(call->user, i, in->dtype, 1, in->sizes, &stride);
        const int32_t code = ral_contiguous(context, in, element_bytes[in->dtype], out);
        if (code != RAL_OK) return code;
    }
    return RAL_OK;
}

const ral_program copies = {RAL_ABI, 11, 11, 0, copy_inputs, copy_outputs, NULL, run_copies, 0, NULL};

/* ---- program: y = x[:count], a size that the data say ------------------------------------------------------------------ */

static const ral_argument head_inputs[] = {{"x", RAL_F32, 1}, {"count", RAL_I64, 0}};
static const ral_argument head_outputs[] = {{"y", RAL_F32, 1}};

static int32_t run_head(ral_context *context, const ral_call *call, void *const *table) {
    const int64_t size = *(const int64_t *)call->inputs[1].data, stride = 1;
    const ral_tensor part = {call->inputs[0].data, &size, call->inputs[0].strides, 1, RAL_F32};
    (void)table;
    if (size > call->inputs[0].sizes[0]) return ral_fail(context, RAL_GUARD, "%lld is too many", size, 0, 0, 0);
    void *head = call->allocate(call->user, 0, RAL_F32, 1, &size, &stride);
    if (head == NULL && size > 0) return ral_fail(context, RAL_MEMORY, "output 0 could not be allocated", 0, 0, 0, 0);
    return ral_contiguous(context, &part, 4, head);
}

const ral_program head = {RAL_ABI, 2, 1, 0, head_inputs, head_outputs, NULL, run_head, 0, NULL};
