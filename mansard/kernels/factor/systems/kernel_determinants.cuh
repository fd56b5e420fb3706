// Determinants from LU factors, for a batch: products of diagonals, with a sign from the exchanges of rows.
//
//   determinant  x = (-1)^e u_00 u_11 ...       e of the pivots are other rows than their own
//   logdet       x = (-1)^e prod u_ii / |u_ii|  and  s = sum log |u_ii|; x = 0 and s = -inf for a singular matrix
//
// INFO, if it is not null, says which matrices are singular: some libraries leave NaN behind a pivot that is zero.
//
// Team. A warp per matrix; lane i has diagonal entries i, i + 32, ..., and the lanes multiply in a fixed tree.
// No shared memory; the only exchanges are shuffles. Limits: latency of the loads, a sector for each diagonal entry.
//
//   WARPS  matrices per block
#pragma once
#include "mansard/gpu/factor_scalars.cuh"

#if defined(MANSARD_EMULATED)
extern "C" double log(double) noexcept;
#endif

namespace mansard {

enum class Want { determinant, logdet };

template <class P, class Arguments>
MANSARD_DEVICE void systems_determinants(const Arguments& a) {
  using T = typename P::T;
  using R = typename Scalar<T>::Real;
  constexpr bool LOG = P::WANT == Want::logdet;
  const int lane = threadIdx.x % 32;
  for (i64 m = i64(blockIdx.x) * P::WARPS + threadIdx.x / 32; m < a.BATCH; m += i64(gridDim.x) * P::WARPS) {
    const T* const diagonal = a.A + m * a.a_matrix;
    const int* const pivots = a.PIVOTS + m * a.N;
    T product = from_real<T>(R(1));
    R sum = R(0);
    int exchanges = 0;
    for (i64 i = lane; i < a.N; i += 32) {
      T entry = diagonal[i * (a.a_row + a.a_col)];
      exchanges += pivots[i] != i;
      if constexpr (LOG) {
        const R size = modulus(entry);
        sum += static_cast<R>(log(static_cast<double>(size)));
        if (size != R(0)) entry = divided(entry, size);  // NaN stays NaN
      }
      product = product_of<false>(product, entry);
    }
    MANSARD_UNROLL
    for (int mask = 16; mask > 0; mask /= 2) {
      product = product_of<false>(product, lane_value<32>(product, lane ^ mask));
      exchanges += lane_value<32>(exchanges, lane ^ mask);
      if constexpr (LOG) sum += lane_value<32>(sum, lane ^ mask);
    }
    if (lane == 0) {
      if (a.INFO != nullptr && a.INFO[m] > 0) {
        product = zero<T>();
        sum = LOG ? R(log(0.0)) : R(0);
      }
      a.X[m] = exchanges % 2 ? negated(product) : product;
      if constexpr (LOG) a.SQUARES[m] = sum;
    }
  }
}

}  // namespace mansard
