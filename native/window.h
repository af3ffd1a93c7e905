// Attention over windows of a text: products of what each place asks with the rows that it sees, and their sums;
// ensue/tasks/link/models/star.py computes the same.
//
// What is done for a head is done in the order of the places, so that the number of threads, each of which takes some
// heads, changes nothing.
#pragma once
#include "decoder.h"
#include "kernels.h"
#include "vector.h"

namespace ENSUE_ARCH {

INLINE void add(float* to, float times, const float* from, int64_t size) {
    constexpr int L = lanes<float>();
    int64_t at = 0;
    for (; at + L <= size; at += L) store<float>(to + at, load<float>(to + at) + times * load<float>(from + at));
    for (; at < size; at++) to[at] += times * from[at];
}

template <int kind> void window_kind(const WindowCall& call, int64_t first, int64_t last) {
    const int64_t size = call.dim / call.heads, places = call.rows * call.length, near = 2 * call.reach + 1;
    const int64_t keys = near + 1 + (call.relay != nullptr);
    for (int64_t place = 0; place < places; place++) {
        if (!call.mask[place]) continue;
        const int64_t row = place / call.length, begin = row * call.length, end = begin + call.length;
        float* own = call.own + (call.asked ? call.asked[place] : place) * call.own_step;
        for (int64_t key = 0; key < keys; key++) {
            float* other;
            if (key < near) {
                const int64_t there = place + key - call.reach;
                if (there < begin || there >= end || !call.mask[there]) continue;
                other = call.near + (call.asked_near ? call.asked_near[there] : there) * call.near_step;
            } else if (key == near) {
                other = call.first + call.words[place] * call.first_step;
            } else {
                other = call.relay + row * call.relay_step;
            }
            float* weights = call.weights + (key * places + place) * call.heads;
            for (int64_t head = first; head < last; head++) {
                const int64_t at = head * size;
                if (kind == DOTS)
                    weights[head] = dot(own + at, other + at, size);
                else if (weights[head] != 0)  // entmax leaves most of them out
                    kind == SUMS ? add(own + at, weights[head], other + at, size) : add(other + at, weights[head], own + at, size);
            }
        }
    }
}

void window(const WindowCall& call, int64_t kind, int64_t first, int64_t last) {
    if (kind == DOTS) window_kind<DOTS>(call, first, last);
    if (kind == SUMS) window_kind<SUMS>(call, first, last);
    if (kind == SPREAD) window_kind<SPREAD>(call, first, last);
}

}  // namespace ENSUE_ARCH
