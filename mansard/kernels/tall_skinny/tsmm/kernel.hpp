// W = alpha A C + beta W on CPUs for tall A (K x M) and W (K x N), M and N small.
//
// The rows are cut into blocks that fit a cache. A block of A is read from memory once and visited by every register
// tile; the tiles write their sums to a block of the workspace, which is copied to W in runs of full cache lines. W may
// be A: the rows of a block are read before any of them is written. A row's sums are formed in the order of the columns
// of A, whatever the number of threads.
//
// alpha C is copied first, in panels as wide as a tile, in the order in which the tiles read it. Lanes run in the
// direction in which W is adjacent:
//   rows     A is broadcast, C read as vectors; A may have either layout                    (tile_along_columns)
//   ALONG_K  C is broadcast, A read as vectors; a row-major A is transposed block by block  (tile_along_rows)
// A complex row-major A is a real one of twice the columns (re, im, re, im, ...), and C a real one of twice the rows
// and columns, in which (re, im) stands above (-im, re). Along rows, products with re and with im are summed
// separately.
//
// Params beside T, M, N, CONJ, ROW_MAJOR_A, ROW_MAJOR_W:
//   ALONG_K   lanes run along K: W is column-major, or a single column without gaps
//   LANES     reals per vector
//   TILE_K    rows per register tile; vectors of rows, where lanes run along K
//   TILE_N    vectors of columns of W per register tile; columns, where lanes run along K
//   ROWS      rows per block
//   PACK      copy each block of A: pays if many tiles visit the block, or if rows or columns are a power of two apart
//             and would share sets of the cache
//   STREAM    write W with non-temporal stores: a line that is written completely need not be read first
//   PREFETCH  cache (1, 2) to which the tiles of a block bring the next block of A; 0 leaves it to the hardware
#pragma once
#include "mansard/cpu/parts.hpp"

namespace mansard {

// A tall matrix of reals. Strides count reals; for a complex matrix `column` is the distance of two entries.
template <class R>
struct Tall {
  R* data;
  i64 row, column;

  Tall below(i64 rows) const { return {data + rows * row, row, column}; }
};

template <class P>
struct TsmmShape {
  using T = typename P::T;
  using R = typename Scalar<T>::Real;
  static constexpr int WORDS = Scalar<T>::WORDS, FULL = native_lanes<R>;
  static constexpr int A_COLUMNS = WORDS * P::M, W_COLUMNS = WORDS * P::N;  // reals in a row
  static constexpr bool ALONG_K = P::ALONG_K;
  static constexpr bool PACK = P::PACK || (ALONG_K && P::ROW_MAJOR_A);
  static constexpr int STEP = ALONG_K ? P::LANES / WORDS : 1;  // rows per row of a register tile

  // C as the tiles read it: DEPTH rows of WIDTH reals, UNIT of them per column of a tile.
  static constexpr int DEPTH = ALONG_K ? P::M : A_COLUMNS;
  static constexpr int UNIT = ALONG_K ? WORDS : P::LANES;
  static constexpr int WIDTH = round_up(W_COLUMNS, UNIT);
  using Panels = Pieces<WIDTH / UNIT, P::TILE_N>;

  // Reals between the rows (columns, where lanes run along K) of a block. For A an odd number of cache lines, so that
  // they do not share sets of the cache; rows of W have no gaps, so that they can be written as one run.
  static constexpr int LINE = CACHE_LINE / static_cast<int>(sizeof(R));
  static constexpr int PITCH_A = (ceil_div(ALONG_K ? WORDS * P::ROWS + LINE : A_COLUMNS, LINE) | 1) * LINE;
  static constexpr int PITCH_W = ALONG_K ? WORDS * P::ROWS + LINE : W_COLUMNS;

  // Sizes of the workspace: C, then for every thread a block of W with a line before and after it, and one of A.
  static constexpr int C_SIZE = round_up(DEPTH * WIDTH, LINE);
  static constexpr int W_SIZE = round_up((ALONG_K ? P::N : P::ROWS) * PITCH_W, LINE) + 2 * LINE;
  static constexpr int A_SIZE = PACK || ALONG_K ? (ALONG_K ? P::M : P::ROWS) * PITCH_A : 0;

  // Calls visit(column, Int<columns>) for every panel, from right to left: a row's last vector may overwrite the
  // beginning of the next row of the block, which is written afterwards.
  template <class Visit>
  static MANSARD_INLINE void for_each_panel(Visit visit) {
    Panels::for_each([&](int from_right, auto columns) __attribute__((always_inline)) {
      visit(WIDTH / UNIT - from_right - columns, columns);
    });
  }

  // Where lanes run along K, a part's first block ends at the end of a line of W, so that the others write full lines.
  static i64 rows_into_line(const R* w) {
    return ALONG_K ? static_cast<i64>(reinterpret_cast<std::uintptr_t>(w) / sizeof(R) % LINE / WORDS) : 0;
  }

  static_assert(ALONG_K ? !P::ROW_MAJOR_W || P::N == 1 : P::ROW_MAJOR_W);
  static_assert(P::LANES >= 2 && P::LANES <= larger(FULL, 2) && P::ROWS % (P::TILE_K * STEP) == 0);
};

// Prefetch of the next block of A at the pace of the tiles of this one, a step for every column of A.
template <class P, class S = TsmmShape<P>>
using Ahead = Walk<P::PREFETCH, ceil_div(P::TILE_K * S::STEP * S::WORDS, S::Panels::COUNT), const typename S::R>;

template <class P, class R>
inline Ahead<P> ahead_of(Tall<const R> next) {
  using S = TsmmShape<P>;
  constexpr i64 BLOCK = P::ROWS * S::A_COLUMNS;
  if (!P::ROW_MAJOR_A) return {next.data, P::ROWS * S::WORDS, next.column};
  if (next.row == S::A_COLUMNS) return {next.data, BLOCK, BLOCK};
  return {next.data, S::A_COLUMNS, next.row};
}

// ---- the register tiles -----------------------------------------------------------------------------------

// w[k, :] = sum over m of a[k, m] c[m, :], for TILE_K rows and TILE_N vectors of columns.
template <class P, int TILE_K, int TILE_N, class R>
MANSARD_INLINE void tile_along_columns(Tall<const R> a, const R* c, R* w, Ahead<P>& ahead) {
  using S = TsmmShape<P>;
  using V = Vector<R, P::LANES>;
  constexpr bool IN_ROWS = P::ROW_MAJOR_A || P::PACK;
  V sums[TILE_K][TILE_N] = {};

  MANSARD_UNROLL_SHORT
  for (int m = 0; m < P::M; ++m) {
    MANSARD_UNROLL
    for (int word = 0; word < S::WORDS; ++word) {
      V c_row[TILE_N];
      MANSARD_UNROLL
      for (int n = 0; n < TILE_N; ++n) c_row[n] = in_register(load<P::LANES>(c + n * P::LANES));
      MANSARD_UNROLL
      for (int k = 0; k < TILE_K; ++k) {
        const R a_k = a.data[k * (IN_ROWS ? a.row : S::WORDS) + word];
        MANSARD_UNROLL
        for (int n = 0; n < TILE_N; ++n) add_product(sums[k][n], a_k, c_row[n]);
      }
      c += TILE_N * P::LANES;
    }
    a.data += IN_ROWS ? S::WORDS : a.column;
    ahead.advance();
  }
  MANSARD_UNROLL
  for (int k = 0; k < TILE_K; ++k) {
    MANSARD_UNROLL
    for (int n = 0; n < TILE_N; ++n) store<P::LANES>(w + k * S::PITCH_W + n * P::LANES, sums[k][n]);
  }
}

// sum += i times the complex numbers of a vector.
template <class R, int LANES>
MANSARD_INLINE void add_times_i(Vector<R, LANES>& sum, Vector<R, LANES> v) {
  Vector<R, LANES> sign;
  MANSARD_UNROLL
  for (int lane = 0; lane < LANES; ++lane) sign[lane] = static_cast<R>(lane % 2 ? 1 : -1);
  add_product(sum, sign, exchange<1, R, LANES>(v));
}

// w[k, :] = sum over m of a[k, m] c[m, :], for TILE_K vectors of rows and TILE_N columns.
template <class P, int TILE_K, int TILE_N, class R>
MANSARD_INLINE void tile_along_rows(Tall<const R> a, const R* c, R* w, Ahead<P>& ahead) {
  using S = TsmmShape<P>;
  using V = Vector<R, P::LANES>;
  V sums[TILE_N][S::WORDS][TILE_K] = {};

  for (int m = 0; m < P::M; ++m) {
    V a_column[TILE_K];
    MANSARD_UNROLL
    for (int k = 0; k < TILE_K; ++k) a_column[k] = in_register(load<P::LANES>(a.data + k * P::LANES));
    MANSARD_UNROLL
    for (int n = 0; n < TILE_N; ++n) {
      MANSARD_UNROLL
      for (int word = 0; word < S::WORDS; ++word) {
        const R c_n = c[n * S::WORDS + word];
        MANSARD_UNROLL
        for (int k = 0; k < TILE_K; ++k) add_product(sums[n][word][k], c_n, a_column[k]);
      }
    }
    c += TILE_N * S::WORDS;
    a.data += a.column;
    ahead.advance();
  }
  MANSARD_UNROLL
  for (int n = 0; n < TILE_N; ++n) {
    MANSARD_UNROLL
    for (int k = 0; k < TILE_K; ++k) {
      V sum = sums[n][0][k];
      if constexpr (S::WORDS == 2) add_times_i<R, P::LANES>(sum, sums[n][1][k]);
      store<P::LANES>(w + n * S::PITCH_W + k * P::LANES, sum);
    }
  }
}

// ---- one block --------------------------------------------------------------------------------------------

// A block of A as the tiles can read it: in place, or copied to `buffer`. Where lanes run along K, the last block is
// copied if vectors would reach beyond the end of a column.
template <class P, class R>
inline Tall<const R> fetch(Tall<const R> a, i64 rows, R* buffer) {
  using S = TsmmShape<P>;
  constexpr int W = S::WORDS, SQUARE = S::FULL / W;
  const bool readable = !S::PACK || (P::M == 1 && a.row == W);  // a single column without gaps has both layouts
  if (readable && rows % S::STEP == 0) return a;
  if constexpr (S::ALONG_K && P::ROW_MAJOR_A) {
    i64 k = 0;
    for (; k + SQUARE <= rows; k += SQUARE)
      columns_to_rows<S::FULL, W, SQUARE, S::PITCH_A>(buffer + k * W, a.data + k * a.row, a.row, P::M);
    for (; k < rows; ++k)
      columns_to_rows<S::FULL, W, 1, S::PITCH_A>(buffer + k * W, a.data + k * a.row, a.row, P::M);
  } else if constexpr (S::ALONG_K) {
    copy_padded<R>(buffer, S::PITCH_A, a.data, a.column, P::M, rows * W, round_up<i64>(rows * W, P::LANES));
  } else if constexpr (P::ROW_MAJOR_A) {
    copy_padded<R>(buffer, S::PITCH_A, a.data, a.row, rows, S::A_COLUMNS, S::A_COLUMNS);
  } else {
    columns_to_rows<S::FULL, W, P::M, S::PITCH_A>(buffer, a.data, a.column, rows);
  }
  return {buffer, S::ALONG_K ? W : S::PITCH_A, S::ALONG_K ? S::PITCH_A : W};
}

// block = a C, panel by panel.
template <class P, class R>
inline void multiply_block(Tall<const R> a, i64 rows, const R* C, R* block, Ahead<P> ahead) {
  using S = TsmmShape<P>;
  S::for_each_panel([&](int n, auto tile_n) __attribute__((always_inline)) {
    const R* const c = C + n * S::UNIT * S::DEPTH;
    R* const w = block + n * (S::ALONG_K ? S::PITCH_W : S::UNIT);
    const auto tile = [&](i64 k, auto tile_k) __attribute__((always_inline)) {
      if constexpr (S::ALONG_K) tile_along_rows<P, tile_k, tile_n>(a.below(k), c, w + k * S::WORDS, ahead);
      else tile_along_columns<P, tile_k, tile_n>(a.below(k), c, w + k * S::PITCH_W, ahead);
    };
    i64 k = 0;
    for (; k + P::TILE_K * S::STEP <= rows; k += P::TILE_K * S::STEP) tile(k, Int<P::TILE_K>());
    for (; k < rows; k += S::STEP) tile(k, Int<1>());
  });
}

// w = sums + beta w for `reals` adjacent reals of W.
template <class P, class Arguments, class R>
MANSARD_INLINE void write_run(const Arguments& a, R* w, const R* sums, i64 reals) {
  using T = typename P::T;
  if (a.beta_re != 0 || a.beta_im != 0) {
    T* const to = reinterpret_cast<T*>(w);
    const T* const from = reinterpret_cast<const T*>(sums);
    for (i64 i = 0; i < reals / Scalar<T>::WORDS; ++i) to[i] = from[i] + times(a.beta_re, a.beta_im, to[i]);
  } else {
    const i64 done = P::STREAM ? stream_lines(w, sums, reals) : 0;
    std::memcpy(w + done, sums + done, static_cast<std::size_t>(reals - done) * sizeof(R));
  }
}

// Write a block of W. If rows have no gaps, a last partial line of `waiting` reals is kept in front of the next block:
// written in two parts it would have to be read first, and later stores would wait for that.
template <class P, class Arguments, class R>
inline i64 write_block(const Arguments& a, Tall<R> w, i64 rows, R* block, i64 waiting, bool last) {
  using S = TsmmShape<P>;
  if constexpr (S::ALONG_K) {
    for (int n = 0; n < P::N; ++n)
      write_run<P>(a, w.data + n * w.column, block + n * S::PITCH_W, rows * S::WORDS);
  } else if (w.row != S::W_COLUMNS) {
    for (i64 k = 0; k < rows; ++k) write_run<P>(a, w.data + k * w.row, block + k * S::PITCH_W, S::W_COLUMNS);
  } else {
    R* const from = block - waiting;
    const i64 reals = rows * S::W_COLUMNS + waiting;
    if (last || !P::STREAM || a.beta_re != 0 || a.beta_im != 0) {
      write_run<P>(a, w.data - waiting, from, reals);
    } else {
      const i64 done = stream_lines(w.data - waiting, from, reals);
      waiting = reals - done;
      std::memmove(block - waiting, from + done, static_cast<std::size_t>(waiting) * sizeof(R));
      return waiting;
    }
  }
  return 0;
}

// ---- the whole product ------------------------------------------------------------------------------------

// Copy alpha C, or its conjugate, in panels of DEPTH rows, padded with zeros.
template <class P, class Arguments, class R>
inline void copy_panels(const Arguments& a, R* to) {
  using S = TsmmShape<P>;
  const auto real = [&](int row, int column) -> R {
    constexpr int W = S::WORDS;
    if (column >= S::W_COLUMNS) return 0;
    const int m = S::ALONG_K ? row : row / W;
    auto c = a.C[m * a.c_row + column / W * a.c_col];
    if constexpr (W == 1) {
      return times(a.alpha_re, a.alpha_im, c);
    } else {
      if (P::CONJ) c.im = -c.im;
      c = times(a.alpha_re, a.alpha_im, c);
      if (S::ALONG_K || row % W == 0) return column % W ? c.im : c.re;
      return column % W ? c.re : -c.im;
    }
  };
  S::for_each_panel([&](int n, auto tile_n) {
    R* panel = to + n * S::UNIT * S::DEPTH;
    for (int row = 0; row < S::DEPTH; ++row)
      for (int column = 0; column < tile_n * S::UNIT; ++column) *panel++ = real(row, n * S::UNIT + column);
  });
}

template <class P, class Arguments>
int tsmm_simd(const Arguments& a) {
  using S = TsmmShape<P>;
  using R = typename S::R;
  constexpr int W = S::WORDS;
  constexpr i64 MOST_PARTS = 128, LEAST = 1 << 16;  // LEAST: entries of A and W per thread
  const Tall<const R> A{reinterpret_cast<const R*>(a.A), W * (P::ROW_MAJOR_A ? a.a_row : 1),
                        W * (P::ROW_MAJOR_A ? 1 : a.a_col)};
  const Tall<R> out{reinterpret_cast<R*>(a.W), W * (P::ROW_MAJOR_W ? a.w_row : 1),
                    W * (P::ROW_MAJOR_W ? 1 : a.w_col)};
  const i64 K = a.K, part_rows = round_up<i64>(larger(ceil_div(K, MOST_PARTS), LEAST / (P::M + P::N)), P::ROWS);
  const i64 parts = larger<i64>(1, ceil_div(K, part_rows));
  R* const C = reinterpret_cast<R*>(a.partials);
  copy_panels<P>(a, C);

#pragma omp parallel num_threads(static_cast<int>(smaller<i64>(a.threads, parts))) if (parts > 1)
  {
    R* const buffer = C + S::C_SIZE + thread_index() * (S::W_SIZE + S::A_SIZE);
    R* const block = buffer + S::LINE;
#pragma omp for schedule(dynamic)
    for (i64 p = 0; p < parts; ++p) {
      const i64 end = smaller(K, (p + 1) * part_rows);
      i64 waiting = 0;
      for (i64 k = p * part_rows, rows; k < end; k += rows) {
        rows = smaller<i64>(P::ROWS - S::rows_into_line(out.data + k * W), end - k);
        const auto block_a = fetch<P>(A.below(k), rows, buffer + S::W_SIZE);
        multiply_block<P>(block_a, rows, C, block, ahead_of<P>(A.below(k + rows)));
        waiting = write_block<P>(a, out.below(k), rows, block, waiting, k + rows == end);
      }
    }
    if (P::STREAM) finish_streams();
  }
  return 0;
}

}  // namespace mansard
