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

// Products of the rows of a tile from `step` on with the columns that they see, each at its column's place in a row of
// `out`.
INLINE void products(const BandCall& call, const float* rows, int64_t step, int64_t length, const float* columns,
                     int64_t wide, float* out) {
    constexpr int L = lanes<float>();
    const float* row[BAND_TILE];
    int64_t last = step;
    for (int some = 0; some < BAND_TILE; some++) {
        row[some] = rows + last * call.dim;
        if (last < length - 1) last++;
    }
    const Seen from = Seen::by(call, step), to = Seen::by(call, last);
    for (int64_t at = from.first / (2 * L) * 2 * L; at < to.first + to.count; at += 2 * L) {
        Vec<float> sums[BAND_TILE][2] = {};
        for (int64_t one = 0; one < call.dim; one++) {
            const Vec<float> left = load<float>(columns + one * wide + at), right = load<float>(columns + one * wide + at + L);
            for (int some = 0; some < BAND_TILE; some++) {
                sums[some][0] += row[some][one] * left;
                sums[some][1] += row[some][one] * right;
            }
        }
        for (int some = 0; some < BAND_TILE; some++) {
            store<float>(out + some * wide + at, sums[some][0]);
            store<float>(out + some * wide + at + L, sums[some][1]);
        }
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

// Room: (dim + BAND_TILE) x two_vectors(time).
void band_forward(const BandCall& call, int64_t row, float* room) {
    const int64_t dim = call.dim, begin = row * call.time, length = call.lengths[row], wide = two_vectors(call.time);
    float* found = room + dim * wide;
    const double* times = call.times + begin;
    if (!call.scores) transposed(call.keys + begin * dim, length, dim, wide, room);
    for (int64_t step = 0; step < length; step++) {
        const Seen seen = Seen::by(call, step);
        float *weights = call.weights + (begin + step + 1) * call.span - seen.count, *out = call.out + (begin + step) * dim;
        if (!call.scores && step % BAND_TILE == 0)
            products(call, call.queries + begin * dim, step, length, room, wide, found);
        if (!seen.count) continue;
        if (call.scores) {
            const float* scores = call.scores + (begin + seen.first) * call.ages;
            for (int64_t at = 0; at < seen.count; at++)
                weights[at] = scores[at * call.ages + age_of(call, times[step], times[seen.first + at])];
        } else {
            std::memcpy(weights, found + step % BAND_TILE * wide + seen.first, seen.count * sizeof(float));
        }
        softmax(weights, seen.count);
        summed(weights, 1, call.values + (begin + seen.first) * dim, seen.count, dim, out);
    }
}

// The same room, and time x span.
void band_backward(const BandCall& call, int64_t row, float* room) {
    const int64_t dim = call.dim, begin = row * call.time, length = call.lengths[row], wide = two_vectors(call.time);
    const double* times = call.times + begin;
    const float *given = call.out + begin * dim, *every = call.weights + begin * call.span;
    float *found = room + dim * wide, *errors = found + BAND_TILE * wide;
    transposed(call.values + begin * dim, length, dim, wide, room);
    for (int64_t step = 0; step < length; step++) {
        const Seen seen = Seen::by(call, step);
        const int64_t place = (step + 1) * call.span - seen.count;
        const float *weights = every + place, *slopes = found + step % BAND_TILE * wide + seen.first;
        float *own = errors + place, pulled = 0;
        if (step % BAND_TILE == 0) products(call, given, step, length, room, wide, found);
        for (int64_t at = 0; at < seen.count; at++) pulled += weights[at] * slopes[at];
        for (int64_t at = 0; at < seen.count; at++) own[at] = weights[at] * (slopes[at] - pulled);
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
