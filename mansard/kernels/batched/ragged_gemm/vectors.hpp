// C_i = alpha op(A_i) b_i + beta C_i of real matrices and one column, for kernel.hpp: its tiles would use one lane.
//
// op(A) = A: lanes run along the rows of A, ROWS of which share the loads of b; the lanes of a sum are added in the end.
// op(A) = A^T: the roles are exchanged, C^T = b^T A is a product of one row, whose lanes run along C.
#pragma once
#include "kernels/batched/ragged_gemm/tiles.hpp"

namespace mansard {

// Sums of ROWS rows of A times b, into C.
template <class P, int ROWS, class R = typename Ragged<P>::R>
MANSARD_INLINE void rows_times_vector(const Ragged<P>& x, const R* A, const R* b, R* C, i64 deep) {
  constexpr int LANES = Ragged<P>::LANES;
  Vector<R, LANES> sums[ROWS] = {};
  i64 k = 0;
  for (; k + LANES <= deep; k += LANES) {
    const Vector<R, LANES> entries = load<LANES>(b + k);
    MANSARD_UNROLL
    for (int m = 0; m < ROWS; ++m) add_product(sums[m], load<LANES>(A + m * deep + k), entries);
  }
  if (k < deep) {
    const FirstLanes<R> rest(static_cast<int>(deep - k));
    const Vector<R, LANES> entries = rest.load(b + k);
    MANSARD_UNROLL
    for (int m = 0; m < ROWS; ++m) add_product(sums[m], rest.load(A + m * deep + k), entries);
  }
  MANSARD_UNROLL
  for (int m = 0; m < ROWS; ++m) {
    const R sum = sum_lanes<1, R, LANES>(sums[m])[0];
    C[m] = x.alpha_re * sum + (P::ACCUMULATE ? x.beta_re * C[m] : R(0));
  }
}

template <class P, class R = typename Ragged<P>::R>
void ragged_vector(const Ragged<P>& x, const RaggedTiles<P>& tiles, const R* A, const R* b, R* C, i64 m, i64 deep) {
  constexpr int LANES = Ragged<P>::LANES, ROWS = 4;
  if constexpr (P::TRANS_A) {
    const i64 vectors = ceil_div<i64>(m, LANES), panels = ceil_div<i64>(vectors, P::TILE_N);
    for (i64 panel = 0; panel < panels; ++panel) {
      const i64 begin = vectors * panel / panels, wide = vectors * (panel + 1) / panels - begin, at = begin * LANES;
      const int last = static_cast<int>(smaller<i64>(m - at - (wide - 1) * LANES, LANES));
      tiles.of[0][wide - 1](x, {b, deep, 1}, {A + at, m, 1}, {C + at, m, 1}, deep, last);
    }
  } else {
    i64 i = 0;
    for (; i + ROWS <= m; i += ROWS) rows_times_vector<P, ROWS>(x, A + i * deep, b, C + i, deep);
    for (; i < m; ++i) rows_times_vector<P, 1>(x, A + i * deep, b, C + i, deep);
  }
}

}  // namespace mansard
