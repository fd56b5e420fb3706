// Jacobi rotations with one matrix per SIMD lane: their angles, their order in a sweep, limits of the two precisions.
//
//     x' = c x - conj(s) y,   y' = s x + c y     with a real cosine c > 0
//
// See rotations.cuh for the formulas; what differs here is that lanes are masked instead of branching.
#pragma once
#include "mansard/cpu/groups.hpp"

namespace mansard {

template <class R>
struct Format;
template <>
struct Format<double> {
  static constexpr double ROUNDOFF = 0x1p-53, NULL_SQUARE = 0x1p-256, SINGULAR_SCALE = 1;
  static constexpr double GUARD = 0x1p-1000, LEAST_SQUARE = 0x1p-900;
};
template <>
struct Format<float> {  // the largest entry is scaled to SINGULAR_SCALE: squares of products of columns stay normal
  static constexpr float ROUNDOFF = 0x1p-24f, NULL_SQUARE = 0x1p-20f, SINGULAR_SCALE = 0x1p26f;
  static constexpr float GUARD = 0x1p-120f, LEAST_SQUARE = 0x1p-90f;
};

// 1 / sqrt(v) within a few units in the last place, for normal numbers.
template <class R, int LANES>
MANSARD_INLINE Vector<R, LANES> inverse_root(Vector<R, LANES> v) {
#if defined(__AVX512F__)
  if constexpr (LANES * sizeof(R) == 64) {
    using V = Vector<R, LANES>;
    const auto refined = [&](V y) __attribute__((always_inline)) {  // triples the number of correct bits
      const V error = minus_product(all_lanes<R, LANES>(1), v * y, y);
      return plus_product(y, y * error, plus_product(all_lanes<R, LANES>(R(0.5)), error, all_lanes<R, LANES>(R(0.375))));
    };
    if constexpr (sizeof(R) == 8) return refined(refined(V(_mm512_rsqrt14_pd(v))));
    else return refined(V(_mm512_rsqrt14_ps(v)));
  } else
#endif
    return 1 / square_root<R, LANES>(v);
}

template <class T, int LANES>
struct LaneRotation {
  using Entry = Number<T, LANES>;
  using R = typename Entry::R;
  using V = typename Entry::V;
  V cosine;
  Entry sine;

  MANSARD_INLINE void turn(Entry& x, Entry& y) const { turn_by(sine, x, y); }
  // x and y are conjugates of the numbers to turn.
  MANSARD_INLINE void turn_conjugates(Entry& x, Entry& y) const { turn_by(sine.conjugate(), x, y); }
  // Turn the entries at two addresses.
  MANSARD_INLINE void turn_at(R* p, R* q) const {
    Entry x = Entry::at(p), y = Entry::at(q);
    turn(x, y);
    x.to(p), y.to(q);
  }

 private:
  MANSARD_INLINE void turn_by(Entry s, Entry& x, Entry& y) const {
    Entry first = x * cosine, second = y * cosine;
    first.subtract(s.conjugate(), y);
    second.add(s, x);
    x = first, y = second;
  }
};

// h = apart^2 + 4 |b|^2, never zero: GUARD vanishes beside squares from LEAST_SQUARE on.
template <class R, int LANES>
MANSARD_INLINE Vector<R, LANES> spread_square(Vector<R, LANES> apart, Vector<R, LANES> b_square) {
  const auto rest = plus_product(all_lanes<R, LANES>(Format<R>::GUARD), b_square, all_lanes<R, LANES>(4));
  return plus_product(rest, apart, apart);
}

// Rotation that annihilates b between diagonal entries that differ by `apart`, the identity in lanes that are not
// `wanted`; `shift` is what the first diagonal entry loses and the second gains. h is their `spread_square`.
template <class T, int LANES, class V = typename Number<T, LANES>::V, class Wanted>
MANSARD_INLINE LaneRotation<T, LANES> annihilating(V apart, Number<T, LANES> b, V b_square, V h, Wanted wanted,
                                                   V& shift) {
  using R = typename Number<T, LANES>::R;
  const V half = all_lanes<R, LANES>(R(0.5)), root = inverse_root<R, LANES>(h);
  const V cosine_square = plus_product(half, half * absolute<R, LANES>(apart), root);
  const V inverse_cosine = inverse_root<R, LANES>(cosine_square);
  const V factor = select<R, LANES>(wanted, with_sign<R, LANES>(root * inverse_cosine, apart), V{});
  shift = b_square * factor * inverse_cosine;
  return {select<R, LANES>(wanted, cosine_square * inverse_cosine, all_lanes<R, LANES>(1)), b * factor};
}

// Order of a sweep: rounds of disjoint pairs, as in a tournament, so that rotations of a round are independent. With an
// odd number of columns one of them pauses in every round.
template <int N>
struct Tournament {
  static constexpr int SEATS = N + N % 2, ROUNDS = SEATS - 1, PAIRS = N / 2;

  // The columns p < q of a pair.
  static MANSARD_INLINE std::pair<int, int> columns(int round, int pair) {
    const int number = pair + N % 2;  // of an odd number of columns, pair 0 is the pausing one
    const int one = number == 0 ? ROUNDS : (round + number) % ROUNDS, other = (round + ROUNDS - number) % ROUNDS;
    return {smaller(one, other), larger(one, other)};
  }
};

}  // namespace mansard
