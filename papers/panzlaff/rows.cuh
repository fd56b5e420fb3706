// y_i = sum_j a_ij x_j for rows FIRST to LAST of a sparse matrix: the kernels of Panzlaff's thesis, one launch per level
// group and power.
//
//   LANES  threads of a row. Entries of a chunk of C = 32 / LANES rows are stored so that a warp reads 32 of them in one
//          piece: entry (row, k) lies LANES * (row in its chunk) + k % LANES places into line k / LANES, and a row's lanes
//          add up by shuffles (his figure 3.5 a). CRS: a thread per row of rows stored one after the other.
//   AHEAD  lines of a chunk whose entries a thread loads before it uses the first. In CRS the next entries of a row lie in
//          the line of memory that the first one brought; in a chunk every line comes from memory, and a column is needed
//          before x is read: one line at a time is two latencies a line.
// Team: LANES neighbouring lanes per row. No shared memory, no barriers.
// Limit: bandwidth, 12 bytes an entry from memory or, if the group is still there, from the cache.
#pragma once
#include "mansard/gpu/platform.cuh"

namespace mansard {

// Begin of a row, or of a chunk of rows; the number of lines of a chunk is what lies between.
template <class P, class Arguments>
MANSARD_DEVICE void multiply_rows(const Arguments& given) {
  using T = typename P::T;
  const i64 thread = static_cast<i64>(blockIdx.x) * P::BLOCK + threadIdx.x;
  const i64 row = given.FIRST + thread / P::LANES;
  T sum = T(0);
  if (row < given.LAST) {
    if constexpr (P::CRS) {
MANSARD_UNROLL_BY(1)
      for (i64 k = given.S[row]; k < given.S[row + 1]; ++k) sum += given.A[k] * given.X[given.J[k]];
    } else {
      constexpr int C = 32 / P::LANES;
      const i64 begin = given.S[row / C] + (row % C) * P::LANES + thread % P::LANES, end = given.S[row / C + 1];
      for (i64 k = begin; k < end; k += 32 * P::AHEAD) {
        T entries[P::AHEAD];
        int columns[P::AHEAD];
MANSARD_UNROLL
        for (int step = 0; step < P::AHEAD; ++step) {
          const bool is_inside = k + 32 * step < end;
          entries[step] = is_inside ? given.A[k + 32 * step] : T(0);
          columns[step] = is_inside ? given.J[k + 32 * step] : -1;
        }
MANSARD_UNROLL
        for (int step = 0; step < P::AHEAD; ++step) {
          if (columns[step] >= 0) sum += entries[step] * given.X[columns[step]];
        }
      }
    }
  }
  MANSARD_UNROLL
  for (int step = P::LANES / 2; step > 0; step /= 2) sum += __shfl_xor_sync(~0u, sum, step);
  if (row < given.LAST && thread % P::LANES == 0) given.Y[row] = sum;
}

}  // namespace mansard
