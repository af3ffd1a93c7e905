// The functions that are called from outside: each takes the code for the processor at hand, and some threads.
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <exception>
#include <memory>
#include <new>
#include <thread>
#include <vector>

#ifdef __GLIBC__
#include <malloc.h>
#endif

#include "bounds.h"
#include "kernels.h"

#define DECLARE(arch)                                                                                     \
    namespace arch {                                                                                      \
    void entmax(const EntmaxCall& call, bool wide, bool backward, int64_t first, int64_t last, void* scratch); \
    bool log_mixture(const float* totals, float factor, int64_t rows, int64_t width, const int64_t* cells,     \
                     const float* added, int64_t count, float* out, float* sums, int64_t* places);        \
    float log_total(const float* numbers, int64_t count);                                                 \
    void product(const float* x, int64_t rows, int64_t in, const float* w, int64_t w_step, int64_t out,        \
                 const float* bias, float* y);                                                            \
    void search(const WriterCall& call, int64_t first, int64_t last, char* room);                         \
    void likelihoods(const WriterCall& call, int64_t first, int64_t last, char* room);                    \
    int64_t writer_room(const WriterCall& call, bool searches);                                           \
    void lstm(const LstmCall& call, int64_t side, int64_t first, int64_t last, float* room);              \
    bool pair_scores(const PairCall& call, int64_t text, int64_t wide, float* room);                      \
    void word_graph(const GraphCall& call, int64_t text, float* room);                                    \
    void highest(const float* numbers, int64_t count, int64_t k, float* best, int64_t* places);           \
    void encode(const EncodeCall& call, float* room);                                                     \
    void session(const SessionCall& call, int64_t row, float* room);                                      \
    void latest_click(const LatestCall& call, int64_t target, float* room);                               \
    float shorten(const float* query, int64_t dim, int16_t* to);                                          \
    void short_scores(const ShortCall& call, int64_t first, int64_t last, const int16_t* queries, const float* scales); \
    void exact_scores(const ShortCall& call, int64_t row, float* peaks);                                  \
    void best_items(const ShortCall& call, int64_t first, int64_t last, const int16_t* queries, const float* scales,    \
                    float* room);                                                                          \
    void window(const WindowCall& call, int64_t kind, int64_t first, int64_t last);                       \
    float exponentials(float* scores, const float* bias, int64_t count, float* log_sum);                  \
    void dropped(const float* in, const int16_t* levels, int64_t count, int16_t least, float scale, float* out); \
    void dropped_elu(const float* in, const int16_t* levels, int64_t count, int16_t least, float scale, float* out); \
    void dropped_elu_errors(const float* grad, const float* units, const int16_t* levels, int64_t count,       \
                            int16_t least, float scale, float* out);                                      \
    void adam_rows(const AdamCall& call, int64_t first, int64_t last);                                    \
    void band_forward(const BandCall& call, int64_t row, float* room);                                    \
    void band_backward(const BandCall& call, int64_t row, float* room);                                   \
    }

DECLARE(plain)
#ifdef ENSUE_X86
DECLARE(avx2)
DECLARE(avx512)
namespace vnni {
void short_scores(const ShortCall& call, int64_t first, int64_t last, const int16_t* queries, const float* scales);
void best_items(const ShortCall& call, int64_t first, int64_t last, const int16_t* queries, const float* scales, float* room);
}
#endif

namespace {

struct Functions {
    decltype(&plain::entmax) entmax;
    decltype(&plain::log_mixture) log_mixture;
    decltype(&plain::log_total) log_total;
    decltype(&plain::highest) highest;
    decltype(&plain::product) product;
    decltype(&plain::search) search;
    decltype(&plain::likelihoods) likelihoods;
    decltype(&plain::writer_room) writer_room;
    decltype(&plain::lstm) lstm;
    decltype(&plain::pair_scores) pair_scores;
    decltype(&plain::word_graph) word_graph;
    decltype(&plain::encode) encode;
    decltype(&plain::session) session;
    decltype(&plain::latest_click) latest_click;
    decltype(&plain::shorten) shorten;
    decltype(&plain::short_scores) short_scores;
    decltype(&plain::exact_scores) exact_scores;
    decltype(&plain::best_items) best_items;
    decltype(&plain::window) window;
    decltype(&plain::exponentials) exponentials;
    decltype(&plain::dropped) dropped, dropped_elu;
    decltype(&plain::dropped_elu_errors) dropped_elu_errors;
    decltype(&plain::adam_rows) adam_rows;
    decltype(&plain::band_forward) band_forward;
    decltype(&plain::band_backward) band_backward;
};

#define FUNCTIONS(arch)                                                                              \
    {arch::entmax,       arch::log_mixture, arch::log_total,   arch::highest, arch::product,   \
     arch::search, arch::likelihoods, arch::writer_room, arch::lstm,        arch::pair_scores, arch::word_graph, arch::encode,  \
     arch::session,      arch::latest_click, arch::shorten,     arch::short_scores, arch::exact_scores, arch::best_items, arch::window,      arch::exponentials, arch::dropped,   \
     arch::dropped_elu,  arch::dropped_elu_errors, arch::adam_rows, arch::band_forward, arch::band_backward}
constexpr Functions PLAIN = FUNCTIONS(plain);
#ifdef ENSUE_X86
constexpr Functions AVX2 = FUNCTIONS(avx2), AVX512 = FUNCTIONS(avx512);
// Of the same whole numbers, so that all bits of the scores are the same.
constexpr Functions VNNI = [] {
    Functions functions = AVX512;
    functions.short_scores = vnni::short_scores;
    functions.best_items = vnni::best_items;
    return functions;
}();
#endif
#ifdef ENSUE_X86
constexpr auto DOUBLES = avx2::entmax;  // gradients are checked with them, no more: not worth code of their own
#else
constexpr auto DOUBLES = plain::entmax;
#endif

const Functions* chosen = &PLAIN;
int level = 0;

// 0: what every processor of the platform has; 1: AVX2 and FMA; 2: AVX-512 as well.
int highest() {
#ifdef ENSUE_X86
    __builtin_cpu_init();
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) return 0;
    for (const bool has : {__builtin_cpu_supports("avx512f") != 0, __builtin_cpu_supports("avx512dq") != 0,
                           __builtin_cpu_supports("avx512bw") != 0, __builtin_cpu_supports("avx512vl") != 0})
        if (!has) return 1;
    return 2;
#else
    return 0;
#endif
}

// Rows first to last in as many pieces as threads, cut at multiples of 16; a row's result does not depend on the cuts.
template <class Body> void shared(int64_t rows, int threads, const Body& body) {
    const int64_t pieces = std::max<int64_t>(1, std::min<int64_t>(threads, rows / 16));
    std::vector<std::thread> started;
    int64_t begun = 0;
    for (int64_t piece = 0; piece + 1 < pieces; piece++) {
        const int64_t end = rows * (piece + 1) / pieces / 16 * 16;
        try {
            started.emplace_back(body, begun, end);
        } catch (const std::exception&) {
            break;  // no thread or no memory is to be had: what is left is done here
        }
        begun = end;
    }
    body(begun, rows);
    for (std::thread& one : started) one.join();
}

// The same, each piece with room for so many numbers of its own. Returns 0, or that there was no memory for one.
template <class T, class Body> int64_t with_room(int64_t rows, int threads, int64_t size, const Body& body) {
    int64_t result = 0;
    shared(rows, threads, [&](int64_t first, int64_t last) {
        const std::unique_ptr<T[]> room(new (std::nothrow) T[size]);
        if (room)
            body(first, last, room.get());
        else
            __atomic_store_n(&result, NO_MEMORY, __ATOMIC_RELAXED);
    });
    return result;
}

}  // namespace

EXPORT int ensue_level(int limit) {
    level = std::min(limit, highest());
#ifdef ENSUE_X86
    const Functions* widest = __builtin_cpu_supports("avx512vnni") ? &VNNI : &AVX512;
    chosen = level == 2 ? widest : level == 1 ? &AVX2 : &PLAIN;
#endif
    return level;
}

EXPORT int64_t ensue_entmax(const EntmaxCall* call, int wide, int backward, int threads) {
    if (call->dims < 0 || call->dims > 8) return OUT_OF_RANGE;
    int64_t rows = 1;
    for (int64_t dim = 0; dim < call->dims; dim++) {
        if (!bounded({rows, call->sizes[dim]})) return OUT_OF_RANGE;
        rows *= call->sizes[dim];
    }
    if (!bounded({rows, call->keys})) return OUT_OF_RANGE;
    if (rows == 0 || call->keys == 0) return 0;
    const int64_t size = call->keys > 64 ? (call->keys + 16) * (8 + 3 * (wide ? 8 : 4)) : 0;
    const int64_t worth = std::max<int64_t>(1, rows * call->keys >> 15);
    const auto run = wide && level > 1 ? DOUBLES : chosen->entmax;
    return with_room<char>(rows, int(std::min<int64_t>(threads, worth)), size, [&](int64_t first, int64_t last, char* room) {
        run(*call, wide, backward, first, last, room);
    });
}

// The number of kernels.h: goes up with every change of what the functions take.
EXPORT int ensue_interface() { return INTERFACE; }

#ifdef __GLIBC__
// Blocks of scores of some megabytes are made for each batch. By default malloc returns them to the system, depending on
// what else is allocated, and their pages are zeroed anew: up to two thirds of the time of an answer.
__attribute__((constructor)) static void keep_freed_blocks() {
  mallopt(M_MMAP_THRESHOLD, 32 << 20);
  mallopt(M_TRIM_THRESHOLD, 64 << 20);
}
#endif

// (rows, width) log(factor x totals + what is added), `cells` counted through all rows.
EXPORT int64_t ensue_log_mixture(const float* totals, float factor, int64_t rows, int64_t width, const int64_t* cells,
                                 const float* added, int64_t count, float* out) {
    if (!bounded({rows, width}) || !bounded({count}) || count > INT32_MAX) return OUT_OF_RANGE;
    const std::unique_ptr<float[]> sums(new (std::nothrow) float[count]);
    const std::unique_ptr<int64_t[]> places(new (std::nothrow) int64_t[count]);
    if (!sums || !places) return NO_MEMORY;
    const bool inside = chosen->log_mixture(totals, factor, rows, width, cells, added, count, out, sums.get(), places.get());
    return inside ? 0 : OUT_OF_RANGE;
}

// (rows) log(sum exp) of (rows, width) numbers.
EXPORT int64_t ensue_log_totals(const float* numbers, int64_t rows, int64_t width, int64_t step, float* totals, int threads) {
    if (!bounded({rows, width})) return OUT_OF_RANGE;
    shared(rows, int(std::min<int64_t>(threads, 1 + (rows * width >> 16))), [&](int64_t first, int64_t last) {
        for (int64_t row = first; row < last; row++) totals[row] = chosen->log_total(numbers + row * step, width);
    });
    return 0;
}

// (rows, width) scores with their biases, in one piece, become e = exp(score - the highest of the row), that of the wanted
// one less the sum of all: `sums` times the gradient of the -log of its share, which is in `losses`.
EXPORT int64_t ensue_softmax_errors(float* scores, int64_t rows, int64_t width, const float* bias, const int64_t* wanted,
                                    float* sums, float* losses, int threads) {
    if (!bounded({rows, width}) || !all_inside(wanted, rows, width)) return OUT_OF_RANGE;
    shared(rows, int(std::min<int64_t>(threads, 1 + (rows * width >> 16))), [&](int64_t first, int64_t last) {
        for (int64_t row = first; row < last; row++) {
            float* own = scores + row * width;
            const float score = own[wanted[row]] + bias[wanted[row]];
            sums[row] = chosen->exponentials(own, bias, width, losses + row);
            losses[row] -= score;
            own[wanted[row]] -= sums[row];
        }
    });
    return 0;
}

// Units, or their ELU, whose levels are at least `least` times `scale`, the others times 0.
EXPORT int64_t ensue_dropped(const float* in, const int16_t* levels, int64_t count, int elu, int least, float scale,
                             float* out, int threads) {
    if (!bounded({count})) return OUT_OF_RANGE;
    if (!count) return 0;  // addresses may be null
    const auto run = elu ? chosen->dropped_elu : chosen->dropped;
    shared(count, int(std::min<int64_t>(threads, 1 + (count >> 17))), [&](int64_t first, int64_t last) {
        run(in + first, levels + first, last - first, int16_t(least), scale, out + first);
    });
    return 0;
}

// Gradients of what ELU was taken of, by those of the units that were made.
EXPORT int64_t ensue_dropped_elu_errors(const float* grad, const float* units, const int16_t* levels, int64_t count,
                                        int least, float scale, float* out) {
    if (!bounded({count})) return OUT_OF_RANGE;
    chosen->dropped_elu_errors(grad, units, levels, count, int16_t(least), scale, out);
    return 0;
}

// (rows, k) the highest of (rows, width) numbers, falling, and their places.
EXPORT int64_t ensue_topk(const float* numbers, int64_t rows, int64_t width, int64_t step, int64_t k, float* best,
                          int64_t* places, int threads) {
    if (!bounded({rows, width}) || k < 1 || k > width || width > UINT32_MAX) return OUT_OF_RANGE;
    shared(rows, int(std::min<int64_t>(threads, 1 + (rows * width >> 17))), [&](int64_t first, int64_t last) {
        for (int64_t row = first; row < last; row++)
            chosen->highest(numbers + row * step, width, k, best + row * k, places + row * k);
    });
    return 0;
}

// Whether the sizes and indices that search and scores have in common are right; `rows` pass a step together.
static bool writer_fits(const WriterCall& call, int64_t rows) {
    const bool sized = bounded({call.sources, call.turns, call.width}) && bounded({call.sources, call.keep, call.longest}) &&
                       bounded({call.sources, call.dim, call.heads, call.length}) && bounded({call.dim, call.ids}) &&
                       bounded({rows, call.ids}) && bounded({rows, call.wide}) && bounded({call.dim, call.wide}) &&
                       bounded({rows, call.heads, call.length}) && bounded({rows, call.longest, call.layers, call.dim}) &&
                       bounded({rows, call.width}) && bounded({rows, call.turns});
    const bool whole = divides(call.heads, call.dim) && call.wide > 0 && call.length > 0 && call.longest > 0 &&
                       call.layers > 0 && call.ids > END_TOKEN && rows <= UINT32_MAX / call.ids;
    return sized && whole && all_inside(call.memory, call.sources * call.length, call.ids);
}

EXPORT int64_t ensue_search(const WriterCall* call, int threads) {
    if (!bounded({STEP_ROWS, call->beam, call->longest}) || !writer_fits(*call, STEP_ROWS * call->beam)) return OUT_OF_RANGE;
    if (call->beam < 1 || call->keep < 1 || call->longest * call->beam >= INT32_MAX) return OUT_OF_RANGE;
    if (!bounded({call->sources, call->bytes, call->ids})) return OUT_OF_RANGE;
    if (call->allowed && !(all_inside(call->ends, call->sources, call->bytes) && all_inside(call->sizes, call->ids, MAX_ELEMENTS)))
        return OUT_OF_RANGE;
    return with_room<char>(call->sources, threads, chosen->writer_room(*call, true), [&](int64_t first, int64_t last, char* room) {
        chosen->search(*call, first, last, room);
    });
}

EXPORT int64_t ensue_likelihoods(const WriterCall* call, int threads) {
    if (!bounded({call->turns, call->width}) || !writer_fits(*call, call->turns * call->width + 1)) return OUT_OF_RANGE;
    if (call->keep != call->turns || call->longest < call->width) return OUT_OF_RANGE;
    if (!lengths_fit(call->lengths, call->sources * call->turns, call->width)) return OUT_OF_RANGE;
    if (!all_inside(call->typed, call->sources * call->turns * call->width, call->ids)) return OUT_OF_RANGE;
    return with_room<char>(call->sources, threads, chosen->writer_room(*call, false), [&](int64_t first, int64_t last, char* room) {
        chosen->likelihoods(*call, first, last, room);
    });
}

// (rows, out) log-softmax of x w + bias, w: in x out.
EXPORT int64_t ensue_log_shares(const float* x, int64_t rows, int64_t in, const float* w, int64_t out, const float* bias,
                                float* y) {
    if (!bounded({rows, in}) || !bounded({in, out}) || !bounded({rows, out})) return OUT_OF_RANGE;
    if (!out) return 0;
    chosen->product(x, rows, in, w, out, out, bias, y);
    for (int64_t row = 0; row < rows; row++) {
        const float total = chosen->log_total(y + row * out, out);
        for (int64_t at = 0; at < out; at++) y[row * out + at] -= total;
    }
    return 0;
}

// A thread takes one direction of a tile at a time.
EXPORT int64_t ensue_lstm(const LstmCall* call, int threads) {
    const bool sized = bounded({call->rows, call->length, call->hidden, 2}) && bounded({call->hidden, call->hidden, 8}) &&
                       call->hidden > 0 &&
                       bounded({call->distinct, call->hidden, 8}) && lengths_fit(call->lengths, call->rows, call->length);
    if (!sized) return OUT_OF_RANGE;
    for (int64_t row = 0; row < call->rows; row++)
        if (!all_inside(call->index + row * call->length, call->lengths[row], call->distinct)) return OUT_OF_RANGE;
    const int64_t tiles = (call->rows + LSTM_TILE - 1) / LSTM_TILE, size = LSTM_TILE * (6 * call->hidden);
    std::atomic<int64_t> next{0};
    const auto work = [&](int64_t, int64_t, float* room) {
        for (int64_t job; (job = next++) < 2 * tiles;) {
            const int64_t first = job / 2 * LSTM_TILE;
            chosen->lstm(*call, job % 2, first, std::min(call->rows, first + LSTM_TILE), room);
        }
    };
    const int64_t pieces = 16 * std::min<int64_t>(threads, 2 * tiles);  // one a thread, which takes jobs in turns
    return with_room<float>(pieces, threads, size, work);
}

// 1: a number that is too large, or none.
EXPORT int64_t ensue_pair_scores(const PairCall* call, int threads) {
    const bool sized = bounded({call->rows, call->length, call->step}) && bounded({call->rows, call->length, call->length}) &&
                       bounded({call->dim}) && call->dim > 0 && bounded({call->length + 1, call->dim + 32, 2}) &&
                       lengths_fit(call->lengths, call->rows, call->length);
    if (!sized) return OUT_OF_RANGE;
    const int64_t wide = two_vectors(call->dim);
    int64_t wrong = 0;
    const auto work = [&](int64_t first, int64_t last, float* room) {
        float* weights = room + 2 * call->length * wide;
        for (int64_t at = 0; at < wide; at++) weights[at] = at < call->dim ? -call->vector[at] : 0;
        bool fits = true;
        for (int64_t text = first; text < last && fits; text++) fits = chosen->pair_scores(*call, text, wide, room);
        if (!fits) __atomic_store_n(&wrong, 1, __ATOMIC_RELAXED);
    };
    const int64_t result = with_room<float>(call->rows, threads, (2 * call->length + 1) * wide, work);
    return result ? result : wrong;
}

EXPORT int64_t ensue_word_graphs(const GraphCall* call, int threads) {
    const bool sized = bounded({call->rows, call->length, call->length}) &&
                       bounded({2 * call->length + 1, call->length + 16}) &&
                       lengths_fit(call->lengths, call->rows, call->length);
    if (!sized) return OUT_OF_RANGE;
    if (!call->length) return 0;
    const int64_t size = (2 * call->length + 1) * (call->length + 16);
    return with_room<float>(call->rows, threads, size, [&](int64_t first, int64_t last, float* room) {
        for (int64_t text = first; text < last; text++) chosen->word_graph(*call, text, room);
    });
}

EXPORT int64_t ensue_encode(const EncodeCall* call) {
    const bool sized = bounded({call->items, call->dim, 5}) && bounded({call->items, call->wide}) && call->wide > 0 &&
                       bounded({call->rows, call->length, call->length}) && divides(call->heads, call->dim) &&
                       call->items <= INT32_MAX;
    if (!sized || !all_inside(call->places, call->items, call->rows * call->length)) return OUT_OF_RANGE;
    for (int64_t item = 1; item < call->items; item++)  // a row has room for `length` items
        if (call->places[item] <= call->places[item - 1]) return OUT_OF_RANGE;
    const int64_t size = call->items * (5 * call->dim + call->wide) + 2 * call->length;
    const std::unique_ptr<float[]> room(new (std::nothrow) float[size]);
    if (!room) return NO_MEMORY;
    chosen->encode(*call, room.get());
    return 0;
}

EXPORT int64_t ensue_sessions(const SessionCall* call) {
    const bool sized = bounded({call->rows, call->time, call->dim, 10}) && bounded({call->rows, call->time, call->time}) &&
                       bounded({call->num_ids, call->dim}) && bounded({call->heads, call->reach}) && call->reach > 0 &&
                       divides(call->heads, call->dim) && lengths_fit(call->lengths, call->rows, call->time);
    if (!sized) return OUT_OF_RANGE;
    for (int64_t row = 0; row < call->rows; row++)
        if (!all_inside(call->ids + row * call->time, call->lengths[row], call->num_ids)) return OUT_OF_RANGE;
    const std::unique_ptr<float[]> room(new (std::nothrow) float[call->time * (10 * call->dim + 1)]);
    if (!room) return NO_MEMORY;
    for (int64_t row = 0; row < call->rows; row++) chosen->session(*call, row, room.get());
    return 0;
}

EXPORT int64_t ensue_latest_clicks(const LatestCall* call) {
    const bool sized = bounded({call->batch, call->time}) && bounded({call->targets, call->time}) &&
                       bounded({call->targets, call->dim}) && bounded({call->dim, call->dim, 3}) &&
                       bounded({call->time, call->dim, 6}) && bounded({call->num_ids, call->dim}) &&
                       bounded({call->reach, call->dim}) && call->reach > 0 && divides(call->heads, call->dim);
    if (!sized || !all_inside(call->rows, call->targets, call->batch) || !all_inside(call->steps, call->targets, call->time))
        return OUT_OF_RANGE;
    for (int64_t target = 0; target < call->targets; target++)
        if (!all_inside(call->ids + call->rows[target] * call->time, call->steps[target] + 1, call->num_ids)) return OUT_OF_RANGE;
    const int64_t seen = std::min(call->time, call->reach);
    const std::unique_ptr<float[]> room(new (std::nothrow) float[seen * (5 * call->dim + 1) + 2 * call->dim]);
    if (!room) return NO_MEMORY;
    for (int64_t target = 0; target < call->targets; target++) chosen->latest_click(*call, target, room.get());
    return 0;
}

// Runs body(first, last, queries in 16 bits, their scales, room) on pieces of all queries, each with room for `size` numbers.
template <class Body> static int64_t of_queries(const ShortCall& call, int threads, int64_t size, const Body& body) {
    const bool sized = bounded({call.rows, call.ids, 16}) && bounded({call.rows, call.dim}) &&
                       bounded({call.dim, SHORT_BLOCK}) && bounded({call.ids, call.dim});
    if (!sized || call.exact < 1 || call.exact > call.ids) return OUT_OF_RANGE;
    const int64_t width = (call.dim + 1) / 2 * 2;
    const std::unique_ptr<int16_t[]> queries(new (std::nothrow) int16_t[call.rows * width]);
    const std::unique_ptr<float[]> scales(new (std::nothrow) float[call.rows]);
    if (!queries || !scales) return NO_MEMORY;
    return with_room<float>(16 * call.rows, threads, size, [&](int64_t first, int64_t last, float* room) {  // whole queries
        first /= 16, last /= 16;
        for (int64_t row = first; row < last; row++)
            scales[row] = chosen->shorten(call.queries + row * call.dim, call.dim, queries.get() + row * width);
        body(first, last, queries.get(), scales.get(), room);
    });
}

EXPORT int64_t ensue_short_scores(const ShortCall* call, int threads) {
    return of_queries(*call, threads, SHORT_GROUPS, [&](int64_t first, int64_t last, const int16_t* queries, const float* scales, float* peaks) {
        chosen->short_scores(*call, first, last, queries, scales);
        for (int64_t row = first; row < last; row++) chosen->exact_scores(*call, row, peaks);
    });
}

EXPORT int64_t ensue_short_best(const ShortCall* call, int threads) {
    const bool sized = call->k >= 1 && call->k <= call->exact && call->ids <= INT32_MAX - SHORT_BLOCK && call->exact <= call->ids &&
                       bounded({call->rows, call->many}) && bounded({call->filters, call->ids}) &&
                       bounded({call->rows, best_room(call->exact) + SHORT_BLOCK, 8});
    if (!sized || (call->filters && !all_inside(call->filter_of, call->rows, call->filters + 1))) return OUT_OF_RANGE;
    const int64_t size = best_size(call->rows, call->exact, call->filters > 0);
    return of_queries(*call, threads, size, [&](int64_t first, int64_t last, const int16_t* queries, const float* scales, float* room) {
        chosen->best_items(*call, first, last, queries, scales, room);
    });
}

// One piece a thread of the heads, in the order in which they lie.
EXPORT int64_t ensue_window(const WindowCall* call, int kind, int threads) {
    if (!bounded({call->reach}) || !bounded({2 * call->reach + 3, call->rows, call->length, call->heads}) ||
        !bounded({call->rows, call->length, call->dim}) || !divides(call->heads, call->dim))
        return OUT_OF_RANGE;
    const int64_t places = call->rows * call->length;
    const bool rows_fit = bounded({call->own_rows}) && bounded({call->near_rows}) && bounded({call->first_rows}) &&
                          (call->asked || places <= call->own_rows) && (call->asked_near || places <= call->near_rows);
    if (!rows_fit) return OUT_OF_RANGE;
    for (int64_t place = 0; place < places; place++) {
        if (!call->mask[place]) continue;  // what stands at padding is never followed
        if (call->asked && !inside(call->asked[place], call->own_rows)) return OUT_OF_RANGE;
        if (call->asked_near && !inside(call->asked_near[place], call->near_rows)) return OUT_OF_RANGE;
        if (!inside(call->words[place], call->first_rows)) return OUT_OF_RANGE;
    }
    const int64_t worth = 1 + (places * call->dim >> 17);
    shared(16 * call->heads, int(std::min<int64_t>(threads, worth)), [&](int64_t first, int64_t last) {
        chosen->window(*call, kind, first / 16, last / 16);
    });
    return 0;
}

// Nothing is moved where a row lies outside.
EXPORT int64_t ensue_adam_rows(const AdamCall* call, int threads) {
    const bool sized = bounded({call->rows, call->dim}) && bounded({call->num_ids, call->dim});
    if (!sized || !all_inside(call->ids, call->rows, call->num_ids)) return OUT_OF_RANGE;
    const int64_t worth = 1 + (call->rows * call->dim >> 17);
    shared(call->rows, int(std::min<int64_t>(threads, worth)),
           [&](int64_t first, int64_t last) { chosen->adam_rows(*call, first, last); });
    return 0;
}

// Histories go to the threads one at a time.
EXPORT int64_t ensue_band(const BandCall* call, int backward, int threads) {
    const bool sized = bounded({call->rows, call->time, call->span, call->dim}) && bounded({call->reach}) &&
                       bounded({call->dim + BAND_TILE, call->time + 32}) && bounded({call->rows, call->time, call->ages}) &&
                       (call->own == 0 || call->own == 1) && call->span >= std::min(call->reach, call->time) &&
                       lengths_fit(call->lengths, call->rows, call->time);
    // An age is divided by the width, and the last interval takes what has none.
    if (!sized || (call->scores && (call->ages < 1 || !(call->width > 0)))) return OUT_OF_RANGE;
    const int64_t worth = 1 + (call->rows * call->time * call->span * call->dim >> 20);
    const int64_t size = (call->dim + BAND_TILE) * two_vectors(call->time) + (backward ? call->time * call->span : 0);
    const auto run = backward ? chosen->band_backward : chosen->band_forward;
    const auto work = [&](int64_t first, int64_t last, float* room) {
        for (int64_t row = first / 16; row < last / 16; row++) run(*call, row, room);
    };
    return with_room<float>(16 * call->rows, int(std::min<int64_t>(threads, worth)), size, work);
}
