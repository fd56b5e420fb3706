// The search for pivots: of the entries below, the largest, and of equal ones the first.
//
// Which row that is cannot be predicted, and compilers like to branch there. Where they must not, `Chosen` selects: on
// ARM in assembly, since GCC branches whatever probabilities it is given, and masks cost as much.
#pragma once
#include <array>
#include <cmath>

#include "mansard/cpu/simd.hpp"

namespace mansard {

// The first of the largest numbers by their bits. Two of these take rows in turn, so that neither waits for the other.
template <class Bits>
struct Largest {
  Bits size;
  i64 place;

  // Nobody can predict which number is larger: compilers are told so, and select instead of branching.
  MANSARD_INLINE void take(Bits other, i64 row) {
    const bool larger = __builtin_expect_with_probability(other > size, true, 0.5);
    place = larger ? row : place;
    size = larger ? other : size;
  }
  MANSARD_INLINE i64 first_of(const Largest& other) const {
    return other.size > size || (other.size == size && other.place < place) ? other.place : place;
  }
};

// The larger number; b may be none.
template <class R>
MANSARD_INLINE R larger_number(R a, R b) {
#if defined(__aarch64__)
  return sizeof(R) == 8 ? __builtin_fmax(a, b) : __builtin_fmaxf(a, b);  // an instruction
#else
  return b > a ? b : a;
#endif
}
#define MANSARD_TAKE(REGISTER, CONDITION)                                                                    \
  asm("fcmp %" REGISTER "2, %" REGISTER "3\n\tcsel %0, %4, %0, " CONDITION "\n\tcsel %1, %5, %1, " CONDITION \
      : "+&r"(place), "+r"(row)                                                                              \
      : "w"(a), "w"(b), "r"(i), "r"(other)                                                                   \
      : "cc")

// A row, and its number.
template <class R>
struct Chosen {
  i64 place;
  R* row;

  // Row i instead, if a == b; or if not a < b.
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
  // What stands at `at`, which is row i, becomes `other`, if row i was chosen.
  MANSARD_INLINE void replace(R*& at, i64 i, R* other) const {
#if defined(__aarch64__)
    asm("cmp %1, %2\n\tcsel %0, %3, %0, eq" : "+r"(at) : "r"(place), "rI"(i), "r"(other) : "cc");
#else
    at = __builtin_expect_with_probability(place == i, true, 0.5) ? other : at;
#endif
  }
};
#undef MANSARD_TAKE

// Row k and the one with the pivot change places; returns the latter's number. A NaN is a pivot only if it is in row k
// already, as LAPACK has it. How large the pivot is is found first, in several chains: no comparison then waits long.
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
  pivot.take_unless_less(sizes[k], size, k, first);  // or a NaN
  MANSARD_UNROLL
  for (int i = k + 1; i < M; ++i) pivot.replace(rows[i], i, first);
  rows[k] = pivot.row;
  return static_cast<int>(pivot.place);
}

}  // namespace mansard
