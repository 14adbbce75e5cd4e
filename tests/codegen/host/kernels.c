/* Kernels for hand-built host programs. Buffers are dense; sizes are what the launch passes. */
#include "ral.h"

#define KERNEL(name)                                                                                                   \
    void name(void *const *buffers, const int64_t *sizes, int64_t begin, int64_t end, void *scratch,                   \
              ral_error_cell *error)
#define UNUSED (void)sizes, (void)begin, (void)end, (void)scratch, (void)error

/* out[i] = x[i] + y[i] */
KERNEL(add) {
    UNUSED;
    const float *x = buffers[0], *y = buffers[1];
    float *out = buffers[2];
    for (int64_t i = begin; i < end; i++) out[i] = x[i] + y[i];
}

/* out[i] = 2 x[i] */
KERNEL(twice) {
    UNUSED;
    const float *x = buffers[0];
    float *out = buffers[1];
    for (int64_t i = begin; i < end; i++) out[i] = 2 * x[i];
}

/* out[i] = sum over j < sizes[0] of x[i, j] w[j] */
KERNEL(row_dot) {
    UNUSED;
    const float *x = buffers[0], *w = buffers[1];
    float *out = buffers[2];
    for (int64_t i = begin; i < end; i++) {
        float sum = 0;
        for (int64_t j = 0; j < sizes[0]; j++) sum += x[i * sizes[0] + j] * w[j];
        out[i] = sum;
    }
}

/* out[i] = table[index[i]], table of sizes[0] elements */
KERNEL(pick) {
    UNUSED;
    const float *table = buffers[0];
    const int64_t *index = buffers[1];
    float *out = buffers[2];
    for (int64_t i = begin; i < end; i++) {
        if (index[i] < 0 || index[i] >= sizes[0])
            ral_report_index(error, 0, index[i], sizes[0]);
        else
            out[i] = table[index[i]];
    }
}
