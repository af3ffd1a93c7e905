// Attention of each event of a history over the few before it, and its gradients: what ensue/tasks/next/models/hidan.py
// computes with masks over all pairs. A weight is the softmax of a product of two rows, or of a number that is looked up
// by the age of the earlier event.
//
// A history's numbers do not depend on which stand beside it. A step's weights end where its latest event stands, so
// that those of an event lie `span` - 1 apart from step to step.
#pragma once
#include "decoder.h"
#include "kernels.h"
#include "vector.h"

namespace ENSUE_ARCH {

// Of the events that a step sees: the first, and how many.
struct Seen {
    int64_t first, count;

    INLINE Seen by(const BandCall& call, int64_t step) {
        const int64_t end = step + call.own, first = end > call.reach ? end - call.reach : 0;
        return {first, end - first};
    }
};

// The interval that an event's age at a step lies in; 0 only at age 0.
INLINE int64_t age_of(const BandCall& call, double step, double event) {
    const double apart = (step > event ? step - event : 0) / call.width;
    if (!(apart < double(call.ages - 1))) return call.ages - 1;
    const int64_t whole = int64_t(apart);
    return whole + (double(whole) < apart);
}

// Columns are `wide` apart, and zero behind the rows.
INLINE void transposed(const float* rows, int64_t count, int64_t dim, int64_t wide, float* columns) {
    std::memset(columns, 0, dim * wide * sizeof(float));
    for (int64_t row = 0; row < count; row++)
        for (int64_t at = 0; at < dim; at++) columns[at * wide + row] = rows[row * dim + at];
}

// Products of one row with `count` columns.
INLINE void products(const float* row, int64_t dim, const float* columns, int64_t wide, int64_t count, float* out) {
    constexpr int L = lanes<float>();
    for (int64_t at = 0; at < count; at += 2 * L) {
        Vec<float> sums[4] = {};
        for (int64_t one = 0; one < dim; one++) {
            const float *from = columns + one * wide + at, factor = row[one];
            Vec<float>* to = sums + 2 * (one % 2);
            to[0] += factor * load<float>(from);
            to[1] += factor * load<float>(from + L);
        }
        float part[2 * L];
        store<float>(part, sums[0] + sums[2]);
        store<float>(part + L, sums[1] + sums[3]);
        std::memcpy(out + at, part, (count - at < 2 * L ? count - at : 2 * L) * sizeof(float));
    }
}

template <int number> struct Number {
    static constexpr int value = number;
};

// out = sum of weights x rows.
INLINE void summed(const float* weights, int64_t step, const float* rows, int64_t count, int64_t dim, float* out) {
    constexpr int L = lanes<float>();
    int64_t at = 0;
    const auto some = [&](auto number) {
        constexpr int parts = decltype(number)::value;
        for (; at + parts * L <= dim; at += parts * L) {
            Vec<float> sums[parts] = {};
            for (int64_t row = 0; row < count; row++)
                for (int part = 0; part < parts; part++)
                    sums[part] += weights[row * step] * load<float>(rows + row * dim + at + part * L);
            for (int part = 0; part < parts; part++) store<float>(out + at + part * L, sums[part]);
        }
    };
    some(Number<4>());
    some(Number<1>());
    for (; at < dim; at++) {
        float total = 0;
        for (int64_t row = 0; row < count; row++) total += weights[row * step] * rows[row * dim + at];
        out[at] = total;
    }
}

// Room: dim x (time + 2 x 16).
void band_forward(const BandCall& call, int64_t row, float* room) {
    const int64_t dim = call.dim, begin = row * call.time, length = call.lengths[row], wide = call.time + 32;
    const double* times = call.times + begin;
    if (!call.scores) transposed(call.keys + begin * dim, length, dim, wide, room);
    for (int64_t step = 0; step < length; step++) {
        const Seen seen = Seen::by(call, step);
        float *weights = call.weights + (begin + step + 1) * call.span - seen.count, *out = call.out + (begin + step) * dim;
        if (!seen.count) continue;
        if (call.scores) {
            const float* scores = call.scores + (begin + seen.first) * call.ages;
            for (int64_t at = 0; at < seen.count; at++)
                weights[at] = scores[at * call.ages + age_of(call, times[step], times[seen.first + at])];
        } else {
            products(call.queries + (begin + step) * dim, dim, room + seen.first, wide, seen.count, weights);
        }
        softmax(weights, seen.count);
        summed(weights, 1, call.values + (begin + seen.first) * dim, seen.count, dim, out);
    }
}

// Room: dim x (time + 2 x 16) + time x span.
void band_backward(const BandCall& call, int64_t row, float* room) {
    const int64_t dim = call.dim, begin = row * call.time, length = call.lengths[row], wide = call.time + 32;
    const double* times = call.times + begin;
    const float *given = call.out + begin * dim, *every = call.weights + begin * call.span;
    float* errors = room + dim * wide;
    transposed(call.values + begin * dim, length, dim, wide, room);
    for (int64_t step = 0; step < length; step++) {
        const Seen seen = Seen::by(call, step);
        const int64_t place = (step + 1) * call.span - seen.count;
        const float* weights = every + place;
        float *own = errors + place, pulled = 0;
        products(given + step * dim, dim, room + seen.first, wide, seen.count, own);
        for (int64_t at = 0; at < seen.count; at++) pulled += weights[at] * own[at];
        for (int64_t at = 0; at < seen.count; at++) own[at] = weights[at] * (own[at] - pulled);
        if (call.scores) {
            float* scores = call.to_scores + (begin + seen.first) * call.ages;
            for (int64_t at = 0; at < seen.count; at++)
                scores[at * call.ages + age_of(call, times[step], times[seen.first + at])] += own[at];
        } else {
            const float* keys = call.keys + (begin + seen.first) * dim;
            summed(own, 1, keys, seen.count, dim, call.to_queries + (begin + step) * dim);
        }
    }
    for (int64_t event = 0; event < length; event++) {  // by which steps it is seen
        const int64_t first = event + 1 - call.own, after = first + call.reach, end = after < length ? after : length;
        if (first >= end) continue;
        const int64_t place = first * (call.span - 1) + call.span - call.own + event;
        summed(every + place, call.span - 1, given + first * dim, end - first, dim, call.to_values + (begin + event) * dim);
        if (call.scores) continue;
        const float* queries = call.queries + (begin + first) * dim;
        summed(errors + place, call.span - 1, queries, end - first, dim, call.to_keys + (begin + event) * dim);
    }
}

}  // namespace ENSUE_ARCH
