// C = A^H B by tiles of C in registers: the mapping of Ernst, Hager, Thies and Wellein (2020).
//
// A row of A and a row of B span M x N products. PER_ROW threads share them, TILE_M x TILE_N each; the rows of a
// block go round the grid. Each thread sums its tile over its rows, then the block and the grid add up.
//
//   TRANSPOSED  a thread's columns are interleaved with its neighbours' (adjacent loads) instead of contiguous
//   LEAPFROG    the next rows are loaded before the current ones are used
//   UNROLL      rows a thread works on at once
//   REDUCE      how sums meet, see mansard/gpu/reduce.cuh
#pragma once
#include "kernels/tall_skinny/gram/entry.cuh"

namespace mansard {

template <class P>
struct Tiled {
  using T = typename P::T;
  static constexpr int THREADS_M = ceil_div(P::M, P::TILE_M), THREADS_N = ceil_div(P::N, P::TILE_N);
  static constexpr int PER_ROW = THREADS_M * THREADS_N;
  static constexpr int ROWS = P::BLOCK / PER_ROW;  // rows a block holds at once
  static constexpr int TILE = P::TILE_M * P::TILE_N, ENTRIES = P::M * P::N;
  static constexpr int STAGED = TILE < 8 ? TILE : 8;  // tile entries that pass through shared memory at a time
  static constexpr int STAGE = STAGED * PER_ROW * ROWS > P::BLOCK ? STAGED * PER_ROW * ROWS : P::BLOCK;
  static_assert((ENTRIES + STAGE) * int(sizeof(T)) <= P::SHARED_BYTES, "shared memory");
  static_assert(ROWS >= 1, "a row needs more threads than a block has");
};

// A thread's share of one row: `first` is its first column, STEP the distance to the next.
template <class T, int TILE, int STEP, int WIDTH, int THREADS, bool UNIT>
MANSARD_DEVICE void load_share(T (&share)[TILE], const T* row, i64 stride, int first, bool valid) {
  MANSARD_UNROLL
  for (int i = 0; i < TILE; ++i) {
    const bool inside = WIDTH == TILE * THREADS || first + i * STEP < WIDTH;
    share[i] = valid && inside ? (UNIT ? row[i * STEP] : row[i * STEP * stride]) : zero<T>();
  }
}

// Which columns a thread owns: its first one, and the distance to the next.
template <class P>
struct TiledColumns {
  using S = Tiled<P>;
  static constexpr int STEP_M = P::TRANSPOSED ? S::THREADS_M : 1, STEP_N = P::TRANSPOSED ? S::THREADS_N : 1;
  static MANSARD_DEVICE int first_m(int share) {
    const int index = share / S::THREADS_N;
    return P::TRANSPOSED ? index : index * P::TILE_M;
  }
  static MANSARD_DEVICE int first_n(int share) {
    const int index = share % S::THREADS_N;
    return P::TRANSPOSED ? index : index * P::TILE_N;
  }
};

// UNROLL rows' worth of operands in registers.
template <class P>
struct TiledRows {
  using S = Tiled<P>;
  using Columns = TiledColumns<P>;
  using T = typename P::T;
  T a[P::UNROLL][P::TILE_M], b[P::UNROLL][P::TILE_N];

  template <class Arguments>
  MANSARD_DEVICE void load(const Arguments& arguments, i64 k, i64 stride, int m, int n) {
    const i64 a_row = P::LAYOUT_A == Layout::col ? 1 : arguments.a_row;
    const i64 b_row = P::LAYOUT_B == Layout::col ? 1 : arguments.b_row;
    const i64 a_col = P::LAYOUT_A == Layout::row ? 1 : arguments.a_col;
    const i64 b_col = P::LAYOUT_B == Layout::row ? 1 : arguments.b_col;
    MANSARD_UNROLL
    for (int u = 0; u < P::UNROLL; ++u) {
      const i64 row = k + u * stride;
      const bool valid = row < arguments.K;
      load_share<T, P::TILE_M, Columns::STEP_M, P::M, S::THREADS_M, P::LAYOUT_A == Layout::row>(
          a[u], arguments.A + (row * a_row + m * a_col), a_col, m, valid);
      load_share<T, P::TILE_N, Columns::STEP_N, P::N, S::THREADS_N, P::LAYOUT_B == Layout::row>(
          b[u], arguments.B + (row * b_row + n * b_col), b_col, n, valid);
    }
  }

  MANSARD_DEVICE void multiply(T (&sums)[P::TILE_M][P::TILE_N]) const {
    MANSARD_UNROLL
    for (int u = 0; u < P::UNROLL; ++u)
      MANSARD_UNROLL
      for (int i = 0; i < P::TILE_M; ++i)
        MANSARD_UNROLL
        for (int j = 0; j < P::TILE_N; ++j) multiply_add<P::CONJ>(sums[i][j], a[u][i], b[u][j]);
  }
};

// Adds the tiles of the threads that hold the same columns, row by row, into block_sums (M x N, shared memory).
template <class P, class T = typename P::T>
MANSARD_DEVICE void add_up_block(const T (&sums)[P::TILE_M][P::TILE_N], int share, int row, T* block_sums, T* staged) {
  using S = Tiled<P>;
  using Columns = TiledColumns<P>;
  MANSARD_UNROLL
  for (int begin = 0; begin < S::TILE; begin += S::STAGED) {
    if (row < S::ROWS)
      MANSARD_UNROLL
      for (int i = 0; i < S::STAGED; ++i)
        if (begin + i < S::TILE)
          staged[(row * S::STAGED + i) * S::PER_ROW + share] = sums[(begin + i) / P::TILE_N][(begin + i) % P::TILE_N];
    __syncthreads();  // staged is complete, written by all threads
    for (int slot = threadIdx.x; slot < S::STAGED * S::PER_ROW; slot += P::BLOCK) {
      const int entry = begin + slot / S::PER_ROW, owner = slot % S::PER_ROW;
      const int m = Columns::first_m(owner) + entry / P::TILE_N * Columns::STEP_M;
      const int n = Columns::first_n(owner) + entry % P::TILE_N * Columns::STEP_N;
      if (entry >= S::TILE || m >= P::M || n >= P::N) continue;
      T sum = zero<T>();
      for (int r = 0; r < S::ROWS; ++r) add_to(sum, staged[r * S::STAGED * S::PER_ROW + slot]);
      block_sums[m * P::N + n] = sum;
    }
    __syncthreads();  // staged is about to be overwritten; all threads have read it, and block_sums is written
  }
}

// The paper's reductions: every thread adds its tile to sums in global (atomic) or shared memory (block).
template <class P, class T = typename P::T>
MANSARD_DEVICE void add_atomically(const T (&sums)[P::TILE_M][P::TILE_N], int m, int n, bool active,
                                   typename Scalar<T>::Real* target) {
  using Columns = TiledColumns<P>;
  if (!active) return;
  MANSARD_UNROLL
  for (int i = 0; i < P::TILE_M; ++i)
    MANSARD_UNROLL
    for (int j = 0; j < P::TILE_N; ++j) {
      const int row = m + i * Columns::STEP_M, column = n + j * Columns::STEP_N;
      if (row < P::M && column < P::N) atomic_add(target + (row * P::N + column) * Scalar<T>::WORDS, sums[i][j]);
    }
}

template <class P, class Arguments>
MANSARD_DEVICE void gram_tiled(const Arguments& arguments) {
  using S = Tiled<P>;
  using T = typename P::T;
  using Real = typename Scalar<T>::Real;
  MANSARD_SHARED_ARENA(T, block_sums);
  T* staged = block_sums + S::ENTRIES;

  const int share = threadIdx.x % S::PER_ROW, row = threadIdx.x / S::PER_ROW;
  const int m = TiledColumns<P>::first_m(share), n = TiledColumns<P>::first_n(share);
  T sums[P::TILE_M][P::TILE_N] = {};

  const i64 stride = static_cast<i64>(gridDim.x) * S::ROWS, pass = stride * P::UNROLL;
  i64 k = row < S::ROWS ? static_cast<i64>(blockIdx.x) * S::ROWS + row : arguments.K;
  TiledRows<P> current;
  if constexpr (P::LEAPFROG) current.load(arguments, k, stride, m, n);
MANSARD_UNROLL_BY(1)
  for (; k < arguments.K; k += pass) {
    if constexpr (P::LEAPFROG) {
      TiledRows<P> next;
      next.load(arguments, k + pass, stride, m, n);
      current.multiply(sums);
      current = next;
    } else {
      current.load(arguments, k, stride, m, n);
      current.multiply(sums);
    }
  }

  const auto value = [&](int entry) { return block_sums[entry]; };
  const auto store = [&](int entry, T sum) { store_entry<P>(arguments, entry / P::N, entry % P::N, sum); };
  if constexpr (P::REDUCE == Reduce::atomic) {
    add_atomically<P>(sums, m, n, row < S::ROWS, global_sums<T, S::ENTRIES>(arguments.counters, 0));
    u32* flag = reinterpret_cast<u32*>(staged);
    store_global_sums<T, S::ENTRIES, P::BLOCK>(arguments.counters, 0, gridDim.x, flag, store);
    return;
  } else if constexpr (P::REDUCE == Reduce::block) {
    for (int entry = threadIdx.x; entry < S::ENTRIES; entry += P::BLOCK) block_sums[entry] = zero<T>();
    __syncthreads();  // block_sums is cleared by all threads before any adds to it
    add_atomically<P>(sums, m, n, row < S::ROWS, reinterpret_cast<Real*>(block_sums));
    __syncthreads();  // block_sums has the tiles of all threads
  } else {
    add_up_block<P>(sums, share, row, block_sums, staged);
  }
  reduce_over_blocks<P::REDUCE, T, S::ENTRIES, P::BLOCK>(arguments.partials, arguments.counters, 0, gridDim.x, staged,
                                                         value, store);
}

}  // namespace mansard
