// The plain C interface: ensue loads the library with ctypes and hands over addresses. No Python, no torch.
#pragma once
#include <cstdint>

extern "C" {

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
    const void* in;
    const void* other;        // forward: one byte a key, 0 = hidden; null where all are seen
    const void* alpha;        // null: `fixed` for all
    void* out;
    void* to_alpha;           // backward: one number a row, in order; null where no gradient in alpha is asked
    double fixed;
};

// Past sessions, and target steps of some sessions that are asked about; `window` is at most 256.
struct NeighboursCall {
    int64_t batch, time, targets, window, sample, neighbours, num_ids, num_sessions, num_entries, room;
    const int64_t* ids;       // (batch, time)
    const int64_t* rows;      // (targets)
    const int64_t* steps;     // (targets)
    const float* decay;       // (window) what a click weighs at each distance
    const int64_t* postings;  // (num_entries) the sessions of each item, rising
    const int64_t* stops;     // (num_ids + 1) where those of an item begin and end
    const int64_t* starts;    // (num_sessions + 1) where the items of a session begin and end
    const int32_t* items;     // (num_entries)
    const float* holders;     // (num_ids) how many sessions held each item
    float sessions, idf;      // of how many
    int64_t* cells;           // (room) target x num_ids + item of every time a neighbour holds an item
    float* shares;            // (room) what that adds
    float* weights;           // (batch, time, time) each event's part of the neighbours' similarity
};

struct Norm {
    const float *weight, *bias;
    double eps;
};

// One decoder layer: its weights (in x out, row by row), and what one question folds its memory into.
struct StepLayer {
    const float *inward, *inward_bias, *outward, *outward_bias, *wide, *wide_bias, *narrow, *narrow_bias;
    const float* output_bias;
    Norm written, read, fed;
    const float *scores, *base, *outputs;  // (sources, dim, slots), (sources, slots), (sources, slots, dim)
    float *keys, *values;                  // (sources x heads, capacity, dim / heads), `before` of them are there
};

struct StepCall {
    int64_t sources, rows, dim, heads, wide, length, before, capacity, layers;
    const StepLayer* layer;
    const float* seen;  // (sources, rows, before + rows) 0 or below: below is not seen
    float* items;       // (sources, rows, dim) in and out
    float* weights;     // (sources, rows, heads, length) of the last layer; null where not asked for
};

// Layers of an encoder, of which only what a decoder's layers have too is read; norms are `written` and `fed`.
struct EncodeCall {
    int64_t items, rows, dim, heads, wide, length, layers, row_step, query_step;  // steps of the mask, 0 where it has one row
    const StepLayer* layer;
    const int64_t* places;  // (items) in rows x length, strictly rising
    const uint8_t* mask;    // (rows, length, length) not 0 for a place that is seen
    float* states;          // (items, dim) in and out
};

constexpr int64_t LSTM_TILE = 12;  // rows that make a step together: so often a weight that was read is used

// A bidirectional LSTM over rows of items; gates in torch's order, those of the tanh gate doubled.
struct LstmCall {
    int64_t rows, length, hidden, distinct;
    const float* projected;  // (distinct, 2, 4 hidden): each item forth and back, biases in
    const int64_t* index;    // (rows, length) which item stands where
    const int64_t* lengths;  // (rows)
    const float* recurrent;  // (2, hidden, 4 hidden)
    const int32_t* pairs;    // the same, each side as in RoundedCall; null: sums of float32 numbers
    float* out;              // (rows, length, 2 hidden); padding is left as it is
};

constexpr int64_t PAIR_ROWS = 6;  // items whose sums are held at once
constexpr int64_t pair_room(int64_t count) { return (count + 15) / 16 * 16; }  // whole vectors, however wide
constexpr int64_t two_vectors(int64_t count) { return (count + 31) / 32 * 32; }  // whole pairs of the widest vectors

// y = bias + x w, for x and w rounded to bfloat16.
struct RoundedCall {
    int64_t rows, in, out;
    const float* x;          // (rows, in)
    const int32_t* pairs;    // (in / 2, pair_room(out)): w[i] in the lower 16 bits, w[i + in / 2] in the upper ones
    const float* bias;       // (out)
    float* y;                // (rows, out)
};

// Additive scores between the words of texts.
struct PairCall {
    int64_t rows, length, dim, step;  // from a word to the next are `step` numbers
    const int64_t* lengths;           // (rows)
    const float *receiving, *giving, *vector;  // (rows, length, dim) twice, (dim)
    float* out;                       // (rows, length, length); padding is left as it is
    float largest;                    // no number may be further from 0
};

// Word graphs: column j of the scores is what word j thinks of each, of which its softmax is what it hands on.
struct GraphCall {
    int64_t rows, length;
    const int64_t* lengths;  // (rows) the words, which stand in front
    const float* scores;     // (rows, length, length)
    float* weights;          // (rows, length) centralities
    float* graph;            // (rows, length, length)
};

// CORE's pass over some sessions: ensue/tasks/next/models/core.py. Matrices are in x out, row by row.
struct SessionCall {
    int64_t rows, time, dim, heads, reach, num_ids;
    const int64_t *ids, *lengths;  // (rows, time), (rows)
    const float* items;       // (ids, dim)
    Norm before, after;
    const float *inward, *joined;                            // (dim, 3 dim) query, key, value; (dim, dim)
    const float *wide, *wide_bias, *narrow, *narrow_bias;    // (dim, 2 dim), (2 dim, dim)
    const float *asking, *asking_bias;                       // (dim, 2 dim) asking, answering
    const float* by_distance;  // (heads + 1, reach)
    float *sessions, *weights;  // (rows, time, dim) unit vectors; (rows, time, time); padding is left as it is
};

constexpr int64_t SHORT_BLOCK = 64;  // items that stand side by side

// Scores of all items from a table of 16-bit whole numbers; the highest are taken from the table itself.
struct ShortCall {
    int64_t rows, ids, dim, first, exact;  // so many highest are exact; ids before `first` are left out
    const float* queries;    // (rows, dim)
    const int16_t* table;    // (blocks, dim, SHORT_BLOCK), as many blocks as hold all ids
    const float *steps, *bias;      // (ids) what 1 of the table stands for; what is added
    const float *items, *factors;   // (ids, dim) the table itself, (ids) by which it is multiplied
    float* out;              // (rows, ids)
};

constexpr int64_t DOTS = 0, SUMS = 1, SPREAD = 2;  // what a WindowCall makes: weights, own rows, or the rows seen

// Rows that each place of some texts sees: `reach` neighbours a side with itself, its word and, where there is one, the
// text's relay. Steps are those from row to row.
struct WindowCall {
    int64_t rows, length, dim, heads, reach;
    int64_t own_rows, near_rows, first_rows;  // of the tables; the relay has `rows`
    int64_t own_step, near_step, first_step, relay_step;
    const uint8_t* mask;        // (rows, length) 0 for a place that neither sees nor is seen
    const int64_t *asked, *asked_near;  // (rows, length) which rows of `own` and `near`; null: the place's own
    const int64_t* words;       // (rows, length) which row of `first`
    float *own, *near, *first, *relay;  // rows of `dim` numbers; relay: (rows), null where there is none
    float* weights;             // (keys, rows, length, heads)
};

constexpr int64_t BAND_TILE = 4;  // steps that are multiplied together: so often a column that was read is used

// Attention of each event of some histories over the `reach` before it, itself counted where it sees itself.
struct BandCall {
    int64_t rows, time, dim, reach, own, span, ages;  // own: 0 or 1; span: places of `weights` a step
    double width;                  // of the intervals of age; events whose age has none share the last
    const int64_t* lengths;        // (rows) the events, which stand in front
    const float *queries, *keys;   // (rows, time, dim)
    const float* scores;           // (rows, time, ages) what an event is worth by its age; null: products
    const double* times;           // (rows, time)
    const float* values;           // (rows, time, dim)
    float* weights;                // (rows, time, span)
    float* out;                    // (rows, time, dim) that is added to; on the way back its gradient
    float *to_queries, *to_keys, *to_scores, *to_values;  // gradients that are added to
};

// Rows of a table and of its two moments, by Adam; rate and root hold the corrections of the step.
struct AdamCall {
    int64_t rows, dim, num_ids;
    const int64_t* ids;   // (rows) which of the table; none comes twice
    const float* grads;   // (rows, dim)
    float *weights, *means, *squares;  // (ids, dim)
    float rate, root;     // step size / (1 - beta1^n), sqrt(1 - beta2^n)
    float rest1, beta2, rest2, eps, decay;  // 1 - beta1; 1 - beta2; L2
};

// A sparse matrix of documents term by term, and the cells of texts that it is multiplied with.
struct PostingsCall {
    int64_t cells, documents, num_texts, num_terms, num_entries;
    const int64_t *texts, *terms;  // (cells)
    const double* text_weights;    // (cells); null: 1 for all
    const int64_t* offsets;        // (num_terms + 1) where the holders of a term begin and end
    const int32_t* holders;        // (num_entries)
    const float* weights;          // (num_entries)
    double* sums;                  // (num_texts, documents) that is added to
};
}
