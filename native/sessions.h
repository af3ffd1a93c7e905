// A session as a weighted sum of its items, and the scores of all items: ensue/tasks/next/models/core.py.
//
// All steps of a few sessions; a session's numbers do not depend on which sessions stand beside it.
#pragma once
#include "decoder.h"
#include "kernels.h"
#include "vector.h"

namespace ENSUE_ARCH {

INLINE float length_of(const float* x, int64_t dim) {
    const float length = float(__builtin_sqrt(double(dot(x, x, dim))));
    return length > 1e-12f ? length : 1e-12f;
}

// Weights of the events a step sees, nearest last: softmax of query . key x scale + what their distance adds.
INLINE void weigh(const float* query, const float* keys, int64_t key_step, int64_t width, int64_t step, int64_t reach,
                  float scale, const float* by_distance, float* weights) {
    const int64_t first = step >= reach ? step - reach + 1 : 0;
    for (int64_t event = 0; event < first; event++) weights[event] = 0;
    for (int64_t event = first; event <= step; event++)
        weights[event] = dot(query, keys + event * key_step, width) * scale + by_distance[step - event];
    softmax(weights + first, step + 1 - first);
}

INLINE void add_weighted(const float* weights, int64_t count, const float* rows, int64_t row_step, int64_t width, float* to) {
    std::memset(to, 0, width * sizeof(float));
    for (int64_t row = 0; row < count; row++)
        for (int64_t at = 0; at < width; at++) to[at] += weights[row] * rows[row * row_step + at];
}

// Room: time x 10 dim + time.
void session(const SessionCall& call, int64_t row, float* room) {
    const int64_t time = call.lengths[row], dim = call.dim, width = dim / call.heads;
    float *items = room, *vectors = items + time * dim, *normed = vectors + time * dim, *mixed = normed + time * dim;
    float *wide = mixed + time * dim, *every = wide + time * 2 * dim, *weights = every + time * 3 * dim;
    for (int64_t step = 0; step < time; step++) {
        float *item = items + step * dim, *vector = vectors + step * dim;
        std::memcpy(item, call.items + call.ids[row * call.time + step] * dim, dim * sizeof(float));
        const float length = length_of(item, dim), root = float(__builtin_sqrt(double(dim)));
        for (int64_t at = 0; at < dim; at++) vector[at] = item[at] / length * root;
    }
    std::memcpy(normed, vectors, time * dim * sizeof(float));
    norm(normed, time, dim, call.before);
    std::memset(every, 0, time * 3 * dim * sizeof(float));
    add_product(normed, time, dim, call.inward, 3 * dim, 3 * dim, every);
    for (int64_t head = 0; head < call.heads; head++)
        for (int64_t step = 0; step < time; step++) {
            const float* own = every + head * width;
            weigh(own + step * 3 * dim, own + dim, 3 * dim, width, step, call.reach, float(1 / __builtin_sqrt(double(width))),
                  call.by_distance + head * call.reach, weights);
            add_weighted(weights, step + 1, own + 2 * dim, 3 * dim, width, mixed + step * dim + head * width);
        }
    add_product(mixed, time, dim, call.joined, dim, dim, vectors);
    std::memcpy(normed, vectors, time * dim * sizeof(float));
    norm(normed, time, dim, call.after);
    product(normed, time, dim, call.wide, 2 * dim, 2 * dim, call.wide_bias, wide);
    for (int64_t at = 0; at < time * 2 * dim; at++)
        wide[at] *= 0.5f * (1 + __builtin_erff(wide[at] * 0.70710678118654752440f));
    for (int64_t at = 0; at < time * dim; at++) vectors[at] += call.narrow_bias[at % dim];
    add_product(wide, time, 2 * dim, call.narrow, dim, dim, vectors);
    product(vectors, time, dim, call.asking, 2 * dim, 2 * dim, call.asking_bias, every);
    for (int64_t step = 0; step < time; step++) {
        float *own = call.weights + (row * call.time + step) * call.time, *to = call.sessions + (row * call.time + step) * dim;
        weigh(every + step * 2 * dim, every + dim, 2 * dim, dim, step, call.reach, float(1 / __builtin_sqrt(double(dim))),
              call.by_distance + call.heads * call.reach, own);
        add_weighted(own, step + 1, items, dim, dim, to);
        const float length = length_of(to, dim);
        for (int64_t at = 0; at < dim; at++) to[at] /= length;
    }
}

typedef int16_t Shorts __attribute__((vector_size(ENSUE_BYTES / 2)));

INLINE Vec<float> widened(const int16_t* from) {
    Shorts part;
    std::memcpy(&part, from, sizeof part);
    return __builtin_convertvector(part, Vec<float>);
}

// Scores of all items of one query, SHORT_BLOCK of them side by side, so that no sum is taken across a vector.
INLINE void short_scores(const ShortCall& call, const float* query, float* out) {
    constexpr int L = lanes<float>(), SIDE = SHORT_BLOCK / L < 8 ? SHORT_BLOCK / L : 8;
    for (int64_t first = 0; first < call.ids; first += SHORT_BLOCK)
        for (int64_t part = 0; part < SHORT_BLOCK; part += SIDE * L) {
            const int16_t* from = call.table + first * call.dim + part;
            Vec<float> sums[SIDE] = {};
            for (int64_t at = 0; at < call.dim; at++, from += SHORT_BLOCK)
                for (int one = 0; one < SIDE; one++) sums[one] += query[at] * widened(from + one * L);
            float totals[SIDE * L];
            for (int one = 0; one < SIDE; one++) store<float>(totals + one * L, sums[one]);
            const int64_t id = first + part, left = call.ids - id, count = left < SIDE * L ? left : SIDE * L;
            for (int64_t one = 0; one < count; one++) out[id + one] = totals[one] * call.steps[id + one] + call.bias[id + one];
        }
}

// All scores of one query, the highest anew from the items themselves. Room for so many numbers and places.
void all_scores(const ShortCall& call, int64_t row, float* best, int64_t* places) {
    float* out = call.out + row * call.ids;
    short_scores(call, call.queries + row * call.dim, out);
    for (int64_t id = 0; id < call.first && id < call.ids; id++) out[id] = -__builtin_inff();
    highest(out, call.ids, call.exact, best, places);
    for (int64_t place = 0; place < call.exact; place++) {
        const int64_t id = places[place];
        if (id < call.first) continue;
        out[id] = dot(call.queries + row * call.dim, call.items + id * call.dim, call.dim) * call.factors[id] + call.bias[id];
    }
}

}  // namespace ENSUE_ARCH
