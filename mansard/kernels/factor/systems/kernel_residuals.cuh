// Squared residuals of least squares: s_c = sum_i |b_ic - sum_j a_ij x_jc|^2 for every column c of a batch.
//
// Team. A warp has a matrix and LANES_N of its columns (an item). Of each column, 32 / LANES_N lanes have every so many
// rows, RUN of them at a time, so that an entry of X serves RUN products. Lanes of a column add their sums in a fixed
// tree. Strides are arguments. INFO = N: the rank that solutions by QR assume.
//
// No shared memory; the only exchanges are shuffles. Limits: memory; A is read once for LANES_N columns, the rest of
// them find it in the cache.
//
//   LANES_N  lanes along columns, a power of two
//   WARPS    items per block
#pragma once
#include "mansard/gpu/factor_scalars.cuh"

namespace mansard {

template <class P, class Arguments>
MANSARD_DEVICE void systems_residuals(const Arguments& a) {
  using T = typename P::T;
  using R = typename Scalar<T>::Real;
  constexpr int RUN = 4, LANES_N = P::LANES_N, LANES_M = 32 / LANES_N;
  const int lane = threadIdx.x % 32, own_row = lane / LANES_N;
  const i64 groups = (a.NRHS + LANES_N - 1) / LANES_N, items = a.BATCH * groups;
  for (i64 item = i64(blockIdx.x) * P::WARPS + threadIdx.x / 32; item < items; item += i64(gridDim.x) * P::WARPS) {
    const i64 matrix = item / groups, column = item % groups * LANES_N + lane % LANES_N;
    const i64 c = min(column, a.NRHS - 1);  // lanes beyond the last column repeat it, and store nothing
    const T* const A = a.A + matrix * a.a_matrix;
    const T* const B = a.B + matrix * a.b_matrix + c * a.b_col;
    const T* const X = a.X + matrix * a.x_matrix + c * a.x_col;
    R sum = R(0);
    for (i64 row = own_row; row < a.M; row += RUN * LANES_M) {
      T rest[RUN];
      i64 at[RUN];
      MANSARD_UNROLL
      for (int r = 0; r < RUN; ++r) {
        at[r] = min(row + r * LANES_M, a.M - 1);
        rest[r] = B[at[r] * a.b_row];
      }
      MANSARD_UNROLL_BY(2)
      for (i64 j = 0; j < a.N; ++j) {
        const T x = X[j * a.x_row];
        MANSARD_UNROLL
        for (int r = 0; r < RUN; ++r) multiply_subtract<false>(rest[r], A[at[r] * a.a_row + j * a.a_col], x);
      }
      MANSARD_UNROLL
      for (int r = 0; r < RUN; ++r)
        if (row + r * LANES_M < a.M) sum += modulus_square(rest[r]);
    }
    MANSARD_UNROLL
    for (int mask = LANES_N; mask < 32; mask *= 2) sum += __shfl_xor_sync(0xffffffffu, sum, mask);
    if (lane < LANES_N && column < a.NRHS) a.SQUARES[matrix * a.NRHS + column] = sum;
    if (lane == 0 && item % groups == 0) a.INFO[matrix] = static_cast<int>(a.N);
  }
}

}  // namespace mansard
