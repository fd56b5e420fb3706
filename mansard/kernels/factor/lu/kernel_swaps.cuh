// Row exchanges of a batch: for i = 0 .. NRHS - 1 exchange rows i and PIVOTS[i], in place or from A to F.
//
// Team. One thread block per matrix and SPAN = BLK_N * TURNS columns. One thread per row traces the exchanges backwards
// to find which row ends up there, once for all columns of the block. The entries are then distributed over the
// threads, neighbours in memory to neighbouring threads.
//
// Shared memory: pivots (COUNT ints), targets (MOVED ints: rows that may move), sources (the row that moves to each of
// them; in place MOVED ints, otherwise M ints, one per row of the matrix).
//
// Phases, with barriers (all __syncthreads) as barrier -> buffer -> writer:
//   1  load pivots                   -> pivots -> other threads
//   2  trace the exchanges           -> targets, sources -> other threads
//   3  copy BLK_N columns at a time; in place, load all moved entries into registers before any is stored
//                                    -> F (global memory) -> stores of other threads to rows that are still to be read
//
// Limits: memory bandwidth. In place only rows that may move are touched: the first NRHS rows and the pivot rows.
//
//   BLK_N  columns at a time
//   WARPS  warps per block
//   TURNS  rounds of BLK_N columns per block
#pragma once
#include "kernels/factor/lu/operands.cuh"

namespace mansard {

template <class P>
struct LuSwapsShape {
  using T = typename P::T;
  static constexpr int M = P::M, N = P::N, COUNT = P::NRHS, THREADS = P::WARPS * 32;
  static constexpr int SPAN = P::BLK_N * P::TURNS, PARTS = ceil_div(N, SPAN);
  static constexpr bool ALL = 2 * COUNT >= M;  // treat every row as one that may move
  static constexpr int MOVED = ALL ? M : 2 * COUNT, EACH = ceil_div(MOVED * P::BLK_N, THREADS);
  static_assert((COUNT + 2 * MOVED + M) * 4 <= P::SHARED_BYTES, "shared memory");
};

// Index of the row that all exchanges together move to `row`.
template <int COUNT>
MANSARD_DEVICE int traced(const int* pivots, int row) {
MANSARD_UNROLL_BY(4)
  for (int k = COUNT - 1; k >= 0; --k) {
    const int other = pivots[k];
    row = row == k ? other : row == other ? k : row;
  }
  return row;
}

// Copies rows sources[i] of A to rows targets[i] of F, for a range of columns.
template <class P, class Source, class Target>
struct Exchange {
  using S = LuSwapsShape<P>;
  using T = typename P::T;
  const int *sources, *targets;
  Source from;  // address of entry (row, column) of A
  Target to;    // address of entry (row, column) of F

  // Row and column of entry number `e` of a ROWS x BLK_N block, so that adjacent threads have adjacent entries.
  template <int ROWS>
  static MANSARD_DEVICE int row_of(int e) {
    return P::LAYOUT_F == Layout::col ? e % ROWS : e / P::BLK_N;
  }
  template <int ROWS>
  static MANSARD_DEVICE int column_of(int e) {
    return P::LAYOUT_F == Layout::col ? e / ROWS : e % P::BLK_N;
  }
  // Exchange in place: A is F.
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
    __syncthreads();  // rows of F are about to be overwritten; all threads hold the moved entries in registers
    for_moved([&](T& value, int i, int j) { *to(targets[i], j) = value; });
  }
  // Copy from A to F, which do not overlap; sources has an entry for every row.
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
  int *targets = pivots + S::COUNT, *sources = targets + S::MOVED;
  const i64 number = blockIdx.x / S::PARTS;
  if (number >= arguments.BATCH) return;
  const auto* A = matrix_at(arguments.A, arguments.a_matrix, number);
  auto* F = matrix_at(arguments.F, arguments.f_matrix, number);
  const bool inside = A == F;
  for (int i = threadIdx.x; i < S::COUNT; i += S::THREADS) pivots[i] = arguments.PIVOTS[number * S::COUNT + i];
  __syncthreads();  // pivots, loaded by all threads, are complete
  for (int i = threadIdx.x; i < (inside ? S::MOVED : S::M); i += S::THREADS) {
    const int row = S::ALL || !inside || i < S::COUNT ? i : pivots[i - S::COUNT];
    if (inside) targets[i] = row;
    sources[i] = traced<S::COUNT>(pivots, row);
  }
  __syncthreads();  // sources and targets, written by all threads, are complete
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
