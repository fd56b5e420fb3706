// Products of one size class of a ragged batch, of any size: BLK_M x BLK_N tiles of C by persistent thread blocks.
//
// SLOTS blocks share a product, each with every SLOTS-th of its tiles. A tile is a sum over panels of BLK_K columns of
// A and rows of B; the sums are in registers. Copies run ahead of the products, across tiles and matrices: `Course`
// (panels.cuh) plans the steps.
//
// Shared memory: a ring of STAGES places of STAGE elements (panel of A, panel of B); `now` and steps[STAGES + 1],
// written by the planning thread. Barrier: one __syncthreads per panel -> panel -> copies of other threads;  the panel
// before, read by all -> next copies;  steps -> the planning thread.
//
//   CLASS, SLOTS         part of the list; blocks per product
//   BLK_M, BLK_N, BLK_K  the tile, and columns of A per panel
//   THREADS, STAGES      threads per block; panels in flight
//   UNIT                 who multiplies: `fma`, or `tensor` (float64, complex128)
#pragma once
#include "kernels/batched/ragged_gemm/panels.cuh"
#include "kernels/batched/ragged_gemm/tensor_sums.cuh"

namespace mansard {

enum class Unit { fma, tensor };

// The threads' registers of a tile, by fma. 16 threads lie along the columns; a thread has every 16th piece of ADJACENT
// columns and every (THREADS / 16)-th row. It loads DEEP columns of a row of A at once.
template <class P, Unit UNIT = P::UNIT>
struct RaggedTile {
  using T = typename P::T;
  using S = RaggedPanels<P>;
  static constexpr int DIM_X = 16, DIM_Y = P::THREADS / DIM_X, ROWS = P::BLK_M / DIM_Y;
  static constexpr int ADJACENT = sizeof(T) == 4 && P::BLK_N % 32 == 0 ? 2 : 1, DEEP = 16 / int(sizeof(T));
  static constexpr int PIECES = P::BLK_N / DIM_X / ADJACENT, COLUMNS = PIECES * ADJACENT;
  static constexpr int FEWER = ROWS > 4 ? ROWS / 4 : 1;  // rows by which one unrolled loop differs from the next
  const int row, column;
  T sums[ROWS][COLUMNS];

  MANSARD_DEVICE RaggedTile(int rank) : row(rank / DIM_X), column(rank % DIM_X * ADJACENT) {}
  MANSARD_DEVICE void begin(T value) {
    MANSARD_UNROLL
    for (int i = 0; i < ROWS * COLUMNS; ++i) sums[i / COLUMNS][i % COLUMNS] = value;
  }
  // Add a panel's products. `rows` and `columns` of the tile exist; a loop for about as many is chosen.
  template <int M = ROWS>
  MANSARD_DEVICE void multiply(const T* A, const T* B, int deep, int rows, int columns) {
    if constexpr (M > FEWER)
      if (rows <= (M - FEWER) * DIM_Y) return multiply<M - FEWER>(A, B, deep, rows, columns);
    multiply_rows<M>(A, B, deep, columns);
  }
  template <int M, int N = PIECES>
  MANSARD_DEVICE void multiply_rows(const T* A, const T* B, int deep, int columns) {
    if constexpr (N > 1)
      if (columns <= (N - 1) * DIM_X * ADJACENT) return multiply_rows<M, N - 1>(A, B, deep, columns);
    multiply_all<M, N>(A + row * S::PITCH_A, B + column, deep);
  }
  template <int M, int N>
  MANSARD_DEVICE void multiply_all(const T* a, const T* b, int deep) {
    int k = 0;
MANSARD_UNROLL_BY(1)
    for (; k + DEEP <= deep; k += DEEP) step<M, N, DEEP>(a + k, b + k * S::PITCH_B);
    if constexpr (DEEP > 1)
MANSARD_UNROLL_BY(1)
      for (; k < deep; ++k) step<M, N, 1>(a + k, b + k * S::PITCH_B);
  }
  template <int M, int N, int K>
  MANSARD_DEVICE void step(const T* a, const T* b) {
    Pack<T, K> x[M];
    MANSARD_UNROLL
    for (int r = 0; r < M; ++r) x[r] = *reinterpret_cast<const Pack<T, K>*>(a + r * DIM_Y * S::PITCH_A);
    MANSARD_UNROLL
    for (int k = 0; k < K; ++k) {
      Pack<T, ADJACENT> y[N];
      MANSARD_UNROLL
      for (int c = 0; c < N; ++c)
        y[c] = *reinterpret_cast<const Pack<T, ADJACENT>*>(b + k * S::PITCH_B + c * DIM_X * ADJACENT);
      MANSARD_UNROLL
      for (int r = 0; r < M; ++r)
        MANSARD_UNROLL
        for (int c = 0; c < N * ADJACENT; ++c) {
          const T entry = y[c / ADJACENT].e[c % ADJACENT];
          multiply_add<P::CONJ_A>(sums[r][c], x[r].e[k], P::CONJ_B ? conjugate(entry) : entry);
        }
    }
  }
  // Calls put(row, column, ADJACENT sums) for all entries of the thread.
  template <class Put>
  MANSARD_DEVICE void for_each(Put put) const {
    MANSARD_UNROLL
    for (int r = 0; r < ROWS; ++r)
      MANSARD_UNROLL
      for (int c = 0; c < PIECES; ++c) put(row + r * DIM_Y, column + c * DIM_X * ADJACENT, &sums[r][c * ADJACENT]);
  }
};

// The warps' accumulators of a tile, by tensor cores. Tiles of 16 x 8 are distributed cyclically over WARPS_M x WARPS_N
// warps, so that the existing part of a small C is shared evenly.
template <class P>
struct RaggedTile<P, Unit::tensor> {
  using T = typename P::T;
  using S = RaggedPanels<P>;
  static constexpr int WARPS_M = P::THREADS > 64 ? 2 : 1, WARPS_N = P::THREADS / 32 / WARPS_M;
  static constexpr int APART_M = 16 * WARPS_M, APART_N = 8 * WARPS_N;
  static constexpr int TILES_M = P::BLK_M / APART_M, TILES_N = P::BLK_N / APART_N;
  const int g, t, row, column;
  TensorSums<T> sums[TILES_M][TILES_N];

  MANSARD_DEVICE RaggedTile(int rank)
      : g(rank % 32 / 4), t(rank % 4), row(rank / 32 / WARPS_N * 16), column(rank / 32 % WARPS_N * 8) {}
  MANSARD_DEVICE void begin(T value) {
    MANSARD_UNROLL
    for (int i = 0; i < TILES_M * TILES_N; ++i) (&sums[0][0])[i].begin(value);
  }
  // Add a panel's products. `rows` and `columns` of the tile exist; a loop for as many 16 x 8 tiles is chosen.
  template <int M = TILES_M>
  MANSARD_DEVICE void multiply(const T* A, const T* B, int deep, int rows, int columns) {
    if (row + (M - 1) * APART_M < rows) multiply_rows<M>(A, B, deep, columns);
    else if constexpr (M > 1) multiply<M - 1>(A, B, deep, rows, columns);
  }
  template <int M, int N = TILES_N>
  MANSARD_DEVICE void multiply_rows(const T* A, const T* B, int deep, int columns) {
    if (column + (N - 1) * APART_N < columns) multiply_all<M, N>(A, B, deep);
    else if constexpr (N > 1) multiply_rows<M, N - 1>(A, B, deep, columns);
  }
  template <int M, int N>
  MANSARD_DEVICE void multiply_all(const T* A, const T* B, int deep) {
    const T* a = A + (row + g) * S::PITCH_A + t;
    const T* b = B + t * S::PITCH_B + column + g;
    if (deep == P::BLK_K) {
      MANSARD_UNROLL
      for (int k = 0; k < P::BLK_K; k += 4) step<M, N>(a + k, b + k * S::PITCH_B, true);
    } else {
MANSARD_UNROLL_BY(1)
      for (int k = 0; k < deep; k += 4) step<M, N>(a + k, b + k * S::PITCH_B, t < deep - k);
    }
  }
  // Four values of k; lanes beyond the end of k supply zeros.
  template <int M, int N>
  MANSARD_DEVICE void step(const T* a, const T* b, bool inside) {
    const auto read = [&](const T* at) { return inside ? reinterpret_cast<const Pack<T, 1>*>(at)->e[0] : zero<T>(); };
    T left[M][2], right[N];
    MANSARD_UNROLL
    for (int m = 0; m < M * 2; ++m) left[m / 2][m % 2] = read(a + (m / 2 * APART_M + m % 2 * 8) * S::PITCH_A);
    MANSARD_UNROLL
    for (int n = 0; n < N; ++n) right[n] = read(b + n * APART_N);
    MANSARD_UNROLL
    for (int n = 0; n < N; ++n)
      MANSARD_UNROLL
      for (int m = 0; m < M; ++m)
        sums[m][n].template add<P::CONJ_A, P::CONJ_B>(left[m][0], left[m][1], right[n]);
  }
  static constexpr int ADJACENT = 2;
  template <class Put>
  MANSARD_DEVICE void for_each(Put put) const {
    MANSARD_UNROLL
    for (int i = 0; i < TILES_M * TILES_N * 2; ++i) {
      const int m = i / (TILES_N * 2), n = i / 2 % TILES_N, lower = i % 2;
      const T both[2] = {sums[m][n][lower * 2], sums[m][n][lower * 2 + 1]};
      put(row + m * APART_M + g + lower * 8, column + n * APART_N + 2 * t, both);
    }
  }
};

template <class P, class Arguments>
MANSARD_DEVICE void store_tile(const Arguments& x, const Step& step, const RaggedTile<P>& tile) {
  using T = typename P::T;
  constexpr int ADJACENT = RaggedTile<P>::ADJACENT;
  const Scales scales{x.alpha_re, x.alpha_im, x.beta_re, x.beta_im};
  const int n = step.n, rows = step.rows, columns = step.columns;
  T* const C = x.C + step.c;
  const bool together = n % ADJACENT == 0 && reinterpret_cast<u64>(C) % (ADJACENT * sizeof(T)) == 0;
  tile.for_each([&](int r, int c, const T* sums) {
    if (r >= rows || c >= columns) return;
    T* const to = C + static_cast<i64>(r) * n + c;
    Pack<T, ADJACENT> pack;
    MANSARD_UNROLL
    for (int j = 0; j < ADJACENT; ++j) {
      pack.e[j] = scales.product(sums[j]);
      if (P::ACCUMULATE && c + j < columns) pack.e[j] = scales.with_old(pack.e[j], to[j]);
    }
    if (ADJACENT > 1 && together) *reinterpret_cast<Pack<T, ADJACENT>*>(to) = pack;
    else
      MANSARD_UNROLL
      for (int j = 0; j < ADJACENT; ++j)
        if (c + j < columns) to[j] = pack.e[j];
  });
}

template <class P, class Arguments>
MANSARD_DEVICE void ragged_tiles(const Arguments& x) {
  using S = RaggedPanels<P>;
  using T = typename P::T;
  MANSARD_SHARED_ARENA(T, arena);
  __shared__ typename Course<P, Arguments>::Now now;
  __shared__ Step steps[P::STAGES + 1];
  const int rank = threadIdx.x;
  const bool plans = rank == P::THREADS - 32;  // a thread of the last warp, which has the least to multiply
  Course<P, Arguments> course(x, now);
  if (plans) {
    course.begin();
MANSARD_UNROLL_BY(1)
    for (int s = 0; s < P::STAGES; ++s) course.plan(steps[s]);
  }
  __syncthreads();  // steps are complete, written by the planning thread
  const auto fill = [&](int place, const Step& step) {
    if (step.flags != Step::NOTHING) S::fill(arena + place * S::STAGE, x.A, x.B, step, rank);
    cp_async_commit();
  };
MANSARD_UNROLL_BY(1)
  for (int s = 0; s < P::STAGES - 1; ++s) fill(s, steps[s]);

  RaggedTile<P> tile(rank);
  int place = 0, at = 0;  // index of the panel in the ring, and of its step
MANSARD_UNROLL_BY(1)
  while (true) {
    cp_async_wait<P::STAGES - 2>();
    // panel: all copies have arrived; steps: the next one to copy is planned; the panel before, read by all threads, is
    // about to be overwritten
    __syncthreads();
    const int before = place == 0 ? P::STAGES - 1 : place - 1, free = at == 0 ? P::STAGES : at - 1;
    fill(before, steps[free == 0 ? P::STAGES : free - 1]);
    if (plans) course.plan(steps[free]);
    const Step& step = steps[at];
    const int flags = step.flags;
    if (flags == Step::NOTHING) break;
    if (flags & Step::FIRST) tile.begin(Start<T>::of((flags & Step::MISFIT) != 0));
    const T* panel = arena + place * S::STAGE;
    tile.multiply(panel, panel + S::SIZE_A, step.deep, step.rows, step.columns);
    if (flags & Step::LAST) store_tile<P>(x, step, tile);
    place = place + 1 == P::STAGES ? 0 : place + 1;
    at = at + 1 == P::STAGES + 1 ? 0 : at + 1;
  }
}

}  // namespace mansard
