/* Watching tensors that belong to a framework: has one moved, has its content changed? */
#include "ral_internal.h"

#include <string.h>

enum {
    LINE = 64,    /* bytes of a cache line */
    SAMPLE = LINE /* bytes of a sample: one line, since reaching memory is what costs */
};

/* Tensors whose lines are fetched together, see `fetch`: their lines stay in a first cache until they are looked at. */
enum { BATCH = 32 };

static uint64_t mix(uint64_t hash, uint64_t word) {
    hash = (hash ^ word) * UINT64_C(0x9E3779B97F4A7C15);
    return hash ^ hash >> 32;
}

/* Where a tensor lies and how: its first byte, a hash of dtype, sizes and strides, its axes, the elements from its first to its
 * last, how often it was written. */
typedef struct {
    const char *data;
    uint64_t layout;
    int64_t rank, span, version;
} ral_place;

static int64_t version_of(const ral_tensor_reader *reader, const char *counter) {
    uint32_t version;
    if (counter == NULL) return -1;
    memcpy(&version, counter + reader->version_offset, sizeof version);
    return (int64_t)version;
}

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
    *place = (ral_place){data, layout, rank, empty ? 0 : span, version_of(reader, counter)};
    return 1;
}

/* First byte of the sample of a round: RAL_WATCH_ROUNDS samples lie evenly over a tensor, each at the beginning of a line where
 * the tensor's first byte is at one; the last round's at its end. */
static const char *sample_at(const char *data, int64_t bytes, int32_t round) {
    const int64_t step = bytes / RAL_WATCH_ROUNDS, rest = bytes % RAL_WATCH_ROUNDS;
    const int64_t at = (round * step + round * rest / RAL_WATCH_ROUNDS) / LINE * LINE;
    return data + (round == RAL_WATCH_ROUNDS - 1 || at > bytes - SAMPLE ? bytes - SAMPLE : at);
}

/* Sum of a sample's words times odd numbers, so that no single changed word leaves it as it was. The products do not wait
 * for each other. */
static uint64_t sum_of(const char *sample) {
    uint64_t word, sum = 0;
    for (int32_t i = 0; i < SAMPLE / 8; i++) {
        memcpy(&word, sample + 8 * i, sizeof word);
        sum += word * (UINT64_C(0x9E3779B97F4A7C15) * (uint64_t)(2 * i + 1));
    }
    return sum;
}

static uint64_t sample(const char *data, int64_t bytes, int32_t round) {
    if (bytes >= SAMPLE) return sum_of(sample_at(data, bytes, round));
    char padded[SAMPLE] = {0};
    memcpy(padded, data, (size_t)bytes);
    return sum_of(padded);
}

/* The type of a Python object, the last word before what is its own. */
static const void *type_of(const ral_tensor_reader *reader, const void *object) {
    return *(const void *const *)((const char *)object + reader->handle_offset - sizeof(void *));
}

/* The tensor's own object. */
static const char *tensor_of(const ral_tensor_reader *reader, const void *object) {
    return *(const char *const *)((const char *)object + reader->handle_offset);
}

static const char *pointer_at(const char *object, int64_t offset) {
    return *(const char *const *)(object + offset);
}

/* Hash of the words that tell where and how a tensor lies, never 0: their sum, each times an odd number of its own, so that no
 * product waits for another. */
static uint64_t words_of(const ral_tensor_reader *reader, const char *tensor) {
    const char *at = tensor + reader->first, *end = tensor + reader->last;
    uint64_t word, hash = 0, odd = UINT64_C(0x9E3779B97F4A7C15);
    for (; at < end; at += sizeof word, odd += UINT64_C(0xBF58476D1CE4E5B8)) {
        memcpy(&word, at, sizeof word);
        hash += word * odd;
    }
    return mix(hash, 0) | 1;
}

int32_t ral_watch_note(const ral_tensor_reader *reader, void *const *objects, int64_t count, const uint8_t *items,
                       ral_watched *watched, uint64_t *sums) {
    for (int64_t i = 0; i < count; i++) {
        ral_place place;
        if (!place_of(reader, objects[i], &place)) return -1;
        watched[i] = (ral_watched){.type = type_of(reader, objects[i]),
                                   .data = place.data,
                                   .layout = place.layout,
                                   .version = place.version};
        if (reader->first < reader->last && place.rank <= reader->inline_rank) {
            const char *tensor = tensor_of(reader, objects[i]);
            watched[i].words = words_of(reader, tensor);
            watched[i].tensor = tensor;
            watched[i].storage = pointer_at(tensor, reader->first);
            watched[i].memory = pointer_at(watched[i].storage, reader->memory_offset);
        }
        watched[i].counter = *(const char *const *)reader->version((char *)objects[i] + reader->handle_offset);
        if (items[i] != 0 && place.span > 0) watched[i].bytes = place.span * items[i];
        for (int32_t round = 0; round < RAL_WATCH_ROUNDS; round++)
            sums[round * count + i] = watched[i].bytes == 0 ? 0 : sample(place.data, watched[i].bytes, round);
    }
    return 0;
}

static void touch(const void *address) { (void)*(const volatile char *)address; }

/* Reads every line that the check of these tensors reads, and does nothing with it. The check of one is so many instructions that a core
 * sees no further than the next, so that every tensor would wait for memory anew; here a line is a few, and as many are under way as
 * a core can ask for. Loads, not prefetches: a processor may drop a prefetch of a page that it has to look up, and these lines are in
 * pages of their own. What lies behind a pointer is read in a pass behind the pointer's. */
static void fetch(const ral_tensor_reader *reader, void *const *objects, int64_t count, const ral_watched *watched, int32_t round) {
    /* The type alone: an object that is no tensor may end behind it. */
    for (int64_t i = 0; i < count; i++) touch((const char *)objects[i] + reader->handle_offset - sizeof(void *));
    for (int64_t i = 0; i < count; i++) {
        if (watched[i].words == 0 || type_of(reader, objects[i]) != watched[i].type) continue;
        const char *tensor = tensor_of(reader, objects[i]);
        for (int64_t at = reader->first; at < reader->last; at += LINE) touch(tensor + at);
        touch(tensor + reader->last - 1);
    }
    for (int64_t i = 0; i < count; i++) {
        if (watched[i].words == 0 || type_of(reader, objects[i]) != watched[i].type) continue;
        const char *tensor = tensor_of(reader, objects[i]), *storage = pointer_at(tensor, reader->first);
        if (storage == watched[i].storage) touch(storage + reader->memory_offset);
        const char *counter = pointer_at(tensor, reader->counter_offset);
        if (counter == watched[i].counter && counter != NULL) touch(counter + reader->version_offset);
    }
    for (int64_t i = 0; i < count; i++) {
        const ral_watched *noted = &watched[i];
        if (noted->words == 0 || noted->bytes == 0 || type_of(reader, objects[i]) != noted->type) continue;
        const char *storage = pointer_at(tensor_of(reader, objects[i]), reader->first);
        if (storage == noted->storage && pointer_at(storage, reader->memory_offset) == noted->memory)
            touch(noted->bytes < SAMPLE ? noted->data : sample_at(noted->data, noted->bytes, round));
    }
}

/* Whether a tensor is as it was noted; -1 where it cannot be read. `sum` is the checksum of its sample of this round. */
static int is_as_noted(const ral_tensor_reader *reader, void *object, const ral_watched *noted, uint64_t sum, int32_t round) {
    if (type_of(reader, object) != noted->type) return 0; /* perhaps no tensor at all */
    const char *tensor = tensor_of(reader, object);
    int64_t version;
    if (noted->words != 0 && words_of(reader, tensor) == noted->words &&
        pointer_at(pointer_at(tensor, reader->first), reader->memory_offset) == noted->memory) {
        if (noted->bytes == 0) return 1;
        version = version_of(reader, pointer_at(tensor, reader->counter_offset));
    } else {
        ral_place place;
        if (!place_of(reader, object, &place)) return -1;
        /* Only a tensor that is where it was may be read: the memory of one that moved may be gone. */
        if (place.data != noted->data || place.layout != noted->layout) return 0;
        if (noted->bytes == 0) return 1;
        version = place.version;
    }
    return version == noted->version && sample(noted->data, noted->bytes, round) == sum;
}

int64_t ral_watch_check(const ral_tensor_reader *reader, void *const *objects, int64_t count, const ral_watched *watched,
                        const uint64_t *sums, int32_t round) {
    sums += round * count;
    for (int64_t first = 0; first < count; first += BATCH) {
        const int64_t end = first + BATCH < count ? first + BATCH : count;
        fetch(reader, objects + first, end - first, watched + first, round);
        for (int64_t i = first; i < end; i++) {
            const int as_noted = is_as_noted(reader, objects[i], &watched[i], sums[i], round);
            if (as_noted != 1) return as_noted == 0 ? i + 1 : -1;
        }
    }
    return 0;
}
