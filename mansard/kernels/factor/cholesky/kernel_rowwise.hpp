// A = L L^T, or solutions of A X = B, for a batch on CPUs: one matrix at a time, vectors along the rows.
//
// Tile of L:  T_ij = A_ij - sum over k < j of l_ik * l_jk, dot products of rows of L: vectors times vectors, summed
// over lanes at the end. On the diagonal T is factored; below it L_ij = T L_jj^-T.
//
// Team. One thread per matrix. Columns are taken in blocks of BLOCK; within a block, tiles of four rows move from left
// to right, so that the rows of the block and the tile's own rows stay in a cache. Right-hand sides are further rows:
// they become solutions of L Y = B where rows of A become rows of L.
//
// Workspace: ROWS = N + NRHS rows of PITCH reals; PITCH is padded by a cache line where rows would share few sets of a
// cache (CROWDED). 1 / l_kk is in `reciprocals`.
//
// Phases: copy the lower triangle and B to rows; factor by blocks of columns; substitute backward; write.
//
// Limits: multiply-adds; 57, 64, 72 % of their rate at 192, 256, 512 rows (one core of a Neoverse N1). Below 128 rows
// kernel.hpp is faster.
//
// Params beside T, N, NRHS (0: the factor is the result, else X), LAYOUT_A|F|B|X, STACK_A|F|B|X:
//   LANES   reals per vector
//   BLOCK   columns per block
#pragma once
#include "mansard/cpu/groups.hpp"
#include <cmath>

namespace mansard {

// Sum of the lanes of a and sum of the lanes of b.
template <class R, int LANES>
MANSARD_INLINE Vector<R, 2> pair_of_sums(Vector<R, LANES> a, Vector<R, LANES> b) {
#if defined(__aarch64__)
  if constexpr (sizeof(R) == 8 && LANES == 2) return vpaddq_f64(a, b);
  else
#endif
    return Vector<R, 2>{sum_lanes<1, R, LANES>(a)[0], sum_lanes<1, R, LANES>(b)[0]};
}

template <class P>
struct CholeskyRowwise {
  using R = typename P::T;
  using V = Vector<R, P::LANES>;
  static constexpr int LANES = P::LANES, N = P::N, ROWS = N + P::NRHS;
  static constexpr int LENGTH = round_up(N, LANES);
  static constexpr bool CROWDED = LENGTH * sizeof(R) % 512 == 0;  // rows would share few sets of a cache
  static constexpr int PITCH = LENGTH + (CROWDED ? CACHE_LINE / int(sizeof(R)) : 0);
  static constexpr int WORKSPACE = round_up(ROWS * PITCH, 128 / int(sizeof(R)));  // threads share no line
  static_assert(std::is_floating_point_v<R> && P::BLOCK % 4 == 0);

  R* rows;
  int info = 0;
  R reciprocals[N];

  explicit CholeskyRowwise(R* rows) : rows(rows) {}

  MANSARD_INLINE R* row(int i) const { return rows + i * PITCH; }

  // ---- tiles ------------------------------------------------------------------------------------------------

  // tile = A - sum over k < j of l_ik * l_jk for rows [i, i + HEIGHT) and columns [j, j + WIDTH). An element of `tile`
  // has two rows; if HEIGHT is odd, the last row comes twice.
  template <int HEIGHT, int WIDTH>
  MANSARD_INLINE void lose_products(int i, int j, Vector<R, 2> (&tile)[ceil_div(HEIGHT, 2)][WIDTH]) const {
    constexpr bool WHOLE = LANES == 2 || (LANES == 4 && WIDTH > 1);  // j is a multiple of LANES
    const R *left = row(i), *right = row(j);
    V sums[HEIGHT][WIDTH] = {};
    MANSARD_UNROLL_SHORT
    for (int k = 0; k + LANES <= j; k += LANES) {
      V factors[HEIGHT];
      MANSARD_UNROLL
      for (int r = 0; r < HEIGHT; ++r) factors[r] = load<LANES>(left + r * PITCH + k);
      MANSARD_UNROLL
      for (int c = 0; c < WIDTH; ++c) {
        const V others = in_register(load<LANES>(right + c * PITCH + k));
        MANSARD_UNROLL
        for (int r = 0; r < HEIGHT; ++r) add_product(sums[r][c], factors[r], others);
      }
    }
    MANSARD_UNROLL
    for (int r = 0; r < HEIGHT; r += 2) {
      const int next = smaller(r + 1, HEIGHT - 1);
      MANSARD_UNROLL
      for (int c = 0; c < WIDTH; ++c) {
        Vector<R, 2> entries{left[r * PITCH + j + c], left[next * PITCH + j + c]};
        for (int k = WHOLE ? j : j / LANES * LANES; k < j; ++k)
          subtract_product(entries, Vector<R, 2>{left[r * PITCH + k], left[next * PITCH + k]}, right[c * PITCH + k]);
        tile[r / 2][c] = entries - pair_of_sums<R, LANES>(sums[r][c], sums[next][c]);
      }
    }
  }

  // Factor the diagonal tile at j. `info` becomes the order of the first minor that is not positive.
  template <int WIDTH>
  MANSARD_INLINE void diagonal_tile(int j) {
    Vector<R, 2> pairs[ceil_div(WIDTH, 2)][WIDTH];
    lose_products<WIDTH, WIDTH>(j, j, pairs);
    R tile[WIDTH][WIDTH];
    MANSARD_UNROLL
    for (int r = 0; r < WIDTH; ++r) {
      MANSARD_UNROLL
      for (int c = 0; c <= r; ++c) tile[r][c] = pairs[r / 2][c][r % 2];
    }
    MANSARD_UNROLL
    for (int c = 0; c < WIDTH; ++c) {
      if (__builtin_expect(!(tile[c][c] > 0) && info == 0, false)) info = j + c + 1;
      const R root = std::sqrt(tile[c][c]), reciprocal = 1 / root;
      row(j + c)[j + c] = root, reciprocals[j + c] = reciprocal;
      MANSARD_UNROLL
      for (int r = c + 1; r < WIDTH; ++r) row(j + r)[j + c] = tile[r][c] *= reciprocal;
      MANSARD_UNROLL
      for (int next = c + 1; next < WIDTH; ++next) {
        MANSARD_UNROLL
        for (int r = next; r < WIDTH; ++r) subtract_product(tile[r][next], tile[r][c], tile[next][c]);
      }
    }
  }

  // A tile below the diagonal tile at j: L_ij = T L_jj^-T.
  template <int HEIGHT, int WIDTH>
  MANSARD_INLINE void tile_below(int i, int j) const {
    constexpr int PAIRS = ceil_div(HEIGHT, 2);
    Vector<R, 2> tile[PAIRS][WIDTH];
    lose_products<HEIGHT, WIDTH>(i, j, tile);
    MANSARD_UNROLL
    for (int c = 0; c < WIDTH; ++c) {
      MANSARD_UNROLL
      for (int p = 0; p < PAIRS; ++p) {
        MANSARD_UNROLL
        for (int before = 0; before < c; ++before)
          subtract_product(tile[p][c], tile[p][before], row(j + c)[j + before]);
        tile[p][c] *= reciprocals[j + c];
      }
    }
    MANSARD_UNROLL
    for (int p = 0; p < PAIRS; ++p) {
      MANSARD_UNROLL
      for (int c = 0; c + 1 < WIDTH; c += 2) {  // store whole vectors, since they will be loaded as such
        Vector<R, 2> square[2] = {tile[p][c], tile[p][c + 1]};
        transpose<1, R, 2>(square);
        for_range<true>(0, smaller(2, HEIGHT), [&](int r) __attribute__((always_inline)) {
          store<2>(row(i + 2 * p + r) + j + c, square[r]);
        });
      }
      if constexpr (WIDTH % 2)
        for_range<true>(0, smaller(2, HEIGHT), [&](int r) __attribute__((always_inline)) {
          row(i + 2 * p + r)[j + WIDTH - 1] = tile[p][WIDTH - 1][r];
        });
    }
  }

  // Tiles of rows [i, i + HEIGHT) in the columns [begin, end), whose diagonal tiles are factored.
  template <int HEIGHT>
  MANSARD_AS_WRITTEN __attribute__((noinline)) void rows_below(int i, int begin, int end) const {
    for_tiles<4>(begin, end, [&](int j, auto width) __attribute__((always_inline)) { tile_below<HEIGHT, width>(i, j); });
  }
  // Tiles of rows [i, i + HEIGHT) from column `begin` to the diagonal, and the diagonal tile itself.
  template <int HEIGHT>
  MANSARD_AS_WRITTEN __attribute__((noinline)) void rows_of_block(int i, int begin) {
    for_tiles<4>(begin, i, [&](int j, auto width) __attribute__((always_inline)) { tile_below<HEIGHT, width>(i, j); });
    diagonal_tile<HEIGHT>(i);
  }

  // ---- a matrix ---------------------------------------------------------------------------------------------

  void factor() {
    for (int begin = 0; begin < N; begin += P::BLOCK) {
      const int end = smaller(begin + P::BLOCK, N);
      for_tiles<4>(begin, end, [&](int i, auto height) __attribute__((always_inline)) {
        rows_of_block<height>(i, begin);
      });
      for_tiles<4>(end, N, [&](int i, auto height) __attribute__((always_inline)) { rows_below<height>(i, begin, end); });
      for_tiles<4>(N, ROWS, [&](int i, auto height) __attribute__((always_inline)) {
        rows_below<height>(i, begin, end);
      });
    }
  }

  // Backward substitution L^T X = Y, four unknowns at a time from the last; X replaces Y in the rows from N on.
  void substitute() const {
    for (int i = N, height = N % 4 > 0 ? N % 4 : 4; i > 0; i -= height, height = 4)
      for (int right = N; right < ROWS; ++right) substitute(row(right), i - height, i);
  }
  MANSARD_INLINE void substitute(R* x, int begin, int end) const {
    R known[4] = {};
    for (int i = end - 1; i >= begin; --i) {
      R sum = x[i];
      for (int k = i + 1; k < end; ++k) subtract_product(sum, row(k)[i], known[k - begin]);
      x[i] = known[i - begin] = sum * reciprocals[i];
    }
    const R* lines[4];
    for (int r = 0; r < 4; ++r) lines[r] = row(smaller(begin + r, end - 1));  // missing rows are multiplied by zero
    int j = 0;
    MANSARD_UNROLL_SHORT
    for (; j + LANES <= begin; j += LANES) {
      V entries = load<LANES>(x + j);
      for (int r = 0; r < 4; ++r) subtract_product(entries, known[r], load<LANES>(lines[r] + j));
      store<LANES>(x + j, entries);
    }
    for (; j < begin; ++j)
      for (int r = 0; r < 4; ++r) subtract_product(x[j], known[r], lines[r][j]);
  }
};

// ---- reading and writing ----------------------------------------------------------------------------------

// Transpose `lines` lines of `length` entries, a square of LANES x LANES at a time.
template <int LANES, class R>
inline void turn(R* to, i64 to_line, const R* from, i64 from_line, int lines, int length) {
  int l = 0;
  for (; l + LANES <= lines; l += LANES) {
    int e = 0;
    for (; e + LANES <= length; e += LANES) {
      Vector<R, LANES> square[LANES];
      MANSARD_UNROLL
      for (int i = 0; i < LANES; ++i) square[i] = load<LANES>(from + (l + i) * from_line + e);
      transpose<1, R, LANES>(square);
      MANSARD_UNROLL
      for (int i = 0; i < LANES; ++i) store<LANES>(to + (e + i) * to_line + l, square[i]);
    }
    for (; e < length; ++e)
      for (int i = 0; i < LANES; ++i) to[e * to_line + l + i] = from[(l + i) * from_line + e];
  }
  for (; l < lines; ++l)
    for (int e = 0; e < length; ++e) to[e * to_line + l] = from[l * from_line + e];
}

// Copy the lower triangle to the workspace; a column-major matrix is transposed with its upper triangle, which is not
// used.
template <class P, class Arguments>
inline void read_rows(const Arguments& a, const CholeskyRowwise<P>& all, i64 b) {
  using S = CholeskyRowwise<P>;
  using R = typename S::R;
  const R* const A = Matrices<const R, P::STACK_A>{a.A, a.a_matrix, a.a_row, a.a_col}[b];
  if (a.a_col == 1)
    for (int i = 0; i < S::N; ++i) std::memcpy(all.row(i), A + i * a.a_row, (i + 1) * sizeof(R));
  else if (a.a_row == 1) turn<S::LANES>(all.rows, S::PITCH, A, a.a_col, S::N, S::N);
  else
    for (int i = 0; i < S::N; ++i)
      for (int j = 0; j <= i; ++j) all.row(i)[j] = A[i * a.a_row + j * a.a_col];
  if constexpr (P::NRHS > 0) {
    const R* const B = Matrices<const R, P::STACK_B>{a.B, a.b_matrix, a.b_row, a.b_col}[b];
    for (int c = 0; c < P::NRHS; ++c)
      for (int i = 0; i < S::N; ++i) all.row(S::N + c)[i] = B[i * a.b_row + c * a.b_col];
  }
}

template <class P, class Arguments>
inline void write_rows(const Arguments& a, const CholeskyRowwise<P>& all, i64 b) {
  using S = CholeskyRowwise<P>;
  using R = typename S::R;
  if constexpr (P::NRHS > 0) {
    R* const X = Matrices<R, P::STACK_X>{a.X, a.x_matrix, a.x_row, a.x_col}[b];
    for (int c = 0; c < P::NRHS; ++c)
      for (int i = 0; i < S::N; ++i) X[i * a.x_row + c * a.x_col] = all.row(S::N + c)[i];
    return;
  }
  R* const F = Matrices<R, P::STACK_F>{a.F, a.f_matrix, a.f_row, a.f_col}[b];
  if (a.f_col == 1) {
    for (int i = 0; i < S::N; ++i) {
      std::memcpy(F + i * a.f_row, all.row(i), (i + 1) * sizeof(R));
      std::memset(F + i * a.f_row + i + 1, 0, (S::N - i - 1) * sizeof(R));
    }
    return;
  }
  for (int i = 0; i < S::N; ++i) std::memset(all.row(i) + i + 1, 0, (S::N - i - 1) * sizeof(R));
  if (a.f_row == 1) turn<S::LANES>(F, a.f_col, all.rows, S::PITCH, S::N, S::N);
  else
    for (int i = 0; i < S::N; ++i)
      for (int j = 0; j < S::N; ++j) F[i * a.f_row + j * a.f_col] = all.row(i)[j];
}

template <class P, class Arguments>
int cholesky_rowwise(const Arguments& a) {
  using S = CholeskyRowwise<P>;
  const i64 products = a.BATCH * S::N * S::N * (S::N / 6 + 1 + P::NRHS);
  for_groups<1, S::WORKSPACE>(a.BATCH, a.threads, products, reinterpret_cast<typename S::R*>(a.partials),
                              [&](i64 b, int, typename S::R* workspace) {
                                S all(workspace);
                                read_rows<P>(a, all, b);
                                all.factor();
                                if constexpr (P::NRHS > 0) all.substitute();
                                write_rows<P>(a, all, b);
                                a.INFO[b] = all.info;
                              });
  return 0;
}

}  // namespace mansard
