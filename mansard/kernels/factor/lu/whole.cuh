// LU elimination in the registers of one thread, which holds a whole matrix: rows are exchanged by selects.
//
// Step k:  p = argmax |a_ik| for i >= k;  exchange rows k and p;  l_ik = a_ik / a_kk;  a_ij -= l_ik * a_kj for i, j >
// k.
#pragma once
#include "kernels/factor/lu/pivots.cuh"

namespace mansard {

template <class P>
struct Whole {
  using T = typename P::T;
  using R = typename Scalar<T>::Real;
  static constexpr int M = P::M, N = P::N, STEPS = M < N ? M : N;
  static constexpr bool SOLVE = P::WANT == Want::solve, INVERSE = P::WANT == Want::inverse;
  static constexpr bool PRODUCT = P::WANT == Want::determinant || P::WANT == Want::logdet;
  static constexpr int RIGHT = SOLVE ? P::NRHS : 0, KEPT = SOLVE || INVERSE ? N : 1;
  T a[M][N], b[M][RIGHT > 0 ? RIGHT : 1];
  int info = 0;
  Determinant<T, P::WANT> determinant;

  // Factor A and update the right-hand sides; steps[k] = p, except for solves.
  MANSARD_DEVICE void eliminate(int* steps) {
    MANSARD_UNROLL
    for (int k = 0; k < STEPS; ++k) {
      R most = modulus_1(a[k][k]);
      int other = k;
      if constexpr (P::PIVOT) {
        MANSARD_UNROLL
        for (int i = k + 1; i < M; ++i) {
          const R size = modulus_1(a[i][k]);
          if (size > most) most = size, other = i;
        }
        exchange(k, other);
      }
      if constexpr (!SOLVE) steps[k] = other;
      if constexpr (PRODUCT) determinant.take(a[k][k]);
      divide(k, most);
      MANSARD_UNROLL
      for (int i = k + 1; i < M; ++i) {
        const T minus = negated(a[i][k]);
        MANSARD_UNROLL
        for (int j = k + 1; j < N; ++j) multiply_add<false>(a[i][j], minus, a[k][j]);
        MANSARD_UNROLL
        for (int c = 0; c < RIGHT; ++c) multiply_add<false>(b[i][c], minus, b[k][c]);
      }
    }
  }

  // Backward substitution: x replaces b.
  MANSARD_DEVICE void substitute() {
    MANSARD_UNROLL
    for (int k = N - 1; k >= 0; --k)
      MANSARD_UNROLL
      for (int c = 0; c < RIGHT; ++c) {
        b[k][c] = over(b[k][c], k);
        MANSARD_UNROLL
        for (int i = 0; i < k; ++i) multiply_subtract<false>(b[i][c], a[i][k], b[k][c]);
      }
  }

  // A^-1 = U^-1 L^-1 P replaces a: invert U in place, multiply by L^-1 from the right, exchange columns in reverse
  // order.
  MANSARD_DEVICE void invert(const int* steps) {
    MANSARD_UNROLL
    for (int j = 0; j < N; ++j) {
      a[j][j] = over(from_real<T>(R(1)), j);
      T column[N];
      MANSARD_UNROLL
      for (int i = 0; i < j; ++i) {
        column[i] = zero<T>();
        MANSARD_UNROLL
        for (int k = i; k < j; ++k) multiply_add<false>(column[i], a[i][k], a[k][j]);
      }
      MANSARD_UNROLL
      for (int i = 0; i < j; ++i) a[i][j] = product_of<false>(column[i], negated(a[j][j]));
    }
    MANSARD_UNROLL
    for (int j = N - 2; j >= 0; --j) {
      T below[N];
      MANSARD_UNROLL
      for (int i = j + 1; i < N; ++i) {
        below[i] = negated(a[i][j]);
        a[i][j] = zero<T>();
      }
      MANSARD_UNROLL
      for (int i = 0; i < N; ++i)
        MANSARD_UNROLL
        for (int k = j + 1; k < N; ++k) multiply_add<false>(a[i][j], a[i][k], below[k]);
    }
    if constexpr (P::PIVOT)
      MANSARD_UNROLL
      for (int j = N - 2; j >= 0; --j)
        MANSARD_UNROLL
        for (int k = j + 1; k < N; ++k)
          MANSARD_UNROLL
          for (int i = 0; i < N; ++i) trade(steps[j] == k, a[i][j], a[i][k]);
  }

 private:
  T inverted[KEPT];  // inverses of the pivots
  bool odd = false;  // whether a pivot was not ordinary

  static MANSARD_DEVICE void trade(bool wanted, T& x, T& y) {
    const T first = chosen(wanted, y, x);
    y = chosen(wanted, x, y);
    x = first;
  }

  MANSARD_DEVICE void exchange(int k, int other) {
    MANSARD_UNROLL
    for (int i = k + 1; i < M; ++i) {
      MANSARD_UNROLL
      for (int j = 0; j < N; ++j)
        if (j >= k || P::WANT == Want::factor || INVERSE) trade(other == i, a[k][j], a[i][j]);
      MANSARD_UNROLL
      for (int c = 0; c < RIGHT; ++c) trade(other == i, b[k][c], b[i][c]);
    }
  }

  // l_ik = a_ik / a_kk for i > k; `most` is |a_kk|.
  MANSARD_DEVICE void divide(int k, R most) {
    Inverse<T> by{R(1), ordinary_inverse(a[k][k])};
    if (!Ordinary<T>::holds(order_of(most))) {
      odd = true;
      if (is_zero(a[k][k]) && info == 0) info = k + 1;
      by.template of<false>(a[k][k]);
      MANSARD_UNROLL
      for (int i = k + 1; i < M; ++i) a[i][k] = by_real(a[i][k], by.scale);
    }
    if constexpr (SOLVE || INVERSE) inverted[k] = by.number;
    MANSARD_UNROLL
    for (int i = k + 1; i < M; ++i) a[i][k] = product_of<false>(a[i][k], by.number);
  }

  // x divided by pivot k.
  MANSARD_DEVICE T over(T x, int k) const {
    Inverse<T> by{R(1), inverted[k]};
    if (odd) by.template of<true>(a[k][k]);
    return by.times(x);
  }
};

}  // namespace mansard
