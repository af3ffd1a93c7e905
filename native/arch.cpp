// All that is compiled once for every instruction set: ENSUE_ARCH is its namespace, ENSUE_BYTES the width of a vector.
#include "short.h"
#ifndef __AVX512VNNI__  // of which nothing else makes use
#include "adam.h"
#include "band.h"
#include "decoder.h"
#include "encoder.h"
#include "entmax.h"
#include "rows.h"
#include "writer.h"
#include "sessions.h"
#include "texts.h"
#include "window.h"

namespace ENSUE_ARCH {

void entmax(const EntmaxCall& call, bool wide, bool backward, int64_t first, int64_t last, void* scratch) {
#if ENSUE_BYTES < 64
    if (wide) return entmax_kind<double>(call, backward, first, last, scratch);
#else
    (void)wide;
#endif
    entmax_kind<float>(call, backward, first, last, scratch);
}

}  // namespace ENSUE_ARCH
#endif
