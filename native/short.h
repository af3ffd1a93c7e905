// Scores of all items from a table of 16-bit numbers: ensue/nn/item_head.py.
#pragma once
#include "decoder.h"
#include "kernels.h"
#include "rows.h"
#include "vector.h"

namespace ENSUE_ARCH {

// The 16-bit numbers of a query, in pairs, and what 1 of them stands for. As in the table, their length bounds all sums.
float shorten(const float* query, int64_t dim, int16_t* to) {
    double square = 0;
    float largest = 0;
    for (int64_t at = 0; at < dim; at++) {
        const float size = query[at] < 0 ? -query[at] : query[at];
        square += double(size) * size;
        largest = size > largest ? size : largest;
    }
    const double length = __builtin_sqrt(square);
    std::memset(to, 0, (dim + 1) / 2 * 2 * sizeof(int16_t));
    if (!(length > 0 && length <= 3.4e38)) return float(length);  // of zeros, or not finite: it makes all scores so
    const double by_length = SHORT_LENGTH / length, by_largest = 32767 / double(largest);
    const double scale = by_length < by_largest ? by_length : by_largest;
    for (int64_t at = 0; at < dim; at++) to[at] = int16_t(__builtin_lrint(query[at] * scale));
    return float(1 / scale);
}

// Scores of the items of a block for N queries, which are `pairs` apart: SHORT_BLOCK of them side by side, so that no sum is
// taken across a vector. Those of the first item and query are written to `out`, those of the next query `step` further.
template <int N>
INLINE void short_block(const ShortCall& call, int64_t block, const int16_t* queries, const float* scales, float* out,
                        int64_t step) {
    constexpr int L = lanes<float>(), SIDE = N > 1 && L < 16 ? 2 : SHORT_BLOCK / L < 8 ? SHORT_BLOCK / L : 8;
    const int64_t pairs = (call.dim + 1) / 2;
    for (int64_t part = 0; part < SHORT_BLOCK; part += SIDE * L) {
        const int16_t* from = call.table + 2 * (block * pairs * SHORT_BLOCK + part);
        Int<float> sums[N][SIDE] = {};
        for (int64_t at = 0; at < pairs; at++, from += 2 * SHORT_BLOCK) {
            __builtin_prefetch(from + 16 * SHORT_BLOCK);  // a page's first lines are in no pattern that a processor knows
            Int<float> here[SIDE];
            std::memcpy(here, from, sizeof here);
#pragma GCC unroll 4
            for (int one = 0; one < N; one++) {
                int32_t query;
                std::memcpy(&query, queries + 2 * (one * pairs + at), sizeof query);
#pragma GCC unroll 8
                for (int side = 0; side < SIDE; side++) add_pair_products(sums[one][side], here[side], query);
            }
        }
        // All loops over sums are unrolled, so that they stay in registers.
        float totals[N][SIDE * L];
#pragma GCC unroll 4
        for (int one = 0; one < N; one++)
#pragma GCC unroll 8
            for (int side = 0; side < SIDE; side++)
                store<float>(totals[one] + side * L, __builtin_convertvector(sums[one][side], Vec<float>) * scales[one]);
        const int64_t id = block * SHORT_BLOCK + part, left = call.ids - id, count = left < SIDE * L ? left : SIDE * L;
        for (int one = 0; one < N; one++) {
            float* to = out + one * step + part;
            if (count == SIDE * L)
#pragma GCC unroll 8
                for (int at = 0; at < SIDE * L; at += L)
                    store<float>(to + at, load<float>(totals[one] + at) * load<float>(call.steps + id + at) + load<float>(call.bias + id + at));
            else
                for (int64_t at = 0; at < count; at++) to[at] = totals[one][at] * call.steps[id + at] + call.bias[id + at];
        }
    }
}

// Scores of all items for queries `first` to before `last`, block after block of the table, which each query reads once.
void short_scores(const ShortCall& call, int64_t first, int64_t last, const int16_t* queries, const float* scales) {
    const int64_t pairs = (call.dim + 1) / 2;
    for (int64_t block = 0; block * SHORT_BLOCK < call.ids; block++) {
        int64_t row = first;
        float* out = call.out + block * SHORT_BLOCK;
        for (; row + 4 <= last; row += 4)
            short_block<4>(call, block, queries + 2 * row * pairs, scales + row, out + row * call.ids, call.ids);
        for (; row < last; row++)
            short_block<1>(call, block, queries + 2 * row * pairs, scales + row, out + row * call.ids, call.ids);
    }
}

// The highest scores of a query from the items themselves: `exact` and a few more. `peaks` has room for SHORT_GROUPS.
void exact_scores(const ShortCall& call, int64_t row, float* peaks) {
    constexpr int L = lanes<float>();
    float* out = call.out + row * call.ids;
    for (int64_t id = 0; id < call.first && id < call.ids; id++) out[id] = -__builtin_inff();
    // Item `id` is of group id % SHORT_GROUPS, since the best items of a catalogue often stand side by side. As many groups
    // have a score above the bound as are wanted, so at least as many scores are.
    const bool many = call.ids >= 4 * SHORT_GROUPS;
    if (many) {
        std::memcpy(peaks, out, SHORT_GROUPS * sizeof(float));
        for (int64_t id = SHORT_GROUPS; id + L <= call.ids; id += L) {
            float* peak = peaks + id % SHORT_GROUPS;
            store<float>(peak, larger<float>(load<float>(out + id), load<float>(peak)));
        }
    }
    const float bound = kth_highest(many ? peaks : out, many ? SHORT_GROUPS : call.ids, call.exact, true);
    const auto each_above = [&](const auto& body) {
        int64_t id = 0;
        for (; id + 4 * L <= call.ids; id += 4 * L)
            for (uint64_t bits = lanes_above(out + id, bound); bits; bits &= bits - 1) body(id + __builtin_ctzll(bits));
        for (; id < call.ids; id++)
            if (!(out[id] <= bound)) body(id);
    };
    // Rows of the table are far apart in memory, so all are asked for before the first is read.
    each_above([&](int64_t id) {
        for (int64_t at = 0; at < call.dim; at += 16) __builtin_prefetch(call.items + id * call.dim + at, 0, 2);
    });
    each_above([&](int64_t id) {
        if (id < call.first) return;
        out[id] = dot(call.queries + row * call.dim, call.items + id * call.dim, call.dim) * call.factors[id] + call.bias[id];
    });
}

// Candidates for the best items of a query, in the order of their ids.
struct BestItems {
    int64_t count;
    float* scores;
    int32_t* ids;
    float bound;  // a score that is not above it is no candidate any more
};

// What is known of a query after some blocks.
struct BestRow {
    double total;              // sum of exp(score - top) of most scores; the others are in 16 sums
    int64_t next;              // of the hidden ids the first that is not passed
    const uint64_t* permitted; // a bit per id; null where all are permitted
    BestItems all, some;       // candidates among all items, and among those that are permitted
    float top;                 // the highest score so far
};
static_assert(sizeof(BestRow) <= BEST_ROW * sizeof(float));

INLINE void add_candidate(BestItems& items, float score, int64_t id) {
    items.scores[items.count] = score;
    items.ids[items.count++] = int32_t(id);
}

// Leaves the `exact` highest candidates, of equals the earlier.
inline void drop_lower(BestItems& items, int64_t exact) {
    if (items.count <= exact) return;
    const float least = kth_highest(items.scores, items.count, exact, false);
    int64_t equals = exact, kept = 0;
    for (int64_t at = 0; at < items.count; at++) equals -= items.scores[at] > least;
    for (int64_t at = 0; at < items.count && kept < exact; at++)
        if (items.scores[at] > least || (items.scores[at] == least && equals-- > 0)) {
            items.scores[kept] = items.scores[at];
            items.ids[kept++] = items.ids[at];
        }
    items.count = kept;
    items.bound = least;
}

// Takes a block of scores, of which the first is item `id`'s: all into the sum, and the highest as candidates.
INLINE void take_block(const ShortCall& call, BestRow& row, const int64_t* hidden, int64_t id, float* block, float* sums) {
    constexpr int L = lanes<float>();
    constexpr float lowest = -__builtin_inff();
    for (int64_t at = 0; at < SHORT_BLOCK && id + at < call.first; at++) block[at] = lowest;
    for (int64_t at = call.ids - id; at < SHORT_BLOCK; at++) block[at] = lowest;
    for (; row.next < call.many && hidden[row.next] < id + SHORT_BLOCK; row.next++)
        if (hidden[row.next] >= id) block[hidden[row.next] - id] = lowest;
    const uint64_t permitted = row.permitted ? row.permitted[id / SHORT_BLOCK] : 0;  // a word has a bit per item of a block
    for (int64_t part = 0; part < SHORT_BLOCK; part += 4 * L) {
        for (uint64_t bits = lanes_above(block + part, row.all.bound); bits; bits &= bits - 1) {
            const int64_t at = part + __builtin_ctzll(bits);
            if (block[at] > row.top) {
                row.total = (row.total + sum<float>(load<float>(sums))) * __builtin_exp(double(row.top) - block[at]);
                store<float>(sums, Vec<float>{});
                row.top = block[at];
            }
            add_candidate(row.all, block[at], id + at);
        }
        if (!permitted) continue;
        for (uint64_t bits = lanes_above(block + part, row.some.bound) & permitted >> part; bits; bits &= bits - 1) {
            const int64_t at = part + __builtin_ctzll(bits);
            add_candidate(row.some, block[at], id + at);
        }
    }
    if (row.all.count + SHORT_BLOCK > best_room(call.exact)) drop_lower(row.all, call.exact);
    if (row.some.count + SHORT_BLOCK > best_room(call.exact)) drop_lower(row.some, call.exact);
    // NaN passes a clamp whose second number it is, so the total of such a row is none.
    const Vec<float> least = all<float>(Traits<float>::lowest);
    Vec<float> some = load<float>(sums);
#pragma GCC unroll 16
    for (int at = 0; at < SHORT_BLOCK; at += L) some += exp_of<float>(larger<float>(least, load<float>(block + at) - row.top));
    if (id / SHORT_BLOCK % 16 == 15) {  // few numbers at a time in float32
        row.total += sum<float>(some);
        some = Vec<float>{};
    }
    store<float>(sums, some);
}

// The scores of candidates by the items themselves.
inline void score_candidates(const ShortCall& call, int64_t number, const BestItems& items, float* scores) {
    for (int64_t one = 0; one < items.count; one++)
        for (int64_t at = 0; at < call.dim; at += 16) __builtin_prefetch(call.items + items.ids[one] * call.dim + at, 0, 2);
    for (int64_t one = 0; one < items.count; one++) {
        const int32_t id = items.ids[one];
        scores[one] = dot(call.queries + number * call.dim, call.items + id * call.dim, call.dim) * call.factors[id] + call.bias[id];
    }
}

// The best candidates of a query by the items themselves, and the log of its sum. `exact` has room as `scores` of a row has.
inline void take_best(const ShortCall& call, int64_t number, BestRow& row, const float* sums, float* exact) {
    constexpr int L = lanes<float>();
    drop_lower(row.all, call.exact);
    score_candidates(call, number, row.all, exact);
    // The sum holds the rounded scores of the candidates, which the exact ones replace.
    for (int64_t one = row.all.count; one % L; one++) row.all.scores[one] = exact[one] = -__builtin_inff();
    const Vec<float> least = all<float>(Traits<float>::lowest);
    double total = row.total + sum<float>(load<float>(sums));
    for (int64_t one = 0; one < row.all.count; one += L)
        total += sum<float>(exp_of<float>(larger<float>(least, load<float>(exact + one) - row.top)) -
                            exp_of<float>(larger<float>(least, load<float>(row.all.scores + one) - row.top)));
    const bool is_empty = !(row.top > -Traits<float>::most) && total == total;  // NaN never becomes the highest score
    call.totals[number] = is_empty ? -__builtin_inff() : row.top + float(__builtin_log(total));
    // The total is that of all items, whatever is permitted.
    const BestItems& items = row.permitted ? row.some : row.all;
    if (row.permitted) {
        drop_lower(row.some, call.exact);
        score_candidates(call, number, row.some, exact);
    }
    float* best = call.best + number * call.k;
    int64_t* places = call.places + number * call.k;
    const int64_t k = items.count < call.k ? items.count : call.k;
    if (k) highest(exact, items.count, k, best, places);
    for (int64_t place = 0; place < call.k; place++) {
        places[place] = place < k ? items.ids[places[place]] : 0;
        if (place >= k) best[place] = -__builtin_inff();
    }
}

// The best items of queries `first` to before `last`, and the log of the sum of exp of all scores of each, from blocks of
// scores that are made, read and forgotten. `room` has place for what best_size() says.
void best_items(const ShortCall& call, int64_t first, int64_t last, const int16_t* queries, const float* scales, float* room) {
    constexpr int L = lanes<float>();
    const int64_t rows = last - first, pairs = (call.dim + 1) / 2, wide = best_room(call.exact);
    const int64_t words = (call.ids + SHORT_BLOCK - 1) / SHORT_BLOCK;
    BestRow* known = reinterpret_cast<BestRow*>(room);
    float *sums = room + rows * BEST_ROW, *exact = sums + rows * L, *tile = exact + wide, *lists = tile + 4 * SHORT_BLOCK;
    const auto next_list = [&] {
        const BestItems list = {0, lists, reinterpret_cast<int32_t*>(lists + wide), -__builtin_inff()};
        lists += 2 * wide;
        return list;
    };
    for (int64_t row = 0; row < rows; row++) {
        const int64_t filter = call.filters ? call.filter_of[first + row] : 0;
        const uint64_t* permitted = filter < call.filters ? call.permitted + filter * words : nullptr;
        known[row] = {0, 0, permitted, next_list(), permitted ? next_list() : BestItems{}, -Traits<float>::most};
    }
    std::memset(sums, 0, rows * L * sizeof(float));
    for (int64_t block = 0; block * SHORT_BLOCK < call.ids; block++)
        for (int64_t row = 0; row < rows;) {
            const int16_t* query = queries + 2 * (first + row) * pairs;
            const int64_t some = row + 4 <= rows ? 4 : 1;
            if (some == 4)
                short_block<4>(call, block, query, scales + first + row, tile, SHORT_BLOCK);
            else
                short_block<1>(call, block, query, scales + first + row, tile, SHORT_BLOCK);
            for (int64_t one = 0; one < some; one++, row++)
                take_block(call, known[row], call.hidden + (first + row) * call.many, block * SHORT_BLOCK,
                           tile + one * SHORT_BLOCK, sums + row * L);
        }
    for (int64_t row = 0; row < rows; row++) take_best(call, first + row, known[row], sums + row * L, exact);
}

}  // namespace ENSUE_ARCH
