// Numbers for values by their hashes; ensue/data/sequences/codes.py does the same by polars' categories.
#include "bounds.h"
#include "kernels.h"

namespace {

constexpr int64_t AHEAD = 16;  // rows whose places in the table are fetched before they are looked at

// The place of a value in the table, or the empty one where it belongs.
CodeSlot* place_of(const CodesCall& call, uint64_t first, uint64_t second) {
    const uint64_t mask = static_cast<uint64_t>(call.slots) - 1;
    uint64_t at = first & mask;
    const uint32_t rest = static_cast<uint32_t>(second);
    while (call.table[at].above && (call.table[at].first != first || call.table[at].rest != rest))
        at = (at + 1) & mask;
    return call.table + at;
}

// Whether a table has a power of two of slots, so that a hash cut to their number is one of them.
bool is_table(int64_t slots) { return bounded({slots, 16}) && slots > 0 && !(slots & (slots - 1)); }

}  // namespace

// Returns how many values were not in the table; they get the next numbers as they come.
extern "C" __attribute__((visibility("default"))) int64_t ensue_codes(const CodesCall* call) {
    const int64_t most = call->slots < INT32_MAX ? call->slots : INT32_MAX;  // a number and 1 more fit into 32 bits
    if (!is_table(call->slots) || call->rows < 0 || call->next < 0 || call->next >= most || call->rows >= most - call->next)
        return OUT_OF_RANGE;
    int64_t fresh = 0;
    for (int64_t low = 0; low < call->rows; low += AHEAD) {
        const int64_t high = low + AHEAD < call->rows ? low + AHEAD : call->rows;
        for (int64_t row = low; row < high; row++)
            __builtin_prefetch(call->table + (call->first[row] & (static_cast<uint64_t>(call->slots) - 1)), 1);
        for (int64_t row = low; row < high; row++) {
            CodeSlot* slot = place_of(*call, call->first[row], call->second[row]);
            if (!slot->above) {
                call->fresh[fresh++] = row;
                const int32_t above = static_cast<int32_t>(call->next + fresh);
                *slot = {call->first[row], static_cast<uint32_t>(call->second[row]), above};
            }
            call->codes[row] = slot->above - 1;
        }
    }
    return fresh;
}

// Puts the values of a table into a larger, empty one.
extern "C" __attribute__((visibility("default"))) int64_t ensue_move_codes(
    const CodeSlot* from, int64_t slots, const CodesCall* to) {
    if (slots < 0 || !is_table(to->slots) || slots >= to->slots) return OUT_OF_RANGE;
    for (int64_t at = 0; at < slots; at++)
        if (from[at].above) *place_of(*to, from[at].first, from[at].rest) = from[at];
    return 0;
}
