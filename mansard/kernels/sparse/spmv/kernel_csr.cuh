// y = alpha A x + beta y for a CSR matrix: THREADS lanes per row, which take its entries in turn.
//
// No shared memory, no barriers. Limits: memory bandwidth.
//
//   THREADS  lanes per row; with one, entries are added from first to last
//   UNROLL   entries of a lane whose loads are issued before the first is used
//   CACHE    cache hint of the matrix loads
#pragma once
#include "mansard/gpu/sparse.cuh"

namespace mansard {

template <class P, class Arguments>
MANSARD_DEVICE void spmv_csr(const Arguments& a) {
  using T = typename P::T;
  const int turn = threadIdx.x % P::THREADS;
  const i64 row = (static_cast<i64>(blockIdx.x) * P::BLOCK + threadIdx.x) / P::THREADS;
  const bool there = row < a.ROWS;
  const i64 begin = there ? a.STARTS[row] : 0, end = there ? a.STARTS[row + 1] : 0;
  T sum = zero<T>();
MANSARD_UNROLL_BY(1)
  for (i64 j = begin + turn; j < end; j += P::UNROLL * P::THREADS) {
    typename P::V values[P::UNROLL];
    typename ColumnOf<P::INDEX>::Type columns[P::UNROLL];
    T x[P::UNROLL];
    // beyond the end, the last entry is loaded again: unconditional loads are issued together
    MANSARD_UNROLL
    for (int u = 0; u < P::UNROLL; ++u)
      columns[u] = load_entry<P::CACHE>(a.COLUMNS + min(j + u * P::THREADS, end - 1));
    MANSARD_UNROLL
    for (int u = 0; u < P::UNROLL; ++u)
      values[u] = load_entry<P::CACHE>(a.MATRIX + min(j + u * P::THREADS, end - 1));
    MANSARD_UNROLL
    for (int u = 0; u < P::UNROLL; ++u) x[u] = load_entry<Cache::normal>(a.X + columns[u]);
    MANSARD_UNROLL
    for (int u = 0; u < P::UNROLL; ++u)
      if (j + u * P::THREADS < end) add_entry<P::CONJ>(sum, values[u], x[u]);
  }
  sum = sum_across<1, P::THREADS>(sum);
  if (turn == 0 && there)
    a.Y[row] = row_result<P::ACCUMULATE, P::RECURRENCE>(a, sum, a.X + row, a.Y + row, a.Z + row);
}

}  // namespace mansard
