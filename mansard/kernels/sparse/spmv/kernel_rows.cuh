// Y = alpha A X + beta Y for several vectors, the rows of X and Y, with A in CSR: LANES lanes per row.
//
// The lanes of a row load LANES of its entries at once and pass them on by shuffles. LANES_N of them share a row of X,
// each with VECTOR of its columns in one load; LANES / LANES_N entries are in flight at a time, and their sums are
// added at the end, always in the same order. No shared memory, no barriers. Limits: memory bandwidth.
//
//   LANES    lanes per row of A
//   LANES_N  lanes along the columns
//   CACHE    cache hint of the matrix loads
#pragma once
#include "kernels/sparse/spmv/columns.cuh"

namespace mansard {

template <class P, class Arguments>
MANSARD_DEVICE void spmv_rows(const Arguments& a) {
  using T = typename P::T;
  using V = typename P::V;
  using Pack = Together<T, P::VECTOR>;
  using Column = typename ColumnOf<P::INDEX>::Type;
  constexpr int TILE = P::LANES_N * P::VECTOR, TILES = ceil_div(P::NVECS, TILE), PER_BLOCK = P::BLOCK / P::LANES;
  constexpr int AT_ONCE = P::LANES / P::LANES_N;  // entries multiplied at once
  const int lane = threadIdx.x % 32, of_row = lane % P::LANES, group = lane - of_row;
  const i64 item = static_cast<i64>(blockIdx.x) * PER_BLOCK + threadIdx.x / P::LANES, row = item / TILES;
  const int first = static_cast<int>(item % TILES) * TILE + lane % P::LANES_N * P::VECTOR;
  const bool there = row < a.ROWS, mine = first < P::NVECS;
  const i64 begin = there ? a.STARTS[row] : 0, end = there ? a.STARTS[row + 1] : 0;
  const T* X = a.X + (mine ? first : 0);
  Pack sum = {};
MANSARD_UNROLL_BY(1)
  for (i64 j = begin + of_row; __any_sync(~0u, j < end); j += P::LANES) {
    // beyond the end, some entry is loaded and not used: unconditional loads are issued together
    const Column column = load_entry<P::CACHE>(a.COLUMNS + min(j, a.NNZ - 1));
    const V value = load_entry<P::CACHE>(a.MATRIX + min(j, a.NNZ - 1));
    Pack x[P::LANES_N];
    MANSARD_UNROLL
    for (int i = 0; i < P::LANES_N; ++i) {
      const i64 of = from_lane(column, group + i * AT_ONCE + of_row / P::LANES_N);
      x[i] = load_entry<Cache::normal>(reinterpret_cast<const Pack*>(X + of * a.x_pitch));
    }
    MANSARD_UNROLL
    for (int i = 0; i < P::LANES_N; ++i) {
      const V of = from_lane(value, group + i * AT_ONCE + of_row / P::LANES_N);
      if (j - of_row + i * AT_ONCE + of_row / P::LANES_N >= end) continue;
      MANSARD_UNROLL
      for (int n = 0; n < P::VECTOR; ++n) add_entry<P::CONJ>(sum.e[n], of, x[i].e[n]);
    }
  }
  MANSARD_UNROLL
  for (int n = 0; n < P::VECTOR; ++n) sum.e[n] = sum_across<P::LANES_N, P::LANES>(sum.e[n]);
  if (there && mine && of_row < P::LANES_N) write_columns<P>(a, row, first, sum);
}

}  // namespace mansard
