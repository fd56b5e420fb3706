// Triangular systems of a right-hand side in registers: x becomes op(T)^-1 x, T a triangle of a matrix in shared memory.
#pragma once
#include "mansard/gpu/factor_scalars.cuh"

namespace mansard {

// Entry (i, j) of op(A): of A, of A^T (TURN), or of A^H (TURN and CONJ).
template <int PITCH, bool TURN, bool CONJ, class T>
MANSARD_DEVICE T entry_of(const T* a, int i, int j) {
  const T found = TURN ? a[j * PITCH + i] : a[i * PITCH + j];
  if constexpr (CONJ) return conjugate(found);
  else return found;
}

// op(T) is lower triangular, and its rows are eliminated from the first to the last (FORWARD), or upper triangular.
// UNIT: its diagonal is one, and not read.
template <int N, int PITCH, bool FORWARD, bool TURN, bool CONJ, bool UNIT, class T>
MANSARD_DEVICE void substitute(const T* a, T (&x)[N]) {
  MANSARD_UNROLL
  for (int step = 0; step < N; ++step) {
    const int k = FORWARD ? step : N - 1 - step;
    if constexpr (!UNIT) x[k] = divided(x[k], entry_of<PITCH, TURN, CONJ>(a, k, k));
    MANSARD_UNROLL
    for (int i = 0; i < N; ++i)
      if (FORWARD ? i > k : i < k) multiply_subtract<false>(x[i], entry_of<PITCH, TURN, CONJ>(a, i, k), x[k]);
  }
}

}  // namespace mansard
