// The sessions most like a session (VS-kNN): what ensue/tasks/next/baselines/session_knn.py computes.
#include <algorithm>
#include <cmath>
#include <new>
#include <vector>

#include "bounds.h"
#include "kernels.h"

namespace {

constexpr int64_t MAX_WINDOW = 256;  // bits of `held`

struct Meeting {
    int64_t session;
    float similar;   // sum of the weights of the clicks it holds
    int32_t latest;  // how far the nearest of them is away
    uint64_t held[MAX_WINDOW / 64];  // which clicks it holds
};

struct Click {
    int64_t item, event, away;
    const int64_t *low, *next;  // the sessions that hold it, the most recent last; from `next` on they are used up
};

// Whether [first, last) lies inside `num_entries` entries.
bool is_range(const NeighboursCall& call, int64_t first, int64_t last) {
    return first >= 0 && first <= last && last <= call.num_entries;
}

// The latest clicks of a target step, each item once, at its latest place; nearest first. Returns whether the postings of
// all of them exist.
bool take_clicks(const NeighboursCall& call, int64_t row, int64_t step, std::vector<Click>& clicks) {
    clicks.clear();
    for (int64_t away = 0; away < call.window && away <= step; away++) {
        const int64_t event = step - away, item = call.ids[row * call.time + event];
        bool again = item < 0 || item >= call.num_ids;
        for (const Click& one : clicks) again |= one.item == item;
        if (again) continue;
        const int64_t first = call.stops[item], last = call.stops[item + 1];
        if (!is_range(call, first, last)) return false;
        clicks.push_back({item, event, away, call.postings + std::max(first, last - call.sample), call.postings + last});
    }
    return true;
}

// The most recent sessions that hold a click, `sample` at most: all lists are read from their ends at once. Returns whether
// all of them, and their items, exist.
bool meet(const NeighboursCall& call, std::vector<Click>& clicks, std::vector<Meeting>& met) {
    met.clear();
    while (static_cast<int64_t>(met.size()) < call.sample) {
        bool more = false;
        int64_t latest = -1;
        for (const Click& one : clicks)
            if (one.next > one.low) more = true, latest = std::max(latest, one.next[-1]);
        if (!more) return true;
        if (!inside(latest, call.num_sessions) || !is_range(call, call.starts[latest], call.starts[latest + 1])) return false;
        Meeting meeting = {latest, 0, -1, {}};
        for (size_t number = 0; number < clicks.size(); number++) {
            Click& one = clicks[number];
            if (one.next <= one.low || one.next[-1] != latest) continue;
            one.next--;
            meeting.similar += call.decay[one.away];
            meeting.held[number / 64] |= uint64_t(1) << number % 64;
            if (meeting.latest < 0) meeting.latest = static_cast<int32_t>(one.away);
        }
        met.push_back(meeting);
    }
    return true;
}

struct Found {
    const NeighboursCall& call;
    int64_t count = 0;

    void add(int64_t cell, float share) {
        if (count < call.room) call.cells[count] = cell, call.shares[count] = share;
        count++;
    }
};

// Returns whether everything that was followed exists.
bool score_row(const NeighboursCall& call, int64_t target, std::vector<Click>& clicks, std::vector<Meeting>& met,
               std::vector<int32_t>& order, Found& found) {
    const int64_t row = call.rows[target], step = call.steps[target];
    if (!inside(row, call.batch) || !inside(step, call.time)) return false;
    if (!take_clicks(call, row, step, clicks) || !meet(call, clicks, met)) return false;
    const size_t most = std::min<size_t>(met.size(), call.neighbours);
    order.resize(met.size());
    for (size_t number = 0; number < met.size(); number++) order[number] = static_cast<int32_t>(number);
    const auto before = [&](int32_t a, int32_t b) {
        return met[a].similar > met[b].similar || (met[a].similar == met[b].similar && a < b);
    };
    if (most < order.size()) std::nth_element(order.begin(), order.begin() + most, order.end(), before);
    std::sort(order.begin(), order.begin() + most);
    float* weights = call.weights + (row * call.time + step) * call.time;
    const int64_t first = found.count;
    double total = 0, mass = 0;
    for (size_t place = 0; place < most; place++) {
        const Meeting& one = met[order[place]];
        const float near = call.decay[one.latest], similarity = near * one.similar;
        for (size_t number = 0; number < clicks.size(); number++)
            if (one.held[number / 64] >> number % 64 & 1) {
                const float brought = call.decay[clicks[number].away] * near;
                weights[clicks[number].event] += brought;
                mass += brought;
            }
        if (similarity == 0) continue;
        for (int64_t at = call.starts[one.session]; at < call.starts[one.session + 1]; at++) {
            const int64_t item = call.items[at];
            if (!inside(item, call.num_ids)) return false;
            const float rarity = 1 + call.idf * std::log(std::max(1.0f, call.sessions / std::max(1.0f, call.holders[item])));
            const float share = similarity * rarity;
            total += share;
            found.add(target * call.num_ids + item, share);
        }
    }
    for (int64_t at = first; at < std::min(found.count, call.room); at++) call.shares[at] /= static_cast<float>(total);
    if (mass > 0)
        for (int64_t event = 0; event < call.time; event++) weights[event] /= static_cast<float>(mass);
    return true;
}

bool fits(const NeighboursCall& call) {
    bool sized = bounded({call.batch, call.time, call.time}) && bounded({call.targets, call.num_ids}) &&
                 bounded({call.num_sessions}) && bounded({call.num_entries}) && bounded({call.room}) &&
                 bounded({call.neighbours}) && call.sample >= 0 && call.sample <= INT32_MAX && call.window >= 0 &&
                 call.window <= MAX_WINDOW;
    for (int64_t away = 0; sized && away < call.window; away++)
        sized = std::isfinite(call.decay[away]);  // sessions are sorted by their sums, which needs an order
    return sized;
}

}  // namespace

// Returns how many entries there are: more than there is room for, and it is to be called again with as much.
EXPORT int64_t ensue_neighbours(const NeighboursCall* call) {
    if (!fits(*call)) return OUT_OF_RANGE;
    try {
        std::vector<Click> clicks;
        std::vector<Meeting> met;
        std::vector<int32_t> order;
        Found found{*call};
        std::fill_n(call->weights, call->batch * call->time * call->time, 0.0f);
        for (int64_t target = 0; target < call->targets; target++)
            if (!score_row(*call, target, clicks, met, order, found)) return OUT_OF_RANGE;
        return found.count;
    } catch (const std::bad_alloc&) {
        return NO_MEMORY;
    }
}
