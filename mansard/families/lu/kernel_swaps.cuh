// Row i is exchanged with row PIVOTS[i], for NRHS pivots in turn: a block of threads per matrix and BLK_N of its
// columns.
//
// Where the row that ends up somewhere comes from is traced back through the exchanges by one thread per row. In place
// only rows that may move are touched, and all of them are read before any is written.
//
//   BLK_N  columns per block
//   WARPS  per block
#pragma once
#include "families/lu/operands.cuh"

namespace mansard {

template <class P>
struct LuSwapsShape {
  using T = typename P::T;
  static constexpr int M = P::M, N = P::N, COUNT = P::NRHS, THREADS = P::WARPS * 32;
  static constexpr int TILES = ceil_div(N, P::BLK_N), MOVED = 2 * COUNT;
  static constexpr int VALUES = ceil_div(MOVED * P::BLK_N * int(sizeof(T)), 16) * 16;
  static constexpr int BYTES = VALUES + (COUNT + 2 * MOVED + M) * 4;
  static_assert(BYTES <= P::SHARED_BYTES, "shared memory");
};

// The row that comes to `row`.
template <int COUNT>
MANSARD_DEVICE int traced(const int* pivots, int row) {
MANSARD_UNROLL_BY(4)
  for (int k = COUNT - 1; k >= 0; --k) {
    const int other = pivots[k];
    row = row == k ? other : row == other ? k : row;
  }
  return row;
}

template <class P, class Arguments>
MANSARD_DEVICE void lu_swaps(const Arguments& arguments) {
  using S = LuSwapsShape<P>;
  using T = typename P::T;
  MANSARD_SHARED_ARENA(unsigned char, arena);
  T* values = reinterpret_cast<T*>(arena);
  int* pivots = reinterpret_cast<int*>(arena + S::VALUES);
  int *targets = pivots + S::COUNT, *sources = targets + S::MOVED;  // of rows that may move; or all sources
  const i64 number = blockIdx.x / S::TILES;
  if (number >= arguments.BATCH) return;
  const int first = static_cast<int>(blockIdx.x % S::TILES) * P::BLK_N, width = min(P::BLK_N, S::N - first);
  const T* A = matrix_at(arguments.A, arguments.a_matrix, number) + first * arguments.a_col;
  T* F = matrix_at(arguments.F, arguments.f_matrix, number) + first * arguments.f_col;
  const bool inside = A == F;
  const int rows = inside ? S::MOVED : S::M;
  for (int i = threadIdx.x; i < S::COUNT; i += S::THREADS) pivots[i] = arguments.PIVOTS[number * S::COUNT + i];
  __syncthreads();
  for (int i = threadIdx.x; i < rows; i += S::THREADS) {
    const int row = !inside || i < S::COUNT ? i : pivots[i - S::COUNT];
    if (inside) targets[i] = row;
    sources[i] = traced<S::COUNT>(pivots, row);
  }
  __syncthreads();
  // adjacent threads at adjacent entries
  const bool down = P::LAYOUT_F == Layout::col;
  const auto for_entries = [&](auto visit) {
    for (int e = threadIdx.x; e < rows * width; e += S::THREADS)
      visit(down ? e % rows : e / width, down ? e / rows : e % width);
  };
  if (!inside) {
    for_entries([&](int i, int j) {
      F[i * arguments.f_row + j * arguments.f_col] = A[sources[i] * arguments.a_row + j * arguments.a_col];
    });
    return;
  }
  for_entries([&](int i, int j) {
    values[i * P::BLK_N + j] = A[sources[i] * arguments.a_row + j * arguments.a_col];
  });
  __syncthreads();
  for_entries([&](int i, int j) {
    if (sources[i] != targets[i]) F[targets[i] * arguments.f_row + j * arguments.f_col] = values[i * P::BLK_N + j];
  });
}

}  // namespace mansard
