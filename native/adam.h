// Adam on the rows of a table that a step touched: each is read once and written once.
#pragma once
#include "kernels.h"

namespace ENSUE_ARCH {

void adam_rows(const AdamCall& call, int64_t first, int64_t last) {
    constexpr int64_t AHEAD = 4;  // rows that are fetched before they are moved
    for (int64_t row = first; row < last; row++) {
        const int64_t later = row + AHEAD < last ? call.ids[row + AHEAD] * call.dim : 0;
        for (int64_t at = later; at < later + call.dim; at += 16) {
            __builtin_prefetch(call.weights + at, 1);
            __builtin_prefetch(call.means + at, 1);
            __builtin_prefetch(call.squares + at, 1);
        }
        const float* __restrict grads = call.grads + row * call.dim;
        float* __restrict weights = call.weights + call.ids[row] * call.dim;
        float* __restrict means = call.means + call.ids[row] * call.dim;
        float* __restrict squares = call.squares + call.ids[row] * call.dim;
        for (int64_t at = 0; at < call.dim; at++) {
            const float grad = grads[at] + call.decay * weights[at];
            const float mean = means[at] + call.rest1 * (grad - means[at]);
            const float square = call.beta2 * squares[at] + call.rest2 * grad * grad;
            means[at] = mean, squares[at] = square;
            weights[at] -= call.rate * (mean / (__builtin_sqrtf(square) / call.root + call.eps));
        }
    }
}

}  // namespace ENSUE_ARCH
