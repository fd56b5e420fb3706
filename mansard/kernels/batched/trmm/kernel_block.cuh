// X = alpha A B for a batch of triangles A: DIM_X x DIM_Y threads for all rows of BLK_N columns of X, or (SPLIT) for
// BLK_M rows of them.
//
// Block row i of BLK_M rows, in registers (triangle_tile.cuh):  X_i = alpha sum over j of A_ij B_j, with j <= i for a
// lower triangle and j >= i for an upper one.
//
// Team. All threads of a block; a thread has rows DIM_Y apart and columns DIM_X apart.
//
// Memory map and barriers are in block_rows.cuh.
//
// Limits: memory bandwidth for some dozens of columns; beyond, arithmetic. Copies of a product do not overlap with its
// own arithmetic, if it has one block of A, but with that of other blocks of threads.
//
//   BLK_M, BLK_N  order of the blocks of A; columns of X per thread block
//   DIM_X, DIM_Y  threads along the columns and the rows of X
//   STAGES        blocks of A in flight
//   SPLIT         a thread block has one block row of X
//   ADJACENT      entries of a row of X that may be stored at once
#pragma once
#include "kernels/batched/trmm/block_rows.cuh"
#include "kernels/batched/trmm/triangle_tile.cuh"

namespace mansard {

template <class P, class Arguments>
MANSARD_DEVICE void trmm_block(const Arguments& arguments) {
  using S = BlockRowsShape<P, P::DIM_X * P::DIM_Y>;
  using Tile = TriangleTile<P, S::ROWS, S::COLUMNS, P::DIM_Y, P::DIM_X, typename S::A, typename S::B>;
  multiply_block_rows<P, S, Tile>(arguments);
}

}  // namespace mansard
