// Eigenvalues and eigenvectors of a Hermitian matrix in a thread's registers, by two-sided Jacobi rotations.
//
//   A <- J^H A J,  V <- V J   for all pairs, sweep by sweep, until  sum |a_ij|^2 <= (N u / 2)^2 sum a_ii^2
//
// Only the upper triangle is stored. Each matrix stops by its own test: later sweeps, for the sake of other lanes of
// the warp, rotate it by the identity, so that its result does not depend on its neighbours.
#pragma once
#include "kernels/factor/jacobi/rotations.cuh"

namespace mansard {

template <class P>
struct Symmetric {
  using T = typename P::T;
  using R = typename Scalar<T>::Real;
  static constexpr int N = P::N;
  static constexpr R TOLERANCE = R(0.25) * N * N * Format<R>::ROUNDOFF * Format<R>::ROUNDOFF;

  R diagonal[N];
  T upper[N][N];  // a_ij, i < j; the others are not used

  // Take the triangle UPLO from entry(i, j) and scale it to |a_ij| < 1; returns the exponent of the scale. Matrices
  // with an infinity or a NaN become zero and are not `finite`.
  template <class Entry>
  MANSARD_DEVICE int read(Entry entry, bool& finite) {
    u32 largest = 0;
    MANSARD_UNROLL
    for (int j = 0; j < N; ++j) {
      diagonal[j] = real_part(entry(j, j));
      largest = max(largest, magnitude_word(diagonal[j]));
      MANSARD_UNROLL
      for (int i = 0; i < j; ++i) {
        upper[i][j] = P::UPLO == Uplo::upper ? entry(i, j) : conjugate(entry(j, i));
        largest = max(largest, magnitude_word(upper[i][j]));
      }
    }
    finite = finite && is_finite_word<R>(largest);
    const int exponent = scale_exponent<R>(largest, -1);
    const R scale = power_of_two<R>(exponent);
    MANSARD_UNROLL
    for (int j = 0; j < N; ++j) {
      diagonal[j] *= scale;
      MANSARD_UNROLL
      for (int i = 0; i < j; ++i) upper[i][j] = by_real(upper[i][j], scale);
    }
    if (!finite) clear();
    return exponent;
  }

  MANSARD_DEVICE void clear() {
    MANSARD_UNROLL
    for (int j = 0; j < N; ++j) {
      diagonal[j] = 0;
      MANSARD_UNROLL
      for (int i = 0; i < j; ++i) upper[i][j] = zero<T>();
    }
  }

  MANSARD_DEVICE bool is_diagonal() const {
    R beside = 0, along = 0;
    MANSARD_UNROLL
    for (int j = 0; j < N; ++j) {
      along = fma(diagonal[j], diagonal[j], along);
      MANSARD_UNROLL
      for (int i = 0; i < j; ++i) beside += modulus_square(upper[i][j]);
    }
    return beside <= TOLERANCE * along;
  }

  template <class Vectors>
  MANSARD_DEVICE void rotate(int p, int q, R least, Vectors& vectors) {
    const T b = upper[p][q];
    const R b_square = modulus_square(b), apart = diagonal[q] - diagonal[p], h = spread_square(apart, b_square);
    R shift;
    const Rotation<T> rotation = annihilating<P::SHEARS>(apart, b, b_square, h, h > least, shift);
    diagonal[p] -= shift;
    diagonal[q] += shift;
    upper[p][q] = zero<T>();
    MANSARD_UNROLL
    for (int r = 0; r < N; ++r) {
      if (r < p) {
        rotation.template turn<P::SHEARS>(upper[r][p], upper[r][q]);
      } else if (r > p && r < q) {
        T x = conjugate(upper[p][r]);
        rotation.template turn<P::SHEARS>(x, upper[r][q]);
        upper[p][r] = conjugate(x);
      } else if (r > q) {
        rotation.template turn<P::SHEARS, true>(upper[p][r], upper[q][r]);
      }
    }
    vectors.template turn<P::SHEARS>(rotation, p, q);
  }

  // Returns whether the matrix converged within P::SWEEPS sweeps.
  template <class Vectors>
  MANSARD_DEVICE bool iterate(Vectors& vectors) {
    using Order = Tournament<N>;
    bool converged;
    MANSARD_UNROLL_BY(1)
    for (int sweep = 0;; ++sweep) {
      converged = is_diagonal();
      if (sweep == P::SWEEPS || !__any_sync(~0u, !converged)) return converged;
      const R least = converged ? Range<R>::MOST : Format<R>::LEAST_SQUARE;
      MANSARD_UNROLL
      for (int round = 0; round < Order::ROUNDS; ++round) {
        MANSARD_UNROLL
        for (int pair = 0; pair < Order::PAIRS; ++pair)
          if (!Order::pauses(round, pair)) rotate(Order::first(round, pair), Order::second(round, pair), least, vectors);
      }
    }
  }
};

}  // namespace mansard
