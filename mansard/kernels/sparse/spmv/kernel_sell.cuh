// y = alpha A x + beta y for SELL-C-sigma and ELLPACK: 32 / C lanes per row, a warp per chunk of C rows.
//
// With C = 32 a lane has a row and adds its entries from first to last. With smaller C the lanes of a row take its
// entries in turn, and shuffles add their sums, always in the same order. Either way a warp loads 32 adjacent values
// and 32 adjacent columns at once. Padding is loaded but not added: unconditional loads are issued together. No shared
// memory, no barriers. Limits: memory bandwidth.
//
//   UNROLL  entries of a lane whose loads are issued before the first is used
//   CHUNKS  chunks per warp, one after the other; their positions are loaded together
//   CACHE   cache hint of the matrix loads
#pragma once
#include "kernels/sparse/spmv/chunk.cuh"

namespace mansard {

template <class P, class Arguments>
MANSARD_DEVICE void spmv_sell(const Arguments& a) {
  using T = typename P::T;
  constexpr int C = P::C, LANES = 32 / C, WARPS = P::BLOCK / 32;
  const int lane = threadIdx.x % 32, place = lane % C, turn = lane / C;
  const int chunks = static_cast<int>(ceil_div(a.ROWS, static_cast<i64>(C)));
  const int first = (static_cast<int>(blockIdx.x) * WARPS + static_cast<int>(threadIdx.x) / 32) * P::CHUNKS;
  if (first >= chunks) return;
  const Chunks<P, Arguments> all(a, first, chunks, lane);
MANSARD_UNROLL_BY(1)
  for (int i = 0; i < P::CHUNKS && first + i < chunks; ++i) {
    const Chunk<P> chunk = all.at(a, i, first + i);
    const i64 row = static_cast<i64>(first + i) * C + place;
    const int length = chunk.length(a, row), last = chunk.width - 1;
    T sum = zero<T>();
MANSARD_UNROLL_BY(1)
    for (int j = turn; j - turn <= last; j += P::UNROLL * LANES) {
      typename P::V values[P::UNROLL];
      typename Chunk<P>::Column columns[P::UNROLL];
      T x[P::UNROLL];
      MANSARD_UNROLL
      for (int u = 0; u < P::UNROLL; ++u) columns[u] = chunk.column(min(j + u * LANES, last), place);
      MANSARD_UNROLL
      for (int u = 0; u < P::UNROLL; ++u) values[u] = chunk.value(min(j + u * LANES, last), place);
      MANSARD_UNROLL
      for (int u = 0; u < P::UNROLL; ++u) x[u] = load_entry<Cache::normal>(a.X + columns[u]);
      MANSARD_UNROLL
      for (int u = 0; u < P::UNROLL; ++u)
        if (j + u * LANES < length) add_entry<P::CONJ>(sum, values[u], x[u]);
    }
    sum = sum_across<C, 32>(sum);
    if (turn == 0 && row < a.ROWS) {
      const i64 to = P::PERMUTED ? a.PERMUTATION[row] : row;
      a.Y[to] = row_result<P::ACCUMULATE, P::RECURRENCE>(a, sum, a.X + to, a.Y + to, a.Z + to);
    }
  }
}

}  // namespace mansard
