// What reads texts: a bidirectional LSTM's states, additive scores between words, and the centrality of words;
// ensue/nn/recurrent.py, ensue/nn/pooling.py and ensue/nn/centrality.py compute the same.
//
// A text's numbers do not depend on which texts stand beside it: sums over the inputs are taken in order for each row.
#pragma once
#include "decoder.h"
#include "kernels.h"
#include "vector.h"

namespace ENSUE_ARCH {

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

// e^-x, within bounds that leave room for the product of three; what is no number stays so.
INLINE Vec<float> fallen(Vec<float> x) {
    const Vec<float> least = all<float>(-28.0f), most = all<float>(28.0f);
    return exp_of<float>(smaller<float>(most, larger<float>(least, -x)));
}

// The gates of one text, in one after another from `gates`, and its cell: the new cell and state.
INLINE void cell_step(const float* gates, int64_t hidden, float* cell, float* state) {
    constexpr int L = lanes<float>();
    for (int64_t at = 0; at < hidden; at += L) {
        const int64_t count = hidden - at < L ? hidden - at : L;
        const bool whole = count == L;
        const auto gate = [&](int number) {
            const float* from = gates + number * hidden + at;
            return whole ? load<float>(from) : some(from, count);
        };
        // With a = e^-x a sigmoid is 1 / (1 + a), and the tanh of half of x is (1 - a) / (1 + a): one division for all.
        const Vec<float> before = whole ? load<float>(cell + at) : some(cell + at, count);
        const Vec<float> in = fallen(gate(0)), keeps = 1.0f + fallen(gate(1)), in_new = fallen(gate(2));
        const Vec<float> both = (1.0f + in) * (1.0f + in_new);
        const Vec<float> after = (before * both + (1.0f - in_new) * keeps) / (keeps * both);
        const Vec<float> far = fallen(after + after);
        const Vec<float> said = (1.0f - far) / ((1.0f + far) * (1.0f + fallen(gate(3))));
        if (whole) {
            store<float>(cell + at, after);
            store<float>(state + at, said);
        } else {
            keep(cell + at, after, count);
            keep(state + at, said, count);
        }
    }
}

// Texts `first` to `last`, at most LSTM_TILE, in one direction. Room: LSTM_TILE x 6 hidden.
void lstm(const LstmCall& call, int64_t side, int64_t first, int64_t last, float* room) {
    const int64_t hidden = call.hidden, wide = 4 * hidden;
    const float* recurrent = call.recurrent + side * hidden * wide;
    float *states = room, *cells = room + LSTM_TILE * hidden, *gates = cells + LSTM_TILE * hidden;
    std::memset(room, 0, 2 * LSTM_TILE * hidden * sizeof(float));
    int64_t texts[LSTM_TILE], running = last - first, steps = 0;
    for (int64_t at = 0; at < running; at++) {  // longest first, so that those that have ended are the last
        int64_t place = at;
        for (; place && call.lengths[texts[place - 1]] < call.lengths[first + at]; place--) texts[place] = texts[place - 1];
        texts[place] = first + at;
    }
    if (running) steps = call.lengths[texts[0]];
    for (int64_t step = 0; step < steps; step++) {
        while (running && call.lengths[texts[running - 1]] <= step) running--;
        for (int64_t one = 0; one < running; one++) {
            const int64_t text = texts[one], place = side ? call.lengths[text] - 1 - step : step;
            const int64_t item = call.index[text * call.length + place];
            std::memcpy(gates + one * wide, call.projected + (2 * item + side) * wide, wide * sizeof(float));
        }
        if (step) add_product(states, running, hidden, recurrent, wide, wide, gates);
        for (int64_t one = 0; one < running; one++) {
            const int64_t text = texts[one], place = side ? call.lengths[text] - 1 - step : step;
            cell_step(gates + one * wide, hidden, cells + one * hidden, states + one * hidden);
            float* to = call.out + (text * call.length + place) * 2 * hidden + side * hidden;
            std::memcpy(to, states + one * hidden, hidden * sizeof(float));
        }
    }
}

// Numbers of words behind one another, each with zeros up to `wide`, as exp(2 x); whether none is too large.
INLINE bool grown(const float* from, int64_t words, int64_t step, int64_t dim, int64_t wide, float most, float* to) {
    constexpr int L = lanes<float>();
    Vec<float> furthest = {};
    for (int64_t word = 0; word < words; word++)
        for (int64_t at = 0; at < wide; at += L) {
            const int64_t left = dim - at;
            const float* own = from + word * step + at;
            const Vec<float> x = left >= L ? load<float>(own) : some(own, left > 0 ? left : 0);
            furthest = larger<float>(larger<float>(x, -x), furthest);
            const Vec<float> twice = smaller<float>(x + x, all<float>(2 * most));
            store<float>(to + word * wide + at, exp_of<float>(larger<float>(twice, all<float>(-2 * most))));
            furthest = x == x ? furthest : all<float>(Traits<float>::most);
        }
    return largest<float>(furthest) <= most;
}

// Scores of all pairs of words of a text: sum_d w_d tanh(a_id + b_jd). Room: (2 length + 1) x wide, whose last row holds
// -w. Returns whether no number was too large.
//
// tanh x = (y - 1) / (y + 1) with y = exp(2 x), and two of them are added with one division. Above 1e18, where tanh has
// been 1 for long in float32, y stands still, so that no product is too large.
bool pair_scores(const PairCall& call, int64_t text, int64_t wide, float* room) {
    constexpr int L = lanes<float>(), SIDE = 4;  // columns at once: divisions wait for one another otherwise
    const int64_t words = call.lengths[text], begin = text * call.length * call.step;
    float *from = room, *to = from + call.length * wide;
    const float* weights = to + call.length * wide;
    const bool fits = grown(call.receiving + begin, words, call.step, call.dim, wide, call.largest, from) &&
                      grown(call.giving + begin, words, call.step, call.dim, wide, call.largest, to);
    if (!fits) return false;
    for (int64_t row = 0; row < words; row++)
        for (int64_t column = 0; column < words; column += SIDE) {
            const float* others[SIDE];
            for (int64_t one = 0; one < SIDE; one++)
                others[one] = to + (column + one < words ? column + one : column) * wide;
            Vec<float> sums[SIDE] = {};
            for (int64_t at = 0; at < wide; at += 2 * L) {
                const float *own = from + row * wide + at, *weight = weights + at;
                const Vec<float> most = all<float>(1e18f), a = load<float>(own), b = load<float>(own + L);
                for (int one = 0; one < SIDE; one++) {
                    const Vec<float> x = smaller<float>(a * load<float>(others[one] + at), most);
                    const Vec<float> y = smaller<float>(b * load<float>(others[one] + at + L), most);
                    const Vec<float> left = load<float>(weight) * (1.0f - x), right = load<float>(weight + L) * (1.0f - y);
                    sums[one] += (left * (1.0f + y) + right * (1.0f + x)) / ((1.0f + x) * (1.0f + y));
                }
            }
            for (int64_t one = 0; one < SIDE && column + one < words; one++)
                call.out[(text * call.length + row) * call.length + column + one] = sum<float>(sums[one]);
        }
    return true;
}

// The graph of a text's words, and their centrality. Room: 2 x length x (length + L) and length + L.
//
// Row i of `hands` is what word i hands to each. Words are taken out one by one, the last first, and what was handed to
// one is handed on as it would have handed it (Grassmann, Taksar & Heyman 1985). Nothing is subtracted, so small
// centralities are as exact as large ones, and no pivot is looked for.
void word_graph(const GraphCall& call, int64_t text, float* room) {
    constexpr int L = lanes<float>();
    const int64_t length = call.length, words = call.lengths[text], step = (words + L - 1) / L * L;
    const float* scores = call.scores + text * length * length;
    float *weights = call.weights + text * length, *graph = call.graph + text * length * length;
    float *hands = room, *taken = hands + words * step, *shares = taken + words * step;
    std::memset(weights, 0, length * sizeof(float));
    std::memset(graph, 0, length * length * sizeof(float));
    if (!words) return;
    for (int64_t to = 0; to < words; to++)
        for (int64_t from = 0; from < words; from++) hands[from * step + to] = scores[to * length + from];
    const float least = 8 * Traits<float>::eps / words, even = 1.0f / words;  // rounding may leave 0, and graphs in pieces
    for (int64_t from = 0; from < words; from++) {
        float* row = hands + from * step;
        for (int64_t to = words; to < step; to++) row[to] = -Traits<float>::most;
        Vec<float> highest = load<float>(row), total = {};
        for (int64_t at = L; at < step; at += L) highest = larger<float>(highest, load<float>(row + at));
        const float most = largest<float>(highest);
        for (int64_t at = 0; at < step; at += L) {
            const Vec<float> away = load<float>(row + at) - most;
            const Vec<float> grown = exp_of<float>(larger<float>(away, all<float>(Traits<float>::lowest)));
            store<float>(row + at, away == away ? grown : away);
        }
        for (int64_t to = words; to < step; to++) row[to] = 0;
        for (int64_t at = 0; at < step; at += L) total += load<float>(row + at);
        const float share = 1.0f / sum<float>(total);
        for (int64_t at = 0; at < step; at += L) store<float>(row + at, load<float>(row + at) * share);
        for (int64_t to = 0; to < words; to++) graph[to * length + from] = row[to];
        for (int64_t at = 0; at < step; at += L) store<float>(row + at, load<float>(row + at) + least);
    }
    for (int64_t to = 0; to < words; to++)
        for (int64_t from = words; from < length; from++) graph[to * length + from] = even;
    for (int64_t last = words - 1; last > 0; last--) {
        const float* out = hands + last * step;
        float *in = taken + last * step, leaves = 0;
        for (int64_t to = 0; to < last; to++) leaves += out[to];
        for (int64_t from = 0; from < last; from++) {
            float* row = hands + from * step;
            in[from] = row[last] / leaves;
            for (int64_t at = 0; at < last; at += L)  // what is written behind `last` is not read again
                store<float>(row + at, load<float>(row + at) + in[from] * load<float>(out + at));
        }
        for (int64_t at = last; at < step; at++) in[at] = 0;
    }
    for (int64_t at = 0; at < step; at++) shares[at] = at == 0;
    for (int64_t next = 1; next < words; next++) {
        Vec<float> total = {};
        for (int64_t at = 0; at < next; at += L) total += load<float>(taken + next * step + at) * load<float>(shares + at);
        shares[next] = sum<float>(total);
    }
    float total = 0;
    for (int64_t at = 0; at < words; at++) total += shares[at];
    for (int64_t at = 0; at < words; at++) weights[at] = shares[at] / total;
}

}  // namespace ENSUE_ARCH
