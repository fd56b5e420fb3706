// C = alpha A B + beta C with operands read through the read-only cache, without shared memory: the cache-based kernel
// of Masliah, Abdelfattah, Haidar, Tomov, Baboulin, Falcou and Dongarra (2016). The other kernels are compared with it.
//
// DIM_X x DIM_Y threads form the product of one matrix; a thread has entries DIM_X columns and DIM_Y rows apart.
// PER_BLOCK matrices share a thread block.
#pragma once
#include "kernels/batched/gemm/operands.cuh"

namespace mansard {

template <class T>
MANSARD_DEVICE T load_readonly(const T* address) {
  return __ldg(address);
}
template <class R>
MANSARD_DEVICE Complex<R> load_readonly(const Complex<R>* address) {
  return {__ldg(&address->re), __ldg(&address->im)};
}

template <class P, class Arguments>
MANSARD_DEVICE void gemm_readonly(const Arguments& arguments) {
  using T = typename P::T;
  constexpr int TEAM = P::DIM_X * P::DIM_Y, ROWS = ceil_div(P::M, P::DIM_Y), COLUMNS = ceil_div(P::N, P::DIM_X);
  const Operands<P, Arguments> operands(arguments);
  const int tx = threadIdx.x % P::DIM_X, ty = threadIdx.x % TEAM / P::DIM_X;
  const i64 step = static_cast<i64>(gridDim.x) * P::PER_BLOCK;
  // beyond the last row or column, the last one is computed again and not stored
  const auto row = [&](int r) { return min(ty + r * P::DIM_Y, P::M - 1); };
  const auto column = [&](int c) { return min(tx + c * P::DIM_X, P::N - 1); };
  const i64 begin = static_cast<i64>(blockIdx.x) * P::PER_BLOCK + threadIdx.x / TEAM;
MANSARD_UNROLL_BY(1)
  for (i64 index = begin; index < arguments.BATCH; index += step) {
    const T* A = matrix_at(arguments.A, arguments.a_matrix, index);
    const T* B = matrix_at(arguments.B, arguments.b_matrix, index);
    T* C = matrix_at(arguments.C, arguments.c_matrix, index);
    T sums[ROWS][COLUMNS];
    MANSARD_UNROLL
    for (int i = 0; i < ROWS * COLUMNS; ++i) sums[i / COLUMNS][i % COLUMNS] = zero<T>();
MANSARD_UNROLL_BY(4)
    for (int k = 0; k < P::K; ++k) {
      T a[ROWS];
      MANSARD_UNROLL
      for (int r = 0; r < ROWS; ++r) a[r] = load_readonly(A + row(r) * arguments.a_row + k * arguments.a_col);
      MANSARD_UNROLL
      for (int c = 0; c < COLUMNS; ++c) {
        const T b = load_readonly(B + k * arguments.b_row + column(c) * arguments.b_col);
        MANSARD_UNROLL
        for (int r = 0; r < ROWS; ++r) multiply_add<P::CONJ_A>(sums[r][c], a[r], P::CONJ_B ? conjugate(b) : b);
      }
    }
    MANSARD_UNROLL
    for (int i = 0; i < ROWS * COLUMNS; ++i) {
      const int m = ty + i / COLUMNS * P::DIM_Y, n = tx + i % COLUMNS * P::DIM_X;
      if (m >= P::M || n >= P::N) continue;
      T* at = C + m * arguments.c_row + n * arguments.c_col;
      const T product = operands.scales.product(sums[i / COLUMNS][i % COLUMNS]);
      *at = P::ACCUMULATE ? operands.scales.with_old(product, *at) : product;
    }
  }
}

}  // namespace mansard
