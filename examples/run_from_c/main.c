/* Runs a compiled program without Python: reads its one f32 input from standard input and prints its f32 outputs.
 * In Python, anyshape.compile(model, example).write_objects("out") leaves its objects; RAL is the folder anyshape/runtime.
 *     cc -I $RAL main.c out/kernels_*.o out/program.o out/microkernels*.o $RAL/ral*.c -lpthread -lm -o run
 *     echo 1 2 3 4 5 6 | ./run out/constants.bin 2 3        # an input of sizes [2, 3]
 */
#include <stdio.h>
#include <stdlib.h>

#include "ral.h"

enum { MAX_RANK = 8 };
extern const ral_program anyshape_program;
typedef struct { float *data; int64_t count; } output;

static void *allocate(void *user, int32_t index, int32_t dtype, int32_t rank, const int64_t *sizes,
                      const int64_t *strides) {
    output *out = (output *)user + index;
    out->count = rank > 0 ? sizes[0] * strides[0] : 1;
    return out->data = dtype == RAL_F32 ? malloc((size_t)out->count * sizeof(float)) : NULL;
}

int main(int argc, char **argv) {
    if (argc < 2 || argc > 2 + MAX_RANK) return fprintf(stderr, "usage: %s constants.bin [size ...]\n", argv[0]), 2;
    int64_t sizes[MAX_RANK], strides[MAX_RANK], count = 1;
    for (int axis = argc - 3; axis >= 0; axis--) {
        sizes[axis] = atoll(argv[axis + 2]), strides[axis] = count;
        count *= sizes[axis];
    }
    float *x = malloc((size_t)count * sizeof *x);
    for (int64_t i = 0; i < count; i++)
        if (scanf("%f", &x[i]) != 1) return fprintf(stderr, "expected %lld numbers\n", (long long)count), 2;

    ral_context *context = ral_context_create(0);
    void **constants = calloc((size_t)anyshape_program.constant_count + 1, sizeof *constants), *mapping;
    size_t mapped;
    output *outputs = calloc((size_t)anyshape_program.output_count, sizeof *outputs);
    const ral_tensor input = {x, sizes, strides, argc - 2, RAL_F32};
    const ral_call call = {&input, 1, allocate, outputs};
    if (ral_map_constants(context, argv[1], &anyshape_program, constants, &mapping, &mapped) != RAL_OK ||
        ral_run(context, &anyshape_program, constants, &call) != RAL_OK)
        return fprintf(stderr, "%s\n", ral_error(context)), 1;
    for (int32_t o = 0; o < anyshape_program.output_count; o++)
        for (int64_t i = 0; i < outputs[o].count; i++) printf("%.6g\n", outputs[o].data[i]);
    return 0; /* the process ends: memory, mapping and threads go with it */
}
