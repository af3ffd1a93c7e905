// One step of a Transformer decoder for a few rows, and scores of all tokens: what ensue/nn/incremental.py computes.
//
// With so few rows a step reads every weight and does little with it, so the rows of a matrix are streamed, eight at a
// time, past all rows of the items. Sums over the inputs are taken in order for each row alone, so no row changes
// another's bits.
#pragma once
#include "kernels.h"
#include "vector.h"

namespace ENSUE_ARCH {

constexpr int DEEP = 8;   // rows of a matrix that are read at once
constexpr int TALL = 6;   // rows of items that are held at once

// out += x w for `rows` rows of items (in wide, `x_step` apart), w: in x out, its rows `w_step` apart.
template <int rows>
INLINE void stream(const float* x, int64_t x_step, int64_t in, const float* w, int64_t w_step, int64_t out, float* y,
                   int64_t y_step) {
    constexpr int L = lanes<float>();
    const int64_t whole = out / L * L;
    int64_t from = 0;
    for (; from + DEEP <= in; from += DEEP) {
        const float* part = w + from * w_step;
        for (int64_t at = 0; at < whole; at += L) {
            Vec<float> sums[rows];
            for (int row = 0; row < rows; row++) sums[row] = load<float>(y + row * y_step + at);
            for (int deep = 0; deep < DEEP; deep++) {
                const Vec<float> weight = load<float>(part + deep * w_step + at);
                for (int row = 0; row < rows; row++) sums[row] += weight * x[row * x_step + from + deep];
            }
            for (int row = 0; row < rows; row++) store<float>(y + row * y_step + at, sums[row]);
        }
        for (int64_t at = whole; at < out; at++)
            for (int row = 0; row < rows; row++)
                for (int deep = 0; deep < DEEP; deep++)
                    y[row * y_step + at] += part[deep * w_step + at] * x[row * x_step + from + deep];
    }
    for (; from < in; from++)
        for (int row = 0; row < rows; row++) {
            const float* part = w + from * w_step;
            const float factor = x[row * x_step + from];
            for (int64_t at = 0; at < whole; at += L) {
                float* to = y + row * y_step + at;
                store<float>(to, load<float>(to) + load<float>(part + at) * factor);
            }
            for (int64_t at = whole; at < out; at++) y[row * y_step + at] += part[at] * factor;
        }
}

// y += x w; a row's numbers do not depend on how many rows there are.
void add_product(const float* x, int64_t rows, int64_t in, const float* w, int64_t w_step, int64_t out, float* y) {
    for (int64_t row = 0; row < rows; row += TALL) {
        const float* some = x + row * in;
        float* to = y + row * out;
        switch (rows - row < TALL ? rows - row : TALL) {
            case 1: stream<1>(some, in, in, w, w_step, out, to, out); break;
            case 2: stream<2>(some, in, in, w, w_step, out, to, out); break;
            case 3: stream<3>(some, in, in, w, w_step, out, to, out); break;
            case 4: stream<4>(some, in, in, w, w_step, out, to, out); break;
            case 5: stream<5>(some, in, in, w, w_step, out, to, out); break;
            default: stream<6>(some, in, in, w, w_step, out, to, out);
        }
    }
}

// y = bias + x w.
void product(const float* x, int64_t rows, int64_t in, const float* w, int64_t w_step, int64_t out, const float* bias,
             float* y) {
    for (int64_t row = 0; row < rows; row++) std::memcpy(y + row * out, bias, out * sizeof(float));
    add_product(x, rows, in, w, w_step, out, y);
}

INLINE float dot(const float* a, const float* b, int64_t count) {
    constexpr int L = lanes<float>();
    Vec<float> sums = {};
    int64_t at = 0;
    for (; at + L <= count; at += L) sums += load<float>(a + at) * load<float>(b + at);
    float total = sum<float>(sums);
    for (; at < count; at++) total += a[at] * b[at];
    return total;
}

INLINE void softmax(float* x, int64_t count) {
    constexpr int L = lanes<float>();
    float top = x[0], total = 0;
    for (int64_t at = 1; at < count; at++) top = x[at] > top ? x[at] : top;
    for (int64_t at = 0; at < count; at += L) {
        const int64_t some = count - at < L ? count - at : L;
        float part[L];
        for (int lane = 0; lane < L; lane++) part[lane] = lane < some ? x[at + lane] : -__builtin_inff();
        const Vec<float> shifted = load<float>(part) - top;
        const Vec<float> grown = exp_of<float>(larger<float>(shifted, all<float>(Traits<float>::lowest)));
        store<float>(part, shifted < Traits<float>::lowest ? Vec<float>{} : grown);
        for (int lane = 0; lane < some; lane++) x[at + lane] = part[lane];
    }
    for (int64_t at = 0; at < count; at++) total += x[at];
    for (int64_t at = 0; at < count; at++) x[at] /= total;
}

// x = norm(x)
INLINE void norm(float* x, int64_t rows, int64_t dim, const Norm& norm) {
    for (int64_t row = 0; row < rows; row++, x += dim) {
        constexpr int L = lanes<float>();
        const int64_t whole = dim / L * L;
        Vec<float> sums = {}, squares = {};
        for (int64_t at = 0; at < whole; at += L) sums += load<float>(x + at);
        float mean = sum<float>(sums), square = 0;
        for (int64_t at = whole; at < dim; at++) mean += x[at];
        const float shift = mean / float(dim);
        for (int64_t at = 0; at < whole; at += L) {
            const Vec<float> away = load<float>(x + at) - shift;
            squares += away * away;
        }
        square = sum<float>(squares);
        for (int64_t at = whole; at < dim; at++) square += (x[at] - shift) * (x[at] - shift);
        const float scale = float(1 / __builtin_sqrt(double(square) / double(dim) + norm.eps));
        for (int64_t at = 0; at < dim; at++) x[at] = (x[at] - shift) * scale * norm.weight[at] + norm.bias[at];
    }
}

// x = norm(x + more)
INLINE void add_norm(float* x, const float* more, int64_t rows, int64_t dim, const Norm& of) {
    for (int64_t at = 0; at < rows * dim; at++) x[at] += more[at];
    norm(x, rows, dim, of);
}

// What every row reads of the tokens that its source has read: mixed (rows, dim), and room for one row's weights and
// places. Few tokens of a tree lead to one of its nodes, so those that a row sees are looked up once for all heads.
INLINE void attend(const StepCall& call, const StepLayer& layer, int64_t source, const float* every, float* mixed,
                   float* weights) {
    const int64_t dim = call.dim, width = dim / call.heads, tokens = call.before + call.rows;
    int32_t* places = reinterpret_cast<int32_t*>(weights + tokens);
    for (int64_t head = 0; head < call.heads; head++) {
        float* keys = layer.keys + (source * call.heads + head) * call.capacity * width;
        float* values = layer.values + (source * call.heads + head) * call.capacity * width;
        for (int64_t row = 0; row < call.rows; row++) {
            const float* own = every + row * 3 * dim + head * width;
            std::memcpy(keys + (call.before + row) * width, own + dim, width * sizeof(float));
            std::memcpy(values + (call.before + row) * width, own + 2 * dim, width * sizeof(float));
        }
    }
    for (int64_t row = 0; row < call.rows; row++) {
        const float* seen = call.seen + (source * call.rows + row) * tokens;
        int64_t count = 0;
        for (int64_t at = 0; at < tokens; at++)
            if (!(seen[at] < 0)) places[count++] = static_cast<int32_t>(at);
        for (int64_t head = 0; head < call.heads; head++) {
            const float* keys = layer.keys + (source * call.heads + head) * call.capacity * width;
            const float* values = layer.values + (source * call.heads + head) * call.capacity * width;
            const float* query = every + row * 3 * dim + head * width;
            for (int64_t at = 0; at < count; at++) weights[at] = dot(query, keys + places[at] * width, width);
            softmax(weights, count);
            float* to = mixed + row * dim + head * width;
            std::memset(to, 0, width * sizeof(float));
            for (int64_t at = 0; at < count; at++)
                for (int64_t one = 0; one < width; one++) to[one] += weights[at] * values[places[at] * width + one];
        }
    }
}

// All layers; `items` (sources, rows, dim) are overwritten. Room: rows x (5 dim + wide + heads x length) + 2 x tokens.
void decoder_step(const StepCall& call, float* room) {
    const int64_t rows = call.rows, dim = call.dim, slots = call.heads * call.length;
    float *every = room, *mixed = every + rows * 3 * dim, *added = mixed + rows * dim;
    float *wide = added + rows * dim, *slot = wide + rows * call.wide, *weights = slot + rows * slots;
    for (int64_t number = 0; number < call.layers; number++) {
        const StepLayer& layer = call.layer[number];
        for (int64_t source = 0; source < call.sources; source++) {
            float* items = call.items + source * rows * dim;
            product(items, rows, dim, layer.inward, 3 * dim, 3 * dim, layer.inward_bias, every);
            attend(call, layer, source, every, mixed, weights);
            product(mixed, rows, dim, layer.outward, dim, dim, layer.outward_bias, added);
            add_norm(items, added, rows, dim, layer.written);
            product(items, rows, dim, layer.scores + source * dim * slots, slots, slots, layer.base + source * slots, slot);
            for (int64_t one = 0; one < rows * call.heads; one++) softmax(slot + one * call.length, call.length);
            product(slot, rows, slots, layer.outputs + source * slots * dim, dim, dim, layer.output_bias, added);
            add_norm(items, added, rows, dim, layer.read);
            if (call.weights && number == call.layers - 1)
                std::memcpy(call.weights + source * rows * slots, slot, rows * slots * sizeof(float));
            product(items, rows, dim, layer.wide, call.wide, call.wide, layer.wide_bias, wide);
            for (int64_t at = 0; at < rows * call.wide; at++) wide[at] = wide[at] > 0 ? wide[at] : 0;
            product(wide, rows, call.wide, layer.narrow, dim, dim, layer.narrow_bias, added);
            add_norm(items, added, rows, dim, layer.fed);
        }
    }
}

}  // namespace ENSUE_ARCH
