// Long rows of scores: logarithms, the log of the sum of exp, and the few highest.
#pragma once
#include "kernels.h"
#include "vector.h"

namespace ENSUE_ARCH {

// log(y) of any y: -inf of 0, NaN below; numbers under the least normal one are made normal first.
INLINE Vec<float> log_any(Vec<float> y) {
    typedef Traits<float> R;
    const Vec<float> none = {};
    const Vec<float> positive = y > none ? y : all<float>(1.0f);  // the bits of no other number go through log_of
    const Int<float> small = positive < R::tiny;
    Vec<float> found = log_of<float>(small ? positive * 33554432.0f : positive, none) - (small ? all<float>(17.3286795f) : none);
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
//
// Where few cells are added to, the others are copied from one row of logarithms. `sums` and `places` have room for `count`.
bool log_mixture(const float* totals, float factor, int64_t rows, int64_t width, const int64_t* cells, const float* added,
                 int64_t count, float* out, float* sums, int64_t* places) {
    if (rows < 2 || 16 * count > rows * width) {
        for (int64_t row = 0; row < rows; row++)
            for (int64_t at = 0; at < width; at++) out[row * width + at] = factor * totals[at];
        for (int64_t at = 0; at < count; at++) {
            if (uint64_t(cells[at]) >= uint64_t(rows * width)) return false;
            out[cells[at]] += added[at];
        }
        log_in_place(out, rows * width);
        return true;
    }
    for (int64_t at = 0; at < width; at++) out[at] = factor * totals[at];
    log_in_place(out, width);
    for (int64_t row = 1; row < rows; row++) std::memcpy(out + row * width, out, width * sizeof(float));
    // Until its sum is complete, a cell holds the number of that sum; -1 where it has none.
    constexpr int32_t none = -1;
    for (int64_t at = 0; at < count; at++) {
        if (uint64_t(cells[at]) >= uint64_t(rows * width)) return false;
        std::memcpy(out + cells[at], &none, sizeof none);
    }
    int32_t number, num_sums = 0;
    for (int64_t at = 0; at < count; at++) {
        std::memcpy(&number, out + cells[at], sizeof number);
        if (number >= 0) continue;
        std::memcpy(out + cells[at], &num_sums, sizeof num_sums);
        places[num_sums] = cells[at];
        sums[num_sums++] = factor * totals[cells[at] % width];
    }
    for (int64_t at = 0; at < count; at++) {
        std::memcpy(&number, out + cells[at], sizeof number);
        sums[number] += added[at];
    }
    log_in_place(sums, num_sums);
    for (number = 0; number < num_sums; number++) out[places[number]] = sums[number];
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

// A score and its place as one number that orders as they do: NaN above all, as torch has it, and of equals the earlier.
INLINE uint64_t order_of(float score, uint32_t place) {
    const float positive = score + 0.0f;  // -0 becomes 0
    uint32_t bits;
    std::memcpy(&bits, &positive, sizeof bits);
    bits = score != score ? ~0u : bits >> 31 ? ~bits : bits | 0x80000000u;
    return uint64_t(bits) << 32 | uint32_t(~place);
}

// The `k` highest, falling, and their places; of equals the earlier. A heap whose root is the lowest of those held.
void highest(const float* numbers, int64_t count, int64_t k, float* best, int64_t* places) {
    constexpr int L = lanes<float>();
    uint64_t* heap = reinterpret_cast<uint64_t*>(places);
    const auto sink = [&](int64_t at, int64_t end, uint64_t order) {
        for (int64_t child; (child = 2 * at + 1) < end; at = child) {
            if (child + 1 < end && heap[child + 1] < heap[child]) child++;
            if (heap[child] > order) break;
            heap[at] = heap[child];
        }
        heap[at] = order;
    };
    for (int64_t at = 0; at < k; at++) heap[at] = order_of(numbers[at], uint32_t(at));
    for (int64_t at = k / 2; at-- > 0;) sink(at, k, heap[at]);
    float least = numbers[uint32_t(~heap[0])];
    const auto take = [&](int64_t place) {
        const uint64_t order = order_of(numbers[place], uint32_t(place));
        if (order < heap[0]) return;
        sink(0, k, order);
        least = numbers[uint32_t(~heap[0])];
    };
    int64_t at = k;
    for (; at + 4 * L <= count; at += 4 * L)
        for (uint64_t bits = lanes_above(numbers + at, least); bits; bits &= bits - 1) take(at + __builtin_ctzll(bits));
    for (; at < count; at++) take(at);
    for (int64_t end = k - 1; end > 0; end--) {
        const uint64_t order = heap[end];
        heap[end] = heap[0];
        sink(0, end, order);
    }
    for (int64_t place = 0; place < k; place++) {
        places[place] = uint32_t(~heap[place]);
        best[place] = numbers[places[place]];
    }
}

// The `k`-th highest of some numbers, of which there are as many, or the one next below it; NaN where that is -inf or none.
float kth_highest(const float* numbers, int64_t count, int64_t k, bool below) {
    constexpr int L = lanes<float>();
    // Bits of a float as a whole number that orders as it does; the same function leads back.
    const auto flipped = [](int32_t bits) { return bits ^ (bits >> 31 & 0x7fffffff); };
    int64_t low = INT32_MIN, high = INT32_MAX;
    while (low < high) {
        const int32_t middle = int32_t((low + high + 1) >> 1);
        Int<float> hits = {};
        int64_t at = 0, reached = 0;
        for (; at + L <= count; at += L) {
            const Int<float> bits = (Int<float>)load<float>(numbers + at);
            hits -= (bits ^ (bits >> 31 & 0x7fffffff)) >= middle;
        }
        for (int lane = 0; lane < L; lane++) reached += hits[lane];
        for (int32_t bits; at < count; at++) {
            std::memcpy(&bits, numbers + at, sizeof bits);
            reached += flipped(bits) >= middle;
        }
        if (reached >= k) low = middle;
        else high = int64_t(middle) - 1;
    }
    const int32_t bits = flipped(int32_t(below && low > INT32_MIN ? low - 1 : low));
    float value;
    std::memcpy(&value, &bits, sizeof value);
    return value;
}

}  // namespace ENSUE_ARCH
