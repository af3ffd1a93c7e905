// Scores of texts that add up the terms they share with each document; ensue/text/postings.py computes the same.
#include "bounds.h"
#include "kernels.h"

// Sums are taken in the order of the cells, and in 64 bits, so that they are those of the reference.
EXPORT int64_t ensue_postings(const PostingsCall* call) {
    const bool sized = bounded({call->cells}) && bounded({call->num_texts, call->documents}) &&
                       bounded({call->num_terms}) && bounded({call->num_entries});
    if (!sized || !all_inside(call->texts, call->cells, call->num_texts)) return OUT_OF_RANGE;
    for (int64_t cell = 0; cell < call->cells; cell++) {
        if (!inside(call->terms[cell], call->num_terms)) return OUT_OF_RANGE;
        double* sums = call->sums + call->texts[cell] * call->documents;
        const int64_t* offsets = call->offsets + call->terms[cell];
        const int64_t first = offsets[0], last = offsets[1];
        if (first < 0 || first > last || last > call->num_entries) return OUT_OF_RANGE;
        const double weight = call->text_weights ? call->text_weights[cell] : 1.0;
        for (int64_t at = first; at < last; at++) {
            if (!inside(call->holders[at], call->documents)) return OUT_OF_RANGE;
            sums[call->holders[at]] += weight * call->weights[at];
        }
    }
    return 0;
}
