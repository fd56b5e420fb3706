// A = L L^H, or solutions of A X = B, for a batch of small matrices: LANES_M x LANES_N lanes hold a matrix in tiles.
//
// Step k:  a_ij -= a_ik * conj(a_jk) / a_kk for i >= j > k. Columns stay unscaled until the end: l_ik = a_ik /
// sqrt(a_kk) is formed after the last step. Right-hand sides as in kernel_lanes.cuh.
//
// Team. Lane (down, across) holds rows r * LANES_M + down of the columns slot * SPAN + across * RUN + 0 .. RUN - 1,
// where SPAN = LANES_N * RUN (tile_part.cuh). A team is part of a warp, a warp, or two warps that are a block.
//
// Shared memory:
//   columns   PLACES = 3 places of COLUMN elements per team: two for the pivot column (step k uses place k % 2, written
//             by the lanes that own the column), one for 1 / l_kk of all steps (written by lane (0, 0))
//   matrices  factor_group: images of A, then F; B, then X (group.cuh)
//             factor_wedges (PIECE > 0): the lower triangle only, A, then F (wedge.cuh)
//             factor_direct, factor_ragged: none, but (SLAB > 0) a slab per team through which rows of F leave
//
// Phases, with barriers (meet: __syncwarp, or __syncthreads for two warps) as barrier -> buffer -> writer:
//   1  copy A                    -> images or triangles -> copies of other lanes (not with DIRECT, RAGGED)
//   2  load tiles; N steps       -> column place k % 2 -> owners of the column, one barrier per step
//   3  after the last step       -> inverses -> lane (0, 0);  image -> F of other lanes
//   4  scale columns, write F    -> image, triangle or slab -> the other lanes
//   5  store F to global memory, or substitute and store X
//
// Limits: memory bandwidth to 64 rows of float64 (90 % of a copy and more, H200). complex128 of 57 to 64 rows: 210
// registers, two warps per scheduler, 63 to 67 %.
#pragma once
#include "kernels/factor/cholesky/group.cuh"
#include "kernels/factor/cholesky/tile.cuh"
#include "kernels/factor/cholesky/wedge.cuh"

namespace mansard {

template <class P, class Arguments>
MANSARD_DEVICE void cholesky_tile(const Arguments& arguments) {
  using Worker = Tile<typename P::T, P::N, P::LANES_M, P::LANES_N, P::RUN, P::NRHS, P::RAGGED>;
  if constexpr (P::RAGGED) factor_ragged<P, Worker>(arguments);
  else if constexpr (P::DIRECT) factor_direct<P, Worker>(arguments);
  else if constexpr (P::PIECE > 0) factor_wedges<P, Worker>(arguments);
  else factor_group<P, Worker>(arguments);
}

}  // namespace mansard
