/* Arena planning: offsets for buffers with known sizes and lifetimes (dynamic storage allocation).
 *
 * Placing buffers one after the other, each in the tightest gap that the buffers alive with it leave, depends on the
 * order. The order of birth comes first, being cheap; then rounds that begin with an order by size, by size times lifetime
 * and by birth, and vary it: the buffers that reached the top of the arena move to the front. No plan can beat the peak
 * of the live bytes; the search ends near it and keeps the smallest total.
 */
#include "ral_internal.h"

#include <inttypes.h>
#include <string.h>

enum {
    GOOD = 32, FAIR = 8,  /* the search ends within 1/32 of the peak, after the first round within 1/8 */
    ATTEMPTS = 24,        /* orders tried in a round */
    MAX_PAIRS = 1 << 22   /* with more conflicts than this, the order of birth has to do */
};

typedef struct {
    int64_t offset, end;
    int32_t index;
} ral_span;

typedef struct {
    uint64_t key;
    int32_t index;
} ral_rank;

/* The arrays of one planning, carved out of the context's workspace. `sizes` are rounded up to the alignment; buffer i
 * conflicts with `neighbours[ends[i-1]], ..., neighbours[ends[i]-1]`. */
typedef struct {
    int32_t count;
    const int32_t *first, *last;
    int64_t *sizes, *offsets; /* an offset of -1: not placed yet */
    ral_span *spans;
    ral_rank *ranks, *spare;
    int32_t *ends, *neighbours;
    int64_t peak, pairs;
} ral_planning;

/* Merge sort by increasing key; equal keys keep their order, so plans are the same on every machine. */
static void sort_ranks(ral_rank *ranks, ral_rank *spare, int32_t count) {
    ral_rank *from = ranks, *to = spare;
    for (int32_t width = 1; width < count; width *= 2) {
        for (int32_t begin = 0; begin < count; begin += 2 * width) {
            const int32_t middle = begin + width < count ? begin + width : count;
            const int32_t end = middle + width < count ? middle + width : count;
            int32_t left = begin, right = middle;
            for (int32_t i = begin; i < end; i++) {
                const int take_left = right >= end || (left < middle && from[left].key <= from[right].key);
                to[i] = take_left ? from[left++] : from[right++];
            }
        }
        ral_rank *swap = from;
        from = to, to = swap;
    }
    if (from != ranks) memcpy(ranks, from, (size_t)count * sizeof *ranks);
}

/* Inserts buffer i, placed at `offset`, into spans sorted by offset. */
static void insert_span(const ral_planning *planning, int32_t length, int32_t i) {
    const int64_t offset = planning->offsets[i];
    int32_t k = length;
    for (; k > 0 && planning->spans[k - 1].offset > offset; k--) planning->spans[k] = planning->spans[k - 1];
    planning->spans[k] = (ral_span){offset, offset + planning->sizes[i], i};
}

/* Places buffer i in the tightest gap that the spans leave, or above them, and returns its end. */
static int64_t place(const ral_planning *planning, int32_t length, int32_t i) {
    const int64_t size = planning->sizes[i];
    int64_t top = 0, best = INT64_MAX, offset = size == 0 ? 0 : -1;
    for (int32_t k = 0; k < length && size > 0; k++) {
        const ral_span *span = &planning->spans[k];
        const int64_t gap = span->offset - top;
        if (gap >= size && gap < best) best = gap, offset = top;
        if (span->end > top) top = span->end;
    }
    planning->offsets[i] = offset < 0 ? top : offset;
    return planning->offsets[i] + size;
}

/* Drops the buffers that have died before buffer i is born; returns the new length. */
static int32_t drop_dead(const ral_planning *planning, int32_t length, int32_t i) {
    int32_t kept = 0;
    for (int32_t k = 0; k < length; k++)
        if (planning->last[planning->spans[k].index] >= planning->first[i]) planning->spans[kept++] = planning->spans[k];
    return kept;
}

/* Places all buffers in order of birth, when only the living matter, and finds the peak and the number of conflicts. */
static int64_t place_by_birth(ral_planning *planning) {
    int64_t total = 0;
    int32_t length = 0;
    for (int32_t r = 0; r < planning->count; r++) {
        const int32_t i = planning->ranks[r].index;
        length = drop_dead(planning, length, i);
        int64_t live = planning->sizes[i];
        for (int32_t k = 0; k < length; k++) {
            live += planning->sizes[planning->spans[k].index];
            planning->ends[planning->spans[k].index]++;
        }
        planning->ends[i] = length;
        planning->pairs += length;
        if (live > planning->peak) planning->peak = live;
        const int64_t end = place(planning, length, i);
        if (end > total) total = end;
        insert_span(planning, length++, i);
    }
    return total;
}

/* Lists the conflicts of each buffer. On entry `ends` are their numbers and `ranks` the order of birth. */
static void list_neighbours(const ral_planning *planning) {
    int32_t begin = 0, length = 0;
    for (int32_t i = 0; i < planning->count; i++) {
        const int32_t number = planning->ends[i];
        planning->ends[i] = begin; /* moves to the end as the list fills */
        begin += number;
    }
    for (int32_t r = 0; r < planning->count; r++) {
        const int32_t i = planning->ranks[r].index;
        length = drop_dead(planning, length, i);
        for (int32_t k = 0; k < length; k++) {
            const int32_t other = planning->spans[k].index;
            planning->neighbours[planning->ends[i]++] = other;
            planning->neighbours[planning->ends[other]++] = i;
        }
        planning->spans[length++].index = i;
    }
}

/* Places all buffers in the order of `ranks`. */
static int64_t place_in_order(const ral_planning *planning) {
    int64_t total = 0;
    for (int32_t i = 0; i < planning->count; i++) planning->offsets[i] = -1;
    for (int32_t r = 0; r < planning->count; r++) {
        const int32_t i = planning->ranks[r].index;
        int32_t length = 0;
        for (int32_t n = i == 0 ? 0 : planning->ends[i - 1]; n < planning->ends[i]; n++)
            if (planning->offsets[planning->neighbours[n]] >= 0) insert_span(planning, length++, planning->neighbours[n]);
        const int64_t end = place(planning, length, i);
        if (end > total) total = end;
    }
    return total;
}

enum ral_order { BY_SIZE, BY_AREA, BY_BIRTH, ROUNDS };

static void rank_buffers(const ral_planning *planning, enum ral_order order) {
    for (int32_t i = 0; i < planning->count; i++) {
        const uint64_t size = (uint64_t)planning->sizes[i] / RAL_ALIGNMENT;
        const uint64_t lifetime = (uint64_t)(planning->last[i] - (int64_t)planning->first[i] + 1);
        uint64_t key = (uint64_t)(planning->first[i] - (int64_t)INT32_MIN);
        if (order == BY_SIZE) key = ~size;
        if (order == BY_AREA) key = __builtin_mul_overflow(size, lifetime, &key) ? 0 : ~key;
        planning->ranks[i] = (ral_rank){key, i};
    }
    sort_ranks(planning->ranks, planning->spare, planning->count);
}

/* Moves the buffers that reach `total` to the front of `ranks`; all others keep their order. */
static void favour_top(const ral_planning *planning, int64_t total) {
    int32_t top = 0, others = 0;
    for (int32_t r = 0; r < planning->count; r++) {
        const ral_rank rank = planning->ranks[r];
        if (planning->offsets[rank.index] + planning->sizes[rank.index] == total)
            planning->ranks[top++] = rank; /* top <= r: already read */
        else
            planning->spare[others++] = rank;
    }
    memcpy(planning->ranks + top, planning->spare, (size_t)others * sizeof *planning->spare);
}

/* Writes the best plan found and returns its total. Without memory for the conflicts, the order of birth has to do. */
static int64_t plan(ral_planning *planning, ral_block *conflicts, int64_t *best_offsets) {
    const size_t bytes = (size_t)planning->count * sizeof *best_offsets;
    rank_buffers(planning, BY_BIRTH);
    int64_t best = place_by_birth(planning);
    int64_t slack = planning->peak / GOOD;
    memcpy(best_offsets, planning->offsets, bytes);
    if (best - planning->peak <= slack || planning->pairs > MAX_PAIRS) return best;
    planning->neighbours = ral_block_reserve(conflicts, 2 * planning->pairs * (int64_t)sizeof *planning->neighbours);
    if (planning->neighbours == NULL) return best;
    list_neighbours(planning);
    for (int attempt = 0; attempt < ROUNDS * ATTEMPTS && best - planning->peak > slack; attempt++) {
        if (attempt == ATTEMPTS) slack = planning->peak / FAIR;
        if (attempt % ATTEMPTS == 0) rank_buffers(planning, (enum ral_order)(attempt / ATTEMPTS));
        const int64_t total = place_in_order(planning);
        favour_top(planning, total);
        if (total >= best) continue;
        best = total;
        memcpy(best_offsets, planning->offsets, bytes);
    }
    return best;
}

/* Rounded sizes; their sum bounds every offset, so it must fit. */
static int32_t check_buffers(ral_context *context, int32_t count, const int64_t *bytes, const int32_t *first,
                             const int32_t *last, int64_t *sizes) {
    int64_t sum = 0;
    for (int32_t i = 0; i < count; i++) {
        if (last[i] < first[i])
            return ral_fail(context, RAL_ARGUMENT, "arena buffer %lld lives from launch %lld to %lld", i, first[i], last[i],
                            0);
        if (bytes[i] < 0 || bytes[i] > INT64_MAX - RAL_ALIGNMENT)
            return ral_fail(context, RAL_MEMORY, "arena buffer %lld has %lld bytes", i, bytes[i], 0, 0);
        sizes[i] = (bytes[i] + RAL_ALIGNMENT - 1) / RAL_ALIGNMENT * RAL_ALIGNMENT;
        if (__builtin_add_overflow(sum, sizes[i], &sum))
            return ral_fail(context, RAL_MEMORY, "the arena's %lld buffers exceed 2^63 bytes", count, 0, 0, 0);
    }
    return RAL_OK;
}

/* The memo holds offsets, bytes, first and last, one after the other. */
static int recall(const ral_plan_memo *memo, int32_t count, const int64_t *bytes, const int32_t *first,
                  const int32_t *last, int64_t *offsets, int64_t *total) {
    if (memo->memory.data == NULL || memo->count != count) return 0;
    const size_t wide = (size_t)count * sizeof *bytes, narrow = (size_t)count * sizeof *first;
    const char *data = memo->memory.data;
    if (memcmp(data + wide, bytes, wide) != 0 || memcmp(data + 2 * wide, first, narrow) != 0 ||
        memcmp(data + 2 * wide + narrow, last, narrow) != 0)
        return 0;
    memcpy(offsets, data, wide);
    *total = memo->total;
    return 1;
}

static void remember(ral_plan_memo *memo, int32_t count, const int64_t *bytes, const int32_t *first,
                     const int32_t *last, const int64_t *offsets, int64_t total) {
    const size_t wide = (size_t)count * sizeof *bytes, narrow = (size_t)count * sizeof *first;
    char *data = ral_block_reserve(&memo->memory, (int64_t)(2 * wide + 2 * narrow));
    if (data == NULL) return; /* the next call plans again */
    memcpy(data, offsets, wide);
    memcpy(data + wide, bytes, wide);
    memcpy(data + 2 * wide, first, narrow);
    memcpy(data + 2 * wide + narrow, last, narrow);
    memo->count = count;
    memo->total = total;
}

int32_t ral_plan_arena(ral_context *context, int32_t count, const int64_t *bytes, const int32_t *first,
                       const int32_t *last, int64_t *offsets, int64_t *total) {
    *total = 0;
    if (count < 0) return ral_fail(context, RAL_ARGUMENT, "an arena of %lld buffers", count, 0, 0, 0);
    if (count == 0) return RAL_OK;
    if (recall(&context->memo, count, bytes, first, last, offsets, total)) return RAL_OK;
    const int64_t each = 2 * sizeof(int64_t) + sizeof(ral_span) + 2 * sizeof(ral_rank) + sizeof(int32_t);
    char *data = ral_block_reserve(&context->workspace, count * each);
    if (data == NULL) return ral_fail(context, RAL_MEMORY, "cannot plan an arena of %lld buffers", count, 0, 0, 0);
    ral_planning planning = {.count = count, .first = first, .last = last};
    planning.sizes = (int64_t *)data;
    planning.offsets = planning.sizes + count;
    planning.spans = (ral_span *)(planning.offsets + count);
    planning.ranks = (ral_rank *)(planning.spans + count);
    planning.spare = planning.ranks + count;
    planning.ends = (int32_t *)(planning.spare + count);
    const int32_t code = check_buffers(context, count, bytes, first, last, planning.sizes);
    if (code != RAL_OK) return code;
    *total = plan(&planning, &context->conflicts, offsets);
    remember(&context->memo, count, bytes, first, last, offsets, *total);
    return RAL_OK;
}
