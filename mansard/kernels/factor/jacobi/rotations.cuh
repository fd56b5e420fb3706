// Jacobi rotations of one matrix per thread, their order in a sweep, and the power of two that scales a matrix.
//
// A rotation of columns x and y (p < q) by an angle with cosine c > 0 and complex sine s:
//     x' = c x - conj(s) y,   y' = s x + c y
// It annihilates the off-diagonal entry b of the Hermitian block [d_p b; conj(b) d_q] if, with d = d_q - d_p,
//     h = d^2 + 4 |b|^2,  c^2 = (1 + |d| / sqrt(h)) / 2,  s = sign(d) b / (sqrt(h) c).
// That takes two reciprocal square roots and no division, and turns by at most 45 degrees.
#pragma once
#include "mansard/gpu/factor_scalars.cuh"

namespace mansard {

// Limits of the two precisions. One-sided rotations scale the largest entry to 2^SINGULAR_EXPONENT: then squares of
// norms, and products of two of them, are normal numbers for all columns above NULL_SQUARE.
template <class R>
struct Format;
template <>
struct Format<double> {
  static constexpr int FRACTION = 20, BIAS = 1023;  // bits of the fraction in the high word; bias of the exponent
  static constexpr int SINGULAR_EXPONENT = 0;
  static constexpr double ROUNDOFF = 0x1p-53, NULL_SQUARE = 0x1p-256, RAISE = 0x1p64;
  static constexpr double GUARD = 0x1p-1000, LEAST_SQUARE = 0x1p-900;  // see `annihilating`
};
template <>
struct Format<float> {
  static constexpr int FRACTION = 23, BIAS = 127, SINGULAR_EXPONENT = 26;
  static constexpr float ROUNDOFF = 0x1p-24f, NULL_SQUARE = 0x1p-20f, RAISE = 0x1p64f;
  static constexpr float GUARD = 0x1p-120f, LEAST_SQUARE = 0x1p-90f;
};

// The high word of |x|: comparing two of them compares exponents, and finds infinities and NaNs.
MANSARD_DEVICE u32 magnitude_word(double x) {
  return static_cast<u32>(static_cast<u64>(__double_as_longlong(x)) >> 32) & 0x7fffffffu;
}
MANSARD_DEVICE u32 magnitude_word(float x) { return __float_as_uint(x) & 0x7fffffffu; }
template <class R>
MANSARD_DEVICE u32 magnitude_word(Complex<R> x) {
  return max(magnitude_word(x.re), magnitude_word(x.im));
}
template <class R>
MANSARD_DEVICE bool is_finite_word(u32 word) {
  return word >> Format<R>::FRACTION < 2 * Format<R>::BIAS + 1;
}

// The number 2^exponent, for exponents of normal numbers.
template <class R>
MANSARD_DEVICE R power_of_two(int exponent) {
  if constexpr (sizeof(R) == 8) return __longlong_as_double(static_cast<i64>(exponent + Format<R>::BIAS) << 52);
  else return __uint_as_float(static_cast<u32>(exponent + Format<R>::BIAS) << 23);
}
// Exponent of the power of two that scales numbers up to the one with this high word to about 2^target.
template <class R>
MANSARD_DEVICE int scale_exponent(u32 word, int target) {
  constexpr int MOST = Format<R>::BIAS - 1;  // its reciprocal is a normal number, too
  const int exponent = static_cast<int>(word >> Format<R>::FRACTION) - Format<R>::BIAS;
  return max(-MOST, min(MOST, target - exponent));
}

template <class T>
struct Rotation {
  using R = typename Scalar<T>::Real;
  R cosine;
  T sine;
  R half;  // sine / (1 + cosine), for rotations by shears

  // x' = c x - conj(s) y, y' = s x + c y; CONJ: of conjugates of x and y. SHEARS: by three fused operations, real only.
  template <bool SHEARS, bool CONJ = false>
  MANSARD_DEVICE void turn(T& x, T& y) const {
    if constexpr (Scalar<T>::COMPLEX) {
      const T s = CONJ ? conjugate(sine) : sine;
      T first = by_real(x, cosine), second = by_real(y, cosine);
      multiply_subtract<true>(first, s, y);
      multiply_add<false>(second, s, x);
      x = first, y = second;
    } else if constexpr (SHEARS) {
      x = fma(-half, y, x);
      y = fma(sine, x, y);
      x = fma(-half, y, x);
    } else {
      const T first = fma(cosine, x, -sine * y);
      y = fma(sine, x, cosine * y);
      x = first;
    }
  }
};

// h = apart^2 + 4 |b|^2, never zero: GUARD vanishes beside squares from LEAST_SQUARE on.
template <class R>
MANSARD_DEVICE R spread_square(R apart, R b_square) {
  return fma(apart, apart, fma(R(4), b_square, Format<R>::GUARD));
}
// Rotation that annihilates b between diagonal entries that differ by `apart`, the identity unless `wanted`; `shift` is
// what the first diagonal entry loses and the second gains. h is the `spread_square` of the block.
template <bool SHEARS, class T, class R = typename Scalar<T>::Real>
MANSARD_DEVICE Rotation<T> annihilating(R apart, T b, R b_square, R h, bool wanted, R& shift) {
  const R inverse_root = quick_inverse_root(h);
  const R cosine_square = fma(R(0.5) * fabs(apart), inverse_root, R(0.5));
  const R inverse_cosine = quick_inverse_root(cosine_square);
  const R factor = wanted ? copysign(inverse_root * inverse_cosine, apart) : R(0);
  Rotation<T> rotation;
  rotation.cosine = wanted ? cosine_square * inverse_cosine : R(1);
  rotation.sine = by_real(b, factor);
  shift = b_square * factor * inverse_cosine;
  if constexpr (SHEARS && !Scalar<T>::COMPLEX) rotation.half = rotation.sine * quick_inverse(R(1) + rotation.cosine);
  return rotation;
}

// Order of a sweep: rounds of disjoint pairs, as in a tournament, so that rotations of a round are independent. With an
// odd number of columns one of them pauses in every round.
template <int N>
struct Tournament {
  static constexpr int SEATS = N + N % 2, ROUNDS = SEATS - 1, PAIRS = SEATS / 2;

  static constexpr int first(int round, int pair) { return smaller_seat(seat(round, pair), other(round, pair)); }
  static constexpr int second(int round, int pair) { return larger_seat(seat(round, pair), other(round, pair)); }
  static constexpr bool pauses(int round, int pair) { return second(round, pair) >= N; }

 private:
  static constexpr int seat(int round, int pair) { return pair == 0 ? ROUNDS : (round + pair) % ROUNDS; }
  static constexpr int other(int round, int pair) { return (round + ROUNDS - pair) % ROUNDS; }
  static constexpr int smaller_seat(int a, int b) { return a < b ? a : b; }
  static constexpr int larger_seat(int a, int b) { return a < b ? b : a; }
};

// Column j's place in the sorted order; equal values stay in their order.
template <bool DESCENDING, int N, class R>
MANSARD_DEVICE int rank_of(const R (&values)[N], int j) {
  int rank = 0;
  MANSARD_UNROLL
  for (int i = 0; i < N; ++i) {
    if (i < j) rank += DESCENDING ? !(values[i] < values[j]) : !(values[i] > values[j]);
    if (i > j) rank += DESCENDING ? values[i] > values[j] : values[i] < values[j];
  }
  return rank;
}

// ---- where a thread accumulates its rotations ---------------------------------------------------------------

template <class T, int N>
struct NoVectors {
  MANSARD_DEVICE void begin() {}
  template <bool SHEARS>
  MANSARD_DEVICE void turn(const Rotation<T>&, int, int) {}
};

// Entry (i, j) in registers, for as many as there are.
template <class T, int N>
struct RegisterVectors {
  T entries[N][N];

  MANSARD_DEVICE T get(int i, int j) const { return entries[i][j]; }
  MANSARD_DEVICE void begin() {
    MANSARD_UNROLL
    for (int i = 0; i < N; ++i) {
      MANSARD_UNROLL
      for (int j = 0; j < N; ++j) entries[i][j] = from_real<T>(i == j ? 1 : 0);
    }
  }
  template <bool SHEARS>
  MANSARD_DEVICE void turn(const Rotation<T>& rotation, int p, int q) {
    MANSARD_UNROLL
    for (int r = 0; r < N; ++r) rotation.template turn<SHEARS>(entries[r][p], entries[r][q]);
  }
};

// Keeps the compiler from moving loads and stores across it. Loads of all pairs of a round before the first rotation
// would take more registers than there are.
MANSARD_DEVICE void fence_loads() {
#if !defined(MANSARD_EMULATED)
  asm volatile("" ::: "memory");
#endif
}

// Entry (i, j) in the thread's own slot of shared memory, by rows or by columns.
template <class T, int N, bool BY_COLUMNS>
struct SlotVectors {
  static constexpr int ROW = BY_COLUMNS ? 1 : N, COLUMN = BY_COLUMNS ? N : 1;
  T* slot;

  MANSARD_DEVICE T get(int i, int j) const { return slot[i * ROW + j * COLUMN]; }
  MANSARD_DEVICE void begin() {
    MANSARD_UNROLL
    for (int i = 0; i < N * N; ++i) slot[i] = from_real<T>(i % (N + 1) == 0 ? 1 : 0);
  }
  template <bool SHEARS>
  MANSARD_DEVICE void turn(const Rotation<T>& rotation, int p, int q) {
    fence_loads();
    MANSARD_UNROLL
    for (int r = 0; r < N; ++r) {
      T x = get(r, p), y = get(r, q);
      rotation.template turn<SHEARS>(x, y);
      slot[r * ROW + p * COLUMN] = x, slot[r * ROW + q * COLUMN] = y;
    }
  }
};

}  // namespace mansard
