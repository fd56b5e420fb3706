// gram on CPUs: C = alpha A^H B + beta C for tall A (K x M) and B (K x N), M and N small.
//
// The rows are cut into parts, each part into blocks that a cache holds. A block is read from memory once and
// visited by every register tile of C, while the next block is prefetched; the sums of a part live in
// `partials` and are added pairwise at the end. The order of all additions depends on K, `parts` and Params,
// never on the number of threads.
//
// A complex matrix is a real one of twice the columns (re, im, re, im, ...). G, the real product of two such
// matrices, holds every product of a part with a part; `entry` forms the complex sums from it.
//
// One operand, X, is broadcast, the other, Y, read as vectors. X is A, unless SWAP computes C^T from (B, A).
//   Y row-major, or PACK:  lanes run along the columns of Y; X may have either layout  (tile_along_columns)
//   Y column-major:        lanes run along K in both, so X must be column-major too    (tile_along_rows)
//
// Params beside T, M, N, CONJ, SAME, ROW_MAJOR_A, ROW_MAJOR_B:
//   LANES     reals per vector
//   TILE_M    columns of X per register tile
//   TILE_N    columns of Y per register tile if lanes run along K, otherwise vectors of columns
//   UNROLL    independent copies of a tile's sums, for tiles too small to hide the latency of an fma
//   ROWS      rows per block
//   SWAP      broadcast B instead of A
//   EDGE      columns of Y that fill no vector are broadcast against vectors of X, instead of wasting lanes;
//             both must be row-major (or PACK) and Y have at least LANES reals in a row
//   PACK      copy each block to rows of an odd number of vectors, column-major ones transposed: pays when many tiles
//             visit the block, or when rows lie a power of two apart and would fight for the same lines of the cache
//   PREFETCH  cache (1, 2) to which the tiles of a block bring the next block; 0 leaves it to the hardware
#pragma once
#include "mansard/cpu/fused.hpp"

namespace mansard {

// A tall matrix of reals. Strides count reals; of a complex matrix, `column` is the distance of two entries.
template <class R>
struct Operand {
  const R* data;
  i64 row, column;

  Operand below(i64 rows) const { return {data + rows * row, row, column}; }
  Operand right(i64 reals) const { return {data + reals, row, column}; }
};

template <class P>
struct GramShape {
  using T = typename P::T;
  using R = typename Scalar<T>::Real;
  static constexpr int WORDS = Scalar<T>::WORDS;
  static constexpr int X_COLUMNS = P::SWAP ? P::N : P::M, Y_COLUMNS = P::SWAP ? P::M : P::N;
  static constexpr bool X_IN_ROWS = P::SWAP ? P::ROW_MAJOR_B : P::ROW_MAJOR_A;  // in memory
  static constexpr bool Y_IN_ROWS = P::SWAP ? P::ROW_MAJOR_A : P::ROW_MAJOR_B;
  static constexpr bool X_ROW_MAJOR = X_IN_ROWS || P::PACK;  // as the tiles see it
  static constexpr bool Y_ROW_MAJOR = Y_IN_ROWS || P::PACK;
  static constexpr bool ALONG_K = !Y_ROW_MAJOR;
  static constexpr int STEP = ALONG_K ? P::LANES / WORDS : 1;  // rows that one step of a tile consumes
  static constexpr int ROUND = round_up(4, P::UNROLL);         // steps between two looks at the next block

  // G, the real product, has G_ROWS rows of LEADING reals. The edge, if there is one, follows it: the
  // transpose of the last EDGE columns, as EDGE rows of X_PADDED reals.
  static constexpr int G_ROWS = WORDS * X_COLUMNS, G_COLUMNS = WORDS * Y_COLUMNS;
  static constexpr int X_PADDED = round_up(G_ROWS, P::LANES), Y_PADDED = round_up(G_COLUMNS, P::LANES);
  static constexpr int EDGE = P::EDGE ? G_COLUMNS % P::LANES : 0;
  static constexpr int LEADING = EDGE ? G_COLUMNS - EDGE : Y_PADDED;
  static constexpr int SIZE = G_ROWS * LEADING + EDGE * X_PADDED;
  static constexpr int COPIED = P::PACK ? P::ROWS : P::LANES;  // rows of a block that may have to be copied
  // reals between rows of a copy: an odd number of vectors
  static constexpr int X_PITCH = P::PACK ? X_PADDED + (X_PADDED / P::LANES + 1) % 2 * P::LANES : X_PADDED;
  static constexpr int Y_PITCH = P::PACK ? Y_PADDED + (Y_PADDED / P::LANES + 1) % 2 * P::LANES : Y_PADDED;
  static constexpr int BUFFER = COPIED * (X_PITCH + Y_PITCH);

  using TilesX = Pieces<X_COLUMNS, P::TILE_M>;
  using TilesY = Pieces<ALONG_K ? Y_COLUMNS : LEADING / P::LANES, P::TILE_N>;
  using EdgeY = Pieces<X_PADDED / P::LANES, EDGE ? larger(WORDS * P::TILE_M * P::TILE_N / EDGE, 1) : 1>;

  // Of a symmetric product, the tiles that lie wholly below the diagonal are left out.
  static constexpr int TILE_COLUMN = ALONG_K ? WORDS : P::LANES;  // columns of G per column of a tile
  static constexpr bool skipped(int i, int j_end) { return P::SAME && j_end * TILE_COLUMN <= i * WORDS; }
  static constexpr int count_tiles() {
    int count = EDGE ? EdgeY::COUNT : 0;
    for (int i = 0; i < TilesX::COUNT; ++i)
      for (int j = 1; j <= TilesY::COUNT; ++j) count += !skipped(TilesX::begin(i), TilesY::begin(j));
    return count;
  }
  static constexpr int TILES = count_tiles();

  static_assert(!(ALONG_K && X_ROW_MAJOR), "a row-major operand must be the one read as vectors: flip SWAP");
  static_assert(P::LANES >= 2 && P::ROWS % P::LANES == 0);
  static_assert(!P::EDGE || (X_ROW_MAJOR && Y_ROW_MAJOR && G_COLUMNS >= P::LANES));
};

// The next block of both operands, walked at the pace at which the tiles walk over this one.
template <class P>
struct Ahead {
  using S = GramShape<P>;
  using R = typename S::R;
  Walk<P::PREFETCH, ceil_div(S::G_ROWS * S::STEP * S::ROUND, S::TILES), R> x;
  Walk<P::SAME ? 0 : P::PREFETCH, ceil_div(S::G_COLUMNS * S::STEP * S::ROUND, S::TILES), R> y;

  Ahead(Operand<R> X, Operand<R> Y)
      : x{X.data, S::X_IN_ROWS ? S::G_ROWS : P::ROWS * S::WORDS, S::X_IN_ROWS ? X.row : X.column},
        y{Y.data, S::Y_IN_ROWS ? S::G_COLUMNS : P::ROWS * S::WORDS, S::Y_IN_ROWS ? Y.row : Y.column} {}
  MANSARD_INLINE void advance() {
    x.advance();
    y.advance();
  }
  // step(copy) `steps` times, copies in turn: their sums are independent, so that their fmas overlap.
  template <class Step>
  MANSARD_INLINE void walk(i64 steps, Step step) {
    for (; steps >= S::ROUND; steps -= S::ROUND) {
      MANSARD_UNROLL
      for (int i = 0; i < S::ROUND; ++i) step(i % P::UNROLL);
      advance();
    }
    for (; steps > 0; --steps) step(0);
  }
};

// G[i, j] += sum over k of X[k, i] Y[k, j], for TILE_M columns of X and TILE_N vectors of columns of Y.
template <class P, int LEADING, int TILE_M, int TILE_N, class R>
inline void tile_along_columns(Operand<R> x, Operand<R> y, i64 rows, R* G, Ahead<P>& next) {
  using S = GramShape<P>;
  using V = Vector<R, P::LANES>;
  constexpr int TILE_ROWS = TILE_M * S::WORDS;
  Ahead<P> ahead = next;
  V sums[P::UNROLL][TILE_ROWS][TILE_N] = {};

  ahead.walk(rows, [&](int copy) __attribute__((always_inline)) {
    V y_row[TILE_N];
    MANSARD_UNROLL
    for (int j = 0; j < TILE_N; ++j) y_row[j] = load<P::LANES>(y.data + j * P::LANES);
    MANSARD_UNROLL
    for (int i = 0; i < TILE_ROWS; ++i) {
      const R x_i = S::X_ROW_MAJOR ? x.data[i] : x.data[i / S::WORDS * x.column + i % S::WORDS];
      MANSARD_UNROLL
      for (int j = 0; j < TILE_N; ++j) add_product(sums[copy][i][j], x_i, y_row[j]);
    }
    x.data += x.row;
    y.data += y.row;
  });
  next = ahead;

  MANSARD_UNROLL
  for (int i = 0; i < TILE_ROWS; ++i) {
    MANSARD_UNROLL
    for (int j = 0; j < TILE_N; ++j) {
      MANSARD_UNROLL
      for (int copy = 1; copy < P::UNROLL; ++copy) sums[0][i][j] += sums[copy][i][j];
      R* const g = G + i * LEADING + j * P::LANES;
      store<P::LANES>(g, load<P::LANES>(g) + sums[0][i][j]);
    }
  }
}

// The same for TILE_M columns of X and TILE_N columns of Y; the lanes of a sum belong to successive rows.
// Complex columns alternate real and imaginary parts, so x * y has the products re re and im im in alternate
// lanes, and x times y with its parts exchanged has re im and im re.
template <class P, int TILE_M, int TILE_N, class R>
inline void tile_along_rows(Operand<R> x, Operand<R> y, i64 rows, R* G, Ahead<P>& next) {
  using S = GramShape<P>;
  using V = Vector<R, P::LANES>;
  constexpr int W = S::WORDS;
  Ahead<P> ahead = next;
  V sums[P::UNROLL][TILE_M][TILE_N][W] = {};

  ahead.walk(rows / S::STEP, [&](int copy) __attribute__((always_inline)) {
    V y_rows[TILE_N][W];
    MANSARD_UNROLL
    for (int j = 0; j < TILE_N; ++j) {
      y_rows[j][0] = load<P::LANES>(y.data + j * y.column);
      if constexpr (W == 2) y_rows[j][1] = exchange<1, R, P::LANES>(y_rows[j][0]);
    }
    MANSARD_UNROLL
    for (int i = 0; i < TILE_M; ++i) {
      const V x_rows = in_register(load<P::LANES>(x.data + i * x.column));
      MANSARD_UNROLL
      for (int j = 0; j < TILE_N; ++j) {
        MANSARD_UNROLL
        for (int w = 0; w < W; ++w) add_product(sums[copy][i][j][w], x_rows, y_rows[j][w]);
      }
    }
    x.data += P::LANES;
    y.data += P::LANES;
  });
  next = ahead;

  MANSARD_UNROLL
  for (int i = 0; i < TILE_M; ++i) {
    MANSARD_UNROLL
    for (int j = 0; j < TILE_N; ++j) {
      MANSARD_UNROLL
      for (int w = 0; w < W; ++w) {
        MANSARD_UNROLL
        for (int copy = 1; copy < P::UNROLL; ++copy) sums[0][i][j][w] += sums[copy][i][j][w];
        const V total = sum_lanes<W, R, P::LANES>(sums[0][i][j][w]);
        for (int v = 0; v < W; ++v) G[(i * W + v) * S::LEADING + j * W + (v ^ w)] += total[v];
      }
    }
  }
}

// A block as the tiles can read it: in place, or copied to `buffer`. The last rows of all are copied because
// vectors would reach past the end of the operand; anywhere else they may reach into the next row, whose
// products go to the padding of G.
template <class P, bool IN_ROWS, int COLUMNS, int PADDED, int PITCH, class R>
inline Operand<R> fetch(Operand<R> block, i64 rows, bool last, R* buffer) {
  using S = GramShape<P>;
  constexpr int W = S::WORDS;
  if constexpr (P::PACK && !IN_ROWS) {
    columns_to_rows<P::LANES, W, COLUMNS, PITCH>(buffer, block.data, block.column, rows);
    return {buffer, PITCH, W};
  } else if constexpr (P::PACK) {
    copy_padded<R>(buffer, PITCH, block.data, block.row, rows, COLUMNS * W, PADDED);
    return {buffer, PITCH, W};
  } else if constexpr (S::ALONG_K) {
    if (!last) return block;
    copy_padded<R>(buffer, P::LANES, block.data, block.column, COLUMNS, rows * W, P::LANES);
    return {buffer, W, P::LANES};
  } else {
    if (!last || !IN_ROWS) return block;
    copy_padded<R>(buffer, PADDED, block.data, block.row, rows, COLUMNS * W, PADDED);
    return {buffer, PADDED, W};
  }
}

// G += X^T Y over one block, tile by tile.
template <class P, class R>
inline void add_block(Operand<R> x, Operand<R> y, i64 rows, R* G, Ahead<P> ahead) {
  using S = GramShape<P>;
  S::TilesX::for_each([&](int i, auto tile_m) __attribute__((always_inline)) {
    const Operand<R> x_tile = x.right(S::X_ROW_MAJOR ? i * S::WORDS : i * x.column);
    S::TilesY::for_each([&](int j, auto tile_n) __attribute__((always_inline)) {
      if (S::skipped(i, j + tile_n)) return;
      const Operand<R> y_tile = y.right(S::ALONG_K ? j * y.column : j * P::LANES);
      R* const g = G + i * S::WORDS * S::LEADING + j * S::TILE_COLUMN;
      if constexpr (S::ALONG_K) tile_along_rows<P, tile_m, tile_n>(x_tile, y_tile, rows, g, ahead);
      else tile_along_columns<P, S::LEADING, tile_m, tile_n>(x_tile, y_tile, rows, g, ahead);
    });
  });
  if constexpr (S::EDGE > 0) {
    S::EdgeY::for_each([&](int j, auto tile_n) __attribute__((always_inline)) {
      R* const g = G + S::G_ROWS * S::LEADING + j * P::LANES;
      const Operand<R> last = y.right(S::LEADING), vectors = x.right(j * P::LANES);
      tile_along_columns<P, S::X_PADDED, S::EDGE / S::WORDS, tile_n>(last, vectors, rows, g, ahead);
    });
  }
}

// G = X^T Y over the rows [begin, end) of K. From row `safe` on, vectors would reach past the end.
template <class P, class R>
inline void add_part(Operand<R> x, Operand<R> y, i64 K, i64 begin, i64 end, R* G, R* buffer) {
  using S = GramShape<P>;
  const i64 x_last = S::X_IN_ROWS ? ceil_div<i64>(S::X_PADDED - S::G_ROWS, x.row) : K % S::STEP;
  const i64 y_last = S::Y_IN_ROWS ? ceil_div<i64>(S::Y_PADDED - S::G_COLUMNS, y.row) : K % S::STEP;
  const i64 safe = K - larger(x_last, y_last);
  for (int e = 0; e < S::SIZE; ++e) G[e] = 0;
  for (i64 k = begin, rows; k < end; k += rows) {
    const bool last = k >= safe;
    rows = smaller<i64>(P::ROWS, (last ? end : smaller(end, safe)) - k);
    const Ahead<P> ahead(x.below(k + P::ROWS), y.below(k + P::ROWS));
    const auto x_block = fetch<P, S::X_IN_ROWS, S::X_COLUMNS, S::X_PADDED, S::X_PITCH>(x.below(k), rows, last, buffer);
    auto y_block = x_block;
    if constexpr (!P::SAME) {
      R* const behind = buffer + S::COPIED * S::X_PITCH;
      y_block = fetch<P, S::Y_IN_ROWS, S::Y_COLUMNS, S::Y_PADDED, S::Y_PITCH>(y.below(k), rows, last, behind);
    }
    add_block<P>(x_block, y_block, round_up<i64>(rows, S::STEP), G, ahead);
  }
}

// partials[0] += all the others, pairwise, for the elements [begin, end) of each.
template <class R>
inline void add_partials(R* partials, i64 parts, i64 size, i64 begin, i64 end) {
  for (i64 distance = 1; distance < parts; distance *= 2)
    for (i64 p = 0; p + distance < parts; p += 2 * distance)
      for (i64 e = begin; e < end; ++e) partials[p * size + e] += partials[(p + distance) * size + e];
}

// Entry (m, n) of A^H B or A^T B from the real products.
template <class P, class R>
inline typename P::T entry(const R* G, int m, int n) {
  using S = GramShape<P>;
  const auto product = [&](int w, int v) {  // part w of column x of X with part v of column y of Y
    int i = (P::SWAP ? n : m) * S::WORDS + w, j = (P::SWAP ? m : n) * S::WORDS + v;
    if (P::SAME && j < i) std::swap(i, j);
    const bool in_edge = S::EDGE && j >= S::LEADING;
    return in_edge ? G[S::G_ROWS * S::LEADING + (j - S::LEADING) * S::X_PADDED + i] : G[i * S::LEADING + j];
  };
  if constexpr (S::WORDS == 1) {
    return product(0, 0);
  } else {
    const R re_im = product(0, 1), im_re = product(1, 0);
    if (!P::CONJ) return {product(0, 0) - product(1, 1), re_im + im_re};
    return {product(0, 0) + product(1, 1), P::SWAP ? im_re - re_im : re_im - im_re};
  }
}

template <class P, class Arguments>
int gram_simd(const Arguments& a) {
  using S = GramShape<P>;
  using T = typename S::T;
  using R = typename S::R;
  constexpr int W = S::WORDS, CHUNK = 512;
  const auto operand = [](const T* data, i64 leading, bool row_major) -> Operand<R> {
    return {reinterpret_cast<const R*>(data), W * (row_major ? leading : 1), W * (row_major ? 1 : leading)};
  };
  const Operand<R> A = operand(a.A, P::ROW_MAJOR_A ? a.a_row : a.a_col, P::ROW_MAJOR_A);
  const Operand<R> B = P::SAME ? A : operand(a.B, P::ROW_MAJOR_B ? a.b_row : a.b_col, P::ROW_MAJOR_B);
  const Operand<R> X = P::SWAP ? B : A, Y = P::SWAP ? A : B;
  const i64 K = a.K, parts = a.parts, part_rows = round_up<i64>(ceil_div(K, parts), 64);
  R* const partials = reinterpret_cast<R*>(a.partials);

#pragma omp parallel num_threads(static_cast<int>(smaller<i64>(a.threads, parts))) if (parts > 1)
  {
    R* const buffer = partials + parts * S::SIZE + thread_index() * S::BUFFER;
#pragma omp for schedule(dynamic)
    for (i64 p = 0; p < parts; ++p)
      add_part<P>(X, Y, K, p * part_rows, smaller(K, (p + 1) * part_rows), partials + p * S::SIZE, buffer);
#pragma omp for schedule(static)
    for (int e = 0; e < S::SIZE; e += CHUNK)
      add_partials<R>(partials, parts, S::SIZE, e, smaller(e + CHUNK, S::SIZE));
#pragma omp for schedule(static)
    for (int m = 0; m < P::M; ++m) {
      for (int n = 0; n < P::N; ++n) {
        T& c = a.C[m * a.c_row + n * a.c_col];
        const T product = times(a.alpha_re, a.alpha_im, entry<P>(partials, m, n));
        c = a.beta_re == 0 && a.beta_im == 0 ? product : product + times(a.beta_re, a.beta_im, c);
      }
    }
  }
  return 0;
}

}  // namespace mansard
