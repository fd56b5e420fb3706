// Y = alpha A X + beta Y for several vectors, the rows of X and Y, with A in SELL-C-sigma or ELLPACK: a warp per chunk.
//
// Lanes load 32 entries of the matrix at once, as for one vector, and pass them on by shuffles: LANES_N lanes share a
// row of X, each with VECTOR of its columns in one load, so that 32 / LANES_N rows are in flight at a time. Every entry
// of the matrix is loaded once for LANES_N * VECTOR columns, and added from first to last. No shared memory, no
// barriers. Limits: memory bandwidth.
//
//   LANES_N  lanes along the columns
//   UNROLL   loads of the matrix (32 / C entries of each row) issued before the first is used
//   CACHE    cache hint of the matrix loads
#pragma once
#include "kernels/sparse/spmv/chunk.cuh"
#include "kernels/sparse/spmv/columns.cuh"

namespace mansard {

template <class P, class Arguments>
MANSARD_DEVICE void spmv_block(const Arguments& a) {
  using T = typename P::T;
  using V = typename P::V;
  using Pack = Together<T, P::VECTOR>;
  using Column = typename Chunk<P>::Column;
  constexpr int C = P::C, TURNS = 32 / C, WARPS = P::BLOCK / 32, TILE = P::LANES_N * P::VECTOR;
  constexpr int TILES = ceil_div(P::NVECS, TILE), AT_ONCE = 32 / P::LANES_N, PASSES = ceil_div(C, AT_ONCE);
  const int lane = threadIdx.x % 32, place = lane % C, turn = lane / C, line = lane / P::LANES_N;
  const int chunks = static_cast<int>(ceil_div(a.ROWS, static_cast<i64>(C)));
  // tiles of columns of one chunk go to neighbouring warps, so that the matrix is still in a cache for the second
  const i64 item = static_cast<i64>(blockIdx.x) * WARPS + threadIdx.x / 32;
  const int number = static_cast<int>(item / TILES);
  const int first = static_cast<int>(item % TILES) * TILE + lane % P::LANES_N * P::VECTOR;
  if (number >= chunks) return;
  const Chunk<P> chunk = Chunks<P, Arguments>(a, number, chunks, 0).at(a, 0, number);
  const int length = chunk.length(a, static_cast<i64>(number) * C + place);
  const bool mine = first < P::NVECS;
  const T* X = a.X + (mine ? first : 0);
  Pack sums[PASSES] = {};
  int from[PASSES], lengths[PASSES];  // for the rows that this lane sums: the lane that loads them, their lengths
  MANSARD_UNROLL
  for (int p = 0; p < PASSES; ++p) {
    from[p] = min(p * AT_ONCE + line, C - 1);
    lengths[p] = from_lane(length, from[p]);
  }
MANSARD_UNROLL_BY(1)
  for (int j = 0; j < chunk.width; j += P::UNROLL * TURNS) {
    V values[P::UNROLL];
    Column columns[P::UNROLL];
    // padding is loaded but not added: unconditional loads are issued together
    MANSARD_UNROLL
    for (int u = 0; u < P::UNROLL; ++u)
      columns[u] = chunk.column(min(j + u * TURNS + turn, chunk.width - 1), place);
    MANSARD_UNROLL
    for (int u = 0; u < P::UNROLL; ++u) values[u] = chunk.value(min(j + u * TURNS + turn, chunk.width - 1), place);
    MANSARD_UNROLL
    for (int step = 0; step < P::UNROLL * TURNS; ++step) {
      const int u = step / TURNS, before = step % TURNS * C;
      Pack x[PASSES];
      MANSARD_UNROLL
      for (int p = 0; p < PASSES; ++p) {
        const i64 column = from_lane(columns[u], before + from[p]);
        x[p] = load_entry<Cache::normal>(reinterpret_cast<const Pack*>(X + column * a.x_pitch));
      }
      MANSARD_UNROLL
      for (int p = 0; p < PASSES; ++p) {
        const V value = from_lane(values[u], before + from[p]);
        if (j + step >= lengths[p]) continue;
        MANSARD_UNROLL
        for (int i = 0; i < P::VECTOR; ++i) add_entry<P::CONJ>(sums[p].e[i], value, x[p].e[i]);
      }
    }
  }
  MANSARD_UNROLL
  for (int p = 0; p < PASSES; ++p) {
    const int of_chunk = p * AT_ONCE + line;
    const i64 row = static_cast<i64>(number) * C + of_chunk;
    if (of_chunk >= C || row >= a.ROWS || !mine) continue;
    write_columns<P>(a, P::PERMUTED ? a.PERMUTATION[row] : row, first, sums[p]);
  }
}

}  // namespace mansard
