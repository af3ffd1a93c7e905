// Products of sparse rows, and choices of rows that are unlike each other: ensue/text/sparse.py and
// ensue/tasks/next/reranking.py compute the same, with the sums in the same order.
#include <algorithm>
#include <cmath>
#include <memory>
#include <new>

#include "bounds.h"
#include "kernels.h"

namespace {

// The cells of one row. Their columns are not checked yet.
template <class T> struct Row {
    const int32_t* columns = nullptr;
    const T* values = nullptr;
    int64_t size = -1;  // below 0 if cells of the row lie outside
};

template <class T>
inline Row<T> row_of(const int64_t* stops, const int32_t* columns, const void* values, int64_t row, int64_t cells) {
    const int64_t first = stops[row], last = stops[row + 1];
    if (first < 0 || first > last || last > cells) return {};
    return {columns + first, static_cast<const T*>(values) + first, last - first};
}

// out += value x numbers, both of N numbers, or of `count` where N is 0.
template <class T, int N> inline void add(T value, const T* __restrict numbers, int64_t count, T* __restrict out) {
    for (int64_t place = 0; place < (N ? N : count); place++) out[place] += value * numbers[place];
}

// Adds up the rows of a table that the cells name. Returns whether all of them exist.
template <class T, int N> inline bool gather(const Row<T>& row, const T* table, int64_t width, int64_t count, T* out) {
    if constexpr (N) {
        T sums[N] = {};  // in registers
        for (int64_t at = 0; at < row.size; at++) {
            if (!inside(row.columns[at], width)) return false;
            add<T, N>(row.values[at], table + int64_t(row.columns[at]) * N, N, sums);
        }
        std::copy(sums, sums + N, out);
        return true;
    }
    std::fill_n(out, count, T(0));
    for (int64_t at = 0; at < row.size; at++)
        if (!inside(row.columns[at], width)) return false;
    int64_t at = 0;
    // Sums are read and written once for four cells.
    for (; at + 4 <= row.size; at += 4) {
        const T* values = row.values + at;
        const T *a = table + row.columns[at] * count, *b = table + row.columns[at + 1] * count;
        const T *c = table + row.columns[at + 2] * count, *d = table + row.columns[at + 3] * count;
        for (int64_t place = 0; place < count; place++)
            out[place] = (((out[place] + values[0] * a[place]) + values[1] * b[place]) + values[2] * c[place]) +
                         values[3] * d[place];
    }
    for (; at < row.size; at++) add<T, 0>(row.values[at], table + row.columns[at] * count, count, out);
    return true;
}

// Adds one row of a table to those that the cells name. Returns whether all of them exist.
template <class T, int N> inline bool scatter(const Row<T>& row, const T* numbers, int64_t width, int64_t count, T* table) {
    T own[N ? N : 1];
    if (N) std::copy(numbers, numbers + N, own);
    for (int64_t at = 0; at < row.size; at++) {
        if (!inside(row.columns[at], width)) return false;
        add<T, N>(row.values[at], N ? own : numbers, count, table + row.columns[at] * (N ? N : count));
    }
    return true;
}

template <class T, int N> int64_t times_dense(const SparseDenseCall& call) {
    const T* dense = static_cast<const T*>(call.dense);
    T* out = static_cast<T*>(call.out);
    const int64_t count = N ? N : call.vectors;
    if (call.transposed) std::fill_n(out, call.width * count, T(0));
    for (int64_t row = 0; row < call.rows; row++) {
        const Row<T> cells = row_of<T>(call.stops, call.columns, call.values, row, call.cells);
        if (cells.size < 0) return OUT_OF_RANGE;
        const bool fits = call.transposed ? scatter<T, N>(cells, dense + row * count, call.width, count, out)
                                          : gather<T, N>(cells, dense, call.width, count, out + row * count);
        if (!fits) return OUT_OF_RANGE;
    }
    return 0;
}

template <class T> int64_t times_dense(const SparseDenseCall& call) {
    switch (call.vectors) {
        case 1: return times_dense<T, 1>(call);
        case 2: return times_dense<T, 2>(call);
        case 3: return times_dense<T, 3>(call);
        case 4: return times_dense<T, 4>(call);
        case 5: return times_dense<T, 5>(call);
        case 6: return times_dense<T, 6>(call);
        case 7: return times_dense<T, 7>(call);
        case 8: return times_dense<T, 8>(call);
        default: return times_dense<T, 0>(call);
    }
}

// One row after the other (Gustavson 1978): columns are written as they are met, and reversed at the end of the row.
template <class T> int64_t times_sparse(const SparseProductCall& call) {
    const std::unique_ptr<T[]> sums(new (std::nothrow) T[call.width]);
    const std::unique_ptr<bool[]> is_met(new (std::nothrow) bool[call.width]());
    if (!sums || !is_met) return NO_MEMORY;
    T* out = static_cast<T*>(call.out_values);
    int64_t count = 0;
    call.out_stops[0] = 0;
    for (int64_t row = 0; row < call.rows; row++) {
        const Row<T> cells = row_of<T>(call.stops, call.columns, call.values, row, call.cells);
        if (cells.size < 0) return OUT_OF_RANGE;
        const int64_t first = count;
        for (int64_t at = 0; at < cells.size; at++) {
            if (!inside(cells.columns[at], call.inner)) return OUT_OF_RANGE;
            const Row<T> other =
                row_of<T>(call.other_stops, call.other_columns, call.other_values, cells.columns[at], call.other_cells);
            if (other.size < 0) return OUT_OF_RANGE;
            const T value = cells.values[at];
            for (int64_t place = 0; place < other.size; place++) {
                const int32_t column = other.columns[place];
                if (!inside(column, call.width)) return OUT_OF_RANGE;
                if (is_met[column]) {
                    sums[column] += value * other.values[place];
                    continue;
                }
                if (count == call.room) return OUT_OF_RANGE;
                is_met[column] = true;
                sums[column] = value * other.values[place];
                call.out_columns[count++] = column;
            }
        }
        std::reverse(call.out_columns + first, call.out_columns + count);
        const int64_t last = count;
        count = first;
        for (int64_t at = first; at < last; at++) {
            const int32_t column = call.out_columns[at];
            is_met[column] = false;
            if (sums[column] == 0) continue;
            call.out_columns[count] = column;
            out[count++] = sums[column];
        }
        call.out_stops[row + 1] = count;
    }
    return count;
}

// The value of a cell by its column; 0 where there is none. Columns rise.
inline double value_at(const Row<double>& row, int64_t column) {
    const int32_t* found = std::lower_bound(row.columns, row.columns + row.size, column);
    return found != row.columns + row.size && *found == column ? row.values[found - row.columns] : 0;
}

// Whether all columns of a row exist.
inline bool fits(const Row<double>& row, int64_t width) {
    bool outside = row.size < 0;
    for (int64_t at = 0; at < row.size; at++) outside |= !inside(row.columns[at], width);
    return !outside;
}

struct Candidate {
    double value;  // at least that of the item: chosen items that it was not compared with may lower it
    int64_t place;
};

// Chooses as a loop over all candidates does, which compares each one with every chosen item (Minoux 1978): values only
// fall, so an item whose value is known is the best once no other has a higher bound.
int64_t diversify(const DiversifyCall& call) {
    const std::unique_ptr<Candidate[]> heap(new (std::nothrow) Candidate[call.count]);
    const std::unique_ptr<int64_t[]> compared(new (std::nothrow) int64_t[call.count]());
    const std::unique_ptr<int64_t[]> marked(new (std::nothrow) int64_t[call.kinds]());
    const std::unique_ptr<double[]> dense(new (std::nothrow) double[call.totals ? 0 : call.width]());
    if (!heap || !compared || !marked || !dense) return NO_MEMORY;
    const auto row = [&](int64_t place) { return row_of<double>(call.stops, call.columns, call.values, call.ids[place], call.cells); };
    // Of equal values the earlier candidate is better.
    const auto is_worse = [](const Candidate& a, const Candidate& b) {
        return a.value < b.value || (a.value == b.value && a.place > b.place);
    };
    for (int64_t place = 0; place < call.count; place++) {
        // NaN is neither below nor above another value, and would be compared for ever.
        heap[place] = {std::isnan(call.relevance[place]) ? -HUGE_VAL : call.relevance[place], place};
        if (call.totals ? row(place).size < 0 : !fits(row(place), call.width)) return OUT_OF_RANGE;
    }
    // Columns of cells that are looked up are not followed.
    int64_t size = call.count, num_chosen = 0;
    std::make_heap(heap.get(), heap.get() + size, is_worse);
    while (size && num_chosen < call.k) {
        std::pop_heap(heap.get(), heap.get() + size, is_worse);
        Candidate best = heap[--size];
        const int64_t *mark = nullptr, *last_mark = nullptr;
        if (call.kinds) {
            mark = call.marks + call.mark_stops[best.place];
            last_mark = call.marks + call.mark_stops[best.place + 1];
        }
        const auto is_full = [&](int64_t kind) { return marked[kind] >= call.limits[kind]; };
        if (std::any_of(mark, last_mark, is_full)) continue;  // no later choice lowers a count
        if (compared[best.place] == num_chosen) {
            for (; mark < last_mark; mark++) marked[*mark]++;
            call.chosen[num_chosen++] = best.place;
            continue;
        }
        const Row<double> own = row(best.place);
        if (!call.totals)
            for (int64_t at = 0; at < own.size; at++) dense[own.columns[at]] = own.values[at];
        const double next = size ? heap[0].value : -HUGE_VAL;
        for (int64_t& at = compared[best.place]; at < num_chosen && best.value >= next; at++) {
            const int64_t other_place = call.chosen[at], id = call.ids[best.place], other_id = call.ids[other_place];
            const Row<double> other = row(other_place);
            double similarity = 0;
            if (call.totals)
                similarity = std::max(0.0, value_at(other, id) / std::sqrt(call.totals[other_id] * call.totals[id]));
            else
                for (int64_t cell = 0; cell < other.size; cell++)
                    similarity += dense[other.columns[cell]] * other.values[cell];
            best.value = std::min(best.value, call.relevance[best.place] - call.weight * std::min(similarity, 1.0));
        }
        if (!call.totals)
            for (int64_t at = 0; at < own.size; at++) dense[own.columns[at]] = 0;
        heap[size++] = best;
        std::push_heap(heap.get(), heap.get() + size, is_worse);
    }
    return num_chosen;
}

}  // namespace

EXPORT int64_t ensue_diversify(const DiversifyCall* call) {
    const bool sized = bounded({call->rows}) && bounded({call->width}) && bounded({call->cells}) && bounded({call->count}) &&
                       bounded({call->k}) && bounded({call->kinds}) && bounded({call->num_marks});
    if (!sized || !all_inside(call->ids, call->count, call->rows)) return OUT_OF_RANGE;
    if (call->kinds) {
        if (!all_inside(call->marks, call->num_marks, call->kinds) ||
            !all_inside(call->mark_stops, call->count + 1, call->num_marks + 1) ||
            !std::is_sorted(call->mark_stops, call->mark_stops + call->count + 1))
            return OUT_OF_RANGE;
    }
    return diversify(*call);
}

EXPORT int64_t ensue_sparse_dense(const SparseDenseCall* call, int wide) {
    const bool sized = bounded({call->rows, call->vectors}) && bounded({call->width, call->vectors}) &&
                       bounded({call->cells});
    if (!sized) return OUT_OF_RANGE;
    return wide ? times_dense<double>(*call) : times_dense<float>(*call);
}

EXPORT int64_t ensue_sparse_product(const SparseProductCall* call, int wide) {
    const bool sized = bounded({call->rows}) && bounded({call->inner}) && bounded({call->width}) &&
                       bounded({call->cells}) && bounded({call->other_cells}) && bounded({call->room});
    if (!sized) return OUT_OF_RANGE;
    return wide ? times_sparse<double>(*call) : times_sparse<float>(*call);
}
