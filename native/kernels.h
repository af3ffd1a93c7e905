// The plain C interface: ensue loads the library with ctypes and hands over addresses. No Python, no torch.
#pragma once
#include <cstdint>

extern "C" {

// Rows of keys anywhere in memory. Steps are counted in elements; of the keys it is the last one.
struct EntmaxCall {
    int64_t dims;             // of the rows, at most 8
    int64_t keys;
    int64_t sizes[8];         // how many rows along each
    int64_t in_steps[9];      // scores forward, weights backward
    int64_t other_steps[9];   // mask forward, gradient of the weights backward
    int64_t alpha_steps[8];
    int64_t out_steps[9];     // weights forward, gradient of the scores backward
    const void* in;
    const void* other;        // forward: one byte a key, 0 = hidden; null where all are seen
    const void* alpha;        // null: `fixed` for all
    void* out;
    void* to_alpha;           // backward: one number a row, in order; null where no gradient in alpha is asked
    double fixed;
};
}
