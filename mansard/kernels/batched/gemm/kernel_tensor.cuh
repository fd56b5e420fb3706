// C = alpha A B + beta C on the double-precision tensor cores: WARPS_M x WARPS_N warps per matrix or per tile of it,
// panels of A and B through shared memory.
//
//   WARPS_M, WARPS_N        warps of a team along the rows and the columns of C
//   BLK_M, BLK_N, BLK_K     the tile of C, and columns of A per panel
//   KSTEP                   values of k per instruction
//   PER_BLOCK, STAGES, OUT  panels.cuh
#pragma once
#include "kernels/batched/gemm/tensor_tile.cuh"

namespace mansard {

template <class P, class Arguments>
MANSARD_DEVICE void gemm_tensor(const Arguments& arguments) {
  using S = PanelShape<P, P::WARPS_M * P::WARPS_N * 32>;
  gemm_panels<P, S, TensorTile<P, S>>(arguments);
}

}  // namespace mansard
