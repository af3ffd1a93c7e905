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
constexpr int64_t CACHED = 1 << 16;  // weights that stay in the cache

INLINE int64_t larger_of(int64_t a, int64_t b) { return a > b ? a : b; }

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
    // So many columns that their weights stay in the processor's cache while all rows pass.
    const int64_t some_columns = rows <= TALL || in <= 0 ? out : larger_of(CACHED / in / 64 * 64, int64_t(64));
    for (int64_t column = 0; column < out; column += some_columns) {
        const int64_t wide = out - column < some_columns ? out - column : some_columns;
        for (int64_t row = 0; row < rows; row += TALL) {
            const float *some = x + row * in, *part = w + column;
            float* to = y + row * out + column;
            switch (rows - row < TALL ? rows - row : TALL) {
                case 1: stream<1>(some, in, in, part, w_step, wide, to, out); break;
                case 2: stream<2>(some, in, in, part, w_step, wide, to, out); break;
                case 3: stream<3>(some, in, in, part, w_step, wide, to, out); break;
                case 4: stream<4>(some, in, in, part, w_step, wide, to, out); break;
                case 5: stream<5>(some, in, in, part, w_step, wide, to, out); break;
                default: stream<6>(some, in, in, part, w_step, wide, to, out);
            }
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

// Decoder layers and their sizes.
struct StepCall {
    int64_t dim, heads, wide, length, capacity, layers;
    const StepLayer* layer;
};

// Rows of some sources that make a step together, side by side.
struct StepRows {
    const int64_t* sources;              // which
    int64_t count, rows;                 // of sources, and of the rows of each
    int64_t first;                       // the source whose keys and values are the first
    int64_t before;                      // tokens that each source has read
    const int32_t *places, *counts;      // (count x rows, tokens) which of them each row sees, its own the last; and how many
    int64_t tokens;
};

// What every row of one source reads of the tokens that it sees: mixed (rows, dim), and room for one row's weights.
INLINE void attend(const StepCall& call, const StepLayer& layer, const StepRows& step, int64_t at_source,
                   const float* every, float* mixed, float* weights) {
    const int64_t dim = call.dim, width = dim / call.heads;
    const int64_t start = (step.sources[at_source] - step.first) * call.heads;
    for (int64_t head = 0; head < call.heads; head++) {
        const int64_t offset = ((start + head) * call.capacity + step.before) * width;
        for (int64_t row = 0; row < step.rows; row++) {
            const float* own = every + row * 3 * dim + head * width;
            std::memcpy(layer.keys + offset + row * width, own + dim, width * sizeof(float));
            std::memcpy(layer.values + offset + row * width, own + 2 * dim, width * sizeof(float));
        }
    }
    for (int64_t row = 0; row < step.rows; row++) {
        const int32_t* places = step.places + (at_source * step.rows + row) * step.tokens;
        const int64_t count = step.counts[at_source * step.rows + row];
        for (int64_t head = 0; head < call.heads; head++) {
            const float* keys = layer.keys + (start + head) * call.capacity * width;
            const float* values = layer.values + (start + head) * call.capacity * width;
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

// All layers; `items` (count x rows, dim) are overwritten, `shares` are the weights of the last layer's memory unless null.
// Room: count x rows x (5 dim + wide + heads x length) + tokens. The weights of a layer pass all rows at once.
void step_layers(const StepCall& call, const StepRows& step, float* items, float* shares, float* room) {
    const int64_t each = step.rows, rows = step.count * each, dim = call.dim, slots = call.heads * call.length;
    float *every = room, *mixed = every + rows * 3 * dim, *added = mixed + rows * dim;
    float *wide = added + rows * dim, *slot = wide + rows * call.wide, *weights = slot + rows * slots;
    for (int64_t number = 0; number < call.layers; number++) {
        const StepLayer& layer = call.layer[number];
        product(items, rows, dim, layer.inward, 3 * dim, 3 * dim, layer.inward_bias, every);
        for (int64_t at = 0; at < step.count; at++)
            attend(call, layer, step, at, every + at * each * 3 * dim, mixed + at * each * dim, weights);
        product(mixed, rows, dim, layer.outward, dim, dim, layer.outward_bias, added);
        add_norm(items, added, rows, dim, layer.written);
        for (int64_t at = 0; at < step.count; at++)
            product(items + at * each * dim, each, dim, layer.scores + step.sources[at] * dim * slots, slots, slots,
                    layer.base + step.sources[at] * slots, slot + at * each * slots);
        for (int64_t one = 0; one < rows * call.heads; one++) softmax(slot + one * call.length, call.length);
        for (int64_t at = 0; at < step.count; at++)
            product(slot + at * each * slots, each, slots, layer.outputs + step.sources[at] * slots * dim, dim, dim,
                    layer.output_bias, added + at * each * dim);
        add_norm(items, added, rows, dim, layer.read);
        if (shares && number == call.layers - 1) std::memcpy(shares, slot, rows * slots * sizeof(float));
        product(items, rows, dim, layer.wide, call.wide, call.wide, layer.wide_bias, wide);
        for (int64_t at = 0; at < rows * call.wide; at++) wide[at] = wide[at] > 0 ? wide[at] : 0;
        product(wide, rows, call.wide, layer.narrow, dim, dim, layer.narrow_bias, added);
        add_norm(items, added, rows, dim, layer.fed);
    }
}

}  // namespace ENSUE_ARCH
