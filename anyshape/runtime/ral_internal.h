/* What the files of RAL share with each other. Not part of the public interface. */
#ifndef RAL_INTERNAL_H
#define RAL_INTERNAL_H

#include "ral.h"

enum { RAL_ALIGNMENT = 64, RAL_MESSAGE_BYTES = 1024, RAL_MAX_THREADS = 1024 };

/* Memory that only grows. */
typedef struct {
    void *data;
    int64_t capacity;
} ral_block;

/* At least `bytes` bytes, 64-byte aligned, from 2 MB on in huge pages where the system has them. Growing loses the
 * contents. NULL when bytes < 0 or memory is short; the block is then empty. */
void *ral_block_reserve(ral_block *block, int64_t bytes);

/* One launch, cut into `chunks` chunks. Chunk i begins at grain i*base + floor(i*extra / chunks): chunks are base or base+1 grains
 * long, and any run of neighbours is within one grain of its fair part. */
typedef struct {
    ral_kernel kernel;
    void *const *buffers;
    const int64_t *sizes;
    int64_t extent, grain;
    int64_t chunks, base, extra;
    int64_t scratch_bytes;
    ral_error_cell *error;
} ral_job;

void ral_run_chunk(const ral_job *job, int64_t chunk, ral_block *scratch);

/* The pool of `threads` threads (the caller is one of them), shared by all contexts of the process. NULL: no memory. */
typedef struct ral_pool ral_pool;
ral_pool *ral_pool_shared(int32_t threads);

/* Runs every chunk of the job; `scratch` is the caller's. Falls back to the caller alone when the pool is in use. */
void ral_pool_run(ral_pool *pool, const ral_job *job, ral_block *scratch);

/* The last arena plan: copies of its input and its answer, in one allocation. */
typedef struct {
    ral_block memory;
    int32_t count;
    int64_t total;
} ral_plan_memo;

struct ral_context {
    int32_t threads;
    ral_pool *pool; /* NULL when threads == 1 */
    ral_block arena;
    ral_block *parts; /* of the arena, from part 1 on */
    int32_t part_count;
    ral_block scratch;
    ral_block workspace, conflicts; /* of ral_plan_arena */
    ral_plan_memo memo;
    const ral_program *program; /* while ral_run is active: names the error sites */
    int32_t code;
    char message[RAL_MESSAGE_BYTES];
};

#endif
