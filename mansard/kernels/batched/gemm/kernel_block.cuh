// C = alpha A B + beta C for a batch of small matrices: DIM_X x DIM_Y threads per tile of C, which is in registers.
//
// Panels of A and B pass through a ring in shared memory; memory map and barriers are in panels.cuh. A thread has rows
// DIM_Y apart and columns DIM_X apart (lane_tile.cuh).
//
//   DIM_X, DIM_Y            threads of a team along the columns and the rows of C
//   BLK_M, BLK_N, BLK_K     the tile of C, and columns of A per panel
//   PER_BLOCK, STAGES, OUT  panels.cuh
#pragma once
#include "kernels/batched/gemm/lane_tile.cuh"
#include "kernels/batched/gemm/panels.cuh"

namespace mansard {

template <class P, class S>
struct BlockTile : LaneTile<P, S::M, S::N, P::DIM_Y, P::DIM_X, typename S::A, typename S::B> {
  using Tile = LaneTile<P, S::M, S::N, P::DIM_Y, P::DIM_X, typename S::A, typename S::B>;
  static constexpr int PUT = Tile::Columns::READ;
  using Tile::Tile;
};

template <class P, class Arguments>
MANSARD_DEVICE void gemm_block(const Arguments& arguments) {
  using S = PanelShape<P, P::DIM_X * P::DIM_Y>;
  gemm_panels<P, S, BlockTile<P, S>>(arguments);
}

}  // namespace mansard
