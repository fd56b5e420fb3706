// A^-1 = U^-1 L^-1 (up to the permutation) from the factors in shared memory, in their place.
//
// 1. Diagonal blocks of EDGE = 16 rows: both triangles are inverted, a column per thread.
// 2. Joins, for half = 16, 32, ... < N: two neighbouring inverted triangles X11, X22 become one,
//      [ U11 U12 ]^-1   [ X11  -X11 U12 X22 ]
//      [     U22 ]    = [            X22    ]
//    and L likewise. Each of the log2(N / 16) joins is two products: first times the triangle on the right, then minus
//    the triangle on the left times that. Warps take strips of 16 rows. A strip times a triangle on its right is formed
//    in place, without other strips. The second product does the same with the transposed matrix.
// 3. The product U^-1 L^-1.
//
// Barriers (__syncthreads -> buffer -> writer): after 1 and after each product of 2 -> matrix -> threads, or warps,
// that formed the triangles and products read next; in 3, before each store -> matrix, L^-1 of these rows -> this warp.
#pragma once
#include "kernels/factor/lu/update.cuh"

namespace mansard {

// Entry (i, j) of the N x N matrix is at i * ROW + j * COLUMN.
template <class T, int N, int ROW, int COLUMN, int WARPS, Unit UNIT>
struct Triangles {
  static constexpr int EDGE = 16, TILES = 4, WIDTH = 8 * TILES, STRIPS = ceil_div(N, EDGE);
  T* matrix;
  int warp, lane;

  // Called by all threads after a barrier that completes the factors; needs a barrier before the result is read.
  MANSARD_DEVICE void invert() const {
    invert_diagonal();
    __syncthreads();  // matrix: diagonal blocks, inverted by a thread per column, are complete
MANSARD_UNROLL_BY(1)
    for (int half = EDGE; half < N; half *= 2) {
      join<false>(half);
      __syncthreads();  // matrix: strips of rows are complete; the second product reads and writes strips of columns
      join<true>(half);
      __syncthreads();  // matrix: triangles of 2 * half rows are complete, from the strips of all warps
    }
    multiply_triangles();
  }

 private:
  MANSARD_DEVICE T* at(int i, int j) const { return matrix + i * ROW + j * COLUMN; }
  // Clamp an index: tiles that stick out of the matrix read its last row or column again; the result is not stored.
  static MANSARD_DEVICE int kept(int i) { return N % EDGE == 0 ? i : min(i, N - 1); }

  // Invert both triangles of every diagonal block, a column per thread.
  MANSARD_DEVICE void invert_diagonal() const {
MANSARD_UNROLL_BY(1)
    for (int task = warp * 32 + lane; task < 2 * STRIPS * EDGE; task += WARPS * 32) {
      const bool upper = task < STRIPS * EDGE;
      const int column = task % (STRIPS * EDGE), from = column / EDGE * EDGE;
      if (upper && column < N) {
        Inverse<T> by;
        by.template of<true>(*at(column, column));
        *at(column, column) = by.times(from_real<T>(1));
      }
      __syncwarp();  // diagonal entries of the block are about to be read; each was inverted by the lane of its column
      T x[EDGE];
      MANSARD_UNROLL
      for (int i = 0; i < EDGE; ++i) x[i] = from_real<T>(from + i == column ? 1 : 0);
      if (upper) invert_upper(x, from);
      else invert_lower(x, from);
      __syncwarp();  // triangle of the block is about to be overwritten, column by column; all lanes have read it
      MANSARD_UNROLL
      for (int i = 0; i < EDGE; ++i)
        if (column < N && (upper ? from + i < column : from + i > column && from + i < N)) *at(from + i, column) = x[i];
    }
  }
  // Solve U x = e for one column of a diagonal block; the diagonal of U is inverted already.
  MANSARD_DEVICE void invert_upper(T (&x)[EDGE], int from) const {
    MANSARD_UNROLL
    for (int k = EDGE - 1; k >= 0; --k) {
      if (N % EDGE != 0 && from + k >= N) continue;
      x[k] = product_of<false>(x[k], *at(from + k, from + k));
      MANSARD_UNROLL
      for (int i = 0; i < k; ++i) multiply_subtract<false>(x[i], *at(from + i, from + k), x[k]);
    }
  }
  // Solve L x = e for one column of a diagonal block; the diagonal of L is 1.
  MANSARD_DEVICE void invert_lower(T (&x)[EDGE], int from) const {
    MANSARD_UNROLL
    for (int k = 0; k < EDGE - 1; ++k)
      MANSARD_UNROLL
      for (int i = k + 1; i < EDGE; ++i)
        if (N % EDGE == 0 || from + i < N) multiply_subtract<false>(x[i], *at(from + i, from + k), x[k]);
  }

  // One product of a join, for the off-diagonal blocks between triangles of `half` rows: block times the triangle on
  // its right, or (SECOND) minus the triangle on its left times the block.
  template <bool SECOND>
  MANSARD_DEVICE void join(int half) const {
MANSARD_UNROLL_BY(1)
    for (int strip = warp; strip < STRIPS; strip += WARPS) {
      const int row = strip * EDGE, from = row / (2 * half) * 2 * half, middle = from + half;
      if (middle >= N) continue;  // the last triangle has no neighbour to join
      if (row < middle) by_triangle<SECOND, false>(row, middle, min(middle + half, N));
      else by_triangle<SECOND, true>(row, from, middle);
    }
  }

  // Multiply the strip of rows `row` .. `row` + 15, columns `from` .. `to` - 1, from the right by the triangle in rows
  // `from` .. `to` - 1 of these columns, in place. TURNED: in the transposed matrix, with a negated result.
  template <bool TURNED, bool LOWER>
  MANSARD_DEVICE void by_triangle(int row, int from, int to) const {
    constexpr bool ONES = LOWER != TURNED;  // the triangle is that of L, whose diagonal is 1 and not stored
    const auto place = [&](int i, int j) { return TURNED ? at(j, i) : at(i, j); };
    const int chunks = ceil_div(to - from, WIDTH);
MANSARD_UNROLL_BY(1)
    for (int turn = 0; turn < chunks; ++turn) {  // in an order in which no chunk needs one that is overwritten already
      const int begin = from + WIDTH * (LOWER ? turn : chunks - 1 - turn);
      T sum[TILES][4] = {};
MANSARD_UNROLL_BY(1)
      for (int k = LOWER ? begin : from; k < (LOWER ? to : min(begin + WIDTH, to)); k += 8)
        add(
            sum, [&](int i, int s) { return *place(kept(row + i), kept(k + s)); },
            [&](int s, int j, bool edge) {
              const T value = *place(kept(k + s), kept(begin + j));
              return edge ? part<LOWER, ONES>(value, k + s, begin + j) : value;
            },
            begin, k, to, LOWER);
      __syncwarp();  // strip is about to be overwritten by this chunk; all lanes have read it
      store(sum, row, begin, to, [&](int i, int j, T x) { *place(i, j) = TURNED ? negated(x) : x; });
      __syncwarp();  // strip: the chunk is stored by all lanes before the next one is read
    }
  }

  // Form U^-1 L^-1 in place. A strip reads L^-1 in the rows below it, so strips are formed from the first to the last,
  // WARPS of them at once.
  MANSARD_DEVICE void multiply_triangles() const {
MANSARD_UNROLL_BY(1)
    for (int first = 0; first < STRIPS; first += WARPS) {
      const int row = (first + warp) * EDGE;
MANSARD_UNROLL_BY(1)
      for (int begin = 0; begin < N; begin += WIDTH) {
        T sum[TILES][4] = {};
MANSARD_UNROLL_BY(1)
        for (int k = max(row, begin); k < N; k += 8) {
          const bool edge = k < row + EDGE;
          add(
              sum,
              [&](int i, int s) {
                const T value = *at(kept(row + i), kept(k + s));
                return edge ? part<false, false>(value, row + i, k + s) : value;
              },
              [&](int s, int j, bool edge) {
                T value = *at(kept(k + s), kept(begin + j));
                if (N % 8 != 0) value = chosen(k + s < N, value, zero<T>());
                return edge ? part<true, true>(value, k + s, begin + j) : value;
              },
              begin, k, N, true);
        }
        __syncthreads();  // L^-1 in these columns is about to be overwritten; the strips of all warps have read it
        store(sum, row, begin, N, [&](int i, int j, T x) { *at(i, j) = x; });
      }
    }
  }

  // The entry as part of a triangle: zero outside it, one on the diagonal if ONES.
  template <bool LOWER, bool ONES>
  static MANSARD_DEVICE T part(T value, int i, int j) {
    if (ONES && i == j) return from_real<T>(1);
    return chosen(LOWER ? i >= j : i <= j, value, zero<T>());
  }

  // sum += left (16 x 8) times right (8 x WIDTH, columns from `begin` on). Tiles outside the triangle are skipped:
  // those behind column k (lower), or before it. Entries of a tile lie in lanes as mma.cuh says.
  template <class Left, class Right>
  MANSARD_DEVICE void add(T (&sum)[TILES][4], Left left, Right right, int begin, int k, int to, bool lower) const {
    const int group = lane / 4, turn = lane % 4;
    const auto wanted = [&](int tile) {
      const int column = begin + 8 * tile;
      return column < to && (lower ? column <= k : column >= k);
    };
    if constexpr (UNIT == Unit::mma) {
      T a[4];
      MANSARD_UNROLL
      for (int i = 0; i < 4; ++i) a[i] = left(group + 8 * (i % 2), turn + 4 * (i / 2));
      MANSARD_UNROLL
      for (int tile = 0; tile < TILES; ++tile)
        if (wanted(tile)) {
          T b[2];
          MANSARD_UNROLL
          for (int i = 0; i < 2; ++i) b[i] = right(turn + 4 * i, 8 * tile + group, begin + 8 * tile == k);
          mma_m16n8k8(sum[tile], a, b);
        }
    } else {
MANSARD_UNROLL_BY(1)
      for (int s = 0; s < 8; ++s) {
        const T a[2] = {left(group, s), left(group + 8, s)};
        MANSARD_UNROLL
        for (int tile = 0; tile < TILES; ++tile)
          if (wanted(tile))
            MANSARD_UNROLL
            for (int j = 0; j < 2; ++j) {
              const T b = right(s, 8 * tile + 2 * turn + j, begin + 8 * tile == k);
              multiply_add<false>(sum[tile][j], a[0], b);
              multiply_add<false>(sum[tile][2 + j], a[1], b);
            }
      }
    }
  }

  // Calls put(row, column, entry) for the entries of `sum` that lie in the matrix.
  template <class Put>
  MANSARD_DEVICE void store(const T (&sum)[TILES][4], int row, int begin, int to, Put put) const {
    const int down = row + lane / 4, across = begin + 2 * (lane % 4);
    MANSARD_UNROLL
    for (int tile = 0; tile < TILES; ++tile)
      MANSARD_UNROLL
      for (int i = 0; i < 4; ++i)
        if (down + 8 * (i / 2) < N && across + 8 * tile + i % 2 < to)
          put(down + 8 * (i / 2), across + 8 * tile + i % 2, sum[tile][i]);
  }
};

}  // namespace mansard
