// A session as a weighted sum of its items: ensue/tasks/next/models/core.py.
//
// All steps of a few sessions; a session's numbers do not depend on which sessions stand beside it.
#pragma once
#include "decoder.h"
#include "kernels.h"
#include "rows.h"
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

// SANSR's block at one target step, of which only the latest click asks: ensue/tasks/next/models/sansr.py.
//
// Room: `seen` x (5 dim + 1) + 2 dim, for `seen` clicks at most.
void latest_click(const LatestCall& call, int64_t target, float* room) {
    const int64_t dim = call.dim, width = dim / call.heads, length = call.steps[target] + 1;
    const int64_t seen = length < call.reach ? length : call.reach, first = length - seen;
    const int64_t* ids = call.ids + call.rows[target] * call.time + first;
    float *vectors = room, *normed = vectors + seen * dim, *every = normed + seen * dim, *mixed = every + seen * 3 * dim;
    float *wide = mixed + dim, *weights = wide + dim, *mean = call.weights + target * call.time, *to = call.sessions + target * dim;
    const float root = float(__builtin_sqrt(double(dim)));
    for (int64_t event = 0; event < seen; event++) {
        const float *item = call.items + ids[event] * dim, *position = call.positions + (seen - 1 - event) * dim;
        for (int64_t at = 0; at < dim; at++) vectors[event * dim + at] = (item[at] + position[at]) * root;
    }
    std::memcpy(normed, vectors, seen * dim * sizeof(float));
    norm(normed, seen, dim, call.before);
    std::memset(every, 0, seen * 3 * dim * sizeof(float));
    add_product(normed, seen, dim, call.inward, 3 * dim, 3 * dim, every);
    std::memset(mean, 0, call.time * sizeof(float));
    for (int64_t head = 0; head < call.heads; head++) {
        const float *own = every + head * width, *query = own + (seen - 1) * 3 * dim;
        for (int64_t event = 0; event < seen; event++)
            weights[event] = dot(query, own + event * 3 * dim + dim, width) / root;
        softmax(weights, seen);
        for (int64_t event = 0; event < seen; event++) mean[first + event] += weights[event] / float(call.heads);
        add_weighted(weights, seen, own + 2 * dim, 3 * dim, width, mixed + head * width);
    }
    for (int64_t at = 0; at < dim; at++) to[at] = call.residual ? vectors[(seen - 1) * dim + at] : 0.0f;
    add_product(mixed, 1, dim, call.joined, dim, dim, to);
    norm(to, 1, dim, call.after);
    product(to, 1, dim, call.wide, dim, dim, call.wide_bias, wide);
    for (int64_t at = 0; at < dim; at++) {
        wide[at] = wide[at] > 0 ? wide[at] : 0.0f;
        to[at] = call.narrow_bias[at] + (call.residual ? to[at] : 0.0f);
    }
    add_product(wide, 1, dim, call.narrow, dim, dim, to);
}

}  // namespace ENSUE_ARCH
