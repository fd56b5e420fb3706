// C = alpha A B + beta C for a batch on the double-precision tensor cores: WARPS_M x WARPS_N warps per tile of C.
//
// Panels of A and B pass through a ring in shared memory; memory map and barriers are in panels.cuh. A warp has tiles
// of 16 x 16 in registers (tensor_tile.cuh).
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
