// Singular values and vectors of a square matrix in a thread's registers, by one-sided Jacobi rotations.
//
//   A <- A J,  V <- V J   until all columns are orthogonal:  |a_p^H a_q| <= 2 sqrt(N) u |a_p| |a_q|
//
// Then the norms of the columns are the singular values, and the columns divided by them are U. Squares of norms are
// summed once per sweep and updated by rotations in between. Columns below NULL_SQUARE count as zero: U is completed to
// a unitary matrix in their place. A pair that is orthogonal is rotated by the identity, so that a result does not
// depend on other lanes; a round in which no lane of the warp rotates is skipped.
#pragma once
#include "kernels/factor/jacobi/rotations.cuh"

namespace mansard {

template <class P>
struct Singular {
  using T = typename P::T;
  using R = typename Scalar<T>::Real;
  static constexpr int N = P::N;
  static constexpr R TOLERANCE = R(4) * N * Format<R>::ROUNDOFF * Format<R>::ROUNDOFF;
  static constexpr R NULL_SQUARE = Format<R>::NULL_SQUARE;

  T entries[N][N];
  R squares[N];  // of the columns' norms
  R raise;       // 1, or a power of two by which tiny entries were multiplied beside the scale

  // Take A from entry(i, j) and scale it; returns the exponent of the scale. Matrices with an infinity or a NaN become
  // zero and are not `finite`.
  template <class Entry>
  MANSARD_DEVICE int read(Entry entry, bool& finite) {
    MANSARD_UNROLL
    for (int i = 0; i < N; ++i) {
      MANSARD_UNROLL
      for (int j = 0; j < N; ++j) entries[i][j] = entry(i, j);
    }
    u32 largest = largest_word();
    finite = finite && is_finite_word<R>(largest);
    raise = 1;
    if (sizeof(R) == 4 && largest < (64u << Format<R>::FRACTION)) {  // no normal number would scale these
      raise = Format<R>::RAISE;
      multiply(raise);
      largest = largest_word();
    }
    const int exponent = scale_exponent<R>(largest, Format<R>::SINGULAR_EXPONENT);
    multiply(power_of_two<R>(exponent));
    if (!finite) clear();
    return exponent;
  }
  MANSARD_DEVICE T get(int i, int j) const { return entries[i][j]; }
  MANSARD_DEVICE u32 largest_word() const {
    u32 largest = 0;
    MANSARD_UNROLL
    for (int i = 0; i < N; ++i) {
      MANSARD_UNROLL
      for (int j = 0; j < N; ++j) largest = max(largest, magnitude_word(entries[i][j]));
    }
    return largest;
  }
  MANSARD_DEVICE void multiply(R scale) {
    MANSARD_UNROLL
    for (int i = 0; i < N; ++i) {
      MANSARD_UNROLL
      for (int j = 0; j < N; ++j) entries[i][j] = by_real(entries[i][j], scale);
    }
  }
  MANSARD_DEVICE void clear() {
    MANSARD_UNROLL
    for (int i = 0; i < N; ++i) {
      MANSARD_UNROLL
      for (int j = 0; j < N; ++j) entries[i][j] = zero<T>();
    }
  }

  MANSARD_DEVICE void sum_squares() {
    MANSARD_UNROLL
    for (int j = 0; j < N; ++j) {
      squares[j] = 0;
      MANSARD_UNROLL
      for (int i = 0; i < N; ++i) squares[j] += modulus_square(entries[i][j]);
    }
  }

  // a_p^H a_q, and whether the columns are to be rotated.
  MANSARD_DEVICE bool product(int p, int q, T& b, R& b_square) const {
    b = zero<T>();
    MANSARD_UNROLL
    for (int r = 0; r < N; ++r) multiply_add<true>(b, entries[r][p], entries[r][q]);
    b_square = modulus_square(b);
    return b_square > TOLERANCE * squares[p] * squares[q] && squares[p] > NULL_SQUARE && squares[q] > NULL_SQUARE;
  }
  template <class Vectors>
  MANSARD_DEVICE void rotate(int p, int q, T b, R b_square, bool wanted, Vectors& vectors) {
    const R apart = squares[q] - squares[p], h = spread_square(apart, b_square);
    R shift;
    const Rotation<T> rotation = annihilating<P::SHEARS>(apart, b, b_square, h, wanted, shift);
    squares[p] -= shift;
    squares[q] += shift;
    MANSARD_UNROLL
    for (int r = 0; r < N; ++r) rotation.template turn<P::SHEARS>(entries[r][p], entries[r][q]);
    vectors.template turn<P::SHEARS>(rotation, p, q);
  }
  template <class Vectors>
  MANSARD_DEVICE bool round_of_pairs(int round, Vectors& vectors) {
    using Order = Tournament<N>;
    T products[Order::PAIRS];
    R product_squares[Order::PAIRS];
    bool wanted[Order::PAIRS], any = false;
    MANSARD_UNROLL
    for (int pair = 0; pair < Order::PAIRS; ++pair) {
      if (Order::pauses(round, pair)) continue;
      wanted[pair] =
          product(Order::first(round, pair), Order::second(round, pair), products[pair], product_squares[pair]);
      any |= wanted[pair];
    }
    if (__any_sync(~0u, any)) {
      MANSARD_UNROLL
      for (int pair = 0; pair < Order::PAIRS; ++pair)
        if (!Order::pauses(round, pair))
          rotate(Order::first(round, pair), Order::second(round, pair), products[pair], product_squares[pair],
                 wanted[pair], vectors);
    }
    return any;
  }

  // Returns whether the matrix converged: a sweep among the first P::SWEEPS found nothing to rotate.
  template <class Vectors>
  MANSARD_DEVICE bool iterate(Vectors& vectors) {
    bool converged = false;
    MANSARD_UNROLL_BY(1)
    for (int sweep = 0; sweep < P::SWEEPS && __any_sync(~0u, !converged); ++sweep) {
      bool any = false;
      sum_squares();
      MANSARD_UNROLL
      for (int round = 0; round < Tournament<N>::ROUNDS; ++round) any |= round_of_pairs(round, vectors);
      converged = !any;
    }
    return converged;
  }
};

// Complete the first `known` columns of the N x N matrix at u (row-major) to a unitary one: the unit vector that is
// farthest from the span of the columns before, orthogonalized twice. Rare, so nothing is unrolled.
template <int N, class T>
MANSARD_DEVICE void complete_basis(T* u, int known) {
  using R = typename Scalar<T>::Real;
  MANSARD_UNROLL_BY(1)
  for (int j = known; j < N; ++j) {
    R best = -1;
    int chosen = 0;
    MANSARD_UNROLL_BY(1)
    for (int i = 0; i < N; ++i) {
      R rest = 1;
      MANSARD_UNROLL_BY(1)
      for (int k = 0; k < j; ++k) rest -= modulus_square(u[i * N + k]);
      if (rest > best) best = rest, chosen = i;
    }
    MANSARD_UNROLL_BY(1)
    for (int i = 0; i < N; ++i) u[i * N + j] = from_real<T>(i == chosen ? 1 : 0);
    MANSARD_UNROLL_BY(1)
    for (int k = 0; k < 2 * j; ++k) {
      const int column = k < j ? k : k - j;
      T along = zero<T>();
      MANSARD_UNROLL_BY(1)
      for (int i = 0; i < N; ++i) multiply_add<true>(along, u[i * N + column], u[i * N + j]);
      MANSARD_UNROLL_BY(1)
      for (int i = 0; i < N; ++i) multiply_subtract<false>(u[i * N + j], u[i * N + column], along);
    }
    R square = 0;
    MANSARD_UNROLL_BY(1)
    for (int i = 0; i < N; ++i) square += modulus_square(u[i * N + j]);
    const R inverse = quick_inverse_root(square);
    MANSARD_UNROLL_BY(1)
    for (int i = 0; i < N; ++i) u[i * N + j] = by_real(u[i * N + j], inverse);
  }
}

}  // namespace mansard
