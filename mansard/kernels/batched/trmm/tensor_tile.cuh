// A tile of X on the double-precision tensor cores: WARPS_M x WARPS_N warps, each with tiles of 16 rows x 16 columns.
//
// Warp (i, j) has every WARPS_M-th tile along the rows, so that all have a share of a triangle, and TILES_N adjacent ones
// along the columns. Lanes supply fragments as in gemm/tensor_tile.cuh. Along k, 16 columns of A at a time: tiles that
// lie beyond the diagonal are left out, and in those on the diagonal entries of the other triangle enter as zeros, and
// those of a unit diagonal as ones. Rows and columns beyond the last one are computed as the last one and not stored.
#pragma once
#include "kernels/batched/gemm/tensor_tile.cuh"
#include "kernels/batched/trsm/system.cuh"

namespace mansard {

template <class P, int M, int N, class ImageA, class ImageB>
struct TriangleTensorTile {
  using T = typename P::T;
  static constexpr bool ROW_MAJOR_A = P::LAYOUT_A != Layout::col, ROW_MAJOR_B = P::LAYOUT_B != Layout::col;
  static constexpr bool ROW_MAJOR_X = P::LAYOUT_X != Layout::col, COMPLEX = Scalar<T>::COMPLEX;
  static constexpr int WORDS = Scalar<T>::WORDS, KSTEP = 8;
  using Rows = Outer<ImageA::PITCH, ROW_MAJOR_A, COMPLEX>;
  using Columns = Outer<ImageB::PITCH, !ROW_MAJOR_B, COMPLEX>;
  static constexpr int TILES_M = ceil_div(ceil_div(M, 16), P::WARPS_M);
  static constexpr int TILES_N = ceil_div(ceil_div(N, 16), P::WARPS_N);
  static constexpr bool WHOLE_M = TILES_M * P::WARPS_M * 16 == M, WHOLE_N = TILES_N * P::WARPS_N * 16 == N;
  // strides in shared memory, along k and along rows (columns)
  static constexpr int A_K = ROW_MAJOR_A ? 1 : ImageA::PITCH, A_ROW = ROW_MAJOR_A ? ImageA::PITCH : 1;
  static constexpr int B_K = ROW_MAJOR_B ? ImageB::PITCH : 1, B_COLUMN = ROW_MAJOR_B ? 1 : ImageB::PITCH;
  static constexpr int TOGETHER = COMPLEX || !ROW_MAJOR_X ? 1 : 2;  // adjacent entries of a row that a lane has
  static constexpr bool SECOND_IS_NEXT = Columns::SECOND == 1;  // adjacent columns are in the two 8-column fragments
  // Entries that may be stored one by one only, and that the lanes of a fragment have far apart, leave by strips.
  static constexpr bool BY_STRIPS = TOGETHER == 2 && P::ADJACENT == 1;
  static constexpr int ROW_SLOTS = 2 * TILES_M;  // of eight rows
  static constexpr int WIDTH = TILES_N * 16, STRIP_PITCH = WIDTH + 8;  // 64 bytes more: other banks
  static constexpr int STRIP_BYTES = BY_STRIPS ? 8 * STRIP_PITCH * int(sizeof(T)) : 0;
  const int g, t, warp_m, column;
  double sums[TILES_M][TILES_N][2][WORDS][4];

  MANSARD_DEVICE explicit TriangleTensorTile(int rank)
      : g(rank % 32 / 4), t(rank % 4), warp_m(P::WARPS_M == 1 ? 0 : rank / 32 / P::WARPS_N),
        column(rank / 32 % P::WARPS_N * TILES_N * 16) {}

  MANSARD_DEVICE void clear() {
    MANSARD_UNROLL
    for (int i = 0; i < TILES_M * TILES_N * 2 * WORDS * 4; ++i) (&sums[0][0][0][0][0])[i] = 0;
  }
  // Row of the lane in a tile, `second` of two; or of another lane.
  MANSARD_DEVICE int row_of(int m, int second) const { return row_of(m, second, g); }
  MANSARD_DEVICE int row_of(int m, int second, int g) const {
    return (m * P::WARPS_M + warp_m) * 16 + Rows::of(g) + second * Rows::SECOND;
  }

  // Add the product of a square block on the diagonal, whose first K columns exist, and K rows of B.
  template <int K>
  MANSARD_DEVICE void multiply_triangle(const T* A, const T* B) {
    MANSARD_UNROLL
    for (int chunk = 0; chunk < ceil_div(K, 16); ++chunk) sixteen<true, K>(A, B, chunk);
  }
  // Add the product of K columns of a rectangular block and K rows of B.
  template <int K>
  MANSARD_DEVICE void multiply(const T* A, const T* B) {
MANSARD_UNROLL_BY(1)
    for (int chunk = 0; chunk < K / 16; ++chunk) sixteen<false, K / 16 * 16>(A, B, chunk);
    if constexpr (K % 16 != 0) sixteen<false, K>(A, B, K / 16);
  }

  // Calls put(column of the warp's tile, sum) for all entries of the lane in a slot of rows.
  template <class Put>
  MANSARD_DEVICE void for_each_in(int slot, Put put) const {
    MANSARD_UNROLL
    for (int i = 0; i < TILES_N * 4; ++i) {
      const int n = i / 4, tile = i / 2 % 2, side = i % 2;
      put(n * 16 + Columns::of(2 * t + side) + tile * Columns::SECOND, entry(slot / 2, n, tile, slot % 2 * 2 + side));
    }
  }
  // Calls put(row, column, PUT adjacent sums of a row) for all entries of the lane that lie in the tile.
  template <int PUT, class Put>
  MANSARD_DEVICE void for_each(Put put) const {
    MANSARD_UNROLL
    for (int i = 0; i < TILES_M * TILES_N * 4; ++i) {
      const int m = i / (TILES_N * 4), n = i / 4 % TILES_N, second = i / 2 % 2, other = i % 2;
      const int row = row_of(m, second);
      const int side = SECOND_IS_NEXT ? other : 0, tile = SECOND_IS_NEXT ? 0 : other;
      const int next_side = SECOND_IS_NEXT ? other : 1, next_tile = SECOND_IS_NEXT ? 1 : other;
      const auto column_of = [&](int side, int tile) {
        return column + n * 16 + Columns::of(2 * t + side) + tile * Columns::SECOND;
      };
      const T pair[2] = {entry(m, n, tile, 2 * second + side), entry(m, n, next_tile, 2 * second + next_side)};
      const int first = column_of(side, tile), next = column_of(next_side, next_tile);
      if (!WHOLE_M && row >= M) continue;
      if (WHOLE_N || first < N) put(row, first, &pair[0]);
      if (PUT == 1 && (WHOLE_N || next < N)) put(row, next, &pair[1]);
    }
  }

 private:
  // Sixteen columns of A, or as many as there are below K, times as many rows of B.
  template <bool TRIANGLE, int K>
  MANSARD_DEVICE void sixteen(const T* A, const T* B, int chunk) {
    constexpr int UNROLL = TILES_M * TILES_N * WORDS >= 3 ? 1 : 2;
MANSARD_UNROLL_BY(UNROLL)
    for (int k = 0; k < 16; k += KSTEP) {
      if (chunk * 16 + k >= K) continue;
      Fragments<T, KSTEP / 4> right[TILES_N][2];
      load_b<K>(right, B, chunk * 16 + k);
      MANSARD_UNROLL
      for (int m = 0; m < TILES_M; ++m) {
        // tiles of any warp: all beyond the diagonal, or none on it
        const int first = m * P::WARPS_M, last = first + P::WARPS_M - 1;
        if (TRIANGLE && (P::UPPER ? first > chunk : last < chunk)) continue;
        const bool masked = TRIANGLE && first <= chunk && chunk <= last;
        const int tile = first + warp_m;
        if (TRIANGLE && P::WARPS_M > 1 && (P::UPPER ? tile > chunk : tile < chunk)) continue;
        Fragments<T, KSTEP / 2> left;
        MANSARD_UNROLL
        for (int f = 0; f < KSTEP / 2; ++f) {
          const int row = row_of(m, f % 2), at = chunk * 16 + k + t + f / 2 * 4;
          left.set(f, entry_of_a<K>(A, row, at, masked, chunk * 16 + k + f / 2 * 4 + 4 <= K), P::CONJ);
        }
        MANSARD_UNROLL
        for (int n = 0; n < TILES_N * 2; ++n) multiply_fragments<KSTEP>(sums[m][n / 2][n % 2], left, right[n / 2][n % 2]);
      }
    }
  }
  template <int K>
  static MANSARD_DEVICE T entry_of_a(const T* A, int row, int k, bool masked, bool whole) {
    const T* from = A + (WHOLE_M ? row : min(row, M - 1)) * A_ROW + k * A_K;
    const bool inside = (whole || k < K) && (!masked || (P::UPPER ? k >= row + P::UNIT : k + P::UNIT <= row));
    T found = inside ? reinterpret_cast<const Pack<T, 1>*>(from)->e[0] : zero<T>();
    if constexpr (P::UNIT)
      if (masked && k == row && (whole || k < K)) found = one(found);
    return found;
  }
  static MANSARD_DEVICE double one(double) { return 1; }
  template <class R>
  static MANSARD_DEVICE Complex<R> one(Complex<R>) {
    return {1, 0};
  }
  template <int K>
  MANSARD_DEVICE void load_b(Fragments<T, KSTEP / 4> (&right)[TILES_N][2], const T* B, int k) const {
    MANSARD_UNROLL
    for (int i = 0; i < TILES_N * KSTEP / 2; ++i) {
      const int n = i / (KSTEP / 2), f = i % (KSTEP / 2), at = k + t + f / 2 * 4;
      const int c = column + n * 16 + Columns::of(g) + f % 2 * Columns::SECOND;
      const T* from = B + (WHOLE_N ? c : min(c, N - 1)) * B_COLUMN + at * B_K;
      const bool inside = k + f / 2 * 4 + 4 <= K || at < K;
      right[n][f % 2].set(f / 2, inside ? reinterpret_cast<const Pack<T, 1>*>(from)->e[0] : zero<T>(), false);
    }
  }
  MANSARD_DEVICE T entry(int m, int n, int which, int i) const {
    if constexpr (COMPLEX) return {sums[m][n][which][0][i], sums[m][n][which][1][i]};
    else return sums[m][n][which][0][i];
  }
};

}  // namespace mansard
