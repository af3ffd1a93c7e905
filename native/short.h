// Scores of all items from a table of 16-bit numbers: ensue/nn/item_head.py.
#pragma once
#include "decoder.h"
#include "kernels.h"
#include "rows.h"
#include "vector.h"

namespace ENSUE_ARCH {

// The 16-bit numbers of a query, in pairs, and what 1 of them stands for. As in the table, their length bounds all sums.
float shorten(const float* query, int64_t dim, int16_t* to) {
    double square = 0;
    float largest = 0;
    for (int64_t at = 0; at < dim; at++) {
        const float size = query[at] < 0 ? -query[at] : query[at];
        square += double(size) * size;
        largest = size > largest ? size : largest;
    }
    const double length = __builtin_sqrt(square);
    std::memset(to, 0, (dim + 1) / 2 * 2 * sizeof(int16_t));
    if (!(length > 0 && length <= 3.4e38)) return float(length);  // of zeros, or not finite: it makes all scores so
    const double by_length = SHORT_LENGTH / length, by_largest = 32767 / double(largest);
    const double scale = by_length < by_largest ? by_length : by_largest;
    for (int64_t at = 0; at < dim; at++) to[at] = int16_t(__builtin_lrint(query[at] * scale));
    return float(1 / scale);
}

// Scores of the items of a block for N queries, which are `pairs` apart: SHORT_BLOCK of them side by side, so that no sum is
// taken across a vector.
template <int N>
INLINE void short_block(const ShortCall& call, int64_t block, const int16_t* queries, const float* scales, float* out) {
    constexpr int L = lanes<float>(), SIDE = N > 1 && L < 16 ? 2 : SHORT_BLOCK / L < 8 ? SHORT_BLOCK / L : 8;
    const int64_t pairs = (call.dim + 1) / 2;
    for (int64_t part = 0; part < SHORT_BLOCK; part += SIDE * L) {
        const int16_t* from = call.table + 2 * (block * pairs * SHORT_BLOCK + part);
        Int<float> sums[N][SIDE] = {};
        for (int64_t at = 0; at < pairs; at++, from += 2 * SHORT_BLOCK) {
            __builtin_prefetch(from + 16 * SHORT_BLOCK);  // a page's first lines are in no pattern that a processor knows
            Int<float> here[SIDE];
            std::memcpy(here, from, sizeof here);
#pragma GCC unroll 4
            for (int one = 0; one < N; one++) {
                int32_t query;
                std::memcpy(&query, queries + 2 * (one * pairs + at), sizeof query);
#pragma GCC unroll 8
                for (int side = 0; side < SIDE; side++) add_pair_products(sums[one][side], here[side], query);
            }
        }
        // All loops over sums are unrolled, so that they stay in registers.
        float totals[N][SIDE * L];
#pragma GCC unroll 4
        for (int one = 0; one < N; one++)
#pragma GCC unroll 8
            for (int side = 0; side < SIDE; side++)
                store<float>(totals[one] + side * L, __builtin_convertvector(sums[one][side], Vec<float>) * scales[one]);
        const int64_t id = block * SHORT_BLOCK + part, left = call.ids - id, count = left < SIDE * L ? left : SIDE * L;
        for (int one = 0; one < N; one++) {
            float* to = out + one * call.ids + id;
            if (count == SIDE * L)
#pragma GCC unroll 8
                for (int at = 0; at < SIDE * L; at += L)
                    store<float>(to + at, load<float>(totals[one] + at) * load<float>(call.steps + id + at) + load<float>(call.bias + id + at));
            else
                for (int64_t at = 0; at < count; at++) to[at] = totals[one][at] * call.steps[id + at] + call.bias[id + at];
        }
    }
}

// Scores of all items for queries `first` to before `last`, block after block of the table, which each query reads once.
void short_scores(const ShortCall& call, int64_t first, int64_t last, const int16_t* queries, const float* scales) {
    const int64_t pairs = (call.dim + 1) / 2;
    for (int64_t block = 0; block * SHORT_BLOCK < call.ids; block++) {
        int64_t row = first;
        for (; row + 4 <= last; row += 4)
            short_block<4>(call, block, queries + 2 * row * pairs, scales + row, call.out + row * call.ids);
        for (; row < last; row++)
            short_block<1>(call, block, queries + 2 * row * pairs, scales + row, call.out + row * call.ids);
    }
}

// The highest scores of a query from the items themselves: `exact` and a few more. `peaks` has room for SHORT_GROUPS.
void exact_scores(const ShortCall& call, int64_t row, float* peaks) {
    constexpr int L = lanes<float>();
    float* out = call.out + row * call.ids;
    for (int64_t id = 0; id < call.first && id < call.ids; id++) out[id] = -__builtin_inff();
    // Item `id` is of group id % SHORT_GROUPS, since the best items of a catalogue often stand side by side. As many groups
    // have a score above the bound as are wanted, so at least as many scores are.
    const bool many = call.ids >= 4 * SHORT_GROUPS;
    if (many) {
        std::memcpy(peaks, out, SHORT_GROUPS * sizeof(float));
        for (int64_t id = SHORT_GROUPS; id + L <= call.ids; id += L) {
            float* peak = peaks + id % SHORT_GROUPS;
            store<float>(peak, larger<float>(load<float>(out + id), load<float>(peak)));
        }
    }
    const float bound = below_highest(many ? peaks : out, many ? SHORT_GROUPS : call.ids, call.exact);
    const auto each_above = [&](const auto& body) {
        int64_t id = 0;
        for (; id + 4 * L <= call.ids; id += 4 * L)
            for (uint64_t bits = lanes_above(out + id, bound); bits; bits &= bits - 1) body(id + __builtin_ctzll(bits));
        for (; id < call.ids; id++)
            if (!(out[id] <= bound)) body(id);
    };
    // Rows of the table are far apart in memory, so all are asked for before the first is read.
    each_above([&](int64_t id) {
        for (int64_t at = 0; at < call.dim; at += 16) __builtin_prefetch(call.items + id * call.dim + at, 0, 2);
    });
    each_above([&](int64_t id) {
        if (id < call.first) return;
        out[id] = dot(call.queries + row * call.dim, call.items + id * call.dim, call.dim) * call.factors[id] + call.bias[id];
    });
}

}  // namespace ENSUE_ARCH
