// One power for a range of rows, one thread per row: launched for every level group and power in turn, or, where
// blocking does not pay, for all rows and every power.
//
//   BLOCK   threads per block
//   UNROLL  entries of a row that a thread loads before it uses them
//   CACHE   streaming: the matrix is read once; normal: the next power reads it again
//
// Scalars that change from launch to launch: `first` and `last` row, and the `power`. No shared memory, no barriers;
// the order of launches is the only synchronisation.
#pragma once
#include "kernels/sparse/powers/rows.cuh"

namespace mansard {

enum class Cache { normal, streaming };

template <class P, class Arguments>
MANSARD_DEVICE void powers_groups(const Arguments& arguments) {
  using T = typename P::T;
  constexpr int N = P::NVECS;
  const i64 first = static_cast<i64>(arguments.first), last = static_cast<i64>(arguments.last);
  const int k = static_cast<int>(arguments.power);
  const i64 row = first / P::C * P::C + static_cast<i64>(blockIdx.x) * P::BLOCK + threadIdx.x;
  if (row < first || row >= last) return;
  const Vectors<P> vectors = {arguments.X, nullptr, arguments.VECTORS, arguments.step, arguments.RESULT};
  const i64 chunk = row / P::C;
  const int width = arguments.WIDTHS[chunk];
  const int length[1] = {P::RAGGED ? arguments.LENGTHS[row] : width};
  Line<P, P::CACHE == Cache::streaming> lines[1];
  lines[0].point(arguments.MATRIX + static_cast<i64>(arguments.STARTS[chunk]) * 128, width, row % P::C);
  T sum[1][N] = {}, x[N] = {}, z[N] = {};
  const T* source = vectors.source(k - 1);
  Rows<P>::template multiply<Load::constant, P::UNROLL>(lines, length, width, width, source, sum);
  MANSARD_UNROLL
  for (int v = 0; v < N; ++v) {
    if constexpr (P::SHIFTED) x[v] = source[row * N + v];
    if constexpr (P::THREE_TERM)
      if (k > 1) z[v] = vectors.source(k - 2)[row * N + v];
  }
  Rows<P>::recur(sum[0], arguments.COEFFICIENTS + 3 * (k - 1), x, z);
  if (P::OUTPUT != Output::combination || k < P::P) {
    T* target = vectors.target(k);
    MANSARD_UNROLL
    for (int v = 0; v < N; ++v) target[row * N + v] = sum[0][v];
  } else {
    combine<P>(arguments, vectors, row, sum[0]);
  }
}

}  // namespace mansard

