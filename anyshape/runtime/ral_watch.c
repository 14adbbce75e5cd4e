/* Watching tensors that belong to a framework: has one moved, has its content changed? */
#include "ral_internal.h"

#include <string.h>

enum {
    LINE = 64,       /* bytes of a sample, a cache line */
    LINES = 2,       /* samples of a tensor in one round */
    AHEAD = 8        /* tensors whose lines are asked for before they are needed */
};

static uint64_t mix(uint64_t hash, uint64_t word) {
    hash = (hash ^ word) * UINT64_C(0x9E3779B97F4A7C15);
    return hash ^ hash >> 32;
}

/* Where a tensor lies and how: its first byte, a hash of dtype, sizes and strides, the elements from its first to its
 * last, how often it was written. */
typedef struct {
    const char *data;
    uint64_t layout;
    int64_t span, version;
} ral_place;

/* False where the framework cannot say. */
static int place_of(const ral_tensor_reader *reader, void *object, ral_place *place) {
    void *handle = (char *)object + reader->handle_offset, *data = NULL;
    int64_t rank = 0, *sizes = NULL, *strides = NULL;
    int32_t dtype = 0;
    if (reader->data(handle, &data) != 0 || reader->rank(handle, &rank) != 0 || reader->sizes(handle, &sizes) != 0 ||
        reader->strides(handle, &strides) != 0 || reader->dtype(handle, &dtype) != 0)
        return 0;
    uint64_t layout = mix((uint64_t)dtype, (uint64_t)rank);
    int64_t span = 1;
    int empty = 0;
    for (int64_t axis = 0; axis < rank; axis++) {
        layout = mix(mix(layout, (uint64_t)sizes[axis]), (uint64_t)strides[axis]);
        span += (sizes[axis] - 1) * strides[axis];
        empty |= sizes[axis] == 0;
    }
    if (data == NULL && !empty) return 0;
    const char *counter = *(const char *const *)reader->version(handle);
    uint32_t version = 0;
    if (counter != NULL) memcpy(&version, counter + reader->version_offset, sizeof version);
    *place = (ral_place){data, layout, empty ? 0 : span, counter == NULL ? -1 : (int64_t)version};
    return 1;
}

/* First byte of sample `line` of a round: LINES * RAL_WATCH_ROUNDS samples lie evenly over a tensor, and those of one
 * round far apart. */
static const char *sample_at(const char *data, int64_t bytes, int32_t round, int32_t line) {
    const int64_t part = line * RAL_WATCH_ROUNDS + round;
    const int64_t step = bytes / (LINES * RAL_WATCH_ROUNDS), rest = bytes % (LINES * RAL_WATCH_ROUNDS);
    const int64_t at = part * step + part * rest / (LINES * RAL_WATCH_ROUNDS);
    return data + (at > bytes - LINE ? bytes - LINE : at);
}

/* Sum of a line's words times odd numbers, so that no single changed word leaves it as it was. The products do not wait
 * for each other. */
static uint64_t line_sum(const char *line) {
    uint64_t words[LINE / 8], sum = 0;
    memcpy(words, line, LINE);
    for (int32_t i = 0; i < LINE / 8; i++) sum += words[i] * (UINT64_C(0x9E3779B97F4A7C15) * (uint64_t)(2 * i + 1));
    return sum;
}

static uint64_t sample(const char *data, int64_t bytes, int32_t round) {
    if (bytes < LINE) {
        char line[LINE] = {0};
        memcpy(line, data, (size_t)bytes);
        return line_sum(line);
    }
    uint64_t sum = 0;
    for (int32_t line = 0; line < LINES; line++)
        sum += line_sum(sample_at(data, bytes, round, line)) * (uint64_t)(2 * line + 1);
    return sum;
}

static void ask_for(const ral_watched *watched, int32_t round) {
#if defined(__GNUC__)
    for (int32_t line = 0; watched->bytes >= LINE && line < LINES; line++)
        __builtin_prefetch(sample_at(watched->data, watched->bytes, round, line));
#else
    (void)watched, (void)round;
#endif
}

/* The type of a Python object, the last word before what is its own. */
static const void *type_of(const ral_tensor_reader *reader, const void *object) {
    return *(const void *const *)((const char *)object + reader->handle_offset - sizeof(void *));
}

int32_t ral_watch_note(const ral_tensor_reader *reader, void *const *objects, int64_t count, const uint8_t *items,
                       ral_watched *watched) {
    for (int64_t i = 0; i < count; i++) {
        ral_place place;
        if (!place_of(reader, objects[i], &place)) return -1;
        watched[i] = (ral_watched){type_of(reader, objects[i]), place.data, place.layout, place.version, 0, {0}};
        if (items[i] == 0 || place.span <= 0) continue;
        watched[i].bytes = place.span * items[i];
        for (int32_t round = 0; round < RAL_WATCH_ROUNDS; round++)
            watched[i].sums[round] = sample(place.data, watched[i].bytes, round);
    }
    return 0;
}

int64_t ral_watch_check(const ral_tensor_reader *reader, void *const *objects, int64_t count, const ral_watched *watched,
                        int32_t round) {
    for (int64_t i = 0; i < count && i < AHEAD; i++) ask_for(&watched[i], round);
    for (int64_t i = 0; i < count; i++) {
        if (i + AHEAD < count) ask_for(&watched[i + AHEAD], round);
        ral_place place;
        if (type_of(reader, objects[i]) != watched[i].type) return i + 1; /* perhaps no tensor at all */
        if (!place_of(reader, objects[i], &place)) return -1;
        /* Only a tensor that is where it was may be read: the memory of one that moved may be gone. */
        if (place.data != watched[i].data || place.layout != watched[i].layout) return i + 1;
        if (watched[i].bytes == 0) continue;
        if (place.version != watched[i].version) return i + 1;
        if (sample(place.data, watched[i].bytes, round) != watched[i].sums[round]) return i + 1;
    }
    return 0;
}
