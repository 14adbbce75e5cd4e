/* The thread pool: one per process and thread count, created when first needed, kept until the process ends.
 *
 * A launch is published by storing the number of its chunks in `remaining`. Whoever moves `remaining` from r to r-1 owns
 * chunk chunks-r. The launch cannot end before an owned chunk is done, so an owner may read `job` safely, and a late
 * worker that still holds an old value of `remaining` either fails to claim or claims a chunk of the present launch. No
 * worker has to take part: the caller waits for claimed chunks only, never for a thread that has not been scheduled.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "ral_internal.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>

/* Pauses before a waiting thread sleeps: some 100 to 200 microseconds. Waking a sleeping thread costs 5 microseconds, and
 * tens where its core has gone idle (virtual machines); the parts of a call between two regions are shorter than this, so
 * workers stay awake within a call. Spinning is bounded because an unbounded spin takes the core from the very thread that
 * it waits for when cores are shared. */
enum { SPIN_PAUSES = 8000 };

typedef struct {
    ral_pool *pool;
    ral_block scratch;
} ral_worker;

struct ral_pool {
    _Alignas(RAL_ALIGNMENT) _Atomic int64_t remaining; /* chunks that nobody has claimed */
    _Alignas(RAL_ALIGNMENT) _Atomic int64_t finished;  /* chunks that workers, not the caller, have done */
    _Atomic int32_t caller_sleeps;
    _Alignas(RAL_ALIGNMENT) _Atomic int32_t sleepers; /* workers that wait for `work` */
    _Atomic int32_t in_use;
    const ral_job *job;
    pthread_mutex_t mutex;
    pthread_cond_t work, done;
    ral_pool *next;
    ral_worker *workers;
    int32_t threads;
    int32_t started; /* whether this process has started the workers */
};

static pthread_mutex_t registry_mutex = PTHREAD_MUTEX_INITIALIZER;
static ral_pool *registry;

static inline void pause_briefly(void) {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("isb" ::: "memory");
#elif defined(__riscv)
    __asm__ volatile(".4byte 0x0100000f" ::: "memory"); /* pause (Zihintpause), a no-op elsewhere */
#endif
}

void ral_run_chunk(const ral_job *job, int64_t chunk, ral_block *scratch) {
    if (atomic_load_explicit(&job->error->code, memory_order_relaxed) != RAL_OK) return;
    void *memory = NULL;
    if (job->scratch_bytes > 0) {
        memory = ral_block_reserve(scratch, job->scratch_bytes);
        if (memory == NULL) {
            int64_t expected = RAL_OK;
            atomic_compare_exchange_strong(&job->error->code, &expected, RAL_MEMORY);
            return;
        }
    }
    const int64_t first = chunk * job->base + (chunk < job->extra ? chunk : job->extra);
    const int64_t begin = first * job->grain;
    const int64_t grains = job->base + (chunk < job->extra);
    const int64_t end = chunk == job->chunks - 1 ? job->extent : begin + grains * job->grain;
    job->kernel(job->buffers, job->sizes, begin, end, memory, job->error);
}

/* Claims and runs chunks until none is left; returns how many. */
static int64_t run_claimed_chunks(ral_pool *pool, ral_block *scratch) {
    int64_t count = 0;
    int64_t left = atomic_load_explicit(&pool->remaining, memory_order_acquire);
    while (left > 0) {
        if (!atomic_compare_exchange_weak_explicit(&pool->remaining, &left, left - 1, memory_order_acq_rel,
                                                   memory_order_acquire))
            continue;
        ral_run_chunk(pool->job, pool->job->chunks - left, scratch);
        count++;
        left = atomic_load_explicit(&pool->remaining, memory_order_acquire);
    }
    return count;
}

static void wait_for_work(ral_pool *pool) {
    for (int pauses = 0; pauses < SPIN_PAUSES; pauses++) {
        if (atomic_load_explicit(&pool->remaining, memory_order_relaxed) > 0) return;
        pause_briefly();
    }
    pthread_mutex_lock(&pool->mutex);
    /* Sequentially consistent on both sides: either this thread sees the new work or the caller sees the sleeper. */
    atomic_fetch_add(&pool->sleepers, 1);
    while (atomic_load(&pool->remaining) <= 0) pthread_cond_wait(&pool->work, &pool->mutex);
    atomic_fetch_sub(&pool->sleepers, 1);
    pthread_mutex_unlock(&pool->mutex);
}

/* Waits until nobody is between looking at a condition and sleeping. The signal follows outside, since a thread that is woken
 * inside would only run into the mutex and sleep again. */
static void pass_mutex(ral_pool *pool) {
    pthread_mutex_lock(&pool->mutex);
    pthread_mutex_unlock(&pool->mutex);
}

static void *work_forever(void *argument) {
    ral_worker *worker = argument;
    ral_pool *pool = worker->pool;
    for (;;) {
        wait_for_work(pool);
        const int64_t count = run_claimed_chunks(pool, &worker->scratch);
        if (count == 0) continue;
        atomic_fetch_add(&pool->finished, count);
        if (atomic_load(&pool->caller_sleeps)) {
            pass_mutex(pool);
            pthread_cond_signal(&pool->done);
        }
    }
    return NULL;
}

/* Starts the workers. Those that the system refuses are simply missing: the caller can do all the work. */
static void start_workers(ral_pool *pool) {
    sigset_t all, before;
    pthread_attr_t attributes;
    sigfillset(&all);
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    pthread_sigmask(SIG_SETMASK, &all, &before); /* signals are the application's threads' business */
    for (int32_t i = 0; i < pool->threads - 1; i++) {
        pthread_t thread;
        if (pthread_create(&thread, &attributes, work_forever, &pool->workers[i]) != 0) break;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    pool->started = 1;
}

static void wake_workers(ral_pool *pool, int64_t wanted) {
    if (atomic_load(&pool->sleepers) == 0) return;
    pass_mutex(pool);
    if (wanted >= atomic_load(&pool->sleepers))
        pthread_cond_broadcast(&pool->work);
    else
        for (int64_t i = 0; i < wanted; i++) pthread_cond_signal(&pool->work);
}

static void wait_until_finished(ral_pool *pool, int64_t count) {
    for (int pauses = 0; pauses < SPIN_PAUSES; pauses++) {
        if (atomic_load_explicit(&pool->finished, memory_order_acquire) == count) return;
        pause_briefly();
    }
    pthread_mutex_lock(&pool->mutex);
    atomic_store(&pool->caller_sleeps, 1);
    while (atomic_load(&pool->finished) != count) pthread_cond_wait(&pool->done, &pool->mutex);
    atomic_store(&pool->caller_sleeps, 0);
    pthread_mutex_unlock(&pool->mutex);
}

void ral_pool_run(ral_pool *pool, const ral_job *job, ral_block *scratch) {
    int32_t idle = 0;
    if (!atomic_compare_exchange_strong_explicit(&pool->in_use, &idle, 1, memory_order_acquire, memory_order_relaxed)) {
        for (int64_t chunk = 0; chunk < job->chunks; chunk++) ral_run_chunk(job, chunk, scratch);
        return;
    }
    if (!pool->started) start_workers(pool);
    pool->job = job;
    atomic_store_explicit(&pool->finished, 0, memory_order_relaxed);
    atomic_store(&pool->remaining, job->chunks);
    wake_workers(pool, job->chunks - 1);
    const int64_t own = run_claimed_chunks(pool, scratch);
    wait_until_finished(pool, job->chunks - own);
    atomic_store_explicit(&pool->in_use, 0, memory_order_release);
}

/* ---- the registry of pools and fork ------------------------------------------------------------------------------ */

static void reset_pool(ral_pool *pool) {
    atomic_store(&pool->remaining, 0);
    atomic_store(&pool->finished, 0);
    atomic_store(&pool->caller_sleeps, 0);
    atomic_store(&pool->sleepers, 0);
    atomic_store(&pool->in_use, 0);
    pthread_mutex_init(&pool->mutex, NULL);
    pthread_cond_init(&pool->work, NULL);
    pthread_cond_init(&pool->done, NULL);
    pool->started = 0;
    /* After a fork the workers' scratch is given up: its owner may have been in the middle of growing it. */
    for (int32_t i = 0; i < pool->threads - 1; i++) pool->workers[i] = (ral_worker){.pool = pool};
}

static void before_fork(void) { pthread_mutex_lock(&registry_mutex); }
static void after_fork_in_parent(void) { pthread_mutex_unlock(&registry_mutex); }

/* The child has none of the workers, and perhaps a mutex held by a thread that it does not have either. */
static void after_fork_in_child(void) {
    pthread_mutex_init(&registry_mutex, NULL);
    for (ral_pool *pool = registry; pool != NULL; pool = pool->next) reset_pool(pool);
}

static void watch_forks(void) { pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child); }

static ral_pool *create_pool(int32_t threads) {
    ral_pool *pool = aligned_alloc(RAL_ALIGNMENT, sizeof *pool);
    if (pool == NULL) return NULL;
    pool->threads = threads;
    pool->workers = calloc((size_t)threads, sizeof *pool->workers);
    if (pool->workers == NULL) {
        free(pool);
        return NULL;
    }
    reset_pool(pool);
    return pool;
}

ral_pool *ral_pool_shared(int32_t threads) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, watch_forks);
    pthread_mutex_lock(&registry_mutex);
    ral_pool *pool = registry;
    while (pool != NULL && pool->threads != threads) pool = pool->next;
    if (pool == NULL && (pool = create_pool(threads)) != NULL) {
        pool->next = registry;
        registry = pool;
    }
    pthread_mutex_unlock(&registry_mutex);
    return pool;
}
