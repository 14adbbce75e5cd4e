/* What this machine can do at most: multiply-add rate, and reading or copying memory. Built and called by ceilings.py.

   Every function runs its loop on `threads` threads that start together, and returns the wall time in seconds from the start
   of the first to the end of the last. */

#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#if defined(__AVX512F__)
#define BYTES 64
#elif defined(__AVX__)
#define BYTES 32
#else
#define BYTES 16
#endif

/* 24 accumulators hide the latency of two units and leave registers for the operands; 12 where there are 16 registers. */
#if BYTES == 32 || (BYTES == 16 && defined(__x86_64__))
#define ACCUMULATORS 12
#else
#define ACCUMULATORS 24
#endif

typedef float vector __attribute__((vector_size(BYTES), aligned(BYTES), may_alias));

#define LANES (BYTES / 4)

enum { MAX_THREADS = 256 };

typedef void body(void *shared, int thread, int threads);

typedef struct {
    body *run;
    void *shared;
    int thread, threads;
    pthread_barrier_t *barrier;
    double begin, end;
} worker;

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void *work(void *argument) {
    worker *w = argument;
    pthread_barrier_wait(w->barrier);
    w->begin = now();
    w->run(w->shared, w->thread, w->threads);
    w->end = now();
    return NULL;
}

static double run_on(int threads, body *run, void *shared) {
    if (threads < 1 || threads > MAX_THREADS) return -1;
    pthread_barrier_t barrier;
    pthread_t ids[MAX_THREADS];
    worker workers[MAX_THREADS];
    pthread_barrier_init(&barrier, NULL, (unsigned)threads);
    for (int i = 0; i < threads; i++) {
        workers[i] = (worker){run, shared, i, threads, &barrier, 0, 0};
        if (i && pthread_create(&ids[i], NULL, work, &workers[i])) abort();
    }
    work(&workers[0]);
    double begin = workers[0].begin, end = workers[0].end;
    for (int i = 1; i < threads; i++) {
        pthread_join(ids[i], NULL);
        if (workers[i].begin < begin) begin = workers[i].begin;
        if (workers[i].end > end) end = workers[i].end;
    }
    pthread_barrier_destroy(&barrier);
    return end - begin;
}

typedef struct {
    int64_t repeats;
    float *source, *target;
    int64_t floats;
} job;

static volatile float sink;

static void fma_body(void *shared, int thread, int threads) {
    (void)thread, (void)threads;
    const job *j = shared;
    vector sums[ACCUMULATORS], a, b;
    for (int l = 0; l < LANES; l++) a[l] = 0.999f, b[l] = 1e-3f;
    for (int i = 0; i < ACCUMULATORS; i++) sums[i] = b * (float)i;
    for (int64_t r = 0; r < j->repeats; r++) {
#pragma GCC unroll 24
        for (int i = 0; i < ACCUMULATORS; i++) sums[i] = sums[i] * a + b;
    }
    vector total = sums[0];
    for (int i = 1; i < ACCUMULATORS; i++) total += sums[i];
    sink = total[0];
}

static void slice(const job *j, int thread, int threads, int64_t *begin, int64_t *end) {
    const int64_t block = 8 * LANES, blocks = j->floats / block;
    *begin = blocks * thread / threads * block;
    *end = blocks * (thread + 1) / threads * block;
}

static void read_body(void *shared, int thread, int threads) {
    const job *j = shared;
    int64_t begin, end;
    slice(j, thread, threads, &begin, &end);
    vector sums[8];
    memset(sums, 0, sizeof sums);
    for (int64_t r = 0; r < j->repeats; r++)
        for (int64_t i = begin; i < end; i += 8 * LANES) {
#pragma GCC unroll 8
            for (int k = 0; k < 8; k++) sums[k] += *(const vector *)(j->source + i + k * LANES);
        }
    vector total = sums[0];
    for (int k = 1; k < 8; k++) total += sums[k];
    sink = total[0];
}

static void scale_body(void *shared, int thread, int threads) {
    const job *j = shared;
    int64_t begin, end;
    slice(j, thread, threads, &begin, &end);
    for (int64_t r = 0; r < j->repeats; r++)
        for (int64_t i = begin; i < end; i += LANES)
            *(vector *)(j->target + i) = *(const vector *)(j->source + i) * 1.5f;
}

/* Floating-point operations of one repeat on one thread. */
int64_t ceiling_fma_operations(void) { return 2 * (int64_t)ACCUMULATORS * LANES; }

double ceiling_fma(int threads, int64_t repeats) {
    job j = {repeats, NULL, NULL, 0};
    return run_on(threads, fma_body, &j);
}

/* Reads `floats` numbers, each thread a part of its own, `repeats` times over. */
double ceiling_read(int threads, int64_t repeats, float *source, int64_t floats) {
    job j = {repeats, source, NULL, floats};
    return run_on(threads, read_body, &j);
}

/* target = 1.5 · source, STREAM's Scale (J. D. McCalpin, 1995). */
double ceiling_scale(int threads, int64_t repeats, float *source, float *target, int64_t floats) {
    job j = {repeats, source, target, floats};
    return run_on(threads, scale_body, &j);
}
