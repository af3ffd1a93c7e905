// What ensue/tasks/suggest/torch_generator.py calls: beam_search of decoding.py with QueryWriter.step for a few sources
// side by side, and QueryWriter.likelihood of the candidates of a source.
#pragma once
#include "decoder.h"
#include "kernels.h"
#include "rows.h"
#include "vector.h"

namespace ENSUE_ARCH {

// What one piece of work writes to, cut from one block; without a block only its size is counted.
struct WriterRoom {
    char* block;
    int64_t used = 0;

    template <class T> T* take(int64_t count) {
        T* start = block ? reinterpret_cast<T*>(block + used) : nullptr;
        used += (count * int64_t(sizeof(T)) + 63) / 64 * 64;
        return start;
    }
};

// The open beams of a group of sources, as many for each.
struct Beams {
    int64_t *tokens, *written;   // (rows, longest) so far; (rows) bytes of the prefix
    int32_t *places, *counts;    // (rows, longest + 1) where its tokens are among those read; how many
    float* sums;                 // (rows) -inf where closed
    uint8_t* repeating;          // (rows, turns) whether it is the beginning of a typed query

    Beams(const WriterCall& call, int64_t rows, WriterRoom& room)
        : tokens(room.take<int64_t>(rows * call.longest)), written(room.take<int64_t>(rows)),
          places(room.take<int32_t>(rows * (call.longest + 1))), counts(room.take<int32_t>(rows)),
          sums(room.take<float>(rows)), repeating(room.take<uint8_t>(rows * call.turns)) {}
};

INLINE float log_sigmoid(float x) { return (x < 0 ? x : 0) - __builtin_log1pf(__builtin_expf(x < 0 ? x : -x)); }

INLINE float log_add(float a, float b) {
    const float most = a > b ? a : b, less = a > b ? b : a;
    return less == -__builtin_inff() ? most : most + __builtin_log1pf(__builtin_expf(less - most));
}

// States of tokens that are read: vectors times `scale` and the code of the position.
INLINE void look(const WriterCall& call, int64_t token, int64_t position, float* to) {
    const float *vector = call.table + token * call.dim, *code = call.codes + position * call.dim;
    for (int64_t at = 0; at < call.dim; at++) to[at] = vector[at] * call.scale + code[at];
}

INLINE StepCall steps_of(const WriterCall& call, const StepLayer* layers, int64_t capacity) {
    return {call.dim, call.heads, call.wide, call.length, capacity, call.layers, layers};
}

// Layers with keys and values for so many tokens of each of `count` sources.
INLINE StepLayer* own_layers(const WriterCall& call, int64_t count, int64_t capacity, WriterRoom& room) {
    StepLayer* layers = room.take<StepLayer>(call.layers);
    for (int64_t number = 0; number < call.layers; number++) {
        float* keys = room.take<float>(count * capacity * call.dim);
        float* values = room.take<float>(count * capacity * call.dim);
        if (!room.block) continue;
        layers[number] = call.layer[number];
        layers[number].keys = keys;
        layers[number].values = values;
    }
    return layers;
}

// Logarithms of the shares of writing and of copying.
struct Gate {
    float written = 0, other = 0;

    Gate(const WriterCall& call, const float* state) {
        if (!call.gate) return;
        const float gate = dot(state, call.gate, call.dim) + call.gate[call.dim];
        written = log_sigmoid(gate), other = log_sigmoid(-gate);
    }
};

// The mean over heads of the attention on a place of the memory.
INLINE float share_at(const WriterCall& call, const float* shares, int64_t place) {
    float sum = 0;
    for (int64_t head = 0; head < call.heads; head++) sum += shares[head * call.length + place];
    return sum / float(call.heads);
}

// A group of sources on their way through the search.
struct GroupSearch {
    const WriterCall& call;
    int64_t group, capacity, slots;
    Beams open, next;
    int64_t *sources, *firsts, *best_places;     // those that are searched; (length) first place of the same token
    StepLayer* layers;
    float *items, *scores, *shares, *copied, *best, *step_room;

    GroupSearch(const WriterCall& of, WriterRoom& room)
        : call(of), group(larger_of(1, STEP_ROWS / of.beam < of.sources ? STEP_ROWS / of.beam : of.sources)),
          capacity(1 + of.longest * of.beam), slots(of.heads * of.length), open(of, group * of.beam, room),
          next(of, group * of.beam, room), sources(room.take<int64_t>(group)), firsts(room.take<int64_t>(of.length)),
          best_places(room.take<int64_t>(of.beam)), layers(own_layers(of, group, capacity, room)),
          items(room.take<float>(group * of.beam * of.dim)), scores(room.take<float>(group * of.beam * of.ids)),
          shares(room.take<float>(group * of.beam * slots)), copied(room.take<float>(of.length)),
          best(room.take<float>(of.beam)),
          step_room(room.take<float>(group * of.beam * (5 * of.dim + of.wide + slots) + of.longest + 1)) {}

    // log p of every token after the `rows` beams of a source, whose states are `state`, plus the sums so far.
    void add_sums(int64_t source, int64_t rows, int64_t row, const float* state, float* to, const float* weights) {
        constexpr int L = lanes<float>();
        const int64_t *words = call.memory + source * call.length, whole = call.ids / L * L;
        if (call.gate)
            for (int64_t at = 0; at < call.length; at++) {
                firsts[at] = 0;
                while (words[firsts[at]] != words[at]) firsts[at]++;
            }
        for (int64_t beam = 0; beam < rows; beam++, row++, state += call.dim, to += call.ids, weights += slots) {
            const float total = log_total(to, call.ids), sum = open.sums[row];
            const Gate gate(call, state);
            const float written = gate.written;
            const auto plain = [&](int64_t at) { return to[at] - total + written; };
            std::memset(copied, 0, call.length * sizeof(float));
            for (int64_t at = 0; call.gate && at < call.length; at++) copied[firsts[at]] += share_at(call, weights, at);
            // A token of the source is written or copied; all others keep their part by the gate.
            for (int64_t at = 0; call.gate && at < call.length; at++)
                if (words[at] && firsts[at] == at && copied[at] > 0) {
                    const float mixed = log_add(plain(words[at]), __builtin_logf(copied[at]) + gate.other);
                    to[words[at]] = mixed - written + total;
                }
            for (int64_t at = 0; at < whole; at += L)
                store<float>(to + at, load<float>(to + at) - total + written + load<float>(call.wall + at) + sum);
            for (int64_t at = whole; at < call.ids; at++) to[at] = plain(at) + call.wall[at] + sum;
            if (!call.allowed) continue;
            const uint8_t* allowed = call.allowed + (source * call.bytes + open.written[row]) * call.ids;
            for (int64_t at = 0; at < call.ids; at++)
                if (!allowed[at]) to[at] = -__builtin_inff();
        }
    }

    // A beam that ends is put among those that are kept, behind all that score as high.
    void keep(int64_t source, const int64_t* tokens, float sum, int64_t step) {
        const double score = sum / call.divisors[step + 1];
        double *kept = call.scores + source * call.keep, *sums = call.sums + source * call.keep;
        int64_t* texts = call.tokens + source * call.keep * call.longest;
        int64_t at = call.keep;
        while (at > 0 && score > kept[at - 1]) at--;
        if (at == call.keep) return;
        for (int64_t to = call.keep - 1; to > at; to--) {
            kept[to] = kept[to - 1];
            sums[to] = sums[to - 1];
        }
        std::memmove(texts + (at + 1) * call.longest, texts + at * call.longest,
                     (call.keep - 1 - at) * call.longest * sizeof(int64_t));
        kept[at] = score;
        sums[at] = sum;
        std::memcpy(texts + at * call.longest, tokens, call.longest * sizeof(int64_t));
    }

    // Ends and continuations of the beams of one source, from the scores of all tokens. Returns whether it is done.
    bool extend(int64_t source, int64_t rows, int64_t row, int64_t row_after, int64_t step, int64_t before, float* from) {
        const int64_t k = call.beam < rows * call.ids ? call.beam : rows * call.ids;
        float ends[STEP_ROWS];
        float* end_sums = rows <= STEP_ROWS ? ends : step_room;
        for (int64_t beam = 0; beam < rows; beam++) {
            end_sums[beam] = from[beam * call.ids + END_TOKEN];
            from[beam * call.ids + END_TOKEN] = -__builtin_inff();
        }
        highest(from, rows * call.ids, k, best, best_places);
        for (int64_t beam = 0; beam < rows && step; beam++) {
            bool repeats = false;
            for (int64_t turn = 0; turn < call.turns; turn++)
                repeats |= open.repeating[(row + beam) * call.turns + turn] && call.lengths[source * call.turns + turn] == step;
            float end = repeats ? -__builtin_inff() : end_sums[beam];
            // Greedy search: the end and the best token compete, and the loser is closed.
            if (call.beam == 1 && step < call.longest) {
                if (end < best[0]) end = -__builtin_inff();
                if (end > -__builtin_inff()) best[0] = -__builtin_inff();
            }
            if (end > -__builtin_inff()) keep(source, open.tokens + (row + beam) * call.longest, end, step);
        }
        const int64_t length = call.exhaustive ? call.longest + 1 : step + 2;
        if (step == call.longest || double(best[0] / call.divisors[length]) <= call.scores[source * call.keep + call.keep - 1])
            return true;
        for (int64_t beam = 0; beam < k; beam++) {
            const int64_t parent = row + best_places[beam] / call.ids, token = best_places[beam] % call.ids, to = row_after + beam;
            std::memcpy(next.tokens + to * call.longest, open.tokens + parent * call.longest, call.longest * sizeof(int64_t));
            next.tokens[to * call.longest + step] = token;
            next.sums[to] = best[beam];
            // Its path, and where its new token will be read.
            const int64_t path = call.longest + 1;
            std::memcpy(next.places + to * path, open.places + parent * path, (step + 1) * sizeof(int32_t));
            next.places[to * path + step + 1] = int32_t(before + rows + beam);
            next.counts[to] = int32_t(step + 2);
            for (int64_t turn = 0; turn < call.turns; turn++) {
                const int64_t* typed = call.typed + (source * call.turns + turn) * call.width;
                next.repeating[to * call.turns + turn] =
                    open.repeating[parent * call.turns + turn] && step < call.width && typed[step] == token;
            }
            if (!call.allowed) continue;
            const int64_t bytes = open.written[parent] + call.sizes[token];
            next.written[to] = bytes < call.ends[source] ? bytes : call.ends[source];
        }
        return false;
    }

    void run(int64_t first, int64_t count) {
        const StepCall steps = steps_of(call, layers, capacity);
        for (int64_t at = 0; at < count; at++) {
            sources[at] = first + at;
            std::memset(open.tokens + at * call.longest, 0, call.longest * sizeof(int64_t));
            open.sums[at] = 0, open.written[at] = 0, open.counts[at] = 1, open.places[at * (call.longest + 1)] = 0;
            for (int64_t turn = 0; turn < call.turns; turn++)
                open.repeating[at * call.turns + turn] = !call.repeats && call.lengths[(first + at) * call.turns + turn] > 0;
            for (int64_t rank = 0; rank < call.keep; rank++)
                call.scores[(first + at) * call.keep + rank] = call.sums[(first + at) * call.keep + rank] = -__builtin_inf();
            std::memset(call.tokens + (first + at) * call.keep * call.longest, 0, call.keep * call.longest * sizeof(int64_t));
        }
        int64_t rows = 1, before = 0;
        for (int64_t step = 0; step <= call.longest && count; step++) {
            for (int64_t row = 0; row < count * rows; row++)
                look(call, step ? open.tokens[row * call.longest + step - 1] : BEGIN_TOKEN, step, items + row * call.dim);
            const StepRows read = {sources, count, rows, first, before, open.places, open.counts, call.longest + 1};
            step_layers(steps, read, items, shares, step_room);
            product(items, count * rows, call.dim, call.weight, call.ids, call.ids, call.bias, scores);
            const int64_t after = call.beam < rows * call.ids ? call.beam : rows * call.ids;
            int64_t going = 0;
            for (int64_t at = 0; at < count; at++) {
                float* from = scores + at * rows * call.ids;
                add_sums(sources[at], rows, at * rows, items + at * rows * call.dim, from, shares + at * rows * slots);
                if (!extend(sources[at], rows, at * rows, going * after, step, before, from)) sources[going++] = sources[at];
            }
            const Beams read_beams = open;
            open = next;
            next = read_beams;
            before += rows;
            count = going;
            rows = after;
        }
    }
};

// The candidates of one source as a tree, whose nodes make one step: what several begin with is read once.
struct CandidateTree {
    const WriterCall& call;
    int64_t most, slots;                           // of nodes, the first of which is the beginning of all
    int64_t *tokens, *parents, *depths, *child, *sibling;
    int32_t *places, *counts;
    float *log_shares, *log_ends;                  // of a node's token after its parent; of the end after it
    StepLayer* layers;
    float *items, *scores, *shares, *step_room;

    CandidateTree(const WriterCall& of, WriterRoom& room)
        : call(of), most(1 + of.turns * of.width), slots(of.heads * of.length), tokens(room.take<int64_t>(most)),
          parents(room.take<int64_t>(most)), depths(room.take<int64_t>(most)), child(room.take<int64_t>(most)),
          sibling(room.take<int64_t>(most)), places(room.take<int32_t>(most * (of.width + 1))),
          counts(room.take<int32_t>(most)), log_shares(room.take<float>(most)), log_ends(room.take<float>(most)),
          layers(own_layers(of, 1, most, room)), items(room.take<float>(most * of.dim)),
          scores(room.take<float>(SCORED_ROWS * of.ids)), shares(room.take<float>(most * slots)),
          step_room(room.take<float>(most * (5 * of.dim + of.wide + slots) + of.width + 1)) {}

    static constexpr int64_t SCORED_ROWS = 48;

    // A new node behind `parent`, unless there is one: which, of `size` so far.
    int64_t follow(int64_t parent, int64_t token, int64_t& size) {
        for (int64_t node = child[parent]; node; node = sibling[node])
            if (tokens[node] == token) return node;
        const int64_t node = size++, path = call.width + 1;
        tokens[node] = token, parents[node] = parent, depths[node] = depths[parent] + 1, child[node] = 0;
        sibling[node] = child[parent], child[parent] = node;
        std::memcpy(places + node * path, places + parent * path, counts[parent] * sizeof(int32_t));
        places[node * path + counts[parent]] = int32_t(node);
        counts[node] = counts[parent] + 1;
        return node;
    }

    // log p of a token after a node, whose scores less their total are `plain`.
    float log_share(int64_t source, int64_t node, const Gate& gate, float plain, int64_t token) {
        float copied = 0;
        for (int64_t at = 0; call.gate && at < call.length; at++)
            if (call.memory[source * call.length + at] == token) copied += share_at(call, shares + node * slots, at);
        return copied > 0 ? log_add(plain + gate.written, __builtin_logf(copied) + gate.other) : plain + gate.written;
    }

    void run(int64_t source) {
        int64_t size = 1;
        tokens[0] = BEGIN_TOKEN, depths[0] = child[0] = sibling[0] = places[0] = 0, counts[0] = 1;
        const int64_t *texts = call.typed + source * call.turns * call.width, *lengths = call.lengths + source * call.turns;
        for (int64_t text = 0; text < call.turns; text++)
            for (int64_t at = 0, node = 0; at < lengths[text]; at++) node = follow(node, texts[text * call.width + at], size);
        for (int64_t node = 0; node < size; node++) look(call, tokens[node], depths[node], items + node * call.dim);
        step_layers(steps_of(call, layers, most), {&source, 1, size, source, 0, places, counts, call.width + 1}, items, shares, step_room);
        for (int64_t first = 0; first < size; first += SCORED_ROWS) {
            const int64_t rows = size - first < SCORED_ROWS ? size - first : SCORED_ROWS;
            product(items + first * call.dim, rows, call.dim, call.weight, call.ids, call.ids, call.bias, scores);
            for (int64_t row = 0, node = first; row < rows; row++, node++) {
                const float *of = scores + row * call.ids, total = log_total(of, call.ids);
                const Gate gate(call, items + node * call.dim);
                log_ends[node] = log_share(source, node, gate, of[END_TOKEN] - total, END_TOKEN);
                for (int64_t next = child[node]; next; next = sibling[next])
                    log_shares[next] = log_share(source, node, gate, of[tokens[next]] - total, tokens[next]);
            }
        }
        for (int64_t text = 0; text < call.turns; text++) {
            float sum = 0;
            int64_t node = 0;
            for (int64_t at = 0; at < lengths[text]; at++) sum += log_shares[node = follow(node, texts[text * call.width + at], size)];
            call.scores[source * call.turns + text] = lengths[text] ? sum + log_ends[node] : -__builtin_inff();
        }
    }
};

int64_t writer_room(const WriterCall& call, bool searches) {
    WriterRoom room = {nullptr};
    if (searches)
        GroupSearch(call, room);
    else
        CandidateTree(call, room);
    return room.used + 64;
}

void search(const WriterCall& call, int64_t first, int64_t last, char* block) {
    WriterRoom room = {block + (64 - reinterpret_cast<uintptr_t>(block) % 64)};
    GroupSearch group(call, room);
    for (; first < last; first += group.group) group.run(first, last - first < group.group ? last - first : group.group);
}

void likelihoods(const WriterCall& call, int64_t first, int64_t last, char* block) {
    WriterRoom room = {block + (64 - reinterpret_cast<uintptr_t>(block) % 64)};
    CandidateTree tree(call, room);
    for (; first < last; first++) tree.run(first);
}

}  // namespace ENSUE_ARCH
