// Completion of orthonormal columns to a unitary matrix by a block, in shared memory.
//
// One column after the other: the unit vector that is farthest from the span of the columns before, orthogonalized
// twice. Rare (null columns of singular matrices), so that its barriers do not matter.
#pragma once
#include "kernels/factor/jacobi/block_columns.cuh"

namespace mansard {

// Fill the columns of ranks `known` ... N - 1, which are zero. m.squares is overwritten.
template <class P>
MANSARD_DEVICE void complete_columns(const BlockMemory<P>& m, int known) {
  using S = BlockShape<P>;
  using T = typename S::T;
  using R = typename S::R;
  constexpr int N = P::N, PITCH = S::PITCH, LANES = P::LANES, TEAMS = S::THREADS / LANES;
  const int thread = static_cast<int>(threadIdx.x), lane = thread % LANES, team = thread / LANES;
  R* const rest = m.squares;  // of row i: 1 - the sum of squares of its known entries
  // w_i -= sum over known columns k of u_ik along_k
  const auto subtract = [&](T* w, int count) {
    MANSARD_UNROLL_BY(1)
    for (int i = thread; i < N; i += S::THREADS) {
      T sum = w[i];
      MANSARD_UNROLL_BY(4)
      for (int k = 0; k < count; ++k) multiply_subtract<false>(sum, m.columns[m.source[k] * PITCH + i], m.along[k]);
      w[i] = sum;
    }
    __syncthreads();  // w is complete, written by the threads of its rows; along has been read
  };
  MANSARD_UNROLL_BY(1)
  for (int i = thread; i < N; i += S::THREADS) {
    R sum = R(1);
    MANSARD_UNROLL_BY(4)
    for (int k = 0; k < known; ++k) sum -= modulus_square(m.columns[m.source[k] * PITCH + i]);
    rest[i] = sum;
  }
  MANSARD_UNROLL_BY(1)
  for (int r = known; r < N; ++r) {
    T* const w = m.columns + m.source[r] * PITCH;
    __syncthreads();  // rest and the column before are complete, written by the threads of their rows
    int chosen = 0;
    MANSARD_UNROLL_BY(4)
    for (int i = 1; i < N; ++i) chosen = rest[i] > rest[chosen] ? i : chosen;
    MANSARD_UNROLL_BY(1)
    for (int k = thread; k < r; k += S::THREADS) m.along[k] = conjugate(m.columns[m.source[k] * PITCH + chosen]);
    if (thread == 0) w[chosen] = from_real<T>(1);
    __syncthreads();  // along is complete, written by the threads of the columns; w is a unit vector
    subtract(w, r);
    Share<P> x, u;
    x.load(w, lane);
    MANSARD_UNROLL_BY(1)
    for (int begin = 0; begin < r; begin += TEAMS) {
      const int k = begin + team;
      u.clear();
      if (k < r) u.load(m.columns + m.source[k] * PITCH, lane);
      const T along = product(u, x);
      if (k < r && lane == 0) m.along[k] = along;
    }
    __syncthreads();  // along is complete, written by the teams of the columns
    subtract(w, r);
    x.load(w, lane);
    const R inverse = quick_inverse_root(x.square());
    __syncthreads();  // w has been read by all teams
    MANSARD_UNROLL_BY(1)
    for (int i = thread; i < N; i += S::THREADS) {
      w[i] = by_real(w[i], inverse);
      rest[i] -= modulus_square(w[i]);
    }
  }
  __syncthreads();  // the last column is complete, written by the threads of its rows
}

}  // namespace mansard
