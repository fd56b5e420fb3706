// Linear combinations of finished vectors: RESULT[set] = sum over k of weights[set][k] v_k, k ascending.
#pragma once
#include "kernels/sparse/powers/rows.cuh"

namespace mansard {

template <class P, class Arguments>
MANSARD_DEVICE void powers_combine(const Arguments& arguments) {
  constexpr int N = P::NVECS;
  const Vectors<P> vectors = {arguments.X, nullptr, arguments.VECTORS, arguments.step, arguments.RESULT};
  const i64 stride = static_cast<i64>(gridDim.x) * P::BLOCK;
  for (i64 row = static_cast<i64>(blockIdx.x) * P::BLOCK + threadIdx.x; row < arguments.ROWS; row += stride) {
    typename P::T newest[N];
    for (int v = 0; v < N; ++v) newest[v] = vectors.source(P::P)[row * N + v];
    combine<P>(arguments, vectors, row, newest);
  }
}

}  // namespace mansard
