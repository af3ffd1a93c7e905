// Checks of sizes and indices, made by each function before it reads or writes. Included by files that are compiled once.
#pragma once
#include <cstdint>
#include <initializer_list>

namespace {

constexpr int64_t MAX_ELEMENTS = int64_t(1) << 48;  // more than any machine holds; sums of such sizes do not overflow

// Whether no size is below 0, and a table of these sizes can exist. A 0 does not hide what the other sizes are.
inline bool bounded(std::initializer_list<int64_t> sizes) {
    int64_t product = 1;
    for (const int64_t size : sizes) {
        if (size < 0 || size > MAX_ELEMENTS / product) return false;
        if (size) product *= size;
    }
    return true;
}

// Whether an index lies in [0, end).
inline bool inside(int64_t index, int64_t end) { return uint64_t(index) < uint64_t(end); }

// Whether all indices lie in [0, end).
inline bool all_inside(const int64_t* indices, int64_t count, int64_t end) {
    bool outside = false;
    for (int64_t at = 0; at < count; at++) outside |= !inside(indices[at], end);
    return !outside;
}

// Whether the lengths of rows lie in [0, longest].
inline bool lengths_fit(const int64_t* lengths, int64_t rows, int64_t longest) {
    return all_inside(lengths, rows, longest + 1);
}

// Whether a width, which is above 0, is cut into so many equal parts.
inline bool divides(int64_t parts, int64_t width) { return parts > 0 && width > 0 && width % parts == 0; }

}  // namespace
