// C = alpha A op(A) + beta C, or alpha A op(B) + its transpose + beta C, for a batch on CPUs: one triangle is computed.
//
// The factors are packed into the workspace first, a row for each k with one entry of every row of A; real and
// imaginary parts are planes of their own. Lanes run along the columns of C: a vector of op(A) times an entry of A. A tile
// of TILE_M rows and TILE_N vectors stays in registers; tiles above the diagonal are left out. The triangle is gathered
// in the workspace and written in the order of memory, with its mirror where all of C is wanted.
//
// Threads take contiguous parts of the batch. The products of an entry are added in the order of k.
//
// Workspace of a thread, in reals: planes of A, planes of B with two factors, planes of the triangle.
//
// Params beside T, N, K, UPLO, TWO, CONJ_A|B, CONJ_ALPHA, ACCUMULATE, LAYOUT_A|B|C, STACK_A|B|C:
//   LANES           reals per vector
//   TILE_M, TILE_N  rows and vectors of C per register tile
#pragma once
#include "kernels/batched/gemm/kernel.hpp"

namespace mansard {

enum class LayoutA { row, col, any };
enum class LayoutB { row, col, any };
enum class LayoutC { row, col, any };
enum class Uplo { lower, upper, full };

template <class P>
struct RankShape {
  using T = typename P::T;
  using R = typename Scalar<T>::Real;
  using V = Vector<R, P::LANES>;
  static constexpr int WORDS = Scalar<T>::WORDS, N = P::N, K = P::K, LANES = P::LANES;
  static constexpr int COLUMNS = P::TILE_N * LANES, ROWS = round_up(N, P::TILE_M);
  static constexpr int LINE = CACHE_LINE / static_cast<int>(sizeof(R));
  static constexpr int PITCH = round_up(larger(round_up(N, COLUMNS), ROWS), LINE);
  static constexpr int FACTOR = K * PITCH, TRIANGLE = ROWS * PITCH;  // reals of a plane
  static constexpr int WORKSPACE = WORDS * ((P::TWO ? 2 : 1) * FACTOR + TRIANGLE);
  static constexpr bool HERMITIAN = P::CONJ_A != P::CONJ_B, SCALED_FACTOR = P::TWO && HERMITIAN && WORDS == 2;
  static_assert(LANES >= 2 && LANES <= native_lanes<R>);
};

// Pack a factor: entry k of row i becomes entry i of line k; what pads a line is zero, or a copy of the last row.
template <class P, bool K_ADJACENT, bool SCALED, class Arguments>
inline void pack_factor(typename RankShape<P>::R* __restrict to, const typename P::T* from, i64 row, i64 column,
                        const Arguments& a) {
  using S = RankShape<P>;
  using R = typename S::R;
  if constexpr (S::WORDS == 1 && K_ADJACENT) {
    columns_to_rows<S::LANES, 1, S::N, S::PITCH>(to, from, row, S::K);
    return;
  }
  for (int k = 0; k < S::K; ++k) {
    R* __restrict line = to + k * S::PITCH;
    const typename P::T* entries = from + k * column;
    if constexpr (S::WORDS == 1) {
      for (int i = 0; i < S::N; ++i) line[i] = entries[i * row];
    } else {
      for (int i = 0; i < S::N; ++i) {
        auto x = entries[i * row];
        if constexpr (SCALED) x = times(a.alpha_re, P::CONJ_ALPHA ? -a.alpha_im : a.alpha_im, x);
        line[i] = x.re, line[S::FACTOR + i] = x.im;
      }
    }
    for (int plane = 0; plane < S::WORDS; ++plane)
      for (int i = S::N; i < S::PITCH; ++i) line[plane * S::FACTOR + i] = 0;
  }
}

// Add x_i op(y_j) for the rows i of a tile and its columns j.
template <class P>
MANSARD_INLINE void add_products(const typename RankShape<P>::R* x, const typename RankShape<P>::R* y,
                                 typename RankShape<P>::V (&sums)[P::TILE_M][P::TILE_N][RankShape<P>::WORDS]) {
  using S = RankShape<P>;
  using R = typename S::R;
  constexpr R LEFT = P::CONJ_A ? -1 : 1, RIGHT = P::CONJ_B ? -1 : 1;
  typename S::V columns[P::TILE_N][S::WORDS];
  MANSARD_UNROLL
  for (int n = 0; n < P::TILE_N; ++n)
    MANSARD_UNROLL
    for (int w = 0; w < S::WORDS; ++w) columns[n][w] = in_register(load<S::LANES>(y + w * S::FACTOR + n * S::LANES));
  MANSARD_UNROLL
  for (int m = 0; m < P::TILE_M; ++m) {
    const R re = x[m];
    MANSARD_UNROLL
    for (int n = 0; n < P::TILE_N; ++n) {
      if constexpr (S::WORDS == 1) {
        add_product(sums[m][n][0], re, columns[n][0]);
      } else {
        const R im = x[S::FACTOR + m];
        add_product(sums[m][n][0], re, columns[n][0]);
        add_product(sums[m][n][1], RIGHT * re, columns[n][1]);
        subtract_product(sums[m][n][0], LEFT * RIGHT * im, columns[n][1]);
        add_product(sums[m][n][1], LEFT * im, columns[n][0]);
      }
    }
  }
}

// Compute the tiles of the lower triangle.
template <class P>
inline void form_triangle(const typename RankShape<P>::R* x, const typename RankShape<P>::R* y,
                          typename RankShape<P>::R* __restrict triangle) {
  using S = RankShape<P>;
  using V = typename S::V;
  for (int i = 0; i < S::N; i += P::TILE_M) {
    const int end = smaller(i + P::TILE_M, S::N);
    for (int j = 0; j < end; j += S::COLUMNS) {
      V sums[P::TILE_M][P::TILE_N][S::WORDS]{};
      for (int k = 0; k < S::K; ++k) {
        add_products<P>(x + k * S::PITCH + i, y + k * S::PITCH + j, sums);
        if constexpr (P::TWO) add_products<P>(y + k * S::PITCH + i, x + k * S::PITCH + j, sums);
      }
      MANSARD_UNROLL
      for (int m = 0; m < P::TILE_M; ++m)
        MANSARD_UNROLL
        for (int n = 0; n < P::TILE_N; ++n)
          MANSARD_UNROLL
          for (int w = 0; w < S::WORDS; ++w)
            store<S::LANES>(triangle + w * S::TRIANGLE + (i + m) * S::PITCH + j + n * S::LANES, sums[m][n][w]);
    }
  }
}

// Write entries first .. last - 1 of a row of C. BELOW: they are those of the computed triangle, otherwise its mirror.
template <class P, bool BELOW, class Arguments>
MANSARD_INLINE void write_row(typename P::T* __restrict to, const typename RankShape<P>::R* __restrict triangle, int row,
                              int first, int last, const Arguments& a) {
  using S = RankShape<P>;
  using T = typename P::T;
  const i64 step = P::LAYOUT_C == LayoutC::any ? a.c_col : 1;
  for (int column = first; column < last; ++column) {
    const int place = BELOW ? row * S::PITCH + column : column * S::PITCH + row;
    T entry;
    if constexpr (S::WORDS == 1) entry = triangle[place];
    else entry = {triangle[place], BELOW || !S::HERMITIAN ? triangle[S::TRIANGLE + place] : -triangle[S::TRIANGLE + place]};
    if constexpr (!S::SCALED_FACTOR) entry = times(a.alpha_re, a.alpha_im, entry);
    if constexpr (P::ACCUMULATE) entry = entry + times(a.beta_re, a.beta_im, to[column * step]);
    if constexpr (S::WORDS == 2 && S::HERMITIAN)
      if (row == column) entry.im = 0;
    to[column * step] = entry;
  }
}

template <class P, class Arguments>
inline void write_triangle(typename P::T* to, const typename RankShape<P>::R* triangle, const Arguments& a) {
  constexpr bool FULL = P::UPLO == Uplo::full;
  for (int row = 0; row < P::N; ++row) {
    typename P::T* line = to + row * a.c_row;
    if constexpr (FULL || P::UPLO == Uplo::lower) write_row<P, true>(line, triangle, row, 0, row + 1, a);
    if constexpr (FULL || P::UPLO == Uplo::upper) write_row<P, false>(line, triangle, row, FULL ? row + 1 : row, P::N, a);
  }
}

// Address of matrix b of a stack.
template <auto STACK, class T>
MANSARD_INLINE T* matrix_of(T* data, i64 step, i64 b) {
  using Stack = decltype(STACK);
  if constexpr (STACK == Stack::pointers) return reinterpret_cast<T* const*>(data)[b];
  else if constexpr (STACK == Stack::shared) return data;
  else return data + b * step;
}

template <class P, class Arguments>
int rank_k_simd(const Arguments& a) {
  using S = RankShape<P>;
  using R = typename S::R;
  R* const workspace = reinterpret_cast<R*>(a.partials);
  const i64 products = a.BATCH * P::N * (P::N + 1) / 2 * P::K * S::WORDS * S::WORDS;
  in_parts(a.BATCH, a.threads, products, [&](i64 begin, i64 end, i64 part) {
    R* const x = workspace + part * S::WORKSPACE;
    R* const y = P::TWO ? x + S::WORDS * S::FACTOR : x;
    R* const triangle = y + S::WORDS * S::FACTOR;
    for (i64 b = begin; b < end; ++b) {
      pack_factor<P, P::LAYOUT_A == LayoutA::row, S::SCALED_FACTOR>(x, matrix_of<P::STACK_A>(a.A, a.a_matrix, b),
                                                                    a.a_row, a.a_col, a);
      if constexpr (P::TWO)
        pack_factor<P, P::LAYOUT_B == LayoutB::row, false>(y, matrix_of<P::STACK_B>(a.B, a.b_matrix, b), a.b_row,
                                                           a.b_col, a);
      form_triangle<P>(x, y, triangle);
      write_triangle<P>(matrix_of<P::STACK_C>(a.C, a.c_matrix, b), triangle, a);
    }
  });
  return 0;
}

}  // namespace mansard
