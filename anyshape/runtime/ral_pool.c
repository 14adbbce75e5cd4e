/* The thread pool: one per process and thread count, created when first needed, kept until the process ends.
 *
 * Each thread has a share of a launch, a run of neighbouring chunks that it takes from front to back: what it prefetches past
 * the end of a chunk is what it needs next, and what it wrote in one launch is in its own cache in the next. Whoever has
 * none left takes the last chunk of another's share. A share is one word, so that whoever exchanges it for one with a chunk
 * less owns that chunk. The launch cannot end before an owned chunk is done, so an owner may read `job` safely, and a late
 * worker that still holds an old share either fails to claim or claims a chunk of the present launch. No worker has to
 * take part: the caller waits for claimed chunks only, never for a thread that has not been scheduled.
 *
 * Workers that are woken keep off the processor that the caller is on (Linux). A scheduler that packs threads which sleep often on few
 * processors, as those of some virtual machines do, would let them wait for the caller's time instead of taking work from it.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "ral_internal.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

/* Pauses before a waiting thread sleeps: some 100 to 200 microseconds. Waking a sleeping thread costs 5 microseconds, and
 * tens where its core has gone idle (virtual machines); the parts of a call between two regions are shorter than this, so
 * workers stay awake within a call. Spinning is bounded because an unbounded spin takes the core from the very thread that
 * it waits for when cores are shared. */
enum { SPIN_PAUSES = 8000 };

/* The chunks [first, last) of a thread as `last << 32 | first`, on a line of its own. */
typedef struct {
    _Alignas(RAL_ALIGNMENT) _Atomic uint64_t chunks;
} ral_share;

typedef struct {
    ral_pool *pool;
    ral_block scratch;
    pthread_t thread;
#ifdef __linux__
    cpu_set_t given; /* the processors that RAL has put it on */
#endif
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
    ral_share *shares; /* the caller's, then one for each worker */
    int32_t threads;
    int32_t started; /* how many workers this process has started; -1 before it has tried to */
    int avoided;     /* the processor that they keep off; -1: none yet */
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

static inline int64_t first_grain(const ral_job *job, int64_t chunk) {
    return chunk * job->base + chunk * job->extra / job->chunks;
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
    const int64_t begin = first_grain(job, chunk) * job->grain;
    const int64_t end = chunk == job->chunks - 1 ? job->extent : first_grain(job, chunk + 1) * job->grain;
    job->kernel(job->buffers, job->sizes, begin, end, memory, job->error);
}

/* Claims the first chunk of a share for its owner, the last one for others; -1 when it is empty. */
static int64_t claim(ral_pool *pool, int32_t owner, int32_t thread) {
    _Atomic uint64_t *share = &pool->shares[owner].chunks;
    uint64_t held = atomic_load_explicit(share, memory_order_acquire);
    for (;;) {
        const uint64_t first = held & UINT32_MAX, last = held >> 32;
        if (first >= last) return -1;
        const uint64_t rest = owner == thread ? last << 32 | (first + 1) : (last - 1) << 32 | first;
        if (!atomic_compare_exchange_weak_explicit(share, &held, rest, memory_order_acq_rel, memory_order_acquire))
            continue;
        atomic_fetch_sub_explicit(&pool->remaining, 1, memory_order_relaxed);
        return (int64_t)(owner == thread ? first : last - 1);
    }
}

/* Claims and runs chunks until none is left, its own before others'; returns how many. */
static int64_t run_claimed_chunks(ral_pool *pool, int32_t thread, ral_block *scratch) {
    int64_t count = 0;
    for (int32_t turn = 0; turn < pool->threads; turn++) {
        const int32_t owner = (thread + turn) % pool->threads;
        for (int64_t chunk; (chunk = claim(pool, owner, thread)) >= 0; count++) ral_run_chunk(pool->job, chunk, scratch);
    }
    return count;
}

/* Hands the chunks out in equal shares. `remaining` comes first: nobody may claim a chunk that is not yet counted there. */
static void publish(ral_pool *pool, const ral_job *job) {
    pool->job = job;
    atomic_store_explicit(&pool->finished, 0, memory_order_relaxed);
    atomic_store(&pool->remaining, job->chunks);
    for (int32_t thread = 0; thread < pool->threads; thread++) {
        const uint64_t first = (uint64_t)(job->chunks * thread / pool->threads);
        const uint64_t last = (uint64_t)(job->chunks * (thread + 1) / pool->threads);
        atomic_store_explicit(&pool->shares[thread].chunks, last << 32 | first, memory_order_release);
    }
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
        const int64_t count = run_claimed_chunks(pool, (int32_t)(worker - pool->workers) + 1, &worker->scratch);
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
#ifdef __linux__
    cpu_set_t inherited;
    if (sched_getaffinity(0, sizeof inherited, &inherited) != 0) CPU_ZERO(&inherited);
    for (int32_t i = 0; i < pool->threads - 1; i++) pool->workers[i].given = inherited;
#endif
    pool->avoided = -1;
    int32_t count = 0;
    while (count < pool->threads - 1 &&
           pthread_create(&pool->workers[count].thread, &attributes, work_forever, &pool->workers[count]) == 0)
        count++;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    pool->started = count;
}

#ifdef __linux__
/* Takes a worker off the processor `here`, if that leaves it one. It keeps what others it has and gets those that the process may
 * use: a processor that it was taken off before is not given back where the process has lost it since. */
static void move_worker(ral_worker *worker, int here, const cpu_set_t *caller, const cpu_set_t *process) {
    cpu_set_t now, others;
    if (pthread_getaffinity_np(worker->thread, sizeof now, &now) != 0) return;
    if (!CPU_EQUAL(&now, &worker->given) && !CPU_EQUAL(&now, process)) return; /* the user has put it there */
    CPU_OR(&others, caller, process);
    CPU_OR(&others, &others, &now);
    CPU_CLR((size_t)here, &others);
    if (CPU_COUNT(&others) > 0 && pthread_setaffinity_np(worker->thread, sizeof others, &others) == 0) worker->given = others;
}
#endif

/* Keeps workers off the processor that the caller is on, if they may run on another. What the process may use is what the caller or the
 * main thread may: either can be held to a few by itself. For workers that sleep: one that waits awake has a processor, and callers who
 * take turns on several would pay for system calls for each worker in each launch. */
static void keep_workers_apart(ral_pool *pool) {
#ifdef __linux__
    const int here = sched_getcpu();
    if (here == pool->avoided || here < 0 || here >= CPU_SETSIZE) return;
    cpu_set_t caller, process, either;
    if (sched_getaffinity(0, sizeof caller, &caller) != 0 || sched_getaffinity(getpid(), sizeof process, &process) != 0) return;
    for (int32_t i = 0; i < pool->started; i++) move_worker(&pool->workers[i], here, &caller, &process);
    CPU_OR(&either, &caller, &process);
    pool->avoided = CPU_COUNT(&either) > 1 ? here : -1; /* with one, there may be more at any time while the caller stays on it */
#else
    (void)pool;
#endif
}

static void wake_workers(ral_pool *pool, int64_t wanted) {
    if (atomic_load(&pool->sleepers) == 0) return;
    keep_workers_apart(pool);
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
    if (pool->started < 0) start_workers(pool);
    publish(pool, job);
    wake_workers(pool, job->chunks - 1);
    const int64_t own = run_claimed_chunks(pool, 0, scratch);
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
    pool->started = -1;
    /* After a fork the workers' scratch is given up: its owner may have been in the middle of growing it. */
    for (int32_t i = 0; i < pool->threads - 1; i++) pool->workers[i] = (ral_worker){.pool = pool};
    for (int32_t i = 0; i < pool->threads; i++) atomic_store(&pool->shares[i].chunks, 0);
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
    pool->shares = aligned_alloc(RAL_ALIGNMENT, (size_t)threads * sizeof *pool->shares);
    if (pool->workers == NULL || pool->shares == NULL) {
        free(pool->workers);
        free(pool->shares);
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
