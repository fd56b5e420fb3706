// Row i is exchanged with row PIVOTS[i], for NRHS pivots in turn: a block of threads per matrix, or per some of its
// columns.
//
// Where the row that ends up somewhere comes from is traced back through the exchanges by one thread per row, once for
// all columns of a block. In place only rows that may move are touched, and of BLK_N columns all are in registers before
// any is written.
//
//   BLK_N  columns at a time
//   WARPS  per block
//   TURNS  of BLK_N columns each, per block
#pragma once
#include "kernels/factor/lu/operands.cuh"

namespace mansard {

template <class P>
struct LuSwapsShape {
  using T = typename P::T;
  static constexpr int M = P::M, N = P::N, COUNT = P::NRHS, THREADS = P::WARPS * 32;
  static constexpr int SPAN = P::BLK_N * P::TURNS, PARTS = ceil_div(N, SPAN);
  static constexpr bool ALL = 2 * COUNT >= M;  // every row may move
  static constexpr int MOVED = ALL ? M : 2 * COUNT, EACH = ceil_div(MOVED * P::BLK_N, THREADS);
  static_assert((COUNT + 2 * MOVED + M) * 4 <= P::SHARED_BYTES, "shared memory");
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

// Rows of a matrix and those that come there, for some of its columns.
template <class P, class Source, class Target>
struct Exchange {
  using S = LuSwapsShape<P>;
  using T = typename P::T;
  const int *sources, *targets;
  Source from;  // entry (row, column) of A
  Target to;

  // Entry number `e` of ROWS x BLK_N: its row and column, so that adjacent threads are at adjacent entries.
  template <int ROWS>
  static MANSARD_DEVICE int row_of(int e) {
    return P::LAYOUT_F == Layout::col ? e % ROWS : e / P::BLK_N;
  }
  template <int ROWS>
  static MANSARD_DEVICE int column_of(int e) {
    return P::LAYOUT_F == Layout::col ? e / ROWS : e % P::BLK_N;
  }
  MANSARD_DEVICE void inside(int first, int width) const {
    T values[S::EACH];
    const auto for_moved = [&](auto visit) {
      MANSARD_UNROLL
      for (int k = 0; k < S::EACH; ++k) {
        const int e = threadIdx.x + k * S::THREADS, i = min(row_of<S::MOVED>(e), S::MOVED - 1);
        const int j = column_of<S::MOVED>(e);
        if (e < S::MOVED * P::BLK_N && j < width && sources[i] != targets[i]) visit(values[k], i, first + j);
      }
    };
    for_moved([&](T& value, int i, int j) { value = *from(sources[i], j); });
    __syncthreads();
    for_moved([&](T& value, int i, int j) { *to(targets[i], j) = value; });
  }
  MANSARD_DEVICE void beside(int first, int width) const {
MANSARD_UNROLL_BY(4)
    for (int e = threadIdx.x; e < S::M * P::BLK_N; e += S::THREADS) {
      const int i = row_of<S::M>(e), j = column_of<S::M>(e);
      if (j < width) *to(i, first + j) = *from(sources[i], first + j);
    }
  }
};
template <class P, class Source, class Target>
MANSARD_DEVICE Exchange<P, Source, Target> exchange(const int* sources, const int* targets, Source from, Target to) {
  return {sources, targets, from, to};
}

template <class P, class Arguments>
MANSARD_DEVICE void lu_swaps(const Arguments& arguments) {
  using S = LuSwapsShape<P>;
  MANSARD_SHARED_ARENA(int, pivots);
  int *targets = pivots + S::COUNT, *sources = targets + S::MOVED;  // of rows that may move; or all sources
  const i64 number = blockIdx.x / S::PARTS;
  if (number >= arguments.BATCH) return;
  const auto* A = matrix_at(arguments.A, arguments.a_matrix, number);
  auto* F = matrix_at(arguments.F, arguments.f_matrix, number);
  const bool inside = A == F;
  for (int i = threadIdx.x; i < S::COUNT; i += S::THREADS) pivots[i] = arguments.PIVOTS[number * S::COUNT + i];
  __syncthreads();
  for (int i = threadIdx.x; i < (inside ? S::MOVED : S::M); i += S::THREADS) {
    const int row = S::ALL || !inside || i < S::COUNT ? i : pivots[i - S::COUNT];
    if (inside) targets[i] = row;
    sources[i] = traced<S::COUNT>(pivots, row);
  }
  __syncthreads();
  const auto rows = exchange<P>(
      sources, targets, [&](int i, int j) { return A + i * arguments.a_row + j * arguments.a_col; },
      [&](int i, int j) { return F + i * arguments.f_row + j * arguments.f_col; });
  const int begin = static_cast<int>(blockIdx.x % S::PARTS) * S::SPAN, end = min(begin + S::SPAN, S::N);
MANSARD_UNROLL_BY(1)
  for (int first = begin; first < end; first += P::BLK_N) {
    if (inside) rows.inside(first, min(P::BLK_N, end - first));
    else rows.beside(first, min(P::BLK_N, end - first));
  }
}

}  // namespace mansard
