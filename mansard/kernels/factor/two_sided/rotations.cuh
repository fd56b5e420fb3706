// Records of plane rotations: what the iteration on a tridiagonal or bidiagonal matrix writes and the back
// transformation applies.
//
// Rotation i of a sweep acts on columns i and i + 1 of Q:  (x, y) <- (c x - s y, s x + c y),  c >= 0. The record holds
// c - 1 and s, so that zeros are the identity. A sweep goes from its last rotation down to its first. Its range has the
// first rotation in the lower 16 bits, and the one after the last in the upper 16.
//
// The records of 32 matrices are interleaved, [matrix / 32][sweep][rotation][matrix % 32]: a warp with a matrix per
// lane writes whole lines.
#pragma once
#include "mansard/gpu/async_words.cuh"

namespace mansard {

template <class R>
MANSARD_DEVICE R not_a_number() {
  if constexpr (sizeof(R) == 8) return __longlong_as_double(0x7ff8000000000000ll);
  else return __int_as_float(0x7fc00000);
}

template <class R>
struct alignas(2 * sizeof(R)) Rotation {
  R cosine_less_one, sine;
};

constexpr int RECORD_STEP = 32;  // records from one rotation of a sweep to the next

// Records of one sweep of one matrix; rotation i is at [i * RECORD_STEP].
template <int N, int CAPACITY, class R>
MANSARD_DEVICE R* sweep_records(R* records, i64 matrix, int sweep) {
  return records + (matrix / 32 * CAPACITY + sweep) * (2 * 32 * N) + 2 * (matrix % 32);
}
template <class R>
MANSARD_DEVICE void store_record(R* sweep, int i, R cosine, R sine, R inverse) {  // inverse = 1 / (1 + cosine)
  reinterpret_cast<Rotation<R>*>(sweep)[i * RECORD_STEP] = {-sine * sine * inverse, sine};
}

MANSARD_DEVICE int packed_range(int first, int end) { return first | end << 16; }
MANSARD_DEVICE int range_first(int range) { return range & 0xffff; }
MANSARD_DEVICE int range_end(int range) { return range >> 16; }

// One rounding more than c x - s y with c itself, and one dependent operation from y to x.
template <class R>
MANSARD_DEVICE void rotate(R& x, R& y, Rotation<R> by) {
  const R turned = fma(-by.sine, y, fma(by.cosine_less_one, x, x));
  y = fma(by.sine, x, fma(by.cosine_less_one, y, y));
  x = turned;
}

// Copy one element of 4, 8 or 16 bytes asynchronously, or fill it with zeros where it is not `present`; waited for like
// cp_async16.
#if defined(MANSARD_EMULATED)
template <class E>
inline void copy_or_zero(E* shared, const E* global, bool present, MANSARD_HERE) {
  if (present) cp_async_word<sizeof(E)>(shared, global, site);
  else *shared = E{};
}
#else
template <class E>
MANSARD_DEVICE void copy_or_zero(E* shared, const E* global, bool present) {
  const int bytes = present ? static_cast<int>(sizeof(E)) : 0;
  if constexpr (sizeof(E) == 16)
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(shared)), "l"(global), "r"(bytes)
                 : "memory");
  else
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(shared_address(shared)), "l"(global),
                 "n"(sizeof(E)), "r"(bytes)
                 : "memory");
}
#endif

}  // namespace mansard
