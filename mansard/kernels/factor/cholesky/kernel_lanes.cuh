// A = L L^H, or solutions of A X = B, for a batch of tiny matrices: LANES lanes of a warp share a matrix by rows.
//
// Step k:  l_kk = sqrt(a_kk);  l_ik = a_ik / l_kk for i > k;  a_ij -= l_ik * conj(l_jk) for i >= j > k;  with
// right-hand sides y_k = b_k / l_kk, b_i -= l_ik * y_k. Backward substitution L^H x = y follows.
//
// Team. A warp has 32 / LANES teams, each with one matrix; row i is in slot i / LANES of lane i % LANES (rows.cuh).
// LANES = 1: a thread holds the whole triangle, and nothing goes through shared memory during the steps.
//
// Shared memory of a warp (group.cuh; LANES > 1 for the columns):
//   offset                bytes          content, in time
//   0                     PLACE_A        A image; then the F image, or (solve) L in the place of A
//   PLACE_A               PLACE_B        B image; y replaces B; then the X image (solve)
//   PLACE_A + PLACE_B     PLACE_COLUMNS  per team two places for the pivot column, its right-hand sides behind it;
//                                        step k uses place k % 2
//
// Phases, with barriers (all __syncwarp) as barrier -> buffer -> writer:
//   1  copy A (and B)            -> images -> asynchronous copies of other lanes
//   2  load rows; N steps        -> column place k % 2 -> the other lanes of the team, one barrier per step
//   3  all steps done            -> A image -> F image, or L, of other lanes
//   4  write F, or L and y       -> F, or L and y -> the other lanes
//   5  solve: substitute         -> y -> X image;  then -> X image -> the other lanes
//   6  store F or X to global memory
//
// Limits: memory bandwidth (95 to 108 % of a copy at 2 to 16 rows of float64, H200).
#pragma once
#include "kernels/factor/cholesky/group.cuh"
#include "kernels/factor/cholesky/rows.cuh"

namespace mansard {

template <class P, class Arguments>
MANSARD_DEVICE void cholesky_lanes(const Arguments& arguments) {
  factor_group<P, Rows<typename P::T, P::N, P::LANES, P::NRHS>>(arguments);
}

}  // namespace mansard
