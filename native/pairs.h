// Products of bfloat16 numbers, whose sums are of float32.
//
// A row of numbers is folded: the first of its first half beside the first of its second half, two in 32 bits. So is
// every column of a matrix, and what an item's pair and a column's pair give is added in one step.
#pragma once
#include "kernels.h"
#include "vector.h"
#ifdef __AVX512BF16__
#include <immintrin.h>
#endif

namespace ENSUE_ARCH {

constexpr int PAIR_VECTORS = 4;  // vectors of columns whose sums are held at once

INLINE Vec<float> some(const float* from, int64_t count) {
    float part[lanes<float>()] = {};
    std::memcpy(part, from, count * sizeof(float));
    return load<float>(part);
}

INLINE void keep(float* to, Vec<float> value, int64_t count) {
    float part[lanes<float>()];
    store<float>(part, value);
    std::memcpy(to, part, count * sizeof(float));
}

// The nearest bfloat16, an even one of two, in the upper half; what is no number stays none.
INLINE Int<float> rounded(Vec<float> x) {
    const Int<float> bits = (Int<float>)x, number = x == x, kept = bits & number;
    return ((kept + 0x7fff + ((kept >> 16) & 1)) & -65536) | (~number & 0x7fc00000);
}

// A row's numbers in pairs, with zeros up to whole vectors.
INLINE void fold(const float* x, int64_t in, int32_t* to) {
    constexpr int L = lanes<float>();
    const int64_t half = (in + 1) / 2;
    for (int64_t at = 0; at < pair_room(half); at += L) {
        const auto part = [&](int64_t first, int64_t end) {
            const int64_t left = end - first;
            return left >= L ? load<float>(x + first) : left > 0 ? some(x + first, left) : Vec<float>{};
        };
        const Int<float> low = (rounded(part(at, half)) >> 16) & 0xffff, high = rounded(part(half + at, in));
        const Int<float> pairs = low | high;
        std::memcpy(to + at, &pairs, sizeof pairs);
    }
}

INLINE Vec<float> add_pairs(Vec<float> sums, Int<float> columns, int32_t item) {
#ifdef __AVX512BF16__
    return (Vec<float>)_mm512_dpbf16_ps((__m512)sums, (__m512bh)(Int<float>{} + item), (__m512bh)columns);
#else
    const Int<float> items = Int<float>{} + item;
    sums += (Vec<float>)(columns << 16) * (Vec<float>)(items << 16);
    return sums + (Vec<float>)(columns & -65536) * (Vec<float>)(items & -65536);
#endif
}

// Sums of `rows` items and `vectors` vectors of columns, of which `out` are there.
template <int rows, int vectors>
INLINE void add_tile(const int32_t* items, int64_t half, const int32_t* columns, int64_t wide, int64_t out, float* y,
                     int64_t step) {
    constexpr int L = lanes<float>();
    Vec<float> sums[rows][vectors];
    for (int row = 0; row < rows; row++)
        for (int at = 0; at < vectors; at++) {
            const float* from = y + row * step + at * L;
            sums[row][at] = out >= (at + 1) * L ? load<float>(from) : some(from, out - at * L);
        }
    for (int64_t pair = 0; pair < half; pair++) {
        Int<float> weights[vectors];
        for (int at = 0; at < vectors; at++)
            std::memcpy(&weights[at], columns + pair * wide + at * L, sizeof weights[at]);
        for (int row = 0; row < rows; row++) {
            const int32_t item = items[row * pair_room(half) + pair];
            for (int at = 0; at < vectors; at++) sums[row][at] = add_pairs(sums[row][at], weights[at], item);
        }
    }
    for (int row = 0; row < rows; row++)
        for (int at = 0; at < vectors; at++) {
            float* to = y + row * step + at * L;
            if (out >= (at + 1) * L)
                store<float>(to, sums[row][at]);
            else
                keep(to, sums[row][at], out - at * L);
        }
}

template <int rows>
INLINE void add_strip(const int32_t* items, int64_t half, const int32_t* columns, int64_t out, float* y) {
    constexpr int L = lanes<float>();
    const int64_t wide = pair_room(out);
    for (int64_t at = 0; at < out; at += PAIR_VECTORS * L) {
        const int32_t* from = columns + at;
        switch ((out - at + L - 1) / L) {
            case 1: add_tile<rows, 1>(items, half, from, wide, out - at, y + at, out); break;
            case 2: add_tile<rows, 2>(items, half, from, wide, out - at, y + at, out); break;
            case 3: add_tile<rows, 3>(items, half, from, wide, out - at, y + at, out); break;
            default: add_tile<rows, PAIR_VECTORS>(items, half, from, wide, out - at, y + at, out);
        }
    }
}

// y += x w, both rounded; w: (half of `in`, pair_room(out)) pairs. A row's numbers do not depend on how many rows there
// are. Room: PAIR_ROWS x pair_room(half of `in`).
void add_rounded(const float* x, int64_t rows, int64_t in, const int32_t* w, int64_t out, float* y, int32_t* room) {
    const int64_t half = (in + 1) / 2;
    for (int64_t row = 0; row < rows; row += PAIR_ROWS) {
        const int64_t count = rows - row < PAIR_ROWS ? rows - row : PAIR_ROWS;
        for (int64_t one = 0; one < count; one++) fold(x + (row + one) * in, in, room + one * pair_room(half));
        float* to = y + row * out;
        switch (count) {
            case 1: add_strip<1>(room, half, w, out, to); break;
            case 2: add_strip<2>(room, half, w, out, to); break;
            case 3: add_strip<3>(room, half, w, out, to); break;
            case 4: add_strip<4>(room, half, w, out, to); break;
            case 5: add_strip<5>(room, half, w, out, to); break;
            default: add_strip<PAIR_ROWS>(room, half, w, out, to);
        }
    }
}

// Rows `first` to `last` of y = bias + x w.
void rounded_product(const RoundedCall& call, int64_t first, int64_t last, int32_t* room) {
    for (int64_t row = first; row < last; row++)
        std::memcpy(call.y + row * call.out, call.bias, call.out * sizeof(float));
    add_rounded(call.x + first * call.in, last - first, call.in, call.pairs, call.out, call.y + first * call.out, room);
}

}  // namespace ENSUE_ARCH
