// Terms of texts as 44-bit keys, each once with how often its text holds it; ensue/text/terms.py computes the same.
#include <algorithm>
#include <new>
#include <vector>

#include "bounds.h"
#include "kernels.h"

namespace {

constexpr int SHORTEST = 3, LONGEST = 5;  // characters of a run
constexpr int MAX_DISTANCE = 3;           // of the words of a pair
constexpr int KEY_SHIFT = 20;
constexpr uint32_t SPACE = ' ';

// Splitmix64 (Steele, Lea & Flood 2014).
inline uint64_t scrambled(uint64_t number) {
    number += 0x9E3779B97F4A7C15;
    number = (number ^ number >> 30) * 0xBF58476D1CE4E5B9;
    number = (number ^ number >> 27) * 0x94D049BB133111EB;
    return number ^ number >> 31;
}

bool sized(const TermsCall& call) {
    bool rising = bounded({call.num_texts}) && bounded({call.size}) && bounded({call.room}) && call.size <= call.room / 3;
    rising = rising && call.stops[0] >= 0 && call.stops[call.num_texts] <= call.size;
    for (int64_t text = 0; rising && text < call.num_texts; text++) rising = call.stops[text] <= call.stops[text + 1];
    return rising;
}

// Calls `collect(first, last, keys)` for each text, and writes its sorted keys with their counts. Returns how many they are.
template <class Collect>
int64_t count_terms(const TermsCall& call, Collect collect) try {
    std::vector<uint64_t> keys;
    int64_t cells = 0;
    for (int64_t text = 0; text < call.num_texts; text++) {
        keys.clear();
        collect(call.stops[text], call.stops[text + 1], keys);
        std::sort(keys.begin(), keys.end());
        for (size_t at = 0, next; at < keys.size(); at = next, cells++) {
            for (next = at + 1; next < keys.size() && keys[next] == keys[at];) next++;
            call.owners[cells] = text;
            call.keys[cells] = keys[at];
            call.counts[cells] = int64_t(next - at);
        }
    }
    return cells;
} catch (const std::bad_alloc&) {
    return NO_MEMORY;
}

}  // namespace

EXPORT int64_t ensue_runs(const TermsCall* call, const uint32_t* characters) {
    if (!sized(*call)) return OUT_OF_RANGE;
    return count_terms(*call, [characters](int64_t first, int64_t last, std::vector<uint64_t>& keys) {
        for (int64_t start = first; start < last; start++) {
            uint64_t hash = characters[start];
            for (int64_t at = start + 1; at < std::min(start + LONGEST, last); at++) {
                // Two spaces side by side are the end of a word and the beginning of the next.
                if (characters[at] == SPACE && characters[at - 1] == SPACE) break;
                hash = scrambled(hash) + characters[at];
                if (at - start + 1 >= SHORTEST) keys.push_back(scrambled(hash) >> KEY_SHIFT);
            }
        }
    });
}

EXPORT int64_t ensue_pairs(const TermsCall* call, const uint64_t* words, const uint8_t* is_stop) {
    if (!sized(*call)) return OUT_OF_RANGE;
    return count_terms(*call, [words, is_stop](int64_t first, int64_t last, std::vector<uint64_t>& keys) {
        for (int64_t start = first; start < last; start++)
            for (int64_t at = start + 1; at <= std::min(start + MAX_DISTANCE, last - 1); at++) {
                if (words[at] == words[start] || (is_stop[at] && is_stop[start])) continue;
                const auto [low, high] = std::minmax(words[start], words[at]);
                keys.push_back(scrambled(scrambled(low) + high) >> KEY_SHIFT);
            }
    });
}
