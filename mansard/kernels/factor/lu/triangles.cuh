// The inverse of L U, whose factors lie in shared memory, in their place: both triangles are inverted, then multiplied.
//
// Blocks of 16 rows along the diagonal are inverted by threads that have a column each. Then two neighbours become one,
//   [ U11 U12 ]^-1   [ X11  -X11 U12 X22 ]
//   [     U22 ]    = [            X22    ]
// and L likewise, until one is left: log2(N / 16) rounds of two products, which all warps do in strips of 16 rows. A
// strip times a triangle can be formed in place and needs nobody's leave; where the triangle stands on the left, the
// transposed matrix has it on the right.
#pragma once
#include "kernels/factor/lu/update.cuh"

namespace mansard {

// Entry (i, j) of the N x N matrix is at i * ROW + j * COLUMN.
template <class T, int N, int ROW, int COLUMN, int WARPS, Unit UNIT>
struct Triangles {
  static constexpr int EDGE = 16, TILES = 4, WIDTH = 8 * TILES, STRIPS = ceil_div(N, EDGE);
  T* matrix;
  int warp, lane;

  // All threads of the block, which has seen the factors; afterwards it has to meet.
  MANSARD_DEVICE void invert() const {
    invert_diagonal();
    __syncthreads();
MANSARD_UNROLL_BY(1)
    for (int half = EDGE; half < N; half *= 2) {
      join<false>(half);
      __syncthreads();
      join<true>(half);
      __syncthreads();
    }
    multiply_triangles();
  }

 private:
  MANSARD_DEVICE T* at(int i, int j) const { return matrix + i * ROW + j * COLUMN; }
  // Tiles that hang over read the last row or column again; nobody keeps what becomes of it.
  static MANSARD_DEVICE int kept(int i) { return N % EDGE == 0 ? i : min(i, N - 1); }

  // Both triangles of every block on the diagonal, a column per thread.
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
      __syncwarp();  // the lanes of a block have each other's
      T x[EDGE];
      MANSARD_UNROLL
      for (int i = 0; i < EDGE; ++i) x[i] = from_real<T>(from + i == column ? 1 : 0);
      if (upper) invert_upper(x, from);
      else invert_lower(x, from);
      __syncwarp();  // everybody has read what is overwritten
      MANSARD_UNROLL
      for (int i = 0; i < EDGE; ++i)
        if (column < N && (upper ? from + i < column : from + i > column && from + i < N)) *at(from + i, column) = x[i];
    }
  }
  MANSARD_DEVICE void invert_upper(T (&x)[EDGE], int from) const {
    MANSARD_UNROLL
    for (int k = EDGE - 1; k >= 0; --k) {
      if (N % EDGE != 0 && from + k >= N) continue;
      x[k] = product_of<false>(x[k], *at(from + k, from + k));
      MANSARD_UNROLL
      for (int i = 0; i < k; ++i) multiply_subtract<false>(x[i], *at(from + i, from + k), x[k]);
    }
  }
  MANSARD_DEVICE void invert_lower(T (&x)[EDGE], int from) const {
    MANSARD_UNROLL
    for (int k = 0; k < EDGE - 1; ++k)
      MANSARD_UNROLL
      for (int i = k + 1; i < EDGE; ++i)
        if (N % EDGE == 0 || from + i < N) multiply_subtract<false>(x[i], *at(from + i, from + k), x[k]);
  }

  // What is beside two neighbours of `half` rows: first times the triangle on its right, then (SECOND) minus the one on
  // its left times that.
  template <bool SECOND>
  MANSARD_DEVICE void join(int half) const {
MANSARD_UNROLL_BY(1)
    for (int strip = warp; strip < STRIPS; strip += WARPS) {
      const int row = strip * EDGE, from = row / (2 * half) * 2 * half, middle = from + half;
      if (middle >= N) continue;  // it has no neighbour
      if (row < middle) by_triangle<SECOND, false>(row, middle, min(middle + half, N));
      else by_triangle<SECOND, true>(row, from, middle);
    }
  }

  // Rows `row` to `row` + 15 of columns `from` to `to` - 1, times the triangle in the same rows as these columns.
  // TURNED: of the transposed matrix.
  template <bool TURNED, bool LOWER>
  MANSARD_DEVICE void by_triangle(int row, int from, int to) const {
    constexpr bool ONES = LOWER != TURNED;  // it is L's
    const auto place = [&](int i, int j) { return TURNED ? at(j, i) : at(i, j); };
    const int chunks = ceil_div(to - from, WIDTH);
MANSARD_UNROLL_BY(1)
    for (int turn = 0; turn < chunks; ++turn) {  // those first that need what others leave
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
      __syncwarp();  // everybody has read what is overwritten
      store(sum, row, begin, to, [&](int i, int j, T x) { *place(i, j) = TURNED ? negated(x) : x; });
      __syncwarp();
    }
  }

  // U^-1 L^-1. Strips need the rows below them, so they are formed from the first to the last, as many at once as there
  // are warps.
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
        __syncthreads();  // nobody needs L's part of these rows
        store(sum, row, begin, N, [&](int i, int j, T x) { *at(i, j) = x; });
      }
    }
  }

  // What of an entry belongs to a triangle, which may have ones on its diagonal.
  template <bool LOWER, bool ONES>
  static MANSARD_DEVICE T part(T value, int i, int j) {
    if (ONES && i == j) return from_real<T>(1);
    return chosen(LOWER ? i >= j : i <= j, value, zero<T>());
  }

  // sum += 16 x 8 entries `left` times 8 x WIDTH `right`, of which the triangle has only tiles up to k (LOWER), or from
  // there on. c[i] of a tile is where mma.cuh says.
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
