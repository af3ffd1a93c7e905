// Transformer encoder layers for few items, packed row by row: EncoderLayer of ensue/nn/transformer.py.
#pragma once
#include "decoder.h"
#include "kernels.h"
#include "vector.h"

namespace ENSUE_ARCH {

// What every item receives of the items of its row that it sees: mixed (items, dim), and room for weights and places.
INLINE void attend_rows(const EncodeCall& call, const float* every, float* mixed, float* weights) {
    const int64_t dim = call.dim, width = dim / call.heads, length = call.length;
    int32_t* seen = reinterpret_cast<int32_t*>(weights + length);
    int64_t first = 0;
    for (int64_t item = 0; item < call.items; item++) {
        const int64_t row = call.places[item] / length, place = call.places[item] % length;
        while (call.places[first] / length < row) first++;
        const uint8_t* mask = call.mask + row * call.row_step + place * call.query_step;
        int64_t count = 0;
        for (int64_t key = first; key < call.items && call.places[key] / length == row; key++)
            if (mask[call.places[key] % length]) seen[count++] = static_cast<int32_t>(key);
        for (int64_t head = 0; head < call.heads; head++) {
            const float *query = every + item * 3 * dim + head * width, *keys = every + dim + head * width;
            for (int64_t at = 0; at < count; at++) weights[at] = dot(query, keys + seen[at] * 3 * dim, width);
            softmax(weights, count);
            float* to = mixed + item * dim + head * width;
            std::memset(to, 0, width * sizeof(float));
            for (int64_t at = 0; at < count; at++) {
                const float* value = keys + dim + seen[at] * 3 * dim;
                for (int64_t one = 0; one < width; one++) to[one] += weights[at] * value[one];
            }
        }
    }
}

// All layers; `states` (items, dim) are overwritten. Room: items x (5 dim + wide) + 2 x length.
void encode(const EncodeCall& call, float* room) {
    const int64_t items = call.items, dim = call.dim;
    float *every = room, *mixed = every + items * 3 * dim, *added = mixed + items * dim;
    float *wide = added + items * dim, *weights = wide + items * call.wide;
    for (int64_t number = 0; number < call.layers; number++) {
        const StepLayer& layer = call.layer[number];
        product(call.states, items, dim, layer.inward, 3 * dim, 3 * dim, layer.inward_bias, every);
        attend_rows(call, every, mixed, weights);
        product(mixed, items, dim, layer.outward, dim, dim, layer.outward_bias, added);
        add_norm(call.states, added, items, dim, layer.written);
        product(call.states, items, dim, layer.wide, call.wide, call.wide, layer.wide_bias, wide);
        for (int64_t at = 0; at < items * call.wide; at++) wide[at] = wide[at] > 0 ? wide[at] : 0;
        product(wide, items, call.wide, layer.narrow, dim, dim, layer.narrow_bias, added);
        add_norm(call.states, added, items, dim, layer.fed);
    }
}

}  // namespace ENSUE_ARCH
