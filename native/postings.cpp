// Scores of texts that add up the terms they share with each document; ensue/text/postings.py computes the same.
#include "kernels.h"

// Sums are taken in the order of the cells, and in 64 bits, so that they are those of the reference.
extern "C" __attribute__((visibility("default"))) void ensue_postings(const PostingsCall* call) {
    for (int64_t cell = 0; cell < call->cells; cell++) {
        double* sums = call->sums + call->texts[cell] * call->documents;
        const int64_t term = call->terms[cell], last = call->offsets[term + 1];
        const double weight = call->text_weights ? call->text_weights[cell] : 1.0;
        for (int64_t at = call->offsets[term]; at < last; at++) sums[call->holders[at]] += weight * call->weights[at];
    }
}
