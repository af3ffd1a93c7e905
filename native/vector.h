// Vectors of floats and doubles as wide as the instruction set allows, with exp and log of their own.
//
// This file is compiled once for every instruction set, into a namespace of its own (ENSUE_ARCH). It includes nothing
// that brings functions along: an inline function of a header, compiled for a new processor, could be chosen by the
// linker for all, and stop an old one. So there is no <cmath> and no <vector> here. Intrinsics are always inlined.
#pragma once
#include <cstdint>
#include <cstring>
#ifdef __SSE2__
#include <immintrin.h>
#endif

#define INLINE static inline __attribute__((always_inline))

namespace ENSUE_ARCH {

template <class T> struct Traits;

template <> struct Traits<float> {
    typedef float V __attribute__((vector_size(ENSUE_BYTES)));
    typedef int32_t I __attribute__((vector_size(ENSUE_BYTES)));
    static constexpr int mantissa = 23, bias = 127;
    static constexpr int32_t sqrt_half = 0x3f3504f3;
    static constexpr float magic = 12582912.0f;  // 1.5 x 2^23: what is added to it loses its fraction
    static constexpr float log2_hi = 0.693359375f, log2_lo = -2.121944400546905827679e-4f;
    static constexpr float lowest = -87.0f, tiny = 1.17549435e-38f, eps = 1.1920929e-7f, most = 3.40282347e38f;
    static constexpr int log_terms = 4, exp_terms = 6;
};

template <> struct Traits<double> {
    typedef double V __attribute__((vector_size(ENSUE_BYTES)));
    typedef int64_t I __attribute__((vector_size(ENSUE_BYTES)));
    static constexpr int mantissa = 52, bias = 1023;
    static constexpr int64_t sqrt_half = 0x3fe6a09e667f3bcdLL;
    static constexpr double magic = 6755399441055744.0;
    static constexpr double log2_hi = 6.93147180369123816490e-01, log2_lo = 1.90821492927058770002e-10;
    static constexpr double lowest = -708.0, tiny = 2.2250738585072014e-308, eps = 2.220446049250313e-16,
                            most = 1.7976931348623157e308;
    static constexpr int log_terms = 10, exp_terms = 12;
};

template <class T> using Vec = typename Traits<T>::V;
template <class T> using Int = typename Traits<T>::I;
template <class T> constexpr int lanes() { return ENSUE_BYTES / static_cast<int>(sizeof(T)); }

template <class T> INLINE Vec<T> all(T value) { return Vec<T>{} + value; }

template <class T> INLINE Vec<T> load(const T* from) {
    Vec<T> value;
    std::memcpy(&value, from, sizeof value);
    return value;
}

template <class T> INLINE void store(T* to, Vec<T> value) { std::memcpy(to, &value, sizeof value); }

template <class T> INLINE Vec<T> larger(Vec<T> a, Vec<T> b) { return a > b ? a : b; }
template <class T> INLINE Vec<T> smaller(Vec<T> a, Vec<T> b) { return a < b ? a : b; }

// Halves are added to halves, so that the order is the same wherever the width is.
template <class T> INLINE T sum(Vec<T> value) {
    T part[lanes<T>()];
    std::memcpy(part, &value, sizeof part);
    for (int half = lanes<T>() / 2; half; half /= 2)
        for (int lane = 0; lane < half; lane++) part[lane] += part[lane + half];
    return part[0];
}

template <class T> INLINE T largest(Vec<T> value) {
    T part[lanes<T>()];
    std::memcpy(part, &value, sizeof part);
    for (int half = lanes<T>() / 2; half; half /= 2)
        for (int lane = 0; lane < half; lane++) part[lane] = part[lane] > part[lane + half] ? part[lane] : part[lane + half];
    return part[0];
}

template <class T> INLINE bool any(Int<T> mask) {
    decltype(mask[0] + 0) part[lanes<T>()], found = 0;
    std::memcpy(part, &mask, sizeof mask);
    for (int lane = 0; lane < lanes<T>(); lane++) found |= part[lane];
    return found != 0;
}

// Bits of the lanes of 4 vectors whose number is above `least`, or NaN: that of the first number is the lowest.
INLINE uint64_t lanes_above(const float* numbers, float least) {
    constexpr int L = lanes<float>();
    uint64_t bits = 0;
    for (int part = 0; part < 4; part++) {
        const Vec<float> here = load<float>(numbers + part * L);
#if defined(__AVX512F__)
        const uint64_t mask = _mm512_cmp_ps_mask((__m512)here, _mm512_set1_ps(least), _CMP_NLE_UQ);
#elif defined(__AVX2__)
        const uint64_t mask = uint32_t(_mm256_movemask_ps(_mm256_cmp_ps((__m256)here, _mm256_set1_ps(least), _CMP_NLE_UQ)));
#elif defined(__SSE2__)
        const uint64_t mask = uint32_t(_mm_movemask_ps(_mm_cmpnle_ps((__m128)here, _mm_set1_ps(least))));
#else
        uint64_t mask = 0;
        for (int lane = 0; lane < L; lane++) mask |= uint64_t(!(here[lane] <= least)) << lane;
#endif
        bits |= mask << (part * L);
    }
    return bits;
}

// Adds products of pairs of 16-bit numbers to sums: each 32-bit lane of `pairs` with the pair that `query` holds.
INLINE void add_pair_products(Int<float>& sums, Int<float> pairs, int32_t query) {
#if defined(__AVX512VNNI__)
    sums = (Int<float>)_mm512_dpwssd_epi32((__m512i)sums, (__m512i)pairs, _mm512_set1_epi32(query));
#elif defined(__AVX512BW__)
    sums += (Int<float>)_mm512_madd_epi16((__m512i)pairs, _mm512_set1_epi32(query));
#elif defined(__AVX2__)
    sums += (Int<float>)_mm256_madd_epi16((__m256i)pairs, _mm256_set1_epi32(query));
#elif defined(__SSE2__)
    sums += (Int<float>)_mm_madd_epi16((__m128i)pairs, _mm_set1_epi32(query));
#else
    sums += (pairs << 16 >> 16) * int32_t(int16_t(query)) + (pairs >> 16) * (query >> 16);
#endif
}

// Log(y + rest), for y from the least normal number on; rest is what rounding took from y.
// With y + rest = 2^e (1 + f), sqrt(1/2) <= 1 + f < sqrt(2) and s = f / (2 + f):
// log(1 + f) = 2 artanh(s) = 2 s + s (2/3 s^2 + 2/5 s^4 + ...), and 2 s = f - f^2 / 2 + s f^2 / 2.
template <class T> INLINE Vec<T> log_of(Vec<T> y, Vec<T> rest) {
    typedef Traits<T> R;
    Int<T> bits = (Int<T>)y, e = (bits - R::sqrt_half) >> R::mantissa;
    Vec<T> f = ((Vec<T>)(bits - (e << R::mantissa)) - T(1)) + rest * (Vec<T>)((R::bias - e) << R::mantissa);
    Vec<T> exponent = (Vec<T>)(e + (Int<T>)all<T>(R::magic)) - R::magic;
    Vec<T> s = f / (f + T(2)), z = s * s, tail = all<T>(T(2) / (2 * R::log_terms + 1));
#pragma GCC unroll 16
    for (int term = R::log_terms - 1; term > 0; term--) tail = tail * z + T(2) / (2 * term + 1);
    Vec<T> half = T(0.5) * f * f;
    return exponent * R::log2_hi + (f - (half - (s * (half + z * tail) + exponent * R::log2_lo)));
}

// x = n log(2) + r, and what e^r is above 1 + r: r^2 / 2 + r^3 / 6 + ...
template <class T> struct Reduced {
    Int<T> n;
    Vec<T> r, above;

    INLINE Reduced of(Vec<T> x) {
        typedef Traits<T> R;
        Vec<T> shifted = x * T(1.44269504088896340736) + R::magic, whole = shifted - R::magic;
        Reduced made;
        made.n = (Int<T>)shifted - (Int<T>)all<T>(R::magic);
        made.r = (x - whole * R::log2_hi) - whole * R::log2_lo;
        Vec<T> tail = all<T>(factor(R::exp_terms + 1));
#pragma GCC unroll 16
        for (int term = R::exp_terms; term > 1; term--) tail = tail * made.r + factor(term);
        made.above = made.r * made.r * tail;
        return made;
    }

    static constexpr T factor(int number) { return number < 2 ? T(1) : factor(number - 1) / number; }

    Vec<T> power() const { return (Vec<T>)((n + Traits<T>::bias) << Traits<T>::mantissa); }
};

// e^x for lowest <= x <= 0 or a little above.
template <class T> INLINE Vec<T> exp_of(Vec<T> x) {
    Reduced<T> part = Reduced<T>::of(x);
    return (T(1) + (part.r + part.above)) * part.power();
}

// e^x - 1 in the same range, and what it is above x, neither with a loss near 0.
template <class T> INLINE void growth_of(Vec<T> x, Vec<T>& growth, Vec<T>& above) {
    Reduced<T> part = Reduced<T>::of(x);
    Vec<T> near = part.r + part.above, power = part.power(), far = near * power + (power - T(1));
    growth = part.n == 0 ? near : far;
    above = part.n == 0 ? part.above : far - x;
}

}  // namespace ENSUE_ARCH
