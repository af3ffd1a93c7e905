// The plain C interface of the compiled kernels, and the only description of it: the C++ sources include this file, and
// ensue/kernels/__init__.py reads it to call the functions by name. No Python, no torch.
//
// Python reads the text: one array a line of a structure, EXPORT before every function. ARRAY(sizes) states the shape of a
// contiguous array: sizes are numbers and expressions over other fields, divided without a rest. A size that is a single
// name is taken from the array where it is not given. A pointer without ARRAY is for the caller to check.
#pragma once
#include <cstdint>

#define ARRAY(...)
#define EXPORT __attribute__((visibility("default")))

extern "C" {

// Goes up with every change of this file's declarations: Python leaves a library with another number alone.
constexpr int64_t INTERFACE = 21;
EXPORT int ensue_interface();

// Chooses the code: at most `limit`, and never more than the processor has. Returns what is used from now on.
EXPORT int ensue_level(int limit);

// Results below 0. Every function checks the sizes, and each index that it takes from memory against the size of the table
// that it indexes, before it follows it: arrays of the stated sizes suffice for it never to leave them.
constexpr int64_t NO_MEMORY = -1, OUT_OF_RANGE = -2;

// Rows of keys anywhere in memory. Steps are counted in elements; of the keys it is the last one.
struct EntmaxCall {
    int64_t dims;             // of the rows, at most 8
    int64_t keys;
    int64_t sizes[8];         // how many rows along each
    int64_t in_steps[9];      // scores forward, weights backward
    int64_t other_steps[9];   // mask forward, gradient of the weights backward
    int64_t alpha_steps[8];
    int64_t out_steps[9];     // weights forward, gradient of the scores backward
    const void* input;
    const void* other;        // forward: one byte a key, 0 = hidden; null where all are seen
    const void* alpha;        // null: `fixed` for all
    void* out;
    void* to_alpha;           // backward: one number a row, in order; null where no gradient in alpha is asked
    double fixed;
};
EXPORT int64_t ensue_entmax(const EntmaxCall* call, int wide, int backward, int threads);

// Past sessions, and target steps of some sessions that are asked about; `window` is at most 256.
struct NeighboursCall {
    int64_t batch, time, targets, window, sample, neighbours, num_ids, num_sessions, num_entries, room;
    const int64_t* ids ARRAY(batch, time);
    const int64_t* rows ARRAY(targets);
    const int64_t* steps ARRAY(targets);
    const float* decay ARRAY(window);                // what a click weighs at each distance
    const int64_t* postings ARRAY(num_entries);      // the sessions of each item, rising
    const int64_t* stops ARRAY(num_ids + 1);         // where those of an item begin and end
    const int64_t* starts ARRAY(num_sessions + 1);   // where the items of a session begin and end
    const int32_t* items ARRAY(num_entries);
    const float* holders ARRAY(num_ids);             // how many sessions held each item
    float sessions, idf;                             // of how many
    int64_t* cells ARRAY(room);                      // target x num_ids + item of every time a neighbour holds an item
    float* shares ARRAY(room);                       // what that adds
    float* weights ARRAY(batch, time, time);         // each event's part of the neighbours' similarity
};
EXPORT int64_t ensue_neighbours(const NeighboursCall* call);

struct Norm {
    const float* weight ARRAY(dim);
    const float* bias ARRAY(dim);
    double eps;
};

// One decoder layer: its weights (in x out, row by row), and what one question folds its memory into.
struct StepLayer {
    const float* inward ARRAY(dim, 3 * dim);
    const float* inward_bias ARRAY(3 * dim);
    const float* outward ARRAY(dim, dim);
    const float* outward_bias ARRAY(dim);
    const float* wide ARRAY(dim, hidden);
    const float* wide_bias ARRAY(hidden);
    const float* narrow ARRAY(hidden, dim);
    const float* narrow_bias ARRAY(dim);
    const float* output_bias ARRAY(dim);
    Norm written, read, fed;
    const float* scores ARRAY(sources, dim, heads * length);
    const float* base ARRAY(sources, 1, heads * length);
    const float* outputs ARRAY(sources, heads * length, dim);
    float* keys ARRAY(sources * heads, capacity, dim / heads);    // `before` of them are there
    float* values ARRAY(sources * heads, capacity, dim / heads);
};

constexpr int64_t STEP_ROWS = 96;  // rows that pass the weights of a step together, unless one source has more
constexpr int64_t BEGIN_TOKEN = 2, END_TOKEN = 3;

// A decoder that writes: layers, whose keys and values need not be set, the log-softmax of x weight + bias, and copies.
// The search takes all of it. Likelihoods are those of `typed`, in `scores`; no field about beams, the wall or prefixes.
struct WriterCall {
    int64_t sources, beam, keep, longest, turns, width, ids, dim, heads, wide, length, layers, bytes, repeats, exhaustive;
    float scale;                                       // of the token vectors
    const StepLayer* layer;
    const float* table ARRAY(ids, dim);
    const float* codes ARRAY(longest + 1, dim);        // of the positions
    const float* weight ARRAY(dim, ids);
    const float* bias ARRAY(ids);
    const float* wall ARRAY(ids);                      // 0, or -inf for tokens that are never written
    const float* gate ARRAY(dim + 1);                  // its bias the last; null where nothing is copied
    const int64_t* memory ARRAY(sources, length);      // tokens, 0 at padding
    const int64_t* typed ARRAY(sources, turns, width);
    const int64_t* lengths ARRAY(sources, turns);
    const float* divisors ARRAY(longest + 2);          // of the log-probability, by length
    const uint8_t* allowed ARRAY(sources, bytes, ids); // what may follow so many bytes of a typed prefix; null without any
    const int64_t* sizes ARRAY(ids);                   // bytes of the tokens
    const int64_t* ends ARRAY(sources);                // and of the prefixes
    int64_t* tokens ARRAY(sources, keep, longest);     // of the result, which is whole
    double* scores ARRAY(sources, keep);
    double* sums ARRAY(sources, keep);
};
EXPORT int64_t ensue_search(const WriterCall* call, int threads);
EXPORT int64_t ensue_likelihoods(const WriterCall* call, int threads);

// Log-softmax of x w + bias, w: in x out.
EXPORT int64_t ensue_log_shares(const float* x ARRAY(rows, dim), int64_t rows, int64_t dim, const float* w ARRAY(dim, ids),
                                int64_t ids, const float* bias ARRAY(ids), float* out ARRAY(rows, ids));

// Layers of an encoder, of which only what a decoder's layers have too is read; norms are `written` and `fed`.
struct EncodeCall {
    int64_t items, rows, dim, heads, wide, length, layers, row_step, query_step;  // steps of the mask, 0 where it has one row
    const StepLayer* layer;
    const int64_t* places ARRAY(items);   // in rows x length, strictly rising
    const uint8_t* mask ARRAY(rows if row_step else 1, length if query_step else 1, length);  // not 0 for a place that is seen
    float* states ARRAY(items, dim);      // in and out
};
EXPORT int64_t ensue_encode(const EncodeCall* call);

constexpr int64_t LSTM_TILE = 12;  // rows that make a step together: so often a weight that was read is used

// A bidirectional LSTM over rows of items; gates in torch's order, those of the tanh gate doubled.
struct LstmCall {
    int64_t rows, length, hidden, distinct;
    const float* projected ARRAY(distinct, 2, 4 * hidden);  // each item forth and back, biases in
    const int64_t* index ARRAY(rows, length);               // which item stands where
    const int64_t* lengths ARRAY(rows);
    const float* recurrent ARRAY(2, hidden, 4 * hidden);
    float* out ARRAY(rows, length, 2 * hidden);             // padding is left as it is
};
EXPORT int64_t ensue_lstm(const LstmCall* call, int threads);

constexpr int64_t two_vectors(int64_t count) { return (count + 31) / 32 * 32; }  // whole pairs of the widest vectors

// Additive scores between the words of texts. Returns 1 where a number is too large, or none.
struct PairCall {
    int64_t rows, length, dim;
    int64_t step;                            // from a word to the next are `step` numbers
    const int64_t* lengths ARRAY(rows);
    const float *receiving, *giving;         // (rows, length, dim)
    const float* vector ARRAY(dim);
    float* out ARRAY(rows, length, length);  // padding is left as it is
    float largest;                           // no number may be further from 0
};
EXPORT int64_t ensue_pair_scores(const PairCall* call, int threads);

// Word graphs: column j of the scores is what word j thinks of each, of which its softmax is what it hands on.
struct GraphCall {
    int64_t rows, length;
    const int64_t* lengths ARRAY(rows);            // the words, which stand in front
    const float* scores ARRAY(rows, length, length);
    float* weights ARRAY(rows, length);            // centralities
    float* graph ARRAY(rows, length, length);
};
EXPORT int64_t ensue_word_graphs(const GraphCall* call, int threads);

// CORE's pass over some sessions: ensue/tasks/next/models/core.py. Matrices are in x out, row by row.
struct SessionCall {
    int64_t rows, time, dim, heads, reach, num_ids;
    const int64_t* ids ARRAY(rows, time);
    const int64_t* lengths ARRAY(rows);
    const float* items ARRAY(num_ids, dim);
    Norm before, after;
    const float* inward ARRAY(dim, 3 * dim);       // query, key, value
    const float* joined ARRAY(dim, dim);
    const float* wide ARRAY(dim, 2 * dim);
    const float* wide_bias ARRAY(2 * dim);
    const float* narrow ARRAY(2 * dim, dim);
    const float* narrow_bias ARRAY(dim);
    const float* asking ARRAY(dim, 2 * dim);       // asking, answering
    const float* asking_bias ARRAY(2 * dim);
    const float* by_distance ARRAY(heads + 1, reach);
    float* sessions ARRAY(rows, time, dim);        // unit vectors; padding is left as it is
    float* weights ARRAY(rows, time, time);        // so here
};
EXPORT int64_t ensue_sessions(const SessionCall* call);

// SANSR's block at some target steps: ensue/tasks/next/models/sansr.py. Matrices are in x out, row by row.
struct LatestCall {
    int64_t targets, batch, time, dim, heads, reach, num_ids, residual;
    const int64_t* ids ARRAY(batch, time);
    const int64_t* rows ARRAY(targets);            // which row of `ids`
    const int64_t* steps ARRAY(targets);           // the click that asks
    const float* items ARRAY(num_ids, dim);
    const float* positions ARRAY(reach, dim);      // by the distance from it
    Norm before, after;
    const float* inward ARRAY(dim, 3 * dim);       // query, key, value
    const float* joined ARRAY(dim, dim);
    const float* wide ARRAY(dim, dim);
    const float* wide_bias ARRAY(dim);
    const float* narrow ARRAY(dim, dim);
    const float* narrow_bias ARRAY(dim);
    float* sessions ARRAY(targets, dim);
    float* weights ARRAY(targets, time);           // a mean over heads
};
EXPORT int64_t ensue_latest_clicks(const LatestCall* call);

constexpr int64_t SHORT_BLOCK = 64;  // items that stand side by side
constexpr int64_t SHORT_GROUPS = 1024;  // of items, whose highest scores bound those that are computed again
constexpr int SHORT_LENGTH = 46000;  // of a row's 16-bit numbers at most: no sum of products of two rows reaches 2^31

// Scores of all items from a table of 16-bit whole numbers; the highest are taken from the table itself.
struct ShortCall {
    int64_t rows, ids, dim, first, exact;                         // at least so many highest are exact; ids before `first` are left out
    const float* queries ARRAY(rows, dim);
    const int16_t* table ARRAY((ids + 63) / 64, (dim + 1) / 2, 128);  // blocks of SHORT_BLOCK pairs, as many as hold all ids
    const float* steps ARRAY(ids);                                // what 1 of the table stands for
    const float* bias ARRAY(ids);                                 // what is added
    const float* items ARRAY(ids, dim);                           // the table itself
    const float* factors ARRAY(ids);                              // by which it is multiplied
    float* out ARRAY(rows, ids);
    int64_t k, many, filters;                                     // these and all that follows: of ensue_short_best alone
    const int64_t* hidden ARRAY(rows, many);                      // what is left out of a row, rising
    const uint64_t* permitted ARRAY(filters, (ids + 63) / 64);    // bit `id % 64` is 1 where an id may be among the best
    const int64_t* filter_of ARRAY(rows);                         // which of those is a row's, `filters` for none; null without any
    float* best ARRAY(rows, k);                                   // the highest scores, falling; -inf where there are fewer
    int64_t* places ARRAY(rows, k);                               // their ids
    float* totals ARRAY(rows);                                    // the logarithm of the sum of exp of all scores
};
EXPORT int64_t ensue_short_scores(const ShortCall* call, int threads);

// The highest scores alone, of the `exact` ones, without `out`.
EXPORT int64_t ensue_short_best(const ShortCall* call, int threads);
constexpr int64_t best_room(int64_t exact) { return (exact + 5 * SHORT_BLOCK) / 16 * 16; }  // candidates of a list
constexpr int64_t BEST_ROW = 24;  // numbers of 4 bytes for what is known of a row
// Numbers in memory: what is known of each row, 16 sums, and its lists of candidates; then scores of one, and a tile of four.
constexpr int64_t best_size(int64_t rows, int64_t exact, bool has_filters) {
    return rows * (BEST_ROW + 16 + 2 * (1 + has_filters) * best_room(exact)) + best_room(exact) + 4 * SHORT_BLOCK;
}

constexpr int64_t DOTS = 0, SUMS = 1, SPREAD = 2;  // what a WindowCall makes: weights, own rows, or the rows seen

// Rows that each place of some texts sees: `reach` neighbours a side with itself, its word and, where there is one, the
// text's relay. Steps are those from row to row.
struct WindowCall {
    int64_t rows, length, dim, heads, reach;
    int64_t own_rows, near_rows, first_rows;        // of the tables; the relay has `rows`
    int64_t own_step, near_step, first_step, relay_step;
    const uint8_t* mask ARRAY(rows, length);        // 0 for a place that neither sees nor is seen
    const int64_t* asked ARRAY(rows, length);       // which rows of `own`; null: the place's own
    const int64_t* asked_near ARRAY(rows, length);  // which rows of `near`; null: the place's own
    const int64_t* words ARRAY(rows, length);       // which row of `first`
    float *own, *near, *first, *relay;              // rows of `dim` numbers; relay: (rows), null where there is none
    float* weights ARRAY(2 * reach + (3 if relay_step else 2), rows, length, heads);
};
EXPORT int64_t ensue_window(const WindowCall* call, int kind, int threads);

constexpr int64_t BAND_TILE = 4;  // steps that are multiplied together: so often a column that was read is used

// Attention of each event of some histories over the `reach` before it, itself counted where it sees itself.
struct BandCall {
    int64_t rows, time, dim, reach, own, span, ages;  // own: 0 or 1; span: places of `weights` a step
    double width;                  // of the intervals of age; events whose age has none share the last
    const int64_t* lengths ARRAY(rows);               // the events, which stand in front
    const float* queries ARRAY(rows * time, dim);
    const float* keys ARRAY(rows * time, dim);
    const float* scores ARRAY(rows * time, ages);     // what an event is worth by its age; null: products
    const double* times ARRAY(rows * time);
    const float* values ARRAY(rows * time, dim);
    float* weights ARRAY(rows * time, span);
    float* out ARRAY(rows * time, dim);               // added to; on the way back its gradient
    float* to_queries ARRAY(rows * time, dim);        // gradients that are added to
    float* to_keys ARRAY(rows * time, dim);
    float* to_scores ARRAY(rows * time, ages);
    float* to_values ARRAY(rows * time, dim);
};
EXPORT int64_t ensue_band(const BandCall* call, int backward, int threads);

// Rows of a table and of its two moments, by Adam; rate and root hold the corrections of the step.
struct AdamCall {
    int64_t rows, dim, num_ids;
    const int64_t* ids ARRAY(rows);      // which of the table; none comes twice
    const float* grads ARRAY(rows, dim);
    float* weights ARRAY(num_ids, dim);
    float* means ARRAY(num_ids, dim);
    float* squares ARRAY(num_ids, dim);
    float rate, root;                    // step size / (1 - beta1^n), sqrt(1 - beta2^n)
    float rest1, beta2, rest2, eps, decay;  // 1 - beta1; 1 - beta2; L2
};
EXPORT int64_t ensue_adam_rows(const AdamCall* call, int threads);

// A sparse matrix of documents term by term, and the cells of texts that it is multiplied with.
struct PostingsCall {
    int64_t cells, documents, num_texts, num_terms, num_entries;
    const int64_t* texts ARRAY(cells);
    const int64_t* terms ARRAY(cells);
    const double* text_weights ARRAY(cells);     // null: 1 for all
    const int64_t* offsets ARRAY(num_terms + 1); // where the holders of a term begin and end
    const int32_t* holders ARRAY(num_entries);
    const float* weights ARRAY(num_entries);
    double* sums ARRAY(num_texts * documents);   // added to
};
EXPORT int64_t ensue_postings(const PostingsCall* call);

// Terms of texts, sorted by text and key, each with how often the text holds it. Returns how many they are.
struct TermsCall {
    int64_t num_texts, size, room;               // room: at least 3 x size
    const int64_t* stops ARRAY(num_texts + 1);   // where texts begin and end
    int64_t* owners ARRAY(room);                 // the text of each
    uint64_t* keys ARRAY(room);
    int64_t* counts ARRAY(room);
};
EXPORT int64_t ensue_runs(const TermsCall* call, const uint32_t* characters);  // (size)
EXPORT int64_t ensue_pairs(const TermsCall* call, const uint64_t* words, const uint8_t* is_stop);  // (size) each

// Sparse rows: row r has the columns and values from stops[r] to stops[r + 1]. Values are floats or, where `wide`, doubles.
// Sums are taken in the order of the cells.
struct SparseDenseCall {
    int64_t rows, width, cells, vectors, transposed;
    const int64_t* stops ARRAY(rows + 1);
    const int32_t* columns ARRAY(cells);
    const void* values;                          // (cells)
    const void* dense;                           // (width, vectors); with the transpose (rows, vectors)
    void* out;                                   // (rows, vectors); with the transpose (width, vectors)
};
EXPORT int64_t ensue_sparse_dense(const SparseDenseCall* call, int wide);

// Returns the number of cells of the product, without those that are 0. The columns of a row are in the order in which they
// were first met, reversed.
struct SparseProductCall {
    int64_t rows, inner, width, cells, other_cells, room;
    const int64_t* stops ARRAY(rows + 1);
    const int32_t* columns ARRAY(cells);
    const void* values;                          // (cells)
    const int64_t* other_stops ARRAY(inner + 1);
    const int32_t* other_columns ARRAY(other_cells);
    const void* other_values;                    // (other_cells)
    int64_t* out_stops ARRAY(rows + 1);
    int32_t* out_columns ARRAY(room);
    void* out_values;                            // (room)
};
EXPORT int64_t ensue_sparse_product(const SparseProductCall* call, int wide);

// Items that are chosen one after another from some candidates: each time the one of the highest relevance - weight x
// (highest similarity to an item that was chosen before), of equals the earlier, unless a kind that it is of is full.
struct DiversifyCall {
    int64_t rows, width, cells;                  // of a table of all items
    const int64_t* stops ARRAY(rows + 1);
    const int32_t* columns ARRAY(cells);         // rising within a row
    const double* values ARRAY(cells);
    const double* totals ARRAY(rows);            // null: similarity is the product of two rows; else a cell, of the columns
                                                 // of one item, by the root of the product of both totals
    int64_t count, k, kinds, num_marks;
    const int64_t* ids ARRAY(count);             // of the candidates
    const double* relevance ARRAY(count);
    double weight;
    const int64_t* mark_stops ARRAY(count + 1);  // this and the next two: null where `kinds` is 0
    const int64_t* marks ARRAY(num_marks);       // the kinds that a candidate is of
    const int64_t* limits ARRAY(kinds);          // items of each kind at most
    int64_t* chosen ARRAY(k);                    // places of candidates
};
EXPORT int64_t ensue_diversify(const DiversifyCall* call);

// Logarithms of factor x totals + what is added to `cells`, counted through all rows.
EXPORT int64_t ensue_log_mixture(const float* totals ARRAY(width), float factor, int64_t rows, int64_t width,
                                 const int64_t* cells ARRAY(count), const float* added ARRAY(count), int64_t count,
                                 float* out ARRAY(rows, width));
// Log-sum-exp of rows that lie `step` numbers apart.
EXPORT int64_t ensue_log_totals(const float* numbers, int64_t rows, int64_t width, int64_t step,
                                float* totals ARRAY(rows), int threads);
// The k highest of rows that lie `step` numbers apart, falling, and their places; of equals the earlier.
EXPORT int64_t ensue_topk(const float* numbers, int64_t rows, int64_t width, int64_t step, int64_t k,
                          float* best ARRAY(rows, k), int64_t* places ARRAY(rows, k), int threads);
// Cross-entropy of scores that lack their biases; the scores become the gradient times the row's sum.
EXPORT int64_t ensue_softmax_errors(float* scores ARRAY(rows, width), int64_t rows, int64_t width,
                                    const float* bias ARRAY(width), const int64_t* wanted ARRAY(rows),
                                    float* sums ARRAY(rows), float* losses ARRAY(rows), int threads);
// Units, or their ELU, times scale where their level is at least `least`, else 0.
EXPORT int64_t ensue_dropped(const float* units ARRAY(count), const int16_t* levels ARRAY(count), int64_t count, int elu,
                             int least, float scale, float* out ARRAY(count), int threads);
EXPORT int64_t ensue_dropped_elu_errors(const float* grad ARRAY(count), const float* units ARRAY(count),
                                        const int16_t* levels ARRAY(count), int64_t count, int least, float scale,
                                        float* out ARRAY(count));
}
