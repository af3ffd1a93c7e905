// Alpha-entmax, forward and backward; the mathematics stands in ensue/nn/normalisers.py.
//
// Up to FEW keys, as many rows as a vector has lanes are solved side by side, one a lane; more keys are solved row by
// row, and keys that are out are left out of every later pass: the root is approached from one side, so none returns.
// What is done with a row depends on the row alone.
#pragma once
#include "kernels.h"
#include "vector.h"

namespace ENSUE_ARCH {

constexpr int64_t FEW = 64;
constexpr int STEPS = 40;
enum Kind { GENERAL, HALF, ONE };  // p = alpha - 1: anything, 1/2, 1

// Where the rows of a call begin, one after the other.
struct Walk {
    const EntmaxCall& call;
    int64_t place[8], in = 0, other = 0, alpha = 0, out = 0;

    Walk(const EntmaxCall& given, int64_t row) : call(given) {
        for (int64_t dim = call.dims - 1; dim >= 0; dim--) {
            place[dim] = row % call.sizes[dim];
            row /= call.sizes[dim];
            in += place[dim] * call.in_steps[dim];
            other += place[dim] * call.other_steps[dim];
            alpha += place[dim] * call.alpha_steps[dim];
            out += place[dim] * call.out_steps[dim];
        }
    }

    void next() {
        for (int64_t dim = call.dims - 1; dim >= 0; dim--) {
            const int64_t back = ++place[dim] < call.sizes[dim] ? 0 : place[dim];
            const int64_t by = back ? 1 - back : 1;
            in += by * call.in_steps[dim];
            other += by * call.other_steps[dim];
            alpha += by * call.alpha_steps[dim];
            out += by * call.out_steps[dim];
            if (!back) return;
            place[dim] = 0;
        }
    }
};

template <class T> INLINE T power_of(const EntmaxCall& call, int64_t place) {
    const T power = call.alpha ? static_cast<const T*>(call.alpha)[place] - T(1) : T(call.fixed - 1);
    return power < T(1e-6) ? T(1e-6) : power > T(1) ? T(1) : power;
}

// Some rows side by side; lanes beyond the last row repeat the first.
template <class T> struct Block {
    static constexpr int L = lanes<T>();
    int64_t in[L], other[L], out[L];
    T power[L];
    bool in_line, other_line, out_line;  // rows that stand side by side in memory

    void fill(Walk& walk, int count) {
        const EntmaxCall& call = walk.call;
        for (int lane = 0; lane < count; lane++, walk.next()) {
            in[lane] = walk.in, other[lane] = walk.other, out[lane] = walk.out;
            power[lane] = power_of<T>(call, walk.alpha);
        }
        for (int lane = count; lane < L; lane++) {
            in[lane] = in[0], other[lane] = other[0], out[lane] = out[0];
            power[lane] = power[0];
        }
        in_line = line(in), other_line = line(other), out_line = count == L && line(out);
    }

    static bool line(const int64_t* places) {
        for (int lane = 1; lane < L; lane++)
            if (places[lane] != places[0] + lane) return false;
        return true;
    }
};

template <class T>
INLINE void gather(const T* from, const int64_t* places, bool line, int64_t step, int64_t keys, T* to) {
    constexpr int L = lanes<T>();
    if (line) {
        for (int64_t key = 0; key < keys; key++) store<T>(to + key * L, load<T>(from + places[0] + key * step));
        return;
    }
    for (int lane = 0; lane < L; lane++) {
        const T* row = from + places[lane];
        for (int64_t key = 0; key < keys; key++) to[key * L + lane] = row[key * step];
    }
}

template <class T>
INLINE void scatter(const T* from, T* to, const int64_t* places, bool line, int64_t step, int64_t keys, int count) {
    constexpr int L = lanes<T>();
    if (line) {
        for (int64_t key = 0; key < keys; key++) store<T>(to + places[0] + key * step, load<T>(from + key * L));
        return;
    }
    for (int lane = 0; lane < count; lane++) {
        T* row = to + places[lane];
        for (int64_t key = 0; key < keys; key++) row[key * step] = from[key * L + lane];
    }
}

// w = y^(1/p) and s = w^(1-p), y = 1 + base, where base > -1; both are 0 elsewhere. `exponent` is (1 - p) / p.
template <class T, int kind> INLINE void powers(Vec<T> base, Vec<T> exponent, Vec<T>& w, Vec<T>& s) {
    const Vec<T> none = {}, one = all<T>(T(1));
    base = larger<T>(base, -one);
    const Vec<T> y = base + T(1);
    if (kind == ONE) {
        w = y;
        s = y > none ? one : none;
    } else if (kind == HALF) {
        w = y * y;
        s = y;
    } else {
        const Vec<T> rest = base - (y - T(1));
        Vec<T> x = log_of<T>(y, rest) * exponent;
        s = exp_of<T>(larger<T>(x, all<T>(Traits<T>::lowest)));
        s = y > none ? s : none;
        w = y * s;
    }
}

// One step of Newton's method on (sum w)^p = 1, from the sums of w and s.
template <class T> INLINE Vec<T> stepped(Vec<T> u, Vec<T> total, Vec<T> slopes, Vec<T> power, Vec<T> most) {
    Vec<T> growth, above;
    growth_of<T>(larger<T>(-power * log_of<T>(total, Vec<T>{}), all<T>(Traits<T>::lowest)), growth, above);
    const Vec<T> step = total * growth / (power * slopes);
    return smaller<T>(u - smaller<T>(step, Vec<T>{}), most);
}

// u where all scores are equal, (1 - keys^-p) / p: the root lies no further.
template <class T> INLINE Vec<T> furthest(Vec<T> power, int64_t keys) {
    Vec<T> growth, above;
    growth_of<T>(larger<T>(-power * log_of<T>(all<T>(T(keys)), Vec<T>{}), all<T>(Traits<T>::lowest)), growth, above);
    return -growth / power;
}

// What is left of the way to the root is so short that the weights fall in a straight line: dw / du = -s.
template <class T> INLINE Vec<T> last_step(Vec<T> w, Vec<T> s, Vec<T> rest) { return larger<T>(w - s * rest, Vec<T>{}); }

template <class T> INLINE T tolerance(int64_t keys, int number) {
    const T log_keys = log_of<T>(all<T>(T(keys)), Vec<T>{})[0];  // u alone rounds by log(keys)
    return Traits<T>::eps * (8 + log_keys) * T(int64_t(1) << (number > 6 ? number - 6 : 0));  // rounding may leave more
}

template <class T> INLINE void hide(const EntmaxCall& call, const Block<T>& block, int count, T value, T* table) {
    const uint8_t* mask = static_cast<const uint8_t*>(call.other);
    for (int lane = 0; lane < count; lane++)
        for (int64_t key = 0; key < call.keys; key++)
            if (!mask[block.other[lane] + key * call.other_steps[call.dims]]) table[key * lanes<T>() + lane] = value;
}

template <class T, int kind> void few_forward(const EntmaxCall& call, int64_t first, int64_t last) {
    constexpr int L = lanes<T>();
    alignas(64) T steep[FEW * L], weights[FEW * L], falls[FEW * L];
    const int64_t keys = call.keys;
    const T* scores = static_cast<const T*>(call.input);
    Walk walk(call, first);
    Block<T> block;
    for (int64_t row = first; row < last; row += L) {
        const int count = last - row < L ? int(last - row) : L;
        block.fill(walk, count);
        gather<T>(scores, block.in, block.in_line, call.in_steps[call.dims], keys, steep);
        if (call.other) hide<T>(call, block, count, -Traits<T>::most, steep);
        const Vec<T> power = load<T>(block.power), exponent = (T(1) - power) / power;
        Vec<T> top = load<T>(steep);
        Int<T> wrong = top != top;
        for (int64_t key = 1; key < keys; key++) {
            const Vec<T> score = load<T>(steep + key * L);
            top = larger<T>(score, top);
            wrong |= score != score;
        }
        wrong |= top - top != T(0);
        for (int64_t key = 0; key < keys; key++)
            store<T>(steep + key * L, (load<T>(steep + key * L) - top) * power);
        const Vec<T> most = furthest<T>(power, keys);
        Vec<T> u = {}, total = {}, slopes = {};
        for (int number = 0; number < STEPS; number++) {
            total = slopes = Vec<T>{};
            const Vec<T> less = power * u;
            for (int64_t key = 0; key < keys; key++) {
                Vec<T> w, s;
                powers<T, kind>(load<T>(steep + key * L) - less, exponent, w, s);
                store<T>(weights + key * L, w);
                store<T>(falls + key * L, s);
                total += w;
                slopes += s;
            }
            const Vec<T> off = total - T(1), limit = all<T>(tolerance<T>(keys, number));
            const Int<T> moving = (off > limit) | (off < -limit);
            if (!any<T>(moving)) break;
            u = moving ? stepped<T>(u, total, slopes, power, most) : u;
        }
        const Vec<T> rest = (total - T(1)) / slopes;
        total = Vec<T>{};
        for (int64_t key = 0; key < keys; key++) {
            const Vec<T> weight = last_step<T>(load<T>(weights + key * L), load<T>(falls + key * L), rest);
            store<T>(weights + key * L, weight);
            total += weight;
        }
        const Vec<T> scale = wrong ? all<T>(T(__builtin_nan(""))) : total;
        for (int64_t key = 0; key < keys; key++) store<T>(weights + key * L, load<T>(weights + key * L) / scale);
        if (call.other) hide<T>(call, block, count, T(0), weights);
        scatter<T>(weights, static_cast<T*>(call.out), block.out, block.out_line, call.out_steps[call.dims], keys, count);
    }
}

// Keys whose base is above -1 move to the front, in order; how many there are.
template <class T> INLINE int64_t close_ranks(T* steep, int64_t* keys, int64_t count, T less) {
    int64_t left = 0;
    for (int64_t at = 0; at < count; at++) {
        const T base = steep[at];
        keys[left] = keys[at];
        steep[left] = base;
        left += base - less > T(-1);
    }
    return left;
}

// Scratch for one row of `keys`: three tables of numbers and one of places.
template <class T, int kind> void many_forward(const EntmaxCall& call, int64_t first, int64_t last, void* scratch) {
    constexpr int L = lanes<T>();
    const int64_t keys = call.keys, step = call.in_steps[call.dims], room = (keys + L - 1) / L * L;
    int64_t* places = static_cast<int64_t*>(scratch);
    T *steep = reinterpret_cast<T*>(places + keys), *weights = steep + room, *falls = weights + room;
    Walk walk(call, first);
    for (int64_t row = first; row < last; row++, walk.next()) {
        const T* scores = static_cast<const T*>(call.input) + walk.in;
        const uint8_t* mask = call.other ? static_cast<const uint8_t*>(call.other) + walk.other : nullptr;
        const int64_t mask_step = call.other_steps[call.dims], out_step = call.out_steps[call.dims];
        T* out = static_cast<T*>(call.out) + walk.out;
        const T one_power = power_of<T>(call, walk.alpha);
        const Vec<T> power = all<T>(one_power), exponent = (T(1) - power) / power;
        if (step == 1)
            std::memcpy(steep, scores, keys * sizeof(T));
        else
            for (int64_t key = 0; key < keys; key++) steep[key] = scores[key * step];
        if (mask)
            for (int64_t key = 0; key < keys; key++) steep[key] = mask[key * mask_step] ? steep[key] : -Traits<T>::most;
        for (int64_t key = keys; key < room; key++) steep[key] = -T(__builtin_inf());
        Vec<T> tops = load<T>(steep);
        Int<T> wrong = tops != tops;
        for (int64_t key = L; key < room; key += L) {
            const Vec<T> score = load<T>(steep + key);
            tops = larger<T>(score, tops);
            wrong |= score != score;
        }
        const T top = largest<T>(tops);
        wrong |= all<T>(top - top) != T(0);
        for (int64_t key = 0; key < room; key += L) store<T>(steep + key, (load<T>(steep + key) - top) * power);
        for (int64_t key = 0; key < keys; key++) places[key] = key;
        int64_t left = close_ranks<T>(steep, places, keys, T(0));
        const Vec<T> most = furthest<T>(power, keys);
        Vec<T> u = {}, rest = {};
        for (int number = 0; number < STEPS && left; number++) {
            for (int64_t key = left; key < (left + L - 1) / L * L; key++) steep[key] = T(-2);
            Vec<T> totals = {}, slopes = {};
            const Vec<T> less = power * u;
            for (int64_t key = 0; key < left; key += L) {
                Vec<T> w, s;
                powers<T, kind>(load<T>(steep + key) - less, exponent, w, s);
                store<T>(weights + key, w);
                store<T>(falls + key, s);
                totals += w;
                slopes += s;
            }
            const T found = sum<T>(totals), off = found - T(1), limit = tolerance<T>(keys, number);
            const T fall = sum<T>(slopes);
            rest = all<T>(off / fall);
            if (!(off > limit || off < -limit) || number + 1 == STEPS) break;
            u = stepped<T>(u, all<T>(found), all<T>(fall), power, most);
            if (left > 2 * L) left = close_ranks<T>(steep, places, left, (power * u)[0]);
        }
        if (out_step == 1)
            std::memset(out, 0, keys * sizeof(T));
        else
            for (int64_t key = 0; key < keys; key++) out[key * out_step] = 0;
        if (any<T>(wrong)) {
            for (int64_t key = 0; key < keys; key++) out[key * out_step] = mask && !mask[key * mask_step] ? T(0) : T(__builtin_nan(""));
            continue;
        }
        Vec<T> total = {};
        for (int64_t at = 0; at < left; at += L) {
            const Vec<T> weight = last_step<T>(load<T>(weights + at), load<T>(falls + at), rest);
            store<T>(weights + at, weight);
            total += weight;
        }
        const T scale = sum<T>(total);
        for (int64_t at = 0; at < left; at++) out[places[at] * out_step] = weights[at] / scale;
        if (mask)
            for (int64_t key = 0; key < keys; key++)
                if (!mask[key * mask_step]) out[key * out_step] = 0;
    }
}

INLINE float root(float value) { return __builtin_sqrtf(value); }
INLINE double root(double value) { return __builtin_sqrt(value); }

// What a key's weight w gives to the gradients: s = w^(2 - alpha), and c = w (e^x - 1 - x) with x = -p log(w).
template <class T, int kind> INLINE void slopes_of(Vec<T> w, Vec<T> power, Vec<T>& s, Vec<T>& c) {
    const Vec<T> none = {}, one = all<T>(T(1));
    c = none;
    if (kind == ONE) {
        s = w > none ? one : none;
    } else if (kind == HALF) {
        for (int lane = 0; lane < lanes<T>(); lane++) s[lane] = root(w[lane]);
    } else {
        // At most 85 p in float32: exp(85) is a number, and exp(85) x 0 is 0.
        Vec<T> growth, above;
        growth_of<T>(-power * log_of<T>(larger<T>(w, all<T>(Traits<T>::tiny * T(100))), none), growth, above);
        s = w + w * growth;
        c = w * above;
    }
}

template <class T, int kind> void few_backward(const EntmaxCall& call, int64_t first, int64_t last) {
    constexpr int L = lanes<T>();
    alignas(64) T slopes[FEW * L], grads[FEW * L], curved[FEW * L];
    const int64_t keys = call.keys;
    Walk walk(call, first);
    Block<T> block;
    for (int64_t row = first; row < last; row += L) {
        const int count = last - row < L ? int(last - row) : L;
        block.fill(walk, count);
        gather<T>(static_cast<const T*>(call.input), block.in, block.in_line, call.in_steps[call.dims], keys, slopes);
        gather<T>(static_cast<const T*>(call.other), block.other, block.other_line, call.other_steps[call.dims], keys, grads);
        const Vec<T> power = load<T>(block.power);
        Vec<T> total = {}, pulled = {}, bent = {};
        for (int64_t key = 0; key < keys; key++) {
            Vec<T> s, c;
            slopes_of<T, kind>(load<T>(slopes + key * L), power, s, c);
            store<T>(slopes + key * L, s);
            store<T>(curved + key * L, c);
            total += s;
            pulled += s * load<T>(grads + key * L);
        }
        const Vec<T> mean = pulled / larger<T>(total, all<T>(Traits<T>::tiny));
        for (int64_t key = 0; key < keys; key++) {
            const Vec<T> error = load<T>(grads + key * L) - mean;
            store<T>(grads + key * L, error * load<T>(slopes + key * L));
            bent += error * load<T>(curved + key * L);
        }
        scatter<T>(grads, static_cast<T*>(call.out), block.out, block.out_line, call.out_steps[call.dims], keys, count);
        if (call.to_alpha) {
            const Vec<T> found = -bent / (power * power);
            std::memcpy(static_cast<T*>(call.to_alpha) + row, &found, count * sizeof(T));
        }
    }
}

// Keys without weight have no gradient, and are left out.
template <class T, int kind> void many_backward(const EntmaxCall& call, int64_t first, int64_t last, void* scratch) {
    constexpr int L = lanes<T>();
    const int64_t keys = call.keys, room = (keys + L - 1) / L * L;
    int64_t* places = static_cast<int64_t*>(scratch);
    T *slopes = reinterpret_cast<T*>(places + keys), *grads = slopes + room, *curved = grads + room;
    Walk walk(call, first);
    for (int64_t row = first; row < last; row++, walk.next()) {
        const T *weights = static_cast<const T*>(call.input) + walk.in, *given = static_cast<const T*>(call.other) + walk.other;
        T* out = static_cast<T*>(call.out) + walk.out;
        const int64_t in_step = call.in_steps[call.dims], out_step = call.out_steps[call.dims];
        const int64_t other_step = call.other_steps[call.dims];
        int64_t left = 0;
        for (int64_t key = 0; key < keys; key++) {
            const T weight = weights[key * in_step];
            places[left] = key;
            slopes[left] = weight;
            left += !(weight == T(0));
            out[key * out_step] = 0;
        }
        for (int64_t at = 0; at < left; at++) grads[at] = given[places[at] * other_step];
        for (int64_t at = left; at < (left + L - 1) / L * L; at++) slopes[at] = grads[at] = 0;
        const Vec<T> power = all<T>(power_of<T>(call, walk.alpha));
        Vec<T> total = {}, pulled = {}, bent = {};
        for (int64_t at = 0; at < left; at += L) {
            Vec<T> s, c;
            slopes_of<T, kind>(load<T>(slopes + at), power, s, c);
            store<T>(slopes + at, s);
            store<T>(curved + at, c);
            total += s;
            pulled += s * load<T>(grads + at);
        }
        const T sums = sum<T>(total), mean = sum<T>(pulled) / (sums > Traits<T>::tiny ? sums : Traits<T>::tiny);
        for (int64_t at = 0; at < left; at += L) {
            const Vec<T> error = load<T>(grads + at) - mean;
            store<T>(grads + at, error * load<T>(slopes + at));
            bent += error * load<T>(curved + at);
        }
        for (int64_t at = 0; at < left; at++) out[places[at] * out_step] = grads[at];
        if (call.to_alpha) static_cast<T*>(call.to_alpha)[row] = -sum<T>(bent) / (power[0] * power[0]);
    }
}

template <class T, int kind>
void entmax_rows(const EntmaxCall& call, bool backward, int64_t first, int64_t last, void* scratch) {
    if (call.keys <= FEW)
        backward ? few_backward<T, kind>(call, first, last) : few_forward<T, kind>(call, first, last);
    else
        backward ? many_backward<T, kind>(call, first, last, scratch) : many_forward<T, kind>(call, first, last, scratch);
}

template <class T> void entmax_kind(const EntmaxCall& call, bool backward, int64_t first, int64_t last, void* scratch) {
    if (!call.alpha && call.fixed == 1.5) return entmax_rows<T, HALF>(call, backward, first, last, scratch);
    if (!call.alpha && call.fixed == 2.0) return entmax_rows<T, ONE>(call, backward, first, last, scratch);
    entmax_rows<T, GENERAL>(call, backward, first, last, scratch);
}

}  // namespace ENSUE_ARCH
