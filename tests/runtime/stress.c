/* Four threads with contexts of 2, 3 and 4 threads launch, copy and plan at once; exit status 0 when all is right. */
#include <pthread.h>
#include <ral.h>
#include <stdio.h>
#include <string.h>

enum { CALLERS = 4, ROUNDS = 2000, EXTENT = 300 };

static void add_point(void *const *buffers, const int64_t *sizes, int64_t begin, int64_t end, void *scratch,
                      ral_error_cell *error) {
    int64_t *out = buffers[0];
    memset(scratch, 1, 512);
    for (int64_t i = begin; i < end; i++) out[i] += i;
    if (begin <= sizes[0] && sizes[0] < end) ral_report_index(error, 0, sizes[0], EXTENT);
}

static int run_round(ral_context *context, int round) {
    int64_t values[EXTENT] = {0}, copy[EXTENT], wrong = round % 50 == 0 ? round % EXTENT : -1;
    void *const buffers[] = {values};
    const int32_t code = ral_launch(context, add_point, buffers, &wrong, EXTENT, 1 + round % 9, 512);
    if (code != (wrong >= 0 ? RAL_INDEX : RAL_OK)) return 0;
    if (wrong >= 0) return 1;
    for (int64_t i = 0; i < EXTENT; i++)
        if (values[i] != i) return 0;
    const int64_t sizes[] = {15, 20}, strides[] = {1, 15};
    const ral_tensor view = {values, sizes, strides, 2, RAL_I64};
    if (ral_contiguous(context, &view, 8, copy) != RAL_OK) return 0;
    for (int64_t i = 0; i < EXTENT; i++)
        if (copy[i] != i % 20 * 15 + i / 20) return 0;
    int64_t bytes[30], offsets[30], total;
    int32_t first[30], last[30];
    for (int32_t i = 0; i < 30; i++) bytes[i] = (i * 37 + round) % 500, first[i] = i, last[i] = i + i % 4;
    if (ral_plan_arena(context, 30, bytes, first, last, offsets, &total) != RAL_OK) return 0;
    return ral_arena(context, total) != NULL;
}

static void *call_often(void *argument) {
    const int number = *(int *)argument;
    ral_context *context = ral_context_create(2 + number % 3);
    for (int round = 0; round < ROUNDS; round++) {
        if (run_round(context, round)) continue;
        fprintf(stderr, "caller %d, round %d: %s\n", number, round, ral_error(context));
        return argument;
    }
    ral_context_destroy(context);
    return NULL;
}

int main(void) {
    pthread_t threads[CALLERS];
    int numbers[CALLERS], failed = 0;
    for (int i = 0; i < CALLERS; i++) numbers[i] = i;
    for (int i = 0; i < CALLERS; i++) pthread_create(&threads[i], NULL, call_often, &numbers[i]);
    for (int i = 0; i < CALLERS; i++) {
        void *result;
        pthread_join(threads[i], &result);
        failed |= result != NULL;
    }
    return failed;
}
