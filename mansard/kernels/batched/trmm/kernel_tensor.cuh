// X = alpha A B for a batch of triangles A on the double-precision tensor cores: WARPS_M x WARPS_N warps for all rows of
// BLK_N columns of X, or (SPLIT) for BLK_M rows of them.
//
// Block row i of BLK_M rows, in registers (tensor_tile.cuh):  X_i = alpha sum over j of A_ij B_j, with j <= i for a
// lower triangle and j >= i for an upper one.
//
// Memory map and barriers are in block_rows.cuh.
//
// Limits: memory bandwidth for one block of A; beyond, reads of shared memory and tensor cores.
//
//   BLK_M, BLK_N      order of the blocks of A; columns of X per thread block
//   WARPS_M, WARPS_N  warps along the rows and the columns of X
//   STAGES            blocks of A in flight
//   SPLIT             a thread block has one block row of X
//   ADJACENT          entries of a row of X that may be stored at once
#pragma once
#include "kernels/batched/trmm/block_rows.cuh"
#include "kernels/batched/trmm/tensor_tile.cuh"

namespace mansard {

template <class P, class Arguments>
MANSARD_DEVICE void trmm_tensor(const Arguments& arguments) {
  using S = BlockRowsShape<P, P::WARPS_M * P::WARPS_N * 32>;
  using Tile = TriangleTensorTile<P, S::ROWS, S::COLUMNS, typename S::A, typename S::B>;
  static_assert(S::STRIPS + P::WARPS_M * P::WARPS_N * Tile::STRIP_BYTES <= P::SHARED_BYTES, "shared memory");
  multiply_block_rows<P, S, Tile>(arguments);
}

}  // namespace mansard
