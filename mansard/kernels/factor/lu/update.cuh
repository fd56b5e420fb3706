// C -= L U for a part of a matrix in shared memory: 16 x 16 tiles of a warp by fma, or 16 x 8 ones by tensor cores.
//
// fma: a lane has entries (down + 4 i, across + 8 j), i < 4, j < 2. mma: fragments of m16n8k8 (mma.cuh); L's fragments
// are loaded once per strip of rows. A warp owns the rows of its strips, so it needs no barrier inside.
#pragma once
#include "kernels/factor/lu/pivots.cuh"
#include "mansard/gpu/mma.cuh"

namespace mansard {

enum class Unit { fma, mma };

// Entry (i, j) of the M x N matrix is at i * ROW + j * COLUMN. L is columns `from` .. `from` + DEPTH - 1, U the rows of
// the same numbers.
template <class T, int M, int N, int ROW, int COLUMN, int DEPTH>
struct Update {
  T* matrix;
  int from, lane;

  MANSARD_DEVICE T* at(int i, int j) const { return matrix + i * ROW + j * COLUMN; }

  // Update rows `row` .. M - 1 of columns `first` .. `last` - 1; strips of 16 ROWS rows are distributed over `warps`
  // warps, of which this is number `rank`. ROWS = 2 gives independent tensor-core products (mma only).
  template <Unit UNIT, int ROWS = 1>
  MANSARD_DEVICE void run(int row, int first, int last, int rank, int warps) const {
    constexpr int STEP = UNIT == Unit::mma ? 16 * ROWS : 16;
MANSARD_UNROLL_BY(1)
    for (int i = row + rank * STEP; i < M; i += warps * STEP) {
      if constexpr (UNIT == Unit::mma) tensor_rows<ROWS>(i, first, last);
      else plain_rows(i, first, last);
    }
  }

 private:
  MANSARD_DEVICE void plain_rows(int row, int first, int last) const {
    const int down = lane / 8, across = lane % 8;
MANSARD_UNROLL_BY(1)
    for (int column = first; column < last; column += 16) {
      T sum[4][2];
      MANSARD_UNROLL
      for (int i = 0; i < 4; ++i)
        MANSARD_UNROLL
        for (int j = 0; j < 2; ++j) sum[i][j] = *at(kept(row + down + 4 * i, M), kept(column + across + 8 * j, last));
MANSARD_UNROLL_BY(4)
      for (int k = 0; k < DEPTH; ++k) {
        T a[4], b[2];
        MANSARD_UNROLL
        for (int i = 0; i < 4; ++i) a[i] = negated(*at(kept(row + down + 4 * i, M), from + k));
        MANSARD_UNROLL
        for (int j = 0; j < 2; ++j) b[j] = *at(from + k, kept(column + across + 8 * j, last));
        MANSARD_UNROLL
        for (int i = 0; i < 4; ++i)
          MANSARD_UNROLL
          for (int j = 0; j < 2; ++j) multiply_add<false>(sum[i][j], a[i], b[j]);
      }
      MANSARD_UNROLL
      for (int i = 0; i < 4; ++i)
        MANSARD_UNROLL
        for (int j = 0; j < 2; ++j) {
          const int to_row = row + down + 4 * i, to_column = column + across + 8 * j;
          if (to_row < M && to_column < last) *at(to_row, to_column) = sum[i][j];
        }
    }
  }

  template <int ROWS>
  MANSARD_DEVICE void tensor_rows(int row, int first, int last) const {
    constexpr int PASSES = DEPTH / 8;
    static_assert(DEPTH % 8 == 0, "eight products at a time");
    const int group = lane / 4, turn = lane % 4;
    T a[ROWS][PASSES][4];
    MANSARD_UNROLL
    for (int r = 0; r < ROWS; ++r)
      MANSARD_UNROLL
      for (int pass = 0; pass < PASSES; ++pass)
        MANSARD_UNROLL
        for (int i = 0; i < 4; ++i)
          a[r][pass][i] = -*at(kept(row + 16 * r + group + 8 * (i % 2), M), from + 8 * pass + turn + 4 * (i / 2));
MANSARD_UNROLL_BY(1)
    for (int begin = first; begin < last; begin += 16) {
      T c[2][ROWS][4];
      MANSARD_UNROLL
      for (int tile = 0; tile < 2; ++tile) {  // two independent accumulators
        const int column = begin + 8 * tile;
        T b[PASSES][2];
        MANSARD_UNROLL
        for (int i = 0; i < 4 * ROWS; ++i)
          c[tile][i / 4][i % 4] = *at(kept(row + group + 8 * (i / 2), M), kept(column + 2 * turn + i % 2, last));
        MANSARD_UNROLL
        for (int pass = 0; pass < PASSES; ++pass)
          MANSARD_UNROLL
          for (int i = 0; i < 2; ++i) b[pass][i] = *at(from + 8 * pass + turn + 4 * i, kept(column + group, last));
        MANSARD_UNROLL
        for (int pass = 0; pass < PASSES; ++pass)
          MANSARD_UNROLL
          for (int r = 0; r < ROWS; ++r) mma_m16n8k8(c[tile][r], a[r][pass], b[pass]);
      }
      MANSARD_UNROLL
      for (int tile = 0; tile < 2; ++tile)
        MANSARD_UNROLL
        for (int i = 0; i < 4 * ROWS; ++i) {
          const int down = row + group + 8 * (i / 2), across = begin + 8 * tile + 2 * turn + i % 2;
          if (down < M && across < last) *at(down, across) = c[tile][i / 4][i % 4];
        }
    }
  }

  // Clamp an index: tiles that stick out of the matrix read its last row or column again, and do not store it.
  static MANSARD_DEVICE int kept(int i, int end) { return min(i, end - 1); }
};

}  // namespace mansard
