// Pivot search on CPUs: the row with the largest |a_ik|, i >= k; among equal ones the first.
//
// The result cannot be predicted, and compilers tend to branch on it. `Largest` and `Chosen` select instead. On ARM
// `Chosen` does so in assembly: GCC branches whatever probabilities it is given, and masks cost as much as the
// branches.
#pragma once
#include <array>
#include <cmath>

#include "mansard/cpu/simd.hpp"

namespace mansard {

// Running maximum of magnitudes given as bits, and its row. Two of these take alternate rows as independent chains.
template <class Bits>
struct Largest {
  Bits size;
  i64 place;

  // A probability of one half makes the compiler select instead of branching.
  MANSARD_INLINE void take(Bits other, i64 row) {
    const bool larger = __builtin_expect_with_probability(other > size, true, 0.5);
    place = larger ? row : place;
    size = larger ? other : size;
  }
  MANSARD_INLINE i64 first_of(const Largest& other) const {
    return other.size > size || (other.size == size && other.place < place) ? other.place : place;
  }
};

// max(a, b), or a where b is a NaN.
template <class R>
MANSARD_INLINE R larger_number(R a, R b) {
#if defined(__aarch64__)
  return sizeof(R) == 8 ? __builtin_fmax(a, b) : __builtin_fmaxf(a, b);  // one instruction
#else
  return b > a ? b : a;
#endif
}
#define MANSARD_TAKE(REGISTER, CONDITION)                                                                    \
  asm("fcmp %" REGISTER "2, %" REGISTER "3\n\tcsel %0, %4, %0, " CONDITION "\n\tcsel %1, %5, %1, " CONDITION \
      : "+&r"(place), "+r"(row)                                                                              \
      : "w"(a), "w"(b), "r"(i), "r"(other)                                                                   \
      : "cc")

// The candidate for the pivot row: its index and its address.
template <class R>
struct Chosen {
  i64 place;
  R* row;

  // Take row i as the candidate if a == b (below: unless a < b).
  MANSARD_INLINE void take_if_equal(R a, R b, i64 i, R* other) {
#if defined(__aarch64__)
    if constexpr (sizeof(R) == 8) MANSARD_TAKE("d", "eq");
    else MANSARD_TAKE("s", "eq");
#else
    take(__builtin_expect_with_probability(a == b, true, 0.5), i, other);
#endif
  }
  MANSARD_INLINE void take_unless_less(R a, R b, i64 i, R* other) {
#if defined(__aarch64__)
    if constexpr (sizeof(R) == 8) MANSARD_TAKE("d", "pl");
    else MANSARD_TAKE("s", "pl");
#else
    take(__builtin_expect_with_probability(!(a < b), true, 0.5), i, other);
#endif
  }
  MANSARD_INLINE void take(bool it, i64 i, R* other) {
    place = it ? i : place;
    row = it ? other : row;
  }
  // at = other if row i is the candidate; `at` is the pointer to row i.
  MANSARD_INLINE void replace(R*& at, i64 i, R* other) const {
#if defined(__aarch64__)
    asm("cmp %1, %2\n\tcsel %0, %3, %0, eq" : "+r"(at) : "r"(place), "rI"(i), "r"(other) : "cc");
#else
    at = __builtin_expect_with_probability(place == i, true, 0.5) ? other : at;
#endif
  }
};
#undef MANSARD_TAKE

// Exchange row k and the pivot row; returns the index of the latter. As in LAPACK, a NaN is the pivot only if it stands
// in row k. The maximum is found first, in four independent chains, and then the first row that has it.
template <class R, std::size_t ROWS>
MANSARD_INLINE int exchange_largest(std::array<R*, ROWS>& rows, int k) {
  constexpr int M = static_cast<int>(ROWS);
  R sizes[M], largest[4] = {};
  MANSARD_UNROLL
  for (int i = k; i < M; ++i) {
    sizes[i] = std::abs(rows[i][k]);
    largest[(i - k) % 4] = larger_number(largest[(i - k) % 4], sizes[i]);
  }
  const R size = larger_number(larger_number(largest[0], largest[1]), larger_number(largest[2], largest[3]));
  R* const first = rows[k];
  Chosen<R> pivot{k, first};
  MANSARD_UNROLL
  for (int i = M - 1; i > k; --i) pivot.take_if_equal(sizes[i], size, i, rows[i]);
  pivot.take_unless_less(sizes[k], size, k, first);  // sizes[k] is the maximum or a NaN
  MANSARD_UNROLL
  for (int i = k + 1; i < M; ++i) pivot.replace(rows[i], i, first);
  rows[k] = pivot.row;
  return static_cast<int>(pivot.place);
}

}  // namespace mansard
