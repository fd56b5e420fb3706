// The inverse of a matrix whose factors lie in shared memory: each lane of a team solves for whole columns, one in
// turn.
#pragma once
#include "families/lu/pivots.cuh"

namespace mansard {

template <class P, int LANES, int PITCH>
struct Columns {
  using T = typename P::T;
  static constexpr int N = P::N, SLOTS = ceil_div(N, LANES);
  T x[SLOTS][N];

  static MANSARD_DEVICE int at(int row, int column) {
    return P::LAYOUT_F == Layout::col ? column * PITCH + row : row * PITCH + column;
  }

  // `place` are those that the rows with the numbers of the columns went to: P e_j has its one there.
  MANSARD_DEVICE void solve(const T* factors, const T* inverted, const int (&place)[SLOTS]) {
    MANSARD_UNROLL
    for (int q = 0; q < SLOTS; ++q)
      MANSARD_UNROLL
      for (int i = 0; i < N; ++i) x[q][i] = from_real<T>(place[q] == i ? 1 : 0);
    MANSARD_UNROLL
    for (int k = 0; k < N; ++k)
      MANSARD_UNROLL
      for (int i = k + 1; i < N; ++i) subtract(i, factors[at(i, k)], k);
    MANSARD_UNROLL
    for (int k = N - 1; k >= 0; --k) {
      const T by = inverted[k];
      MANSARD_UNROLL
      for (int q = 0; q < SLOTS; ++q) x[q][k] = product_of<false>(x[q][k], by);
      MANSARD_UNROLL
      for (int i = 0; i < k; ++i) subtract(i, factors[at(i, k)], k);
    }
  }

  MANSARD_DEVICE void store(T* to, int rank) const {
    MANSARD_UNROLL
    for (int q = 0; q < SLOTS; ++q)
      MANSARD_UNROLL
      for (int i = 0; i < N; ++i)
        if (N % LANES == 0 || q + 1 < SLOTS || rank + q * LANES < N) to[at(i, rank + q * LANES)] = x[q][i];
  }

 private:
  MANSARD_DEVICE void subtract(int i, T factor, int k) {
    MANSARD_UNROLL
    for (int q = 0; q < SLOTS; ++q) multiply_subtract<false>(x[q][i], factor, x[q][k]);
  }
};

}  // namespace mansard
