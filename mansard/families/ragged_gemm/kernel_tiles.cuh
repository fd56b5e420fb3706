// The products of one class of a ragged batch, of any size: a block for each BLK_M x BLK_N tile of a C.
//
// Blocks stay. SLOTS of them share a product, each with every SLOTS-th of its tiles. Panels of BLK_K columns of A and
// rows of B go through a ring of STAGES places in shared memory (panels.cuh); sums stay in registers.
//
//   CLASS, SLOTS         which part of the list; blocks per product
//   BLK_M, BLK_N, BLK_K  the tile, and columns of A per panel
//   THREADS, STAGES      per block; panels under way
//   UNIT                 who multiplies: `fma`, or `tensor` (float64)
#pragma once
#include "families/ragged_gemm/panels.cuh"
#include "mansard/mma.cuh"

namespace mansard {

enum class Unit { fma, tensor };

// 16 threads along the columns of a tile; a thread has every 16th column, and every (THREADS / 16)-th row.
template <class P, Unit UNIT = P::UNIT>
struct RaggedTile {
  using T = typename P::T;
  using S = RaggedPanels<P>;
  static constexpr int DIM_X = 16, DIM_Y = P::THREADS / DIM_X, ROWS = P::BLK_M / DIM_Y, COLUMNS = P::BLK_N / DIM_X;
  const int row, column;
  T sums[ROWS][COLUMNS];

  MANSARD_DEVICE RaggedTile(int rank) : row(rank / DIM_X), column(rank % DIM_X) {}
  MANSARD_DEVICE void begin(T value) {
    MANSARD_UNROLL
    for (int i = 0; i < ROWS * COLUMNS; ++i) sums[i / COLUMNS][i % COLUMNS] = value;
  }
  MANSARD_DEVICE void multiply(const T* A, const T* B, int deep, int, int) {
    const T* a = A + row * S::PITCH_A;
    const T* b = B + column;
MANSARD_UNROLL_BY(2)
    for (int k = 0; k < deep; ++k) {
      T x[ROWS], y[COLUMNS];
      MANSARD_UNROLL
      for (int r = 0; r < ROWS; ++r) x[r] = reinterpret_cast<const Pack<T, 1>*>(a + r * DIM_Y * S::PITCH_A + k)->e[0];
      MANSARD_UNROLL
      for (int c = 0; c < COLUMNS; ++c) {
        const T entry = reinterpret_cast<const Pack<T, 1>*>(b + k * S::PITCH_B + c * DIM_X)->e[0];
        y[c] = P::CONJ_B ? conjugate(entry) : entry;
      }
      MANSARD_UNROLL
      for (int r = 0; r < ROWS; ++r)
        MANSARD_UNROLL
        for (int c = 0; c < COLUMNS; ++c) multiply_add<P::CONJ_A>(sums[r][c], x[r], y[c]);
    }
  }
  // put(row, column, sum) for all entries of the thread
  template <class Put>
  MANSARD_DEVICE void for_each(Put put) const {
    MANSARD_UNROLL
    for (int r = 0; r < ROWS; ++r)
      MANSARD_UNROLL
      for (int c = 0; c < COLUMNS; ++c) put(row + r * DIM_Y, column + c * DIM_X, sums[r][c]);
  }
};

// Warps in two columns, each with tiles of 16 x 8 side by side.
template <class P>
struct RaggedTile<P, Unit::tensor> {
  using T = double;
  using S = RaggedPanels<P>;
  static constexpr int WARPS_N = 2, WARPS_M = P::THREADS / 64;
  static constexpr int TILES_M = P::BLK_M / (16 * WARPS_M), TILES_N = P::BLK_N / (8 * WARPS_N);
  const int g, t, row, column;
  double sums[TILES_M][TILES_N][4];

  MANSARD_DEVICE RaggedTile(int rank)
      : g(rank % 32 / 4), t(rank % 4), row(rank / 32 / WARPS_N * TILES_M * 16),
        column(rank / 32 % WARPS_N * TILES_N * 8) {}
  MANSARD_DEVICE void begin(T value) {
    MANSARD_UNROLL
    for (int i = 0; i < TILES_M * TILES_N * 4; ++i) (&sums[0][0][0])[i] = value;
  }
  // Of the tile, `rows` and `columns` exist: a warp leaves out the halves of its part that do not.
  MANSARD_DEVICE void multiply(const T* A, const T* B, int deep, int rows, int columns) {
    constexpr int HALF_M = ceil_div(TILES_M, 2), HALF_N = ceil_div(TILES_N, 2);
    if (row >= rows || column >= columns) return;
    const bool low = row + HALF_M * 16 >= rows, narrow = column + HALF_N * 8 >= columns;
    if (low && narrow) multiply_part<HALF_M, HALF_N>(A, B, deep);
    else if (low) multiply_part<HALF_M, TILES_N>(A, B, deep);
    else if (narrow) multiply_part<TILES_M, HALF_N>(A, B, deep);
    else multiply_part<TILES_M, TILES_N>(A, B, deep);
  }
  // Panels end in zeros, so the last four steps may hang over.
  template <int COUNT_M, int COUNT_N>
  MANSARD_DEVICE void multiply_part(const T* A, const T* B, int deep) {
    const T* a = A + (row + g) * S::PITCH_A + t;
    const T* b = B + t * S::PITCH_B + column + g;
MANSARD_UNROLL_BY(2)
    for (int k = 0; k < deep; k += 4) {
      double left[COUNT_M][2], right[COUNT_N];
      MANSARD_UNROLL
      for (int m = 0; m < COUNT_M * 2; ++m) left[m / 2][m % 2] = a[m * 8 * S::PITCH_A + k];
      MANSARD_UNROLL
      for (int n = 0; n < COUNT_N; ++n) right[n] = b[k * S::PITCH_B + n * 8];
      MANSARD_UNROLL
      for (int n = 0; n < COUNT_N; ++n)
        MANSARD_UNROLL
        for (int m = 0; m < COUNT_M; ++m) mma_m16n8k4(sums[m][n], left[m][0], left[m][1], right[n]);
    }
  }
  template <class Put>
  MANSARD_DEVICE void for_each(Put put) const {
    MANSARD_UNROLL
    for (int i = 0; i < TILES_M * TILES_N * 4; ++i) {
      const int m = i / (TILES_N * 4), n = i / 4 % TILES_N, e = i % 4;
      put(row + m * 16 + g + e / 2 * 8, column + n * 8 + 2 * t + e % 2, sums[m][n][e]);
    }
  }
};

// One tile of one product.
template <class P, class Arguments>
MANSARD_DEVICE void tile_product(const Arguments& x, const Item& item, int row, int column, typename P::T* arena) {
  using S = RaggedPanels<P>;
  using T = typename P::T;
  const int rank = threadIdx.x, panels = item.k > 0 ? ceil_div(item.k, P::BLK_K) : 0;
  const auto fill = [&](int p) {
    if (p < panels) S::fill(arena + p % P::STAGES * S::STAGE, x.A + item.a, x.B + item.b, item, row, column, p, rank);
    cp_async_commit();
  };
  RaggedTile<P> tile(rank);
  tile.begin(Start<T>::of(item));
  for (int p = 0; p < P::STAGES - 1; ++p) fill(p);
MANSARD_UNROLL_BY(1)
  for (int p = 0; p < panels; ++p) {
    cp_async_wait<P::STAGES - 2>();
    __syncthreads();  // the panel is here, and everybody is done with the one before
    fill(p + P::STAGES - 1);
    const T* stage = arena + p % P::STAGES * S::STAGE;
    const int deep = min(P::BLK_K, item.k - p * P::BLK_K);
    tile.multiply(stage, stage + S::SIZE_A, deep, item.m - row, item.n - column);
  }
  cp_async_wait<0>();
  __syncthreads();
  const Scales scales{x.alpha_re, x.alpha_im, x.beta_re, x.beta_im};
  T* const C = x.C + item.c + static_cast<i64>(row) * item.n + column;
  tile.for_each([&](int r, int c, T sum) {
    if (row + r >= item.m || column + c >= item.n) return;
    T* const to = C + static_cast<i64>(r) * item.n + c;
    const T value = scales.product(sum);
    *to = P::ACCUMULATE ? scales.with_old(value, *to) : value;
  });
}

template <class P, class Arguments>
MANSARD_DEVICE void ragged_tiles(const Arguments& x) {
  MANSARD_SHARED_ARENA(typename P::T, arena);
  const i64 first = x.starts[P::CLASS], end = (x.starts[P::CLASS + 1] - first) * P::SLOTS;
  for (i64 i = blockIdx.x; i < end; i += gridDim.x) {
    const Item item = x.items[first + i / P::SLOTS];
    const int across = ceil_div(item.n, P::BLK_N), tiles = ceil_div(item.m, P::BLK_M) * across;
    for (int tile = static_cast<int>(i % P::SLOTS); tile < tiles; tile += P::SLOTS)
      tile_product<P>(x, item, tile / across * P::BLK_M, tile % across * P::BLK_N, arena);
  }
}

}  // namespace mansard
