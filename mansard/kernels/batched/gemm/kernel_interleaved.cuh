// C = alpha A B + beta C for interleaved stacks: one matrix per thread.
//
// Entry (i, j) of WIDTH matrices is stored in WIDTH adjacent places, so that neighbouring threads access neighbouring
// places; groups of WIDTH matrices follow each other (interleaved.hpp). A shared operand is not interleaved. A thread
// keeps TILE_M x TILE_N entries of C in registers; operands of several tiles come from the caches again. Beyond the
// last row or column, the last one is computed again and not stored.
//
//   BLOCK           threads per block
//   TILE_M, TILE_N  the tile of C
#pragma once
#include "kernels/batched/gemm/image.cuh"

namespace mansard {

// One thread's matrix of an operand: its address, and the strides of rows and columns.
template <class Element>
struct Strand {
  Element* base;
  i64 row, column;
  MANSARD_DEVICE Strand(Element* base, bool shared, i64 group, int lane, i64 matrix, i64 row, i64 column)
      : base(base + (shared ? 0 : group * matrix + lane)), row(row), column(column) {}
};

template <class P, class T = typename P::T>
MANSARD_DEVICE void interleaved_tile(const Strand<const T>& a, const Strand<const T>& b, const Strand<T>& c, int m0,
                                     int n0, const Scales& scales) {
  T sums[P::TILE_M][P::TILE_N];
  MANSARD_UNROLL
  for (int i = 0; i < P::TILE_M * P::TILE_N; ++i) sums[i / P::TILE_N][i % P::TILE_N] = zero<T>();
  const T *rows[P::TILE_M], *columns[P::TILE_N];
  MANSARD_UNROLL
  for (int m = 0; m < P::TILE_M; ++m) rows[m] = a.base + min(m0 + m, P::M - 1) * a.row;
  MANSARD_UNROLL
  for (int n = 0; n < P::TILE_N; ++n) columns[n] = b.base + min(n0 + n, P::N - 1) * b.column;
MANSARD_UNROLL_BY(2)
  for (int k = 0; k < P::K; ++k) {
    T x[P::TILE_M], y[P::TILE_N];
    MANSARD_UNROLL
    for (int m = 0; m < P::TILE_M; ++m) x[m] = rows[m][k * a.column];
    MANSARD_UNROLL
    for (int n = 0; n < P::TILE_N; ++n) y[n] = P::CONJ_B ? conjugate(columns[n][k * b.row]) : columns[n][k * b.row];
    MANSARD_UNROLL
    for (int m = 0; m < P::TILE_M; ++m)
      MANSARD_UNROLL
      for (int n = 0; n < P::TILE_N; ++n) multiply_add<P::CONJ_A>(sums[m][n], x[m], y[n]);
  }
  MANSARD_UNROLL
  for (int m = 0; m < P::TILE_M; ++m)
    MANSARD_UNROLL
    for (int n = 0; n < P::TILE_N; ++n)
      if (m0 + m < P::M && n0 + n < P::N) {
        T* const to = c.base + (m0 + m) * c.row + (n0 + n) * c.column;
        const T value = scales.product(sums[m][n]);
        *to = P::ACCUMULATE ? scales.with_old(value, *to) : value;
      }
}

template <class P, class Arguments>
MANSARD_DEVICE void gemm_interleaved(const Arguments& x) {
  using T = typename P::T;
  const i64 matrix = static_cast<i64>(blockIdx.x) * P::BLOCK + threadIdx.x, group = matrix / P::WIDTH;
  const int lane = static_cast<int>(matrix % P::WIDTH);
  if (matrix >= x.BATCH) return;
  const Strand<const T> a(x.A, P::SHARED_A, group, lane, x.a_matrix, x.a_row, x.a_col);
  const Strand<const T> b(x.B, P::SHARED_B, group, lane, x.b_matrix, x.b_row, x.b_col);
  const Strand<T> c(x.C, false, group, lane, x.c_matrix, x.c_row, x.c_col);
  const Scales scales{x.alpha_re, x.alpha_im, x.beta_re, x.beta_im};
MANSARD_UNROLL_BY(1)
  for (int m = 0; m < P::M; m += P::TILE_M)
MANSARD_UNROLL_BY(1)
    for (int n = 0; n < P::N; n += P::TILE_N) interleaved_tile<P>(a, b, c, m, n, scales);
}

}  // namespace mansard
