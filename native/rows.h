// Long rows of scores: logarithms, the log of the sum of exp, and the few highest.
#pragma once
#include "kernels.h"
#include "vector.h"

namespace ENSUE_ARCH {

// log(y) of any y: -inf of 0, NaN below; numbers under the least normal one are made normal first.
INLINE Vec<float> log_any(Vec<float> y) {
    typedef Traits<float> R;
    const Vec<float> none = {};
    const Int<float> small = y < R::tiny;
    Vec<float> found = log_of<float>(small ? y * 33554432.0f : y, none) - (small ? all<float>(17.3286795f) : none);
    found = y == none ? all<float>(-__builtin_inff()) : found;
    found = (y < none) | (y != y) ? all<float>(__builtin_nanf("")) : found;
    return y == all<float>(__builtin_inff()) ? y : found;
}

// Every number becomes its logarithm.
void log_in_place(float* numbers, int64_t count) {
    constexpr int L = lanes<float>();
    int64_t at = 0;
    for (; at + L <= count; at += L) store<float>(numbers + at, log_any(load<float>(numbers + at)));
    if (at < count) {
        float rest[L] = {};
        std::memcpy(rest, numbers + at, (count - at) * sizeof(float));
        store<float>(rest, log_any(load<float>(rest)));
        std::memcpy(numbers + at, rest, (count - at) * sizeof(float));
    }
}

// Rows of log(factor x totals + what is added to some cells of them). Returns whether all cells lie in the rows.
bool log_mixture(const float* totals, float factor, int64_t rows, int64_t width, const int64_t* cells, const float* added,
                 int64_t count, float* out) {
    for (int64_t row = 0; row < rows; row++)
        for (int64_t at = 0; at < width; at++) out[row * width + at] = factor * totals[at];
    for (int64_t at = 0; at < count; at++) {
        if (uint64_t(cells[at]) >= uint64_t(rows * width)) return false;
        out[cells[at]] += added[at];
    }
    log_in_place(out, rows * width);
    return true;
}

// log(sum_i exp(x_i)); NaN where a number is none.
float log_total(const float* numbers, int64_t count) {
    constexpr int L = lanes<float>();
    constexpr float lowest = -__builtin_inff();
    const int64_t whole = count / L * L;
    float rest[L];
    for (int lane = 0; lane < L; lane++) rest[lane] = whole + lane < count ? numbers[whole + lane] : lowest;
    Vec<float> tops = load<float>(rest);
    Int<float> wrong = tops != tops;
    for (int64_t at = 0; at < whole; at += L) {
        const Vec<float> part = load<float>(numbers + at);
        wrong |= part != part;
        tops = larger<float>(part, tops);
    }
    if (any<float>(wrong)) return __builtin_nanf("");
    const float top = largest<float>(tops);
    if (!(top > lowest) || top == __builtin_inff()) return top;
    double total = 0;
    const Vec<float> least = all<float>(Traits<float>::lowest);
    for (int64_t at = 0; at < whole;) {
        Vec<float> some = {};  // few numbers at a time in float32
        for (const int64_t end = at + 64 * L < whole ? at + 64 * L : whole; at < end; at += L)
            some += exp_of<float>(larger<float>(load<float>(numbers + at) - top, least));
        total += sum<float>(some);
    }
    total += sum<float>(load<float>(rest) > lowest ? exp_of<float>(larger<float>(load<float>(rest) - top, least)) : Vec<float>{});
    return top + float(__builtin_log(total));
}

// Scores with their biases become e = exp(score - the highest). Returns their sum; `log_sum` is that of exp(score).
float exponentials(float* scores, const float* bias, int64_t count, float* log_sum) {
    constexpr int L = lanes<float>();
    const int64_t whole = count / L * L, left = count - whole;
    Vec<float> tops = all<float>(-__builtin_inff()), sums = {};
    for (int64_t at = 0; at < whole; at += L) {
        const Vec<float> part = load<float>(scores + at) + load<float>(bias + at);
        store<float>(scores + at, part);
        tops = larger<float>(part, tops);
    }
    float rest[L];
    for (int lane = 0; lane < L; lane++) rest[lane] = lane < left ? scores[whole + lane] + bias[whole + lane] : -__builtin_inff();
    const float top = largest<float>(larger<float>(load<float>(rest), tops));
    const Vec<float> least = all<float>(Traits<float>::lowest);
    const auto grown = [&](const float* from) { return exp_of<float>(larger<float>(least, load<float>(from) - top)); };
    for (int64_t at = 0; at < whole; at += L) {
        const Vec<float> part = grown(scores + at);
        store<float>(scores + at, part);
        sums += part;
    }
    store<float>(rest, grown(rest));
    float total = sum<float>(sums);
    for (int64_t lane = 0; lane < left; lane++) total += scores[whole + lane] = rest[lane];
    *log_sum = top + float(__builtin_log(total));
    return total;
}

// out = in x `scale` where a unit's level is at least `least`, and in x 0 elsewhere.
void dropped(const float* in, const int16_t* levels, int64_t count, int16_t least, float scale, float* out) {
    for (int64_t at = 0; at < count; at++) out[at] = in[at] * (levels[at] >= least ? scale : 0.0f);
}

// The same of their ELU, e^x - 1 below 0.
void dropped_elu(const float* in, const int16_t* levels, int64_t count, int16_t least, float scale, float* out) {
    constexpr int L = lanes<float>();
    const Vec<float> none = {}, lowest = all<float>(Traits<float>::lowest);
    const auto grown = [&](const float* from, float* to) {
        const Vec<float> unit = load<float>(from);
        Vec<float> growth, above;
        growth_of<float>(larger<float>(lowest, smaller<float>(none, unit)), growth, above);
        store<float>(to, unit < none ? growth : unit);
    };
    int64_t at = 0;
    for (; at + L <= count; at += L) grown(in + at, out + at);
    float rest[L] = {};
    std::memcpy(rest, in + at, (count - at) * sizeof(float));
    grown(rest, rest);
    std::memcpy(out + at, rest, (count - at) * sizeof(float));
    dropped(out, levels, count, least, scale, out);
}

// The way back from its `units`: out = gradient x slope.
void dropped_elu_errors(const float* grad, const float* units, const int16_t* levels, int64_t count, int16_t least,
                        float scale, float* out) {
    for (int64_t at = 0; at < count; at++) {
        const float slope = units[at] < 0 ? scale + units[at] : scale;
        out[at] = grad[at] * (levels[at] >= least ? slope : 0.0f);
    }
}

// NaN above all, as torch has it.
INLINE bool above(float a, float b) { return a > b || (a != a && b == b); }

// The `k` highest, falling, and their places; of equals the earlier. A heap whose root is the lowest of those held.
void highest(const float* numbers, int64_t count, int64_t k, float* best, int64_t* places) {
    constexpr int L = lanes<float>();
    int64_t held = 0;
    const auto lower = [&](int64_t a, int64_t b) {
        return above(best[b], best[a]) || (!above(best[a], best[b]) && places[a] > places[b]);
    };
    const auto swap = [&](int64_t a, int64_t b) {
        const float value = best[a];
        const int64_t place = places[a];
        best[a] = best[b], places[a] = places[b], best[b] = value, places[b] = place;
    };
    const auto sink = [&](int64_t at, int64_t end) {
        for (int64_t child; (child = 2 * at + 1) < end; at = child) {
            if (child + 1 < end && lower(child + 1, child)) child++;
            if (!lower(child, at)) return;
            swap(child, at);
        }
    };
    const auto take = [&](int64_t place) {
        if (held < k) {
            best[held] = numbers[place], places[held] = place;
            for (int64_t at = held++; at && lower(at, (at - 1) / 2); at = (at - 1) / 2) swap(at, (at - 1) / 2);
        } else if (above(numbers[place], best[0])) {
            best[0] = numbers[place], places[0] = place;
            sink(0, k);
        }
    };
    int64_t at = 0;
    for (; at < count && held < k; at++) take(at);
    for (; at + 4 * L <= count; at += 4 * L) {
        const Vec<float> least = all<float>(best[0]);
        Int<float> some = {};
        for (int part = 0; part < 4; part++) {
            const Vec<float> here = load<float>(numbers + at + part * L);
            some |= (here > least) | (here != here);
        }
        if (any<float>(some))
            for (int64_t one = at; one < at + 4 * L; one++) take(one);
    }
    for (; at < count; at++) take(at);
    for (int64_t end = k - 1; end > 0; end--) {
        swap(0, end);
        sink(0, end);
    }
}

}  // namespace ENSUE_ARCH
