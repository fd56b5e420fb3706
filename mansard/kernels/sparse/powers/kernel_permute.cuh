// Rows of vectors in another order: TO[c][i] = FROM[c][MAP[i]], NVECS adjacent entries at a time.
#pragma once
#include "kernels/sparse/powers/rows.cuh"

namespace mansard {

template <class P, class Arguments>
MANSARD_DEVICE void powers_permute(const Arguments& arguments) {
  const i64 rows = arguments.ROWS, stride = static_cast<i64>(gridDim.x) * P::BLOCK;
  for (i64 i = static_cast<i64>(blockIdx.x) * P::BLOCK + threadIdx.x; i < rows; i += stride) {
    const i64 from = arguments.MAP[i];
MANSARD_UNROLL_BY(4)
    for (i64 c = 0; c < arguments.count; ++c)
      for (int v = 0; v < P::NVECS; ++v)
        arguments.TO[c * arguments.to_step + i * P::NVECS + v] =
            arguments.FROM[c * arguments.from_step + from * P::NVECS + v];
  }
}

}  // namespace mansard
